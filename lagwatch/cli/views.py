"""What `status` knows of a group, whoever said it: our own monitor, a lagwatch or a Burrow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from lagwatch.core.model import GroupVerdict, PartitionVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """The verdict on a partition; None is unknown, or was not told."""

    topic: str
    partition: int
    status: str
    rule: str | None
    current_lag: int | None
    time_lag_s: float | None
    committed_offset: int | None
    complete: float
    owner: str
    client_id: str
    unknown_reason: str | None
    evidence: Mapping[str, int | float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The verdict on a group."""

    cluster: str
    group: str
    status: str
    rule: str | None
    """None also when it was not told: Burrow names no rules."""
    total_lag: int | None
    """Over the partitions whose lag is known; None when there is none."""
    unknown_partitions: int
    time_lag_s: float | None
    complete: float
    partition_count: int
    max_lag: PartitionView | None
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """May what is said about a cluster be trusted to be whole?"""

    ready: bool
    problems: tuple[str, ...]


def reading(read: object, total: object) -> str:
    """Why a cluster without a problem is not ready."""
    return f"not read to the end yet ({read} of {total} records of the offsets topic)"


class StatusSource(Protocol):
    """Where `status` asks."""

    def clusters(self) -> tuple[str, ...]: ...

    def readiness(self, cluster: str) -> Readiness: ...

    def groups(self, cluster: str) -> tuple[str, ...]: ...

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        """The group's verdict, with its bad partitions or all of them.

        Raises:
            NotFoundError: nobody knows it.
        """
        ...


def group_view(verdict: GroupVerdict) -> GroupView:
    """A verdict of our own."""
    nothing_known = verdict.max_lag is None and verdict.unknown_partitions > 0
    return GroupView(
        cluster=verdict.cluster,
        group=verdict.group,
        status=verdict.status.name,
        rule=None if verdict.rule is None else verdict.rule.word,
        total_lag=None if nothing_known else verdict.total_lag,
        unknown_partitions=verdict.unknown_partitions,
        time_lag_s=verdict.time_lag_s,
        complete=verdict.complete,
        partition_count=verdict.partition_count,
        max_lag=None if verdict.max_lag is None else partition_view(verdict.max_lag),
        partitions=tuple(partition_view(partition) for partition in verdict.partitions),
    )


def partition_view(verdict: PartitionVerdict) -> PartitionView:
    """A verdict of our own."""
    return PartitionView(
        topic=verdict.topic,
        partition=verdict.partition,
        status=verdict.status.name,
        rule=verdict.rule.word,
        current_lag=verdict.current_lag,
        time_lag_s=verdict.time_lag_s,
        committed_offset=None if verdict.end is None else verdict.end.offset,
        complete=verdict.complete,
        owner=verdict.owner,
        client_id=verdict.client_id,
        unknown_reason=verdict.unknown_reason,
        evidence=verdict.evidence,
    )
