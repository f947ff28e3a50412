"""Reads ranges of the offsets topic: planned once, each then read by itself, from start to end."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from numpy.typing import NDArray

from lagwatch.clock import Clock, SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.core.model import UNKNOWN
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients, kafka_error
from lagwatch.kafka.offsets_at import NEWEST, KafkaOffsetsAt, newest_of
from lagwatch.kafka.offsets_topic import BATCH, KafkaOffsetsTopic, missing_right
from lagwatch.kafka.patience import REQUEST_TIMEOUT_S
from lagwatch.sources import Span

_WAIT_S: Final = 0.25
_LOOK_AFTER_S: Final = 2.0
_STALLED_S: Final = 30.0
"""Without any record for so long a range cannot be read."""
_ONLY_BROKERS_WRITE: Final = "__consumer_offsets"
_SLACK_MS: Final = 60_000
"""A commit's own time lies this close to that of its record, at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Records of one partition of the offsets topic: from `start` up to, not including, `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBatch:
    """Some records of a range, in order."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    orders: NDArray[np.int64]
    stamp: Callable[[int], int]
    """Time (epoch ms) of the record at a position, as the log has it; -1 unknown."""


def plan_ranges(
    cluster: str,
    settings: ClusterSettings,
    *,
    from_ms: int,
    to_ms: int,
    records_per_range: int,
    clock: Clock | None = None,
) -> list[OffsetRange]:
    """Ranges that hold all commits of a time, each of at most so many offsets.

    The first range of a partition begins one record before the time, so that one can see whether
    records just before it are gone. Of a copy of the topic everything from the time on is read:
    its records may be younger than the commits in them. Empty when there is no topic.

    Raises:
        SourceError: the topic cannot be read, or nobody answers.
    """
    clients = KafkaClients(cluster, settings, clock or SystemClock())
    return asyncio.run(_plan(clients, from_ms, to_ms, records_per_range))


async def _plan(
    clients: KafkaClients, from_ms: int, to_ms: int, records_per_range: int
) -> list[OffsetRange]:
    spans = {
        partition: span
        for partition, span in (await KafkaOffsetsTopic(clients).spans()).items()
        if span.end > span.start
    }
    starts = await _first_at(clients, spans, from_ms)
    ends = {partition: span.end for partition, span in spans.items()}
    if clients.settings.offsets_topic == _ONLY_BROKERS_WRITE:
        ends = await _first_at(clients, spans, to_ms + _SLACK_MS)
    return [
        part
        for partition, span in sorted(spans.items())
        for part in _split(
            OffsetRange(
                partition=partition,
                start=max(span.start, starts[partition] - 1),
                end=ends[partition],
            ),
            records_per_range,
        )
    ]


async def _first_at(clients: KafkaClients, spans: Mapping[int, Span], at_ms: int) -> dict[int, int]:
    """Per partition the first record of a time or later; its end where there is none."""
    if at_ms <= 0:
        return {partition: span.start for partition, span in spans.items()}
    places = [(clients.settings.offsets_topic, partition) for partition in spans]
    asked = KafkaOffsetsAt(clients)
    newest = await asked.ask(places, np.full(len(spans), NEWEST, np.int64))
    newest_ms = newest_of(newest, np.array([span.start for span in spans.values()], np.int64))
    found = await asked.first_at(places, np.full(len(spans), at_ms, np.int64), newest_ms)
    return {
        # what was written since the spans were asked for is not ours to read
        partition: span.end if offset == UNKNOWN else min(max(offset, span.start), span.end)
        for (partition, span), offset in zip(spans.items(), found.offset.tolist(), strict=True)
    }


def _split(whole: OffsetRange, most: int) -> Iterator[OffsetRange]:
    """Parts of nearly equal length."""
    length = whole.end - whole.start
    if length <= 0:
        return
    parts = -(-length // most)
    borders = [whole.start + length * part // parts for part in range(parts + 1)]
    for start, end in pairwise(borders):
        yield OffsetRange(partition=whole.partition, start=start, end=end)


def read_range(
    cluster: str, settings: ClusterSettings, wanted: OffsetRange, *, clock: Clock | None = None
) -> Iterator[RangeBatch]:
    """All records of a range, in order; ends as soon as the last is read, without waiting.

    Raises:
        SourceError: the range cannot be read, or is not there any more.
    """
    clock = clock or SystemClock()
    clients = KafkaClients(cluster, settings, clock)
    consumer = clients.reader(bulk=True)
    try:
        yield from _Range(clients, consumer, wanted, clock).read()
    finally:
        consumer.close()


class _Range:
    """One range being read."""

    def __init__(
        self, clients: KafkaClients, consumer: Consumer, wanted: OffsetRange, clock: Clock
    ) -> None:
        self._clients = clients
        self._consumer = consumer
        self._wanted = wanted
        self._clock = clock
        self._topic = clients.settings.offsets_topic
        self._next = wanted.start
        self._over = False

    def read(self) -> Iterator[RangeBatch]:
        start = TopicPartition(self._topic, self._wanted.partition, self._wanted.start)
        try:
            self._consumer.assign([start])
            yield from self._batches()
        except KafkaException as error:
            raise self._explained(kafka_error(error)) from error

    def _batches(self) -> Iterator[RangeBatch]:
        heard_s = self._clock.monotonic_s()
        while self._next < self._wanted.end and not self._over:
            messages = self._consumer.consume(BATCH, _WAIT_S)
            keys = list(map(Message.key, messages))
            if None in keys:  # ends of partitions and errors have no key
                messages = self._sift(messages)
                keys = list(map(Message.key, messages))
            if not messages:
                self._demand_alive(self._clock.monotonic_s() - heard_s)
                continue
            heard_s = self._clock.monotonic_s()
            batch = self._within(messages, keys)
            if batch.orders.size:
                yield batch

    def _demand_alive(self, silent_s: float) -> None:
        """Find out why nothing comes: of a deleted topic the client library tells nothing."""
        if silent_s > _STALLED_S:
            raise self._explained(KafkaError(codes.TIMED_OUT))
        if silent_s > _LOOK_AFTER_S:
            listed = self._clients.admin.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S)
            error = listed.topics[self._topic].error
            if error is not None and error.code() in codes.NO_TOPIC:
                raise self._gone()

    def _within(self, messages: list[Message], keys: list[bytes | None]) -> RangeBatch:
        orders = np.fromiter(map(Message.offset, messages), np.int64, len(messages))
        self._next = int(orders[-1]) + 1
        kept = int(np.searchsorted(orders, self._wanted.end))
        return RangeBatch(
            keys=keys[:kept],
            values=list(map(Message.value, messages[:kept])),
            orders=orders[:kept],
            stamp=lambda row: int(messages[row].timestamp()[1]),
        )

    def _sift(self, messages: list[Message]) -> list[Message]:
        """Keep the records; see what the others tell."""
        for message in messages:
            error = message.error()
            if error is None:
                continue
            if error.code() == codes.END_OF_PARTITION:
                self._end_of_partition(message.offset() or 0)
            elif error.code() in codes.OFFSET_GONE:
                raise self._gone()
            elif not error.retriable():
                raise self._explained(error)
        return [message for message in messages if message.error() is None]

    def _end_of_partition(self, at: int) -> None:
        """The last offsets of a range may hold no record that is handed out."""
        if at < self._wanted.end:
            raise self._gone()
        self._over = True

    def _explained(self, error: KafkaError) -> SourceError:
        doing = f"reading {self._topic}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return missing_right(self._clients.cluster, self._topic, "READ")
        return asyncio.run(self._clients.explain(error, doing=doing))

    def _gone(self) -> SourceError:
        wanted = self._wanted
        return SourceError(
            cluster=self._clients.cluster,
            kind="protocol",
            message=f"offsets {wanted.start} to {wanted.end} of partition {wanted.partition} of "
            f"{self._topic} were there and are gone: somebody deleted records, or the topic, "
            "which may be a new one. Run it again.",
        )
