"""Fixtures for everybody: real brokers, started once and shared.

Tests share brokers, so each makes topic and group names of its own (`tests.support.kafka.unique`).
The tests of a file run in one process, also where there are several (`pytest -n 2`).
On a machine without Java or Kafka's jars the tests that need them are skipped, with the reason;
under `CI=true` nothing may be skipped.
"""

import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
import structlog
from hypothesis import settings

from lagwatch.core.judged import Judged
from lagwatch.errors import MissingPartError
from lagwatch.hiding import remember
from lagwatch.kafka.embedded import EmbeddedKafka, ScramOverTls
from tests.support.browser import Browser, browsing
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.thorough import THOROUGH

_Server = TypeVar("_Server", EmbeddedKafka, EmbeddedElasticsearch)
_CI = os.environ.get("CI", "").lower() in {"1", "true"}
_SERVERS = frozenset(
    {
        "kafka",
        "own_kafka",
        "secure_kafka",
        "three_brokers",
        "elasticsearch",
        "own_elasticsearch",
        "spark",
    }
)

# how long an example takes says nothing on a machine under load
settings.register_profile("full", deadline=None)
settings.register_profile("usual", deadline=None, max_examples=30)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("full" if THOROUGH else "usual")
# rounds judge all rows as well, in every test: what was not judged must be the same
Judged.compares_every = 1 if THOROUGH else 5


@pytest.fixture(autouse=True)
def _own_log() -> Iterator[None]:
    """Undo what a test does to the log: its stream may be one that ends with the test.

    A command run in this process sets the log up, as every command does. What a later test writes
    to a stream that is closed by then would come out as an error on that test's stderr.
    """
    root = logging.getLogger()
    handlers, level, structlog_settings = root.handlers[:], root.level, structlog.get_config()
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    remember(())  # what was a secret in one test is a word in the next
    structlog.configure(**structlog_settings)


@pytest.fixture(scope="session")
def kafka() -> Iterator[EmbeddedKafka]:
    """One plaintext broker, shared by all tests of the session: do not stop it."""
    yield from _started(EmbeddedKafka())


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[EmbeddedKafka]:
    """One plaintext broker for the tests of this module, which may kill and restart it."""
    yield from _started(EmbeddedKafka())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of this module."""
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="session")
def elasticsearch() -> Iterator[EmbeddedElasticsearch]:
    """One Elasticsearch node, shared by all tests of the session: use an index prefix of your own.

    Do not stop or pause it.
    """
    yield from _started(EmbeddedElasticsearch())


@pytest.fixture(scope="module")
def own_elasticsearch() -> Iterator[EmbeddedElasticsearch]:
    """One Elasticsearch node for the tests of this module, which may kill and pause it."""
    yield from _started(EmbeddedElasticsearch())


@pytest.fixture(scope="session")
def secure_kafka() -> Iterator[EmbeddedKafka]:
    """One broker behind SCRAM over TLS with ACLs: `admin` may do everything, `alice` nothing."""
    users = {"admin": "admin-secret", "alice": "alice-secret"}
    yield from _started(EmbeddedKafka(security=ScramOverTls(users=users)))


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[EmbeddedKafka]:
    """Three plaintext brokers, replication factor 3; a test that kills one starts it again."""
    yield from _started(EmbeddedKafka(brokers=3))


def _started(cluster: _Server) -> Iterator[_Server]:
    try:
        cluster.start()
    except MissingPartError as error:
        if _CI:
            raise
        pytest.skip(str(error))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark the tests that need a server, and mix the files for several processes."""
    _mark_server(items)  # before pytest selects by marks
    if not THOROUGH:
        _leave_out_thorough(config, items)
    yield
    if hasattr(config, "workerinput"):  # one of several processes of pytest-xdist
        places = _places(items)
        items.sort(key=lambda item: places[item.path])


def _leave_out_thorough(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _mark_server(items: list[pytest.Item]) -> None:
    """By fixture, or by a parameter that names it."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        named = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if _SERVERS & {*item.fixturenames, *(name for name in named if isinstance(name, str))}:
            item.add_marker(pytest.mark.server)


def _places(items: list[pytest.Item]) -> dict[Path, float]:
    """Where each file comes in the whole run, 0..1.

    Some tests wait for minutes and need little of the processor, others need all of it: in the
    order of the folders the first would leave it idle, and the others crowd it. So files are
    shuffled, always alike; those that take longest begin in the first half, so that none of them
    is left alone at the end.
    """
    files = {item.path: zlib.crc32(item.path.name.encode()) / (1 << 32) for item in items}
    long = {item.path for item in items if item.get_closest_marker("minutes")}
    return {path: place / 2 if path in long else place for path, place in files.items()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why a run in CI fails although no test did."""
    if _CI and terminalreporter.stats.get("skipped"):
        terminalreporter.section("skipped tests fail this run, because CI is set", red=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failure: nobody would look."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _CI and exitstatus == pytest.ExitCode.OK and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
