"""Burrow's own /metrics.

Statuses are Burrow's numbers: 1 OK, 2 WARN, 3 ERR for groups; 1 OK, 2 WARN, 4 STOP, 5 STALL,
6 REWIND for partitions. As in Burrow, status and offset appear once the window is full.

Source: Burrow, core/internal/httpserver/prometheus.go.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, GroupStatus, PartitionStatus
from lagwatch.metrics import labels as by
from lagwatch.metrics.labels import Dialect
from lagwatch.metrics.source import Profile, column
from lagwatch.metrics.view import View


def _group_status(view: View) -> NDArray[np.integer]:
    status = view.group_status
    return np.where(status == GroupStatus.UNKNOWN, UNKNOWN, status)


def _status(view: View) -> NDArray[np.integer]:
    known = view.full & (view.status != PartitionStatus.UNKNOWN)
    return np.where(known, view.status, UNKNOWN)


def _committed(view: View) -> NDArray[np.integer]:
    return np.where(view.full, view.committed, UNKNOWN)


BURROW: Final = Profile(
    name="burrow",
    names=Dialect(group="consumer_group"),
    columns=(
        column(
            "burrow_kafka_consumer_lag_total",
            by.of_groups,
            lambda view: view.group_lag,
            "Sum of the lags of all partitions of the group.",
        ),
        column(
            "burrow_kafka_consumer_status",
            by.of_groups,
            _group_status,
            "Verdict on the group: 1 OK, 2 WARN, 3 ERR.",
        ),
        column(
            "burrow_kafka_topic_partition_status",
            by.of_partitions,
            _status,
            "Verdict on the partition: 1 OK, 2 WARN, 4 STOP, 5 STALL, 6 REWIND.",
        ),
        column(
            "burrow_kafka_consumer_current_offset",
            by.of_partitions,
            _committed,
            "Committed offset.",
        ),
        column(
            "burrow_kafka_consumer_partition_lag",
            by.of_partitions,
            lambda view: view.lag,
            "Lag of the partition.",
        ),
        column(
            "burrow_kafka_topic_partition_offset",
            by.of_topic_partitions,
            lambda view: view.shown_offsets(view.topics.log_end),
            "Log end offset.",
        ),
    ),
)
