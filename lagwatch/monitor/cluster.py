"""One cluster: takes reports in, judges in rounds, publishes the snapshot."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.core.evaluate import Evaluation, Inputs, RowIds
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    Membership,
    OpenTransaction,
    RuleSet,
)
from lagwatch.core.record import EventName
from lagwatch.core.rows import Around, RowFacts
from lagwatch.core.snapshot import ClusterSnapshot, TopicColumns
from lagwatch.core.trail import Trail
from lagwatch.core.watching import Unwatched
from lagwatch.monitor.admission import Admission
from lagwatch.monitor.freshness import Known, cause, is_unreachable, missing, why_stale
from lagwatch.monitor.group_watch import GroupWatch
from lagwatch.monitor.live import LiveState
from lagwatch.monitor.partitions import shifted
from lagwatch.monitor.restored import KeptState, Restored
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.monitor.story import Story
from lagwatch.monitor.topic_follower import TopicFollower
from lagwatch.monitor.topics import with_offsets
from lagwatch.ports import reports
from lagwatch.ports.queries import GroupEvent, Loss
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

Slots = NDArray[np.integer]
Int64 = NDArray[np.int64]

_COMMIT_SOURCES = frozenset({SourceKind.OFFSETS_TOPIC, SourceKind.COMMITTED})
_MOST_UNWATCHED = 64
"""Gaps that are remembered; time in earlier ones counts as watched."""
_FIRST_POLL_MS = 20_000
"""After the backlog: the longest time in which groups behind a transaction are polled first."""
_HELD = "commits behind an open transaction of the offsets topic are not known yet"
_LOADED_MS = 120_000
"""A coordinator has loaded its groups in this time; a silent group is no STOP before."""
_AHEAD_MS = 60_000
"""A report is of a time later than that from now: the clock was set back since."""

_log = structlog.get_logger(__name__)


class ClusterMonitor:
    """Owns the live state of one cluster; used from one thread only.

    `Admission` puts commits into the windows, `TopicFollower` follows the topics; a round judges.
    """

    offsets_retention_ms: int | None = None
    """As in `CollectorFacts`, also by an earlier collector or process."""

    def __init__(self, cluster: str, settings: MonitorSettings) -> None:
        self.cluster = cluster
        self.settings = settings
        self._live = live = LiveState(settings)
        self.windows = live.windows
        self.history = live.history
        self.pace = live.pace
        self.setbacks = live.setbacks
        self.append_times = live.append_times
        self.past_lags = live.past_lags
        self.groups = live.groups
        self.skew = live.skew
        self.table = live.table
        """Which group-partition is in which row."""
        self.sources: dict[SourceKind, SourceHealth] = {}
        self.errors: Counter[str] = Counter()
        """Failed rounds so far, by `SourceError.kind`."""
        self.facts: CollectorFacts | None = None
        self.incarnation = 0
        self.offsets_topic_id = ""
        """Id of the topic that `positions` are of; "" unknown."""
        self.snapshot: ClusterSnapshot | None = None
        self.complete_ms = EpochMs(UNKNOWN)
        """Since when everything has been known once: backlog, commits, log ends; -1: not yet."""
        self._admitted_ms = EpochMs(UNKNOWN)
        """When commits of each partition of the offsets topic had been admitted; -1 not yet."""
        self._held: tuple[CommitsKnown, EpochMs] | None = None
        """True once the commits that waited at the instant are in the windows."""
        self.elsewhere: dict[str, GroupInfo] = {}
        """Groups whose progress is kept outside of Kafka, as far as it was reported."""
        self.story = Story()
        """What happened to the groups since the start of this process."""
        self.trail = Trail()
        """Lags of the last hour; the caller adds them after each round."""
        self._watch = GroupWatch(self.story)
        self._admission = Admission(live, self._watch)
        self._topics = TopicFollower(
            live, self._watch, self._admission, on_recreated=self._forget_if_replaced
        )
        self._transactions: Mapping[tuple[str, int], OpenTransaction] = {}
        self._listed: frozenset[str] | None = None
        """Groups of the newest complete list of Kafka."""
        self._hidden: frozenset[str] = frozenset()
        """Groups that were watched, and may not be described any more."""
        self._commits_until_ms = self._backlog_ms = EpochMs(UNKNOWN)
        self._ends_ms = EpochMs(UNKNOWN)
        """When the newest round of log ends of this process began."""
        self._whole = False
        """True once a round of log ends was whole: see `_note_whole`."""
        self._watched_ms = EpochMs(UNKNOWN)
        """Until when the process watched whose checkpoint was restored; -1 none."""
        self._evaluation = Evaluation()
        self._restored: Restored | None = None

    @property
    def backlog(self) -> Backlog:
        """Progress in reading what the offsets topic held at the start."""
        return self._live.backlog

    @property
    def positions(self) -> dict[int, int]:
        """Offsets topic partition → next offset after all commits that are in the windows."""
        return self._admission.positions

    @property
    def topics(self) -> TopicColumns:
        """The topics that were last listed."""
        return self._live.topics

    @property
    def admitted(self) -> int:
        """Commits admitted to windows so far."""
        return self._admission.admitted

    @property
    def hidden(self) -> frozenset[str]:
        """Groups that were watched, and may not be described any more."""
        return self._hidden

    @property
    def rebalances(self) -> Counter[str] | None:
        """Rebalances seen so far, by group; None: offsets are polled, which does not show them."""
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
    def complete_snapshot(self) -> ClusterSnapshot | None:
        """The newest snapshot, if it was judged after everything had been known once."""
        snapshot = self.snapshot
        is_whole = self.complete and snapshot is not None and snapshot.at_ms >= self.complete_ms
        return snapshot if is_whole else None

    @property
    def sees_all_commits(self) -> bool:
        """False until a snapshot has the commits behind transactions open when lagwatch began."""
        snapshot = self.snapshot
        return snapshot is not None and 0 <= self._admitted_ms <= snapshot.at_ms

    @property
    def known(self) -> Known:
        """Up to when log ends and commits are known."""
        commits_ms = self._live.known.until_ms
        return Known(
            log_ends_ms=self._live.data_ms,
            commits_ms=self._commits_until_ms if commits_ms < 0 else commits_ms,
            polled=self.facts is not None and self.facts.commits_mode == "admin",
        )

    @property
    def last_data_ms(self) -> int:
        """Up to when all was known, also to the process before a restart; -1: not yet."""
        return self.known.until_ms if self.complete else self._watched_ms

    def is_stale(self, now_ms: EpochMs) -> bool:
        """Are log ends or commits older than they may be?"""
        return self.known.is_stale(now_ms, self.settings.fresh_for)

    def not_ready_because(self, now_ms: EpochMs) -> str:
        """What is missing before the first complete round, or why the data are stale; ""."""
        if not self.complete:
            found = _HELD if self._whole else missing(self.known, self.backlog)
            why = cause(self.sources)
            return f"{why}; {found}" if why else found  # the cause before its consequence
        return why_stale(self.known, self.sources, now_ms) if self.is_stale(now_ms) else ""

    def is_unreachable(self, now_ms: EpochMs) -> bool:
        """True if there are no fresh data because no broker answers."""
        fresh = self.complete and not self.is_stale(now_ms)
        return not fresh and is_unreachable(self.sources)

    def doubt_clock(self, ahead_ms: int) -> None:
        """The clock was set ahead by this lately, and may be wrong; 0 when it is believed.

        Nothing is old by a clock that was set back (below 0).
        """
        self._live.clock_ahead_ms = max(0, ahead_ms)

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
                self._hidden = self._hidden if report.hidden is None else report.hidden
                self._admission.take(report, now_ms, number=0)
            case SharesSeen():
                self._admission.take(report, now_ms, number=0)
            case Progress():
                self.elsewhere[report.group] = _kept_elsewhere(report)
                self._admission.take(report, now_ms, number=len(report.offset))
            case Topics():
                self._topics.listed(report, now_ms)
            case CollectorStarted():
                self._new_collector(report, now_ms)
            case CommitsKnown() | ProgressKnown():
                return self._commits_known(report, now_ms)
            case _:
                self._note(report, now_ms)
        return False

    def _note(self, report: Report, now_ms: EpochMs) -> None:
        """Reports that only say what is known."""
        match report:
            case GroupsSeen():
                self._watch.groups(report, now_ms)
                self.groups.take(report, now_ms)
                self._live.vacancies.take(report, now_ms)
                self._note_listed(report, now_ms)
            case EmptyTails():
                self._live.partitions.tails(report, self._live.topics)
            case reports.AppendTimes():
                self.append_times.take(report, self.table, self.windows.last_offset)
            case OpenTransactions():
                self._transactions = {
                    (each.topic, each.partition): each for each in report.transactions
                }
                self._live.partitions.opened(
                    report.transactions, self._live.topics, skew_ms=self.skew.corrected_ms
                )
            case SourceHealth():
                self._source_health(report)
            case CollectorFacts():
                self.facts = report
                if report.offsets_retention_ms is not None:
                    self.offsets_retention_ms = report.offsets_retention_ms

    def _backlog(self, report: Backlog, now_ms: EpochMs) -> bool:
        if self._restored is not None and (reason := self._restored.other_topic(report)):
            self._forget_restored(reason)
        self.offsets_topic_id = report.topic_id or self.offsets_topic_id
        was_ready, self._live.backlog = self.backlog.ready, report
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
        return self._admission.waiting

    def forget(self, group: str, topic: str | None) -> None:
        """Forget a group, or one topic of it, until its next commit."""
        self.table.free(self.table.of_group(group, topic))
        self.groups.commits(group)

    def acknowledge_losses(self, group: str) -> int:
        """Stop showing the losses of a group; returns of how many partitions they were."""
        return self.setbacks.acknowledge(self.table.of_group(group))

    def take_losses(self) -> tuple[Loss, ...]:
        """Losses noticed since the last call."""
        losses = self._live.losses.take()
        self._watch.losses(losses)
        return losses

    # checkpoints

    @property
    def revision(self) -> tuple[int, ...]:
        """Changes whenever there is something new to be kept."""
        return (
            self.admitted,
            self._live.data_ms,
            self._topics.listed_ms,
            self.windows.rows,
            self.table.frees,
            self.setbacks.acknowledged,
        )

    def kept(self) -> KeptState:
        """What a checkpoint holds beside the columns by row; to be read before them."""
        return KeptState(
            positions=dict(self.positions),
            offsets_topic_id=self.offsets_topic_id,
            exact_times=self._admission.exact_times,
            first_ms=self._live.first_ms,
            unwatched=tuple(self._live.unwatched),
            data_ms=self._live.data_ms,
            judged_ms=UNKNOWN if self.snapshot is None else self.snapshot.at_ms,
            topics_ms=self._topics.listed_ms,
            starts_ms=self._live.losses.starts.until_ms,
            topics=self._live.topics,
            topic_ids=dict(self._topics.ids),
            missing_since=dict(self._topics.missing_since),
            partitions=self._live.partitions.copied(),
            absences=self._live.known.absences,
            listed=self._in_kafka(),
        )

    def _in_kafka(self) -> frozenset[str]:
        """Groups that Kafka lists; polled ones are listed, if they are not described yet."""
        described = frozenset(self.groups.info)
        return described | self.table.named_groups() if self.known.polled else described

    def restore(self, kept: KeptState, ids: RowIds, *, offsets_topic: str) -> None:
        """Begin where an earlier process ended; the monitor must be new.

        The columns by row and the history are put in by the caller, who calls this first.
        """
        self._admission.positions = dict(kept.positions)
        self.offsets_topic_id = kept.offsets_topic_id
        self._admission.exact_times, self._live.first_ms = kept.exact_times, EpochMs(kept.first_ms)
        self._live.data_ms, self._topics.listed_ms = EpochMs(kept.data_ms), EpochMs(kept.topics_ms)
        self._live.unwatched, self._watched_ms = list(kept.unwatched), EpochMs(kept.data_ms)
        self._live.topics, self._topics.ids = kept.topics, dict(kept.topic_ids)
        self._topics.missing_since = dict(kept.missing_since)
        if kept.starts_ms >= 0:
            self._live.losses.starts.restore(kept.topics.log_start, kept.starts_ms)
        self._live.partitions.restore(kept.partitions, kept.judged_ms)
        self._live.movements.restore(kept.data_ms)
        self._live.known.restore(kept.absences)
        self.table.restore(ids, kept.topics)
        self._live.place_made()
        groups = [ids.group_names[number] for number in ids.group.tolist()]
        self._live.known.place(np.arange(ids.group.size), groups, self.windows.count.size)
        self._restored = Restored(
            positions=kept.positions,
            exact_times=kept.exact_times,
            offsets_topic=offsets_topic,
            offsets_topic_id=kept.offsets_topic_id,
            groups=kept.listed,
        )

    @property
    def resting(self) -> list[tuple[str, int, bool]]:
        """See `GroupWatch.resting`."""
        return self._watch.resting

    @property
    def statuses(self) -> Mapping[str, int]:
        """`GroupStatus` by group, as last judged."""
        if self.snapshot is None:
            return {}
        status = self.snapshot.group.status.tolist()
        return dict(zip(self.snapshot.groups, status, strict=True))

    @property
    def happened(self) -> int:
        """Grows with what would be missing if this process were killed now, and not found again."""
        setbacks = self.setbacks
        return setbacks.losses + setbacks.acknowledged + self._watch.changes

    def restore_groups(
        self, resting: Iterable[tuple[str, int, bool]], statuses: Mapping[str, int]
    ) -> None:
        """Begin with the groups that an earlier process knew to have no members, and verdicts."""
        self._watch.restore(resting, statuses)

    def restore_story(self, events: Iterable[GroupEvent]) -> None:
        """Begin with events of an earlier process; after the rows, which were captured earlier.

        A loss that its row does not count yet is left out: it will be found again.
        """
        self.story.restore(event for event in events if not self._uncounted(event))

    def _uncounted(self, event: GroupEvent) -> bool:
        """Is it a loss that was found after its row was captured?"""
        if event.event != EventName.RECORDS_LOST or event.topic is None or event.partition is None:
            return False
        row = self.table.row_of((event.group, event.topic, event.partition))
        if row is None:
            return False
        # absent in checkpoints of earlier versions
        end: int = json.loads(event.detail)["end"] if event.detail else UNKNOWN
        return bool(self.setbacks.counted_until(np.array([row]))[0] < end)

    def restored_rows(self) -> None:
        """Learn from the rows, which were put in, who has never committed."""
        self._live.whole = True
        for row in np.flatnonzero(self.windows.count[: self.windows.rows] == 0).tolist():
            identity = self.table.identity(row)
            self._live.silent[identity] = row
            self.groups.found_before(identity, int(self.pace.since_s[row]) * 1000)
        self._live.losses.restored()

    def _forget_restored(self, reason: str) -> None:
        """What was restored is of another cluster, or cannot go on: begin anew."""
        _log.warning("checkpoint_forgotten", cluster=self.cluster, reason=reason)
        self._restored = None
        self.table.free(self.table.used(0, self.windows.rows))
        self._live.silent.clear()
        self.story.clear()
        self.trail.clear()
        self._watch.forget_restored()
        self.positions.clear()
        self._live.first_ms, self._live.unwatched = self.complete_ms, []
        self._watched_ms = EpochMs(UNKNOWN)

    def _forget_if_replaced(self, recreated: Sequence[str]) -> None:
        """The rows of a checkpoint are worth nothing once the offsets topic was replaced."""
        if self._restored is not None and self._restored.offsets_topic in recreated:
            self._forget_restored(f"{self._restored.offsets_topic} was replaced")

    def _compare(self, report: Commits) -> None:
        if self._restored is not None and (reason := self._restored.misfit(report)):
            self._forget_restored(reason)

    def _note_listed(self, report: GroupsSeen, now_ms: EpochMs) -> None:
        if report.complete:
            self._listed = frozenset(info.group for info in report.groups).union(report.refused)
            self._drop_unlisted(self._listed, now_ms)

    def _drop_unlisted(self, listed: frozenset[str], now_ms: EpochMs) -> None:
        """Drop groups that Kafka listed before the restart, does not list now, and that rest.

        Their tombstones may be compacted away, so that they are never read. A broker that has just
        started lists only the groups that it has loaded: so they must be missing for a while.
        """
        restored = self._restored
        if restored is None or not restored.groups:
            return
        restored.groups -= listed
        if restored.lacking_ms == UNKNOWN:
            restored.lacking_ms = now_ms
        if now_ms - restored.lacking_ms >= _LOADED_MS:
            self.table.free(self.table.absent(restored.groups - self._hidden))
            restored.groups = frozenset()

    def judge(self, now_ms: EpochMs) -> ClusterSnapshot:
        """Judge what may have changed and publish the snapshot."""
        for _ in self.judging(now_ms):
            pass
        if self.snapshot is None:
            raise AssertionError("a round publishes a snapshot")
        return self.snapshot

    def judging(self, now_ms: EpochMs) -> Iterator[None]:
        """`judge` with pauses, in which the monitor may answer queries but must not be changed."""
        self._topics.drop_missing(now_ms)
        self._live.expire(now_ms)
        self._live.place_made()
        if self.complete and self.settings.rules is not RuleSet.BURROW:
            self._live.watch_uncommitted(now_ms)
        layout = self._live.laid_out()
        self._live.touched.append(self.groups.refresh(layout, now_ms, self._live.silent))
        membership = self.groups.membership[: self.windows.rows]
        held = membership == Membership.HELD
        unknown = membership == Membership.UNKNOWN
        self._live.touched.append(self.pace.see_members(held, now_ms, unknown=unknown))
        self._live.note_visits()
        self._live.touched.append(self.setbacks.take_touched())
        known_ms = self._known_until_ms(now_ms)
        fresh = now_ms - self._live.data_ms <= self.settings.away_after_ms
        if fresh:
            # before the round: a rise from before an outage must not meet the lag after it
            self._live.touched.append(self._live.movements.resume(now_ms))
        seen = Inputs(
            windows=self.windows,
            layout=layout,
            history=self.history,
            now_ms=known_ms,
            rules=self.settings.rules,
            around=self._around(known_ms),
        )
        touched, whole = np.concatenate(self._live.touched), self._live.whole
        self._live.touched.clear()
        self._live.whole = False
        follow = partial(self._live.follow_turns, fresh=fresh)
        seen = yield from self._evaluation.round(seen, touched=touched, whole=whole, follow=follow)
        judged = self._evaluation.snapshot(
            self.cluster,
            seen,
            at_ms=now_ms,
            data_ms=self._live.data_ms,
            topics=self._live.topics,
            info={**self.elsewhere, **self.groups.info},
            owners=dict(self.groups.owners),
            unread=self.groups.unread,
            to_come=dict(self.groups.to_come),
        )
        before, self.snapshot = (
            self.snapshot,
            replace(
                judged,
                transactions=self._transactions,
                shares=self._admission.shares.by_group,
                listed=self._listed,
                hidden=self._hidden,
                stale=self.is_stale(now_ms),
                stale_after_ms=self.settings.fresh_for.of_commits_ms(polled=self.known.polled),
            ),
        )
        self._watch.verdicts(before, self.snapshot, complete=self.complete)
        self._live.recycle()
        if fresh:
            self._live.keep_lags(self.snapshot, now_ms)
            seen_lags = self._live.movements.see_lags(
                self.snapshot, now_ms, self._evaluation.changed, held=held
            )
            self._live.touched.append(seen_lags)

    def _around(self, known_ms: EpochMs) -> Around:
        skew_ms = self.skew.corrected_ms
        recent_ms = known_ms - self.settings.limits.recent_ms
        return Around(
            pace=self.pace,
            facts=self._row_facts(skew_ms),
            partitions=self._live.partitions.columns(
                self._live.topics,
                self.history.latest(),
                self.history.since(recent_ms),
                skew_ms=skew_ms,
            ),
            limits=self.settings.limits,
            complete_ms=self.complete_ms - skew_ms if self.complete else UNKNOWN,
            first_ms=self._live.first_ms - skew_ms if self._live.first_ms >= 0 else UNKNOWN,
            unwatched=Unwatched.of(self._live.unwatched, skew_ms=skew_ms),
            skew_ms=skew_ms,
            asked_ms=known_ms - skew_ms,
        )

    def _row_facts(self, skew_ms: int) -> RowFacts:
        left_ms, visited_ms = self.groups.left_ms, self.groups.visited_ms
        lost_ms, lost_since_ms = map(self.setbacks.column, ("lost_ms", "lost_since_ms"))
        lost_doubt_ms = self.setbacks.column("lost_doubt_ms")
        return RowFacts(
            membership=self.groups.membership,
            left_ms=None if left_ms is None else shifted(left_ms, skew_ms),
            visited_ms=None if visited_ms is None else shifted(visited_ms, skew_ms),
            mirrored=self.groups.mirrored,
            read_committed=self.groups.read_committed,
            turns=self._live.turns,
            rewound_from=self.setbacks.column("rewound_from"),
            rewound_ms=self.setbacks.column("rewound_ms"),
            rewound_again_ms=self.setbacks.column("rewound_again_ms"),
            lost=self.setbacks.column("lost"),
            lost_acknowledged=self.setbacks.column("lost_acknowledged"),
            lost_bound=self.setbacks.column("lost_bound"),
            lost_doubt_ms=None if lost_doubt_ms is None else shifted(lost_doubt_ms, skew_ms),
            lost_ms=None if lost_ms is None else shifted(lost_ms, skew_ms),
            lost_since_ms=None if lost_since_ms is None else shifted(lost_since_ms, skew_ms),
            lost_until=self.setbacks.column("lost_until"),
            commits=self._live.known.facts(
                skew_ms=skew_ms,
                all_polled=self.facts is not None and self.facts.commits_mode == "admin",
            ),
            times=self.append_times.at(self.windows.last_offset),
            stored=self.append_times.stored,
            out_of_order=self._admission.shares.out_of_order(self.table),
        )

    def _known_until_ms(self, now_ms: EpochMs) -> EpochMs:
        """The instant up to which commits and log ends are known: the windows are judged at it.

        While Kafka is away, or its commits cannot be read, silence is ours and not the groups'.
        """
        until_ms = self.known.until_ms
        return now_ms if until_ms < 0 else EpochMs(min(now_ms, until_ms))

    # commits

    def _commits_known(self, report: CommitsKnown | ProgressKnown, now_ms: EpochMs) -> bool:
        if isinstance(report, CommitsKnown):
            self._held = None
            if int(report.until_ms.max(initial=0)) > now_ms + _AHEAD_MS:
                # made before the clock was set back: it would hide all silence until that time
                report = replace(report, until_ms=np.minimum(report.until_ms, now_ms))
            if self.complete and self._admission.holds_old(int(report.until_ms.max(initial=0))):
                self._held = report, now_ms
                return False
        return self._take_known(report, now_ms)

    def _take_known(self, report: CommitsKnown | ProgressKnown, now_ms: EpochMs) -> bool:
        known = self._live.known
        if known.take(report) if isinstance(report, CommitsKnown) else known.take_progress(report):
            ids = self.table.ids()
            rows = np.flatnonzero(ids.group >= 0)
            groups = [ids.group_names[group] for group in ids.group[rows].tolist()]
            self._live.known.place(rows, groups, self.windows.count.size)
        self._live.movements.leave_out_unread()
        self._admission.note_polls()
        return self._note_complete(now_ms)

    def _commits(self, report: Commits, now_ms: EpochMs) -> None:
        if report.new_groups:
            self.table.announce(
                report.first_new_id,
                report.new_groups,
                report.new_topics,
                report.new_partitions,
            )
        self._compare(report)
        self._admission.commits(report, now_ms)

    # log ends and topics

    def _log_ends(self, report: LogEnds, now_ms: EpochMs) -> bool:
        if report.version != self._topics.version:
            return False
        if report.started_ms < self._live.data_ms:
            self._live.set_back(report.started_ms)
            self._admission.set_back(report.started_ms)
            self._held = None  # it is of a time that has not come
            self.complete_ms = min(self.complete_ms, report.started_ms)
        new = self.history.latest() < 0
        # leaders answer at any time in the round: its middle is off by half a round at most
        at_ms = (report.started_ms + report.finished_ms) // 2
        half_ms = report.finished_ms - at_ms
        self.history.add(at_ms, report.log_end, report.asked, half_ms=half_ms)
        latest = self.history.latest()
        before = self._live.topics
        self._topics.note_cuts(report, before)
        back = self._live.partitions.round(report, before)
        if back.any():
            self._live.movements.leave_out(back)
        self._live.topics = with_offsets(before, report, latest, self._live.partitions.answered_ms)
        if not self._topics.sees_none:
            # the start, not the end: only commits made before it are surely at or below these ends
            self._live.data_ms = report.started_ms
        if self.settings.rules is RuleSet.BURROW:
            self._fill_lags(np.flatnonzero(new & (latest >= 0)))
        # after the history has this round, up to which their lags are interpolated
        self._admission.admit_seen_by(report.started_ms, now_ms)
        if self._held is not None and self._held[1] <= report.started_ms:
            self._take_known(self._held[0], now_ms)
            self._held = None
        self._admission.note_polls()
        # first: the log starts of this round are newer than the commits known so far
        self._live.losses.count(now_ms, skew_ms=self.skew.corrected_ms)
        self._live.losses.starts.add(self._live.topics.log_start, report.finished_ms)
        commits = self._live.known.facts(skew_ms=0, all_polled=False)
        if commits is not None:
            self._live.admitted_ms = commits.known_ms
        if self._admitted_ms < 0 and self._live.known.all_admitted:
            self._admitted_ms = now_ms
        self._note_whole(report)
        self._note_complete(now_ms)
        return True

    def _note_whole(self, report: LogEnds) -> None:
        """The first round of log ends that began after the backlog was read is whole.

        Where offsets are polled, the first one after a poll that came after a round: the lag of a
        poll is known on the line between two rounds.
        """
        nothing_to_ask = not report.log_end.size and not self._topics.sees_none
        answered = nothing_to_ask or bool((report.log_end >= 0).any())
        before_ms, self._ends_ms = self._ends_ms, report.started_ms
        lined_up = not self.known.polled or 0 <= before_ms <= self.known.commits_ms
        read = 0 <= self._backlog_ms <= report.started_ms
        self._whole |= read and answered and lined_up

    def _note_complete(self, now_ms: EpochMs) -> bool:
        """Once a round was whole, and all commits are known, everything is; True then.

        Commits behind a transaction that was open at the start are known by a poll: the older ones
        before it would show lags that are not there. It is not waited for for ever.
        """
        if self.complete or not self._whole or self._awaits_commits(now_ms):
            return False
        self.complete_ms = now_ms
        if self._live.first_ms < 0:
            self._live.first_ms = now_ms
        if 0 <= self._watched_ms < now_ms:
            self._live.unwatched.append((self._watched_ms, now_ms))
            del self._live.unwatched[:-_MOST_UNWATCHED]
        return True

    def _awaits_commits(self, now_ms: EpochMs) -> bool:
        reads = self.facts is not None and self.facts.commits_mode == "offsets-topic"
        known = self._live.known
        waits = (reads or known.knows_partitions) and not known.all_admitted
        return waits and now_ms - self._backlog_ms < _FIRST_POLL_MS

    def _fill_lags(self, partitions: Slots) -> None:
        """Commits that came before any log end of their partition: its first one bounds their lag.

        Burrow compares the commits of a backlog with the log end it knows when it reads them.
        """
        if not partitions.size or not self.windows.rows:
            return
        known = np.zeros(self.history.partitions + 1, np.bool_)
        known[partitions] = True
        rows = np.flatnonzero(known[self.table.at[: self.windows.rows]])
        ends = self.history.latest()[self.table.at[rows]]
        self.windows.fill_lags(rows, ends)
        self._live.touched.append(rows)

    # groups

    def _new_collector(self, report: CollectorStarted, now_ms: EpochMs) -> None:
        before = len(self._live.touched)
        self._admission.admit_all(now_ms)
        self._reach(self._live.touched[before:], now_ms)
        self.incarnation = report.incarnation
        self._topics.version = UNKNOWN
        self._admission.shares.clear()
        self.table.new_collector()

    def _reach(self, touched: Sequence[Slots], now_ms: EpochMs) -> None:
        """Commits waited for log ends that the last collector did not live to read.

        Until the new one has read some, those are known to be where the commits are at least: they
        would be beyond them, and their groups unknown.
        """
        rows = np.unique(np.concatenate(touched)) if touched else np.zeros(0, np.intp)
        latest, at = self.history.latest(), self.table.at[rows]
        reached, known = latest.copy(), np.flatnonzero((at >= 0) & (latest[at] >= 0))
        np.maximum.at(reached, at[known], self._live.windows.last_offset(rows[known]))
        further = reached > latest
        if further.any():
            self.history.add(now_ms, reached, further)
            self._live.topics = _reached(self._live.topics, reached)


def _reached(topics: TopicColumns, log_end: Int64) -> TopicColumns:
    """With these log ends; where no transaction was open, none is known to be."""
    stable = np.where(topics.last_stable == topics.log_end, log_end, topics.last_stable)
    return replace(topics, log_end=log_end, last_stable=stable)


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
