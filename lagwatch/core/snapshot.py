"""One immutable moment of one cluster: what every reader reads.

Rows are group-partitions that have committed, sorted by (group, topic, partition); the rows of
group `g` are `group.first[g]:group.first[g + 1]`. Topic-partitions are numbered densely: those of
topic `t` are `topics.first[t]:topics.first[t + 1]`. In all integer columns -1 means unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo, Member

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicColumns:
    """All visible topics, sorted by name, and their partitions."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    first: Int64
    """[topics + 1]"""
    log_start: Int64
    log_end: Int64
    last_stable: Int64
    """Last stable offset: what a read_committed consumer can reach."""
    leader: Int32
    """Broker id; -1 none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowColumns:
    """One row per committed group-partition; shape [rows] each."""

    topic: Int32
    """Index into `ClusterSnapshot.topic_names`."""
    partition: Int32
    at: Int32
    """Position among all topic-partitions (`TopicColumns`); -1 when the topic is not visible."""
    window: Int32
    """Row in the live window store."""
    status: Int8
    rule: Int8
    commits: Int8
    """Entries in the window."""
    committed: Int64
    """Committed offset."""
    commit_ms: Int64
    """When it was committed."""
    lag: Int64
    lowest_lag: Int64
    """Lowest known lag in the window of a row that is behind; -1 when not looked at."""
    time_lag_ms: Int64
    time_lag_reason: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupColumns:
    """One entry per group; shape [groups] each."""

    first: Int64
    """[groups + 1]"""
    status: Int8
    worst_row: Int64
    """The row that decided the status; -1 when no row is known."""
    max_lag_row: Int64
    """First row with the greatest known lag; -1 when there is none."""
    total_lag: Int64
    complete: Float32
    partition_count: Int64
    """All partitions of every topic the group committed to."""
    unknown: Int64
    """Rows whose lag is not known."""
    time_lag_ms: Int64
    time_lag_reason: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """What was known about one cluster at `at_ms`."""

    cluster: str
    at_ms: EpochMs
    """When the round was judged."""
    judged_ms: EpochMs
    """As of when: up to here commits and log ends were known. At most `at_ms`."""
    data_ms: EpochMs
    """When the newest log end offsets were read; -1 when never."""
    round: int
    intervals: int
    """Slots of a full window."""
    allowed_lag: int
    groups: tuple[str, ...]
    group_index: Mapping[str, int]
    topic_names: tuple[str, ...]
    """Names behind `rows.topic`; includes topics that are not visible (any more)."""
    topics: TopicColumns
    rows: RowColumns
    group: GroupColumns
    info: Mapping[str, GroupInfo]
    owners: Mapping[str, Mapping[tuple[str, int], Member]]
    """Per group: who holds a partition."""
    rewinds: Mapping[int, tuple[int, int]]
    """Row of the window store → (offset before, offset after) of the rewind it shows."""
    recent_end: Int64
    """Lowest log end of the last while, per topic-partition: was a silent group at the end?"""
