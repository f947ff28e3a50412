"""Committed offsets through the Admin API; needs DESCRIBE only."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka.admin import AdminClient

from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.group_calls import GroupCalls
from lagwatch.sources import CommittedOffsets


class KafkaCommitted:
    """Committed offsets of any groups, as a `CommittedSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._calls = GroupCalls(clients, _ask)

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """Answers for all groups, in chunks as they come."""
        async for answers in self._calls.ask_all(groups):
            yield [self._read(group, answer) for group, answer in answers]

    def _read(
        self, group: str, answer: ConsumerGroupTopicPartitions | KafkaError
    ) -> CommittedOffsets:
        if isinstance(answer, KafkaError):
            return self._no_answer(group, answer)
        told = answer.topic_partitions or []
        valid = [each for each in told if each.offset >= 0 and each.error is None]
        return CommittedOffsets(
            group=group,
            topics=[each.topic for each in valid],
            partitions=[each.partition for each in valid],
            offsets=[each.offset for each in valid],
        )

    def _no_answer(self, group: str, error: KafkaError) -> CommittedOffsets:
        refused = error.code() in codes.AUTHORIZATION
        reason = self._clients.causes.error(error, doing="asking for committed offsets")
        return CommittedOffsets(
            group=group,
            topics=(),
            partitions=(),
            offsets=(),
            refused=refused,
            problem="" if refused else str(reason),
        )


def _ask(admin: AdminClient, group: str, timeout_s: float) -> Future[ConsumerGroupTopicPartitions]:
    asked: dict[str, Future[ConsumerGroupTopicPartitions]] = admin.list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], request_timeout=timeout_s
    )
    return asked[group]
