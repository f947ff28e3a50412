"""Which partitions say the same in two rounds, so that they need no row in the later one."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Member
from lagwatch.core.record import Capture
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.history.match import group_positions, positions, same_rows

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_OF_ROWS: Final = (
    *("committed", "commit_ms", "lag", "time_lag_ms", "time_lag_reason", "status", "rule"),
    "commits",
)
_OF_PARTITIONS: Final = ("log_end", "log_start")
_OF_VERDICTS: Final = (
    *("committed", "commit_ms", "lag", "readable_lag", "status", "rule", "since_ms", "limit_ms"),
)


def unchanged(before: Capture, after: Capture) -> Bools:
    """Mask of the rows of `after` whose samples differ from those of `before` by instants only.

    Compares what samples are made from: where nothing happened that is the same array, and no
    sample need be made to find that out.
    """
    old, new = before.snapshot, after.snapshot
    if not old.rows.partition.size:
        return np.zeros(new.rows.partition.size, np.bool_)
    place = None if same_rows(old, new) else positions(old, new)
    same = np.ones(new.rows.partition.size, np.bool_) if place is None else place >= 0
    for name in _OF_ROWS:
        _demand_equal(same, getattr(old.rows, name), getattr(new.rows, name), place)
    for name in _OF_PARTITIONS:
        _demand_equal_partitions(same, old, new, name, place)
    known, ids = _topic_ids(old, new)
    if known != ids or old.topic_names != new.topic_names:
        number = {word: code for code, word in enumerate({*known, *ids})}
        codes = (np.array([number[word] for word in each], np.int64) for each in (known, ids))
        earlier, later = next(codes)[old.rows.topic], next(codes)[new.rows.topic]
        _demand_equal(same, earlier, later, place)
    changed = _changed_groups(old, new)
    if changed.any():
        same &= ~np.repeat(changed, np.diff(new.group.first))
    _demand_same_members(same, old, new)
    return same


def resting_groups(old: ClusterSnapshot, new: ClusterSnapshot) -> frozenset[str]:
    """Groups that moved nowhere and are judged as before: causes and forecasts stay the same."""
    if not old.rows.partition.size:
        return frozenset()
    place = None if same_rows(old, new) else positions(old, new)
    same = np.ones(new.rows.partition.size, np.bool_) if place is None else place >= 0
    for name in _OF_VERDICTS:
        _demand_equal(same, getattr(old.rows, name), getattr(new.rows, name), place)
    for name in _OF_PARTITIONS:
        _demand_equal_partitions(same, old, new, name, place)
    rests = ~_changed_groups(old, new)
    rests &= np.logical_and.reduceat(same, new.group.first[:-1]) if same.size else True
    return frozenset(
        group
        for group in (new.groups[number] for number in np.flatnonzero(rests).tolist())
        if old.owners.get(group) is new.owners.get(group)
    )


def _demand_equal(
    same: Bools, before: NDArray[np.integer], after: NDArray[np.integer], place: Int64 | None
) -> None:
    """Clear the mask where two columns differ; rows of `after` were at `place` before."""
    if place is not None:
        same &= before[place] == after
    elif before is not after:
        same &= before == after


def _demand_equal_partitions(
    same: Bools, old: ClusterSnapshot, new: ClusterSnapshot, name: str, place: Int64 | None
) -> None:
    """The same for a column of topic-partitions."""
    before, after = getattr(old.topics, name), getattr(new.topics, name)
    if old.rows.at is not new.rows.at or before.size != after.size:
        _demand_equal(same, _by_row(old, name), _by_row(new, name), place)
    elif (moved := before != after).any():
        same &= ~np.append(moved, False)[new.rows.at]


def _by_row(snapshot: ClusterSnapshot, name: str) -> Int64:
    """A column of topic-partitions by row; -1 where the topic is not visible."""
    column: Int64 = getattr(snapshot.topics, name)
    return np.append(column, UNKNOWN)[snapshot.rows.at]


def _topic_ids(old: ClusterSnapshot, new: ClusterSnapshot) -> tuple[list[str], list[str]]:
    """The id of each topic that rows name; "" unknown."""
    known, ids = (
        [
            "" if (place := each.topics.index.get(name)) is None else each.topics.ids[place]
            for name in each.topic_names
        ]
        for each in (old, new)
    )
    return known, ids


def _changed_groups(old: ClusterSnapshot, new: ClusterSnapshot) -> Bools:
    """Groups with another status, or another state in Kafka, than before, and new ones."""
    place = group_positions(old, new)
    changed: Bools = np.append(old.group.status, UNKNOWN)[place] != new.group.status
    states = zip(_states(old, new.groups), _states(new, new.groups), strict=True)
    return changed | np.array([before != after for before, after in states], np.bool_)


def _states(snapshot: ClusterSnapshot, groups: Sequence[str]) -> list[str | None]:
    infos = map(snapshot.info.get, groups)
    return [None if info is None else info.state for info in infos]


def _demand_same_members(same: Bools, old: ClusterSnapshot, new: ClusterSnapshot) -> None:
    """Clear the mask of rows whose partition another member holds than before."""
    for number, group in enumerate(new.groups):
        before, after = old.owners.get(group), new.owners.get(group)
        # the same object as long as the group's members stay the same
        if before is after:
            continue
        rows = range(int(new.group.first[number]), int(new.group.first[number + 1]))
        topics = new.rows.topic[rows.start : rows.stop].tolist()
        partitions = new.rows.partition[rows.start : rows.stop].tolist()
        for row, topic, partition in zip(rows, topics, partitions, strict=True):
            where = new.topic_names[topic], partition
            same[row] &= _said((before or {}).get(where)) == _said((after or {}).get(where))


def _said(member: Member | None) -> tuple[str, str] | None:
    """What a sample says of the member that holds its partition."""
    return None if member is None else (member.host, member.client_id)
