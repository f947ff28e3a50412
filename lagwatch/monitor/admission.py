"""Admits commits to the windows, each when the log ends around it are known."""

from collections import deque
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.sorting import stable_order
from lagwatch.core.window import CommitColumns
from lagwatch.monitor.group_watch import GroupWatch, set_while_empty
from lagwatch.monitor.live import LiveState
from lagwatch.monitor.shares import Shares
from lagwatch.ports.reports import Commits, GroupsGone, Progress, SharesSeen

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

_Waiting = Commits | GroupsGone | Progress | SharesSeen
"""What waits for the next round of log ends."""

_MOST_WAITING = 500_000
_LONGEST_WAIT_MS = 60_000
_OLD_MS = 5_000
"""Commits are read sooner after they were made."""


class Admission:
    """The way of commits, removals and progress of jobs into the windows.

    Commits wait until a round of log end offsets that began after they were seen: so the lag of a
    commit is taken on the line between the log ends before and after it, and is never negative.
    """

    def __init__(self, live: LiveState, watch: GroupWatch) -> None:
        self._live = live
        self._watch = watch
        self.shares = Shares()
        """What share groups had done as of the commits derived from it."""
        self.positions: dict[int, int] = {}
        """Offsets topic partition → next offset after all commits that are in the windows."""
        self.admitted = 0
        """Commits admitted to windows so far."""
        self.exact_times: bool | None = None
        """As in `Commits`, of the cluster's usual way to read them; None before the first."""
        self._waiting: deque[tuple[_Waiting, EpochMs, int]] = deque()
        self._waiting_number = 0

    @property
    def waiting(self) -> int:
        """Commits that wait for the next round of log end offsets."""
        return self._waiting_number

    def note_polls(self) -> None:
        """Polls count as known once no polled offset waits for log ends."""
        if not any(
            isinstance(each, Progress) or (isinstance(each, Commits) and not each.exact_times)
            for each, *_ in self._waiting
        ):
            self._live.known.polls_admitted()

    def commits(self, report: Commits, now_ms: EpochMs) -> None:
        """Admit commits at once, or let them wait for the next log ends."""
        if report.key.size == 0:
            # positions must not pass commits that still wait: a checkpoint would skip them at a
            # restart
            if not self._waiting:
                self.positions.update(report.positions)
            return
        if report.exact_times and self._live.backlog.ready:
            newest_ms = int(report.commit_ms.max())
            self._live.skew.see(newest_commit_ms=newest_ms, observed_ms=report.observed_ms)
            step = self._live.skew.set_ahead()
            if step is not None:
                self._live.history.set_ahead(*step)
        self.take(report, now_ms, number=report.key.size)

    def take(self, report: _Waiting, now_ms: EpochMs, *, number: int) -> None:
        """Admit at once what is of the past; else let it wait for the next log ends."""
        # never past commits that wait: windows take the commits of a row in their order
        if not self._waiting and self._is_past(report):
            self._admit(report, now_ms)
            return
        self._waiting.append((report, now_ms, number))
        self._waiting_number += number
        while self._waiting and (
            self._waiting_number > _MOST_WAITING or now_ms - self._waiting[0][1] > _LONGEST_WAIT_MS
        ):
            self._admit_next(now_ms)

    def set_back(self, at_ms: EpochMs) -> None:
        """The clock was set back to this instant: what waits was seen by then.

        Otherwise it would wait, and all that comes after it, until the clock shows that time again.
        """
        self._waiting = deque(
            (_seen_by(report, at_ms), EpochMs(min(arrived_ms, at_ms)), number)
            for report, arrived_ms, number in self._waiting
        )

    def admit_all(self, now_ms: EpochMs) -> None:
        """Admit everything that waits, in order of arrival."""
        while self._waiting:
            self._admit_next(now_ms)

    def admit_seen_by(self, started_ms: EpochMs, now_ms: EpochMs) -> None:
        """Admit what was seen before a round of log ends began, in order of arrival."""
        while self._waiting and _seen_ms(*self._waiting[0]) <= started_ms:
            self._admit_next(now_ms)

    def holds_old(self, until_ms: int) -> bool:
        """True if commits wait that were made well before an instant.

        After a pause of lagwatch they come all at once, and with them the word that all commits up
        to now are known. It is not true before they are in the windows.
        """
        latest_ms = until_ms - self._live.skew.corrected_ms - _OLD_MS
        return any(
            isinstance(report, Commits)
            and report.exact_times
            and bool((report.commit_ms < latest_ms).any())
            for report, *_ in self._waiting
        )

    def _is_past(self, report: _Waiting) -> bool:
        """Were log ends read after all of these commits were made? Removals need none."""
        if isinstance(report, GroupsGone | SharesSeen):
            return True
        if isinstance(report, Progress):
            return 0 <= report.at_ms <= self._live.data_ms
        return bool(
            report.exact_times
            and self._live.data_ms >= 0
            and report.commit_ms.max() + self._live.skew.corrected_ms <= self._live.data_ms
        )

    def _admit_next(self, now_ms: EpochMs) -> None:
        report, _, number = self._waiting.popleft()
        self._waiting_number -= number
        self._admit(report, now_ms)

    def _admit(self, report: _Waiting, now_ms: EpochMs) -> None:
        """Put commits into their windows; removed ones take their row away."""
        match report:
            case GroupsGone():
                self._groups_gone(report, now_ms)
            case Progress():
                self._admit_progress(report, now_ms)
            case SharesSeen():
                self.shares.take(report)
            case Commits():
                self._admit_commits(report, now_ms)

    def _admit_progress(self, report: Progress, now_ms: EpochMs) -> None:
        if report.at_ms < self._live.kept_from_ms(now_ms):
            return
        if report.reads is not None:
            self._drop(self._left(report.group, report.reads), now_ms)
        places = list(zip(report.topic, report.partition, strict=True))
        row = self._live.table.of_places(report.group, places, self._live.topics)
        self._live.place_made()
        at_ms = np.full(row.size, report.at_ms, np.int64)
        # the instant decides the order: what is reported twice, or late, changes nothing
        news = self._live.windows.advances(row, at_ms)
        if not news.any():
            return
        by_row = stable_order(row)
        chosen = by_row[news[by_row]]
        self._insert(
            row[chosen],
            np.array(report.offset, np.int64)[chosen],
            at_ms[chosen] - self._live.skew.corrected_ms,
            order=at_ms[chosen],
            observed_ms=report.at_ms,
            exact_times=bool(self.exact_times),
            now_ms=now_ms,
        )

    def _left(self, group: str, reads: Collection[str]) -> NDArray[np.intp]:
        """Rows of a job in topics that it does not read any more."""
        rows = self._live.table.of_group(group)
        left = [self._live.table.identity(row)[1] not in reads for row in rows.tolist()]
        return rows[np.array(left, np.bool_)]

    def _admit_commits(self, report: Commits, now_ms: EpochMs) -> None:
        self.positions.update(report.positions)
        if not report.beside:
            self.exact_times = report.exact_times
        keep = (report.commit_ms >= self._live.kept_from_ms(now_ms)) & (report.offset >= 0)
        removed = np.flatnonzero(report.offset < 0)
        if removed.size:
            keep &= ~_removed_later(report, removed)
            rows = self._live.table.find(np.unique(report.key[removed]))
            self._drop(rows[rows >= 0], now_ms)
        if not keep.any():
            return
        key, offset, order, commit_ms = report.key, report.offset, report.order, report.commit_ms
        if not keep.all():
            key = key[keep]
            offset, order, commit_ms = (column[keep] for column in (offset, order, commit_ms))
        # numpy takes indices of this type much faster
        row = self._live.table.place(key, self._live.topics).astype(np.intp)
        self._live.place_made()
        # what was read before a restart comes again: it is in the window, or older than that
        news = self._live.windows.advances(row, order)
        if report.only_changes:
            # offsets that rest have not been committed again, as far as can be seen
            news &= (self._live.windows.newest[row] < 0) | (
                self._live.windows.last_offset(row) != offset
            )
        if not news.any():
            return
        if not news.all():
            row = row[news]
            offset, order, commit_ms = (column[news] for column in (offset, order, commit_ms))
        if (row[1:] < row[:-1]).any():
            by_row = stable_order(row)
            row = row[by_row]
            offset, order, commit_ms = (column[by_row] for column in (offset, order, commit_ms))
        if not report.exact_times:
            commit_ms = commit_ms - self._live.skew.corrected_ms
        self._insert(
            row,
            offset,
            commit_ms,
            order=order,
            observed_ms=report.observed_ms,
            exact_times=report.exact_times,
            # commits may have come unseen, while their partition was held back
            pauses_seen=report.exact_times or not report.beside,
            now_ms=now_ms,
        )

    def _drop(self, rows: NDArray[np.intp] | Int32, now_ms: EpochMs) -> None:
        """Free rows whose offsets were removed; Kafka does so when it deletes a topic."""
        places = [self._live.table.identity(row) for row in rows.tolist()]
        self._watch.left(places, now_ms)
        self._live.table.free(rows)
        for group in {group for group, *_ in places}:
            if self._live.groups.is_uncommitted(group) and not self._has_offsets(group):
                self._live.groups.lost_offsets(group)

    def _has_offsets(self, group: str) -> bool:
        return bool((self._live.windows.count[self._live.table.of_group(group)] > 0).any())

    def _groups_gone(self, report: GroupsGone, now_ms: EpochMs) -> None:
        """Drop the groups' rows, except those committed to since."""
        for group, order in zip(report.groups, report.orders, strict=True):
            rows = self._live.table.of_group(group)
            self._drop(rows[~self._live.windows.newer_than(order, rows)], now_ms)
            if not self._live.table.of_group(group).size:
                self._live.groups.gone(group)
        if report.answered:
            self._drop_unnamed(report.answered, now_ms)

    def _drop_unnamed(self, groups: Collection[str], now_ms: EpochMs) -> None:
        """Drop rows of an earlier collector that this one, which has named all, did not find.

        Of a topic that is not visible no offsets are named: its rows stay.
        """
        rows = self._live.table.unnamed(groups, self._live.topics.index)
        self._drop(rows[self._live.windows.newest[rows] >= 0], now_ms)

    def _insert(
        self,
        row: Slots,
        offset: Int64,
        commit_ms: Int64,
        *,
        order: Int64,
        observed_ms: EpochMs,
        exact_times: bool,
        pauses_seen: bool = True,
        now_ms: EpochMs,
    ) -> None:
        """Put commits, sorted by row, into their windows."""
        commits = CommitColumns(
            row=row,
            offset=offset,
            commit_ms=commit_ms,
            order=order,
            lag=self._live.lags(row, offset, commit_ms),
            observed_s=np.full(row.size, observed_ms // 1000, np.uint32),
        )
        self._follow(commits, now_ms, exact_times=exact_times, pauses_seen=pauses_seen)
        self._live.windows.insert(commits)
        self._live.touched.append(row)
        self.admitted += row.size

    def _follow(
        self, commits: CommitColumns, now_ms: EpochMs, *, exact_times: bool, pauses_seen: bool
    ) -> None:
        """Learn from commits, before they are put into their windows, how their rows move.

        They are sorted by row.
        """
        row, offset, commit_ms = commits.row, commits.offset, commits.commit_ms
        starts = np.append(True, row[1:] != row[:-1])
        heads = row[starts]
        newest = self._live.windows.newest[heads]
        before = np.append(UNKNOWN, offset[:-1])
        before[starts] = np.where(newest >= 0, self._live.windows.offset[newest, heads], UNKNOWN)
        first = starts & (before < 0)
        if first.any():
            self._live.pace.begin(row[first], commit_ms[first])
        self._note_resets(commits, before, now_ms)
        fell_from, fell = before, np.flatnonzero(offset < before)
        if fell.size:
            # an offset that was beyond the log end is set right, and goes back from nothing
            beyond = self._live.beyond_end(row[fell], before[fell], commit_ms[fell])
            fell_from = before.copy()
            fell_from[fell[beyond]] = UNKNOWN
        self._live.setbacks.follow(row, fell_from, offset, commit_ms)
        self._live.movements.follow(
            commits,
            before,
            starts,
            first_ms=self._live.first_ms,
            pauses_seen=pauses_seen,
            # polls show of it only the last commit; who reads the offsets topic reads all of them
            unseen_ms=(UNKNOWN, UNKNOWN) if exact_times else self._live.losses.starts.unwatched,
        )
        self._live.losses.look_for_jumps(
            commits,
            before,
            now_ms,
            log_start=self._live.topics.log_start,
            exact_times=exact_times,
            skew_ms=self._live.skew.corrected_ms,
        )

    def _note_resets(self, commits: CommitColumns, before: Int64, now_ms: EpochMs) -> None:
        """Offsets that were set while their group had no members."""
        rows, awaited = commits.row, self._watch.awaited
        found = set_while_empty(
            self._live.groups.membership, rows, before, commits.offset, unknown=bool(awaited)
        )
        if awaited and found.size:
            # a replay: many commits of few rows
            identity = self._live.table.identity
            known = [row for row in np.unique(rows[found]).tolist() if identity(row)[0] in awaited]
            found = found[np.isin(rows[found], known)]
        if found.size:
            self._watch.moved(
                [self._live.table.identity(row) for row in commits.row[found].tolist()],
                before[found].tolist(),
                commits.offset[found].tolist(),
                (commits.commit_ms[found] + self._live.skew.corrected_ms).tolist(),
                now_ms=now_ms,
            )


def _seen_ms(report: _Waiting, arrived_ms: EpochMs, _: int) -> EpochMs:
    if isinstance(report, SharesSeen):
        return EpochMs(0)  # with the commits before it
    return report.observed_ms if isinstance(report, Commits) else arrived_ms


def _seen_by(report: _Waiting, at_ms: EpochMs) -> _Waiting:
    if not isinstance(report, Commits):
        return report
    return replace(report, observed_ms=EpochMs(min(report.observed_ms, at_ms)))


def _removed_later(report: Commits, removed: Slots) -> Bools:
    """Commits whose partition is removed after them in the same batch."""
    _, number = np.unique(report.key, return_inverse=True)
    last = np.full(int(number.max()) + 1, UNKNOWN, np.int64)
    np.maximum.at(last, number[removed], removed)
    return np.arange(report.key.size) <= last[number]
