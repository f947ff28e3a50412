"""Asks the monitor in this process."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.cli.views import (
    BAD,
    NOT_ENOUGH_SEEN,
    GroupView,
    ReadinessView,
    found,
    group_view,
    readiness,
)
from lagwatch.core.forecast import CatchUpReason, GroupOutlook
from lagwatch.core.model import GroupInfo, GroupVerdict, PartitionStatus, Rule
from lagwatch.core.rules import Ok, rules_ok
from lagwatch.core.snapshot import ClusterSnapshot, TopicColumns
from lagwatch.ports.queries import Partitions, Queries

Bools = NDArray[np.bool_]

_LATE_S: Final = 120.0
"""A group that is so late falls behind if its lag goes on rising."""
_GROWS: Final = f"{NOT_ENOUGH_SEEN}: its lag grows"
_NO_COMMIT: Final = f"{NOT_ENOUGH_SEEN}: no commit"


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
    # an offset beyond the log end has nothing to read either, but it is a fault
    nothing &= rows.rule != Rule.WARMING_UP
    # how long it waits is the question, and a short look does not see that
    waits = rows.rule == Rule.WAITS_FOR_TRANSACTION
    certain = np.isin(rows.rule, rules_ok(Ok.UNREAD))
    decided: Bools = bad | nothing & ~waits | certain | (known & _moved(before, after))
    decided |= waits & _age_known(after)
    return decided


def _age_known(snapshot: ClusterSnapshot) -> Bools:
    """Rows that wait for a transaction of which the broker says when it began."""
    rows = snapshot.rows
    known = np.zeros(rows.rule.size, np.bool_)
    for row in np.flatnonzero(rows.rule == Rule.WAITS_FOR_TRANSACTION).tolist():
        place = snapshot.topic_names[int(rows.topic[row])], int(rows.partition[row])
        found = snapshot.transactions.get(place)
        known[row] = found is not None and found.started_ms is not None
    return known


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
        self._silent = {cluster: _silent(queries.snapshot(cluster)) for cluster in first or {}}

    def clusters(self) -> tuple[str, ...]:
        return self._queries.clusters()

    def readiness(self, cluster: str) -> ReadinessView:
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
        return (*self._queries.groups(cluster), *self._silent.get(cluster, ()))

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        silent = self._silent.get(cluster, {}).get(group)
        if silent is not None:
            return _without_commits(cluster, silent)
        verdict = self._queries.verdict(
            cluster, group, Partitions.ALL if show_all else Partitions.BAD
        )
        view = self._as_far_as_known(group_view(verdict, self._queries.info(cluster, group)))
        outlook, cause = self._queries.outlook(cluster, group), None
        if view.status == "OK" and cluster in self._undecided and _falls_behind(verdict, outlook):
            view = replace(view, status="UNKNOWN", worst="UNKNOWN", note=_GROWS)
        if view.status in BAD:
            whole = verdict if show_all else self._queries.verdict(cluster, group, Partitions.ALL)
            cause = self._queries.cause(whole, outlook)
        snapshot = self._queries.snapshot(cluster)
        number = snapshot.group_index.get(group)
        lost = (0, False) if number is None else snapshot.lost_messages(number)
        beside = replace(found(outlook, cause, lost), unknown_because=self._unknown_because(view))
        return replace(view, **asdict(beside))

    def _unknown_because(self, view: GroupView) -> str:
        if view.note or not (view.unknown_partitions or view.status == "UNKNOWN"):
            return ""
        from lagwatch_api.v1.trends import unknown_because  # the API takes a while to import

        return unknown_because(self._queries, view.cluster, [view.group]).get(view.group, "")

    def _as_far_as_known(self, view: GroupView) -> GroupView:
        """OK and UNKNOWN of a short look: only what was seen counts."""
        is_open = self._undecided.get(view.cluster, {}).get(view.group)
        if is_open is None or view.status not in ("OK", "UNKNOWN"):
            return view
        if is_open:
            return replace(view, status="UNKNOWN", worst="UNKNOWN", note=NOT_ENOUGH_SEEN)
        return replace(view, status="OK", worst="OK")


def _falls_behind(verdict: GroupVerdict, outlook: GroupOutlook) -> bool:
    """True if it makes progress, but is late and gets later: for how long, a look cannot see."""
    late = verdict.time_lag_s is not None and verdict.time_lag_s >= _LATE_S
    return late and outlook.whole.catch_up_reason is CatchUpReason.FALLING_BEHIND


def _silent(snapshot: ClusterSnapshot) -> Mapping[str, GroupInfo]:
    """Groups whose members hold messages, and of which no commit is known."""
    return {
        name: info
        for name, info in sorted(snapshot.info.items())
        if name not in snapshot.group_index and _holds_messages(info, snapshot.topics)
    }


def _holds_messages(info: GroupInfo, topics: TopicColumns) -> bool:
    for member in info.members:
        for topic, partitions in member.assignment:
            number = topics.index.get(topic)
            if number is None:
                continue
            first, end = topics.first[number : number + 2].tolist()
            at = [first + each for each in partitions if first + each < end]
            if (topics.log_end[at] > np.maximum(topics.log_start[at], 0)).any():
                return True
    return False


def _without_commits(cluster: str, info: GroupInfo) -> GroupView:
    held = sum(len(partitions) for member in info.members for _, partitions in member.assignment)
    return GroupView(
        cluster=cluster,
        group=info.group,
        status="UNKNOWN",
        rule=None,
        total_lag=None,
        unknown_partitions=held,
        time_lag_s=None,
        complete=0.0,
        partition_count=held,
        max_lag=None,
        partitions=(),
        worst="UNKNOWN",
        state=info.state,
        members=info.member_count,
        note=_NO_COMMIT,
    )
