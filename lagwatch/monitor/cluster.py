"""One cluster's state: applies reports, admits commits, judges, publishes the snapshot."""

from collections import Counter, deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.evaluate import Layout, Limits, evaluate, lay_out
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, EpochMs, GroupInfo, Member
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.window import CommitColumns, Windows
from lagwatch.monitor.rows import RowTable
from lagwatch.monitor.topics import change, no_topics, with_offsets
from lagwatch.ports import (
    Backlog,
    CollectorFacts,
    CollectorStarted,
    Commits,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    Report,
    SourceHealth,
    SourceKind,
    Topics,
)

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

RECENT_S_PER_INTERVAL = 10
"""How far back "was at the log end" looks, per interval of the window: Burrow keeps one log end
offset every ten seconds, as many as the window has intervals."""

_COMMIT_SOURCES = frozenset({SourceKind.OFFSETS_TOPIC, SourceKind.COMMITTED})

_GONE_AFTER_MS = 30_000
"""A topic missing from the metadata this long is deleted: a starting broker may forget one."""
_MOST_WAITING = 500_000
_LONGEST_WAIT_MS = 60_000
_EXPIRY_EVERY_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """What a monitor is told."""

    intervals: int
    min_distance_ms: int
    expire_ms: int
    allowed_lag: int
    minimum_complete: float
    history_ms: int
    """How far back the log end history reaches."""


class ClusterMonitor:
    """Owns the windows and the log end history of one cluster; used from one thread only.

    Commits wait until a round of log end offsets that began after they were seen: so the lag of a
    commit is taken on the line between the log ends before and after it, and is never negative.
    """

    def __init__(self, cluster: str, settings: MonitorSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self.windows = Windows(
            intervals=settings.intervals, min_distance_ms=settings.min_distance_ms
        )
        self.history = LogEndHistory(horizon_ms=settings.history_ms)
        self.rebalances: Counter[str] = Counter()
        self.sources: dict[SourceKind, SourceHealth] = {}
        self.errors: Counter[str] = Counter()
        """Failed rounds so far, by `SourceError.kind`."""
        self.backlog = Backlog(read=0, total=0, ready=False)
        self.facts: CollectorFacts | None = None
        self.incarnation = 0
        self.admitted = 0
        """Commits admitted to windows so far."""
        self.snapshot: ClusterSnapshot | None = None
        self._table = RowTable(self.windows)
        self._topics = no_topics()
        self._topic_ids: dict[str, str] = {}
        self._topics_version = UNKNOWN
        self._missing_since: dict[str, int] = {}
        self._data_ms = EpochMs(UNKNOWN)
        self._commits_until_ms = EpochMs(UNKNOWN)
        self._waiting: deque[tuple[Commits | GroupsGone, EpochMs, int]] = deque()
        self._waiting_number = 0
        self._info: dict[str, GroupInfo] = {}
        self._owners: dict[str, dict[tuple[str, int], Member]] = {}
        self._layout: Layout | None = None
        self._expired_ms = 0
        self._round = 0

    def apply(self, report: Report, now_ms: EpochMs) -> bool:
        """Take one report in; True when it calls for a new round of judgement."""
        match report:
            case Commits():
                self._commits(report, now_ms)
            case LogEnds():
                return self._log_ends(report, now_ms)
            case Topics():
                self._new_topics(report, now_ms)
            case GroupsSeen():
                self._groups_seen(report)
            case GroupsGone():
                self._take(report, now_ms, number=0)
            case SourceHealth():
                self._source_health(report)
            case Backlog():
                was_ready, self.backlog = self.backlog.ready, report
                return report.ready and not was_ready
            case CollectorFacts():
                self.facts = report
            case CollectorStarted():
                self._new_collector(report, now_ms)
        return False

    def _source_health(self, report: SourceHealth) -> None:
        self.sources[report.source] = report
        if not report.ok:
            self.errors[report.error_kind] += 1
        elif report.source in _COMMIT_SOURCES:
            self._commits_until_ms = report.at_ms

    @property
    def waiting(self) -> int:
        """Commits that wait for the next round of log end offsets."""
        return self._waiting_number

    def forget(self, group: str, topic: str | None) -> None:
        """Forget a group, or one topic of it, until its next commit."""
        self._table.free(self._table.of_group(group, topic))

    def judge(self, now_ms: EpochMs) -> ClusterSnapshot:
        """Judge everything and publish the snapshot."""
        self._drop_missing_topics(now_ms)
        self._expire(now_ms)
        if self._layout is None or self._table.changed:
            self._layout = lay_out(self._table.ids(), self._topics)
            self._table.changed = False
        self._round += 1
        self.snapshot = evaluate(
            cluster=self.cluster,
            at_ms=now_ms,
            now_ms=self._known_until_ms(now_ms),
            data_ms=self._data_ms,
            number=self._round,
            layout=self._layout,
            windows=self.windows,
            history=self.history,
            topics=self._topics,
            limits=self._limits(),
            info=dict(self._info),
            owners=dict(self._owners),
        )
        self._table.recycle()
        return self.snapshot

    def _known_until_ms(self, now_ms: EpochMs) -> EpochMs:
        """The instant up to which commits and log ends are known: the windows are judged at it.

        While Kafka is away, or its commits cannot be read, silence is ours and not the groups'.
        """
        known = [each for each in (self._data_ms, self._commits_until_ms) if each >= 0]
        return EpochMs(min(now_ms, *known)) if known else now_ms

    def _limits(self) -> Limits:
        return Limits(
            allowed_lag=self.settings.allowed_lag,
            minimum_complete=self.settings.minimum_complete,
            recent_ms=self.settings.intervals * RECENT_S_PER_INTERVAL * 1000,
        )

    # commits

    def _commits(self, report: Commits, now_ms: EpochMs) -> None:
        if report.new_groups:
            self._table.announce(
                report.first_new_id,
                report.new_groups,
                report.new_topics,
                report.new_partitions,
            )
        if report.key.size == 0:
            return
        self._take(report, now_ms, number=report.key.size)

    def _take(self, report: Commits | GroupsGone, now_ms: EpochMs, *, number: int) -> None:
        """Admit at once what is of the past; else let it wait for the next log ends."""
        if not self._waiting and self._is_past(report):
            self._admit(report, now_ms)
            return
        self._waiting.append((report, now_ms, number))
        self._waiting_number += number
        while self._waiting and (
            self._waiting_number > _MOST_WAITING or now_ms - self._waiting[0][1] > _LONGEST_WAIT_MS
        ):
            self._admit_next(now_ms)

    def _is_past(self, report: Commits | GroupsGone) -> bool:
        """Were log ends read after all of these commits were made? Removals need none."""
        if isinstance(report, GroupsGone):
            return True
        return bool(
            report.exact_times and self._data_ms >= 0 and report.commit_ms.max() <= self._data_ms
        )

    def _admit_next(self, now_ms: EpochMs) -> None:
        report, _, number = self._waiting.popleft()
        self._waiting_number -= number
        self._admit(report, now_ms)

    def _admit(self, report: Commits | GroupsGone, now_ms: EpochMs) -> None:
        """Put commits into their windows; removed ones take their row away."""
        if isinstance(report, GroupsGone):
            self._groups_gone(report)
            return
        keep = (report.commit_ms >= now_ms - self.settings.expire_ms) & (report.offset >= 0)
        removed = np.flatnonzero(report.offset < 0)
        if removed.size:
            keep &= ~_removed_later(report, removed)
            rows = self._table.rows(np.unique(report.key[removed]))
            self._table.free(rows[rows >= 0])
        chosen = np.flatnonzero(keep)
        if not chosen.size:
            return
        offset, commit_ms = report.offset[chosen], report.commit_ms[chosen]
        row = self._table.place(report.key[chosen], self._topics)
        if report.only_changes:
            # a new collector told all rows it found: those that rest have not committed again
            news = (self.windows.newest[row] < 0) | (self.windows.last_offset(row) != offset)
            chosen, row, offset, commit_ms = (
                each[news] for each in (chosen, row, offset, commit_ms)
            )
        self.windows.insert(
            CommitColumns(
                row=row,
                offset=offset,
                commit_ms=commit_ms,
                order=report.order[chosen],
                lag=self._lags(row, offset, commit_ms),
                observed_s=np.full(chosen.size, report.observed_ms // 1000, np.uint32),
            )
        )
        self.admitted += chosen.size

    def _lags(self, row: Int32, offset: Int64, commit_ms: Int64) -> Int64:
        """Lag of each commit at its own time; -1 where no log end is known."""
        at = self._table.at[row]
        if self.history.partitions == 0:
            return np.full(row.size, UNKNOWN, np.int64)
        ends = self.history.at(np.maximum(at, 0), commit_ms)
        return np.where((at >= 0) & (ends >= 0), np.maximum(ends - offset, 0), UNKNOWN)

    # log ends and topics

    def _log_ends(self, report: LogEnds, now_ms: EpochMs) -> bool:
        if report.version != self._topics_version:
            return False
        new = self.history.latest() < 0
        self.history.add((report.started_ms + report.finished_ms) // 2, report.log_end)
        latest = self.history.latest()
        self._topics = with_offsets(self._topics, report, latest)
        self._data_ms = report.started_ms
        self._fill_lags(np.flatnonzero(new & (latest >= 0)))
        while self._waiting and _seen_ms(*self._waiting[0]) <= report.started_ms:
            self._admit_next(now_ms)
        return True

    def _fill_lags(self, partitions: Slots) -> None:
        """Commits that came before any log end of their partition: its first one bounds their lag.

        Too high for old commits, so it can only make a lag seem to fall: no false alarm.
        """
        if not partitions.size or not self.windows.rows:
            return
        known = np.zeros(self.history.partitions + 1, np.bool_)
        known[partitions] = True
        rows = np.flatnonzero(known[self._table.at[: self.windows.rows]])
        ends = self.history.latest()[self._table.at[rows]]
        lag = self.windows.lag[:, rows]
        bound = np.maximum(ends - self.windows.offset[:, rows], 0)
        self.windows.lag[:, rows] = np.where(lag < 0, bound, lag)

    def _new_topics(self, report: Topics, now_ms: EpochMs) -> None:
        found = change(self._topics, self._topic_ids, report)
        self.history.remap(found.source)
        self._topics, self._topics_version = found.columns, report.version
        for name in found.recreated:
            self._table.free(self._table.of_topic(name))
        self._topic_ids |= {
            name: topic_id
            for name, topic_id in zip(report.names, report.ids, strict=True)
            if topic_id
        }
        still_missing = {
            name: since
            for name, since in self._missing_since.items()
            if name not in found.columns.index
        }
        self._missing_since = still_missing | dict.fromkeys(found.gone, int(now_ms))
        self._table.locate(self._topics)
        self._table.changed = True

    def _drop_missing_topics(self, now_ms: EpochMs) -> None:
        """Forget topics that stayed away while log ends were read all the same."""
        gone = [
            name
            for name, since in self._missing_since.items()
            if min(now_ms, self._data_ms) - since > _GONE_AFTER_MS
        ]
        for name in gone:
            self._table.free(self._table.of_topic(name))
            self._topic_ids.pop(name, None)
            del self._missing_since[name]

    # groups

    def _groups_seen(self, report: GroupsSeen) -> None:
        if report.complete:
            names = {info.group for info in report.groups}.union(report.refused)
            self._info = {name: self._info[name] for name in self._info if name in names}
            self._owners = {name: self._owners[name] for name in self._owners if name in names}
        for info in report.groups:
            self._info[info.group] = info
            self._owners[info.group] = {
                (topic, partition): member
                for member in info.members
                for topic, partitions in member.assignment
                for partition in partitions
            }
        self.rebalances.update(report.rebalances)

    def _groups_gone(self, report: GroupsGone) -> None:
        """Drop the groups' rows but for those committed to since."""
        for group, order in zip(report.groups, report.orders, strict=True):
            rows = self._table.of_group(group)
            self._table.free(rows[~self.windows.newer_than(order, rows)])
            if not self._table.of_group(group).size:
                self._info.pop(group, None)
                self._owners.pop(group, None)
                self.rebalances.pop(group, None)

    def _expire(self, now_ms: EpochMs) -> None:
        """Drop groups whose last commit is older than the expiry time."""
        if self._layout is None or now_ms - self._expired_ms < _EXPIRY_EVERY_MS:
            return
        self._expired_ms = now_ms
        snapshot_rows = self._layout.window
        if self._table.changed or not snapshot_rows.size:
            return
        newest = self.windows.newest[snapshot_rows]
        last_ms = np.maximum.reduceat(
            self.windows.commit_ms[newest, snapshot_rows], self._layout.group_first[:-1]
        )
        expired = np.repeat(
            last_ms < now_ms - self.settings.expire_ms, np.diff(self._layout.group_first)
        )
        if expired.any():
            self._table.free(snapshot_rows[expired])

    def _new_collector(self, report: CollectorStarted, now_ms: EpochMs) -> None:
        while self._waiting:
            self._admit_next(now_ms)
        self.incarnation = report.incarnation
        self._topics_version = UNKNOWN
        self._table.new_collector()


def _seen_ms(report: Commits | GroupsGone, arrived_ms: EpochMs, _: int) -> EpochMs:
    return report.observed_ms if isinstance(report, Commits) else arrived_ms


def _removed_later(report: Commits, removed: Slots) -> Bools:
    """Commits whose partition is removed after them in the same batch."""
    _, number = np.unique(report.key, return_inverse=True)
    last = np.full(int(number.max()) + 1, UNKNOWN, np.int64)
    np.maximum.at(last, number[removed], removed)
    return np.arange(report.key.size) <= last[number]
