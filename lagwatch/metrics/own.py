"""Metrics of the service itself: a few dozen lines that are not columns of a snapshot."""

import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import ProcessCollector

from lagwatch.core.forecast import Outlook
from lagwatch.core.wire import DecodeFault
from lagwatch.metrics import table
from lagwatch.metrics.labels import escape
from lagwatch.metrics.metric import Metric
from lagwatch.metrics.state import ClusterMetrics, ServiceState
from lagwatch.metrics.view import View
from lagwatch.ports.history import RecorderHealth

_ERROR_KINDS: Final = (
    "authentication",
    "authorization",
    "connection",
    "coordinator",
    "died",
    "leader",
    "partial",
    "protocol",
    "timeout",
    "tls",
)
_DROP_REASONS: Final = ("behind", "corrupt", "disk_full", "io", "rejected", "spool_full")
_MALFORMED: Final = tuple(fault.value for fault in DecodeFault)

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeTimes:
    """Number of scrapes, and the duration of the last."""

    scrapes: int
    last_s: float | None


def families(
    state: ServiceState, views: Mapping[str, View], scrapes: ScrapeTimes
) -> Iterator[tuple[Metric, list[Sample]]]:
    """Each metric with its samples."""
    yield from _clusters(state.clusters, views)
    yield from _history(state.recorder or RecorderHealth(enabled=False))
    yield (
        table.DEPLOYED,
        [
            ((each.cluster, each.group, each.version), each.at_ms / 1000)
            for each in state.deployments
        ],
    )
    yield from _alerts(state)
    yield table.STOOD_STILL, [((), state.stood_still_s)]
    yield table.BUILD, [((state.version, platform.python_version()), 1)]
    yield table.SCRAPES, [((), scrapes.scrapes)]
    if scrapes.last_s is not None:
        yield table.SCRAPE_TIME, [((), scrapes.last_s)]


def text(metric: Metric, samples: list[Sample]) -> str:
    """The lines of a family."""
    return "".join(f"{metric.name}{_labels(metric, values)} {value}\n" for values, value in samples)


def _labels(metric: Metric, values: tuple[str, ...]) -> str:
    if not values:
        return ""
    pairs = zip(metric.labels, values, strict=True)
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in pairs) + "}"


def _clusters(
    clusters: tuple[ClusterMetrics, ...], views: Mapping[str, View]
) -> Iterator[tuple[Metric, list[Sample]]]:
    yield (
        table.UNKNOWN_PARTITIONS,
        [
            ((cluster, reason), count)
            for cluster, view in views.items()
            for reason, count in view.unknown_rows().items()
        ],
    )
    yield table.LEFT_OUT, [((name,), int(view.left_out.sum())) for name, view in views.items()]
    yield (
        table.GROUPS_LEFT_OUT,
        [((name,), int((~view.detailed).sum())) for name, view in views.items()],
    )
    yield (
        table.LAST_SUCCESS,
        [
            ((name,), view.snapshot.data_ms / 1000)
            for name, view in views.items()
            if view.snapshot.data_ms >= 0
        ],
    )
    yield (
        table.TIME_LAGS_AT,
        [
            ((name,), view.snapshot.time_lags_ms / 1000)
            for name, view in views.items()
            if view.snapshot.time_lags_ms >= 0
        ],
    )
    for metric, value in _BY_CLUSTER:
        yield metric, [((cluster.health.cluster,), value(cluster)) for cluster in clusters]
    yield (
        table.CLOCK_SKEW,
        [
            ((cluster.health.cluster,), cluster.health.clock_skew_s)
            for cluster in clusters
            if cluster.health.clock_skew_s is not None
        ],
    )
    yield from _explained(clusters, views)
    yield from _collectors(clusters)
    yield table.ERRORS, _counted(clusters, _ERROR_KINDS, lambda cluster: cluster.errors)
    yield table.MALFORMED, _counted(clusters, _MALFORMED, lambda cluster: cluster.malformed)


def _explained(
    clusters: tuple[ClusterMetrics, ...], views: Mapping[str, View]
) -> Iterator[tuple[Metric, list[Sample]]]:
    """Causes, rates and forecasts of groups with all their series; what is not known is absent."""
    groups = [
        ((view.snapshot.cluster, each.group), each)
        for cluster in clusters
        if (view := views.get(cluster.health.cluster)) is not None
        for each in cluster.explained
        if view.detailed[view.snapshot.group_index[each.group]]
    ]
    yield (
        table.GROUP_CAUSE,
        [
            ((*labels, each.cause.name or "unknown", each.cause.certainty), 1)
            for labels, each in groups
            if each.cause is not None
        ],
    )
    for metric, value_of in _OUTLOOK:
        values = ((labels, value_of(each.outlook)) for labels, each in groups)
        yield metric, [(labels, value) for labels, value in values if value is not None]


_OUTLOOK: Final[tuple[tuple[Metric, Callable[[Outlook], float | None]], ...]] = (
    (table.GROUP_PRODUCED, lambda outlook: outlook.produced_per_s),
    (table.GROUP_CONSUMED, lambda outlook: outlook.consumed_per_s),
    (table.GROUP_CATCH_UP, lambda outlook: outlook.catch_up_s),
    (table.GROUP_LOSS_IN, lambda outlook: outlook.loss_in_s),
)


_BY_CLUSTER: Final[tuple[tuple[Metric, Callable[[ClusterMetrics], float]], ...]] = (
    (table.READY, lambda cluster: int(cluster.health.ready)),
    (table.DATA_AGE, lambda cluster: cluster.health.data_age_s),
    (table.ROUNDS, lambda cluster: cluster.snapshot.round if cluster.snapshot else 0),
    (table.COMMITS, lambda cluster: cluster.commits),
    (table.COMMITS_WAITING, lambda cluster: cluster.waiting_commits),
    (
        table.BACKLOG,
        lambda cluster: max(0, cluster.health.backlog_total - cluster.health.backlog_read),
    ),
    (table.COLLECTOR_RESTARTS, lambda cluster: cluster.health.collector_restarts),
)


_OF_COLLECTORS: Final = (
    (table.COLLECTOR_CPU, "process_cpu_seconds_total"),
    (table.COLLECTOR_MEMORY, "process_resident_memory_bytes"),
    (table.COLLECTOR_START, "process_start_time_seconds"),
)


def _collectors(clusters: tuple[ClusterMetrics, ...]) -> Iterator[tuple[Metric, list[Sample]]]:
    """CPU time and memory of the collectors; no lines for one that does not run."""
    costs = {
        cluster.health.cluster: _process(cluster.collector_pid)
        for cluster in clusters
        if cluster.collector_pid is not None
    }
    for metric, name in _OF_COLLECTORS:
        yield metric, [((cluster,), cost[name]) for cluster, cost in costs.items() if name in cost]


def _process(pid: int) -> dict[str, float]:
    """The system's counts of a process; empty without /proc or without such a process."""
    found = ProcessCollector(pid=lambda: pid, registry=None).collect()
    return {sample.name: sample.value for family in found for sample in family.samples}


def _counted(
    clusters: tuple[ClusterMetrics, ...],
    words: tuple[str, ...],
    counts: Callable[[ClusterMetrics], Mapping[str, int]],
) -> list[Sample]:
    """Counters by word; also those at zero."""
    return [
        ((cluster.health.cluster, word), count)
        for cluster in clusters
        for word, count in _from_zero(words, counts(cluster)).items()
    ]


def _from_zero(words: tuple[str, ...], counts: Mapping[str, int]) -> dict[str, int]:
    return {**dict.fromkeys(words, 0), **counts}


def _history(recorder: RecorderHealth) -> Iterator[tuple[Metric, list[Sample]]]:
    yield table.HISTORY_ROWS, [((), recorder.rows)]
    yield table.HISTORY_DELIVERED, [((), recorder.delivered)]
    dropped = _from_zero(_DROP_REASONS, recorder.dropped)
    yield table.HISTORY_DROPPED, [((reason,), count) for reason, count in dropped.items()]
    yield table.HISTORY_RETRIES, [((), recorder.retries)]
    yield table.HISTORY_SPOOL, [((), recorder.spool_bytes)]
    if recorder.oldest_ms is not None:
        yield table.HISTORY_OLDEST, [((), recorder.oldest_ms / 1000)]


def _alerts(state: ServiceState) -> Iterator[tuple[Metric, list[Sample]]]:
    clusters = tuple(cluster.health.cluster for cluster in state.clusters)
    incidents = _from_zero(clusters, state.open_incidents)
    yield table.INCIDENTS, [((cluster,), count) for cluster, count in incidents.items()]
    channels = sorted(state.notices.items())
    yield table.NOTICES_DELIVERED, [((name,), channel.delivered) for name, channel in channels]
    yield table.NOTICES_DEAD, [((name,), channel.dead) for name, channel in channels]
    yield table.NOTICES_FAILED, [((name,), channel.failed_attempts) for name, channel in channels]
    yield table.NOTICES_QUEUED, [((name,), channel.queued) for name, channel in channels]
    yield table.NOTICES_UNDELIVERED, [((name,), channel.undelivered) for name, channel in channels]
