"""Healthy consumers of every kind are never reported, whatever happens around them.

The rules are the defaults, with times that are a sixth of the default ones.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, Actor, Properties, assigned, reading
from tests.support.kafka import Transactions, commit, create_topic, unique
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

_EVALUATOR: Final = "[evaluator]\nstop_after_s = 30\nstall_after_s = 50\n"
_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1}
_SLOW: Final[Properties] = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 10_000}
_RATE: Final = 20


class Healthy:
    """Groups that keep up, one of each kind."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        self.kafka = kafka
        self.groups: list[str] = []
        self.actors: list[Actor] = []
        for kind, properties in KINDS.items():
            self._add(kind, properties)
        self._add("seldom", _SLOW)
        topic, group = self._named("simple")
        self.actors += [producer_of(kafka, topic, rate=_RATE), assigned(kafka, group, topic)]
        # at its end there is a control record, for good
        topic, group = self._named("finished")
        transactions = Transactions(kafka)
        transactions.write(topic, 25)
        transactions.commit()
        commit(kafka, group, topic, 25)

    def _named(self, kind: str) -> tuple[str, str]:
        group = unique(kind)
        self.groups.append(group)
        return create_topic(self.kafka, kind, partitions=1), group

    def _add(self, kind: str, properties: Properties) -> None:
        topic, group = self._named(kind)
        transactional = kind == "read-committed"
        write = _in_transactions if transactional else _plainly
        self.actors += [
            write(self.kafka, topic),
            reading(self.kafka, group, topic, properties=properties),
        ]

    def shown_by(self, watched: Watched) -> bool:
        """Is each of the groups shown that commits while the service runs?"""
        return all(
            group in watched.shown for group in self.groups if not group.startswith("finished")
        )

    def unreported(self, watches: Sequence[Watched]) -> None:
        """No group was ever an error, and no notice was sent."""
        for watched in watches:
            for group in self.groups:
                shown = watched.shown[group]
                assert "ERR" not in watched.statuses(group), f"{group} ({watched.mode}): {shown}"
            assert not watched.notices, watched.mode


def _plainly(kafka: EmbeddedKafka, topic: str) -> Actor:
    return producer_of(kafka, topic, rate=_RATE)


def _in_transactions(kafka: EmbeddedKafka, topic: str) -> Actor:
    """Five messages in a transaction, again and again; while Kafka is away, none."""

    def act(stop: threading.Event) -> None:
        transactions: Transactions | None = None
        while not stop.wait(1.0):
            try:
                transactions = transactions or Transactions(kafka)
                transactions.write(topic, 5)
                transactions.commit()
            except KafkaException:
                transactions = None  # Kafka ends what is open

    return act


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


@contextlib.contextmanager
def _busy_machine() -> Iterator[None]:
    """Something else takes all the time it can get on one core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _watch_for(seconds: float) -> None:
    """Let time pass, which is what these tests are about."""
    threading.Event().wait(seconds)


@pytest.mark.timeout(240)
def test_fresh_starts_on_a_busy_machine_report_nothing(healthy: Healthy) -> None:
    with _busy_machine():
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
        _watch_for(6)
        (pid,) = kafka.pids
        os.kill(pid, signal.SIGSTOP)
        try:
            _watch_for(20)
        finally:
            os.kill(pid, signal.SIGCONT)
        back_s = time.monotonic()
        for watched in watches:
            eventually(lambda watched=watched: _fresh(watched, back_s), "log ends after it")  # type: ignore[misc]
        _watch_for(6)
        healthy.unreported(watches)


def _fresh(watched: Watched, since_s: float) -> bool:
    age_s = watched.served.health()["age_s"]
    return age_s is not None and age_s < time.monotonic() - since_s
