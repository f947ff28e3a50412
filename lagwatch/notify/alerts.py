"""Alerts: turns snapshots into incidents and delivers notices about them."""

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import structlog

from lagwatch.clock import STANDSTILL_S, BelievedClock, Clock, Leaps
from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.settings import Settings
from lagwatch.core.incident import Reason
from lagwatch.core.model import UNKNOWN, EpochMs
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.words import counted, printable
from lagwatch.errors import ConfigError, Fault, NotFoundError
from lagwatch.notify.budget import BudgetStore
from lagwatch.notify.changes import MOST_EXPLAINED, RoundChanges, page_link
from lagwatch.notify.channel_changes import ConfiguredChannels
from lagwatch.notify.channels.registry import open_channel
from lagwatch.notify.database import Database
from lagwatch.notify.dispatch import DeliveryCounts, Dispatcher, Outlet
from lagwatch.notify.heartbeat import Heartbeat
from lagwatch.notify.mutes import MuteRule, active, from_record, from_settings
from lagwatch.notify.notice import About, Json, Notice, OpenGroups, level
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.own import (
    Condition,
    OwnIncidents,
    SteadyClock,
    at_zone,
    not_configured,
    not_readable,
    undelivered,
    unseen,
    used_up,
)
from lagwatch.notify.policies import THRESHOLDS, PolicyBook
from lagwatch.notify.records import AlertRecords
from lagwatch.notify.review import review, template_faults
from lagwatch.notify.store import Change, IncidentStore, Listener, Marks
from lagwatch.notify.unseen import Gap, UnreachableStore, UnseenStore
from lagwatch.notify.verdict import (
    figures_json,
)
from lagwatch.notify.watch import KEEP_BAD_EVERY_MS, Watch
from lagwatch.parts import Parts
from lagwatch.ports.alerts import (
    IncidentAsk,
    IncidentRecord,
    MessageState,
    Mute,
    NoticeAsk,
    NoticeRecord,
    PolicyRecord,
    TroubleSince,
)
from lagwatch.ports.queries import ClusterHealth, Queries

ALERTING: Final = "alerting"
"""How the names of all parts of it begin, see `lagwatch.parts`."""
_PRUNE_EVERY_S: Final = 3600.0
_KEEP_BUDGETS_EVERY_MS: Final = 60_000
"""How often spent error budgets are written; a crash loses no more than this."""
_LOOK_EVERY_S: Final = 5.0
_NEW_FOR_MS: Final = 60_000
"""For so long the figures of a round are those of now."""
_RETURN_EVERY_S: Final = 5.0
"""How often a full disk is tried again."""
_LOGGED_INCIDENTS: Final = 20
_NAME_UNREAD_FOR_MS: Final = 86_400_000
_NAMED_UNREAD: Final = 5

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCounts:
    """Counters for metrics; every reason and channel is present from the start, with 0."""

    reasons: Mapping[Reason, int]
    """Decisions by reason, over all clusters."""
    deliveries: Mapping[str, DeliveryCounts]
    """By channel."""
    undelivered: Mapping[str, int]
    """Notices not delivered yet, by channel."""
    dead: Mapping[str, int]
    """Dead messages that are kept, by channel."""
    open_incidents: Mapping[str, int]
    """By cluster: of its groups, and of the cluster itself."""


class Alerts:
    """Decides about every snapshot (`observe`) and delivers notices (`run`).

    Implements `lagwatch.ports.reports.AlertsView`.
    """

    _looked_ms = UNKNOWN
    """When decisions were made last."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        parts: Parts | None = None,
        chance: Random | None = None,
        leaps: Leaps | None = None,
    ) -> None:
        """Check the templates, open the file and restore what it holds.

        Without `leaps` the clock is always believed.

        Raises:
            ConfigError: a template or certificate is broken, or the file cannot be used.
        """
        alerts = settings.alerts
        self._settings = settings
        self._machine, self._leaps = clock, leaps
        clock = self._clock = clock if leaps is None else BelievedClock(clock, leaps)
        self._parts = parts or Parts(clock)
        now_ms = clock.now_ms()
        self._outlets: Mapping[str, Outlet] = _outlets(alerts, clock, {})
        self._listeners = _listeners(alerts)
        self._book = PolicyBook(alerts)
        self._database = Database(alerts.file, now_ms=now_ms)
        self._store = IncidentStore(self._database)
        self._channels = ConfiguredChannels(self._database)
        self._budgets = BudgetStore(self._database)
        self._unseen = UnseenStore(self._database)
        self._unreachable = UnreachableStore(self._database, now_ms)
        self._begin_budgets_anew()
        self._budgets_kept_ms: dict[str, int] = dict.fromkeys(settings.clusters, now_ms)
        """Up to when the spent budgets of each cluster are kept."""
        self._bad_kept_ms = dict(self._budgets_kept_ms)
        """Up to when the bad partitions of each cluster are kept."""
        self._outbox = Outbox(self._database)
        self._records = AlertRecords(self._database, self._as_now)
        chance = chance or Random()  # noqa: S311 jitter is no secret
        self._snapshots: dict[str, ClusterSnapshot] = {}
        """The newest of each cluster."""
        self._dispatcher = Dispatcher(
            self._outbox,
            self._outlets,
            clock,
            chance,
            newest=self._figures_now,
            open_of=self._open_groups,
            keep=self._keep,
        )
        kept = list(self._store.kept(now_ms))
        self._lost = _ended_unread(self._store.end_not_readable(now_ms, self._completed))
        self._watches = {
            cluster: Watch(
                cluster,
                self._book,
                (
                    incident
                    for incident in kept
                    if incident.cluster == cluster and incident.about is About.GROUP
                ),
                self._budgets.kept(cluster),
                started_ms=now_ms,
                follows=partial(is_followed, followed),
                unseen=self._unseen.kept(cluster),
            )
            for cluster, followed in settings.clusters.items()
        }
        self.unfinished: dict[str, int] = {}
        """Clusters of which `observe` has more to decide, and how many partitions it may look at
        for causes."""
        self._marks = {cluster: watch.marks() for cluster, watch in self._watches.items()}
        """As stored: ends of incidents that a mute holds back, by cluster."""
        self._own = OwnIncidents(incident for incident in kept if incident.about is not About.GROUP)
        for name, since_ms in self._own.channels().items():
            if name in self._outlets:  # it fails until an attempt succeeds
                self._outlets[name].counts.failing_since_ms = since_ms
                self._outlets[name].counts.last_error = "none since lagwatch started"
        self._health: Callable[[], Sequence[ClusterHealth]] = tuple
        self._history_problem: Callable[[], str] = str
        self._history_since_ms: int | None = None
        self._steady = SteadyClock()
        self._failing: dict[str, tuple[float, float]] = {}
        """By channel that does not deliver: when that was first seen, on the monotonic clock, and
        for how long it had been so by then, before a restart, in seconds."""
        # `_undelivered_long`: what has lasted long enough for an incident of its own
        self._delivery_problem = self._undelivered_long = self._slowed = self._unread = ""
        self._heartbeat = Heartbeat(
            alerts.heartbeat,
            clock,
            self._not_well,
            lambda: [outlet.channel for outlet in self._outlets.values()],
        )
        self._configured_mutes: tuple[MuteRule, ...] = ()
        self._mutes: tuple[MuteRule, ...] = ()
        self._problem = ""
        self._begin()

    def reload(self, settings: Settings) -> None:
        """Use other policies, mutes and channels from now on; incidents and queues stay.

        Call it on the event loop. A channel whose options are the same goes on undisturbed.

        Raises:
            ConfigError: a template or certificate is broken, or the file is another; nothing has
                changed.
        """
        if settings.alerts.file != self._settings.alerts.file:
            raise ConfigError([_other_file(settings.alerts.file)])
        outlets = _outlets(settings.alerts, self._clock, self._outlets)
        self._settings, self._outlets = settings, outlets
        self._listeners = _listeners(settings.alerts)
        self._book = PolicyBook(settings.alerts)
        self._begin_budgets_anew()
        for watch in self._watches.values():
            watch.use(self._book)
        self._heartbeat.settings = settings.alerts.heartbeat
        self._dispatcher.use(outlets)
        self._begin()
        self._dispatcher.wake()

    def _begin(self) -> None:
        """Apply what a configuration changes at once, and log what it cannot mean."""
        for fault in review(self._settings):
            _log.warning("alerts_option_doubtful", option=fault.key, problem=fault.problem)
        self._greet()
        heard = self._store.heard()
        thresholds = {name: each.threshold for name, each in self._listeners.items()}
        for watch in self._watches.values():
            watch.take_heard(heard, thresholds)
        self._configured_mutes = tuple(
            from_settings(name, mute) for name, mute in self._settings.alerts.mutes.items()
        )
        self._read_mutes()

    @property
    def problem(self) -> str:
        """Why incidents cannot be stored or delivered now; "" if they can."""
        return self._own_problem or self._delivery_problem

    @property
    def _own_problem(self) -> str:
        failed = "; ".join(self._parts.problems(of=ALERTING))
        return self._database.problem or failed or self._problem

    @property
    def remark(self) -> str:
        """What is worth knowing although alerts work; "".

        Channels that wait because they have sent all that they may; a damaged file, or incidents
        that could not be read, at the start; notices that cannot be.
        """
        aside = self._database.set_aside
        lost = f"the file was damaged at the start, what it held is in {aside}" if aside else ""
        return "; ".join(filter(None, (lost, self._lost, self._unread, self._slowed)))

    def look_after(
        self, health: Callable[[], Sequence[ClusterHealth]], history_problem: Callable[[], str]
    ) -> None:
        """Set where the health of clusters and history is read; else only delivery is watched."""
        self._health, self._history_problem = health, history_problem

    def removed(self, cluster: str, group: str) -> None:
        """A group was removed by request: its incident ends as removed, not as healed."""
        self._watches[cluster].remove(group)

    def observe(self, snapshot: ClusterSnapshot, queries: Queries, now_ms: EpochMs) -> None:
        """Decide about a snapshot; the decisions are stored when this returns.

        Costs almost nothing while nothing changes. A snapshot that is not ready or whose log ends
        are stale changes nothing: silence of the monitor is not silence of a group.

        Of a storm only some hundred decisions are made, and `unfinished` names the cluster: call
        again, after others have run.
        """
        watch = self._watches.get(snapshot.cluster)
        self._snapshots[snapshot.cluster] = snapshot
        explains = self.unfinished.pop(snapshot.cluster, MOST_EXPLAINED)
        if watch is None or not self._is_trustworthy(snapshot, queries):
            return
        self._let_mutes_go_on()
        rules = active(self._mutes, now_ms)
        muted = partial(_is_muted, rules, snapshot.cluster)
        outlook = partial(queries.outlook, snapshot.cluster)
        decided = watch.decide(snapshot, now_ms, muted, outlook)
        if watch.gap is not None:
            self._keep_gap(snapshot.cluster, watch.gap)
        if now_ms - self._budgets_kept_ms[snapshot.cluster] >= _KEEP_BUDGETS_EVERY_MS:
            self._keep_budgets(snapshot.cluster, watch, now_ms)
        if now_ms - self._bad_kept_ms[snapshot.cluster] >= KEEP_BAD_EVERY_MS:
            self._keep_bad(snapshot, watch, now_ms)
        if watch.unfinished:
            self.unfinished[snapshot.cluster] = explains
        else:
            self._keep_marks(snapshot.cluster, watch)
        if not decided:
            return
        made = RoundChanges(
            snapshot,
            queries,
            decided,
            settings=self._settings,
            listeners=self._listeners,
            last_owner=self._store.last_owner,
            now_ms=self._clock.now_ms(),
            explains=explains,
        )
        changes = made.all()
        try:
            self._store.record(changes, now_ms)
        except sqlite3.Error as error:
            # nothing was kept, so nothing has changed: the next round decides the same again
            if str(error) != self._problem:
                _log.error("alerts_not_kept", cluster=snapshot.cluster, reason=str(error))
            self._problem = str(error)
            self.unfinished.pop(snapshot.cluster, None)
            watch.begin_anew()
            return
        self._problem = ""
        watch.apply(decided)
        if watch.unfinished:
            self.unfinished[snapshot.cluster] = made.explains
        self._dispatcher.wake()
        _log_changes(snapshot.cluster, changes)

    def groups_in_trouble(self, cluster: str) -> frozenset[str]:
        """Groups with an open incident."""
        return self._watches[cluster].in_trouble

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._dispatcher.run(), name="deliver")
            for part, run in (
                ("deletion of old incidents", self._prune),
                ("about lagwatch itself", self._look_after_itself),
                ("return to the disk", self._return_to_disk),
                ("heartbeat", self._heartbeat.run),
            ):
                tasks.create_task(self._parts.keep(f"{ALERTING}: {part}", run), name=part)

    async def _keep(self, channel: str, run: Callable[[], Awaitable[None]]) -> None:
        await self._parts.keep(f"{ALERTING} by {channel}", run)

    def close(self) -> None:
        """Write the spent error budgets and which partitions were bad, and close the file."""
        now_ms = self._clock.now_ms()
        for cluster, watch in self._watches.items():
            self._keep_budgets(cluster, watch, now_ms)
            if (snapshot := self._snapshots.get(cluster)) is not None:
                self._keep_bad(snapshot, watch, now_ms)
        self._database.close()

    def counts(self) -> AlertCounts:
        """Totals since the start, and what is kept now."""
        reasons = dict.fromkeys(Reason, 0)
        for watch in self._watches.values():
            for reason, count in watch.reasons.items():
                reasons[reason] += count
        left = self._records.left_by_channel()
        depths = {name: left.get(name, (0, 0)) for name in {**self._outlets, **left}}
        open_incidents = self._own.open_incidents
        for name, watch in self._watches.items():
            open_incidents[name] += watch.open_incidents
        return AlertCounts(
            reasons=reasons,
            deliveries={name: outlet.counts for name, outlet in self._outlets.items()},
            undelivered={name: depth[0] for name, depth in depths.items()},
            dead={name: depth[1] for name, depth in depths.items()},
            open_incidents=open_incidents,
        )

    @property
    def time_zone(self) -> str:
        return self._settings.alerts.time_zone

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        found, following = self._records.incidents(ask)
        rules = active(self._mutes, self._clock.now_ms())
        return [_with_mute(record, rules) for record in found], following

    def in_trouble_since(self, cluster: str) -> Mapping[str, TroubleSince]:
        return self._records.in_trouble_since(cluster)

    def incident(self, incident: str) -> IncidentRecord:
        record = self._records.incident(self._records.whole_id("incident", incident))
        return _with_mute(record, active(self._mutes, self._clock.now_ms()))

    def acknowledge(self, incident: str, *, author: str) -> IncidentRecord:
        incident = self._records.whole_id("open incident", incident)
        self._records.acknowledge(incident, author, self._clock.now_ms())
        self._own.acknowledge(incident)
        for watch in self._watches.values():
            watch.acknowledge(incident)
        _log.info("incident_acknowledged", incident=incident, by=author)
        return self.incident(incident)

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]:
        found, following = self._records.notices(ask)
        now_ms = self._clock.now_ms()
        return [self._with_next_attempt(notice, now_ms) for notice in found], following

    def retry(self, message: str, *, to: str = "") -> int:
        self._check_channel(to)
        message = self._records.whole_id("dead message", message)
        channel, count = self._records.retry(message, to=to)
        _log.info("dead_message_retried", channel=channel, message=message, notices=count, to=to)
        self._dispatcher.try_now(to or channel)
        return count

    def retry_channel(self, channel: str, *, to: str = "") -> int:
        self._check_channel(to)
        if channel not in self._outlets and channel not in self._records.left_by_channel():
            raise NotFoundError(kind="channel", name=channel)
        count = self._records.retry_channel(channel, to=to)
        _log.info("channel_retried", channel=channel, notices=count, to=to)
        self._dispatcher.try_now(to or channel)
        return count

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def mutes(self) -> Sequence[Mute]:
        now_ms = self._clock.now_ms()
        configured = self._settings.alerts.mutes
        return [
            *(
                Mute(
                    id=rule.id,
                    cluster=configured[name].cluster,
                    group=configured[name].group,
                    reason=rule.reason,
                    author="configuration",
                    starts_ms=_starts_ms(rule),
                    ends_ms=ends_ms,
                    active=rule.window.ends_ms(now_ms) is not None,
                    weekly=configured[name].weekly,
                    matching=self._matching(rule),
                )
                for name, rule in zip(configured, self._configured_mutes, strict=True)
                if (ends_ms := _ends_ms(rule, now_ms)) is None or ends_ms > now_ms
            ),
            *(
                replace(mute, matching=self._matching(from_record(mute)))
                for mute in self._records.mutes(now_ms)
            ),
        ]

    def mute(
        self, *, cluster: str, group: str, reason: str, author: str, starts_ms: int, ends_ms: int
    ) -> Mute:
        made = self._records.mute(
            cluster=cluster,
            group=group,
            reason=reason,
            author=author,
            starts_ms=starts_ms,
            ends_ms=ends_ms,
            now_ms=self._clock.now_ms(),
        )
        self._read_mutes()
        _log.info("muted", mute=made.id, cluster=cluster, group=group, reason=reason, by=author)
        return replace(made, matching=self._matching(from_record(made)))

    def _matching(self, rule: MuteRule) -> int:
        """Number of groups, seen now or with an open incident, that the mute covers."""
        count = 0
        for cluster, watch in self._watches.items():
            snapshot = self._snapshots.get(cluster)
            # started while Kafka is away, no group is seen
            seen = () if snapshot is None else snapshot.groups
            count += sum(rule.covers(cluster, group) for group in watch.in_trouble.union(seen))
        return count

    def unmute(self, mute: str) -> None:
        mute = self._records.whole_id("mute", mute)
        self._records.unmute(mute)
        self._read_mutes()
        _log.info("unmuted", mute=mute)

    def policies(self) -> Sequence[PolicyRecord]:
        return [
            PolicyRecord(name=name, settings=policy.model_dump(mode="json"))
            for name, policy in self._settings.alerts.policies_in_effect().items()
        ]

    def policy_of(self, cluster: str, group: str, topics: Sequence[str]) -> Mapping[str, str]:
        found = self._book.of(cluster, group, topics or ("",))
        return {topic: "" if policy is None else policy.name for topic, policy in found.items()}

    def _begin_budgets_anew(self) -> None:
        """Forget what was spent under limits that the configuration has changed."""
        limits = {name: found.limits for name, found in self._book.objectives.items()}
        try:
            changed = self._budgets.begin_anew(limits)
        except sqlite3.Error as error:
            _log.warning("budgets_not_kept", cluster="", reason=str(error))
            return
        if changed:
            _log.info("budgets_begun_anew", policies=changed)

    def _keep_budgets(self, cluster: str, watch: Watch, now_ms: int) -> None:
        if not watch.decided_ms:  # nothing was seen since the start
            return
        now_ms = min(now_ms, watch.decided_ms)
        changed = watch.spent_since(self._budgets_kept_ms[cluster], now_ms)
        try:
            self._budgets.keep(cluster, changed, now_ms)
        except sqlite3.Error as error:  # the next round tries again
            _log.warning("budgets_not_kept", cluster=cluster, reason=str(error))
        else:
            self._budgets_kept_ms[cluster] = now_ms

    def _keep_gap(self, cluster: str, gap: Gap) -> None:
        try:
            self._unseen.keep(cluster, gap)
        except sqlite3.Error as error:
            _log.warning("alerts_not_kept", cluster=cluster, reason=str(error))

    def _keep_bad(self, snapshot: ClusterSnapshot, watch: Watch, now_ms: int) -> None:
        """Store which partitions were bad: one that falls silent has not healed."""
        bad = watch.bad_since(self._bad_kept_ms[snapshot.cluster], snapshot)
        try:
            if bad:
                self._store.keep_bad(bad)
        except sqlite3.Error as error:  # the next round tries again
            _log.warning("alerts_not_kept", cluster=snapshot.cluster, reason=str(error))
        else:
            self._bad_kept_ms[snapshot.cluster] = now_ms

    def _keep_marks(self, cluster: str, watch: Watch) -> None:
        """Store what has changed of the marks of open incidents."""
        before, marks = self._marks[cluster], watch.marks()
        if marks == before:
            return
        no_longer = dict.fromkeys(before.keys() - marks.keys(), Marks())
        changed = {name: each for name, each in marks.items() if before.get(name) != each}
        try:
            self._store.mark({**no_longer, **changed})
        except sqlite3.Error as error:  # the next round tries again
            _log.warning("alerts_not_kept", cluster=cluster, reason=str(error))
        else:
            self._marks[cluster] = marks

    def _is_trustworthy(self, snapshot: ClusterSnapshot, queries: Queries) -> bool:
        if snapshot.data_ms < 0 or snapshot.stale:
            return False
        return any(
            health.cluster == snapshot.cluster and health.ready for health in queries.health()
        )

    def _figures_now(self, notice: Notice) -> Json | None:
        """How far behind the group of a notice is now; None: not known."""
        snapshot = self._snapshots.get(notice.cluster)
        if snapshot is None or notice.about is not About.GROUP:
            return None
        if snapshot.stale or self._clock.now_ms() - snapshot.at_ms > _NEW_FOR_MS:
            return None  # Kafka is away
        return figures_json(snapshot, notice.group)

    def _open_groups(self, cluster: str) -> OpenGroups | None:
        watch = self._watches.get(cluster)
        return None if watch is None else watch.open_groups()

    def _as_now(self, notice: Notice) -> Notice:
        now_ms = self._clock.now_ms()
        return replace(notice, sent_ms=now_ms, newest=self._figures_now(notice))

    def _check_channel(self, name: str) -> None:
        if name and name not in self._outlets:
            raise NotFoundError(kind="channel", name=name)

    def _greet(self) -> None:
        """Queue for new channels what they are to receive; log what removed ones do not."""
        changes = self._channels.use(self._listeners, self._book, self._fallback, self._completed)
        if changes.opened or changes.ended:
            _log.info("incidents_for_new_channels", opened=changes.opened, ended=changes.ended)
        for channel, incidents in changes.removed.items():
            # it receives their ends when it is configured again
            _log.warning("channel_removed", channel=channel, open_incidents=incidents)
        for channel, (waiting, _) in self._records.left_by_channel().items():
            if waiting and channel not in self._listeners:
                _log.warning("channel_not_configured", channel=channel, notices=waiting)

    def _completed(self, notice: Notice) -> Notice:
        """With the time zone, the address of the page, and what its policy says of it."""
        root, of_group = self._settings.alerts.page_url, notice.about is About.GROUP
        page = root.get_secret_value()
        url = page_link(page, notice.cluster, notice.group) if of_group else page
        notice = replace(notice, zone=self._settings.alerts.time_zone, url=url)
        policy = self._settings.alerts.policies.get(notice.policy) if of_group else None
        if policy is None:
            return notice
        return replace(notice, runbook=policy.runbook, team=policy.team)

    async def _look_after_itself(self) -> None:
        while True:
            try:
                self._check_itself()
            except sqlite3.Error as error:
                _log.error("alerts_not_kept", cluster="", reason=str(error))
            await self._clock.sleep(_LOOK_EVERY_S)

    def _not_well(self) -> str:
        """Why no heartbeat is sent: a cluster has no fresh data, or alerts or history fail; "".

        A receiver that refuses for a moment does not count: alerts go on.
        """
        unseen_clusters = [health.cluster for health in self._health() if not health.ready]
        if unseen_clusters:
            return f"no fresh data of {', '.join(unseen_clusters)}"
        return self._own_problem or self._undelivered_long or self._history_problem()

    def _check_itself(self) -> None:
        """Open and close the incidents of lagwatch itself."""
        now_ms = self._clock.now_ms()
        every = tuple(self._listeners.values())
        health = self._health()
        not_seen = [
            *unseen(
                health,
                self._settings.alerts.cluster_unseen_s,
                every,
                now_ms,
                # the age of data is by the machine's clock
                steady_s=self._steady.for_s(self._machine.now_ms(), self._machine.monotonic_s()),
                before_s=self._unreachable.before_s,
            )
        ]
        conditions = [
            *not_seen,
            *self._undelivered(now_ms),
            *self._not_recorded(now_ms, every),
        ]
        page = self._settings.alerts.page_url.get_secret_value()
        configured = {*self._outlets, *self._settings.clusters}
        changes = self._own.changes(conditions, every, now_ms, configured=configured)
        changes = at_zone(changes, self._settings.alerts.time_zone, page)
        if changes:
            self._store.record(changes, now_ms)
            self._own.apply(changes)
            self._dispatcher.wake()
            _log_changes("", changes)
        out_of_reach = {state.cluster for state in health if state.unreachable}
        self._unreachable.keep(
            {each.cluster: each.held_s for each in not_seen if each.cluster in out_of_reach},
            [state.cluster for state in health if state.ready],
            now_ms,
        )

    @property
    def _fallback(self) -> tuple[str, ...]:
        """Channels that are notified when another does not deliver."""
        return self._settings.alerts.fallback or tuple(self._listeners)

    def _undelivered(self, now_ms: int) -> Iterator[Condition]:
        """Channels that do not deliver, for the others."""
        found: list[tuple[str, int, str, bool]] = []
        slowed = []
        left = self._records.left_by_channel()
        for channel in sorted({**self._outlets, **left}):
            waiting, dead = left.get(channel, (0, 0))
            outlet = self._outlets.get(channel)
            if self._dispatcher.is_ending(channel):
                continue
            if outlet is None:
                since_ms, problem = now_ms, not_configured(channel, waiting + dead)
            else:
                counts = outlet.counts
                why = self._records.why_dead(channel) if dead else ""
                begun = (counts.failing_since_ms, counts.partly_since_ms)
                since_ms = min((at_ms for at_ms in begun if at_ms is not None), default=now_ms)
                problem = undelivered(channel, counts, waiting=waiting, dead=dead, why=why)
            if waiting and self._dispatcher.used_up(channel):
                slowed.append(f"channel {channel}: {used_up(waiting)}")
            if not problem:
                continue
            found.append((channel, since_ms, problem, dead > 0 or outlet is None))
        failing = {channel for channel, *_ in found}
        self._note_failing({channel: since_ms for channel, since_ms, *_ in found}, now_ms)
        # if no fallback delivers, either, the news goes to all channels
        chosen = [name for name in self._fallback if name not in failing] or list(self._listeners)
        problems = [f"channel {channel}: {problem}" for channel, _, problem, _ in found]
        long = []
        for said, (channel, since_ms, problem, at_once) in zip(problems, found, strict=True):
            held_s = self._failing_for_s(channel)
            open_for_s = 0.0 if at_once else self._settings.alerts.undelivered_after_s
            if held_s >= open_for_s:
                long.append(said)
            yield Condition(
                about=About.CHANNEL,
                cluster="",
                name=channel,
                since_ms=since_ms,
                held_s=held_s,
                open_for_s=open_for_s,
                problem=problem,
                listeners=tuple(self._listeners[name] for name in chosen if name != channel),
            )
        self._delivery_problem, self._slowed = "; ".join(problems), "; ".join(slowed)
        self._undelivered_long = "; ".join(long)
        self._unread = not_readable(self._records.unreadable(now_ms - _NAME_UNREAD_FOR_MS))

    def _note_failing(self, since_ms: Mapping[str, int], now_ms: int) -> None:
        """Which channels do not deliver now; the clock may be set while they do not."""
        self._failing = {name: at for name, at in self._failing.items() if name in since_ms}
        new = since_ms.keys() - self._failing.keys()
        tried_ms = self._records.tried_since() if new else {}
        for name in new:
            began_ms = min(since_ms[name], tried_ms.get(name, now_ms))
            before_s = max(0.0, (now_ms - began_ms) / 1000)
            self._failing[name] = self._clock.monotonic_s(), before_s

    def _failing_for_s(self, channel: str) -> float:
        first_s, before_s = self._failing[channel]
        return self._clock.monotonic_s() - first_s + before_s

    def _not_recorded(self, now_ms: int, every: tuple[Listener, ...]) -> Iterator[Condition]:
        problem = self._history_problem()
        if not problem:
            self._history_since_ms = None
            return
        if self._history_since_ms is None:
            self._history_since_ms = now_ms
        yield Condition(
            about=About.HISTORY,
            cluster="",
            name="",
            since_ms=self._history_since_ms,
            held_s=(now_ms - self._history_since_ms) / 1000,
            open_for_s=self._settings.alerts.undelivered_after_s,
            problem=problem,
            listeners=every,
        )

    def _with_next_attempt(self, record: NoticeRecord, now_ms: int) -> NoticeRecord:
        held_up = self._dispatcher.used_up(record.channel)
        if record.state is not MessageState.QUEUED and not (
            held_up and record.state is MessageState.WAITING
        ):
            return record
        left_s = self._dispatcher.next_attempt_s(record.channel)
        next_ms = None if left_s is None else now_ms + round(left_s * 1000)
        return replace(record, next_attempt_ms=next_ms)

    def _read_mutes(self) -> None:
        asked_for = self._records.mutes(self._clock.now_ms())
        self._mutes = (*self._configured_mutes, *map(from_record, asked_for))

    def _let_mutes_go_on(self) -> None:
        """Keep mutes in force that have begun by a clock that was set back since."""
        now_ms = self._clock.now_ms()
        if self._looked_ms - now_ms > STANDSTILL_S * 1000:
            self._records.set_mutes_back(self._looked_ms, now_ms)
            self._read_mutes()
        self._looked_ms = now_ms

    async def _return_to_disk(self) -> None:
        while True:
            await self._clock.sleep(_RETURN_EVERY_S)
            self._database.return_to_disk()
            self._database.tidy(self._clock.now_ms())

    async def _prune(self) -> None:
        while True:
            now_ms = self._clock.now_ms() if self._leaps is None else self._leaps.believed_ms()
            try:
                if now_ms is not None:
                    self._store.prune(now_ms - round(self._settings.alerts.keep_s * 1000))
            except sqlite3.Error as error:
                _log.warning("alerts_not_pruned", reason=str(error))
            await self._clock.sleep(_PRUNE_EVERY_S)


def is_followed(cluster: ClusterSettings, group: str) -> bool:
    """Do the filters of the cluster let a group in?"""
    allow, deny = cluster.group_allow, cluster.group_deny
    return bool(re.search(allow, group)) and not (deny and re.search(deny, group))


def _listeners(alerts: AlertsSettings) -> dict[str, Listener]:
    return {
        name: Listener(channel=name, threshold=THRESHOLDS[channel.threshold])
        for name, channel in alerts.channels()
    }


def _outlets(
    alerts: AlertsSettings, clock: Clock, before: Mapping[str, Outlet]
) -> dict[str, Outlet]:
    """An outlet for each channel; one whose options are as before stays the same object.

    Raises:
        ConfigError: with all faults of templates, or of a certificate.
    """
    if faults := list(template_faults(alerts)):
        raise ConfigError(faults)
    return {
        name: _outlet(name, settings, alerts, clock, before.get(name))
        for name, settings in alerts.channels()
    }


def _outlet(
    name: str,
    settings: ChannelSettings,
    alerts: AlertsSettings,
    clock: Clock,
    before: Outlet | None,
) -> Outlet:
    wait_s = alerts.group_wait_s if settings.batch else 0.0
    interval_s = alerts.group_interval_s if settings.batch else 0.0
    if before is not None and (before.settings, before.wait_s, before.interval_s) == (
        settings,
        wait_s,
        interval_s,
    ):
        return before
    channel = open_channel(name, settings, clock)
    return Outlet(
        name=name,
        channel=channel,
        settings=settings,
        wait_s=wait_s,
        interval_s=interval_s,
        limits=channel.limits if settings.batch else replace(channel.limits, most_notices=1),
        counts=before.counts if before is not None else DeliveryCounts(),
    )


def _other_file(path: Path) -> Fault:
    return Fault(
        key="alerts.file",
        value=f'"{path}"',
        problem="cannot change while lagwatch runs",
        remedy="Restart lagwatch to use another file.",
    )


def _ended_unread(incidents: Sequence[tuple[str, str]]) -> str:
    """Which open incidents could not be read at the start and were ended, in words; ""."""
    if not incidents:
        return ""
    names = [" on ".join(filter(None, (name, cluster))) for cluster, name in incidents]
    named = ", ".join(names[:_NAMED_UNREAD]) + (", …" if len(names) > _NAMED_UNREAD else "")
    return (
        f"{counted(len(names), 'open incident')} could not be read at the start, and ended: "
        f"{printable(named)}; the log event incident_not_readable says why"
    )


def _is_muted(rules: Iterable[MuteRule], cluster: str, group: str) -> bool:
    return any(rule.covers(cluster, group) for rule in rules)


def _with_mute(record: IncidentRecord, rules: Sequence[MuteRule]) -> IncidentRecord:
    """The record, which says so if one of the mutes in force covers its group."""
    if record.about != About.GROUP or record.closed_ms is not None:
        return record
    return replace(record, muted=_is_muted(rules, record.cluster, record.group))


def _starts_ms(rule: MuteRule) -> int | None:
    return getattr(rule.window, "starts_ms", None)


def _ends_ms(rule: MuteRule, now_ms: int) -> int | None:
    return getattr(rule.window, "until_ms", None) or rule.window.ends_ms(now_ms)


def _log_changes(cluster: str, changes: Sequence[Change]) -> None:
    """One line per incident; when there are many at once, one line for all and the rest quietly."""
    many = len(changes) > _LOGGED_INCIDENTS
    if many:
        reasons = Counter(change.decision.reason.value for change in changes)
        _log.info("incidents", cluster=cluster, incidents=len(changes), **reasons)
    write = _log.debug if many else _log.info
    for change in changes:
        incident = change.after.incident or change.before.incident
        write(
            "incident",
            cluster=cluster,
            group=change.group,
            incident=change.incident,
            act=change.decision.act.value,
            notice=change.decision.event.value,
            reason=change.decision.reason.value,
            policy=change.policy,
            severity=level(incident.severity) if incident is not None else "",
        )


__all__ = ["AlertCounts", "Alerts"]
