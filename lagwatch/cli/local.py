"""Asks the monitor in this process."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.cli.views import (
    NOT_ENOUGH_SEEN,
    GroupView,
    Readiness,
    group_view,
    readiness,
)
from lagwatch.core.model import PartitionStatus, Rule
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.ports.queries import Queries

Bools = NDArray[np.bool_]

_CERTAIN: Final = (
    Rule.NEVER_COMMITTED,
    Rule.NOT_SUBSCRIBED,
    Rule.MIRRORED,
    Rule.CONTROL_RECORDS_ONLY,
    Rule.WAITS_FOR_TRANSACTION,
)
"""Rules that say OK in spite of lag, and need no progress for it."""


def undecided(before: ClusterSnapshot, after: ClusterSnapshot) -> Mapping[str, bool]:
    """Group → True if one of its partitions could not be judged between the two snapshots.

    A partition is judged when there is nothing to read, its committed offset moved, or a rule
    found it bad.
    """
    open_rows = ~_decided(before, after)
    first = after.group.first[:-1]
    found = np.logical_or.reduceat(open_rows, first) if first.size else open_rows
    return dict(zip(after.groups, found.tolist(), strict=True))


def _decided(before: ClusterSnapshot, after: ClusterSnapshot) -> Bools:
    rows = after.rows
    bad = (rows.status != PartitionStatus.OK) & (rows.status != PartitionStatus.UNKNOWN)
    known = rows.lag >= 0
    nothing = known & (rows.readable_lag >= 0) & (rows.readable_lag <= after.allowed_lag)
    # there is nothing to read beyond the log end either, but nothing is well there
    nothing &= rows.rule != Rule.WARMING_UP
    certain = np.isin(rows.rule, [rule.value for rule in _CERTAIN])
    decided: Bools = bad | nothing | certain | (known & _moved(before, after))
    return decided


def _moved(before: ClusterSnapshot, after: ClusterSnapshot) -> Bools:
    """Rows whose committed offset is higher than before."""
    old, new = before.rows, after.rows
    size = int(max(old.window.max(initial=-1), new.window.max(initial=-1))) + 1
    committed = np.full(size, -1, np.int64)
    committed[old.window] = old.committed
    moved: Bools = (committed[new.window] >= 0) & (new.committed > committed[new.window])
    return moved


class LocalSource:
    """A `StatusSource` over the read side."""

    def __init__(
        self, queries: Queries, first: Mapping[str, ClusterSnapshot] | None = None
    ) -> None:
        """`first` are the first snapshots of a short look, which does not know everything."""
        self._queries = queries
        self._undecided = {
            cluster: undecided(before, queries.snapshot(cluster))
            for cluster, before in (first or {}).items()
        }

    def clusters(self) -> tuple[str, ...]:
        return self._queries.clusters()

    def readiness(self, cluster: str) -> Readiness:
        health = next(each for each in self._queries.health() if each.cluster == cluster)
        return readiness(
            ready=health.ready,
            stale=health.stale,
            data_age_s=health.data_age_s,
            reason=health.reason,
            problems=(*health.problems, *health.unseen),
            backlog=(health.backlog_read, health.backlog_total),
        )

    def groups(self, cluster: str) -> tuple[str, ...]:
        return self._queries.groups(cluster)

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        verdict = self._queries.verdict(cluster, group, show_all=show_all)
        view = group_view(verdict, self._queries.info(cluster, group))
        return self._as_far_as_known(view)

    def _as_far_as_known(self, view: GroupView) -> GroupView:
        """OK and UNKNOWN of a short look: only what was seen counts."""
        is_open = self._undecided.get(view.cluster, {}).get(view.group)
        if is_open is None or view.status not in ("OK", "UNKNOWN"):
            return view
        if is_open:
            return replace(view, status="UNKNOWN", worst="UNKNOWN", note=NOT_ENOUGH_SEEN)
        return replace(view, status="OK", worst="OK")
