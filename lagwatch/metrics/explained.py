"""What is known of groups in trouble beside their columns: cause, rates and forecast."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import Outlook
from lagwatch.core.model import GroupStatus
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.ports.queries import Queries

MOST_PARTITIONS: Final = 5_000
"""Partitions of groups that are explained for one answer: it takes about 20 µs for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One group that is not OK."""

    group: str
    cause: Cause | None
    outlook: Outlook
    """Of the group as a whole."""
    partitions: Mapping[tuple[str, int], Outlook]


def explained(
    queries: Queries, snapshot: ClusterSnapshot, only: Collection[str] | None = None
) -> tuple[Explained, ...]:
    """Groups in trouble, those with the greatest lag first, as long as their partitions fit.

    None while the data of the whole cluster are stale. With `only`, no others than these.
    """
    if snapshot.stale:
        return ()
    return tuple(_explained(queries, snapshot, only))


def _explained(
    queries: Queries, snapshot: ClusterSnapshot, only: Collection[str] | None
) -> Iterator[Explained]:
    columns, left = snapshot.group, MOST_PARTITIONS
    trouble = (columns.status == GroupStatus.WARN) | (columns.status == GroupStatus.ERR)
    chosen = np.flatnonzero(trouble & ~snapshot.stale_groups())
    for number in chosen[np.argsort(-columns.total_lag[chosen], kind="stable")].tolist():
        group = snapshot.groups[number]
        if only is not None and group not in only:
            continue
        if (size := int(columns.partition_count[number])) > left:
            continue
        left -= size
        verdict = queries.verdict(snapshot.cluster, group, show_all=True)
        outlook = queries.outlook(snapshot.cluster, group)
        cause = queries.cause(verdict, outlook)
        yield Explained(
            group=group, cause=cause, outlook=outlook.whole, partitions=outlook.partitions
        )
