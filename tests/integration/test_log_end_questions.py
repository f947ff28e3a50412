"""Which log ends a real broker is asked for in a round."""

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from confluent_kafka import IsolationLevel, Producer

from lagwatch.clock import SystemClock
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_ends import KafkaLogEnds
from lagwatch.ports.kafka import LogEndRound, TopicListing
from tests.support.collecting import settings
from tests.support.kafka import create_topic, produce, unique
from tests.support.waiting import eventually

PARTITIONS = 3


class _Asking(KafkaClients):
    """Counts the partitions asked for, by isolation."""

    def __init__(self, kafka: EmbeddedKafka) -> None:
        super().__init__("here", settings(kafka), SystemClock())
        self.last_stable = 0

    async def ask(self, question, *, timeout_s):
        if question.keywords["isolation"] is IsolationLevel.READ_COMMITTED:
            self.last_stable += len(question.keywords["partitions"])
        return await super().ask(question, timeout_s=timeout_s)


class _Rounds:
    """Rounds of log ends of one topic."""

    def __init__(self, kafka: EmbeddedKafka, runner: asyncio.Runner) -> None:
        self.topic = create_topic(kafka, partitions=PARTITIONS)
        self.clients = _Asking(kafka)
        self._source = KafkaLogEnds(self.clients)
        self._runner = runner
        every = self._runner.run(KafkaTopics(self.clients).list_topics())
        at = every.names.index(self.topic)
        first = int(every.partitions[:at].sum())
        self._listing = TopicListing(
            names=(self.topic,),
            partitions=every.partitions[at : at + 1],
            leader=every.leader[first : first + PARTITIONS],
        )

    def next(self, *wanted: int) -> tuple[LogEndRound, int]:
        """One more round, and of how many partitions it asked for the last stable offset."""
        self.clients.last_stable = 0
        rows = np.isin(np.arange(PARTITIONS), wanted) if wanted else None
        found = self._runner.run(
            self._source.log_ends(self._listing, with_log_start=True, wanted=rows)
        )
        return found, self.clients.last_stable


@pytest.fixture
def rounds(kafka: EmbeddedKafka) -> Iterator[_Rounds]:
    with asyncio.Runner() as runner:
        yield _Rounds(kafka, runner)


def test_a_resting_partition_is_not_asked_for_its_last_stable_offset(
    kafka: EmbeddedKafka, rounds: _Rounds
) -> None:
    produce(kafka, rounds.topic, 3)

    first, asked_first = rounds.next()
    second, asked_second = rounds.next()
    produce(kafka, rounds.topic, 2, partition=1)
    third, asked_third = rounds.next()

    assert (asked_first, asked_second, asked_third) == (PARTITIONS, 0, 1)
    assert first.last_stable.tolist() == second.last_stable.tolist() == [3, 0, 0]
    assert third.last_stable.tolist() == third.log_end.tolist() == [3, 2, 0]


def test_while_a_transaction_is_open_its_partition_is_asked_on(
    kafka: EmbeddedKafka, rounds: _Rounds
) -> None:
    rounds.next()
    producer = Producer(kafka.admin_config() | {"transactional.id": unique("open")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(rounds.topic, b"held", partition=2)
    producer.flush(30)

    held, _ = rounds.next()
    still, asked = rounds.next()
    producer.commit_transaction(30)

    def ends() -> bool:
        over, _ = rounds.next()
        return bool(over.last_stable[2] == over.log_end[2])

    assert asked == 1
    assert [each.last_stable[2] < each.log_end[2] for each in (held, still)] == [True, True]
    # the broker writes the mark of its end a moment after it has answered
    eventually(ends, "everything is stable")


def test_partitions_that_are_not_wanted_have_the_offsets_of_the_round_before(
    kafka: EmbeddedKafka, rounds: _Rounds
) -> None:
    produce(kafka, rounds.topic, 3)
    rounds.next()
    produce(kafka, rounds.topic, 2)
    produce(kafka, rounds.topic, 4, partition=1)

    some, _ = rounds.next(1, 2)
    every, _ = rounds.next()

    assert some.log_end.tolist() == some.last_stable.tolist() == [3, 4, 0]
    assert some.problems == ()
    assert every.log_end.tolist() == every.last_stable.tolist() == [5, 4, 0]
