"""Teaches the pace of rows from commits and from lags."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, EpochMs, Rule, TimeLagReason
from lagwatch.core.pace import Pace
from lagwatch.core.rows import uninterrupted_ms
from lagwatch.core.rules import late_for
from lagwatch.core.snapshot import ClusterSnapshot, RowColumns
from lagwatch.core.window import CommitColumns, Windows
from lagwatch.monitor.known_commits import KnownCommits
from lagwatch.monitor.partitions import PartitionStates
from lagwatch.monitor.rows import RowTable
from lagwatch.monitor.skew import ClockSkew

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

_AT_WORK: Final = np.isin(
    np.arange(len(Rule)), (Rule.LAG_WITHIN_ALLOWED, Rule.PROGRESSING, Rule.FALLING_BEHIND)
)
"""Rules by which a group reads: while it pauses, its lag does not say whether it is fast enough."""
_MEASURED: Final = np.isin(
    np.arange(len(TimeLagReason)),
    (
        TimeLagReason.MEASURED,
        TimeLagReason.STORED,
        TimeLagReason.SAMPLES_APART,
        TimeLagReason.BETWEEN_ROUNDS,
        TimeLagReason.CAUGHT_UP,
    ),
)
_RESTART_STEPS: Final = 2


class Movements:
    """Teaches the pace of the rows of one cluster. One owner calls."""

    def __init__(
        self,
        pace: Pace,
        windows: Windows,
        table: RowTable,
        *,
        history: LogEndHistory,
        partitions: PartitionStates,
        commits: KnownCommits,
        skew: ClockSkew,
        away_after_ms: int,
    ) -> None:
        """Lags that were not known for longer than `away_after_ms` did not rise meanwhile."""
        self._pace = pace
        self._windows = windows
        self._table = table
        self._history = history
        self._partitions = partitions
        self._commits = commits
        self._skew = skew
        self._away_after_ms = away_after_ms
        self._lags_ms = EpochMs(UNKNOWN)
        """When lags were known last."""
        self._gap_ms = away_after_ms
        """After lags were not known for longer, rises begin anew."""
        self._stepped = True
        """Did a step end with the last round?"""

    def restore(self, lags_ms: int) -> None:
        """Lags were known last at this instant, by an earlier process.

        Kafka was there while lagwatch was restarted, as far as is known: lags went on rising.
        """
        self._lags_ms = EpochMs(lags_ms)
        self._gap_ms = max(self._away_after_ms, _RESTART_STEPS * self._pace.step_ms)

    def follow(
        self,
        commits: CommitColumns,
        before: Int64,
        starts: Bools,
        *,
        first_ms: EpochMs,
        pauses_seen: bool = True,
        unseen_ms: tuple[int, int] = (UNKNOWN, UNKNOWN),
    ) -> None:
        """Learn from commits sorted by row.

        Args:
            commits: not in their windows yet.
            before: the offset before each; -1 none.
            starts: which are the first of their row.
            first_ms: when lagwatch first watched the cluster; -1: not yet.
            pauses_seen: False if there may have been other commits before these.
            unseen_ms: a time whose commits were not seen, on lagwatch's clock: a pause that
                it cuts is not learned.
        """
        row, offset, commit_ms = commits.row, commits.offset, commits.commit_ms
        moved = offset != before
        since_ms = self._moved_before(row, commit_ms, starts, moved)
        moves = np.flatnonzero(moved)
        skew_ms, (from_ms, until_ms) = self._skew.corrected_ms, unseen_ms
        cut = (since_ms + skew_ms < until_ms) & (commit_ms + skew_ms > from_ms)
        pause_ms = np.where((since_ms >= 0) & pauses_seen & ~cut, commit_ms - since_ms, UNKNOWN)
        # but a run began after it, if what was seen of it is long
        ours_ms = commit_ms + skew_ms
        rest_ms = np.maximum(from_ms - since_ms - skew_ms, ours_ms - until_ms)
        rested = moved & cut & (since_ms >= 0) & (rest_ms >= self._pace.long_ms)
        self._pace.begin_runs(row[rested], commit_ms[rested])
        # whether a short one was spent reading makes no difference to what is usual
        long = moves[pause_ms[moves] > self._pace.step_ms]
        if long.size:
            pause_ms[long] = self._spent_reading(
                row[long], before[long], since_ms[long], commit_ms[long]
            )
        past = self._began_unwatched(since_ms[moves], first_ms)
        for part, unwatched in ((moves[past], True), (moves[~past], False)):
            self._pace.move(row[part], commit_ms[part], pause_ms[part], past=unwatched)

    def _began_unwatched(self, since_ms: Int64, first_ms: EpochMs) -> Bools:
        """Mask of pauses that began before lagwatch first watched the cluster."""
        if first_ms < 0:
            return np.ones(since_ms.size, np.bool_)
        return since_ms + self._skew.corrected_ms < first_ms

    def _moved_before(self, row: Slots, commit_ms: Int64, starts: Bools, moved: Bools) -> Int64:
        """When each commit's row had moved last before it; -1 for never."""
        if starts.all():  # one commit of each row
            moved_ms: Int64 = self._pace.moved_ms[row]
            return moved_ms
        place = np.arange(row.size)
        last = np.maximum.accumulate(np.where(moved, place, UNKNOWN))
        previous = np.append(UNKNOWN, last[:-1])
        heads = np.flatnonzero(starts)
        head = np.repeat(heads, np.diff(heads, append=row.size))
        inside = previous >= head
        return np.where(inside, commit_ms[previous], self._pace.moved_ms[row])

    def _spent_reading(self, row: Slots, before: Int64, since_ms: Int64, commit_ms: Int64) -> Int64:
        """How much of each long pause there was something to read, and Kafka was there."""
        skew_ms = self._skew.corrected_ms
        at = self._table.at[row]
        ours_ms = commit_ms + skew_ms
        if self._history.partitions and self._history.at_ms.size:
            waited_ms, reason = self._history.waited(np.maximum(at, 0), before, ours_ms)
            measured = (at >= 0) & (reason == TimeLagReason.MEASURED)
            since_ms = np.where(measured, np.maximum(since_ms, commit_ms - waited_ms), since_ms)
            nothing = (at >= 0) & (reason == TimeLagReason.CAUGHT_UP)
            since_ms = np.where(nothing, commit_ms, since_ms)
        if self._pace.waited_ms is not None:  # for a transaction to end
            since_ms = np.maximum(since_ms, np.minimum(self._pace.waited_ms[row], commit_ms))
        absences = self._partitions.absences(at, skew_ms=skew_ms)
        return uninterrupted_ms(since_ms, commit_ms, *absences)

    def resume(self, now_ms: EpochMs) -> NDArray[np.integer]:
        """Lags are known in the round that begins: were they not, for long?

        Returns the stored rows that are to be judged again for it.
        """
        resumes = now_ms - self._lags_ms > self._gap_ms
        self._lags_ms, self._gap_ms = now_ms, self._away_after_ms
        return self._pace.resume(now_ms) if resumes else np.zeros(0, np.intp)

    def see_lags(
        self,
        snapshot: ClusterSnapshot,
        now_ms: EpochMs,
        changed: NDArray[np.intp] | None,
        *,
        held: Bools,
    ) -> NDArray[np.intp]:
        """Follow how lags rise and fall; they must be fresh. See `resume`.

        Once a step, what is usual is learned and forgotten: returns the stored rows that are to be
        judged again for it.

        `changed`: rows of the snapshot that may differ from the one before; None: all. `held`:
        stored rows whose partitions members hold.
        """
        rows = snapshot.rows
        away = np.append(self._partitions.away(now_ms), False)
        # the lowest lag of a step is that of all its rounds: the first one shows all lags
        some = slice(None) if changed is None or self._stepped else changed
        known = self._known(snapshot, some, away, now_ms)
        stepped = self._pace.see_lags(
            rows.window[some][known], _not_read(snapshot, some)[known], now_ms
        )
        self._stepped = stepped
        if stepped:
            before = self._pace.judged_by()
            if not isinstance(some, slice):
                known = self._known(snapshot, slice(None), away, now_ms)
            late = self._late(rows, np.flatnonzero(known & self._pace.may_rise(rows.window)))
            shown = rows.window[rows.rule == Rule.FALLING_BEHIND]
            self._pace.follow_rises(now_ms, late=late, shown=shown)
            moved_ms = self._moved_of_groups(snapshot, held.size)
            self._pace.forget_past(held, now_ms, moved_ms=moved_ms)
            return self._pace.changed_since(before)
        return np.zeros(0, np.intp)

    def _moved_of_groups(self, snapshot: ClusterSnapshot, size: int) -> Int64:
        """By stored row: when any row of its group moved last; a member waits for all of them."""
        first, window = snapshot.group.first, snapshot.rows.window
        moved_ms = self._pace.moved_ms[:size].copy()
        if window.size:
            last_ms = np.maximum.reduceat(moved_ms[window], first[:-1])
            moved_ms[window] = np.repeat(last_ms, np.diff(first))
        return moved_ms

    def _late(self, rows: RowColumns, chosen: NDArray[np.intp]) -> Int32:
        """Those of the chosen rows, as stored, that have old messages to read."""
        times, window = rows.some_times(chosen), rows.window[chosen]
        # a bound is not a measurement: the rules do not look at it either
        measured_ms = np.where(_MEASURED[times.reason], times.lag_ms, UNKNOWN)
        late = late_for(measured_ms, self._pace.pause_ms(window) + self._pace.step_ms)
        found: Int32 = window[late]
        return found

    def _known(
        self,
        snapshot: ClusterSnapshot,
        some: NDArray[np.intp] | slice,
        away: Bools,
        now_ms: EpochMs,
    ) -> Bools:
        """Mask of rows whose lag shows how fast the group reads."""
        rows = snapshot.rows
        rule, window = rows.rule[some], rows.window[some]
        # each round may find a group that commits seldom in the middle between two commits
        quiet_ms = now_ms - self._skew.corrected_ms - self._pace.moved_ms[window]
        paused = (rule == Rule.PAUSED) & (quiet_ms <= self._pace.pause_ms(window))
        known: Bools = (rows.readable_lag[some] >= 0) & (_AT_WORK[rule] | paused)
        if away.any():
            away[-1] = True  # of a topic that is not visible nothing is known either
            known &= ~away[rows.at[some]]
        # log ends that are read on while commits are not make any lag seem to rise
        return known & ~self._commits.away(window, now_ms)

    def leave_out(self, back: Bools) -> None:
        """Partitions have come back: their lags did not rise while they could not be read."""
        at = self._table.at[: self._windows.rows]
        rows = np.flatnonzero(np.append(back, False)[at])
        away_ms, back_ms, *_ = self._partitions.absences(at[rows], skew_ms=0)
        self._pace.leave_out(rows, back_ms - away_ms)

    def leave_out_unread(self) -> None:
        """Commits are read again: the lags of their rows did not rise while they could not be."""
        self._pace.leave_out(*self._commits.returned(self._windows.rows))


def _not_read(snapshot: ClusterSnapshot, some: NDArray[np.intp] | slice) -> Int64:
    """Lags of rows at work: with what was deleted, which members may have fetched before.

    Without it the lag of a group that reads on would seem to rise while it comes closer to the log
    start.
    """
    rows = snapshot.rows
    if rows.lag is rows.readable_lag:
        return rows.readable_lag[some]
    not_read: Int64 = rows.readable_lag[some] + snapshot.below_log_start(some)
    return not_read
