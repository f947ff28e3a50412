"""One cluster's snapshot as one scrape sees it: which rows are shown, and what is derived.

A view lives for one scrape. Columns of partitions have one entry per row that is shown, columns
of (group, topic) pairs and of groups cover all rows. In all columns values below zero, and NaN,
are unknown. What is stale is unknown: the true value may be any other by now.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import (
    UNKNOWN,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    TimeLagBound,
    TimeLagReason,
    UnknownReason,
)
from lagwatch.core.snapshot import ClusterSnapshot, GroupColumns, RowColumns, TopicColumns

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = NDArray[np.integer]

STALE = "stale"
"""The reason why a partition of a stale group is unknown; the others are `UnknownReason`s."""

_NO_OWNERS: Mapping[tuple[str, int], Member] = {}

STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Dead",
    "NotReady",
)
"""Kafka's words for the state of a group; NotReady is of streams groups (KIP-1071)."""


class View:
    """A snapshot, and the choice of the rows and groups that get series of their own.

    `most_rows` rows are shown, all when it is 0: those that are not OK first, the worst first,
    then those with the greatest lag. `most_groups` chooses in the same way the groups that have
    more series than what alerts need.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        *,
        rebalances: Mapping[str, int] | None,
        most_rows: int,
        most_groups: int = 0,
    ) -> None:
        self.snapshot = snapshot
        self.rebalance_counts = rebalances
        self._most_rows = most_rows
        self._most_groups = most_groups

    @cached_property
    def stale(self) -> Bools:
        """By group: are its data too old to be shown?"""
        return self.snapshot.stale_groups()

    @cached_property
    def rows(self) -> RowColumns:
        """The rows; for stale groups every column that changes over time is unknown."""
        rows = self.snapshot.rows
        if not self.stale.any():
            return rows
        stale = self.stale[self.row_group]
        times = rows.every_time
        return replace(
            rows,
            times=times._replace(lag_ms=np.where(stale, UNKNOWN, times.lag_ms)).part,
            **{
                name: np.where(stale, UNKNOWN, getattr(rows, name))
                for name in ("lag", "readable_lag", "commit_ms", "committed")
            },
            status=np.where(stale, np.int8(PartitionStatus.UNKNOWN), rows.status),
        )

    @cached_property
    def group(self) -> GroupColumns:
        """The groups; for stale groups every column that changes over time is unknown."""
        group = self.snapshot.group
        if not self.stale.any():
            return group
        times = group.every_time
        return replace(
            group,
            times=times._replace(lag_ms=np.where(self.stale, UNKNOWN, times.lag_ms)).part,
            **{
                name: np.where(self.stale, UNKNOWN, getattr(group, name))
                for name in ("max_lag_row", "since_ms")
            },
            status=np.where(self.stale, np.int8(GroupStatus.UNKNOWN), group.status),
        )

    @cached_property
    def topics(self) -> TopicColumns:
        """The topics; without offsets while the whole cluster is stale."""
        topics = self.snapshot.topics
        if not self.snapshot.stale:
            return topics
        unknown = np.full(topics.log_end.size, UNKNOWN, np.int64)
        return replace(topics, log_start=unknown, log_end=unknown, leader=unknown.astype(np.int32))

    @cached_property
    def infos(self) -> list[GroupInfo | None]:
        """By group: what Kafka says about it; None unknown."""
        infos = map(self.snapshot.info.get, self.snapshot.groups)
        return [
            None if stale else info for info, stale in zip(infos, self.stale.tolist(), strict=True)
        ]

    @cached_property
    def shown(self) -> Int64:
        """Rows with series of their own, in order."""
        size = self.rows.lag.size
        if self._most_rows == 0 or size <= self._most_rows:
            return np.arange(size)
        trouble = _TROUBLE[self.rows.status]
        first = np.lexsort((-self.rows.lag, -trouble))[: self._most_rows]
        return np.sort(first)

    @cached_property
    def left_out(self) -> Bools:
        """By row: True if only sums include it."""
        out = np.ones(self.rows.lag.size, np.bool_)
        out[self.shown] = False
        return out

    @cached_property
    def row_group(self) -> Int64:
        """Group of every row."""
        first = self.snapshot.group.first
        return np.repeat(np.arange(first.size - 1), np.diff(first))

    @cached_property
    def detailed(self) -> Bools:
        """By group: does it have all its series?"""
        size = len(self.snapshot.groups)
        if self._most_groups == 0 or size <= self._most_groups:
            return np.ones(size, np.bool_)
        first = np.lexsort((-self.group_lag, -_GROUP_TROUBLE[self.group_status]))
        chosen = np.zeros(size, np.bool_)
        chosen[first[: self._most_groups]] = True
        return chosen

    @property
    def pair_detailed(self) -> Bools:
        """By (group, topic) pair: does the group have all its series?"""
        return self.detailed[self.row_group[self.pair_first]]

    # partitions of groups: by row that is shown

    def of_shown(self, column: NDArray[np.integer]) -> NDArray[np.integer]:
        """A column of rows, for those that are shown."""
        return column if self.shown.size == column.size else column[self.shown]

    @property
    def lag(self) -> NDArray[np.integer]:
        return self.of_shown(self.rows.lag)

    @property
    def readable_lag(self) -> NDArray[np.integer]:
        return self.of_shown(self.rows.readable_lag)

    @property
    def committed(self) -> NDArray[np.integer]:
        return self.of_shown(self.rows.committed)

    @property
    def time_lag_s(self) -> Float64:
        return seconds(self.of_shown(self.rows.time_lag_ms))

    @property
    def time_lag_bound(self) -> NDArray[np.integer]:
        """Number of the `TimeLagBound`."""
        return self.of_shown(_bound(self.rows.time_lag_ms, self.rows.time_lag_reason))

    @property
    def commit_age_s(self) -> Float64:
        return seconds(self._age_ms(self.of_shown(self.rows.commit_ms)))

    @property
    def status(self) -> NDArray[np.integer]:
        return self.of_shown(self.rows.status)

    @property
    def full(self) -> Bools:
        """Is the window full?"""
        full: Bools = self.of_shown(self.rows.commits) == self.snapshot.intervals
        return full

    @cached_property
    def owners(self) -> list[Member | None]:
        """Who holds the partition."""
        names = self.snapshot.topic_names
        held = [
            _NO_OWNERS if stale else self.snapshot.owners.get(group, _NO_OWNERS)
            for group, stale in zip(self.snapshot.groups, self.stale.tolist(), strict=True)
        ]
        return [
            held[group].get((names[topic], partition))
            for group, topic, partition in zip(
                self.of_shown(self.row_group).tolist(),
                self.of_shown(self.rows.topic).tolist(),
                self.of_shown(self.rows.partition).tolist(),
                strict=True,
            )
        ]

    @property
    def owned(self) -> Int64:
        """1 where a member holds the partition, else unknown."""
        return np.array([UNKNOWN if owner is None else 1 for owner in self.owners], np.int64)

    def _age_ms(self, at_ms: NDArray[np.integer]) -> NDArray[np.integer]:
        return np.where(at_ms >= 0, np.maximum(self.snapshot.at_ms - at_ms, 0), UNKNOWN)

    # (group, topic) pairs

    @cached_property
    def pair_first(self) -> Int64:
        """First row of every (group, topic) pair."""
        if not self.rows.lag.size:
            return np.zeros(0, np.int64)
        group, topic = self.row_group, self.rows.topic
        return np.append(0, np.flatnonzero((np.diff(group) != 0) | (np.diff(topic) != 0)) + 1)

    @property
    def pair_lag(self) -> Int64:
        """Sum of the known lags; unknown when there is none."""
        return _known_sum(self.rows.lag, self.pair_first)

    @property
    def pair_committed(self) -> Int64:
        """Sum of the committed offsets; unknown when one is."""
        return _whole_sum(self.rows.committed, self.pair_first)

    @property
    def pair_lost(self) -> Int64:
        """Messages deleted unread, so far."""
        return _sums(self._lost, self.pair_first)

    @cached_property
    def _lost(self) -> Int64:
        """Messages of each row that were counted as deleted unread, so far."""
        lost = self.snapshot.around.facts.lost
        if lost is None:
            return np.zeros(self.rows.lag.size, np.int64)
        return np.maximum(lost[self.rows.window], 0)

    # groups

    @property
    def group_lag(self) -> NDArray[np.integer]:
        """Sum of the known lags; unknown when there is none."""
        return np.where(self.group.max_lag_row >= 0, self.group.total_lag, UNKNOWN)

    @property
    def group_readable_lag(self) -> NDArray[np.integer]:
        """Sum of the known readable lags; unknown when there is none."""
        return np.where(self.group.max_lag_row >= 0, self.group.readable_lag, UNKNOWN)

    @property
    def group_max_lag(self) -> NDArray[np.integer]:
        row = self.group.max_lag_row
        return np.append(self.rows.lag, UNKNOWN)[row]

    @property
    def group_time_lag_s(self) -> Float64:
        return seconds(self.group.time_lag_ms)

    @property
    def group_time_lag_bound(self) -> NDArray[np.integer]:
        """Number of the `TimeLagBound`."""
        group = self.group
        return _bound(group.time_lag_ms, group.time_lag_reason)

    @property
    def group_status(self) -> NDArray[np.integer]:
        return self.group.status

    def group_partitions(self, status: PartitionStatus) -> Int64:
        """How many partitions have this status; unknown where none has."""
        count = _sums(self.rows.status == status, self.snapshot.group.first[:-1])
        return np.where(count > 0, count, UNKNOWN)

    @property
    def group_since_s(self) -> Float64:
        """Unix time at which the trouble began."""
        return seconds(self.group.since_ms)

    @property
    def group_rule(self) -> NDArray[np.integer]:
        """Number of the rule of the worst partition; unknown for groups that are OK or stale."""
        row = np.where(self.stale | (self.group_status == GroupStatus.OK), -1, self.group.worst_row)
        return np.append(self.rows.rule, np.int8(UNKNOWN))[row]

    @property
    def group_complete(self) -> Float64:
        return self.snapshot.group.complete.astype(np.float64).round(4)

    @cached_property
    def group_kind(self) -> list[str]:
        """Kafka's word for the kind of group, or what keeps its progress; "" unknown."""
        return ["" if info is None else info.type for info in self.infos]

    @property
    def kind_known(self) -> Int64:
        """1 where the kind is known, else -1."""
        known = np.array([bool(kind) for kind in self.group_kind], np.bool_)
        return np.where(known, 1, UNKNOWN)

    @cached_property
    def group_state(self) -> Int64:
        """Index into `STATES`."""
        number = {state: index for index, state in enumerate(STATES)}
        states = [
            UNKNOWN if info is None else number.get(info.state, UNKNOWN) for info in self.infos
        ]
        return np.array(states, np.int64)

    @property
    def group_members(self) -> Int64:
        counts = [None if info is None else info.member_count for info in self.infos]
        members = [UNKNOWN if count is None else count for count in counts]
        return np.where(self.group_state >= 0, np.array(members, np.int64), UNKNOWN)

    @property
    def group_rebalances(self) -> Int64:
        if self.rebalance_counts is None:
            return np.full(len(self.snapshot.groups), UNKNOWN, np.int64)
        counts = [self.rebalance_counts.get(group, 0) for group in self.snapshot.groups]
        return np.array(counts, np.int64)

    @property
    def group_lost(self) -> Int64:
        """Messages that were lost and are not skipped yet; unknown when nothing is known.

        Only of rows with a counted loss: a consumer that has its messages deleted once they are
        read, as Kafka Streams does, commits after that and loses nothing.
        """
        start = self.at_topic_partition(self.topics.log_start)
        known = (start >= 0) & (self.rows.committed >= 0)
        gone = np.where(self._lost > 0, np.maximum(start - self.rows.committed, 0), 0)
        return _known_sum(np.where(known, gone, UNKNOWN), self.snapshot.group.first[:-1])

    @property
    def group_retention_used(self) -> Float64:
        """Greatest share of the retained log that is ahead of the group, 0..1.

        Only of partitions from which retention removes messages: before that a log has no length
        of its own.
        """
        start = self.at_topic_partition(self.topics.retained_from)
        length = self.at_topic_partition(self.topics.log_end) - start
        known = (start > 0) & (length > 0) & (self.rows.lag >= 0)
        used = np.where(known, np.minimum(self.rows.lag / np.maximum(length, 1), 1), -1.0)
        heads = self.snapshot.group.first[:-1]
        return np.maximum.reduceat(used, heads) if heads.size else used

    @property
    def group_rest_lag(self) -> Int64:
        """Sum of the known lags of the rows that are not shown; unknown when there is none."""
        lag = np.where(self.left_out, self.rows.lag, UNKNOWN)
        return _known_sum(lag, self.snapshot.group.first[:-1])

    @property
    def group_rest(self) -> Int64:
        """Rows that are not shown; unknown when all are."""
        count = _sums(self.left_out.astype(np.int64), self.snapshot.group.first[:-1])
        return np.where(count > 0, count, UNKNOWN)

    def at_topic_partition(self, column: Int64) -> Int64:
        """A column of topic-partitions by row; unknown where the topic is not visible."""
        return np.append(column, UNKNOWN)[self.rows.at]

    # topics

    @property
    def topic_partitions(self) -> Int64:
        return np.diff(self.snapshot.topics.first)

    def topic_sum(self, column: Int64) -> Int64:
        """Sum over the partitions of each topic; unknown when one of them is."""
        first = self.snapshot.topics.first
        total, missing = _running(np.maximum(column, 0)), _running((column < 0).astype(np.int64))
        return np.where(np.diff(missing[first]) == 0, np.diff(total[first]), UNKNOWN)

    # topic-partitions

    def shown_offsets(self, column: NDArray[np.integer]) -> NDArray[np.integer]:
        """A column of topic-partitions; left out where only rows that are not shown are."""
        if self.shown.size == self.rows.lag.size:
            return column
        wanted = np.zeros(column.size + 1, np.bool_)
        wanted[self.rows.at[self.shown]] = True
        return np.where(wanted[:-1], column, UNKNOWN)

    # the cluster

    def unknown_rows(self) -> dict[str, int]:
        """Rows that were committed to, and whose lag cannot be seen, by reason."""
        stale = self.stale[self.row_group]
        reasons = self.snapshot.unknown_reasons()[~stale]
        numbers = np.bincount(reasons[reasons >= 0], minlength=len(UnknownReason))
        return {
            STALE: int(np.count_nonzero(stale)),
            **dict(zip(UnknownReason, numbers.tolist(), strict=True)),
        }


_BOUND_OF_REASON = np.array(
    [list(TimeLagBound).index(reason.bound) for reason in TimeLagReason], np.int8
)


def _bound(lag_ms: NDArray[np.integer], reason: NDArray[np.integer]) -> NDArray[np.integer]:
    unknown = list(TimeLagBound).index(TimeLagBound.UNKNOWN)
    return np.where(lag_ms >= 0, _BOUND_OF_REASON[reason], unknown)


def seconds(milliseconds: NDArray[np.integer]) -> Float64:
    """Milliseconds as seconds; what is below zero stays below zero."""
    return milliseconds / 1000


def _known_sum(column: NDArray[np.integer], first: Index) -> Int64:
    known = _sums((column >= 0).astype(np.int64), first)
    return np.where(known > 0, _sums(np.maximum(column, 0), first), UNKNOWN)


def _whole_sum(column: NDArray[np.integer], first: Index) -> Int64:
    unknown = _sums((column < 0).astype(np.int64), first)
    return np.where(unknown == 0, _sums(np.maximum(column, 0), first), UNKNOWN)


def _sums(column: NDArray[np.integer], first: Index) -> Int64:
    """Sum of each run of rows; no run is empty."""
    return np.add.reduceat(column.astype(np.int64, copy=False), first) if first.size else _NONE


_NONE: Int64 = np.zeros(0, np.int64)


def _running(column: Int64) -> Int64:
    return np.append(0, np.cumsum(column))


_TROUBLE = np.zeros(max(PartitionStatus) + 1, np.int8)
"""The order in which rows get series while `metrics.partition_budget` limits them."""
for _status in PartitionStatus:
    _TROUBLE[_status] = _status
_TROUBLE[PartitionStatus.OK] = 0
_TROUBLE[PartitionStatus.UNKNOWN] = 1

_GROUP_TROUBLE = np.zeros(max(GroupStatus) + 1, np.int8)
for _group_status in (GroupStatus.UNKNOWN, GroupStatus.WARN, GroupStatus.ERR):
    _GROUP_TROUBLE[_group_status] = max(_GROUP_TROUBLE) + 1
