"""Cause, rates and forecast of groups in trouble, which are not columns of the snapshot."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import GroupOutlook, Outlook
from lagwatch.core.model import GroupStatus
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import Partitions, Queries

MOST_PARTITIONS: Final = 5_000
"""Partitions of groups that are explained for one answer."""
_AT_ONCE: Final = 100
"""Groups whose forecasts are computed at once: others wait for some ten milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupExplanation:
    """One group that is not OK."""

    group: str
    cause: Cause | None
    outlook: Outlook
    """Rates and forecast of the group as a whole."""
    partitions: Mapping[tuple[str, int], Outlook]


def explained(
    queries: Queries,
    snapshot: ClusterSnapshot,
    only: Collection[str] | None = None,
    known: Collection[str] = (),
) -> Iterator[GroupExplanation]:
    """Groups in trouble, those with the greatest lag first, as long as their partitions fit.

    None while the data of the whole cluster are stale. With `only`, no others than these; the
    partitions of those that are `known` count, but they are left out. A group takes about a
    millisecond, so callers on the event loop let others work in between; groups that have gone
    meanwhile are left out.
    """
    groups = () if snapshot.stale else tuple(_explainable(snapshot, only, known))
    seen: ClusterSnapshot | None = None
    ahead: Mapping[str, GroupOutlook] = {}
    for number, group in enumerate(groups):
        try:
            newest = queries.snapshot(snapshot.cluster)
            if newest is not seen or number % _AT_ONCE == 0:
                ahead = queries.outlooks(snapshot.cluster, groups[number : number + _AT_ONCE])
                seen = newest
            verdict = queries.verdict(snapshot.cluster, group, Partitions.COMMITTED)
        except NotFoundError:
            continue
        outlook = ahead[group]  # of the same snapshot as the verdict
        yield GroupExplanation(
            group=group,
            cause=queries.cause(verdict, outlook),
            outlook=outlook.whole,
            partitions=outlook.partitions,
        )


def _explainable(
    snapshot: ClusterSnapshot, only: Collection[str] | None, known: Collection[str]
) -> Iterator[str]:
    columns, left = snapshot.group, MOST_PARTITIONS
    trouble = (columns.status == GroupStatus.WARN) | (columns.status == GroupStatus.ERR)
    chosen = np.flatnonzero(trouble & ~snapshot.stale_groups())
    for number in chosen[np.argsort(-columns.total_lag[chosen], kind="stable")].tolist():
        group = snapshot.groups[number]
        if only is not None and group not in only:
            continue
        if (size := columns.committed_partitions(number)) > left:
            continue
        left -= size
        if group not in known:
            yield group


async def explained_in_turns(
    queries: Queries, snapshot: ClusterSnapshot | None
) -> tuple[GroupExplanation, ...]:
    """The same for the event loop, which does other work after each group."""
    if snapshot is None:
        return ()
    _ = snapshot.group.every_time  # once for all is quicker than group by group
    found = []
    for each in explained(queries, snapshot):
        found.append(each)
        await asyncio.sleep(0)
    return tuple(found)
