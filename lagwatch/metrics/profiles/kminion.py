"""The names of KMinion.

Its own series have no label `cluster`; these do, to distinguish clusters. As in KMinion, counts of
members that hold nothing or a topic have no line for none.

Source: KMinion, prometheus/collect_consumer_groups.go, collect_topic_partition_offsets.go.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch import __version__
from lagwatch.core.model import UNKNOWN, GroupInfo
from lagwatch.metrics import labels as by
from lagwatch.metrics.labels import Dialect, escape
from lagwatch.metrics.source import Profile, column
from lagwatch.metrics.view import View

Int64 = NDArray[np.int64]


def _of_exporter(view: View, names: Dialect) -> Sequence[str]:
    (head,) = by.of_cluster(view, names)
    return [f'{head},version="{__version__}"']


def _of_infos(view: View, names: Dialect) -> Sequence[str]:
    """The labels of groups and, behind them, what is known about each."""
    heads = by.of_groups(view, names)
    return [head + _info(info) for head, info in zip(heads, view.infos, strict=True)]


def _info(info: GroupInfo | None) -> str:
    """Empty, as if the label were not there, is what is not known: an idle group is only listed."""
    if info is None:
        return ""
    coordinator = "" if info.coordinator == UNKNOWN else info.coordinator
    return (
        f',protocol="{escape(info.assignor)}",protocol_type="consumer"'
        f',state="{escape(info.state)}",coordinator_id="{coordinator}"'
    )


def _is_stable(view: View) -> Int64:
    """1 for Stable, 0 for the other states."""
    stable = [UNKNOWN if info is None else int(info.state == "Stable") for info in view.infos]
    return np.where(view.group_state >= 0, np.array(stable, np.int64), UNKNOWN)


def _idle_members(view: View) -> Int64:
    """Members that hold no partition; no line where the number is 0."""
    idle = [
        UNKNOWN if info is None else sum(not member.assignment for member in info.members)
        for info in view.infos
    ]
    return _above_zero(np.array(idle, np.int64))


def _above_zero(counts: Int64) -> Int64:
    return np.where(counts > 0, counts, UNKNOWN)


def _of_held_topics(view: View, names: Dialect) -> Sequence[str]:
    """By (group, topic) of which a member holds partitions, also before the first commit."""
    heads = by.of_groups(view, names)
    return [
        f'{heads[group]},{names.topic}="{escape(topic)}"' for group, topic in _held_topics(view)
    ]


def _topic_members(view: View) -> Int64:
    """Members that hold partitions of the topic."""
    return np.array([len(held) for held in _held_topics(view).values()], np.int64)


def _topic_assigned(view: View) -> Int64:
    """Partitions of the topic that members hold."""
    return np.array([sum(held) for held in _held_topics(view).values()], np.int64)


def _held_topics(view: View) -> Mapping[tuple[int, str], list[int]]:
    """(index of the group, topic) → for each member that holds some, how many partitions."""
    held: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for group, info in enumerate(view.infos):
        for member in info.members if info is not None else ():
            for topic, partitions in member.assignment:
                held[group, topic].append(len(partitions))
    return held


KMINION: Final = Profile(
    name="kminion",
    names=Dialect(group="group_id", topic="topic_name", partition="partition_id"),
    columns=(
        column(
            "kminion_exporter_up",
            _of_exporter,
            lambda view: np.array([not view.snapshot.stale], np.int64),
            "1 while the data of the cluster are fresh, else 0.",
        ),
        column(
            "kminion_kafka_consumer_group_info",
            _of_infos,
            _is_stable,
            "1 for a group in the state Stable, else 0.",
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
            _of_held_topics,
            _topic_members,
            "Members that hold a partition of the topic.",
        ),
        column(
            "kminion_kafka_consumer_group_topic_assigned_partitions",
            _of_held_topics,
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
            lambda view: view.shown_offsets(view.topics.log_start),
            "Log start offset.",
        ),
        column(
            "kminion_kafka_topic_partition_high_water_mark",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_end),
            "Log end offset.",
        ),
        column(
            "kminion_kafka_topic_low_water_mark_sum",
            by.of_topics,
            lambda view: view.topic_sum(view.topics.log_start),
            "Sum of the log start offsets of all partitions.",
        ),
        column(
            "kminion_kafka_topic_high_water_mark_sum",
            by.of_topics,
            lambda view: view.topic_sum(view.topics.log_end),
            "Sum of the log end offsets of all partitions.",
        ),
    ),
)
