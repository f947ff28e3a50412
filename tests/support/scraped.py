"""A cluster described in a few words, and its metrics."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from lagwatch.clock import SystemClock
from lagwatch.config.settings import MetricsSettings
from lagwatch.core.model import EpochMs, GroupInfo, Member, RuleSet
from lagwatch.kafka.embedded.ports import LOOPBACK
from lagwatch.metrics import ClusterMetrics, Exporter, ServiceState
from lagwatch.metrics.explained import GroupExplanation, explained
from lagwatch.metrics.metric import Format
from lagwatch.monitor import ClusterMonitor
from lagwatch.monitor.settings import MonitorSettings
from lagwatch.ports.queries import ClusterHealth
from lagwatch.ports.reports import Commits, GroupsSeen, LogEnds, Topics
from lagwatch.query import SnapshotQueries

START_MS = 1_800_000_000_000
_ROUND_S = 10
"""Log ends are read so often."""

Labels = Mapping[str, str]


@dataclass(kw_only=True)
class Cluster:
    """One cluster: topics with log start and end by partition, and the commits of groups.

    A second passes between the log ends at zero, the commits, and the log ends given; then
    `silent_s` seconds more, in which nothing happens but that log ends are read.
    """

    name: str = "here"
    topics: dict[str, list[tuple[int, int]]]
    """Topic → (log start, log end) by partition; -1 unknown."""
    commits: dict[tuple[str, str, int], int]
    """(group, topic, partition) → committed offset."""
    infos: Sequence[GroupInfo] = ()
    rebalances: Mapping[str, int] | None = field(default_factory=dict)
    silent_s: int = 0
    rules: RuleSet = RuleSet.LAGWATCH
    monitor: ClusterMonitor = field(init=False)
    now_ms: int = START_MS

    def __post_init__(self) -> None:
        settings = MonitorSettings(
            intervals=3,
            min_distance_ms=0,
            expire_ms=3_600_000,
            allowed_lag=0,
            minimum_complete=0.0,
            history_ms=3_600_000,
            rules=self.rules,
        )
        self.monitor = ClusterMonitor(self.name, settings)
        self._topics()
        self._ends(at_zero=True)
        self.now_ms += 1000
        self._commit()
        self.now_ms += 1000
        self._ends(at_zero=False)
        self.monitor.apply(
            GroupsSeen(groups=tuple(self.infos), complete=False, rebalances=self.rebalances),
            EpochMs(self.now_ms),
        )
        for _ in range(self.silent_s // _ROUND_S):
            self.now_ms += _ROUND_S * 1000
            self._ends(at_zero=False)
        self.monitor.judge(EpochMs(self.now_ms))

    def _topics(self) -> None:
        sizes = [len(partitions) for partitions in self.topics.values()]
        self.monitor.apply(
            Topics(
                version=1,
                names=tuple(self.topics),
                ids=("",) * len(sizes),
                partitions=np.array(sizes, np.int32),
                leader=np.ones(sum(sizes), np.int32),
            ),
            EpochMs(self.now_ms),
        )

    def _ends(self, *, at_zero: bool) -> None:
        ends = np.array([end for many in self.topics.values() for end in many], np.int64)
        start, end = ends.reshape(-1, 2).T
        # retention has removed something before, where it has
        at_zero_start = np.where(end < 0, -1, np.minimum(start, 1))
        self.monitor.apply(
            LogEnds(
                version=1,
                started_ms=EpochMs(self.now_ms),
                finished_ms=EpochMs(self.now_ms),
                log_start=at_zero_start if at_zero else start,
                log_end=at_zero_start if at_zero else end,
                last_stable=end,
            ),
            EpochMs(self.now_ms),
        )

    def _commit(self) -> None:
        groups, topics, partitions = zip(*self.commits, strict=True)
        size = len(self.commits)
        self.monitor.apply(
            Commits(
                first_new_id=0,
                new_groups=groups,
                new_topics=topics,
                new_partitions=partitions,
                key=np.arange(size, dtype=np.int32),
                offset=np.array(list(self.commits.values()), np.int64),
                commit_ms=np.full(size, self.now_ms, np.int64),
                order=np.arange(size, dtype=np.int64),
                observed_ms=EpochMs(self.now_ms),
            ),
            EpochMs(self.now_ms),
        )

    def state(self) -> ClusterMetrics:
        """As the service would show it."""
        return ClusterMetrics(
            health=ClusterHealth(
                cluster=self.name,
                ready=True,
                age_s=0.0,
                backlog_read=7,
                backlog_total=10,
                commits_mode="offsets-topic",
                collector_restarts=2,
                problems=(),
                unseen=(),
            ),
            snapshot=self.monitor.snapshot,
            rebalances=self.monitor.rebalances,
            commits=self.monitor.admitted,
            waiting_commits=0,
            errors={"timeout": 4},
            explained=self.explained(),
        )

    def explained(self) -> tuple[GroupExplanation, ...]:
        """Groups in trouble, as the service explains them."""
        if self.monitor.snapshot is None:
            return ()
        queries = SnapshotQueries({self.name: self.monitor}, health=lambda: ())
        return tuple(explained(queries, self.monitor.snapshot))


def info(group: str, state: str = "Stable", *, holds: Sequence[tuple[str, int]] = ()) -> GroupInfo:
    """A group; with one member when it holds something."""
    member = Member(
        member_id="m-1",
        client_id="client",
        host="/10.0.0.7",
        instance_id="pod-1",
        assignment=tuple((topic, (partition,)) for topic, partition in holds),
    )
    return GroupInfo(
        group=group,
        type="classic",
        state=state,
        assignor="range",
        coordinator=1,
        members=(member,) if holds else (),
    )


def exporter(*clusters: Cluster, **settings: object) -> tuple[Exporter, ServiceState]:
    """An exporter, and the state it would collect."""
    state = ServiceState(version="1.2.3", clusters=tuple(cluster.state() for cluster in clusters))
    made = Exporter(
        MetricsSettings.model_validate(settings),
        collect=lambda: asyncio.sleep(0, state),
        clock=SystemClock(),
    )
    return made, state


def text(*clusters: Cluster, form: Format = Format.PROMETHEUS, **settings: object) -> str:
    """What stands on /metrics."""
    made, state = exporter(*clusters, **settings)
    return b"".join(made.render(state, form).plain()).decode()


class Scrape:
    """The metrics as a parser reads them."""

    def __init__(
        self, *clusters: Cluster, form: Format = Format.PROMETHEUS, **settings: object
    ) -> None:
        parse = openmetrics if form is Format.OPENMETRICS else plain
        self.families: dict[str, Metric] = {}
        for family in parse(text(*clusters, form=form, **settings)):
            assert family.name not in self.families, f"{family.name} stands in two places"
            self.families[family.name] = family
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def values(self, name: str, **labels: str) -> list[float]:
        """Of all series with this name that have these labels, among others."""
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        """Of the only series with this name and these labels."""
        (found,) = self.values(name, **labels)
        return found

    def labels(self, name: str) -> list[Labels]:
        return [sample.labels for sample in self.samples if sample.name == name]


@contextmanager
def serving(body: str) -> Iterator[str]:
    """Answers every request with this text; gives host:port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", Format.PROMETHEUS.value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing: the test's output is for what fails."""

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
