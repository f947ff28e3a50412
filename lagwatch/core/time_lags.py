"""Time lags as shown, of rows and groups: each with its method, bound and error.

The rules judge by what the log end history has measured, and by nothing else (`LogEndHistory.age`).
What is shown adds bounds where that has no value: the samples between which the message came,
the times that brokers have for offsets (`OffsetTimes`), and where there are none samples of the
stored history (`StoredTimes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import Age
from lagwatch.core.model import UNKNOWN, Rule, TimeLagBound, TimeLagReason
from lagwatch.core.rows import Around, OffsetTimes, PartitionColumns, StoredTimes
from lagwatch.core.snapshot import (
    AT_MOST,
    COARSE,
    PAUSE_MS,
    GroupTimes,
    RowColumns,
    RowTimes,
    exact_within_ms,
)
from lagwatch.core.sorting import place_in

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

_ROUND_MS: Final = 250
"""Uncertainty of a sample's instant: about the duration of a round of log ends."""
_RECORDED_APART_MS: Final = 45_000
"""As `PAUSE_MS`, of stored samples, which are taken every half minute."""
_CLOCKS_MS: Final = 1_000
"""A record time may contradict the samples by so much: clocks are not compared more closely."""
_AT_LEAST: Final = np.array([each.bound is TimeLagBound.AT_LEAST for each in TimeLagReason])
_EXACT: Final = np.array([each.bound is TimeLagBound.EXACT for each in TimeLagReason])
_BEHIND: Final = np.isin(
    np.arange(len(TimeLagReason)),
    (TimeLagReason.MEASURED, TimeLagReason.BEYOND_HISTORY, TimeLagReason.NOT_SAMPLED),
)
"""Age of the oldest unread messages, by the log end history."""
_NEVER: Final = np.iinfo(np.int64).max
_ROWS_AT_ONCE: Final = 32_768
"""What is held in between fits the cache, and needs no new memory for each part."""
NOTHING_UNREAD: Final = -2
"""In `Waits.since_ms`: the row has read everything."""


class Waits(NamedTuple):
    """Since when rows wait, and how the log end history knows; columns of equal length."""

    since_ms: Int64
    """When the oldest unread message was appended, on lagwatch's clock.

    -1 unknown, `NOTHING_UNREAD`.
    """
    reason: Int8
    """`TimeLagReason`, by the history alone."""
    after_ms: Int64
    """As in `Age`."""
    before_ms: Int64

    def age(self, read_ms: int) -> Age:
        """How old the messages are at an instant that is not before the newest sample."""
        age_ms = np.where(self.since_ms >= 0, read_ms - self.since_ms, UNKNOWN)
        return Age(
            np.where(self.since_ms == NOTHING_UNREAD, 0, age_ms),
            self.reason.copy(),
            self.after_ms,
            self.before_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesOfRows:
    """Computes time lags of a snapshot on request; immutable."""

    waits: Waits
    at: Int32
    window: Int32
    committed: Int64
    asked_ms: Int64
    """Since when the log end of each partition may have grown unseen; -1 unknown.

    That is the start of the round that answered for it last, on lagwatch's clock.
    """
    read_ms: int
    around: Around
    restored_ms: int
    spacing_ms: int

    def __call__(self, rows: slice | NDArray[np.intp]) -> RowTimes:
        """The time lags of a range of rows, or of some."""
        if not isinstance(rows, slice):
            return self._of(rows)
        start, stop, _ = rows.indices(self.window.size)
        if stop - start <= _ROWS_AT_ONCE:
            return self._of(slice(start, stop))
        size = stop - start
        found = RowTimes(np.empty(size, np.int64), np.empty(size, np.int8), np.empty(size))
        for first in range(0, size, _ROWS_AT_ONCE):
            there = slice(first, min(first + _ROWS_AT_ONCE, size))
            part = self._of(slice(start + there.start, start + there.stop))
            found.lag_ms[there], found.reason[there] = part.lag_ms, part.reason
            found.error_ms[there] = part.error_ms
        return found

    def _of(self, rows: slice | NDArray[np.intp]) -> RowTimes:
        every = self.waits
        waits = Waits(
            every.since_ms[rows], every.reason[rows], every.after_ms[rows], every.before_ms[rows]
        )
        age = waits.age(self.read_ms)
        # a message that came after log ends were last asked for is not seen: it waits since then
        asked_ms = np.append(self.asked_ms, UNKNOWN)[self.at[rows]]
        unseen_ms = np.maximum(self.read_ms - asked_ms, 0).astype(np.float64)
        known = (age.lag_ms >= 0) & (asked_ms >= 0)
        error_ms = np.where(known, unseen_ms, np.nan)
        found = RowTimes(age.lag_ms, age.reason, error_ms)
        behind = np.flatnonzero(_BEHIND[waits.reason])
        if behind.size:
            part = shown(
                Age(
                    age.lag_ms[behind],
                    age.reason[behind],
                    age.after_ms[behind],
                    age.before_ms[behind],
                ),
                at=self.at[rows][behind],
                row=self.window[rows][behind],
                committed=self.committed[rows][behind],
                read_ms=self.read_ms,
                around=self.around,
                restored_ms=self.restored_ms,
                spacing_ms=self.spacing_ms,
            )
            found.lag_ms[behind] = part.lag_ms
            found.reason[behind] = part.reason
            found.error_ms[behind] = part.error_ms
        if self.around.facts.out_of_order is not None:
            _lower(found, np.isin(self.window[rows], self.around.facts.out_of_order))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class TimesOfGroups:
    """Computes time lags of a snapshot's groups on request."""

    rows: RowColumns
    first: Int64
    """[groups + 1]"""
    unread: NDArray[np.intp]
    """Groups whose members hold partitions with messages, and have committed nothing there."""

    def __call__(self, groups: slice | NDArray[np.intp]) -> GroupTimes:
        """The time lags of a range of groups, or of some."""
        if not isinstance(groups, slice):
            return self(slice(None)).part(groups)
        start, stop, _ = groups.indices(self.first.size - 1)
        if start >= stop:
            none = np.zeros(0, np.int64)
            return GroupTimes(none, none.astype(np.int8), none.astype(np.float64), none)
        every = self.rows.every_time if (start, stop) == (0, self.first.size - 1) else None
        parts = [self._of(part, every) for part in self._parts(start, stop)]
        return (
            parts[0]
            if len(parts) == 1
            else GroupTimes(*map(np.concatenate, zip(*parts, strict=True)))
        )

    def _parts(self, start: int, stop: int) -> Iterator[slice]:
        """The groups in parts of not too many rows."""
        while start < stop:
            most = self.first[start] + _ROWS_AT_ONCE
            end = int(np.searchsorted(self.first, most, side="right")) - 1
            end = min(max(end, start + 1), stop)
            yield slice(start, end)
            start = end

    def _of(self, groups: slice, every: RowTimes | None) -> GroupTimes:
        start, stop = groups.start, groups.stop
        head, sizes = self.first[start], np.diff(self.first[start : stop + 1])
        part = slice(int(head), int(self.first[stop]))
        found = of_groups(
            self.rows.times(part) if every is None else every.part(part),
            self.rows.rule[part],
            self.rows.commits[part],
            heads=self.first[start:stop] - head,
            group=np.repeat(np.arange(sizes.size), sizes),
        )
        unread = self.unread[(self.unread >= start) & (self.unread < stop)] - start
        # a lower bound already says more of why
        unread = unread[(found.lag_ms[unread] >= 0) & ~_AT_LEAST[found.reason[unread]]]
        found.reason[unread] = TimeLagReason.NEVER_COMMITTED
        found.error_ms[unread] = np.nan
        return found._replace(row=np.where(found.row >= 0, found.row + head, UNKNOWN))


def shown(
    age: Age,
    *,
    at: Int32,
    row: NDArray[np.integer],
    committed: Int64,
    read_ms: int,
    around: Around,
    restored_ms: int,
    spacing_ms: int,
) -> RowTimes:
    """The time lags to show for rows that are behind.

    Args:
        age: how old their oldest unread messages are, by the log end history.
        at: their topic-partitions.
        row: their places in the window store.
        committed: their committed offsets.
        read_ms: when the newest log ends were read, on lagwatch's clock, as are the samples.
        around: when partitions were away, and when brokers say that offsets were appended.
        restored_ms: newest sample that an earlier process took.
        spacing_ms: usual distance between samples.
    """
    partitions, times, skew_ms = around.partitions, around.facts.times, around.skew_ms
    lag_ms, reason = age.lag_ms.copy(), age.reason.copy()
    after_ms = _without_absences(age, at, partitions, skew_ms)
    low_ms = np.where(age.before_ms >= 0, np.maximum(read_ms - age.before_ms, 0), UNKNOWN)
    high_ms = np.where(after_ms >= 0, np.maximum(read_ms - after_ms, 0), UNKNOWN)
    measured = reason == TimeLagReason.MEASURED
    # one and a half times the usual distance: a late round must not turn a measurement into a bound
    apart_ms = max(PAUSE_MS, spacing_ms * 3 // 2)
    coarse = measured & (high_ms - low_ms > np.maximum(lag_ms // COARSE, apart_ms))
    reason[coarse] = TimeLagReason.SAMPLES_APART
    stored = measured & ~coarse & (age.before_ms <= restored_ms)
    reason[stored] = TimeLagReason.STORED
    wide = measured & ~coarse & (high_ms - low_ms > exact_within_ms(lag_ms))
    reason[wide] = TimeLagReason.BETWEEN_ROUNDS
    bounded = _AT_LEAST[reason] & (low_ms >= 0)
    lag_ms[bounded] = low_ms[bounded]
    # "at least 0 s" alone says nothing
    lag_ms[bounded & (low_ms == 0) & (high_ms < 0)] = UNKNOWN
    error_ms = np.maximum(lag_ms - low_ms, high_ms - lag_ms).astype(np.float64) + _ROUND_MS
    error_ms[(high_ms < 0) | (lag_ms < 0)] = np.nan
    error_ms[reason == TimeLagReason.CAUGHT_UP] = 0
    found = RowTimes(lag_ms=lag_ms, reason=reason, error_ms=error_ms)
    if times is not None and bounded.any():
        rows = np.flatnonzero(bounded)
        part = _by_times(
            times, row[rows], committed[rows], (low_ms[rows], high_ms[rows]), read_ms - skew_ms
        )
        rows = rows[part.known]
        lag_ms[rows], reason[rows], error_ms[rows] = part.lag_ms, part.reason, part.error_ms
    stored = around.facts.stored
    if stored is not None and bounded.any():
        within = _within(stored, row, committed, (low_ms, high_ms), read_ms)
        _add_stored(found, np.flatnonzero(bounded), within)
    _bound_above(found, committed < partitions.log_start[at])
    return found


def _bound_above(found: RowTimes, rows: Bools) -> None:
    """Make what is known of these rows an upper bound: what is left to read is younger, or nothing.

    The log start moves on unseen between two rounds that ask for it, so nothing is sure of how much
    younger.
    """
    lag_ms, reason, error_ms = found
    rows = rows & (reason != TimeLagReason.CAUGHT_UP)
    if not rows.any():
        return
    over_ms = np.where(AT_MOST[reason[rows]], 0, error_ms[rows])
    most_ms = np.where(lag_ms[rows] >= 0, lag_ms[rows] + over_ms, np.nan)
    lag_ms[rows] = np.where(np.isnan(most_ms), UNKNOWN, np.nan_to_num(most_ms)).astype(np.int64)
    reason[rows], error_ms[rows] = TimeLagReason.DELETED_UNREAD, most_ms


def _lower(found: RowTimes, rows: Bools) -> None:
    """Make what is known of these rows a lower bound: their oldest unread message is older."""
    lag_ms, reason, error_ms = found
    waits = rows & (lag_ms > 0)
    sure_ms = lag_ms[waits] - np.nan_to_num(error_ms[waits]).astype(np.int64)
    bounded = _AT_LEAST[reason[waits]]
    lag_ms[waits] = np.where(bounded, lag_ms[waits], np.maximum(sure_ms, 0))
    reason[waits], error_ms[waits] = TimeLagReason.DONE_OUT_OF_ORDER, np.nan


def _without_absences(age: Age, at: Int32, partitions: PartitionColumns, skew_ms: int) -> Int64:
    """The last sample before each message; of a partition that was away, the last before that.

    While it was away its last log end was repeated.
    """
    away_ms, back_ms = partitions.away_ms[at], partitions.back_ms[at]
    inside = (away_ms >= 0) & (age.after_ms >= 0)
    if not inside.any():
        return age.after_ms
    away_ms, back_ms = away_ms + skew_ms, back_ms + skew_ms
    inside &= (age.after_ms > away_ms) & (age.after_ms < back_ms) & (age.before_ms >= back_ms)
    return np.where(inside, away_ms, age.after_ms)


class _ByTimes(NamedTuple):
    """Time lags by further times; columns have an entry for each row that is `known`."""

    known: Bools
    lag_ms: Int64
    reason: Int8
    error_ms: Float64


def _by_times(
    times: OffsetTimes,
    row: NDArray[np.integer],
    committed: Int64,
    bounds: tuple[Int64, Int64],
    now_ms: int,
) -> _ByTimes:
    """Time lags of rows within these bounds (least, most; -1 unknown) as of `now_ms` of Kafka.

    A time later than the sample by which the record was there is of a clock that is ahead: it says
    nothing. One before the sample at which the record was not there yet is not that of appending.
    """
    place = place_in(times.row, row)
    known = np.zeros(row.size, np.bool_)
    if times.row.size:
        known = (times.row[place] == row) & (times.offset[place] <= committed)
        known &= now_ms - times.low_ms[place] >= np.maximum(bounds[0], 0) - _CLOCKS_MS
    place = place[known]
    low_ms, high_ms = (bound[known] for bound in bounds)
    high_ms = np.where(high_ms < 0, _NEVER, high_ms)
    # what was appended not before an instant is this old at most
    most_ms = np.clip(now_ms - times.low_ms[place], low_ms, high_ms)
    by_broker = times.by_broker[place]
    exact = by_broker & (times.offset[place] == committed[known])
    exact &= now_ms - times.low_ms[place] <= np.minimum(high_ms, _NEVER - _CLOCKS_MS) + _CLOCKS_MS
    least_ms = np.where(exact, np.clip(now_ms - times.high_ms[place], low_ms, most_ms), low_ms)
    half_ms = (most_ms - least_ms) // 2
    earlier = by_broker & (times.offset[place] < committed[known])
    otherwise = np.where(earlier, TimeLagReason.EARLIER_OFFSET, TimeLagReason.RECORD_TIME)
    return _ByTimes(
        known,
        np.where(exact, most_ms - half_ms, most_ms),
        np.where(exact, TimeLagReason.OFFSET_TIME, otherwise).astype(np.int8),
        np.where(exact, half_ms, most_ms - least_ms).astype(np.float64) + _ROUND_MS,
    )


class _Within(NamedTuple):
    """Bounds of time lags by stored samples; columns by row."""

    known: Bools
    least_ms: Int64
    most_ms: Int64
    """`_NEVER`: unknown."""
    expected_ms: Int64


def _within(
    stored: StoredTimes,
    row: NDArray[np.integer],
    committed: Int64,
    bounds: tuple[Int64, Int64],
    read_ms: int,
) -> _Within:
    """The bounds by stored samples within those by this process (least, most; -1 unknown)."""
    low_ms, high_ms = bounds
    place = place_in(stored.row, row)
    same, offset = stored.row[place] == row, stored.offset[place]
    after_ms, before_ms = stored.low_ms[place], stored.high_ms[place]
    # what is behind an offset came after it, what is before it came before it
    after = same & (after_ms >= 0) & (offset <= committed)
    before = same & (before_ms >= 0) & (offset >= committed)
    least_ms = np.where(before, np.maximum(low_ms, read_ms - before_ms), np.maximum(low_ms, 0))
    most_ms = np.where(high_ms >= 0, high_ms, _NEVER)
    most_ms = np.where(after, np.minimum(most_ms, read_ms - after_ms), most_ms)
    most_ms = np.maximum(most_ms, least_ms)
    finite = most_ms < _NEVER
    width_ms = np.where(finite, most_ms - least_ms, 0)
    between_ms = (stored.share[place] * (before_ms - after_ms)).astype(np.int64)
    expected_ms = np.where(
        after & before, read_ms - after_ms - between_ms, least_ms + width_ms // 2
    )
    says = (after | before) & (finite | (least_ms > 0))
    return _Within(says, least_ms, most_ms, np.clip(expected_ms, least_ms, least_ms + width_ms))


def _add_stored(found: RowTimes, rows: NDArray[np.intp], within: _Within) -> None:
    """Put in what stored samples say of these rows, where nothing else does or says it better."""
    lag_ms, reason, error_ms = found
    rows = rows[within.known[rows]]
    alone = rows[_AT_LEAST[reason[rows]]]
    least_ms, most_ms = within.least_ms[alone], within.most_ms[alone]
    finite = most_ms < _NEVER
    apart_ms = np.maximum(within.expected_ms[alone] // COARSE, _RECORDED_APART_MS)
    close = finite & (most_ms - least_ms <= apart_ms)
    value_ms = np.where(close, within.expected_ms[alone], least_ms)
    error = np.maximum(value_ms - least_ms, most_ms - value_ms).astype(np.float64) + _ROUND_MS
    lag_ms[alone], error_ms[alone] = value_ms, np.where(finite, error, np.nan)
    reason[alone] = np.where(close, TimeLagReason.RECORDED, TimeLagReason.RECORDED_APART)
    # times that producers gave are an upper bound, hours off where they send late
    timed = rows[reason[rows] == TimeLagReason.RECORD_TIME]
    low_ms = lag_ms[timed] - error_ms[timed]
    # where the two exclude each other a clock was wrong
    agree = (within.most_ms[timed] >= low_ms) & (within.least_ms[timed] <= lag_ms[timed])
    timed, low_ms = timed[agree], low_ms[agree]
    lag_ms[timed] = np.minimum(lag_ms[timed], within.most_ms[timed])
    low_ms = np.maximum(low_ms, within.least_ms[timed] - _ROUND_MS)
    error_ms[timed] = np.maximum(lag_ms[timed] - low_ms, _ROUND_MS)


NOT_READ: Final = np.isin(np.arange(len(Rule)), (Rule.NOT_SUBSCRIBED, Rule.MIRRORED))
"""Rules of partitions that the group does not read itself.

Their lag is part of the group's, as in Kafka's own tools, and named; they count neither in its time
lag nor in its rates and forecast.
"""


def of_groups(
    times: RowTimes, rule: Int8, commits: Int8, *, heads: Int64, group: Int64
) -> GroupTimes:
    """Time lag of each group's oldest partition; a lower bound while another may be older.

    A partition of which no more than a lower bound, or nothing, is known may be older than all.

    Args:
        times: those of all rows of these groups.
        rule: their rules.
        commits: entries in their windows.
        heads: first row of each group; every group has at least one.
        group: the group of each row.
    """
    # a member holds the partition: what waits in it may be older than all that is committed
    reads = ~NOT_READ[rule] & ((commits > 0) | (rule == Rule.NEVER_COMMITS))
    lag_ms, reason, error_ms = times
    nothing = reads & (lag_ms < 0)
    open_end = reads & _AT_LEAST[reason]
    unsure = np.logical_or.reduceat(open_end, heads)
    age_ms = np.where(reads, lag_ms, UNKNOWN)
    at_most = AT_MOST[reason]
    if at_most.any():
        lowered = at_most & unsure[group]
        sure_ms = np.maximum(lag_ms - np.nan_to_num(error_ms).astype(np.int64), 0)
        age_ms = np.where(lowered & reads, sure_ms, age_ms)
    oldest_ms = np.maximum.reduceat(age_ms, heads)
    oldest = first_of(age_ms, oldest_ms, group)
    found = GroupTimes(
        lag_ms=oldest_ms,
        reason=reason[oldest].copy(),
        error_ms=error_ms[oldest].copy(),
        row=np.where(oldest_ms >= 0, oldest, UNKNOWN),
    )
    over_ms = np.where(at_most, 0, np.nan_to_num(error_ms))
    highest_ms = np.maximum.reduceat(np.where(reads, lag_ms + over_ms, 0), heads)
    more_ms = np.where(oldest_ms >= 0, highest_ms - oldest_ms, 0)
    upper = AT_MOST[found.reason]
    # another partition may be older than the oldest by its own error
    found.error_ms[:] = np.where(
        upper, found.error_ms + more_ms, np.maximum(found.error_ms, more_ms)
    )
    found.lag_ms[upper & ~unsure] += more_ms.astype(np.int64)[upper & ~unsure]
    close_ms = exact_within_ms(found.lag_ms) + _ROUND_MS
    off = _EXACT[found.reason] & (found.lag_ms > 0) & (found.error_ms > close_ms)
    found.reason[off] = TimeLagReason.BETWEEN_ROUNDS
    if unsure.any():
        # why it is only a bound: first of all a partition that is behind for an unknown time
        rank = np.where(open_end, np.where(nothing, 0, lag_ms + 1), UNKNOWN)
        why = first_of(rank, np.maximum.reduceat(rank, heads), group)
        found.reason[unsure] = reason[why[unsure]]
        open_ms = np.where(reads, np.where(lag_ms >= 0, lag_ms + error_ms, np.nan), 0)
        found.error_ms[unsure] = (np.maximum.reduceat(open_ms, heads) - oldest_ms)[unsure]
        # "at least 0 s" alone says nothing, as of a row
        empty = unsure & (found.lag_ms == 0) & np.isnan(found.error_ms)
        found.lag_ms[empty], found.row[empty] = UNKNOWN, UNKNOWN
    return found


def first_of(
    values: NDArray[np.integer], best: NDArray[np.integer], group: NDArray[np.intp]
) -> Int64:
    """Per group: its first row whose value is the best of the group; `group` is that of rows."""
    rows = np.flatnonzero(values == best[group])
    found = np.empty(best.size, np.int64)
    # of repeated indices numpy keeps the last value: reversed, that is the first row
    found[group[rows[::-1]]] = rows[::-1]
    return found
