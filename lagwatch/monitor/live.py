"""The live state of one cluster: its columns by row and partition, and the rows in them."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.evaluate import Layout, lay_out
from lagwatch.core.judged import Inputs, Judged
from lagwatch.core.lags import Lags
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, EpochMs, Membership, RuleSet
from lagwatch.core.pace import Pace
from lagwatch.core.rows import FRESH_STEPS, no_turns, uninterrupted_ms
from lagwatch.core.rules import READ_LATER_MS
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.turns import follow
from lagwatch.core.window import Windows
from lagwatch.monitor.append_times import AppendTimeColumns
from lagwatch.monitor.known_commits import KnownCommits
from lagwatch.monitor.losses import Losses
from lagwatch.monitor.members import Groups
from lagwatch.monitor.movements import Movements
from lagwatch.monitor.partitions import PartitionStates
from lagwatch.monitor.rows import Identity, RowTable
from lagwatch.monitor.setbacks import Setbacks
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.monitor.skew import ClockSkew
from lagwatch.monitor.topics import no_topics
from lagwatch.monitor.vacancies import Vacancies
from lagwatch.ports.reports import Backlog

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

_REJOINED_MS = 60_000
"""Members that were not seen for so long have not just lost and found their coordinator."""
_DESCRIBED_MS = 60_000
"""A group is described so long after its first commit, at most, as a rule."""
_EXPIRY_EVERY_MS = 60_000


class LiveState:
    """All columns of one cluster, and the instants up to which they are known.

    `ClusterMonitor`, `Admission` and `TopicFollower` write it, in one thread.
    """

    def __init__(self, settings: MonitorSettings) -> None:
        self.settings = settings
        self.windows = Windows(
            intervals=settings.intervals, min_distance_ms=settings.min_distance_ms
        )
        self.history = LogEndHistory(horizon_ms=settings.history_ms)
        self.pace = Pace(step_ms=settings.limits.step_ms)
        self.setbacks = Setbacks(loss_shown_ms=settings.limits.loss_shown_ms)
        self.append_times = AppendTimeColumns()
        self.past_lags = Lags()
        self.turns = no_turns()
        self.groups = Groups(settings.patterns, never_commits_ms=settings.limits.unsure_ms)
        self.vacancies = Vacancies()
        self.skew = ClockSkew()
        self.table = RowTable(self.windows)
        self.topics = no_topics()
        self.partitions = PartitionStates(away_after_ms=settings.away_after_ms)
        self.known = KnownCommits(away_after_ms=settings.away_after_ms)
        self.backlog = Backlog(read=0, total=0, ready=False)
        self.first_ms = EpochMs(UNKNOWN)
        """When everything was known for the first time, by the first process on the cluster."""
        self.unwatched: list[tuple[int, int]] = []
        """From and until when no process watched since then, the newest last."""
        self.data_ms = EpochMs(UNKNOWN)
        """When the newest round of log ends began."""
        self.admitted_ms = np.zeros(0, np.int64)
        """Up to when commits were known at the round before; all of these are admitted now."""
        self.layout: Layout | None = None
        self.touched: list[Slots] = []
        """Rows that something happened to since the last round."""
        self.whole = True
        """Is the next round to judge all rows?"""
        self.silent: dict[Identity, int] = {}
        """Rows of group-partitions that members hold and never committed."""
        self._expired_ms = 0
        self.clock_ahead_ms = 0
        """By how much the clock was set ahead lately: by that nothing gets old."""
        self.movements = Movements(
            self.pace,
            self.windows,
            self.table,
            history=self.history,
            partitions=self.partitions,
            commits=self.known,
            skew=self.skew,
            away_after_ms=settings.away_after_ms,
        )
        self.losses = Losses(
            self.windows,
            self.setbacks,
            self.table,
            self.history,
            known_ms=self.admitted_until,
            is_remainder=self.is_remainder,
            held_ms=self.held_ms,
            never_held=lambda rows: self.pace.held_s[rows] == 0,
            undescribed=lambda rows: self.groups.membership[rows] == Membership.UNKNOWN,
            unsettled=self.unsettled,
            seen_ms=self.seen_ms,
            vacancies=self.vacancies,
        )

    # rows

    def place_made(self) -> None:
        """Give rows that came into being their place in all columns."""
        capacity = self.windows.count.size
        if self.pace.moved_ms.size < capacity:
            for columns in (self.pace, self.setbacks, self.groups):
                columns.make_room(capacity)
        rows, groups = self.table.take_made()
        if rows.size:
            self.touched.append(rows)
            self.losses.rows_came()
            self.known.place(rows, groups, capacity)
            self.groups.rows_made(groups)

    def laid_out(self) -> Layout:
        """The places of rows in a snapshot, by group, topic and partition."""
        if self.layout is None or self.table.changed:
            self.layout = lay_out(self.table.ids(), self.topics)
            self.table.changed = False
        return self.layout

    def keep_lags(self, snapshot: ClusterSnapshot, now_ms: EpochMs) -> None:
        """Keep the lag of each row that is behind, at its newest commit; for forecasts."""
        if not self.past_lags.due(now_ms):
            return
        behind = np.flatnonzero(snapshot.rows.readable_lag > 0)
        rows = snapshot.rows.window[behind]
        newest = self.windows.newest[rows]
        known = newest >= 0
        rows, newest = rows[known], newest[known]
        cells = newest, rows
        self.past_lags.take(rows, self.windows.lag[cells], self.windows.commit_ms[cells], now_ms)

    def follow_turns(
        self, seen: Inputs, judged: Judged, *, fresh: bool
    ) -> tuple[Inputs, NDArray[np.integer]]:
        """Add which partitions wait while their members read others, and which do so only now.

        In the same round: after a start nothing is known of it before, and a partition whose turn
        has just ended would be stopped for a moment. While data are not `fresh` who waited waits.
        """
        if self.settings.rules is RuleSet.BURROW or not fresh:
            return seen, np.zeros(0, np.intp)
        before, around = self.turns, seen.around
        rows = judged.rows(seen, self.topics.read_ms)
        unknown = self.groups.membership == Membership.UNKNOWN
        self.turns = follow(before, rows, around, self.groups.holder, unknown)
        facts = replace(around.facts, turns=self.turns)
        new = np.setdiff1d(self.turns.row, before.row)
        return replace(seen, around=replace(around, facts=facts)), new

    def recycle(self) -> None:
        """Clear the columns of rows that were freed, so that they can be used again."""
        freed = self.table.recycle()
        if freed.size:
            self.pace.clear(freed)
            self.setbacks.clear(freed)
            self.append_times.clear(freed)
            self.past_lags.clear(freed)
            self.groups.clear(freed)
            # such a row may be another partition's next
            given_up = set(freed.tolist())
            self.silent = {
                identity: row for identity, row in self.silent.items() if row not in given_up
            }

    def watch_uncommitted(self, now_ms: EpochMs) -> None:
        """Make rows for partitions that members hold for long and do not commit; end others."""
        there_since_ms = self.partitions.there_since_ms(now_ms)
        at_work = partial(self._at_work, now_ms=now_ms)
        found = self.groups.never_commit(self.topics, now_ms, there_since_ms, at_work)
        for identity, since_ms in found.items():
            # its first commit may have come since the group was looked at
            if identity not in self.silent and not self.table.has(identity):
                row = self.silent[identity] = self.table.make(identity, self.topics)
                self.place_made()
                self.pace.begin(np.array([row]), np.array([since_ms]))
        for identity, row in list(self.silent.items()):
            if self.windows.count[row] > 0:
                self.groups.commits(identity[0], identity[1:])
                del self.silent[identity]
            elif identity not in found:
                self.table.free(np.array([row]))
                del self.silent[identity]

    def _at_work(self, groups: Iterable[str], *, now_ms: int) -> dict[str, set[str]]:
        """Members of these groups that work off a backlog: ids by group.

        What a client has fetched of one partition it hands out before it goes on with the next: see
        `lagwatch.core.turns`.
        """
        rows = self.table.of_groups(groups)
        step_ms, asked_ms = self.settings.limits.step_ms, now_ms - self.skew.corrected_ms
        at = self.table.at[rows]
        moves = asked_ms - self.pace.moved_ms[rows] < FRESH_STEPS * step_ms
        moves &= (self.windows.count[rows] > 0) & (at >= 0)
        rows, at = rows[moves], at[moves]
        committed = self.windows.last_offset(rows)
        age = self.history.age(at, committed, now_ms)
        # a backlog from before the start is older than is known
        long = (age.lag_ms >= step_ms) | (age.lag_ms < 0)
        long &= self.topics.log_end[at] > committed
        found: dict[str, set[str]] = {}
        for row in rows[long].tolist():
            group, topic, partition = self.table.identity(row)
            member = self.groups.owners.get(group, {}).get((topic, partition))
            if member is not None:
                found.setdefault(group, set()).add(member.member_id)
        return found

    def expire(self, now_ms: EpochMs) -> None:
        """Drop groups whose last commit is older than the expiry time."""
        if self.layout is None or now_ms - self._expired_ms < _EXPIRY_EVERY_MS:
            return
        self._expired_ms = now_ms
        snapshot_rows = self.layout.window
        if self.table.changed or not snapshot_rows.size:
            return
        newest = self.windows.newest[snapshot_rows]
        # a row without commits is there because a member holds the partition now
        seen_ms = np.where(newest >= 0, self.windows.commit_ms[newest, snapshot_rows], now_ms)
        last_ms = np.maximum.reduceat(seen_ms, self.layout.group_first[:-1])
        expired = np.repeat(last_ms < self.kept_from_ms(now_ms), np.diff(self.layout.group_first))
        if expired.any():
            self.table.free(snapshot_rows[expired])

    def kept_from_ms(self, now_ms: EpochMs) -> int:
        """Groups whose last commit is older are dropped."""
        ahead_ms = max(self.clock_ahead_ms, self.skew.corrected_ms)
        return now_ms - ahead_ms - self.settings.expire_ms

    def set_back(self, at_ms: EpochMs) -> None:
        """The clock was set back to this instant: what was later on it is now."""
        self.partitions.set_back(at_ms)
        self.known.set_back(at_ms)
        self.pace.set_back(at_ms)
        self.skew.set_back(at_ms)
        self.first_ms = min(self.first_ms, at_ms)
        self._expired_ms = min(self._expired_ms, at_ms)

    # what commits and losses are measured by

    def lags(self, row: Slots, offset: Int64, commit_ms: Int64) -> Int64:
        """Lag of each commit at its own time; -1 where it is not known."""
        at = self.table.at[row]
        if self.history.partitions == 0:
            return np.full(row.size, UNKNOWN, np.int64)
        ends = self.history.at(np.maximum(at, 0), commit_ms + self.skew.corrected_ms)
        if self.history.interrupted:
            # what was appended since the earlier process ended has not been asked for yet
            known_ms = int(self.history.at_ms[-1]) - self.skew.corrected_ms
            ends = np.where(commit_ms <= known_ms, ends, UNKNOWN)
        lag = np.where((at >= 0) & (ends >= 0), np.maximum(ends - offset, 0), UNKNOWN)
        if self.history.at_ms.size and self.settings.rules is not RuleSet.BURROW:
            # of a commit before the first log end only this is known: whether all had been read
            older = commit_ms + self.skew.corrected_ms < self.history.at_ms[0]
            lag[older & (lag > 0)] = UNKNOWN
        return lag

    def beyond_end(self, row: Slots, offset: Int64, at_ms: Int64) -> Bools:
        """Offsets that were beyond the log end at an instant of Kafka's clock, as far as is known.

        A log end that was asked for a little earlier may be of before the offset: so that of a
        little later counts.
        """
        at = self.table.at[row]
        if self.history.partitions == 0 or not self.history.at_ms.size:
            return np.zeros(row.size, np.bool_)
        later_ms = at_ms + self.skew.corrected_ms + READ_LATER_MS
        ends = self.history.at(np.maximum(at, 0), later_ms)
        ends = np.where(ends >= 0, ends, self.history.latest()[at])
        if self.history.interrupted:
            # what was appended since the earlier process ended has not been asked for yet
            ends = np.where(later_ms <= int(self.history.at_ms[-1]), ends, UNKNOWN)
        return (at >= 0) & (ends >= 0) & (offset > ends)

    def unsettled(self, rows: Slots) -> Bools:
        """Rows of groups whose members are about to be known.

        Such a group was described, but its members are not looked at yet. Or it is new: others were
        described before its first commit, and it is next.
        """
        found: Bools = self.groups.membership[rows] == Membership.UNKNOWN
        for index in np.flatnonzero(found).tolist():
            row = int(rows[index])
            info = self.groups.info.get(self.table.identity(row)[0])
            if info is not None:
                found[index] = info.state != "Unknown"
                continue
            first_ms = self.windows.entries(row).commit_ms[:1]
            new = bool(first_ms) and self.data_ms - first_ms[0] < _DESCRIBED_MS
            found[index] = new and bool(self.groups.info)
        return found

    def note_visits(self) -> None:
        """Note which rows members left unread that came and went, as those do that crash.

        Not rows of a topic of which nothing was read while another topic was: that may be another
        program's. Nor those that wait while members read a part of a backlog of their topic on each
        visit.
        """
        skew_ms = self.skew.corrected_ms
        for seen in self.groups.take_visits():
            rows = seen.rows
            empty = rows[self.groups.membership[rows] == Membership.EMPTY]
            self.pace.have_left(empty, skew_ms=skew_ms)
            if seen.first_ms < 0:
                continue
            moved = self.pace.moved_ms[rows] + skew_ms >= seen.first_ms
            read = np.isin(seen.topics, seen.topics[moved])
            worked_off = np.isin(seen.topics, seen.topics[moved & self._far_behind(rows)])
            unread = ~moved & (read & ~worked_off if moved.any() else True)
            self.groups.visit(rows, np.where(unread, seen.first_ms, UNKNOWN))

    def _far_behind(self, rows: Slots) -> Bools:
        """Rows that had more to read at their last commit than they read up to one, on average."""
        windows = self.windows
        last = windows.newest[rows].astype(np.intp), rows
        oldest = windows.oldest_slot(rows).astype(np.intp), rows
        steps = np.maximum(windows.count[rows].astype(np.int64) - 1, 1)
        read = (windows.offset[last] - windows.offset[oldest]) // steps
        found: Bools = (windows.count[rows] > 0) & (windows.lag[last] > np.maximum(read, 0))
        return found

    def is_remainder(self, rows: Slots) -> Bools:
        """Offsets that no consumer of this cluster reads on from."""
        remainder = np.zeros(rows.size, np.bool_)
        if self.groups.left_ms is not None:
            remainder |= self.groups.left_ms[rows] >= 0
        if self.groups.mirrored is not None:
            remainder |= self.groups.mirrored[rows]
        return remainder

    def held_ms(self, rows: Slots) -> Int64:
        """Since when a member holds the partitions of these rows, as far as is known; -1.

        0: it held them when they were first looked at. After an outage members are not seen for a
        moment, until they have joined again.
        """
        held_s, membership = self.pace.held_s[rows].astype(np.int64), self.groups.membership[rows]
        left_ms = self.pace.left_s[rows].astype(np.int64) * 1000
        there = (held_s > 0) & ((left_ms == 0) | (self.data_ms - left_ms < _REJOINED_MS))
        held = there | (membership == Membership.HELD) | (membership == Membership.REBALANCING)
        came_ms = np.where(self.pace.seen_without[rows], held_s * 1000, 0)
        return np.where(held, came_ms, UNKNOWN)

    def seen_ms(self, row: int, since_ms: int, until_ms: int) -> int:
        """The longest stretch between two instants in which a row's partition was read."""
        at = self.table.at[[row]]
        if at[0] < 0:
            return max(until_ms - since_ms, 0)
        stretch = np.array([since_ms]), np.array([until_ms])
        return int(uninterrupted_ms(*stretch, *self.partitions.absences(at, skew_ms=0))[0])

    def admitted_until(self, rows: Slots) -> Int64:
        """Up to which instant of lagwatch's clock all commits of the rows are admitted."""
        commits = self.known.facts(skew_ms=0, all_polled=False)
        if commits is None:
            # a poller that does not report it sends all commits of a round before its log ends
            reads_on = self.backlog.total > 0 and not self.backlog.ready
            return np.full(rows.size, UNKNOWN if reads_on else self.data_ms)
        if self.admitted_ms.size != commits.known_ms.size:
            return np.full(rows.size, UNKNOWN)
        known_ms: Int64 = self.admitted_ms[commits.place[rows]]
        return known_ms
