"""Healthy consumers of every kind are never reported, whatever happens around them.

The rules are the defaults, with times that are a sixth of the default ones.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.healthy import Healthy, busy_machine
from tests.support.kafka import commit, create_topic, unique
from tests.support.traffic import running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

pytestmark = pytest.mark.minutes

_EVALUATOR: Final = "[evaluator]\nstop_after_s = 30\nstall_after_s = 50\n"
_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1}


@pytest.fixture(scope="module")
def healthy(own_kafka: EmbeddedKafka) -> Iterator[Healthy]:
    """The groups, under way; they have committed before any service starts."""
    commit(own_kafka, unique("first"), create_topic(own_kafka, "first"), 0)
    groups = Healthy(own_kafka)
    with running(*groups.actors):
        yield groups


@contextlib.contextmanager
def _both(kafka: EmbeddedKafka, *, start: str = "earliest") -> Iterator[Sequence[Watched]]:
    """One service per way to read commits; that of the offsets topic begins at `start`."""
    begins: dict[str, dict[str, Any]] = {"offsets-topic": {"start": start}, "admin": {}}
    with contextlib.ExitStack() as stack:
        watches = [
            stack.enter_context(
                watching(kafka, mode, sections=_EVALUATOR, **_CLUSTER, **begins[mode])
            )
            for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
        yield watches


def _watch_for(seconds: float) -> None:
    """Let time pass, which is what these tests are about."""
    threading.Event().wait(seconds)


@pytest.mark.timeout(240)
def test_fresh_starts_on_a_busy_machine_report_nothing(healthy: Healthy) -> None:
    with busy_machine():
        for start in ("earliest", "latest"):
            with _both(healthy.kafka, start=start) as watches:
                for watched in watches:
                    eventually(lambda watched=watched: healthy.shown_by(watched), "all groups")  # type: ignore[misc]
                _watch_for(4)
                healthy.unreported(watches)


@pytest.mark.timeout(240)
def test_a_broker_that_is_killed_frozen_and_back_makes_no_report(healthy: Healthy) -> None:
    kafka = healthy.kafka
    with _both(kafka) as watches:
        for watched in watches:
            eventually(lambda watched=watched: healthy.shown_by(watched), "all groups")  # type: ignore[misc]
        kafka.kill_broker(0)
        _watch_for(30)
        kafka.start_broker(0)
        _seen_again(watches)
        _watch_for(6)
        (pid,) = kafka.pids
        os.kill(pid, signal.SIGSTOP)
        try:
            _watch_for(20)
        finally:
            os.kill(pid, signal.SIGCONT)
        _seen_again(watches)
        _watch_for(6)
        healthy.unreported(watches, kafka_was_away=True)


def _seen_again(watches: Sequence[Watched]) -> None:
    """Wait until both services have read log ends from now on."""
    since_s = time.monotonic()
    for watched in watches:
        eventually(lambda watched=watched: _fresh(watched, since_s), "log ends after it")  # type: ignore[misc]


def _fresh(watched: Watched, since_s: float) -> bool:
    age_s = watched.served.health()["age_s"]
    return age_s is not None and age_s < time.monotonic() - since_s
