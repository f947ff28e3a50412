"""Columnar windows of commits: insert, order, expiry.

State is numpy columns: one *row* per group-partition, `intervals` *slots* per row. A row's slots
form a ring; while it is not full its entries are in slots `0 .. count-1`, oldest first. Slots
are the first axis, so that one rule over all rows runs along contiguous memory.

Source of the semantics: Burrow, core/internal/storage/inmemory.go (addConsumerOffset).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.sorting import stable_order

Int64 = NDArray[np.int64]
Rows = NDArray[np.integer]
Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]

MAX_INTERVALS = 100
"""`count` and `newest` are int8 columns."""
_WIDEST_LAG: Final = np.iinfo(np.int32).max
"""The greatest lag that fits narrow columns."""

_HALF_ORDER = 1 << 31
"""Orders are kept by their lower 32 bits, to save memory: those of one window are never as far
apart as this, so the sign of their wrapped distance shows which is newer."""

_HOT_ROW = 48
"""More commits than this of one row in one batch: walk that row alone, not rank by rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitColumns:
    """Commits in the order they arrived; equal lengths.

    `lag` is the lag at the time of the commit, -1 when unknown.
    """

    row: Rows
    offset: Int64
    commit_ms: Int64
    order: Int64
    lag: Int64
    observed_s: NDArray[np.uint32]

    def take(self, index: NDArray[np.intp] | Bools) -> "CommitColumns":
        """The commits at these positions, in this order."""
        if index.dtype == np.bool_:
            index = np.flatnonzero(index)  # numpy is twice as slow with masks
        return CommitColumns(
            row=self.row[index],
            offset=self.offset[index],
            commit_ms=self.commit_ms[index],
            order=self.order[index],
            lag=self.lag[index],
            observed_s=self.observed_s[index],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """Entries of windows, as columns: one row's, oldest first, or one of each of many rows."""

    offset: list[int]
    commit_ms: list[int]
    order: list[int]
    """Lower 32 bits."""
    lag: list[int]
    """-1 unknown."""
    observed_s: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCopy:
    """Windows apart from their store: [intervals, n], oldest entry first; `count` is [n].

    What follows a row's newest entry repeats it; of an empty row everything is 0.
    """

    offset: Int64
    commit_ms: Int64
    order: NDArray[np.uint32]
    lag: Int64
    observed_s: NDArray[np.uint32]
    count: NDArray[np.int8]


BLOCK_ROWS: Final = 16_384
"""Rows judged at a time: what is held in between fits the cache, however large the cluster."""


class Windows:
    """The windows of all rows of one cluster. Not safe for concurrent use: one owner writes."""

    def __init__(self, *, intervals: int, min_distance_ms: int) -> None:
        if not 1 <= intervals <= MAX_INTERVALS:
            raise ValueError(f"intervals must be 1..{MAX_INTERVALS}, not {intervals}")
        self.intervals = intervals
        self.min_distance_ms = min_distance_ms
        self.block_rows = BLOCK_ROWS
        self.rows = 0
        self._allocate(0)

    def _allocate(self, capacity: int) -> None:
        shape = (self.intervals, capacity)
        self.offset = np.empty(shape, np.int64)
        self.commit_ms = np.empty(shape, np.int64)
        self.order = np.empty(shape, np.uint32)
        # half the memory as long as no lag needs more: see `_make_room_for`
        self.lag: NDArray[np.signedinteger] = np.empty(shape, np.int32)
        self.observed_s = np.empty(shape, np.uint32)
        self.count = np.zeros(capacity, np.int8)
        self.newest = np.full(capacity, UNKNOWN, np.int8)

    def add_rows(self, number: int) -> int:
        """Make room for `number` empty rows; returns the first of them."""
        first, needed = self.rows, self.rows + number
        if needed > self.count.size:
            self._grow(max(needed, self.count.size + self.count.size // 4 + 1024))
        self.rows = needed
        return first

    def _grow(self, capacity: int) -> None:
        # one column at a time, so that never more than one is held twice
        used = self.rows
        for name in ("offset", "commit_ms", "order", "lag", "observed_s"):
            old = getattr(self, name)
            new = np.empty((self.intervals, capacity), old.dtype)
            new[:, :used] = old[:, :used]
            setattr(self, name, new)
            del old
        for name, empty in (("count", 0), ("newest", UNKNOWN)):
            old = getattr(self, name)
            new = np.full(capacity, empty, np.int8)
            new[:used] = old[:used]
            setattr(self, name, new)

    def clear(self, rows: Rows) -> None:
        """Empty these rows."""
        self.count[rows] = 0
        self.newest[rows] = UNKNOWN

    def newer_than(self, order: int, rows: Rows) -> Bools:
        """Mask of rows whose newest commit is newer than `order`; False for empty rows."""
        newest = self.newest[rows]
        distance = _distance(np.uint32(order & 0xFFFFFFFF), self.order[newest, rows])
        return (newest >= 0) & (distance < 0)

    def keep_newest(self, rows: Rows) -> None:
        """Forget all entries of these rows but the newest, whose lag becomes unknown."""
        newest = self.newest[rows]
        for column in (self.offset, self.commit_ms, self.order, self.observed_s):
            column[0, rows] = column[newest, rows]
        self.lag[0, rows] = UNKNOWN
        self.newest[rows], self.count[rows] = 0, 1

    def advances(self, rows: Rows, order: Int64) -> Bools:
        """Mask of commits that are newer than the newest one of their row."""
        newest = self.newest[rows]
        # one index computation, several times as fast as with two columns of indices
        flat = newest.astype(np.intp) * self.count.size + rows
        distance = _distance(order.astype(np.uint32), self.order.ravel()[flat])
        return (newest < 0) | (distance > 0)

    def last_offset(self, rows: Rows) -> Int64:
        """The committed offset of each row; meaningless for an empty one."""
        return self.offset[self.newest[rows], rows]

    def oldest_slot(self, rows: Rows | slice) -> NDArray[np.int8]:
        """The slot of the oldest entry of each of these rows; 0 for an empty row."""
        count, newest = self.count[rows], self.newest[rows]
        following = newest + np.int8(1)
        return np.where((count == self.intervals) & (following < self.intervals), following, 0)

    def entries(self, row: int) -> Entries:
        """One row's entries, oldest first."""
        count, newest = int(self.count[row]), int(self.newest[row])
        slots = [(newest - back) % self.intervals for back in range(count - 1, -1, -1)]
        return self._taken(slots, row)

    def oldest_and_newest(
        self, rows: Rows, offset: Int64, commit_ms: Int64
    ) -> tuple[Entries, Entries]:
        """The oldest entry of each row, and that of the commit which is given, as columns.

        That commit is the newest that its row had when it was judged. Of one that the window does
        not hold any more the lag is not known; where nothing older is left either, it is both.
        """
        newest = self.newest[rows].astype(np.int64)
        full = self.count[rows] == self.intervals
        first = np.where(full, (newest + 1) % self.intervals, 0)
        same = (self.offset[newest, rows] == offset) & (self.commit_ms[newest, rows] == commit_ms)
        gone = []
        for index in np.flatnonzero(~same).tolist():
            held = self.entries(int(rows[index]))
            commits = list(zip(held.offset, held.commit_ms, strict=True))
            commit = int(offset[index]), int(commit_ms[index])
            if commit in commits:
                later = len(commits) - 1 - commits.index(commit)
                newest[index] = (newest[index] - later) % self.intervals
            else:
                gone.append((index, *commit))
        oldest, end = self._taken(first, rows), self._taken(newest, rows)
        for index, at, at_ms in gone:
            for entry in (end,) if oldest.commit_ms[index] < at_ms else (oldest, end):
                entry.offset[index], entry.commit_ms[index] = at, at_ms
                entry.lag[index], entry.observed_s[index] = UNKNOWN, at_ms // 1000
        return oldest, end

    def _taken(self, slots: Rows | list[int], rows: Rows | int) -> Entries:
        return Entries(
            offset=self.offset[slots, rows].tolist(),
            commit_ms=self.commit_ms[slots, rows].tolist(),
            order=self.order[slots, rows].tolist(),
            lag=self.lag[slots, rows].tolist(),
            observed_s=self.observed_s[slots, rows].tolist(),
        )

    def copied(self, rows: Rows) -> WindowCopy:
        """The windows of these rows; a copy."""
        count, newest = self.count[rows], self.newest[rows].astype(np.int64)
        back = np.maximum(count - np.arange(1, self.intervals + 1)[:, None], 0)
        # a ring: newest - back is negative where the window has wrapped
        slot = np.maximum(newest, 0) - back
        slot = np.where(slot < 0, slot + self.intervals, slot)
        flat = slot * self.count.size + rows  # one index computation for five columns
        columns = (self.offset, self.commit_ms, self.order, self.lag, self.observed_s)
        taken = [column.ravel()[flat] for column in columns]
        empty = np.flatnonzero(count == 0)
        for column in taken:
            column[:, empty] = 0
        offset, commit_ms, order, lag, observed_s = taken
        return WindowCopy(
            offset=offset,
            commit_ms=commit_ms,
            order=order,
            lag=lag,
            observed_s=observed_s,
            count=count,
        )

    def stored(self, first: int, end: int) -> Iterator[NDArray[np.integer]]:
        """All memory of the rows from `first` to before `end`, whatever they hold; views."""
        for column in (self.offset, self.commit_ms, self.order, self.lag, self.observed_s):
            yield from column[:, first:end]
        yield self.count[first:end]
        yield self.newest[first:end]

    def put(self, first: int, copy: WindowCopy) -> None:
        """Write such a copy into the rows from `first` on, which must be there."""
        rows = slice(first, first + copy.count.size)
        self._make_room_for(copy.lag)
        self.offset[:, rows] = copy.offset
        self.commit_ms[:, rows] = copy.commit_ms
        self.order[:, rows] = copy.order
        self.lag[:, rows] = copy.lag
        self.observed_s[:, rows] = copy.observed_s
        self.count[rows] = copy.count
        self.newest[rows] = copy.count - 1

    def fill_lags(self, rows: Rows, end: Int64) -> None:
        """Set unknown lags of these rows to those at a log end, one for each row."""
        used = np.arange(self.intervals)[:, None] < self.count[rows]
        lag = np.where(used, self.lag[:, rows], 0)
        bound = np.where(lag < 0, np.maximum(end - self.offset[:, rows], 0), lag)
        self._make_room_for(bound)
        self.lag[:, rows] = bound

    def _make_room_for(self, lag: Int64) -> None:
        """Lags of two billion messages and more need wider columns."""
        if self.lag.dtype == np.int32 and lag.size and lag.max() > _WIDEST_LAG:
            self.lag = self.lag.astype(np.int64)

    def insert(self, commits: CommitColumns) -> Bools:
        """Insert commits in order of arrival; says which of them were the newest of their row.

        A commit whose order is not above its row's newest is a late one: it is dropped when the
        full window is newer or has it already, else put in its place with an unknown lag.
        """
        if commits.row.size == 0:
            return np.zeros(0, np.bool_)
        # most callers pass rows in order already: looking costs far less than sorting
        if (commits.row[1:] < commits.row[:-1]).any():
            by_row = stable_order(commits.row)
            arrived = np.empty(by_row.size, np.bool_)
            arrived[by_row] = self._insert_sorted(commits.take(by_row))
            return arrived
        return self._insert_sorted(commits)

    def _insert_sorted(self, ordered: CommitColumns) -> Bools:
        starts = _starts(ordered.row)
        order = ordered.order.astype(np.uint32)
        before = self._previous(
            order, ordered.row, starts, self.order, order[starts] - np.uint32(1)
        )
        # unsigned subtraction wraps, so this is right across the overflow of the lower 32 bits
        late = _distance(order, before) <= 0
        in_order = ~late
        if late.any():
            # a row with one late commit is walked alone: what follows depends on where it went
            walk = _any_of_row(late, starts)
            for start, end in _segments(starts, walk, ordered.row.size):
                in_order[start:end] = [self._insert_one(ordered, i) for i in range(start, end)]
            self._append(ordered.take(~walk))
        else:
            self._append(ordered)
        return in_order

    def _previous(
        self, column: Ints, rows: Rows, starts: Bools, stored: Ints, empty: Ints | int
    ) -> Ints:
        """Per commit: the same column of the one before it, in this batch or in the window.

        `empty` is the value for the first commit of an empty row.
        """
        before = np.empty_like(column)
        before[1:] = column[:-1]
        heads = rows[starts]
        newest = self.newest[heads]
        before[starts] = np.where(newest >= 0, stored[newest, heads], empty)
        return before

    def _append(self, commits: CommitColumns) -> None:
        """Append commits, sorted by row, all newer than what their row holds."""
        if commits.row.size == 0:
            return
        starts = _starts(commits.row)
        # half of the lowest integer: subtracting it below must not overflow
        no_predecessor = np.iinfo(np.int64).min // 2
        before_ms = self._previous(
            commits.commit_ms, commits.row, starts, self.commit_ms, no_predecessor
        )
        close = commits.commit_ms - before_ms < self.min_distance_ms
        if not close.any():
            self._append_slots(commits, np.arange(starts.size))
            return
        merging = _any_of_row(close, starts)
        if not merging.all():
            self._append_slots(commits, np.flatnonzero(~merging))
            commits = commits.take(merging)
        self._append_merging(commits)

    def _append_slots(self, commits: CommitColumns, chosen: NDArray[np.intp]) -> None:
        """Append the chosen commits, all of their rows, each into a slot of its own."""
        row = commits.row[chosen]
        starts = _starts(row)
        rank = _rank(starts)
        # `newest` is int8: as int64, or adding the rank of a long batch would overflow
        slot = self.newest[row] + np.int64(1) + rank
        # the remainder: numpy divides with vector instructions, but takes remainders one by one
        slot -= slot // self.intervals * self.intervals
        last = np.append(starts[1:], True)
        number = rank[last] + 1
        if number.max() > self.intervals:
            # only a row's last commits fit: later ones would overwrite these
            fits = np.flatnonzero(np.repeat(number, number) - rank <= self.intervals)
            self._write(slot[fits], commits.take(chosen[fits]))
        else:
            self._write(slot, commits if chosen.size == commits.row.size else commits.take(chosen))
        rows = row[last]
        self.newest[rows] = slot[last]
        self.count[rows] = np.minimum(self.count[rows] + number, self.intervals)

    def _write(self, slot: Int64, commits: CommitColumns) -> None:
        # flat indices: one index computation for five columns
        flat = slot * self.offset.shape[1] + commits.row
        self._make_room_for(commits.lag)
        for column, values in (
            (self.offset, commits.offset),
            (self.commit_ms, commits.commit_ms),
            (self.order, commits.order),
            # numpy writes other types to scattered places one by one, several times slower
            (self.lag, commits.lag.astype(self.lag.dtype, copy=False)),
            (self.observed_s, commits.observed_s),
        ):
            column.ravel()[flat] = values

    def _append_merging(self, commits: CommitColumns) -> None:
        """Append where some commits are closer than the minimum distance: rank by rank."""
        starts = _starts(commits.row)
        rank = _rank(starts)
        hot = _any_of_row(rank >= _HOT_ROW, starts)
        if hot.any():
            for start, end in _segments(starts, hot, rank.size):
                self._append_hot(commits, start, end)
            # hot rows are done: rank -1 sorts them before rank 0, where the loop below skips them
            rank = np.where(hot, UNKNOWN, rank)
        by_rank = stable_order(rank + 1)
        bounds = np.searchsorted(rank[by_rank], np.arange(int(rank.max()) + 2))
        for lower, upper in itertools.pairwise(bounds.tolist()):
            self._append_each(commits.take(by_rank[lower:upper]))

    def _append_each(self, commits: CommitColumns) -> None:
        """Append at most one commit per row."""
        rows = commits.row
        newest = self.newest[rows].astype(np.int64)
        opens = (newest < 0) | (
            commits.commit_ms - self.commit_ms[newest, rows] >= self.min_distance_ms
        )
        slot = np.where(opens, (newest + 1) % self.intervals, newest)
        # a commit too close to its predecessor takes its place but keeps its time
        kept_ms = np.where(opens, commits.commit_ms, self.commit_ms[slot, rows])
        self._write(
            slot,
            CommitColumns(
                row=rows,
                offset=commits.offset,
                commit_ms=kept_ms,
                order=commits.order,
                lag=commits.lag,
                observed_s=commits.observed_s,
            ),
        )
        self.newest[rows] = slot
        self.count[rows] = np.minimum(self.count[rows] + opens, self.intervals)

    def _append_hot(self, commits: CommitColumns, start: int, end: int) -> None:
        """Append the commits `start:end`, all of one row, jumping from slot to slot.

        Of the commits that share a slot only the first (its time) and the last (the rest) matter.
        """
        row = int(commits.row[start])
        times = commits.commit_ms[start:end]
        # jumping needs rising times; the clock of a coordinator may go back
        if (times[1:] < times[:-1]).any():
            for index in range(start, end):
                self._append_each(commits.take(np.array([index])))
            return
        newest = int(self.newest[row])
        slot_ms = None if newest < 0 else int(self.commit_ms[newest, row])
        firsts: list[int] = []
        position = 0
        if slot_ms is not None:
            position = int(np.searchsorted(times, slot_ms + self.min_distance_ms))
            if position:
                self._append_each(commits.take(np.array([start + position - 1])))
        while position < times.size:
            firsts.append(position)
            position = int(np.searchsorted(times, times[position] + self.min_distance_ms))
        kept = firsts[-self.intervals :]  # they overwrite all that came before them
        # none where all of them fall into the slot that was there
        for first, following in itertools.pairwise([*kept, times.size]):
            self._append_each(commits.take(np.array([start + first])))
            if following - 1 > first:
                self._append_each(commits.take(np.array([start + following - 1])))

    def _insert_one(self, commits: CommitColumns, index: int) -> bool:
        """Insert one commit wherever it belongs; True when it is the newest of its row."""
        row, order = int(commits.row[index]), int(commits.order[index])
        held = self.entries(row)
        # the stored 32 bits cannot be compared with a full order, nor with each other
        held.order[:] = [unwrapped(low, near=order) for low in held.order]
        if not held.order or order > held.order[-1]:
            self._append_each(commits.take(np.array([index])))
            return True
        full = len(held.order) == self.intervals
        if (full and order <= held.order[0]) or order in held.order:
            return False
        place = int(np.searchsorted(held.order, order))
        offset, at_ms = int(commits.offset[index]), int(commits.commit_ms[index])
        observed_s = int(commits.observed_s[index])
        # right behind the oldest of a full window it takes the oldest's place, however close
        replaces_oldest = full and place == 1
        near = place and at_ms - held.commit_ms[place - 1] < self.min_distance_ms
        if near and not replaces_oldest:
            place -= 1
            held.offset[place], held.order[place] = offset, order
            held.lag[place], held.observed_s[place] = UNKNOWN, observed_s
        else:
            for values, value in (
                (held.offset, offset),
                (held.commit_ms, at_ms),
                (held.order, order),
                (held.lag, UNKNOWN),
                (held.observed_s, observed_s),
            ):
                values.insert(place, value)
                if full:
                    del values[0]
        self._replace(row, held)
        return False

    def _replace(self, row: int, held: Entries) -> None:
        count = len(held.offset)
        self.offset[:count, row] = held.offset
        self.commit_ms[:count, row] = held.commit_ms
        self.order[:count, row] = [order & 0xFFFFFFFF for order in held.order]
        self.lag[:count, row] = held.lag
        self.observed_s[:count, row] = held.observed_s
        self.count[row], self.newest[row] = count, count - 1


def _distance(order: Ints | np.uint32, before: Ints) -> NDArray[np.int32]:
    """How far `order` is ahead of `before`, wrapped; both uint32."""
    return np.subtract(order, before, dtype=np.uint32).astype(np.int32)


def unwrapped(low: int, *, near: int) -> int:
    """The full 64-bit order whose lower 32 bits are `low`, nearest to `near`."""
    return near - ((near - low + _HALF_ORDER) % (2 * _HALF_ORDER) - _HALF_ORDER)


def _starts(rows: Rows) -> Bools:
    """Where a new row begins, in columns sorted by row."""
    starts = np.ones(rows.size, np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=starts[1:])
    return starts


def _rank(starts: Bools) -> Int64:
    """The position of each commit among those of its row, from 0."""
    heads = np.flatnonzero(starts)
    return np.arange(starts.size) - np.repeat(heads, np.diff(heads, append=starts.size))


def _any_of_row(mask: Bools, starts: Bools) -> Bools:
    """True for all commits of a row of which at least one is marked."""
    heads = np.flatnonzero(starts)
    marked = np.logical_or.reduceat(mask, heads)
    return np.repeat(marked, np.diff(np.append(heads, mask.size)))


def _segments(starts: Bools, chosen: Bools, size: int) -> list[tuple[int, int]]:
    """(start, end) of each row that is chosen."""
    heads = np.flatnonzero(starts)
    ends = np.append(heads[1:], size)
    wanted = chosen[heads]
    return list(zip(heads[wanted].tolist(), ends[wanted].tolist(), strict=True))
