"""Committed offsets through the Admin API, many groups in flight.

The client library may abort the process when a broker goes away during these calls, so they are
made in a process that may die.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

from lagwatch.kafka.client import KafkaClients, kafka_error
from lagwatch.sources import CommittedOffsets

_IN_FLIGHT: Final = 50
_GROUPS_AT_ONCE: Final = 100
"""Groups whose answers are held at the same time: bounds memory, not speed."""
_TIMEOUT_S: Final = 10.0

_Answer = Future[ConsumerGroupTopicPartitions]


class KafkaCommitted:
    """Committed offsets of any groups, as a `CommittedSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """Answers for all groups, `_GROUPS_AT_ONCE` at a time; needs DESCRIBE only."""
        for start in range(0, len(groups), _GROUPS_AT_ONCE):
            chunk = groups[start : start + _GROUPS_AT_ONCE]
            yield await asyncio.to_thread(self._ask, chunk)

    def _ask(self, groups: Sequence[str]) -> list[CommittedOffsets]:
        """Keep `_IN_FLIGHT` requests under way until all are answered."""
        done: SimpleQueue[tuple[str, _Answer]] = SimpleQueue()
        found: list[CommittedOffsets] = []
        for number, group in enumerate(groups):
            if number >= _IN_FLIGHT:
                found.append(self._take(*done.get(timeout=_TIMEOUT_S + 5)))
            self._send(group, done)
        while len(found) < len(groups):
            found.append(self._take(*done.get(timeout=_TIMEOUT_S + 5)))
        return found

    def _send(self, group: str, done: "SimpleQueue[tuple[str, _Answer]]") -> None:
        future: _Answer = self._clients.admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=_TIMEOUT_S
        )[group]
        future.add_done_callback(lambda answer: done.put((group, answer)))

    def _take(self, group: str, answer: _Answer) -> CommittedOffsets:
        try:
            partitions = answer.result(0).topic_partitions or []
        except KafkaException as error:
            return self._no_answer(group, kafka_error(error))
        valid = [each for each in partitions if each.offset >= 0 and each.error is None]
        return CommittedOffsets(
            group=group,
            topics=[each.topic for each in valid],
            partitions=[each.partition for each in valid],
            offsets=[each.offset for each in valid],
        )

    def _no_answer(self, group: str, error: KafkaError) -> CommittedOffsets:
        refused = error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        message = str(self._clients.causes.error(error, doing=f"committed offsets of {group}"))
        return CommittedOffsets(
            group=group,
            topics=(),
            partitions=(),
            offsets=(),
            refused=refused,
            problem="" if refused else message,
        )
