"""Arranges samples in time: for which rounds each row counts, and for how long it holds.

Rows of a series are those of one partition of one group (or of one group) in order of time. A row
counts for its own round and for those that follow in which the partition was left out because
nothing had changed (`lagwatch.history.grid` says the same of one group at a time).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Regular rounds of groups, sorted by group and instant; all [rounds]."""

    group: Int64
    """A small number for each group."""
    at_ms: Int64
    unchanged: Int64
    previous_ms: Int64
    interval_ms: Int64

    def begins(self) -> Int64:
        """Instant from which rows still hold in each round: that of the first round of its run.

        A run begins with a complete round, or one that is not linked to the one before.
        """
        if self.at_ms.size == 0:
            return self.at_ms
        begins = self.unchanged <= 0
        begins[0] = True
        begins[1:] |= self.group[1:] != self.group[:-1]
        begins[1:] |= self.previous_ms[1:] != self.at_ms[:-1]
        first = np.maximum.accumulate(np.where(begins, np.arange(begins.size), 0))
        return self.at_ms[first]

    def whole(self) -> "Rounds":
        """The rounds of series that have a row of their own in every round."""
        return replace(self, unchanged=np.zeros_like(self.unchanged))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Rows sorted by series and instant; all [rows]."""

    series: Int64
    group: Int64
    """The group of the series, as in `Rounds`; -1 where it has no rounds."""
    at_ms: Int64
    regular: Bools
    """True for a sample of a round; False for a change of status between rounds."""

    @property
    def size(self) -> int:
        return int(self.at_ms.size)

    def next_ms(self) -> Int64:
        """The next row of the same series; the end of time after the last."""
        following = np.full(self.size, np.iinfo(np.int64).max)
        same = self.series[1:] == self.series[:-1]
        following[:-1][same] = self.at_ms[1:][same]
        return following


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntries:
    """Samples with those that were left out, by series and instant; all [entries]."""

    row: NDArray[np.intp]
    """The row with its values."""
    at_ms: Int64
    regular: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rows, the rounds they count for, and for how long."""

    entries: TimelineEntries
    end_ms: Int64
    """[rows]: until when each row holds, not included."""
    interval_ms: Int64
    """[rows]: the distance of rounds at that time."""


def timeline(rows: Series, rounds: Rounds, *, interval_ms: int) -> Timeline:
    """Arrange rows in time; `interval_ms` is that of groups that have no rounds.

    A row holds until the next one of its series, or to the end of the interval of the last round
    it counts for. A change between rounds holds to the end of the round it is in.
    """
    place = _Places(rows, rounds)
    next_ms = rows.next_ms()
    first, last = place.left_out(next_ms)
    count = last - first
    entries = _entries(rows, rounds, first, count)
    interval = place.intervals(interval_ms)
    at_ms = rows.at_ms
    last_ms = at_ms
    if count.any():
        last_ms = np.where(count > 0, np.append(rounds.at_ms, UNKNOWN)[last - 1], at_ms)
    begin = np.where(rows.regular | (count > 0), last_ms, at_ms - at_ms % interval)
    return Timeline(
        entries=entries, end_ms=np.minimum(begin + interval, next_ms), interval_ms=interval
    )


class _Places:
    """Where rows are among the rounds of their groups."""

    def __init__(self, rows: Series, rounds: Rounds) -> None:
        self._rows, self._rounds = rows, rounds
        self._least = int(min(rows.at_ms.min(initial=2**62), rounds.at_ms.min(initial=2**62)))
        most = int(max(rows.at_ms.max(initial=0), rounds.at_ms.max(initial=0)))
        self._width = max(most - self._least, 0) + 2
        self._instants = self._packed(rounds.group, rounds.at_ms)

    def _packed(self, group: Int64, at_ms: Int64) -> Int64:
        """Group and instant as one number that sorts like the pair."""
        # an instant outside must not spill over into the numbers of the next group
        inside = np.clip(at_ms - self._least, 0, self._width - 1)
        return group * self._width + inside

    def left_out(self, next_ms: Int64) -> tuple[Int64, Int64]:
        """For each row the rounds it counts for besides its own: first, and after the last."""
        rows, rounds = self._rows, self._rounds
        if not bool((rounds.unchanged > 0).any()):
            none = np.zeros(rows.size, np.int64)
            return none, none
        own = self._packed(rows.group, rows.at_ms)
        first = np.searchsorted(self._instants, own, side="right")
        # `left`: the round of the next row is already its own
        upto = np.searchsorted(self._instants, self._packed(rows.group, next_ms), side="left")
        runs = self._packed(rounds.group, rounds.begins())
        last = np.minimum(upto, np.searchsorted(runs, own, side="right"))
        return first, np.where(rows.group < 0, first, np.maximum(last, first))

    def intervals(self, otherwise_ms: int) -> Int64:
        """For each row the interval of the round it is in, or of the nearest one."""
        rows, rounds = self._rows, self._rounds
        known = rounds.interval_ms > 0
        usual = rounds.interval_ms[known]
        if usual.size == 0:
            return np.full(rows.size, otherwise_ms, np.int64)
        place = np.searchsorted(
            self._instants[known], self._packed(rows.group, rows.at_ms), side="right"
        )
        group = rounds.group[known]
        before, after = np.maximum(place - 1, 0), np.minimum(place, usual.size - 1)
        at_after = np.where(group[after] == rows.group, usual[after], otherwise_ms)
        return np.where(group[before] == rows.group, usual[before], at_after)


def _entries(rows: Series, rounds: Rounds, first: Int64, count: Int64) -> TimelineEntries:
    """Every row itself, and after it the rounds it counts for."""
    row = np.arange(rows.size)
    if not count.any():
        return TimelineEntries(row=row, at_ms=rows.at_ms, regular=rows.regular)
    begin = np.cumsum(count + 1) - (count + 1)
    row = np.repeat(row, count + 1)
    number = np.arange(row.size) - begin[row]
    own = number == 0
    instant = rounds.at_ms[np.minimum(first[row] + number - 1, rounds.at_ms.size - 1)]
    return TimelineEntries(
        row=row,
        at_ms=np.where(own, rows.at_ms[row], instant),
        regular=rows.regular[row] | ~own,
    )


def cut(begin_ms: Int64, end_ms: Int64, step_ms: int) -> tuple[NDArray[np.intp], Int64, Int64]:
    """Spans cut where buckets end: number of the span, begin of the bucket, length."""
    first = begin_ms - begin_ms % step_ms
    pieces = np.where(end_ms > begin_ms, (end_ms - 1 - first) // step_ms + 1, 0)
    span = np.repeat(np.arange(begin_ms.size), pieces)
    number = np.arange(span.size) - (np.cumsum(pieces) - pieces)[span]
    bucket = first[span] + number * step_ms
    from_ms, to_ms = begin_ms[span], end_ms[span]
    length = np.minimum(to_ms, bucket + step_ms) - np.maximum(from_ms, bucket)
    return span, bucket, length


def union(series: Int64, begin_ms: Int64, end_ms: Int64) -> tuple[Int64, Int64, Int64]:
    """Spans of series put together where they overlap or touch: series, begin, end; in order."""
    order = np.lexsort((begin_ms, series))
    series, begin_ms, end_ms = series[order], begin_ms[order], end_ms[order]
    if series.size == 0:
        return series, begin_ms, end_ms
    least = int(begin_ms.min())
    width = int(end_ms.max()) - least + 2
    # series and instant as one number: what an earlier series reached is before every later one
    reached = np.maximum.accumulate(series * width + (end_ms - least))
    new = np.ones(series.size, np.bool_)
    new[1:] = series[1:] * width + (begin_ms[1:] - least) > reached[:-1]
    first = np.flatnonzero(new)
    last = np.append(first[1:], series.size) - 1
    return series[first], begin_ms[first], reached[last] - series[first] * width + least
