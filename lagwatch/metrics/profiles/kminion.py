"""The names of KMinion.

Its own series have no label `cluster`; these do, to distinguish clusters.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, GroupInfo
from lagwatch.metrics import labels as by
from lagwatch.metrics.labels import Dialect, escape
from lagwatch.metrics.source import Profile, column
from lagwatch.metrics.view import View

Int64 = NDArray[np.int64]


def _of_infos(view: View, names: Dialect) -> Sequence[str]:
    """The labels of groups and, behind them, what is known about each."""
    infos = map(view.snapshot.info.get, view.snapshot.groups)
    return [head + _info(info) for head, info in zip(by.of_groups(view, names), infos, strict=True)]


def _info(info: GroupInfo | None) -> str:
    if info is None:
        return ""
    return (
        f',protocol="{escape(info.assignor)}",protocol_type="consumer"'
        f',state="{escape(info.state)}",coordinator_id="{info.coordinator}"'
    )


def _ones(view: View) -> Int64:
    infos = map(view.snapshot.info.get, view.snapshot.groups)
    return np.array([UNKNOWN if info is None else 1 for info in infos], np.int64)


def _idle_members(view: View) -> Int64:
    """Members that hold nothing."""
    infos = map(view.snapshot.info.get, view.snapshot.groups)
    idle = [
        UNKNOWN if info is None else sum(not member.assignment for member in info.members)
        for info in infos
    ]
    return np.where(view.group_members >= 0, np.array(idle, np.int64), UNKNOWN)


def _topic_members(view: View) -> Int64:
    """Members that hold a partition, by (group, topic) pair."""
    return _over_pairs(view, lambda _: 1)


def _topic_assigned(view: View) -> Int64:
    """Partitions that a member holds, by (group, topic) pair."""
    return _over_pairs(view, len)


def _over_pairs(view: View, weight: Callable[[tuple[int, ...]], int]) -> Int64:
    totals: Counter[tuple[str, str]] = Counter()
    for group, info in view.snapshot.info.items():
        for member in info.members:
            for topic, partitions in member.assignment:
                totals[group, topic] += weight(partitions)
    members = view.group_members
    groups, topics = view.row_group[view.pair_first], view.rows.topic[view.pair_first]
    counts = [
        totals[view.snapshot.groups[group], view.snapshot.topic_names[topic]]
        for group, topic in zip(groups.tolist(), topics.tolist(), strict=True)
    ]
    return np.where(members[groups] >= 0, np.array(counts, np.int64), UNKNOWN)


KMINION: Final = Profile(
    name="kminion",
    names=Dialect(group="group_id", topic="topic_name", partition="partition_id"),
    columns=(
        column(
            "kminion_kafka_consumer_group_info", _of_infos, _ones, "What is known about the group."
        ),
        column(
            "kminion_kafka_consumer_group_members",
            by.of_groups,
            lambda view: view.group_members,
            "Members of the group.",
        ),
        column(
            "kminion_kafka_consumer_group_empty_members",
            by.of_groups,
            _idle_members,
            "Members that hold no partition.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_members",
            by.of_group_topics,
            _topic_members,
            "Members that hold a partition of the topic.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_assigned_partitions",
            by.of_group_topics,
            _topic_assigned,
            "Partitions of the topic that a member holds.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_offset_sum",
            by.of_group_topics,
            lambda view: view.pair_committed,
            "Sum of the committed offsets of the topic's partitions.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_lag",
            by.of_group_topics,
            lambda view: view.pair_lag,
            "Sum of the lags of the topic's partitions.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_partition_lag",
            by.of_partitions,
            lambda view: view.lag,
            "Lag of the partition.",
        ),
        column(
            "kminion_kafka_topic_partition_low_water_mark",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.snapshot.topics.log_start),
            "Log start offset.",
        ),
        column(
            "kminion_kafka_topic_partition_high_water_mark",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.snapshot.topics.log_end),
            "Log end offset.",
        ),
        column(
            "kminion_kafka_topic_low_water_mark_sum",
            by.of_topics,
            lambda view: view.topic_sum(view.snapshot.topics.log_start),
            "Sum of the log start offsets of all partitions.",
        ),
        column(
            "kminion_kafka_topic_high_water_mark_sum",
            by.of_topics,
            lambda view: view.topic_sum(view.snapshot.topics.log_end),
            "Sum of the log end offsets of all partitions.",
        ),
    ),
)
