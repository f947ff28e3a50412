"""`lagwatch serve` ends soon after SIGTERM, whatever it is waiting for."""

import contextlib
import os
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.receiver import Reply, receiving
from tests.support.served import Served, serving
from tests.support.traffic import committing, running
from tests.support.waiting import eventually

pytestmark = pytest.mark.minutes

_BOUND_S = 8.0
"""As the systemd unit says."""
_SLACK_S = 1.5
_HANGS = [Reply(after_s=600)] * 100


@contextlib.contextmanager
def _frozen(kafka: EmbeddedKafka) -> Iterator[None]:
    (pid,) = kafka.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        # the next test uses this broker: its controller takes it back before long
        eventually(lambda: _creates_topics(kafka), "the broker serves again", timeout_s=120)


_ALONE: Final = ("broker", "store", "webhook")


def _creates_topics(kafka: EmbeddedKafka) -> bool:
    try:
        create_topic(kafka, "thawed")
    except (KafkaException, TimeoutError):
        return False
    return True


def _ask_history(served: Served, group: str) -> None:
    path = f"/api/v1/clusters/here/groups/{group}/history"
    with contextlib.suppress(OSError):
        urllib.request.urlopen(served.base + path, timeout=60).close()  # noqa: S310 loopback


def _stop(served: Served) -> tuple[float, int]:
    """Seconds from the signal to the end, and the exit code."""
    began_s = time.monotonic()
    served.process.send_signal(signal.SIGTERM)
    code = served.process.wait(timeout=60)
    return time.monotonic() - began_s, code


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "hangs",
    [*(pytest.param(each, marks=pytest.mark.thorough) for each in ("nothing", *_ALONE)), "all"],
)
def test_it_ends_within_the_time_that_its_unit_says(
    own_kafka: EmbeddedKafka, tmp_path: Path, hangs: str
) -> None:
    topic, group = create_topic(own_kafka, "stop"), unique("stalled")
    produce(own_kafka, topic, 100)
    commit(own_kafka, group, topic, 1)
    replies = {
        part: _HANGS if hangs in (part, "all") else [Reply(body="{}")]
        for part in ("store", "webhook")
    }
    with (
        receiving(*replies["store"]) as store,
        receiving(*replies["webhook"]) as webhook,
        running(committing(own_kafka, group, topic, lambda _: 1, every_s=1.0)),
    ):
        sections = (
            "[evaluator]\ninterval_s = 0.5\nstop_after_s = 10\nstall_after_s = 10\n"
            f'[history]\nstore = "elasticsearch"\nspool = "{tmp_path / "spool"}"\n'
            "interval_s = 1\nflush_s = 1\n"
            f'[history.elasticsearch]\nurls = ["{store.url}"]\n'
            f'[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\ngroup_wait_s = 0.1\n'
            f'[alerts.webhook.hook]\nurl = "{webhook.url}"\n'
        )
        with (
            serving(
                own_kafka.bootstrap_servers,
                cluster={"commits": "offsets-topic", "log_end_interval_s": 1},
                sections=sections,
            ) as served,
            contextlib.ExitStack() as frozen,
        ):
            served.wait_ready()
            eventually(lambda: bool(store.requests), "the store is asked")
            eventually(lambda: bool(webhook.requests), "a notice is sent", timeout_s=120)
            asking = threading.Thread(target=_ask_history, args=(served, group), daemon=True)
            asking.start()
            if hangs in ("broker", "all"):
                frozen.enter_context(_frozen(own_kafka))
                eventually(lambda: served.health()["age_s"] > 4, "the broker is missed")
            took_s, code = _stop(served)
            log = served.log.read_text()
        asking.join(30)

    assert took_s < _BOUND_S + _SLACK_S
    assert code == 0
    assert "stopped" in log or "stop_did_not_wait" in log


def test_an_open_page_is_no_error_when_it_stops() -> None:
    with serving("127.0.0.1:1", sections='[history]\nstore = "none"\n') as served:
        with urllib.request.urlopen(served.base + "/api/v1/stream", timeout=60) as page:  # noqa: S310 loopback
            page.readline()
            took_s, code = _stop(served)
        log = served.log.read_text()

    assert code == 0
    assert took_s < _BOUND_S
    assert '"level":"error"' not in log, log
