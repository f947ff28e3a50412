"""The serving process: builds everything from the configuration, starts in order, stops in reverse.

One event loop owns all state. Per cluster one task takes the collector's reports in and one judges
at least every `evaluator.interval_s`; the HTTP server only ever reads the snapshots.
"""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

import structlog
import uvicorn
import uvloop

from lagwatch import __version__, log
from lagwatch.clock import Clock, SystemClock
from lagwatch.collector.supervisor import CollectorSupervisor
from lagwatch.config.burrow import BurrowView
from lagwatch.config.settings import Settings
from lagwatch.core.model import EpochMs
from lagwatch.errors import LagwatchError
from lagwatch.history.build import History
from lagwatch.history.deployments import RecordedDeployments
from lagwatch.memory import give_back
from lagwatch.metrics import ClusterState, Exporter, NoticeState, ServiceState
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import monitor_settings
from lagwatch.notify import Alerts
from lagwatch.notify.alerts import AlertCounts
from lagwatch.ports import (
    AlertsView,
    BurrowSettings,
    ClusterHealth,
    Commands,
    Commits,
    Deployments,
    HistoryQueries,
    Metrics,
    Queries,
)
from lagwatch.query import SnapshotQueries

ASGIApp = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]


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
    ) -> ASGIApp: ...


_STOP_WITHIN_S = 2
_HISTORY_STOP_S = 1.5

_log = structlog.get_logger()


class AddressError(LagwatchError):
    """The HTTP address cannot be listened on."""


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
        self.monitors: Mapping[str, ClusterMonitor] = {
            name: ClusterMonitor(name, monitor_settings(settings.windows, settings.evaluator))
            for name in settings.clusters
        }
        self.supervisors: Mapping[str, CollectorSupervisor] = {
            name: CollectorSupervisor(cluster=name, settings=cluster, clock=clock)
            for name, cluster in settings.clusters.items()
        }
        self.queries = SnapshotQueries(self.monitors, health=self.health)
        self.alerts = Alerts(settings, clock) if settings.alerts.active and not only_looks else None
        self.history = (
            History(settings.history, clock)
            if settings.history.store != "none" and not only_looks
            else None
        )
        self.deployments = (
            RecordedDeployments(self.queries, self.history, clock) if self.history else None
        )
        self.metrics = Exporter(settings.metrics, collect=self.state, clock=clock)

    def health(self) -> tuple[ClusterHealth, ...]:
        """How every cluster fares, by name."""
        now_ms = self._clock.now_ms()
        own = self._own_problems()
        return tuple(
            _cluster_health(self.monitors[name], self.supervisors[name], now_ms, own)
            for name in sorted(self.monitors)
        )

    def _own_problems(self) -> tuple[str, ...]:
        """What is wrong with the parts that all clusters share."""
        history = self.history.health().problem if self.history is not None else ""
        alerts = self.alerts.problem if self.alerts is not None else ""
        named = (("history", history), ("alerts", alerts))
        return tuple(f"{part}: {problem}" for part, problem in named if problem)

    def state(self) -> ServiceState:
        """One moment of everything, for the metrics; it does not change any more."""
        return ServiceState(
            version=__version__,
            clusters=tuple(
                _cluster_state(self.monitors[health.cluster], health) for health in self.health()
            ),
            recorder=self.history.health() if self.history is not None else None,
            open_incidents=self.alerts.counts().open_incidents if self.alerts is not None else {},
            notices=_notices(self.alerts.counts()) if self.alerts is not None else {},
        )

    async def forget(self, cluster: str, group: str, topic: str | None) -> None:
        """Forget a group (`ports.Commands`); unknown names are ignored."""
        monitor = self.monitors.get(cluster)
        if monitor is not None:
            monitor.forget(group, topic)
            monitor.judge(self._clock.now_ms())

    def log_level(self) -> str:
        return log.get_level()

    def set_log_level(self, level: str) -> None:
        log.set_level(level)

    async def watch(self) -> None:
        """Follow and judge all clusters until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, supervisor in self.supervisors.items():
                tasks.create_task(supervisor.run(), name=f"collect {name}")
                tasks.create_task(self._follow(name), name=f"follow {name}")
                tasks.create_task(self._judge(name), name=f"judge {name}")
            if self.alerts is not None:
                tasks.create_task(self.alerts.run(), name="deliver alerts")

    def close(self) -> None:
        """Put away what is kept on disk; call after `watch` has ended."""
        if self.alerts is not None:
            self.alerts.close()
        if self.history is not None:
            self.history.stop(_HISTORY_STOP_S)

    async def _follow(self, cluster: str) -> None:
        """Take in what the collector reports."""
        monitor = self.monitors[cluster]
        async for report in self.supervisors[cluster].reports():
            if monitor.apply(report, self._clock.now_ms()):
                self._round(monitor)
                give_back()
            if isinstance(report, Commits):
                # a backlog is one report after another: let requests in between
                await asyncio.sleep(0)

    async def _judge(self, cluster: str) -> None:
        """Judge as time passes: silence is news, too."""
        monitor = self.monitors[cluster]
        while True:
            self._round(monitor)
            await self._clock.sleep(self._settings.evaluator.interval_s)

    def _round(self, monitor: ClusterMonitor) -> None:
        """Judge, then let those know who act on verdicts; none of them waits for anything."""
        now_ms = self._clock.now_ms()
        snapshot = monitor.judge(now_ms)
        if self.alerts is not None:
            self.alerts.observe(snapshot, self.queries, now_ms)
        if self.history is not None and monitor.backlog.ready:
            self.history.offer(snapshot, monitor.windows, monitor.rebalances)


def _cluster_health(
    monitor: ClusterMonitor,
    supervisor: CollectorSupervisor,
    now_ms: EpochMs,
    own_problems: tuple[str, ...],
) -> ClusterHealth:
    data_ms = monitor.snapshot.data_ms if monitor.snapshot else -1
    return ClusterHealth(
        cluster=monitor.cluster,
        ready=monitor.backlog.ready and data_ms >= 0,
        age_s=None if data_ms < 0 else max(0, now_ms - data_ms) / 1000,
        backlog_read=monitor.backlog.read,
        backlog_total=monitor.backlog.total,
        commits_mode=monitor.facts.commits_mode if monitor.facts else "",
        collector_restarts=supervisor.restarts,
        problems=(
            *(
                f"{source}: {health.message}"
                for source, health in sorted(monitor.sources.items())
                if not health.ok
            ),
            *own_problems,
        ),
        unseen=_unseen(monitor),
    )


def _unseen(monitor: ClusterMonitor) -> tuple[str, ...]:
    """What the collector may not see; first of all why it does not read the offsets topic."""
    facts = monitor.facts
    if facts is None:
        return ()
    return (facts.reason, *facts.unseen) if facts.reason else facts.unseen


def _notices(counts: AlertCounts) -> Mapping[str, NoticeState]:
    return {
        channel: NoticeState(
            delivered=made.notices,
            dead=made.dead,
            failed_attempts=made.failed,
            queued=counts.undelivered[channel],
        )
        for channel, made in counts.deliveries.items()
    }


def _cluster_state(monitor: ClusterMonitor, health: ClusterHealth) -> ClusterState:
    return ClusterState(
        health=health,
        snapshot=monitor.snapshot,
        rebalances=dict(monitor.rebalances),
        commits=monitor.admitted,
        waiting_commits=monitor.waiting,
        errors=dict(monitor.errors),
        malformed=dict(monitor.facts.malformed) if monitor.facts else {},
    )


def run(settings: Settings, make_app: MakeApp) -> int:
    """Serve until SIGTERM or Ctrl-C; returns the exit code.

    Raises:
        AddressError: the HTTP address is taken or not ours.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, make_app))


async def _serve(settings: Settings, make_app: MakeApp) -> int:
    service = Service(settings, SystemClock())
    app = make_app(
        service.queries,
        service,
        BurrowView(settings),
        service.metrics,
        alerts=service.alerts,
        history=service.history.queries if service.history else None,
        deployments=service.deployments,
    )
    listener = _listen(settings.server.host, settings.server.port)
    server = _Server(
        uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    host, port = listener.getsockname()[:2]
    _log.info("serving", url=f"http://{host}:{port}", clusters=sorted(settings.clusters))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    # senders start last and stop first: the windows stand before anybody asks
    watching = asyncio.create_task(service.watch())
    answering = asyncio.create_task(server.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({watching, answering, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    stopping.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_WITHIN_S):
            await asyncio.wait({answering})
    watching.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    finally:
        service.close()
    _log.info("stopped")
    return 0


class _Server(uvicorn.Server):
    """Leaves the signals to the service."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise AddressError(
            f"server.address = {host}:{port}: {error.strerror or error}. "
            "Choose another port or stop what listens there."
        ) from error
    return listener


def observe(settings: Settings, *, wait_s: float) -> Queries:
    """Watch until every cluster is ready, or for `wait_s`, and return what was seen then."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_observe(settings, wait_s))


async def _observe(settings: Settings, wait_s: float) -> Queries:
    clock = SystemClock()
    service = Service(settings, clock, only_looks=True)
    watching = asyncio.create_task(service.watch())
    until_s = clock.monotonic_s() + wait_s
    while clock.monotonic_s() < until_s and not watching.done():
        await clock.sleep(0.1)
        if all(health.ready for health in service.health()):
            break
    for monitor in service.monitors.values():
        monitor.judge(clock.now_ms())
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching
    return service.queries


__all__ = ["AddressError", "Service", "observe", "run"]
