"""Finding the same group-partition in two snapshots."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.snapshot import ClusterSnapshot

Int64 = NDArray[np.int64]


def same_rows(before: ClusterSnapshot, after: ClusterSnapshot) -> bool:
    """True if both have the same rows in the same order.

    The live state lays rows out anew only when some come or go, so looking at identity suffices.
    """
    return before.rows.window is after.rows.window and before.groups is after.groups


def positions(before: ClusterSnapshot, after: ClusterSnapshot) -> Int64:
    """Of every row of `after` its row in `before`; -1 for a new one. Shape [rows of after]."""
    if same_rows(before, after):
        return np.arange(after.rows.partition.size)
    group = _numbers(before.groups, after.groups)[group_of_rows(after)]
    topic = _numbers(before.topic_names, after.topic_names)[after.rows.topic]
    width = 1 + max(_most(before), _most(after))
    topics = len(before.topic_names)
    wanted = (group * topics + topic) * width + after.rows.partition
    # rows are sorted by group, topic and partition, so these numbers rise
    held = (group_of_rows(before) * topics + before.rows.topic) * width + before.rows.partition
    place = np.minimum(np.searchsorted(held, wanted), max(held.size - 1, 0))
    if held.size == 0:
        return np.full(wanted.size, UNKNOWN, np.int64)
    found = (group >= 0) & (topic >= 0) & (held[place] == wanted)
    return np.where(found, place, UNKNOWN)


def group_positions(before: ClusterSnapshot, after: ClusterSnapshot) -> Int64:
    """Of every group of `after` its number in `before`; -1 for a new one."""
    if before.groups is after.groups:
        return np.arange(len(after.groups))
    return _numbers(before.groups, after.groups)


def group_of_rows(snapshot: ClusterSnapshot) -> Int64:
    """Of every row the number of its group."""
    return np.repeat(np.arange(len(snapshot.groups)), np.diff(snapshot.group.first))


def _numbers(before: Sequence[str], after: Sequence[str]) -> Int64:
    number = {name: index for index, name in enumerate(before)}
    return np.array([number.get(name, UNKNOWN) for name in after], np.int64)


def _most(snapshot: ClusterSnapshot) -> int:
    return int(snapshot.rows.partition.max(initial=0))
