"""One cluster's snapshot as one scrape sees it: which rows are shown, and what is derived.

A view lives for one scrape. Columns of partitions have one entry per row that is shown, columns
of (group, topic) pairs and of groups cover all rows. In all columns values below zero, and NaN,
are unknown.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Member, PartitionStatus, UnknownReason
from lagwatch.core.snapshot import ClusterSnapshot, RowColumns

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]
Index = NDArray[np.integer]

_NO_OWNERS: Mapping[tuple[str, int], Member] = {}

STATES = (
    "Stable",
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Dead",
)
"""Kafka's words for the state of a group, classic and KIP-848."""


class View:
    """A snapshot, and the choice of the rows that get series of their own.

    `most_rows` rows are shown, all when it is 0: those that are not OK first, the worst first,
    then those with the greatest lag.
    """

    def __init__(
        self, snapshot: ClusterSnapshot, *, rebalances: Mapping[str, int], most_rows: int
    ) -> None:
        self.snapshot = snapshot
        self.rebalance_counts = rebalances
        self._most_rows = most_rows

    @property
    def rows(self) -> RowColumns:
        return self.snapshot.rows

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
        """By row: is it only in the sums?"""
        out = np.ones(self.rows.lag.size, np.bool_)
        out[self.shown] = False
        return out

    @cached_property
    def row_group(self) -> Int64:
        """Group of every row."""
        first = self.snapshot.group.first
        return np.repeat(np.arange(first.size - 1), np.diff(first))

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
        held = [self.snapshot.owners.get(group, _NO_OWNERS) for group in self.snapshot.groups]
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
        lost = self.snapshot.around.facts.lost
        if lost is None:
            return np.zeros(self.pair_first.size, np.int64)
        return _sums(np.maximum(lost[self.rows.window], 0), self.pair_first)

    # groups

    @property
    def group_lag(self) -> NDArray[np.integer]:
        """Sum of the known lags; unknown when there is none."""
        group = self.snapshot.group
        return np.where(group.max_lag_row >= 0, group.total_lag, UNKNOWN)

    @property
    def group_readable_lag(self) -> NDArray[np.integer]:
        """Sum of the known readable lags; unknown when there is none."""
        group = self.snapshot.group
        return np.where(group.max_lag_row >= 0, group.readable_lag, UNKNOWN)

    @property
    def group_max_lag(self) -> NDArray[np.integer]:
        row = self.snapshot.group.max_lag_row
        return np.append(self.rows.lag, UNKNOWN)[row]

    @property
    def group_time_lag_s(self) -> Float64:
        return seconds(self.snapshot.group.time_lag_ms)

    @property
    def group_status(self) -> NDArray[np.integer]:
        return self.snapshot.group.status

    @property
    def group_complete(self) -> Float64:
        return self.snapshot.group.complete.astype(np.float64).round(4)

    @cached_property
    def group_state(self) -> Int64:
        """Index into `STATES`."""
        number = {state: index for index, state in enumerate(STATES)}
        infos = map(self.snapshot.info.get, self.snapshot.groups)
        states = [UNKNOWN if info is None else number.get(info.state, UNKNOWN) for info in infos]
        return np.array(states, np.int64)

    @property
    def group_members(self) -> Int64:
        infos = map(self.snapshot.info.get, self.snapshot.groups)
        members = [UNKNOWN if info is None else len(info.members) for info in infos]
        return np.where(self.group_state >= 0, np.array(members, np.int64), UNKNOWN)

    @property
    def group_rebalances(self) -> Int64:
        counts = [self.rebalance_counts.get(group, 0) for group in self.snapshot.groups]
        return np.array(counts, np.int64)

    @property
    def group_lost(self) -> Int64:
        """Messages that retention removed before they were read; unknown when nothing is known."""
        start = self.at_topic_partition(self.snapshot.topics.log_start)
        known = (start >= 0) & (self.rows.committed >= 0)
        lost = np.where(known, np.maximum(start - self.rows.committed, 0), UNKNOWN)
        return _known_sum(lost, self.snapshot.group.first[:-1])

    @property
    def group_retention_used(self) -> Float64:
        """Greatest share of the retained log that is ahead of the group, 0..1.

        Only of partitions from which retention has ever removed something: before that a log has
        no length of its own.
        """
        start = self.at_topic_partition(self.snapshot.topics.log_start)
        length = self.at_topic_partition(self.snapshot.topics.log_end) - start
        known = (start > 0) & (length > 0) & (self.rows.lag >= 0)
        used = np.where(known, np.minimum(self.rows.lag / np.maximum(length, 1), 1), -1.0)
        heads = self.snapshot.group.first[:-1]
        return np.maximum.reduceat(used, heads) if heads.size else used

    @property
    def group_rest_lag(self) -> Int64:
        """Sum of the known lags of the rows that are not shown; unknown when all are shown."""
        lag = np.where(self.left_out, np.maximum(self.rows.lag, 0), 0)
        sums = _sums(lag, self.snapshot.group.first[:-1])
        return np.where(self.group_rest > 0, sums, UNKNOWN)

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

    def unknown_rows(self) -> dict[UnknownReason, int]:
        """Rows whose lag is not known, by reason."""
        at = self.rows.at[self.rows.lag < 0]
        visible = at[at >= 0]
        no_leader = int(np.count_nonzero(self.snapshot.topics.leader[visible] < 0))
        asked = self.snapshot.data_ms >= 0
        return {
            UnknownReason.TOPIC_NOT_VISIBLE: int(at.size - visible.size),
            UnknownReason.NOT_POLLED_YET: 0 if asked else int(visible.size),
            UnknownReason.NO_LEADER: no_leader if asked else 0,
            UnknownReason.REFUSED: int(visible.size) - no_leader if asked else 0,
        }


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
"""How much a status deserves to be shown."""
for _status in PartitionStatus:
    _TROUBLE[_status] = _status
_TROUBLE[PartitionStatus.OK] = 0
_TROUBLE[PartitionStatus.UNKNOWN] = 1
