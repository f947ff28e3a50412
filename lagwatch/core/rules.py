"""One named predicate per rule, over all windows at once.

Columns are rings as in `window`: slots first, rows second. A slot's predecessor is the slot
before it, except for the oldest entry, which has none.

Source of the rules: Burrow, core/internal/evaluator/caching.go.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import STATUS_BY_RULE, UNKNOWN, Rule

Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

_NO_LAG = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumns:
    """The windows of n rows, k slots each."""

    offset: Int64
    """[k, n]"""
    commit_ms: Int64
    """[k, n]"""
    lag: Int64
    """[k, n]; -1 unknown."""
    count: Slots
    """[n]"""
    oldest: Slots
    """[n] slot of the oldest entry; 0 for an empty row."""
    newest: Slots
    """[n] slot of the newest entry; -1 for an empty row."""

    @property
    def rows(self) -> NDArray[np.intp]:
        return np.arange(self.count.size)

    def take(self, rows: Slots) -> "WindowColumns":
        """The windows of these rows."""
        return WindowColumns(
            offset=self.offset[:, rows],
            commit_ms=self.commit_ms[:, rows],
            lag=self.lag[:, rows],
            count=self.count[rows],
            oldest=self.oldest[rows],
            newest=self.newest[rows],
        )

    def part(self, rows: slice) -> "WindowColumns":
        """The windows of consecutive rows, as views."""
        return WindowColumns(
            offset=self.offset[:, rows],
            commit_ms=self.commit_ms[:, rows],
            lag=self.lag[:, rows],
            count=self.count[rows],
            oldest=self.oldest[rows],
            newest=self.newest[rows],
        )

    def in_time(self, column: Int64) -> Int64:
        """A column unrolled: [k, n], oldest entry first, what follows the newest undefined."""
        slots = np.arange(column.shape[0])[:, None]
        unrolled: Int64 = column[
            (self.oldest[None, :] + slots) % column.shape[0], self.rows[None, :]
        ]
        return unrolled


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the rules saw, per row."""

    rule: Int8
    """`Rule` that decided."""
    lowest_lag: Int64
    """Lowest known lag in the window; -1 when none is known."""
    rewinds: dict[int, tuple[int, int]]
    """Row → offsets before and after, for rows decided by REWOUND."""


def has_stopped(windows: WindowColumns, now_ms: int | Int64) -> Bools:
    """Has the group been silent for longer than its whole window spans?

    A window of one commit spans no time, so any silence counts.

    Source: checkIfOffsetsStopped.
    """
    rows = windows.rows
    last_ms = windows.commit_ms[windows.newest, rows]
    first_ms = windows.commit_ms[windows.oldest, rows]
    return now_ms - last_ms > last_ms - first_ms


def was_at_the_end(windows: WindowColumns, recent_end: Int64) -> Bools:
    """Was the committed offset at the log end a short while ago? Then silence is no stop.

    `recent_end` is the lowest log end offset of the last while, -1 when unknown.

    Source: checkIfRecentLagZero.
    """
    return (recent_end >= 0) & (recent_end <= windows.offset[windows.newest, windows.rows])


def first_rewind(windows: WindowColumns) -> tuple[Bools, Int64, Int64]:
    """Did the offset fall and not come back to where it was? With the offsets around the fall.

    Only the first fall is looked at.

    Source: checkIfOffsetsRewind, checkIfRewindRecovered.
    """
    offsets = windows.in_time(windows.offset)
    slots = offsets.shape[0]
    valid = np.arange(1, slots)[:, None] < windows.count[None, :]
    falls = (offsets[1:] < offsets[:-1]) & valid
    fell = falls.any(axis=0)
    first = falls.argmax(axis=0)
    rows = windows.rows
    before, after = offsets[first, rows], offsets[np.minimum(first + 1, slots - 1), rows]
    later = valid & (np.arange(1, slots)[:, None] > first[None, :])
    recovered = (later & (offsets[1:] >= before[None, :])).any(axis=0)
    return fell & ~recovered, before, after


def never_decreases(windows: WindowColumns) -> Bools:
    """Do the known lags never fall from one to the next? True for none and for one.

    Source: checkIfLagNotDecreasing.
    """
    lags = windows.in_time(windows.lag)
    known = (lags >= 0) & (np.arange(lags.shape[0])[:, None] < windows.count[None, :])
    highest = np.maximum.accumulate(np.where(known, lags, UNKNOWN), axis=0)
    falls: Bools = np.logical_or.reduce(known & (lags < highest), axis=0)
    return ~falls


@dataclass(frozen=True, slots=True, kw_only=True)
class _Movement:
    falls: Bools
    still: Bools
    shrinks: Bools
    gaps: Bools
    lowest_lag: Int64


def _movement(windows: WindowColumns) -> _Movement:
    """One pass over the slots, each compared with the slot before it."""
    number = windows.count.size
    falls, shrinks, gaps = (np.zeros(number, np.bool_) for _ in range(3))
    still = np.ones(number, np.bool_)
    lowest = np.full(number, _NO_LAG, np.int64)
    for slot in range(windows.offset.shape[0]):
        used = windows.count > slot
        follows = used & (windows.oldest != slot)
        offset, before = windows.offset[slot], windows.offset[slot - 1]
        lag, lag_before = windows.lag[slot], windows.lag[slot - 1]
        falls |= follows & (offset < before)
        still &= (offset == before) | ~follows
        shrinks |= follows & (lag < lag_before)
        known = used & (lag >= 0)
        gaps |= used ^ known
        np.minimum(lowest, lag, out=lowest, where=known)
    return _Movement(falls=falls, still=still, shrinks=shrinks, gaps=gaps, lowest_lag=lowest)


def judge(
    windows: WindowColumns,
    *,
    current_lag: Int64,
    recent_end: Int64,
    now_ms: int | Int64,
    allowed_lag: int | Int64 = 0,
    minimum_complete: float = 0.0,
) -> Facts:
    """Ask the rules in their order of precedence; the first that holds decides.

    `current_lag` is -1 where the log end is not known. `now_ms` and `allowed_lag` may differ by
    row.

    Source: calculatePartitionStatus, with the checks of evaluateConsumerStatus before it.
    """
    number = windows.count.size
    rule = np.full(number, Rule.PROGRESSING, np.int8)
    rule[windows.count == 0] = Rule.NEVER_COMMITTED
    asked = windows.count > 0
    lowest_lag = np.full(number, UNKNOWN, np.int64)
    rewinds: dict[int, tuple[int, int]] = {}
    for holds, decided in (
        (current_lag < 0, Rule.LOG_END_UNKNOWN),
        (windows.count < minimum_complete * windows.offset.shape[0], Rule.WINDOW_INCOMPLETE),
        (current_lag <= allowed_lag, Rule.LAG_WITHIN_ALLOWED),
    ):
        rule[asked & holds] = decided
        asked &= ~holds
    behind = np.flatnonzero(asked)
    if behind.size:
        whole = behind.size == number
        chosen = windows if whole else windows.take(behind)
        decided_rules, lowest, found = _judge_lagging(
            chosen,
            recent_end=recent_end[behind],
            now_ms=np.broadcast_to(now_ms, number)[behind],
            allowed_lag=np.broadcast_to(allowed_lag, number)[behind],
        )
        rule[behind], lowest_lag[behind] = decided_rules, lowest
        rewinds = {int(behind[row]): offsets for row, offsets in found.items()}
    return Facts(rule=rule, lowest_lag=lowest_lag, rewinds=rewinds)


def _judge_lagging(
    windows: WindowColumns, *, recent_end: Int64, now_ms: Int64, allowed_lag: Int64
) -> tuple[Int8, Int64, dict[int, tuple[int, int]]]:
    """The rules for rows that have commits and are behind."""
    moved = _movement(windows)
    rewound, rewinds = _confirm_rewinds(windows, moved.falls)
    grows = ~moved.shrinks
    gaps = np.flatnonzero(moved.gaps)
    if gaps.size:
        grows[gaps] = never_decreases(windows.take(gaps))
    stopped = has_stopped(windows, now_ms) & ~was_at_the_end(windows, recent_end)
    rule = np.select(
        [stopped, rewound, moved.lowest_lag <= allowed_lag, moved.still, grows],
        [
            np.int8(Rule.STOPPED),
            np.int8(Rule.REWOUND),
            np.int8(Rule.LAG_WAS_WITHIN_ALLOWED),
            np.int8(Rule.STALLED),
            np.int8(Rule.LAG_NOT_DECREASING),
        ],
        np.int8(Rule.PROGRESSING),
    )
    lowest = np.where(moved.lowest_lag == _NO_LAG, UNKNOWN, moved.lowest_lag)
    decided = {row: offsets for row, offsets in rewinds.items() if rule[row] == Rule.REWOUND}
    return rule, lowest, decided


def _confirm_rewinds(
    windows: WindowColumns, falls: Bools
) -> tuple[Bools, dict[int, tuple[int, int]]]:
    fell = np.flatnonzero(falls)
    rewound = np.zeros(falls.size, np.bool_)
    if not fell.size:
        return rewound, {}
    confirmed, before, after = first_rewind(windows.take(fell))
    rewound[fell[confirmed]] = True
    rows = fell[confirmed].tolist()
    offsets = zip(before[confirmed].tolist(), after[confirmed].tolist(), strict=True)
    return rewound, dict(zip(rows, offsets, strict=True))


STATUS_OF_RULE: Int8 = np.array([STATUS_BY_RULE[rule] for rule in Rule], np.int8)
"""`STATUS_OF_RULE[rule]` is the partition status of each rule."""
