"""One cluster's state: applies reports, admits commits, judges, publishes the snapshot."""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.core.evaluate import Evaluation, Inputs, Layout, RowIds, lay_out
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    Membership,
    OpenTransaction,
    RuleSet,
)
from lagwatch.core.pace import Pace
from lagwatch.core.rows import Around, Limits, RowFacts, uninterrupted_ms
from lagwatch.core.snapshot import ClusterSnapshot, TopicColumns
from lagwatch.core.sorting import stable_order
from lagwatch.core.window import CommitColumns, Windows
from lagwatch.monitor.append_times import AppendTimes
from lagwatch.monitor.freshness import FreshFor, Known, cause, missing, why_stale
from lagwatch.monitor.group_watch import GroupWatch, grown, set_while_empty
from lagwatch.monitor.known_commits import KnownCommits
from lagwatch.monitor.losses import Losses
from lagwatch.monitor.members import GroupPatterns, Groups
from lagwatch.monitor.movements import Movements
from lagwatch.monitor.partitions import PartitionStates, shifted
from lagwatch.monitor.restored import Restored
from lagwatch.monitor.rows import Identity, RowTable
from lagwatch.monitor.setbacks import Setbacks
from lagwatch.monitor.shares import Shares
from lagwatch.monitor.skew import ClockSkew
from lagwatch.monitor.story import Story
from lagwatch.monitor.topics import TopicChange, change, no_topics, with_offsets
from lagwatch.ports import reports
from lagwatch.ports.queries import Loss
from lagwatch.ports.reports import (
    Backlog,
    CollectorFacts,
    CollectorStarted,
    Commits,
    CommitsKnown,
    EmptyTails,
    GroupsGone,
    GroupsSeen,
    LogEnds,
    OpenTransactions,
    Progress,
    ProgressKnown,
    Report,
    SharesSeen,
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

_Waiting = Commits | GroupsGone | Progress
"""What waits for the next round of log ends."""

_GONE_AFTER_MS = 30_000
"""A topic missing from the metadata this long is deleted: a starting broker may forget one."""
_CUT_COUNTS_MS = 600_000
"""A log that was cut short this long before its topic has a new id was the new topic's."""
_REJOINED_MS = 60_000
"""Members that were not seen for so long have not just lost and found their coordinator."""
_NEVER_MS = 1 << 60
_LOADED_MS = 120_000
"""A coordinator has loaded its groups in this time; a silent group is no STOP before."""
_MOST_WAITING = 500_000
_LONGEST_WAIT_MS = 60_000
_EXPIRY_EVERY_MS = 60_000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSettings:
    """Settings of a monitor."""

    intervals: int
    min_distance_ms: int
    expire_ms: int
    allowed_lag: int
    minimum_complete: float
    history_ms: int
    """How far back the log end history reaches."""
    rules: RuleSet = RuleSet.LAGWATCH
    stop_after_ms: int = 180_000
    stall_after_ms: int = 300_000
    loss_shown_ms: int = 3_600_000
    leave_ms: int = 6_000
    """From a job's last commit until its members are seen to have left."""
    polled_leave_ms: int = 30_000
    """The same where offsets and groups are polled."""
    away_after_ms: int = 20_000
    """A partition that was not read for longer than this was away."""
    patterns: GroupPatterns = field(default_factory=GroupPatterns)
    fresh_for: FreshFor = field(default_factory=FreshFor)

    @property
    def limits(self) -> Limits:
        return Limits(
            allowed_lag=self.allowed_lag,
            minimum_complete=self.minimum_complete,
            recent_ms=self.intervals * RECENT_S_PER_INTERVAL * 1000,
            stop_after_ms=self.stop_after_ms,
            stall_after_ms=self.stall_after_ms,
            loss_shown_ms=self.loss_shown_ms,
            leave_ms=self.leave_ms,
            polled_leave_ms=self.polled_leave_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What outlives a restart, beside the columns by row and the history."""

    positions: Mapping[int, int]
    offsets_topic_id: str
    exact_times: bool | None
    first_ms: int
    """When lagwatch first watched the cluster; -1: not yet."""
    data_ms: int
    topics_ms: int
    starts_ms: int
    topics: TopicColumns
    topic_ids: Mapping[str, str]
    missing_since: Mapping[str, int]
    partitions: Mapping[str, Int64]
    """Columns of `PartitionStates`."""
    absences: tuple[Int64, ...]
    """Columns of `KnownCommits`."""
    listed: frozenset[str]
    """Groups that Kafka lists."""


class ClusterMonitor:
    """Owns the windows and the log end history of one cluster; used from one thread only.

    Commits wait until a round of log end offsets that began after they were seen: so the lag of a
    commit is taken on the line between the log ends before and after it, and is never negative.
    """

    def __init__(  # noqa: PLR0915 the whole state of a cluster
        self, cluster: str, settings: MonitorSettings
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.windows = Windows(
            intervals=settings.intervals, min_distance_ms=settings.min_distance_ms
        )
        self.history = LogEndHistory(horizon_ms=settings.history_ms)
        self.pace = Pace(step_ms=settings.limits.step_ms)
        self.setbacks = Setbacks()
        self.append_times = AppendTimes()
        self.groups = Groups(settings.patterns, never_commits_ms=settings.limits.unsure_ms)
        self.skew = ClockSkew()
        self.sources: dict[SourceKind, SourceHealth] = {}
        self.errors: Counter[str] = Counter()
        """Failed rounds so far, by `SourceError.kind`."""
        self.backlog = Backlog(read=0, total=0, ready=False)
        self.facts: CollectorFacts | None = None
        self.incarnation = 0
        self.admitted = 0
        """Commits admitted to windows so far."""
        self.positions: dict[int, int] = {}
        """Offsets topic partition → next offset after all commits that are in the windows."""
        self.offsets_topic_id = ""
        """Id of the topic that these are of; "" unknown."""
        self.snapshot: ClusterSnapshot | None = None
        self.complete_ms = EpochMs(UNKNOWN)
        """Since when everything has been known once: backlog, commits, log ends; -1: not yet."""
        self._first_ms = EpochMs(UNKNOWN)
        """`complete_ms` of the first process that watched the cluster."""
        self.elsewhere: dict[str, GroupInfo] = {}
        """Groups whose progress is kept outside of Kafka, as far as it was reported."""
        self._transactions: Mapping[tuple[str, int], OpenTransaction] = {}
        self._shares = Shares()
        self.story = Story()
        """What happened to the groups since the start of this process."""
        self._watch = GroupWatch(self.story)
        self._table = RowTable(self.windows)
        self._topics = no_topics()
        self._topic_ids: dict[str, str] = {}
        self._topics_version = UNKNOWN
        self._topics_ms = EpochMs(UNKNOWN)
        self._cut_ms: dict[str, int] = {}
        """Topics whose log was cut short or replaced: the last round in which it was not yet."""
        self._missing_since: dict[str, int] = {}
        self._partitions = PartitionStates(away_after_ms=settings.away_after_ms)
        self._known = KnownCommits(away_after_ms=settings.away_after_ms)
        self._data_ms = EpochMs(UNKNOWN)
        self._commits_until_ms = EpochMs(UNKNOWN)
        self._backlog_ms = EpochMs(UNKNOWN)
        self._ends_ms = EpochMs(UNKNOWN)
        """When the newest round of log ends of this process began."""
        self._waiting: deque[tuple[_Waiting, EpochMs, int]] = deque()
        self._waiting_number = 0
        self._layout: Layout | None = None
        self._expired_ms = 0
        self._evaluation = Evaluation()
        self._touched: list[Slots] = []
        """Rows that something happened to since the last round."""
        self._whole = True
        """Is the next round to judge all rows?"""
        self._admitted_ms = np.zeros(0, np.int64)
        """Up to when commits were known at the round before; all of these are admitted now."""
        self._movements = Movements(
            self.pace,
            self.windows,
            self._table,
            history=self.history,
            partitions=self._partitions,
            skew=self.skew,
            away_after_ms=settings.away_after_ms,
        )
        self._losses = Losses(
            self.windows,
            self.setbacks,
            self._table,
            self.history,
            known_ms=self._admitted_until,
            is_remainder=self._is_remainder,
            held_ms=self._held_ms,
            seen_ms=self._seen_ms,
        )
        self._silent: dict[Identity, int] = {}
        """Rows of group-partitions that members hold and never committed."""
        self._exact_times: bool | None = None
        self._restored: Restored | None = None

    @property
    def rebalances(self) -> Counter[str]:
        """Rebalances seen so far, by group."""
        return self.groups.rebalances

    @property
    def judged_rows(self) -> NDArray[np.intp] | None:
        """Rows of the snapshot that the last round looked at; None: all."""
        return self._evaluation.changed

    @property
    def complete(self) -> bool:
        """Has everything been known once? Before that no verdict is worth anything."""
        return self.complete_ms >= 0

    @property
    def known(self) -> Known:
        """Up to when log ends and commits are known."""
        commits_ms = self._known.until_ms
        return Known(
            log_ends_ms=self._data_ms,
            commits_ms=self._commits_until_ms if commits_ms < 0 else commits_ms,
            polled=self.facts is not None and self.facts.commits_mode == "admin",
        )

    def is_stale(self, now_ms: EpochMs) -> bool:
        """Are log ends or commits older than they may be?"""
        return self.known.is_stale(now_ms, self.settings.fresh_for)

    def not_ready_because(self, now_ms: EpochMs) -> str:
        """What is missing before the first complete round, or why the data are stale; ""."""
        if not self.complete:
            found = missing(self.known, self.backlog)
            why = cause(self.sources)
            return f"{found}; {why}" if why else found
        return why_stale(self.known, self.sources, now_ms) if self.is_stale(now_ms) else ""

    def apply(self, report: Report, now_ms: EpochMs) -> bool:
        """Take one report in; True when it calls for a new round of judgement."""
        match report:
            case LogEnds():
                return self._log_ends(report, now_ms)
            case Backlog():
                return self._backlog(report, now_ms)
            case Commits():
                self._commits(report, now_ms)
            case GroupsGone():
                self._take(report, now_ms, number=0)
            case Progress():
                self.elsewhere[report.group] = _kept_elsewhere(report)
                self._take(report, now_ms, number=len(report.offset))
            case Topics():
                self._new_topics(report, now_ms)
            case CollectorStarted():
                self._new_collector(report, now_ms)
            case _:
                self._note(report, now_ms)
        return False

    def _note(self, report: Report, now_ms: EpochMs) -> None:
        """Reports that only say what is known."""
        match report:
            case CommitsKnown() | ProgressKnown():
                self._commits_known(report)
            case GroupsSeen():
                self._watch.groups(report, now_ms)
                self.groups.take(report)
                self._drop_unlisted(report, now_ms)
            case SharesSeen():
                self._shares.take(report)
            case EmptyTails():
                self._partitions.tails(report, self._topics)
            case reports.AppendTimes():
                self.append_times.take(report, self._table)
            case OpenTransactions():
                self._transactions = {
                    (each.topic, each.partition): each for each in report.transactions
                }
            case SourceHealth():
                self._source_health(report)
            case CollectorFacts():
                self.facts = report

    def _backlog(self, report: Backlog, now_ms: EpochMs) -> bool:
        if self._restored is not None and (reason := self._restored.other_topic(report)):
            self._forget_restored(reason)
        self.offsets_topic_id = report.topic_id or self.offsets_topic_id
        was_ready, self.backlog = self.backlog.ready, report
        if not report.ready or was_ready:
            return False
        if self._backlog_ms < 0:
            self._backlog_ms = now_ms
        return True

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

    def acknowledge_losses(self, group: str) -> int:
        """Stop showing the losses of a group; returns of how many partitions they were."""
        return self.setbacks.acknowledge(self._table.of_group(group))

    def take_losses(self) -> tuple[Loss, ...]:
        """Losses noticed since the last call."""
        losses = self._losses.take()
        self._watch.losses(losses)
        return losses

    # checkpoints

    @property
    def revision(self) -> tuple[int, ...]:
        """Changes whenever there is something new to be kept."""
        return self.admitted, self._data_ms, self._topics_ms, self.windows.rows, self._table.frees

    def kept(self) -> Kept:
        """What a checkpoint holds beside the columns by row; to be read before them."""
        return Kept(
            positions=dict(self.positions),
            offsets_topic_id=self.offsets_topic_id,
            exact_times=self._exact_times,
            first_ms=self._first_ms,
            data_ms=self._data_ms,
            topics_ms=self._topics_ms,
            starts_ms=self._losses.starts.until_ms,
            topics=self._topics,
            topic_ids=dict(self._topic_ids),
            missing_since=dict(self._missing_since),
            partitions=self._partitions.copied(),
            absences=self._known.absences,
            listed=frozenset(self.groups.info),
        )

    @property
    def table(self) -> RowTable:
        """Which group-partition is in which row; for checkpoints."""
        return self._table

    def restore(self, kept: Kept, ids: RowIds, *, offsets_topic: str) -> None:
        """Begin where an earlier process ended; the monitor must be new.

        The columns by row and the history are put in by the caller, who calls this first.
        """
        self.positions = dict(kept.positions)
        self.offsets_topic_id = kept.offsets_topic_id
        self._exact_times, self._first_ms = kept.exact_times, EpochMs(kept.first_ms)
        self._data_ms, self._topics_ms = EpochMs(kept.data_ms), EpochMs(kept.topics_ms)
        self._topics, self._topic_ids = kept.topics, dict(kept.topic_ids)
        self._missing_since = dict(kept.missing_since)
        if kept.starts_ms >= 0:
            self._losses.starts.add(kept.topics.log_start, kept.starts_ms)
        self._partitions.restore(kept.partitions)
        self._movements.restore(kept.data_ms)
        self._known.restore(*kept.absences)
        self._table.restore(ids, kept.topics)
        self._place_made()
        groups = [ids.group_names[number] for number in ids.group.tolist()]
        self._known.place(np.arange(ids.group.size), groups, self.windows.count.size)
        self._restored = Restored(
            positions=kept.positions,
            exact_times=kept.exact_times,
            offsets_topic=offsets_topic,
            offsets_topic_id=kept.offsets_topic_id,
            groups=kept.listed,
        )

    def restored_rows(self) -> None:
        """Learn from the rows, which were put in, who has never committed."""
        self._whole = True
        for row in np.flatnonzero(self.windows.count[: self.windows.rows] == 0).tolist():
            self._silent[self._table.identity(row)] = row

    def _forget_restored(self, reason: str) -> None:
        """What was restored is of another cluster, or cannot go on: begin anew."""
        _log.warning("checkpoint_forgotten", cluster=self.cluster, reason=reason)
        self._restored = None
        self._table.free(self._table.used(0, self.windows.rows))
        self._silent.clear()
        self.positions.clear()

    def _compare(self, report: Commits) -> None:
        if self._restored is not None and (reason := self._restored.misfit(report)):
            self._forget_restored(reason)

    def _drop_unlisted(self, report: GroupsSeen, now_ms: EpochMs) -> None:
        """Drop groups that Kafka listed before the restart, does not list now, and that rest.

        Their tombstones may be compacted away, so that they are never read. A broker that has just
        started lists only the groups that it has loaded: so they must be missing for a while.
        """
        restored = self._restored
        if restored is None or not report.complete or not restored.groups:
            return
        listed = {info.group for info in report.groups}.union(report.refused)
        restored.groups -= listed
        if restored.lacking_ms == UNKNOWN:
            restored.lacking_ms = now_ms
        if now_ms - restored.lacking_ms >= _LOADED_MS:
            self._table.free(self._table.absent(restored.groups))
            restored.groups = frozenset()

    def judge(self, now_ms: EpochMs) -> ClusterSnapshot:
        """Judge what may have changed and publish the snapshot."""
        for _ in self.judging(now_ms):
            pass
        if self.snapshot is None:
            raise AssertionError("a round publishes a snapshot")
        return self.snapshot

    def judging(self, now_ms: EpochMs) -> Iterator[None]:
        """The same with pauses, in which nothing else may be asked of the monitor but to answer."""
        self._drop_missing_topics(now_ms)
        self._expire(now_ms)
        self._place_made()
        self._watch_uncommitted(now_ms)
        layout = self._laid_out()
        self._touched.append(self.groups.refresh(layout, now_ms))
        membership = self.groups.membership[: self.windows.rows]
        held = membership == Membership.HELD
        unknown = membership == Membership.UNKNOWN
        self._touched.append(self.pace.see_members(held, now_ms, unknown=unknown))
        self._touched.append(self.setbacks.take_touched())
        known_ms = self._known_until_ms(now_ms)
        seen = Inputs(
            windows=self.windows,
            layout=layout,
            history=self.history,
            now_ms=known_ms,
            rules=self.settings.rules,
            around=self._around(known_ms),
        )
        touched, whole = np.concatenate(self._touched), self._whole
        self._touched.clear()
        self._whole = False
        yield from self._evaluation.round(seen, touched=touched, whole=whole)
        judged = self._evaluation.snapshot(
            self.cluster,
            seen,
            at_ms=now_ms,
            data_ms=self._data_ms,
            topics=self._topics,
            info={**self.elsewhere, **self.groups.info},
            owners=dict(self.groups.owners),
        )
        before, self.snapshot = (
            self.snapshot,
            replace(
                judged,
                transactions=self._transactions,
                shares=self._shares.by_group,
                stale=self.is_stale(now_ms),
                stale_after_ms=self.settings.fresh_for.of_commits_ms(polled=self.known.polled),
            ),
        )
        self._watch.verdicts(before, self.snapshot)
        self._recycle()
        fresh = now_ms - self._data_ms <= self.settings.away_after_ms
        if fresh and self._movements.see_lags(self.snapshot, now_ms, self._evaluation.changed):
            self.pace.forget_past(held, now_ms)
            # what is usual was learned or forgotten
            self._whole = True

    def _laid_out(self) -> Layout:
        if self._layout is None or self._table.changed:
            self._layout = lay_out(self._table.ids(), self._topics)
            self._table.changed = False
        return self._layout

    def _recycle(self) -> None:
        freed = self._table.recycle()
        if freed.size:
            self.pace.clear(freed)
            self.setbacks.clear(freed)
            self.append_times.clear(freed)
            self.groups.clear(freed)
            # such a row may be another partition's next
            given_up = set(freed.tolist())
            self._silent = {
                identity: row for identity, row in self._silent.items() if row not in given_up
            }

    def _around(self, known_ms: EpochMs) -> Around:
        skew_ms = self.skew.corrected_ms
        recent_ms = known_ms - self.settings.limits.recent_ms
        return Around(
            pace=self.pace,
            facts=self._row_facts(skew_ms),
            partitions=self._partitions.columns(
                self._topics, self.history.latest(), self.history.since(recent_ms), skew_ms=skew_ms
            ),
            limits=self.settings.limits,
            complete_ms=self.complete_ms - skew_ms if self.complete else UNKNOWN,
            first_ms=self._first_ms - skew_ms if self._first_ms >= 0 else UNKNOWN,
            skew_ms=skew_ms,
            asked_ms=known_ms - skew_ms,
        )

    def _row_facts(self, skew_ms: int) -> RowFacts:
        left_ms, lost_ms = self.groups.left_ms, self.setbacks.column("lost_ms")
        return RowFacts(
            membership=self.groups.membership,
            left_ms=None if left_ms is None else shifted(left_ms, skew_ms),
            mirrored=self.groups.mirrored,
            read_committed=self.groups.read_committed,
            rewound_from=self.setbacks.column("rewound_from"),
            rewound_ms=self.setbacks.column("rewound_ms"),
            rewound_again_ms=self.setbacks.column("rewound_again_ms"),
            lost=self.setbacks.column("lost"),
            lost_bound=self.setbacks.column("lost_bound"),
            lost_ms=None if lost_ms is None else shifted(lost_ms, skew_ms),
            commits=self._known.facts(
                skew_ms=skew_ms,
                all_polled=self.facts is not None and self.facts.commits_mode == "admin",
            ),
            times=self.append_times.times,
        )

    def _known_until_ms(self, now_ms: EpochMs) -> EpochMs:
        """The instant up to which commits and log ends are known: the windows are judged at it.

        While Kafka is away, or its commits cannot be read, silence is ours and not the groups'.
        """
        until_ms = self.known.until_ms
        return now_ms if until_ms < 0 else EpochMs(min(now_ms, until_ms))

    # rows

    def _place_made(self) -> None:
        """Give rows that came into being their place in all columns."""
        capacity = self.windows.count.size
        if self.pace.moved_ms.size < capacity:
            for columns in (self.pace, self.setbacks, self.groups):
                columns.make_room(capacity)
        rows, groups = self._table.take_made()
        if rows.size:
            self._touched.append(rows)
            self._losses.rows_came()
            self._known.place(rows, groups, capacity)
            self.groups.rows_made(groups)

    def _watch_uncommitted(self, now_ms: EpochMs) -> None:
        """Make rows for partitions that members hold for long and do not commit; end others."""
        if self.settings.rules is RuleSet.BURROW or not self.complete:
            return
        for identity, since_ms in self.groups.never_commit(self._topics, now_ms).items():
            # its first commit may have come since the group was looked at
            if identity not in self._silent and not self._table.has(identity):
                row = self._silent[identity] = self._table.make(identity, self._topics)
                self._place_made()
                self.pace.begin(np.array([row]), np.array([since_ms]))
        for identity, row in list(self._silent.items()):
            if self.windows.count[row] > 0:
                del self._silent[identity]
            elif not self.groups.holds(identity):
                self._table.free(np.array([row]))
                del self._silent[identity]

    # commits

    def _commits_known(self, report: CommitsKnown | ProgressKnown) -> None:
        known = self._known
        if known.take(report) if isinstance(report, CommitsKnown) else known.take_progress(report):
            ids = self._table.ids()
            rows = np.flatnonzero(ids.group >= 0)
            groups = [ids.group_names[group] for group in ids.group[rows].tolist()]
            self._known.place(rows, groups, self.windows.count.size)
        self._note_polls()

    def _note_polls(self) -> None:
        """Polls count as known once no polled offset waits for log ends."""
        if not any(
            isinstance(each, Progress) or (isinstance(each, Commits) and each.only_changes)
            for each, *_ in self._waiting
        ):
            self._known.polls_admitted()

    def _commits(self, report: Commits, now_ms: EpochMs) -> None:
        if report.new_groups:
            self._table.announce(
                report.first_new_id,
                report.new_groups,
                report.new_topics,
                report.new_partitions,
            )
        self._compare(report)
        if report.key.size == 0:
            # positions must not pass commits that still wait: a checkpoint would skip them at a
            # restart
            if not self._waiting:
                self.positions.update(report.positions)
            return
        if report.exact_times and self.backlog.ready:
            newest_ms = int(report.commit_ms.max())
            self.skew.see(newest_commit_ms=newest_ms, observed_ms=report.observed_ms)
        self._take(report, now_ms, number=report.key.size)

    def _take(self, report: _Waiting, now_ms: EpochMs, *, number: int) -> None:
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

    def _is_past(self, report: _Waiting) -> bool:
        """Were log ends read after all of these commits were made? Removals need none."""
        if isinstance(report, GroupsGone):
            return True
        if isinstance(report, Progress):
            return 0 <= report.at_ms <= self._data_ms
        return bool(
            report.exact_times
            and self._data_ms >= 0
            and report.commit_ms.max() + self.skew.corrected_ms <= self._data_ms
        )

    def _admit_next(self, now_ms: EpochMs) -> None:
        report, _, number = self._waiting.popleft()
        self._waiting_number -= number
        self._admit(report, now_ms)

    def _admit(self, report: _Waiting, now_ms: EpochMs) -> None:
        """Put commits into their windows; removed ones take their row away."""
        match report:
            case GroupsGone():
                self._groups_gone(report)
            case Progress():
                self._admit_progress(report, now_ms)
            case Commits():
                self._admit_commits(report, now_ms)

    def _admit_progress(self, report: Progress, now_ms: EpochMs) -> None:
        if report.at_ms < now_ms - self.settings.expire_ms:
            return
        places = list(zip(report.topic, report.partition, strict=True))
        row = self._table.of_places(report.group, places, self._topics)
        self._place_made()
        at_ms = np.full(row.size, report.at_ms, np.int64)
        # the instant is the order: what is reported twice, or late, is no news
        news = self.windows.advances(row, at_ms)
        if not news.any():
            return
        by_row = stable_order(row)
        chosen = by_row[news[by_row]]
        self._insert(
            row[chosen],
            np.array(report.offset, np.int64)[chosen],
            at_ms[chosen] - self.skew.corrected_ms,
            order=at_ms[chosen],
            observed_ms=report.at_ms,
            now_ms=now_ms,
        )

    def _admit_commits(self, report: Commits, now_ms: EpochMs) -> None:
        self.positions.update(report.positions)
        self._exact_times = report.exact_times
        keep = (report.commit_ms >= now_ms - self.settings.expire_ms) & (report.offset >= 0)
        removed = np.flatnonzero(report.offset < 0)
        if removed.size:
            keep &= ~_removed_later(report, removed)
            rows = self._table.find(np.unique(report.key[removed]))
            self._table.free(rows[rows >= 0])
        chosen = np.flatnonzero(keep)
        if not chosen.size:
            return
        row = self._table.place(report.key[chosen], self._topics)
        self._place_made()
        offset, order = report.offset[chosen], report.order[chosen]
        # what was read before a restart comes again: it is in the window, or older than that
        news = self.windows.advances(row, order)
        if report.only_changes:
            # a poll sees offsets, not commits: those that rest have not been committed again
            news &= (self.windows.newest[row] < 0) | (self.windows.last_offset(row) != offset)
        if not news.any():
            return
        if not news.all():
            chosen, row = chosen[news], row[news]
            offset, order = offset[news], order[news]
        if (row[1:] < row[:-1]).any():
            by_row = stable_order(row)
            chosen, row = chosen[by_row], row[by_row]
            offset, order = offset[by_row], order[by_row]
        commit_ms = report.commit_ms[chosen]
        if not report.exact_times:
            commit_ms = commit_ms - self.skew.corrected_ms
        self._insert(
            row, offset, commit_ms, order=order, observed_ms=report.observed_ms, now_ms=now_ms
        )

    def _insert(
        self,
        row: Int32,
        offset: Int64,
        commit_ms: Int64,
        *,
        order: Int64,
        observed_ms: EpochMs,
        now_ms: EpochMs,
    ) -> None:
        """Put commits, sorted by row, into their windows."""
        commits = CommitColumns(
            row=row,
            offset=offset,
            commit_ms=commit_ms,
            order=order,
            lag=self._lags(row, offset, commit_ms),
            observed_s=np.full(row.size, observed_ms // 1000, np.uint32),
        )
        self._follow(commits, now_ms)
        self.windows.insert(commits)
        self._touched.append(row)
        self.admitted += row.size

    def _lags(self, row: Int32, offset: Int64, commit_ms: Int64) -> Int64:
        """Lag of each commit at its own time; -1 where no log end is known."""
        at = self._table.at[row]
        if self.history.partitions == 0:
            return np.full(row.size, UNKNOWN, np.int64)
        ends = self.history.at(np.maximum(at, 0), commit_ms + self.skew.corrected_ms)
        if self.history.interrupted:
            # what was appended since the earlier process ended has not been asked for yet
            known_ms = int(self.history.at_ms[-1]) - self.skew.corrected_ms
            ends = np.where(commit_ms <= known_ms, ends, UNKNOWN)
        return np.where((at >= 0) & (ends >= 0), np.maximum(ends - offset, 0), UNKNOWN)

    # movements

    def _follow(self, commits: CommitColumns, now_ms: EpochMs) -> None:
        """Learn from commits, before they are put into their windows, how their rows move.

        They are sorted by row.
        """
        row, offset, commit_ms = commits.row, commits.offset, commits.commit_ms
        starts = np.append(True, row[1:] != row[:-1])
        heads = row[starts]
        newest = self.windows.newest[heads]
        before = np.append(UNKNOWN, offset[:-1])
        before[starts] = np.where(newest >= 0, self.windows.offset[newest, heads], UNKNOWN)
        first = starts & (before < 0)
        if first.any():
            self.pace.begin(row[first], commit_ms[first])
        self._note_resets(commits, before)
        self.setbacks.follow(row, before, offset, commit_ms)
        self._movements.follow(commits, before, starts, first_ms=self._first_ms)
        self._losses.look_for_jumps(
            commits,
            before,
            now_ms,
            log_start=self._topics.log_start,
            exact_times=bool(self._exact_times),
            skew_ms=self.skew.corrected_ms,
        )

    def _note_resets(self, commits: CommitColumns, before: Int64) -> None:
        """Offsets that were set while their group had no members."""
        found = set_while_empty(self.groups.membership, commits.row, before, commits.offset)
        if found.size:
            self._watch.moved(
                [self._table.identity(row) for row in commits.row[found].tolist()],
                before[found].tolist(),
                commits.offset[found].tolist(),
                (commits.commit_ms[found] + self.skew.corrected_ms).tolist(),
            )

    # losses

    def _is_remainder(self, rows: Slots) -> Bools:
        """Offsets that no consumer of this cluster reads on from."""
        remainder = np.zeros(rows.size, np.bool_)
        if self.groups.left_ms is not None:
            remainder |= self.groups.left_ms[rows] >= 0
        if self.groups.mirrored is not None:
            remainder |= self.groups.mirrored[rows]
        return remainder

    def _held_ms(self, rows: Slots) -> Int64:
        """Since when a member holds the partitions of these rows, as far as is known; -1.

        0: it held them when they were first looked at. After an outage members are not seen for a
        moment, until they have joined again.
        """
        held_s, membership = self.pace.held_s[rows].astype(np.int64), self.groups.membership[rows]
        left_ms = self.pace.left_s[rows].astype(np.int64) * 1000
        there = (held_s > 0) & ((left_ms == 0) | (self._data_ms - left_ms < _REJOINED_MS))
        held = there | (membership == Membership.HELD) | (membership == Membership.REBALANCING)
        came_ms = np.where(self.pace.seen_without[rows], held_s * 1000, 0)
        return np.where(held, came_ms, UNKNOWN)

    def _seen_ms(self, row: int, since_ms: int, until_ms: int) -> int:
        """The longest stretch between two instants in which a row's partition was read."""
        at = self._table.at[[row]]
        if at[0] < 0:
            return max(until_ms - since_ms, 0)
        stretch = np.array([since_ms]), np.array([until_ms])
        return int(uninterrupted_ms(*stretch, *self._partitions.absences(at, skew_ms=0))[0])

    def _admitted_until(self, rows: Slots) -> Int64:
        """Up to which instant of lagwatch's clock all commits of the rows are admitted."""
        commits = self._known.facts(skew_ms=0, all_polled=False)
        if commits is None:
            # whoever does not report it sends all commits of a round before its log ends
            reads_on = self.backlog.total > 0 and not self.backlog.ready
            return np.full(rows.size, UNKNOWN if reads_on else self._data_ms)
        if self._admitted_ms.size != commits.known_ms.size:
            return np.full(rows.size, UNKNOWN)
        known_ms: Int64 = self._admitted_ms[commits.place[rows]]
        return known_ms

    # log ends and topics

    def _log_ends(self, report: LogEnds, now_ms: EpochMs) -> bool:
        if report.version != self._topics_version:
            return False
        new = self.history.latest() < 0
        # leaders answer at any time in the round: its middle is off by half a round at most
        at_ms = (report.started_ms + report.finished_ms) // 2
        self.history.add(at_ms, report.log_end, report.asked)
        latest = self.history.latest()
        before = self._topics
        self._note_cuts(report, before)
        back = self._partitions.round(report, before)
        if back.any():
            self._movements.leave_out(back)
        self._topics = with_offsets(before, report, latest)
        # the start, not the end: only commits made before it are surely at or below these log ends
        self._data_ms = report.started_ms
        if self.settings.rules is RuleSet.BURROW:
            self._fill_lags(np.flatnonzero(new & (latest >= 0)))
        # in order of arrival, after the history has this round: their lags lie on the line up to it
        while self._waiting and _seen_ms(*self._waiting[0]) <= report.started_ms:
            self._admit_next(now_ms)
        self._note_polls()
        # first: the log starts of this round are newer than the commits known so far
        self._losses.count(now_ms, skew_ms=self.skew.corrected_ms)
        self._losses.starts.add(self._topics.log_start, report.finished_ms)
        commits = self._known.facts(skew_ms=0, all_polled=False)
        if commits is not None:
            self._admitted_ms = commits.known_ms
        self._note_complete(report, now_ms)
        return True

    def _note_cuts(self, report: LogEnds, before: TopicColumns) -> None:
        """Log ends that went back: a re-created topic is read before its new id is known."""
        cut = np.flatnonzero((report.log_end >= 0) & (report.log_end < before.log_end))
        for topic in np.unique(np.searchsorted(before.first, cut, side="right") - 1).tolist():
            self._cut_ms[before.names[topic]] = self._ends_read_ms(topic)

    def _ends_read_ms(self, topic: int) -> EpochMs:
        """Up to when the log ends of all partitions of a topic were read, by its number."""
        first, end = self._topics.first[topic : topic + 2].tolist()
        read_ms = self._partitions.answered_ms[first:end]
        return EpochMs(min(self._data_ms, int(read_ms[read_ms >= 0].min(initial=self._data_ms))))

    def _note_complete(self, report: LogEnds, now_ms: EpochMs) -> None:
        """The first round of log ends that began after the backlog was read makes all complete.

        Where offsets are polled, the first one after a poll that came after a round: the lag of a
        poll is known on the line between two rounds.
        """
        answered = not report.log_end.size or bool((report.log_end >= 0).any())
        before_ms, self._ends_ms = self._ends_ms, report.started_ms
        lined_up = not self.known.polled or 0 <= before_ms <= self.known.commits_ms
        read = 0 <= self._backlog_ms <= report.started_ms
        if not self.complete and read and answered and lined_up:
            self.complete_ms = now_ms
            if self._first_ms < 0:
                self._first_ms = now_ms

    def _fill_lags(self, partitions: Slots) -> None:
        """Commits that came before any log end of their partition: its first one bounds their lag.

        Burrow compares the commits of a backlog with the log end it knows when it reads them.
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
        self._touched.append(rows)

    def _new_topics(self, report: Topics, now_ms: EpochMs) -> None:
        found = change(self._topics, self._topic_ids, report)
        read_ms = {
            name: self._ends_read_ms(self._topics.index[name])
            for name in found.recreated
            if name in self._topics.index
        }
        self._note_topics(found, now_ms)
        self.history.remap(found.source)
        self._partitions.remap(found.source)
        self._losses.starts.remap(found.source)
        self._topics, self._topics_version = found.columns, report.version
        self._table.locate(self._topics)
        if self._restored is not None and self._restored.offsets_topic in found.recreated:
            self._forget_restored(f"{self._restored.offsets_topic} was replaced")
        for name in found.recreated:
            self._begin_anew(name, report, read_ms.get(name, self._data_ms))
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
        self.groups.topics_changed(report.names)
        self._topics_ms = now_ms

    def _note_topics(self, found: TopicChange, now_ms: EpochMs) -> None:
        names = {*found.recreated, *grown(self._topics, found.columns)}
        rows = {name: self._table.of_topic(name).tolist() for name in names}
        groups = {
            name: sorted({self._table.identity(row)[0] for row in rows[name]}) for name in names
        }
        self._watch.topics(groups, self._topics, found.columns, found.recreated, now_ms)

    def _begin_anew(self, topic: str, report: Topics, read_ms: EpochMs) -> None:
        """A topic was re-created: only commits of the new one stay.

        `read_ms`: up to when its log ends were read.

        Where commits name their topic's id it is known which these are; else those that are newer
        than the last round in which the log ends were the old topic's, and rows that came into
        being since the old topic was last seen.
        """
        seen_ms = max(self._topics_ms, read_ms)
        # while the topic was missing, log ends were read without it
        seen_ms = EpochMs(min(seen_ms, self._missing_since.get(topic, seen_ms)))
        cut_ms = self._cut_ms.pop(topic, UNKNOWN)
        if seen_ms - cut_ms <= _CUT_COUNTS_MS:
            seen_ms = EpochMs(cut_ms)
        skew_ms = self.skew.corrected_ms
        since_ms = report.first_commit_ms.get(topic, seen_ms - skew_ms + 1)
        born_ms = report.replaced_after_ms.get(topic, _NEVER_MS) - skew_ms
        # a poll that waits may hold the same offset again: that is no news for the old row
        self._keep_newer(topic, since_ms, born_ms)
        while self._waiting:
            self._admit_next(self._topics_ms)
        self._keep_newer(topic, since_ms, born_ms)

    def _keep_newer(self, topic: str, since_ms: int, born_ms: int) -> None:
        """Keep rows of a topic with a commit since an instant, or that came into being since one.

        Kafka removes all commits of a topic that is deleted: a row that came after that is of the
        new topic, however late its id is known. If it is not, its removal is still to be read.
        """
        rows = self._table.of_topic(topic)
        newest = self.windows.newest[rows]
        newer = self.windows.commit_ms[newest, rows] >= since_ms
        born = (self.pace.since_s[rows].astype(np.int64) + 1) * 1000 > born_ms
        stays = (newest >= 0) & (newer | born)
        self._table.free(rows[~stays])
        kept = rows[stays]
        self.windows.keep_newest(kept)
        self._touched.append(kept)
        self.setbacks.clear(kept)

    def _drop_missing_topics(self, now_ms: EpochMs) -> None:
        """Forget topics that stayed away while log ends were read all the same."""
        gone = [
            name
            for name, since in self._missing_since.items()
            if min(now_ms, self._data_ms) - since > _GONE_AFTER_MS
        ]
        for name in gone:
            rows = self._table.of_topic(name)
            newest = self.windows.newest[rows]
            # Kafka takes no commit to a topic that does not exist: it is there, if not visible
            committed_ms = self.windows.commit_ms[newest, rows] + self.skew.corrected_ms
            stays = (newest >= 0) & (committed_ms >= self._missing_since[name])
            self._table.free(rows[~stays])
            self._topic_ids.pop(name, None)
            del self._missing_since[name]

    # groups

    def _groups_gone(self, report: GroupsGone) -> None:
        """Drop the groups' rows but for those committed to since."""
        for group, order in zip(report.groups, report.orders, strict=True):
            rows = self._table.of_group(group)
            self._table.free(rows[~self.windows.newer_than(order, rows)])
            if not self._table.of_group(group).size:
                self.groups.drop(group)

    def _expire(self, now_ms: EpochMs) -> None:
        """Drop groups whose last commit is older than the expiry time."""
        if self._layout is None or now_ms - self._expired_ms < _EXPIRY_EVERY_MS:
            return
        self._expired_ms = now_ms
        snapshot_rows = self._layout.window
        if self._table.changed or not snapshot_rows.size:
            return
        newest = self.windows.newest[snapshot_rows]
        # a row without commits is there because a member holds the partition now
        seen_ms = np.where(newest >= 0, self.windows.commit_ms[newest, snapshot_rows], now_ms)
        last_ms = np.maximum.reduceat(seen_ms, self._layout.group_first[:-1])
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
        self._shares.clear()
        self._table.new_collector()


def _seen_ms(report: _Waiting, arrived_ms: EpochMs, _: int) -> EpochMs:
    return report.observed_ms if isinstance(report, Commits) else arrived_ms


def _kept_elsewhere(report: Progress) -> GroupInfo:
    """Kafka knows neither state nor members of such a group."""
    return GroupInfo(
        group=report.group,
        type=report.kind,
        state="Unknown",
        assignor="",
        coordinator=UNKNOWN,
        members=(),
    )


def _removed_later(report: Commits, removed: Slots) -> Bools:
    """Commits whose partition is removed after them in the same batch."""
    _, number = np.unique(report.key, return_inverse=True)
    last = np.full(int(number.max()) + 1, UNKNOWN, np.int64)
    np.maximum.at(last, number[removed], removed)
    return np.arange(report.key.size) <= last[number]
