"""The names of kafka_exporter, which Strimzi and many dashboards use.

Its own series have no label `cluster`; these do, to distinguish clusters.
"""

from typing import Final

from lagwatch.metrics import labels as by
from lagwatch.metrics.labels import Dialect
from lagwatch.metrics.source import Profile, column

KAFKA_EXPORTER: Final = Profile(
    name="kafka_exporter",
    names=Dialect(group="consumergroup"),
    columns=(
        column(
            "kafka_topic_partitions",
            by.of_topics,
            lambda view: view.topic_partitions,
            "Partitions of the topic.",
        ),
        column(
            "kafka_topic_partition_current_offset",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_end),
            "Log end offset.",
        ),
        column(
            "kafka_topic_partition_oldest_offset",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_start),
            "Log start offset.",
        ),
        column(
            "kafka_topic_partition_leader",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.leader),
            "Id of the broker that leads the partition.",
        ),
        column(
            "kafka_consumergroup_current_offset",
            by.of_partitions,
            lambda view: view.committed,
            "Committed offset.",
        ),
        column(
            "kafka_consumergroup_current_offset_sum",
            by.of_group_topics,
            lambda view: view.pair_committed,
            "Sum of the committed offsets of the topic's partitions.",
        ),
        column(
            "kafka_consumergroup_lag",
            by.of_partitions,
            lambda view: view.lag,
            "Lag of the partition.",
        ),
        column(
            "kafka_consumergroup_lag_sum",
            by.of_group_topics,
            lambda view: view.pair_lag,
            "Sum of the lags of the topic's partitions.",
        ),
        column(
            "kafka_consumergroup_members",
            by.of_groups,
            lambda view: view.group_members,
            "Members of the group.",
        ),
    ),
)
