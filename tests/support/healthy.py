"""Consumers that keep up, of every kind that applications use."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import KafkaException

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, Actor, Properties, assigned, reading
from tests.support.kafka import Transactions, commit, create_topic, unique
from tests.support.traffic import producer_of
from tests.support.watched import Watched

_SELDOM: Final[Properties] = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 10_000}
_RATE: Final = 20


class Healthy:
    """Groups that keep up, one of each kind."""

    def __init__(self, kafka: EmbeddedKafka, more: Mapping[str, Properties] = {}) -> None:
        """`more`: properties of members of further kinds."""
        self.kafka = kafka
        self.groups: list[str] = []
        self.actors: list[Actor] = []
        for kind, properties in {**KINDS, **more}.items():
            self._add(kind, properties)
        self._add("seldom", _SELDOM)
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

    def unreported(self, watches: Sequence[Watched], *, kafka_was_away: bool = False) -> None:
        """No group was ever an error, and no notice was sent.

        Where Kafka was away one about the cluster is right: on a busy machine it may be a minute.
        """
        for watched in watches:
            for group in self.groups:
                shown = watched.shown[group]
                assert "ERR" not in watched.statuses(group), f"{group} ({watched.mode}): {shown}"
            notices = [each for each in watched.notices if each[0] or not kafka_was_away]
            assert not notices, f"{watched.mode}: {notices}"


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


@contextlib.contextmanager
def busy_machine() -> Iterator[None]:
    """Something else takes all the time it can get on one core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
