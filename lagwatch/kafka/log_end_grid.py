"""Log ends of the past: where partitions ended at each instant of a grid, by offsets-for-times.

The log end at an instant is the offset of the first record that is not older. One answer holds up
to the time of the record that it found, and where both ends of a stretch of the grid have the same
log end so has all between: a partition is asked as often as something happened in it, at the most.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.clock import Clock, SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.core.model import UNKNOWN
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.offsets_at import (
    EARLIEST,
    LATEST,
    NEWEST,
    KafkaOffsetsAt,
    OffsetsAt,
    Place,
    newest_of,
)
from lagwatch.kafka.record_times import KafkaRecordTimes

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ASKED_AT_ONCE: Final = 20_000
_NEVER_MS: Final = 2**62
_MOST: Final = 2**62
"""Above every offset."""
_OPEN: Final = -2
"""In the grid: not known yet."""
_UNUSABLE: Final = -3
"""In the grid: the leader named no record of that time or later although there may be some."""


class LogEndMethod(StrEnum):
    """How a past log end was found."""

    OFFSETS_FOR_TIMES = "offsets_for_times"
    LATEST = "latest"
    """No record is that young: the log end is the present one."""
    RETENTION = "retention"
    """Not known: the records of that time are deleted."""
    COMPACTION = "compaction"
    """Not known: compaction has made the broker's time index unusable for that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndGrid:
    """Log ends, [places, instants]."""

    log_end: Int64
    """-1 unknown."""
    after_newest: Bools
    """The instant is after the newest record."""
    compacted: Bools
    """The log end is unknown because of compaction."""
    log_start: Int64
    """[places]: as it is now."""
    gone: Bools
    """[places]: deleted, or hidden from us; its row means nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """Topics of a cluster that we may see."""

    partitions: dict[str, int]
    """Topic → number of partitions."""
    refused: tuple[str, ...]
    """Of those asked for: no right to see them (they may not exist either)."""
    missing: tuple[str, ...]
    """Of those asked for: they do not exist."""

    def sentences(self) -> list[str]:
        """What is invisible, and the ACL that would show it."""
        return [
            *(
                f"topic {name} is not visible; grant: Allow DESCRIBE on TOPIC {name}"
                for name in self.refused
            ),
            *(f"topic {name} does not exist any more" for name in self.missing),
        ]


def visible_topics(
    cluster: str, settings: ClusterSettings, names: Sequence[str], *, clock: Clock | None = None
) -> Visible:
    """Topics with their numbers of partitions, and why some of `names` are not among them.

    Raises:
        SourceError: no broker answers.
    """
    clients = KafkaClients(cluster, settings, clock or SystemClock())
    return asyncio.run(_visible(clients, names))


async def _visible(clients: KafkaClients, names: Sequence[str]) -> Visible:
    source = KafkaTopics(clients)
    listing = await source.list_topics()
    partitions = dict(zip(listing.names, listing.partitions.tolist(), strict=True))
    unseen = sorted({name for name in names if name not in partitions})
    asked = await source.topic_ids(unseen)
    return Visible(partitions=partitions, refused=asked.refused, missing=asked.missing)


def log_ends_at(
    cluster: str,
    settings: ClusterSettings,
    places: Sequence[Place],
    at_ms: Int64,
    *,
    clock: Clock | None = None,
) -> LogEndGrid:
    """Log ends of these partitions at these instants, which rise.

    Raises:
        SourceError: a partition got no answer.
    """
    clients = KafkaClients(cluster, settings, clock or SystemClock())
    return asyncio.run(_Grid(clients, places, at_ms).fill())


class _Grid:
    """A grid being filled."""

    def __init__(self, clients: KafkaClients, places: Sequence[Place], at_ms: Int64) -> None:
        self._clients = clients
        self._asker = KafkaOffsetsAt(clients)
        self._places = places
        self._at_ms = at_ms
        self._ends = np.full((len(places), at_ms.size), _OPEN, np.int64)
        self._young = np.zeros(self._ends.shape, np.bool_)
        self._gone = np.zeros(len(places), np.bool_)
        self._first_ms = np.full(len(places), UNKNOWN, np.int64)
        """Time of the record at the log start, where an answer named that record."""

    async def fill(self) -> LogEndGrid:
        # makes the client know the leaders
        await KafkaTopics(self._clients).list_topics()
        start, newest, latest = [await self._same(spec) for spec in (EARLIEST, NEWEST, LATEST)]
        newest_ms = newest_of(newest, start.offset)
        empty = start.offset >= latest.offset
        known = np.where(empty, UNKNOWN, np.where(newest_ms < 0, _NEVER_MS, newest_ms))
        self._young = self._at_ms[None, :] > known[:, None]
        self._ends = np.where(self._young, latest.offset[:, None], self._ends)
        while (cells := self._open_cells()) is not None:
            rows, columns = cells
            for first in range(0, rows.size, _ASKED_AT_ONCE):
                part = slice(first, first + _ASKED_AT_ONCE)
                found = await self._asker.ask(
                    [self._places[row] for row in rows[part].tolist()], self._at_ms[columns[part]]
                )
                self._enter(rows[part], columns[part], found, start=start)
        self._close_unknown_newest(newest_ms, latest.offset)
        self._ends = between_bounds(self._ends)
        self._forget_compacted(await self._compacted())
        unusable = self._ends < 0
        start_now = await self._same(EARLIEST)
        self._forget_deleted(start.offset, start_now.offset)
        return LogEndGrid(
            log_end=self._ends,
            after_newest=self._young,
            # where the log start moved meanwhile, retention may be the cause as well
            compacted=unusable & (start_now.offset == start.offset)[:, None],
            log_start=start_now.offset,
            gone=self._gone,
        )

    def _close_unknown_newest(self, newest_ms: Int64, latest: Int64) -> None:
        """Where the newest record's time is unknown: no answer up to the end means no record.

        Brokers before 3.0 do not report that time. Compaction spares the last segment, so that its
        records are found also where the ones before it are not.
        """
        rows = np.flatnonzero(newest_ms < 0)
        named = np.logical_or.accumulate(self._ends[rows, ::-1] != _UNUSABLE, axis=1)[:, ::-1]
        self._young[rows] |= ~named
        self._ends[rows] = np.where(named, self._ends[rows], latest[rows, None])

    def _forget_deleted(self, before: Int64, now: Int64) -> None:
        """Forget answers that name the first remaining record: the right one may be deleted."""
        first = now[:, None]
        deleted = (self._ends <= first) & (first > 0)
        # exactly at its time nothing before the first record is needed
        stayed, known = (now == before)[:, None], self._first_ms[:, None] >= 0
        sure = (self._ends == first) & (self._at_ms[None, :] >= self._first_ms[:, None])
        self._ends[deleted & ~(stayed & known & sure)] = UNKNOWN

    async def _compacted(self) -> Bools:
        """Mask of partitions whose topic is compacted, as far as its configuration may be read."""
        topics = sorted({topic for topic, _ in self._places})
        found = await KafkaRecordTimes(self._clients).topic_times(topics)
        compacted = {topic for topic, times in found.items() if times.compacted}
        return np.array([topic in compacted for topic, _ in self._places], np.bool_)

    def _forget_compacted(self, compacted: Bools) -> None:
        """Forget answers about the past of compacted topics.

        They name the next record that compaction left, which may be far behind the log end of that
        time. The log end of now is known.
        """
        self._ends[compacted[:, None] & ~self._young] = UNKNOWN

    async def _same(self, spec: int) -> OffsetsAt:
        """Ask all places for the same instant."""
        found = await self._asker.ask(self._places, np.full(len(self._places), spec, np.int64))
        self._gone |= found.gone
        return found

    def _open_cells(self) -> tuple[Int64, Int64] | None:
        """One cell of every open stretch: its first at the edges of the grid, else its middle."""
        is_open = (self._ends == _OPEN) & ~self._gone[:, None]
        if not is_open.any():
            return None
        padded = np.pad(is_open, ((0, 0), (1, 1))).astype(np.int8)
        change = np.diff(padded, axis=1)
        rows, first = np.nonzero(change == 1)
        _, after = np.nonzero(change == -1)
        left, right = first - 1, after
        size = self._at_ms.size
        inside = (left >= 0) & (right < size)
        before = self._ends[rows, np.maximum(left, 0)]
        behind = self._ends[rows, np.minimum(right, size - 1)]
        settled = inside & (before == behind)
        for row, begin, end, value in zip(
            rows[settled], first[settled], after[settled], before[settled], strict=True
        ):
            self._ends[row, begin:end] = value
        # the first instant answers for all before the first record, the last bounds the others
        column = np.where(left < 0, first, np.where(right >= size, after - 1, (first + after) // 2))
        rows, column = rows[~settled], column[~settled]
        return (rows, column) if rows.size else self._open_cells()

    def _enter(self, rows: Int64, columns: Int64, found: OffsetsAt, *, start: OffsetsAt) -> None:
        self._gone[rows[found.gone]] = True
        # instants after the newest record are not asked for, so an answer without a record
        # shows that the time index is unusable
        offset = np.where(found.offset == UNKNOWN, _UNUSABLE, found.offset)
        until = np.searchsorted(self._at_ms, found.timestamp, side="right")
        until = np.maximum(until, columns + 1)
        for row, column, end, value in zip(
            rows.tolist(), columns.tolist(), until.tolist(), offset.tolist(), strict=True
        ):
            stretch = self._ends[row, column:end]
            stretch[stretch == _OPEN] = value
        at_start = (found.offset == start.offset[rows]) & (found.timestamp >= 0)
        self._first_ms[rows[at_start]] = found.timestamp[at_start]


def between_bounds(ends: Int64) -> Int64:
    """Fill unknown log ends [places, instants] whose known neighbours in time are equal.

    Log ends rise with time and begin at 0. What differs stays unknown (-1).
    """
    unknown = ends < 0
    below = np.maximum.accumulate(np.where(unknown, 0, ends), axis=1)
    above = np.where(unknown, _MOST, ends)
    above = np.minimum.accumulate(above[:, ::-1], axis=1)[:, ::-1]
    return np.where(unknown, np.where(below == above, below, UNKNOWN), ends)


__all__ = [
    "LogEndGrid",
    "LogEndMethod",
    "Visible",
    "between_bounds",
    "log_ends_at",
    "visible_topics",
]
