"""The serving process: builds everything from the configuration, starts in order, stops in reverse.

One event loop owns all state. Per cluster one task takes the collector's reports in and one judges
at least every `evaluator.interval_s`, or less often if that takes long; the HTTP server only ever
reads the snapshots. An unexpected error in one part, as the monitor of a cluster, ends no other:
see `lagwatch.parts`.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

import structlog
import uvloop

from lagwatch import __version__, log
from lagwatch.access import AccessControl
from lagwatch.clock import (
    Cadence,
    Clock,
    Leaps,
    Standstill,
    Standstills,
    SystemClock,
    Witness,
)
from lagwatch.collector.supervisor import CollectorSupervisor
from lagwatch.config.burrow import BurrowView
from lagwatch.config.settings import Settings
from lagwatch.core.model import EpochMs
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.stored_search import Enclosed
from lagwatch.core.trail import Trail
from lagwatch.core.words import duration
from lagwatch.errors import ConfigError, HistoryError, NotFoundError
from lagwatch.history.append_times import enclosed
from lagwatch.http_server import AddressError, ASGIApp, HttpServer
from lagwatch.memory import give_back, keep_little, keep_pandas_out
from lagwatch.metrics import ClusterMetrics, Exporter, NoticeState, ServiceState
from lagwatch.metrics.explained import explained, explained_in_turns
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.keeper import CheckpointKeeper
from lagwatch.monitor.progress import ReportedProgress
from lagwatch.monitor.scaling import FollowedGroups
from lagwatch.monitor.settings import monitor_settings
from lagwatch.monitor.skew import TOLERATED_MS
from lagwatch.monitor.story import Stories
from lagwatch.monitor.unseen import unseen
from lagwatch.notify.alerts import ALERTING, AlertCounts, Alerts
from lagwatch.notify.dispatch import DeliveryCounts
from lagwatch.notify.words import instant
from lagwatch.parts import Parts
from lagwatch.ports.access import Access
from lagwatch.ports.alerts import AlertsView
from lagwatch.ports.deployments import Deployments
from lagwatch.ports.history import HistoryQueries, HistoryStore
from lagwatch.ports.metrics import Metrics
from lagwatch.ports.progress import ProgressSink
from lagwatch.ports.queries import (
    AcknowledgedLoss,
    BurrowSettings,
    ClusterHealth,
    Commands,
    EventQueries,
    GroupEvent,
    Loss,
    Queries,
)
from lagwatch.ports.reports import Commits
from lagwatch.ports.scaling import Scaling
from lagwatch.query import SnapshotQueries

if TYPE_CHECKING:
    from lagwatch.history.build import History
    from lagwatch.history.deployments import RecordedDeployments


class MakeApp(Protocol):
    """Makes the HTTP application; the parts that are switched off are None."""

    def __call__(
        self,
        queries: Queries,
        commands: Commands,
        burrow: BurrowSettings,
        metrics: Metrics,
        *,
        alerts: AlertsView | None,
        history: HistoryQueries | None,
        deployments: Deployments | None,
        events: EventQueries,
        scaling: Scaling,
        trails: Mapping[str, Trail],
        progress: ProgressSink,
        access: Access,
        time_zone: Callable[[], str],
    ) -> ASGIApp: ...


# parts of the service, as `Parts` names them
_CHECKPOINTS = "writing of checkpoints"
_FIGURES = "figures"
_RECORDING = "recording"

_STOP_WITHIN_S = 2
_HISTORY_STOP_S = 1.5
_CHECKPOINT_STOP_S = 1.5
_SEED_LOOK_S = 0.1
_STANDSTILL_LOOK_S = 1.0
_TRIM_EVERY_S = 30.0
_STANDSTILL_SHOWN_MS = 3_600_000
"""For so long `/readyz` says that lagwatch did not run."""
_CHECKPOINT_TRIES = 2
"""A monitor that has failed so often in a row begins without its checkpoint: what is in it may be
the reason."""
_END_WITHIN_S = 8.0
"""From the signal to the end of the process, even if something hangs: less than the ten seconds
that Docker waits by default. The parts above, one after the other, take less."""
_THREADS_END_S = 1.0
"""For threads, once all is put away."""

_log = structlog.get_logger()


class Service:
    """All clusters of one process. Use `run` or `observe`.

    Alerts and history are parts that may be switched off, and are in a service that only looks.
    """

    def __init__(self, settings: Settings, clock: Clock, *, only_looks: bool = False) -> None:
        """Build all parts; nothing is started.

        Raises:
            ConfigError: a template, a certificate or a file of the alerts is broken.
            HistoryError: the history store cannot be understood.
        """
        self._settings = settings
        self._clock = clock
        self._parts = Parts(clock)
        self._unseen_since_ms: dict[str, int] = dict.fromkeys(settings.clusters, clock.now_ms())
        """Since when there are no data, of clusters that are not complete."""
        self.monitors = {name: self._new_monitor(name) for name in settings.clusters}
        self.supervisors = {name: self._new_supervisor(name) for name in settings.clusters}
        self.queries = SnapshotQueries(self.monitors, health=self.health)
        self.trails = {name: monitor.trail for name, monitor in self.monitors.items()}
        self.stories = Stories(self.monitors)
        self.scaling = FollowedGroups(self.queries, clock)
        self.checkpoints = (
            None
            if only_looks
            else CheckpointKeeper(settings, clock, self.monitors, scaling=self.scaling)
        )
        self._leaps = Leaps(clock, self._witness)
        self.alerts = (
            Alerts(settings, clock, parts=self._parts, leaps=self._leaps)
            if settings.alerts.active and not only_looks
            else None
        )
        self.history = (
            _history(settings, clock, self.queries, self._witness)
            if settings.history.store != "none" and not only_looks
            else None
        )
        if self.alerts is not None:
            self.alerts.look_after(self.health, self._history_problem)
        self.deployments = _deployments(self.queries, self.history, clock) if self.history else None
        self.progress = ReportedProgress(
            self.monitors,
            clock,
            read={name: cluster.progress for name, cluster in settings.clusters.items()},
        )
        self._judging = {name: self._cadence(name) for name in settings.clusters}
        self._trimmed_s = 0.0
        self._reload_problem = ""
        self.server_problem: Callable[[], str] = lambda: ""
        """What is wrong with the server's files; ""."""
        self._standstills = Standstills(clock)
        self._stood_still: Standstill | None = None
        """The last time in which this process did not run."""
        self._stood_still_s = 0.0
        self.metrics = Exporter(settings.metrics, collect=self.state, clock=clock)

    def _new_monitor(self, name: str) -> ClusterMonitor:
        settings = self._settings
        return ClusterMonitor(
            name,
            monitor_settings(settings.windows, settings.evaluator, settings.clusters[name]),
        )

    def _new_supervisor(self, name: str) -> CollectorSupervisor:
        return CollectorSupervisor(
            cluster=name,
            settings=self._settings.clusters[name],
            clock=self._clock,
            watched=partial(self._watched_groups, name),
        )

    def _watched_groups(self, cluster: str) -> frozenset[str]:
        """Groups that a list of Kafka may lack although they are not gone."""
        in_trouble = frozenset() if self.alerts is None else self.alerts.groups_in_trouble(cluster)
        return in_trouble | self.monitors[cluster].hidden

    def health(self) -> tuple[ClusterHealth, ...]:
        """How every cluster fares, by name."""
        now_ms = self._clock.now_ms()
        own = self._own_problems()
        return tuple(
            self._cluster_health(self.monitors[name], now_ms, own) for name in sorted(self.monitors)
        )

    def _cluster_health(
        self, monitor: ClusterMonitor, now_ms: EpochMs, own_problems: tuple[str, ...]
    ) -> ClusterHealth:
        known, skew_ms = monitor.known, monitor.skew.known_ms
        name = monitor.cluster
        last_ms, begun_ms = monitor.last_data_ms, self._unseen_since_ms[name]
        # alerts count from the start: while lagwatch did not run, nothing was seen to be missing
        looked_ms = last_ms if monitor.complete else begun_ms
        failed = self._parts.problem(_monitor_of(name))
        stale = monitor.is_stale(now_ms)
        ready = monitor.complete and not stale
        data_ms = known.log_ends_ms
        return ClusterHealth(
            cluster=name,
            ready=ready,
            age_s=None if data_ms < 0 else max(0, now_ms - data_ms) / 1000,
            backlog_read=monitor.backlog.read,
            backlog_total=monitor.backlog.total,
            commits_mode=monitor.facts.commits_mode if monitor.facts else "",
            offsets_retention_ms=monitor.offsets_retention_ms,
            offsets_retention_refused=(
                monitor.facts is not None and monitor.facts.offsets_retention_refused
            ),
            collector_restarts=self.supervisors[name].restarts,
            problems=(
                *((f"monitor: {failed}",) if failed else ()),
                *(
                    f"{source}: {health.message}"
                    for source, health in sorted(monitor.sources.items())
                    if not health.ok
                ),
                *_skew_problem(skew_ms),
                *self._odd_checkpoint(name),
                *own_problems,
            ),
            unseen=_unseen(monitor),
            stale=stale,
            data_age_s=max(0, now_ms - looked_ms) / 1000,
            reason=monitor.not_ready_because(now_ms),
            unreachable=monitor.is_unreachable(now_ms),
            since_ms=None if ready else last_ms if last_ms >= 0 else begun_ms,
            began_ms=None if monitor.complete else begun_ms,
            clock_skew_s=None if skew_ms is None else skew_ms / 1000,
        )

    def _odd_checkpoint(self, name: str) -> tuple[str, ...]:
        odd = "" if self.checkpoints is None else self.checkpoints.found_odd(name)
        return (f"checkpoints: {odd}",) if odd else ()

    def _checkpoint_problem(self) -> str:
        kept = "" if self.checkpoints is None else self.checkpoints.problem
        return self._parts.problem(_CHECKPOINTS) or kept

    def _own_problems(self) -> tuple[str, ...]:
        """What is wrong with the parts that all clusters share."""
        named = (
            ("history", self._history_problem() or (self.history.remark if self.history else "")),
            ("alerts", (self.alerts.problem or self.alerts.remark) if self.alerts else ""),
            ("configuration", self._reload_problem),
            ("checkpoints", self._checkpoint_problem()),
            ("figures", "; ".join(self._parts.problems(of=_FIGURES))),
            ("service", self._standstill_problem()),
            ("server", self.server_problem()),
        )
        return tuple(f"{part}: {problem}" for part, problem in named if problem)

    @property
    def time_zone(self) -> str:
        """In which instants are shown; a reload may change it."""
        return self._settings.alerts.time_zone

    def _standstill_problem(self) -> str:
        """That lagwatch did not run within the last hour, and from when to when; ""."""
        last = self._stood_still
        if last is None or self._clock.now_ms() - last.until_ms > _STANDSTILL_SHOWN_MS:
            return ""
        zone = self.time_zone
        began, ended = (instant(at_ms, zone) for at_ms in (last.from_ms, last.until_ms))
        return f"{last.reason}, from {began} to {ended}"

    def _witness(self) -> int | None:
        """By how much the clock is ahead of Kafka's now; of several clusters the least."""
        if self._standstills.unnoticed:  # what was known is of the clock that was
            return None
        seen = (monitor.skew.witnessed_ms for monitor in self.monitors.values())
        return min((ahead_ms for ahead_ms in seen if ahead_ms is not None), default=None)

    def _notice_standstill(self) -> None:
        """Say that this process did not run: what happened meanwhile was not judged."""
        found = self._standstills.look()
        if back_ms := self._standstills.set_back_ms:
            for monitor in self.monitors.values():
                monitor.skew.doubt(self._clock.now_ms() + back_ms // 2)
        if found is None:
            return
        self._stood_still, self._stood_still_s = found, self._stood_still_s + found.length_s
        _log.warning(
            "did_not_run",
            from_ms=found.from_ms,
            until_ms=found.until_ms,
            for_s=round(found.length_s),
            reason=found.reason,
        )
        for monitor in self.monitors.values():
            monitor.skew.forget(found.from_ms, found.until_ms)
        if self.history is None:
            return
        for name, monitor in self.monitors.items():
            if monitor.complete:
                pause = partial(self.history.pause, name, found.from_ms, found.reason)
                self._parts.attempt(_RECORDING, pause)

    async def _look_for_standstills(self) -> None:
        while True:
            await self._clock.sleep(_STANDSTILL_LOOK_S)
            self._notice_standstill()

    def _history_problem(self) -> str:
        if self.history is None:
            return ""
        return self.history.health().problem or "; ".join(self._parts.problems(of=_RECORDING))

    async def state(self) -> ServiceState:
        """One moment of everything, for the metrics; it does not change any more.

        Causes and forecasts are those of the moments that follow it: others may work in between.
        """
        state = self._moment()
        clusters = [
            replace(cluster, explained=await explained_in_turns(self.queries, cluster.snapshot))
            for cluster in state.clusters
        ]
        return replace(state, clusters=tuple(clusters))

    def _moment(self) -> ServiceState:
        return ServiceState(
            version=__version__,
            clusters=tuple(
                _cluster_state(
                    self.monitors[health.cluster], health, self.supervisors[health.cluster].pid
                )
                for health in self.health()
            ),
            recorder=self.history.health() if self.history is not None else None,
            open_incidents=self.alerts.counts().open_incidents if self.alerts is not None else {},
            notices=_notices(self.alerts.counts()) if self.alerts is not None else {},
            deployments=tuple(self.deployments.latest.values()) if self.deployments else (),
            stood_still_s=self._stood_still_s,
        )

    def reload(self, load: Callable[[], Settings]) -> None:
        """Take policies, mutes and channels of alerts from the configuration as it is now.

        A broken configuration changes nothing: the log and `/readyz` say what is wrong with it.
        """
        try:
            settings = load()
            kept = self._settings.model_copy(update={"alerts": settings.alerts})
            if self.alerts is not None:
                self.alerts.reload(kept)
        except ConfigError as error:
            self._reload_problem = f"not reloaded, the one before is in force: {error}"
            _log.error("configuration_not_reloaded", reason=str(error))
            return
        if self.alerts is not None:
            self._settings = kept
        self._reload_problem = ""
        waiting = [
            name
            for name in Settings.model_fields
            if getattr(settings, name) != getattr(self._settings, name)
        ]
        _log.info("configuration_reloaded", restart_needed_for=waiting)

    async def forget(self, cluster: str, group: str, topic: str | None) -> None:
        """Forget a group (`ports.Commands`); unknown names are ignored."""
        monitor = self.monitors.get(cluster)
        if monitor is not None:
            if self.alerts is not None and topic is None:
                self.alerts.removed(cluster, group)
            monitor.forget(group, topic)
            self._judged(monitor)

    async def acknowledge_losses(
        self, cluster: str, groups: Sequence[str]
    ) -> Mapping[str, AcknowledgedLoss]:
        """Stop showing the lost messages of groups (`ports.Commands`)."""
        known = set(self.queries.groups(cluster))
        for group in groups:
            if group not in known:
                raise NotFoundError(kind="group", name=group)
        snapshot, monitor = self.queries.snapshot(cluster), self.monitors[cluster]
        found = {}
        for group in groups:
            # first: the snapshot sees what the monitor acknowledges
            lost, at_most = snapshot.lost_messages(snapshot.group_index[group])
            partitions = monitor.acknowledge_losses(group)
            if partitions:
                found[group] = AcknowledgedLoss(
                    partitions=partitions, messages=lost, at_most=at_most
                )
        self._judged(monitor)
        if found and self.checkpoints is not None:
            # written before the answer, so that it holds even if this process is killed next
            await self.checkpoints.write_of(cluster)
        return found

    def log_level(self) -> str:
        return log.get_level()

    def set_log_level(self, level: str) -> None:
        log.set_level(level)

    async def watch(self) -> None:
        """Follow and judge all clusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_for_standstills(), name="look for standstills")
            for name in self.monitors:
                part, run = _monitor_of(name), partial(self._watch, name)
                tasks.create_task(self._parts.keep(part, run), name=part)
            if self.checkpoints is not None:
                tasks.create_task(
                    self._parts.keep(_CHECKPOINTS, self.checkpoints.run), name=_CHECKPOINTS
                )
            if self.alerts is not None:
                tasks.create_task(self.alerts.run(), name="deliver alerts")

    async def _watch(self, name: str) -> None:
        """Go on from the checkpoint of a cluster; follow and judge it until cancelled."""
        monitor, supervisor = self.monitors[name], self.supervisors[name]
        try:
            if (
                self.checkpoints is not None
                and self._parts.failures(_monitor_of(name)) <= _CHECKPOINT_TRIES
            ):
                await self.checkpoints.restore(name)
                supervisor.resume(monitor.positions, monitor.offsets_topic_id)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(supervisor.run(), name=f"collect {name}")
                tasks.create_task(self._follow(name), name=f"follow {name}")
                tasks.create_task(self._judge(name), name=f"judge {name}")
                if self.history is not None:
                    tasks.create_task(self._seed(name, self.history), name=f"seed {name}")
        except Exception:
            # at once: what this monitor holds may be half of a change, and must not be kept
            self._begin_anew(name)
            raise

    def _begin_anew(self, name: str) -> None:
        """Replace the monitor and the collector of a cluster that failed."""
        monitor = self.monitors[name]
        if monitor.complete:
            self._unseen_since_ms[name] = monitor.known.until_ms
        self.monitors[name] = self._new_monitor(name)
        self.trails[name] = self.monitors[name].trail
        self.supervisors[name] = self._new_supervisor(name)
        if self.history is not None:
            now_ms = self._clock.now_ms()
            pause = partial(self.history.pause, name, now_ms, "the monitor of the cluster failed")
            self._parts.attempt(_RECORDING, pause)

    async def keep(self) -> None:
        """Write the last checkpoints; call after `watch` was cancelled."""
        if self.checkpoints is not None:
            await self.checkpoints.stop(_CHECKPOINT_STOP_S)

    def close(self) -> None:
        """Put away what is kept on disk; call after `watch` has ended."""
        if self.alerts is not None:
            self.alerts.close()
        if self.history is not None:
            self.history.stop(_HISTORY_STOP_S)
        if self.checkpoints is not None:
            self.checkpoints.release()

    async def _follow(self, cluster: str) -> None:
        """Take in what the collector reports."""
        monitor = self.monitors[cluster]
        async for report in self.supervisors[cluster].reports():
            self._notice_standstill()  # what was known of Kafka's clock may not be true any more
            monitor.doubt_clock(self._leaps.ahead_ms())
            if monitor.apply(report, self._clock.now_ms()):
                self._round(monitor)
                self._trim()
            if isinstance(report, Commits):
                # a backlog is one report after another: let requests in between
                await asyncio.sleep(0)

    async def _judge(self, cluster: str) -> None:
        """Judge as time passes: silence is news, too."""
        monitor = self.monitors[cluster]
        while True:
            self._round(monitor)
            while self.alerts is not None and cluster in self.alerts.unfinished:
                await asyncio.sleep(0)  # others run between the parts of a storm
                self._decide(monitor.snapshot)
            # a report may make a round meanwhile
            while (pause_s := self._judging[cluster].due_in_s()) > 0:
                await self._clock.sleep(pause_s)

    def _cadence(self, cluster: str) -> Cadence:
        """At least as often as log ends come, and twice in an interval of the history."""
        most_s = self._settings.clusters[cluster].log_end_interval_s
        if self._settings.history.store != "none":
            most_s = min(most_s, self._settings.history.interval_s / 2)
        return Cadence(self._clock, least_s=self._settings.evaluator.interval_s, most_s=most_s)

    def _trim(self) -> None:
        """Give free memory back now and then: looking for it takes as long as a round."""
        now_s = self._clock.monotonic_s()
        if now_s - self._trimmed_s >= _TRIM_EVERY_S:
            self._trimmed_s = now_s
            give_back()

    async def _seed(self, cluster: str, history: "History") -> None:
        """Once: tell from the stored history since when those wait that were behind at the start.

        Until brokers have answered, and where they cannot.
        """
        monitor = self.monitors[cluster]
        while monitor.snapshot is None:
            await self._clock.sleep(_SEED_LOOK_S)
        began_s = self._clock.monotonic_s()
        behind = unseen(monitor.snapshot)

        def ask(store: HistoryStore) -> Enclosed:
            now_ms, monotonic_s = self._clock.now_ms(), self._clock.monotonic_s
            return enclosed(store, behind.question, now_ms=now_ms, monotonic_s=monotonic_s)

        try:
            found = await history.queries.using(ask)
        except HistoryError as error:
            _log.warning("time_lags_not_seeded", cluster=cluster, reason=str(error))
            return
        monitor.append_times.seed(behind.answer(found, monitor.table))
        self._judged(monitor)
        _log.info(
            "time_lags_seeded",
            cluster=cluster,
            rows=int(behind.row.size),
            unknown=int(((found.low_ms < 0) & (found.high_ms < 0)).sum()),
            took_s=round(self._clock.monotonic_s() - began_s, 3),
        )

    def _round(self, monitor: ClusterMonitor) -> None:
        """Judge, then notify the parts that act on verdicts; none of these calls waits."""
        self._notice_standstill()  # before the gap gets another reason
        snapshot = self._judged(monitor)
        if snapshot is None:
            return
        losses, events = monitor.take_losses(), monitor.story.take()
        self._parts.attempt(f"{_FIGURES} of scaling", partial(self.scaling.observe, snapshot))
        if self.history is not None:
            self._parts.attempt(
                f"{_RECORDING} of events",
                partial(_record_news, self.history, snapshot.cluster, losses, events),
            )
            self._parts.attempt(_RECORDING, partial(_record, self.history, monitor, snapshot))
        if snapshot.stale:
            return
        self._parts.attempt(f"{_FIGURES} of trends", partial(monitor.trail.take, snapshot))
        self._decide(snapshot)

    def _decide(self, snapshot: ClusterSnapshot | None) -> None:
        """Let the alerts decide about the newest snapshot."""
        if self.alerts is not None and snapshot is not None:
            now_ms = EpochMs(snapshot.at_ms - self._leaps.ahead_ms())
            decide = partial(self.alerts.observe, snapshot, self.queries, now_ms)
            self._parts.attempt(ALERTING, decide)

    def judge_all(self) -> None:
        """Judge every cluster that is complete as of now."""
        for monitor in self.monitors.values():
            self._judged(monitor)

    def _judged(self, monitor: ClusterMonitor) -> ClusterSnapshot | None:
        """Judge; None before the first complete round: verdicts on half the commits are wrong."""
        began_s = self._clock.monotonic_s()
        monitor.doubt_clock(self._leaps.ahead_ms())
        snapshot = monitor.judge(self._clock.now_ms()) if monitor.complete else None
        took_s = self._judging[monitor.cluster].ended(began_s)
        if snapshot is not None:
            self.metrics.judged(monitor.cluster, took_s)
        return snapshot


def _monitor_of(cluster: str) -> str:
    """What `Parts` calls it."""
    return f"the monitor of {cluster}"


def _history(
    settings: Settings, clock: Clock, queries: SnapshotQueries, witness: Witness
) -> "History":
    # pyarrow takes 40 MB: only where a history is kept
    from lagwatch.history.build import History

    return History(settings.history, clock, partial(explained, queries), witness=witness)


def _deployments(
    queries: SnapshotQueries, history: "History", clock: Clock
) -> "RecordedDeployments":
    from lagwatch.history.deployments import RecordedDeployments

    return RecordedDeployments(queries, history, clock)


def _record_news(
    history: "History", cluster: str, losses: Sequence[Loss], events: Sequence[GroupEvent]
) -> None:
    history.lost(cluster, losses)
    history.happened(cluster, events)


def _record(history: "History", monitor: ClusterMonitor, snapshot: ClusterSnapshot) -> None:
    if snapshot.stale:
        reason = monitor.not_ready_because(snapshot.at_ms)
        history.pause(snapshot.cluster, snapshot.at_ms, reason)
    else:
        history.offer(snapshot, monitor.rebalances)


def _skew_problem(skew_ms: int | None) -> tuple[str, ...]:
    if skew_ms is None or abs(skew_ms) <= TOLERATED_MS:
        return ()
    where = "ahead of" if skew_ms > 0 else "behind"
    apart = f"lagwatch's clock is {duration(abs(skew_ms) / 1000)} {where} Kafka's"
    return (f"{apart}; verdicts are corrected by that; set the clocks by NTP",)


def _unseen(monitor: ClusterMonitor) -> tuple[str, ...]:
    """What the collector may not see; first of all why it does not read the offsets topic."""
    facts = monitor.facts
    if facts is None:
        return ()
    return (facts.reason, *facts.unseen) if facts.reason else facts.unseen


def _notices(counts: AlertCounts) -> Mapping[str, NoticeState]:
    nothing = DeliveryCounts(failing_since_ms=0)  # of a channel that is not configured
    return {
        channel: NoticeState(
            delivered=made.notices,
            dead=made.dead,
            failed_attempts=made.failed,
            queued=queued,
            undelivered=counts.dead[channel]
            + made.partly
            + (queued if made.failing_since_ms is not None else 0),
        )
        for channel, queued in counts.undelivered.items()
        for made in (counts.deliveries.get(channel, nothing),)
    }


def _cluster_state(
    monitor: ClusterMonitor,
    health: ClusterHealth,
    collector_pid: int | None,
) -> ClusterMetrics:
    return ClusterMetrics(
        health=health,
        snapshot=monitor.snapshot,
        rebalances=None if monitor.rebalances is None else dict(monitor.rebalances),
        commits=monitor.admitted,
        waiting_commits=monitor.waiting,
        errors=dict(monitor.errors),
        malformed=dict(monitor.facts.malformed) if monitor.facts else {},
        collector_pid=collector_pid,
    )


def run(settings: Settings, make_app: MakeApp, load: Callable[[], Settings]) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code. SIGHUP reloads the alerts by `load`.

    Raises:
        AddressError: the HTTP address is taken or not of this machine.
        ConfigError: as by `Service`, or another lagwatch uses the checkpoints.
    """
    keep_little()
    keep_pandas_out()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, make_app, load))


async def _serve(settings: Settings, make_app: MakeApp, load: Callable[[], Settings]) -> int:
    clock = SystemClock()
    service = Service(settings, clock)
    access = AccessControl(settings.server, clock)
    app = make_app(
        service.queries,
        service,
        BurrowView(settings),
        service.metrics,
        alerts=service.alerts,
        history=service.history.queries if service.history else None,
        deployments=service.deployments,
        events=service.stories,
        scaling=service.scaling,
        trails=service.trails,
        progress=service.progress,
        access=access,
        time_zone=lambda: service.time_zone,
    )
    server = HttpServer(app, settings.server, clock)
    service.server_problem = lambda: "; ".join(filter(None, (access.problem, server.problem)))
    if service.checkpoints is not None:
        service.checkpoints.hold()
    _log.info("serving", url=server.url, clusters=sorted(settings.clusters))
    if settings.server.open and not settings.server.on_loopback:
        _log.warning("open_to_all", url=server.url, reason="server.open = true: no caller is asked")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, service.reload, load)
    # senders start last and stop first: the windows are there before anyone asks
    watching = asyncio.create_task(service.watch())
    answering = asyncio.create_task(server.run())
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({watching, answering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    code = 0 if stop.is_set() else 1
    _end_within(_END_WITHIN_S, code)
    server.stop()
    stopping.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_WITHIN_S):
            await asyncio.wait({answering})
    watching.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await service.keep()
    finally:
        service.close()
    _log.info("stopped")
    _end_within(_THREADS_END_S, code)
    return 0


def _end_within(within_s: float, code: int) -> None:
    """End this process with this exit code then, if it has not ended by itself.

    A thread that waits for a store, a disk or a name server cannot be cancelled, and Python waits
    for it at its exit. What must not be lost is on disk: alerts, the spool, the checkpoint.
    """

    def end() -> None:
        _log.warning("stop_did_not_wait", within_s=within_s, threads=_waiting_threads())
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(within_s, end)
    timer.daemon = True
    timer.start()


def _waiting_threads() -> list[str]:
    own = {threading.main_thread(), threading.current_thread()}
    return sorted(each.name for each in threading.enumerate() if each not in own)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortLook:
    """What was seen while the clusters were watched for a short time."""

    queries: Queries
    first: Mapping[str, ClusterSnapshot]
    """The first complete round by cluster; without those that were not complete in time."""


def observe(settings: Settings, *, wait_s: float, for_s: float = 0.0) -> ShortLook:
    """Wait until every cluster is complete, at most `wait_s`, then watch for `for_s` more."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_observe(_looking_often(settings, for_s), wait_s, for_s))


def _looking_often(settings: Settings, for_s: float) -> Settings:
    """Settings with which offsets are polled several times within `for_s`."""
    if not for_s:
        return settings
    often_s = max(1.0, for_s / 4)
    clusters = {
        name: cluster.model_copy(
            update={
                "log_end_interval_s": min(cluster.log_end_interval_s, often_s),
                "committed_interval_s": min(cluster.committed_interval_s, often_s),
            }
        )
        for name, cluster in settings.clusters.items()
    }
    return settings.model_copy(update={"clusters": clusters})


async def _observe(settings: Settings, wait_s: float, for_s: float) -> ShortLook:
    clock = SystemClock()
    service = Service(settings, clock, only_looks=True)
    watching = asyncio.create_task(service.watch())
    until_s = clock.monotonic_s() + wait_s
    first: dict[str, ClusterSnapshot] = {}
    known: set[str] = set()
    while clock.monotonic_s() < until_s and not watching.done():
        await clock.sleep(0.1)
        for name, monitor in service.monitors.items():
            if name not in known and (snapshot := monitor.complete_snapshot) is not None:
                # a commit that is seen late was not made during the look
                first[name] = snapshot
                if monitor.sees_all_commits:
                    known.add(name)
        if len(known) == len(service.monitors):
            break
    if first and not watching.done():
        await clock.sleep(for_s)
    service.judge_all()
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    return ShortLook(queries=service.queries, first=first)


__all__ = ["AddressError", "Service", "ShortLook", "observe", "run"]
