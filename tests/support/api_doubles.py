"""Doubles for the ports behind the HTTP layer: what they answer is given, not computed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from enum import Enum
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from lagwatch.core.case import Case
from lagwatch.core.causes import Cause, cause_of
from lagwatch.core.forecast import GroupOutlook, of_group
from lagwatch.core.model import (
    EpochMs,
    GroupInfo,
    GroupStatus,
    GroupVerdict,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    RuleSet,
    TimeLagReason,
    UnknownReason,
    WindowEntry,
)
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import (
    AcknowledgedLoss,
    ClusterHealth,
    GroupDetail,
    PartitionDetail,
    Partitions,
)

T = TypeVar("T")

NOW_MS = EpochMs(1_795_233_795_000)


@dataclass(kw_only=True)
class GivenCluster:
    """What is known about one cluster."""

    topics: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    """Topic → log end offset by partition."""
    verdicts: dict[str, GroupVerdict] = field(default_factory=dict)
    """Group → verdict with all its partitions."""
    details: dict[str, GroupDetail] = field(default_factory=dict)
    infos: dict[str, GroupInfo] = field(default_factory=dict)
    groups_of_topic: dict[str, tuple[str, ...]] = field(default_factory=dict)
    round: int = 1


class GivenQueries:
    """A `Queries` that answers what it was given, and counts how often it was asked to judge."""

    def __init__(
        self, clusters: Mapping[str, GivenCluster], health: Sequence[ClusterHealth] = ()
    ) -> None:
        self.given = dict(clusters)
        self.health_lines = tuple(health)
        self.judged = 0

    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted(self.given))

    def topics(self, cluster: str) -> tuple[str, ...]:
        return tuple(self._cluster(cluster).topics)

    def log_ends(self, cluster: str, topic: str) -> tuple[int | None, ...]:
        return _known(self._cluster(cluster).topics, "topic", topic)

    def groups(self, cluster: str) -> tuple[str, ...]:
        given = self._cluster(cluster)
        return tuple({**given.verdicts, **given.details})

    def groups_of_topic(self, cluster: str, topic: str) -> tuple[str, ...]:
        return self._cluster(cluster).groups_of_topic.get(topic, ())

    def verdict(self, cluster: str, group: str, partitions: Partitions) -> GroupVerdict:
        self.judged += 1
        verdict = _known(self._cluster(cluster).verdicts, "group", group)
        shown = (
            partition
            for partition in verdict.partitions
            if (partitions is not Partitions.BAD or partition.status is not PartitionStatus.OK)
            and (partitions is Partitions.ALL or partition.rule is not Rule.NEVER_COMMITTED)
        )
        return replace(verdict, partitions=tuple(shown))

    def outlook(self, cluster: str, group: str) -> GroupOutlook:
        _known(self._cluster(cluster).verdicts, "group", group)
        return of_group({}, {})

    def outlooks(self, cluster: str, groups: Iterable[str]) -> dict[str, GroupOutlook]:
        known = self._cluster(cluster).verdicts
        return {group: of_group({}, {}) for group in groups if group in known}

    def cause(self, verdict: GroupVerdict, outlook: GroupOutlook) -> Cause | None:
        return cause_of(Case(verdict=verdict, outlook=outlook))

    def detail(self, cluster: str, group: str) -> GroupDetail:
        return _known(self._cluster(cluster).details, "group", group)

    def info(self, cluster: str, group: str) -> GroupInfo | None:
        return self._cluster(cluster).infos.get(group)

    def snapshot(self, cluster: str) -> ClusterSnapshot:
        return empty_snapshot(cluster, self._cluster(cluster).round)

    def health(self) -> tuple[ClusterHealth, ...]:
        return self.health_lines

    def _cluster(self, name: str) -> GivenCluster:
        return _known(self.given, "cluster", name)


class RecordingCommands:
    """A `Commands` that remembers its calls."""

    def __init__(self, level: str = "info") -> None:
        self.forgotten: list[tuple[str, str, str | None]] = []
        self.acknowledged: list[tuple[str, str]] = []
        self.level = level

    async def forget(self, cluster: str, group: str, topic: str | None) -> None:
        self.forgotten.append((cluster, group, topic))

    async def acknowledge_losses(
        self, cluster: str, groups: Sequence[str]
    ) -> dict[str, AcknowledgedLoss]:
        """Groups whose name begins with `ok` have lost nothing."""
        self.acknowledged += [(cluster, group) for group in groups]
        loss = AcknowledgedLoss(partitions=2, messages=1500, at_most=False)
        return {group: loss for group in groups if not group.startswith("ok")}

    def log_level(self) -> str:
        return self.level

    def set_log_level(self, level: str) -> None:
        self.level = level


MAIN: Mapping[str, object] = {
    "general": {"pidfile": "", "stdout-logfile": "", "access-control-allow-origin": ""},
    "logging": {
        "filename": "",
        "max-size": 100,
        "max-backups": 10,
        "max-age": 30,
        "use-local-time": False,
        "use-compression": False,
        "level": "info",
    },
    "zookeeper": {"servers": None, "timeout": 0, "root-path": ""},
    "httpserver": {"default": {"address": "127.0.0.1:8000", "tls": "", "timeout": 300}},
}


class GivenSettings:
    """A `BurrowSettings` that answers what it was given."""

    def __init__(
        self,
        modules: Mapping[str, Mapping[str, Mapping[str, object]]] | None = None,
        main: Mapping[str, object] = MAIN,
    ) -> None:
        self._modules = modules or {}
        self._main = main

    def main(self) -> Mapping[str, object]:
        return self._main

    def modules(self, coordinator: str) -> tuple[str, ...]:
        return tuple(self._modules.get(coordinator, ()))

    def module(self, coordinator: str, name: str) -> Mapping[str, object] | None:
        return self._modules.get(coordinator, {}).get(name)


def partition_verdict(**changes: Any) -> PartitionVerdict:  # noqa: ANN401
    """A partition that fell behind, or as changed; all of its lag can be read unless given."""
    changes.setdefault("readable_lag", changes.get("current_lag", 42))
    verdict = PartitionVerdict(
        topic="orders",
        partition=0,
        owner="/10.0.0.7",
        client_id="billing-1",
        instance_id="",
        status=PartitionStatus.WARN,
        rules=RuleSet.BURROW,
        rule=Rule.LAG_NOT_DECREASING,
        evidence={"lag_first": 10, "lag_last": 40},
        start=entry(100, lag=10),
        end=entry(170, lag=40),
        current_lag=42,
        readable_lag=None,
        since_ms=NOW_MS,
        complete=1.0,
        unknown_reason=None,
        time_lag_s=3.5,
        time_lag_reason=TimeLagReason.MEASURED,
        lost=0,
    )
    return replace(verdict, **changes)


def unknown_partition() -> PartitionVerdict:
    """A partition of a topic that may not be described."""
    return partition_verdict(
        status=PartitionStatus.UNKNOWN,
        rule=Rule.LOG_END_UNKNOWN,
        evidence={"log_end": None},
        current_lag=None,
        readable_lag=None,
        since_ms=None,
        unknown_reason=UnknownReason.TOPIC_NOT_VISIBLE,
        time_lag_s=None,
        time_lag_reason=TimeLagReason.LOG_END_UNKNOWN,
    )


def group_verdict(*partitions: PartitionVerdict, **changes: Any) -> GroupVerdict:  # noqa: ANN401
    """A group of these partitions, WARN, or as changed."""
    verdict = GroupVerdict(
        cluster="c1",
        group="billing",
        at_ms=NOW_MS,
        status=GroupStatus.WARN,
        rule=Rule.LAG_NOT_DECREASING,
        complete=1.0,
        partitions=partitions,
        partition_count=len(partitions),
        max_lag=partitions[0] if partitions else None,
        total_lag=sum(partition.current_lag or 0 for partition in partitions),
        readable_lag=sum(partition.readable_lag or 0 for partition in partitions),
        since_ms=NOW_MS,
        unknown_partitions=sum(partition.current_lag is None for partition in partitions),
        time_lag_s=3.5,
        time_lag_reason=TimeLagReason.MEASURED,
    )
    return replace(verdict, **changes)


def entry(offset: int, *, lag: int | None, at_ms: int = NOW_MS) -> WindowEntry:
    """One commit, observed in the second it was made."""
    observed_ms = EpochMs(at_ms // 1000 * 1000)
    return WindowEntry(offset=offset, commit_ms=EpochMs(at_ms), observed_ms=observed_ms, lag=lag)


def verdict_in_burrows_words(status: Mapping[str, Any]) -> GroupVerdict:
    """The verdict that Burrow's `status` object describes."""
    max_lag = status["maxlag"]
    return group_verdict(
        *map(_partition_in_burrows_words, status["partitions"]),
        cluster=status["cluster"],
        group=status["group"],
        status=GroupStatus[status["status"]],
        complete=status["complete"],
        partition_count=status["partition_count"],
        max_lag=None if max_lag is None else _partition_in_burrows_words(max_lag),
        total_lag=status["totallag"],
    )


def detail_in_burrows_words(topics: Mapping[str, Sequence[Mapping[str, Any]]]) -> GroupDetail:
    """The windows that Burrow's `topics` object describes."""
    return GroupDetail(
        topics={
            topic: [
                PartitionDetail(
                    window=tuple(map(_entry_in_burrows_words, partition["offsets"])),
                    owner=partition["owner"],
                    client_id=partition["client_id"],
                    current_lag=partition["current-lag"],
                )
                for partition in partitions
            ]
            for topic, partitions in topics.items()
        }
    )


def cluster_health(cluster: str, *, ready: bool, **changes: Any) -> ClusterHealth:  # noqa: ANN401
    """A cluster's line in `/readyz`."""
    health = ClusterHealth(
        cluster=cluster,
        ready=ready,
        age_s=0.5 if ready else None,
        backlog_read=10,
        backlog_total=10 if ready else 100,
        commits_mode="offsets-topic",
        collector_restarts=0,
        problems=(),
        unseen=(),
    )
    return replace(health, **changes)


def empty_snapshot(cluster: str, number: int) -> ClusterSnapshot:
    """Round `number` of a cluster in which there is nothing."""
    return _empty(ClusterSnapshot, cluster=cluster, round=number, at_ms=NOW_MS)


def _empty(kind: type[T], **given: object) -> T:
    """A value of the dataclass `kind` whose other fields are empty or zero."""
    hints = get_type_hints(kind)
    return kind(**{name: _nothing(hint) for name, hint in hints.items()} | given)


def _nothing(hint: Any) -> object:  # noqa: ANN401, PLR0911 one per kind of hint
    if NoneType in get_args(hint):
        return None
    plain = get_origin(hint) or getattr(hint, "__supertype__", hint)
    if isinstance(plain, type) and issubclass(plain, Enum):
        return next(iter(plain))
    if is_dataclass(plain) and isinstance(plain, type):
        return _empty(plain)
    if plain is Callable:
        answer = _nothing(get_args(hint)[-1])
        return lambda *_: answer
    if isinstance(plain, type) and hasattr(plain, "_fields"):
        return plain(*(_nothing(each) for each in get_type_hints(plain).values()))
    if plain is np.ndarray:
        return np.zeros(0, dtype=np.int64)
    return {} if plain is Mapping else plain()


def _partition_in_burrows_words(partition: Mapping[str, Any]) -> PartitionVerdict:
    return partition_verdict(
        topic=partition["topic"],
        partition=partition["partition"],
        owner=partition["owner"],
        client_id=partition["client_id"],
        status=PartitionStatus[partition["status"]],
        start=_entry_in_burrows_words(partition["start"]),
        end=_entry_in_burrows_words(partition["end"]),
        current_lag=partition["current_lag"],
        complete=partition["complete"],
    )


def _entry_in_burrows_words(offset: Mapping[str, Any] | None) -> WindowEntry | None:
    if offset is None:
        return None
    return WindowEntry(
        offset=offset["offset"],
        commit_ms=EpochMs(offset["timestamp"]),
        observed_ms=EpochMs(offset["observedAt"]),
        lag=offset["lag"],
    )


def _known(things: Mapping[str, T], kind: str, name: str) -> T:
    if name not in things:
        raise NotFoundError(kind=kind, name=name)
    return things[name]
