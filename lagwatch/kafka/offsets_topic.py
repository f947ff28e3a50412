"""Reads an internal topic of Kafka: all partitions, no group, no commits of our own."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AclOperation, TopicDescription
from numpy.typing import NDArray

from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.admin import printed_id
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients, kafka_error
from lagwatch.kafka.log_ends import EARLIEST, LATEST, ask_offsets
from lagwatch.ports.kafka import ConsumedRecords, Span

BATCH: Final = 10_000
"""Records taken at once; also the most rows a batch can have."""
_WAIT_S: Final = 0.5
"""A batch is what comes in this time: each costs about the same, however few records it has."""


class KafkaOffsetsTopic:
    """The offsets topic of one cluster, or `topic`, as an `OffsetsTopicSource`."""

    def __init__(
        self,
        clients: KafkaClients,
        topic: str = "",
        *,
        with_times: bool = False,
        uncommitted: bool = False,
    ) -> None:
        """Make the consumer; connects to nothing yet.

        `with_times`: say when records were written. `uncommitted`: read what open and aborted
        transactions wrote, too.

        Raises:
            SourceError: the client library refuses the configuration.
        """
        self._clients = clients
        self._topic = topic or clients.settings.offsets_topic
        self._with_times = with_times
        self._uncommitted = uncommitted
        self._consumer: Consumer = clients.reader(uncommitted=uncommitted)
        self._positions: dict[int, int] = {}
        self._topic_id = ""
        self._problem: KafkaError | None = None

    @property
    def topic_id(self) -> str:
        """Id of the topic that `spans` last found; "" where the broker gives none."""
        return self._topic_id

    async def spans(self) -> Mapping[int, Span]:
        """All partitions up to their last stable offset; empty as long as there is no topic.

        Raises:
            SourceError: `authorization` when it is not visible or not readable, `leader` while a
                partition has none.
        """
        topic = await self._described()
        if topic is None:
            return {}
        self._demand_read(topic)
        self._topic_id = printed_id(topic)
        partitions = [partition.id for partition in topic.partitions]
        starts = await self._offsets(partitions, EARLIEST)
        ends = await self._offsets(partitions, LATEST, IsolationLevel.READ_COMMITTED)
        return {each: Span(start=starts[each], end=ends[each]) for each in partitions}

    async def unstable(self) -> Mapping[int, int]:
        """The last stable offset of each partition that an open transaction holds back.

        Raises:
            SourceError: as by `spans`.
        """
        stable = {each: span.end for each, span in (await self.spans()).items()}
        ends = await self._offsets([*stable], LATEST) if stable else {}
        return {each: stable[each] for each, end in ends.items() if end > stable[each]}

    async def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._positions = dict(positions)
        wanted = [TopicPartition(self._topic, each, at) for each, at in positions.items()]
        await self._clients.call(
            lambda: self._consumer.assign(wanted), doing=f"assigning {self._topic}"
        )

    async def renew(self) -> None:
        """Go on at the same positions with a new consumer; the old one ends by itself.

        Raises:
            SourceError: the client library refuses the configuration.
        """
        old, self._consumer = self._consumer, self._clients.reader(uncommitted=self._uncommitted)
        # not waited for: the consumer is given up because it no longer does what it should
        asyncio.get_running_loop().run_in_executor(None, old.close)
        await self.assign(self._positions)

    async def read(self) -> ConsumedRecords:
        """Up to `BATCH` records; waits a moment for the first ones.

        Raises:
            SourceError: the topic cannot be read (any more).
        """
        if self._problem is not None:
            problem, self._problem = self._problem, None
            raise self._refused(problem)
        return await self._clients.call(self._read, doing=f"reading {self._topic}")

    def _read(self) -> ConsumedRecords:
        messages = self._consumer.consume(BATCH, _WAIT_S)
        keys = list(map(Message.key, messages))
        if None in keys:  # what is not a record has no key: ends of partitions, errors
            messages = self._sift(messages)
            keys = list(map(Message.key, messages))
        orders = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
        self._advance()
        return ConsumedRecords(
            keys=keys,
            values=list(map(Message.value, messages)),
            orders=orders,
            positions=dict(self._positions),
            times_ms=_times_ms(messages) if self._with_times else None,
        )

    def _sift(self, messages: list[Message]) -> list[Message]:
        """Keep the records.

        Handle the messages that are not records: ends of partitions, errors.
        """
        for message in messages:
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None or partition is None or offset is None:
                continue
            if error.code() == codes.END_OF_PARTITION:
                self._positions[partition] = max(offset, self._positions.get(partition, 0))
            elif not error.retriable():
                self._problem = error
        return [message for message in messages if message.error() is None]

    def _advance(self) -> None:
        """Positions move over records handed out; gaps at the end show as end of partition."""
        assigned = [TopicPartition(self._topic, each) for each in self._positions]
        for position in self._consumer.position(assigned):
            number = position.partition
            self._positions[number] = max(position.offset, self._positions[number])

    async def _described(self) -> TopicDescription | None:
        asked = self._clients.admin.describe_topics(
            TopicCollection([self._topic]),
            include_authorized_operations=True,
            request_timeout=REQUEST_TIMEOUT_S,
        )[self._topic]
        try:
            return await self._clients.call(
                lambda: asked.result(REQUEST_TIMEOUT_S + 1), doing=f"looking for {self._topic}"
            )
        except SourceError as error:
            code = _code(error)
            if code in codes.NO_TOPIC:
                return None
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise missing_right(
                    self._clients.cluster, self._topic, "DESCRIBE and READ"
                ) from error
            raise

    def _demand_read(self, topic: TopicDescription) -> None:
        allowed = topic.authorized_operations
        # nothing: a broker that does not say; then reading itself shows it
        if allowed and AclOperation.READ not in allowed:
            raise missing_right(self._clients.cluster, self._topic, "READ")

    async def _offsets(
        self,
        partitions: list[int],
        spec: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        asked = ask_offsets(
            self._clients.admin,
            [TopicPartition(self._topic, each, spec) for each in partitions],
            isolation=isolation,
            timeout_s=REQUEST_TIMEOUT_S,
        )
        doing = f"asking for the offsets of {self._topic}"
        answers = await self._clients.call(lambda: asked.result(REQUEST_TIMEOUT_S + 1), doing=doing)
        found = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise await self._clients.explain(answer, doing=doing)
            found[partition.partition] = answer.offset
        return found

    def _refused(self, problem: KafkaError) -> SourceError:
        if problem.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return missing_right(self._clients.cluster, self._topic, "READ")
        return self._clients.causes.error(problem, doing=f"reading {self._topic}")


def _times_ms(messages: Sequence[Message]) -> NDArray[np.int64]:
    stamps = (message.timestamp()[1] for message in messages)
    return np.fromiter(stamps, np.int64, len(messages))


def missing_right(cluster: str, topic: str, operations: str) -> SourceError:
    """The error for an internal topic without the right to read it, with the missing ACL."""
    return SourceError(
        cluster=cluster,
        kind="authorization",
        message=f"{topic} may not be read; grant: Allow {operations} on TOPIC {topic}",
    )


def _code(error: SourceError) -> int:
    """The client library's own code of a failure."""
    return codes.FAILED if error.__cause__ is None else kafka_error(error.__cause__).code()
