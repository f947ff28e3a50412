"""A scrape of 100,000 group-partitions: time, memory, and how prometheus_client would do.

Also one of 3,000 groups, half of them in trouble, beside one where all are well.

Each is behind, its time lag known, and somebody holds it: every series there can be is written.
The service's own process is measured from inside: what it renders is what it sends.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import generate_latest

from lagwatch.clock import SystemClock
from lagwatch.config.settings import MetricsSettings
from lagwatch.core.model import EpochMs, GroupInfo, GroupStatus, Member, RuleSet
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.memory import give_back
from lagwatch.metrics import ClusterMetrics, Exporter, ServiceState
from lagwatch.metrics.explained import explained_in_turns
from lagwatch.metrics.metric import Format
from lagwatch.metrics.view import View
from lagwatch.monitor import ClusterMonitor
from lagwatch.ports.queries import ClusterHealth
from lagwatch.query import SnapshotQueries
from tests.bench.bench_evaluate import filled
from tests.bench.figures import Bound, Figure
from tests.bench.usage import rss_bytes

ROUNDS = 5
_GROUPS = 3000
_MIB = 1024 * 1024
_PER_PARTITION = ("lag_messages", "lag_seconds", "committed_offset")
_ROOT = Path(__file__).parents[2]


def run() -> Iterator[Figure]:
    state = busy()
    exporter = Exporter(
        MetricsSettings(), collect=lambda: asyncio.sleep(0, state), clock=SystemClock()
    )
    zipped_s = fastest(lambda: exporter.render(state, Format.OPENMETRICS))
    plain_s = fastest(lambda: plain(exporter, state))
    theirs = Theirs(state)
    theirs_s = fastest(theirs.render, rounds=2)
    yield Figure(name="scrape_100k_plain", value=plain_s, unit="s", target=1.0)
    yield Figure(name="scrape_100k_gzip", value=zipped_s, unit="s", target=1.0)
    yield Figure(name="scrape_100k_memory", value=_memory("plain"), unit="MiB", target=100)
    yield Figure(name="scrape_100k_gzip_memory", value=_memory("gzip"), unit="MiB", target=100)
    yield Figure(
        name="scrape_times_faster_than_prometheus_client",
        value=theirs_s / plain_s,
        unit="x",
        target=5,
        bound=Bound.AT_LEAST,
    )
    half_s, none_s = (_many_groups_s(bad) for bad in (_GROUPS // 2, 0))
    yield Figure(name="scrape_3k_groups_half_bad", value=half_s, unit="s", target=1.5)
    yield Figure(name="scrape_half_bad_ratio", value=half_s / none_s, unit="x", target=25)


def _many_groups_s(bad: int) -> float:
    """CPU seconds of one answer, causes and forecasts of the groups in trouble included."""
    monitor, now_ms = filled(_GROUPS, _GROUPS, 1, behind=bad, most_read=50, rules=RuleSet.BURROW)
    snapshot = monitor.judge(EpochMs(now_ms))
    assert np.count_nonzero(snapshot.group.status == GroupStatus.WARN) == bad
    queries = SnapshotQueries({snapshot.cluster: monitor}, health=lambda: ())
    state = _state(monitor, snapshot)
    exporter = Exporter(
        MetricsSettings(), collect=lambda: asyncio.sleep(0, state), clock=SystemClock()
    )

    def answer() -> None:
        found = asyncio.run(explained_in_turns(queries, snapshot))
        assert len(found) == bad
        clusters = (replace(state.clusters[0], explained=found),)
        exporter.render(replace(state, clusters=clusters), Format.OPENMETRICS)

    return fastest(answer, clock=time.process_time)


def plain(exporter: Exporter, state: ServiceState) -> int:
    """Everything that we write, which is more than what prometheus_client is asked for."""
    return sum(map(len, exporter.render(state, Format.PROMETHEUS).plain()))


def busy() -> ServiceState:
    """One cluster of 1,000 groups with 100 partitions each."""
    monitor, now_ms = filled()
    snapshot = monitor.judge(EpochMs(now_ms))
    rows = snapshot.rows.lag.size
    time_lag_ms = np.random.default_rng(7).integers(1, 3_600_000, rows)
    times = snapshot.rows.every_time._replace(lag_ms=time_lag_ms)
    snapshot = replace(
        snapshot,
        rows=replace(snapshot.rows, times=times.part),
        info={group: _info(group) for group in snapshot.groups},
        owners=_owners(snapshot),
    )
    return _state(monitor, snapshot)


def _state(monitor: ClusterMonitor, snapshot: ClusterSnapshot) -> ServiceState:
    health = ClusterHealth(
        cluster=snapshot.cluster,
        ready=True,
        age_s=0.0,
        backlog_read=1,
        backlog_total=1,
        commits_mode="offsets-topic",
        collector_restarts=0,
        problems=(),
        unseen=(),
    )
    cluster = ClusterMetrics(
        health=health, snapshot=snapshot, rebalances={}, commits=monitor.admitted, waiting_commits=0
    )
    return ServiceState(version="0", clusters=(cluster,))


def _info(group: str) -> GroupInfo:
    return GroupInfo(
        group=group,
        type="classic",
        state="Stable",
        assignor="range",
        coordinator=1,
        members=(_member(group, 0), _member(group, 1)),
    )


def _member(group: str, number: int) -> Member:
    return Member(
        member_id=f"{group}-client-{number}-00000000-0000-0000-0000-000000000000",
        client_id=f"{group}-client-{number}",
        host=f"/10.0.{number}.7",
        instance_id="",
        assignment=(),
    )


def _owners(snapshot: ClusterSnapshot) -> dict[str, dict[tuple[str, int], Member]]:
    owners = {}
    first = snapshot.group.first.tolist()
    for number, group in enumerate(snapshot.groups):
        members = _member(group, 0), _member(group, 1)
        rows = slice(first[number], first[number + 1])
        owners[group] = {
            (snapshot.topic_names[topic], partition): members[partition % 2]
            for topic, partition in zip(
                snapshot.rows.topic[rows].tolist(),
                snapshot.rows.partition[rows].tolist(),
                strict=True,
            )
        }
    return owners


def fastest(work, rounds: int = ROUNDS, clock=time.perf_counter) -> float:
    """Seconds of the quickest of a few runs: the others met the neighbours."""
    times = []
    for _ in range(rounds):
        began_s = clock()
        work()
        times.append(clock() - began_s)
    return min(times)


class Theirs:
    """The three series of each partition, written by prometheus_client; and by us."""

    def __init__(self, state: ServiceState) -> None:
        (cluster,) = state.clusters
        assert cluster.snapshot is not None
        self._snapshot = cluster.snapshot
        self._view = View(cluster.snapshot, rebalances={}, most_rows=0)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        snapshot, view = self._snapshot, self._view
        identities = [
            (snapshot.cluster, snapshot.groups[group], snapshot.topic_names[topic], str(partition))
            for group, topic, partition in zip(
                view.row_group.tolist(),
                snapshot.rows.topic.tolist(),
                snapshot.rows.partition.tolist(),
                strict=True,
            )
        ]
        columns = (view.lag, view.time_lag_s, view.committed)
        for name, column in zip(_PER_PARTITION, columns, strict=True):
            family = GaugeMetricFamily(
                f"lagwatch_{name}", "help", labels=("cluster", "group", "topic", "partition")
            )
            for identity, value in zip(identities, column.tolist(), strict=True):
                family.add_metric(identity, value)
            yield family

    def render(self) -> bytes:
        return generate_latest(self._registry)


def _memory(encoding: str) -> float:
    """MiB beyond what the process holds before its first scrape, at the highest, while answering.

    In a process of its own: the highest point of one that has done other things says nothing.
    """
    command = (sys.executable, "-m", "tests.bench.bench_scrape", encoding)
    done = subprocess.run(
        command, cwd=_ROOT, capture_output=True, text=True, timeout=300, check=True
    )
    return float(done.stdout)


def _measure(encoding: str) -> float:
    state = busy()
    exporter = Exporter(
        MetricsSettings(), collect=lambda: asyncio.sleep(0, state), clock=SystemClock()
    )
    give_back()
    before = rss_bytes(_self())
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the highest point, from now
    answer = asyncio.run(exporter.scrape(accept="", accept_encoding=encoding))
    assert sum(map(len, answer.chunks)) > _MIB
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (highest,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return (int(highest.split()[1]) * 1024 - before) / _MIB


def _self() -> int:
    return int(Path("/proc/self").readlink().name)


if __name__ == "__main__":
    print(_measure(sys.argv[1]))
