"""The names of kafka-lag-exporter, which klag-exporter shares.

The state is klag-exporter's number: 1 PreparingRebalance, 2 CompletingRebalance, 3 Stable, 4 Dead,
5 Empty, 6 Assigning, 7 Reconciling.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Member
from lagwatch.metrics import labels as by
from lagwatch.metrics.labels import Dialect, escape
from lagwatch.metrics.source import Profile, column
from lagwatch.metrics.view import STATES, View

_STATES: Final = (
    *("Unknown", "PreparingRebalance", "CompletingRebalance", "Stable"),
    *("Dead", "Empty", "Assigning", "Reconciling"),
)
_NUMBERS: Final = np.array(
    [_STATES.index(state) if state in _STATES else UNKNOWN for state in STATES] + [UNKNOWN],
    np.int64,
)


def _owner(owner: Member | None) -> str:
    host, consumer, client = (
        (owner.host, owner.member_id, owner.client_id) if owner is not None else ("", "", "")
    )
    return (
        f',member_host="{escape(host)}",consumer_id="{escape(consumer)}"'
        f',client_id="{escape(client)}"'
    )


def _members(view: View) -> Iterable[str]:
    return by.of_owners(view, _owner)


def _state(view: View) -> NDArray[np.integer]:
    return _NUMBERS[view.group_state]


KAFKA_LAG_EXPORTER: Final = Profile(
    name="kafka_lag_exporter",
    names=Dialect(cluster="cluster_name"),
    columns=(
        column(
            "kafka_consumergroup_group_offset",
            by.of_partitions,
            lambda view: view.committed,
            "Committed offset.",
            tails=_members,
        ),
        column(
            "kafka_consumergroup_group_lag",
            by.of_partitions,
            lambda view: view.lag,
            "Lag of the partition.",
            tails=_members,
        ),
        column(
            "kafka_consumergroup_group_lag_seconds",
            by.of_partitions,
            lambda view: view.time_lag_s,
            "Time lag of the partition in seconds.",
            tails=_members,
        ),
        column(
            "kafka_consumergroup_group_max_lag",
            by.of_groups,
            lambda view: view.group_max_lag,
            "Greatest lag of a partition.",
        ),
        column(
            "kafka_consumergroup_group_max_lag_seconds",
            by.of_groups,
            lambda view: view.group_time_lag_s,
            "Greatest time lag of a partition in seconds.",
        ),
        column(
            "kafka_consumergroup_group_sum_lag",
            by.of_groups,
            lambda view: view.group_lag,
            "Sum of the lags of all partitions.",
        ),
        column(
            "kafka_consumergroup_group_topic_sum_lag",
            by.of_group_topics,
            lambda view: view.pair_lag,
            "Sum of the lags of the topic's partitions.",
        ),
        column(
            "kafka_consumergroup_group_state",
            by.of_groups,
            _state,
            "State of the group: 3 Stable, 5 Empty, others in between.",
        ),
        column(
            "kafka_partition_latest_offset",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_end),
            "Log end offset.",
        ),
        column(
            "kafka_partition_earliest_offset",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_start),
            "Log start offset.",
        ),
    ),
)
