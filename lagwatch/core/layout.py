"""Which rows there are and how they group: the order of a snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.snapshot import TopicColumns

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which rows there are and how they group; the same object until rows or topics change."""

    groups: tuple[str, ...]
    group_index: Mapping[str, int]
    group_first: Int64
    """[groups + 1]"""
    partition_count: Int64
    """[groups]"""
    topic_names: tuple[str, ...]
    window: Int32
    """Row of the window store, by row of the snapshot."""
    topic: Int32
    partition: Int32
    at: Int32
    at_stored: Int32
    """[rows of the window store] position among all topic-partitions; -1 unknown or unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowIds:
    """Which group-partition each stored row is of; -1 in unused rows. Shape [stored rows]."""

    group: Int32
    """Index into `group_names`."""
    topic: Int32
    """Index into `topic_names`."""
    partition: Int32
    at: Int32
    """Position among all topic-partitions; -1 when the topic is not visible."""
    group_names: Sequence[str]
    topic_names: Sequence[str]


def lay_out(ids: RowIds, topics: TopicColumns) -> Layout:
    """Sort the rows in use by (group, topic, partition) and find where each group begins."""
    window = np.flatnonzero(ids.group >= 0)
    group_rank, groups = _ranks(ids.group_names, ids.group[window])
    topic_rank, topic_names = _ranks(ids.topic_names, ids.topic[window])
    order = np.lexsort((ids.partition[window], topic_rank, group_rank))
    window, group, topic = window[order], group_rank[order], topic_rank[order]
    partition = ids.partition[window]
    sizes = np.array(
        [_size(topics, topics.index.get(name, UNKNOWN)) for name in topic_names], np.int64
    )
    return Layout(
        groups=groups,
        group_index={name: index for index, name in enumerate(groups)},
        group_first=np.searchsorted(group, np.arange(len(groups) + 1)).astype(np.int64),
        partition_count=_partition_counts(group, topic, partition, sizes, len(groups)),
        topic_names=topic_names,
        window=window.astype(np.int32),
        topic=topic.astype(np.int32),
        partition=partition,
        at=ids.at[window],
        at_stored=ids.at,
    )


def _size(topics: TopicColumns, topic: int) -> int:
    """Partitions of a topic; 0 when it is not visible."""
    return 0 if topic < 0 else int(topics.first[topic + 1] - topics.first[topic])


def _ranks(names: Sequence[str], ids: Int32) -> tuple[Int64, tuple[str, ...]]:
    """Each id's position among the names in use, sorted; and those names."""
    ordered = sorted(np.unique(ids).tolist(), key=names.__getitem__)
    rank = np.zeros(len(names), np.int64)
    rank[ordered] = np.arange(len(ordered))
    return rank[ids], tuple(names[i] for i in ordered)


def _partition_counts(
    group: Int64, topic: Int64, partition: Int32, sizes: Int64, groups: int
) -> Int64:
    """Per group: all partitions of every topic it committed to."""
    counts = np.zeros(groups, np.int64)
    if group.size == 0:
        return counts
    last = np.ones(group.size, np.bool_)
    last[:-1] = (group[1:] != group[:-1]) | (topic[1:] != topic[:-1])
    # a topic that is not visible has at least the partitions that were committed
    known = np.maximum(sizes[topic[last]], partition[last] + 1)
    np.add.at(counts, group[last], known)
    return counts
