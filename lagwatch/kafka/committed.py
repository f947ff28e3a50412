"""Committed offsets through the Admin API; needs DESCRIBE only."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka.admin import AdminClient

from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.group_calls import Answer, GroupCalls
from lagwatch.ports.kafka import CommittedOffsets


class KafkaCommitted:
    """Committed offsets of any groups, as a `CommittedSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._calls = GroupCalls(clients, _ask)

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """Answers for all groups, in chunks as they come."""
        async for answers in self._calls.ask_all(groups):
            yield [self._read(answer) for answer in answers]

    def _read(self, answer: Answer[ConsumerGroupTopicPartitions]) -> CommittedOffsets:
        if isinstance(answer.value, KafkaError) and answer.value.code() not in codes.NO_GROUP:
            return self._no_answer(answer, answer.value)
        # a group of a kind that commits no offsets has none
        told = [] if isinstance(answer.value, KafkaError) else answer.value.topic_partitions or []
        valid = [each for each in told if each.offset >= 0 and each.error is None]
        return CommittedOffsets(
            group=answer.group,
            topics=[each.topic for each in valid],
            partitions=[each.partition for each in valid],
            offsets=[each.offset for each in valid],
            asked_ms=answer.asked_ms,
            answered_ms=answer.answered_ms,
        )

    def _no_answer(
        self, answer: Answer[ConsumerGroupTopicPartitions], error: KafkaError
    ) -> CommittedOffsets:
        refused = error.code() in codes.AUTHORIZATION
        reason = self._clients.causes.error(error, doing="asking for committed offsets")
        return CommittedOffsets(
            group=answer.group,
            topics=(),
            partitions=(),
            offsets=(),
            asked_ms=answer.asked_ms,
            answered_ms=answer.answered_ms,
            refused=refused,
            problem="" if refused else str(reason),
        )


def _ask(admin: AdminClient, group: str, timeout_s: float) -> Future[ConsumerGroupTopicPartitions]:
    asked: dict[str, Future[ConsumerGroupTopicPartitions]] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=timeout_s
    )
    return asked[group]
