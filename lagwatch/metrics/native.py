"""Where the values of our own metrics come from, as far as they are columns of a snapshot."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import (
    UNKNOWN,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    TimeLagBound,
)
from lagwatch.metrics import labels as by
from lagwatch.metrics import table
from lagwatch.metrics.labels import escape
from lagwatch.metrics.source import ColumnSource, Counts, MetricSource, States, Values
from lagwatch.metrics.view import STATES, View

_NOT_OK: Final = tuple(status for status in PartitionStatus if status is not PartitionStatus.OK)
_GROUP_STATUSES: Final = tuple(
    status for status in GroupStatus if status is not GroupStatus.NOTFOUND
)


_RULE_PLACES: Final = np.full(max(Rule) + 2, -1, np.int8)
"""Place of each rule in `Rule`; the last entry is for -1, unknown."""
_RULE_PLACES[list(Rule)] = np.arange(len(Rule))


def _owner_labels(owner: Member | None) -> str:
    if owner is None:
        return ""
    return (
        f',member_host="{escape(owner.host)}",client_id="{escape(owner.client_id)}"'
        f',instance_id="{escape(owner.instance_id)}"'
    )


def _of_detailed(view: View, values: Values) -> Values:
    """A column of groups, for those that have all their series; what alerts need is for all."""
    kept: Values = np.where(view.detailed, values, UNKNOWN)
    return kept


def _code(statuses: Sequence[int], column: NDArray[np.integer]) -> NDArray[np.int8]:
    """Position of each status; -1 for one that is not among them."""
    positions: NDArray[np.int8] = np.full(max(*PartitionStatus, *GroupStatus) + 1, -1, np.int8)
    positions[list(statuses)] = np.arange(len(statuses))
    codes: NDArray[np.int8] = positions[column]
    return codes


_INEXACT: Final = (TimeLagBound.AT_LEAST, TimeLagBound.AT_MOST, TimeLagBound.ESTIMATE)


def _bound_code(bounds: Sequence[TimeLagBound], column: NDArray[np.integer]) -> NDArray[np.int8]:
    """Position of each bound, given by its number; -1 for one that is not among them."""
    numbers = [bounds.index(each) if each in bounds else -1 for each in TimeLagBound]
    codes: NDArray[np.int8] = np.array(numbers, np.int8)[column]
    return codes


COLUMNS: Final[tuple[MetricSource, ...]] = (
    ColumnSource(metric=table.LAG, labels=by.of_partitions, values=lambda view: view.lag),
    ColumnSource(
        metric=table.READABLE_LAG, labels=by.of_partitions, values=lambda view: view.readable_lag
    ),
    ColumnSource(
        metric=table.TIME_LAG, labels=by.of_partitions, values=lambda view: view.time_lag_s
    ),
    States(
        metric=table.TIME_LAG_BOUND,
        labels=by.of_partitions,
        states=_INEXACT,
        codes=lambda view: _bound_code(_INEXACT, view.time_lag_bound),
        only_held=True,
    ),
    ColumnSource(
        metric=table.COMMITTED, labels=by.of_partitions, values=lambda view: view.committed
    ),
    ColumnSource(
        metric=table.COMMIT_AGE, labels=by.of_partitions, values=lambda view: view.commit_age_s
    ),
    States(
        metric=table.PARTITION_STATUS,
        labels=by.of_partitions,
        states=tuple(status.name for status in _NOT_OK),
        codes=lambda view: _code(_NOT_OK, view.status),
        only_held=True,
    ),
    ColumnSource(
        metric=table.OWNER,
        labels=by.of_partitions,
        values=lambda view: view.owned,
        tails=lambda view: by.of_owners(view, _owner_labels),
    ),
    ColumnSource(metric=table.GROUP_LAG, labels=by.of_groups, values=lambda view: view.group_lag),
    ColumnSource(
        metric=table.GROUP_READABLE_LAG,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_readable_lag),
    ),
    ColumnSource(
        metric=table.GROUP_MAX_LAG,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_max_lag),
    ),
    ColumnSource(
        metric=table.GROUP_MAX_TIME_LAG,
        labels=by.of_groups,
        values=lambda view: view.group_time_lag_s,
    ),
    States(
        metric=table.GROUP_TIME_LAG_BOUND,
        labels=by.of_groups,
        states=_INEXACT,
        codes=lambda view: _bound_code(_INEXACT, view.group_time_lag_bound),
        only_held=True,
    ),
    States(
        metric=table.GROUP_STATUS,
        labels=by.of_groups,
        states=tuple(status.name for status in _GROUP_STATUSES),
        codes=lambda view: _code(_GROUP_STATUSES, view.group_status),
    ),
    Counts(
        metric=table.GROUP_PARTITIONS,
        labels=by.of_groups,
        states={status.name: partial(View.group_partitions, status=status) for status in _NOT_OK},
    ),
    States(
        metric=table.GROUP_RULE,
        labels=by.of_groups,
        states=tuple(rule.word for rule in Rule),
        codes=lambda view: np.where(view.detailed, _RULE_PLACES[view.group_rule], UNKNOWN),
        only_held=True,
    ),
    ColumnSource(
        metric=table.GROUP_SINCE,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_since_s),
    ),
    ColumnSource(
        metric=table.GROUP_KIND,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.kind_known),
        tails=lambda view: [f',kind="{escape(kind)}"' for kind in view.group_kind],
    ),
    States(
        metric=table.GROUP_STATE,
        labels=by.of_groups,
        states=STATES,
        codes=lambda view: np.where(view.detailed, view.group_state, UNKNOWN),
        only_held=True,
    ),
    ColumnSource(
        metric=table.GROUP_MEMBERS,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_members),
    ),
    ColumnSource(
        metric=table.GROUP_COMPLETE,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_complete),
    ),
    ColumnSource(
        metric=table.REBALANCES, labels=by.of_groups, values=lambda view: view.group_rebalances
    ),
    ColumnSource(metric=table.GROUP_LOST, labels=by.of_groups, values=lambda view: view.group_lost),
    ColumnSource(
        metric=table.GROUP_RETENTION_USED,
        labels=by.of_groups,
        values=lambda view: view.group_retention_used,
    ),
    ColumnSource(
        metric=table.GROUP_REST_LAG,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_rest_lag),
    ),
    ColumnSource(
        metric=table.GROUP_REST,
        labels=by.of_groups,
        values=lambda view: _of_detailed(view, view.group_rest),
    ),
    ColumnSource(
        metric=table.GROUP_TOPIC_LAG,
        labels=by.of_group_topics,
        values=lambda view: np.where(view.pair_detailed, view.pair_lag, UNKNOWN),
    ),
    ColumnSource(
        metric=table.GROUP_TOPIC_COMMITTED,
        labels=by.of_group_topics,
        values=lambda view: np.where(view.pair_detailed, view.pair_committed, UNKNOWN),
    ),
    ColumnSource(metric=table.LOST, labels=by.of_group_topics, values=lambda view: view.pair_lost),
    ColumnSource(
        metric=table.LOG_END,
        labels=by.of_topic_partitions,
        values=lambda view: view.shown_offsets(view.topics.log_end),
    ),
    ColumnSource(
        metric=table.LOG_START,
        labels=by.of_topic_partitions,
        values=lambda view: view.shown_offsets(view.topics.log_start),
    ),
    ColumnSource(
        metric=table.TOPIC_LOG_END,
        labels=by.of_topics,
        values=lambda view: view.topic_sum(view.topics.log_end),
    ),
    ColumnSource(
        metric=table.TOPIC_PARTITIONS,
        labels=by.of_topics,
        values=lambda view: view.topic_partitions,
    ),
)
