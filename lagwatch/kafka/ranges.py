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
from lagwatch.kafka.client import REQUEST_TIMEOUT_S, KafkaClients, kafka_error
from lagwatch.kafka.offsets_at import NEWEST, KafkaOffsetsAt, OffsetsAt, newest_of
from lagwatch.kafka.offsets_topic import BATCH, KafkaOffsetsTopic, missing_right
from lagwatch.ports.kafka import Span

_WAIT_S: Final = 0.25
_LOOK_AFTER_S: Final = 2.0
_STALLED_S: Final = 30.0
"""A range counts as unreadable after this long without a record."""
UNUSABLE: Final = -2
"""Takes the place of an offset: the time index names no record, although there may be some."""
_BORDER_MS: Final = 60_000
"""Precision of the time from which on the time index is usable."""
_ONLY_BROKERS_WRITE: Final = "__consumer_offsets"
_SLACK_MS: Final = 60_000
"""A commit's own time is this close to that of its record, at the most."""

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


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
    records just before it are gone. Where compaction has made the broker's time index unusable, the
    partition is read from its log start, up to its end at this moment: many records are older then,
    and the first range may hold more offsets. Of a copy of the topic everything from the time on is
    read: its records may be younger than the commits in them. Empty when there is no topic.

    Raises:
        SourceError: the topic cannot be read, or no broker answers.
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
    lookup = _Lookup(clients, spans)
    starts = await lookup.starts(from_ms)
    ends = {partition: span.end for partition, span in spans.items()}
    if clients.settings.offsets_topic == _ONLY_BROKERS_WRITE:
        ends = await lookup.ends(to_ms + _SLACK_MS)
    return [
        part
        for partition in sorted(spans)
        for part in _parts(partition, starts[partition], ends[partition], records_per_range)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where reading one partition begins."""

    first: int
    """No record before this one is of the time that is wanted."""
    sparse_until: int
    """Compaction has removed records up to here at least; equals `first` where nothing says so."""


class _Lookup:
    """Finds record offsets of some partitions by time."""

    def __init__(self, clients: KafkaClients, spans: Mapping[int, Span]) -> None:
        self._spans = spans
        self._places = [(clients.settings.offsets_topic, partition) for partition in spans]
        self._asked = KafkaOffsetsAt(clients)

    async def starts(self, at_ms: int) -> dict[int, Start]:
        """Per partition where the records of a time or later begin, with one record before them.

        Where compaction has made the broker's time index unusable, reading begins at the log start.
        """
        if at_ms <= 0:
            return {
                partition: Start(first=span.start, sparse_until=span.start)
                for partition, span in self._spans.items()
            }
        newest_ms = await self._newest_ms()
        found = await self._at(at_ms)
        unusable = found.unusable(np.full(newest_ms.size, at_ms, np.int64), newest_ms)
        sparse_until = await self._usable_from(unusable, at_ms, newest_ms)
        return {
            partition: start_of(span, offset=offset, sparse_until=sparse)
            for (partition, span), offset, sparse in zip(
                self._spans.items(),
                np.where(unusable, UNUSABLE, found.offset).tolist(),
                sparse_until.tolist(),
                strict=True,
            )
        }

    async def ends(self, at_ms: int) -> dict[int, int]:
        """Per partition the first record of a time or later; its end where none is known."""
        found = await self._at(at_ms)
        return {
            # what was written after the spans were asked for is not part of the range
            partition: span.end if offset == UNKNOWN else min(max(offset, span.start), span.end)
            for (partition, span), offset in zip(
                self._spans.items(), found.offset.tolist(), strict=True
            )
        }

    async def _newest_ms(self) -> Int64:
        log_start = np.array([span.start for span in self._spans.values()], np.int64)
        return newest_of(await self._at(NEWEST), log_start)

    async def _at(self, at_ms: int) -> OffsetsAt:
        return await self._asked.ask(self._places, np.full(len(self._places), at_ms, np.int64))

    async def _usable_from(self, unusable: Bools, at_ms: int, newest_ms: Int64) -> Int64:
        """The first offset that the time index gives for a time after `at_ms`, -1 unknown.

        Bisects the time between `at_ms`, for which it gives none, and the newest record.
        """
        border = np.full(newest_ms.size, UNKNOWN, np.int64)
        rows = np.flatnonzero(unusable & (newest_ms >= at_ms))
        low, high = np.full(rows.size, at_ms, np.int64), newest_ms[rows]
        middle = high  # check first that the index is usable at all
        while rows.size:
            found = await self._asked.ask([self._places[row] for row in rows.tolist()], middle)
            usable = found.offset != UNKNOWN
            border[rows[usable]] = found.offset[usable]
            low, high = np.where(usable, low, middle), np.where(usable, middle, high)
            wide = high - low > _BORDER_MS
            rows, low, high = rows[wide], low[wide], high[wide]
            middle = (low + high) // 2
        return border


def start_of(span: Span, *, offset: int, sparse_until: int) -> Start:
    """Where to begin, by the answer for the time: an offset, -1 (no such record) or `UNUSABLE`."""
    if offset == UNUSABLE:
        return Start(first=span.start, sparse_until=min(max(sparse_until, span.start), span.end))
    at = span.end if offset == UNKNOWN else min(max(offset, span.start), span.end)
    first = max(span.start, at - 1)
    return Start(first=first, sparse_until=first)


def _parts(partition: int, start: Start, end: int, most: int) -> Iterator[OffsetRange]:
    """The sparse records in one part: most of its offsets have none; the others in several."""
    border = min(start.sparse_until, end)
    if border > start.first:
        yield OffsetRange(partition=partition, start=start.first, end=border)
    yield from _split(OffsetRange(partition=partition, start=border, end=end), most)


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
        """Find out why nothing comes: of a deleted topic the client library reports nothing."""
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
        """Keep the records; see what the others say."""
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
