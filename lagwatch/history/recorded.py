"""What the rows of a store say was recorded: rounds, gaps between them, rows that are missing."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Records, SampleReason, is_word
from lagwatch.core.rollup import of_whole_rounds, rows_written
from lagwatch.core.words import counted
from lagwatch.history.layout import DAY_MS, HOUR_MS
from lagwatch.ports.history import HistoryGap

Int64 = NDArray[np.int64]

_DAY_HOURS = DAY_MS // HOUR_MS
_WRITES_MS = 60_000
"""A round is written whole within this time, as long as the store is there."""
_NEVER = 1 << 40
"""An hour that does not come."""
_ROUNDS = (Kind.SAMPLES, Kind.GROUP_SAMPLES)
_LATE = 1.5
"""Rounds further apart than this many intervals have a gap between them."""


class Recorded:
    """Regular rounds of all clusters, gathered from rows in any order."""

    def __init__(self, now_ms: int) -> None:
        """`now_ms`: when reading began; what is being written at the time is not missed."""
        self._until_ms = now_ms - _WRITES_MS
        self._rounds: dict[str, _RoundTimes] = {}
        self._rows: dict[str, _PartitionRows] = {}

    def add_rounds(self, cluster: str, rows: Records) -> None:
        """Take the instants of the rounds; rows of other kinds, and repeated ones, say nothing."""
        self._rounds.setdefault(cluster, _RoundTimes()).add(rows)

    def add_rows(self, cluster: str, kind: Kind, at_ms: Int64, number: Int64) -> None:
        """Take distinct rows of a kind, with the `rows_of_partitions` of each."""
        if kind in _ROUNDS:
            over = at_ms < self._until_ms
            rows = self._rows.setdefault(cluster, _PartitionRows())
            rows.add(kind, at_ms[over], number[over])

    def gaps(self) -> Iterator[HistoryGap]:
        """The times between rounds that are too far apart, cluster by cluster, in order."""
        for cluster in sorted(self._rounds):
            yield from self._rounds[cluster].gaps(cluster)

    def missing(self) -> Iterator[str]:
        """Hours of which some rows are missing, one sentence each."""
        # retention deletes the days before, of all clusters at the same time
        first_round = self._kept_from(each.first_hour for each in self._rounds.values())
        first_row = self._kept_from(each.first_hour for each in self._rows.values())
        for cluster, rows in sorted(self._rows.items()):
            alone_ms = self._rounds[cluster].without_groups()
            alone = alone_ms[alone_ms < self._until_ms] // HOUR_MS
            for hour, instants in sorted(Counter(alone[alone >= first_round].tolist()).items()):
                yield f"{cluster}: {_hour(hour)}: those of groups at {counted(instants, 'instant')}"
            for hour, missing, written in rows.missing(first_row):
                yield f"{cluster}: {_hour(hour)}: {missing:,} of {written:,} of partitions"

    def _kept_from(self, hours: Iterable[int | None]) -> int:
        """The first hour of the day of the first of these; no retention is shorter than a day."""
        first = min((each for each in hours if each is not None), default=_NEVER)
        return min(first - first % _DAY_HOURS, (self._until_ms - DAY_MS) // HOUR_MS + 1)


def rows_of_partitions(rows: Records) -> Int64:
    """For each row how many rows of partitions there must be: itself, or all of its group's round.

    0 for rows that are not of a whole round.
    """
    if rows.kind not in _ROUNDS:
        return np.zeros(rows.size, np.int64)
    number = 1 if rows.kind is Kind.SAMPLES else rows_written(rows)
    return of_whole_rounds(rows) * number


class _RoundTimes:
    """The instants at which there were regular rounds, gathered from rows in any order."""

    def __init__(self) -> None:
        self._interval_of: dict[int, int] = {}
        self._samples = np.zeros(0, np.int64)
        self._written = np.zeros(0, np.int64)
        """Those of the samples with which a row of each group was written."""

    def add(self, records: Records) -> None:
        """Take the instants of regular samples; rows of other kinds say nothing."""
        if records.kind not in _ROUNDS:
            return
        if records.kind is Kind.SAMPLES:
            written = records.take(of_whole_rounds(records)).at_ms()
            self._written = np.union1d(self._written, written)
        regular = records.take(is_word(records.text("reason"), SampleReason.INTERVAL))
        instants, first = np.unique(regular.at_ms(), return_index=True)
        if records.kind is Kind.GROUP_SAMPLES:
            intervals = regular.numbers("interval_ms")[first]
            self._interval_of.update(zip(instants.tolist(), intervals.tolist(), strict=True))
        else:
            self._samples = np.union1d(self._samples, instants)

    @property
    def first_hour(self) -> int | None:
        """Of which there are rounds of groups."""
        first_ms = min(self._interval_of, default=None)
        return None if first_ms is None else first_ms // HOUR_MS

    def without_groups(self) -> Int64:
        """Instants of which there are rows of partitions, and those of groups are missing."""
        rounds = np.fromiter(self._interval_of, np.int64, len(self._interval_of))
        return np.setdiff1d(self._written, rounds)

    def _sorted(self) -> tuple[Int64, Int64]:
        """Instants, rising, and the interval in force at each, in ms.

        Without samples of groups, those of partitions are used, with their most common distance.
        """
        if self._interval_of:
            rounds = sorted(self._interval_of.items())
            return (
                np.array([at_ms for at_ms, _ in rounds], np.int64),
                np.array([interval_ms for _, interval_ms in rounds], np.int64),
            )
        usual = np.median(np.diff(self._samples)) if self._samples.size > 1 else 0
        return self._samples, np.full(self._samples.size, usual, np.int64)

    def gaps(self, cluster: str) -> Iterator[HistoryGap]:
        """The times between rounds that are too far apart, in order."""
        at_ms, interval_ms = self._sorted()
        for index in np.flatnonzero(np.diff(at_ms) > interval_ms[:-1] * _LATE).tolist():
            yield HistoryGap(
                cluster=cluster, from_ms=int(at_ms[index]), to_ms=int(at_ms[index + 1])
            )


class _PartitionRows:
    """Regular rows of partitions of one cluster by hour: what was written, and what is there."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}
        self._there: dict[int, int] = {}

    def add(self, kind: Kind, at_ms: Int64, number: Int64) -> None:
        """Add the `rows_of_partitions` of distinct rows of a kind to their hours."""
        into = self._there if kind is Kind.SAMPLES else self._written
        hours, place = np.unique(at_ms // HOUR_MS, return_inverse=True)
        total = np.zeros(hours.size, np.int64)
        np.add.at(total, place, number)
        for each, count in zip(hours.tolist(), total.tolist(), strict=True):
            into[each] = into.get(each, 0) + count

    @property
    def first_hour(self) -> int | None:
        """Of which there are rows of partitions."""
        return min(self._there, default=None)

    def missing(self, first_hour: int) -> Iterator[tuple[int, int, int]]:
        """(hour, missing, written) from that hour on."""
        for hour, written in sorted(self._written.items()):
            there = self._there.get(hour, 0)
            if hour >= first_hour and there < written:
                yield hour, written - there, written


def _hour(hour: int) -> str:
    return f"{datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC):%Y-%m-%dT%H:00Z}"
