"""From one snapshot to history rows, all at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import (
    UNKNOWN,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    TimeLagReason,
)
from lagwatch.core.record.columns import SCHEMA_VERSION, EventName, Kind, SampleReason, Source
from lagwatch.core.record.records import Records, Text, Values
from lagwatch.core.snapshot import (
    AT_MOST,
    ClusterSnapshot,
    GroupColumns,
    RowColumns,
    exact_within_ms,
)

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Index = NDArray[np.integer]

OBSERVED: Final = "observed"
"""`method` of live samples: the log ends were asked for at the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """Why a group is WARN or ERR and what is ahead of it, as it is recorded. Durations in s."""

    cause: str | None
    """A `CauseName`; None: not known."""
    cause_certainty: str
    """A `Certainty`."""
    cause_text: str
    """The cause in one sentence, without a full stop."""
    catch_up_s: float | None
    catch_up_reason: str
    """A `CatchUpReason`."""
    loss_in_s: float | None
    loss_reason: str
    """A `LossReason`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """A snapshot, and what is known of its groups; immutable."""

    snapshot: ClusterSnapshot
    rebalances: Mapping[str, int] | None
    """Rebalances of each group, counted since the service started; None: not counted."""
    insights: Mapping[str, Insight] = field(default_factory=dict)
    """Of groups in trouble that were looked at, by name."""


def floor_ms(at_ms: int, interval_ms: int) -> int:
    """The start of the sampling interval: the same for every instance that samples in it."""
    return at_ms - at_ms % interval_ms


def samples(capture: Capture, rows: Index, *, at_ms: int, reason: SampleReason) -> Records:
    """One row of kind `samples` for each of these rows of the snapshot, sorted as they are."""
    snapshot = capture.snapshot
    columns, topics = snapshot.rows, snapshot.topics
    group = np.searchsorted(snapshot.group.first, rows, side="right") - 1
    # a part of a round is of a few neighbouring groups
    first = int(group.min(initial=len(snapshot.groups)))
    names = snapshot.groups[first : int(group.max(initial=UNKNOWN)) + 1]
    own_group = group - first
    at = columns.at[rows]
    owner, client_id = _owners(snapshot, names, own_group, rows)
    return _records(
        Kind.SAMPLES,
        rows.size,
        {
            "cluster": Text.same(snapshot.cluster, rows.size),
            "group": Text(own_group.astype(np.int32), names),
            "topic": Text(columns.topic[rows], snapshot.topic_names),
            "partition": columns.partition[rows],
            "at_ms": _same(at_ms, rows.size),
            "observed_ms": _same(snapshot.at_ms, rows.size),
            "committed_offset": columns.committed[rows],
            "commit_ms": columns.commit_ms[rows],
            "log_end_offset": _at(topics.log_end, at),
            "log_end_ms": _at(topics.read_ms, at),
            "topic_id": _topic_ids(snapshot).take(columns.topic[rows]),
            "log_start_offset": _at(topics.log_start, at),
            "lag": columns.lag[rows],
            "time_lag_s": _measured_s(columns, rows, columns.status[rows] == PartitionStatus.OK),
            "time_lag_reason": Text(columns.time_lag_reason[rows].astype(np.int32), _REASONS),
            "time_lag_at_ms": _same(snapshot.time_lags_ms, rows.size),
            "status": Text(_PARTITION_CODE[columns.status[rows]], _PARTITION_WORDS),
            "rule": Text(columns.rule[rows].astype(np.int32), _RULES),
            "complete": columns.commits[rows] / snapshot.intervals,
            "group_status": Text(_GROUP_CODE[snapshot.group.status[group]], _GROUP_WORDS),
            "group_state": _states(snapshot, names).take(own_group),
            "owner": owner,
            "client_id": client_id,
            "reason": Text.same(reason, rows.size),
            "method": Text.same(OBSERVED, rows.size),
        },
    )


def group_samples(
    capture: Capture,
    groups: Index,
    *,
    at_ms: int,
    reason: SampleReason,
    interval_ms: int,
    unchanged: Int64 | None = None,
    previous_ms: Int64 | None = None,
) -> Records:
    """One row of kind `group_samples` for each of these groups of the snapshot.

    `unchanged` (by group) says how many partitions have no row of their own because nothing had
    changed since their last one; `previous_ms` is the round that one is chained to. Both are left
    out where the rows say nothing about the other partitions.
    """
    snapshot = capture.snapshot
    columns, rows = snapshot.group, snapshot.rows
    size = groups.size
    worst, max_row = columns.worst_row[groups], columns.max_lag_row[groups]
    max_lag = np.where(max_row >= 0, np.append(rows.lag, UNKNOWN)[max_row], UNKNOWN)
    max_topic = np.where(max_row >= 0, np.append(rows.topic, UNKNOWN)[max_row], UNKNOWN)
    observed = np.diff(columns.first)[groups]
    return _records(
        Kind.GROUP_SAMPLES,
        size,
        {
            "cluster": Text.same(snapshot.cluster, size),
            "group": Text(groups.astype(np.int32), snapshot.groups),
            "at_ms": _same(at_ms, size),
            "observed_ms": _same(snapshot.at_ms, size),
            "status": Text(_GROUP_CODE[columns.status[groups]], _GROUP_WORDS),
            "rule": Text(np.append(rows.rule, UNKNOWN)[worst].astype(np.int32), _RULES),
            "state": _states(snapshot, snapshot.groups).take(groups),
            "complete": columns.complete[groups].astype(np.float64),
            "total_lag": np.where(
                columns.max_lag_row[groups] >= 0, columns.total_lag[groups], UNKNOWN
            ),
            "max_lag": max_lag,
            "max_lag_topic": Text(max_topic.astype(np.int32), snapshot.topic_names),
            "max_lag_partition": np.where(
                max_row >= 0, np.append(rows.partition, UNKNOWN)[max_row], UNKNOWN
            ).astype(np.int32),
            "time_lag_s": _measured_s(columns, groups, columns.status[groups] == GroupStatus.OK),
            "time_lag_reason": Text(columns.time_lag_reason[groups].astype(np.int32), _REASONS),
            "time_lag_at_ms": _same(snapshot.time_lags_ms, size),
            "partitions": columns.partition_count[groups].astype(np.int32),
            "unknown_partitions": columns.unknown[groups].astype(np.int32),
            "not_ok": _not_ok(snapshot)[groups].astype(np.int32),
            "members": _members(snapshot)[groups],
            "observed": observed.astype(np.int32),
            "unchanged": _or_unknown(unchanged, size).astype(np.int32),
            "previous_ms": _or_unknown(previous_ms, size),
            "interval_ms": np.full(size, interval_ms, np.int32),
            "rebalances": _rebalances(capture, groups),
            "reason": Text.same(reason, size),
            **_insights(capture, groups),
            "since_ms": columns.since_ms[groups],
        },
    )


def status_events(capture: Capture, rows: Index, before: NDArray[np.int8]) -> Records:
    """One row of kind `events` for each of these rows of the snapshot; `before`: their old status.

    A storm changes hundreds of thousands at once.
    """
    snapshot, size = capture.snapshot, rows.size
    columns = snapshot.rows
    group = np.searchsorted(snapshot.group.first, rows, side="right") - 1
    return _records(
        Kind.EVENTS,
        size,
        {
            "cluster": Text.same(snapshot.cluster, size),
            "group": Text(group.astype(np.int32), snapshot.groups),
            "topic": Text(columns.topic[rows], snapshot.topic_names),
            "partition": columns.partition[rows],
            "event": Text.same(EventName.PARTITION_STATUS, size),
            "at_ms": _same(snapshot.at_ms, size),
            "before": Text(_PARTITION_CODE[before], _PARTITION_WORDS),
            "after": Text(_PARTITION_CODE[columns.status[rows]], _PARTITION_WORDS),
            "rule": Text(columns.rule[rows].astype(np.int32), _RULES),
            "lag": np.maximum(columns.lag[rows], UNKNOWN),
            "count": _same(UNKNOWN, size),
            "detail": Text.same(None, size),
            "cause": Text.same(None, size),
            "cause_certainty": Text.same(None, size),
        },
    )


def _rebalances(capture: Capture, groups: Index) -> NDArray[np.int32]:
    counts = capture.rebalances
    if counts is None:
        return np.full(groups.size, UNKNOWN, np.int32)
    names = capture.snapshot.groups
    return np.array([counts.get(names[number], 0) for number in groups.tolist()], np.int32)


def _insights(capture: Capture, groups: Index) -> dict[str, Values]:
    """Columns of what is known of groups in trouble; all unknown in the rows of others."""
    found = [capture.insights.get(capture.snapshot.groups[number]) for number in groups.tolist()]

    def words(name: str) -> Text:
        return Text.of(None if each is None else getattr(each, name) for each in found)

    def seconds(name: str) -> NDArray[np.float64]:
        values = (None if each is None else getattr(each, name) for each in found)
        return np.array([np.nan if value is None else value for value in values], np.float64)

    return {
        "cause": words("cause"),
        "cause_certainty": words("cause_certainty"),
        "catch_up_s": seconds("catch_up_s"),
        "catch_up_reason": words("catch_up_reason"),
        "loss_in_s": seconds("loss_in_s"),
        "loss_reason": words("loss_reason"),
    }


def _records(kind: Kind, size: int, columns: dict[str, Values]) -> Records:
    columns["source"] = Text.same(Source.LIVE, size)
    columns["schema_version"] = np.full(size, SCHEMA_VERSION, np.int32)
    return Records(kind=kind, columns=columns)


def _same(value: int, size: int) -> Int64:
    return np.full(size, value, np.int64)


def _or_unknown(values: Int64 | None, size: int) -> Int64:
    return _same(UNKNOWN, size) if values is None else values


def _at(column: Int64, at: Int32) -> Int64:
    """Values of topic-partitions by row; -1 where the topic is not visible."""
    return np.append(column, UNKNOWN)[at]


def _measured_s(
    columns: RowColumns | GroupColumns, which: Index | slice, ok: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Time lags of rows or groups, not a number where a bound says nothing.

    After a restart all that is known of a group that keeps up may be that it is no later than the
    restart was long. Who adds up the history would take that for lateness.
    """
    lag_ms, reason = columns.time_lag_ms[which], columns.time_lag_reason[which]
    close = columns.time_lag_error_ms[which] <= exact_within_ms(lag_ms)
    says_nothing = AT_MOST[reason] & ok & ~close
    return np.where((lag_ms < 0) | says_nothing, np.nan, lag_ms / 1000)


def _topic_ids(snapshot: ClusterSnapshot) -> Text:
    """The id of each topic that rows name; unknown of one that is not visible."""
    topics = snapshot.topics
    places = (topics.index.get(name) for name in snapshot.topic_names)
    return Text.of(None if place is None else topics.ids[place] or None for place in places)


def _owners(
    snapshot: ClusterSnapshot, groups: Sequence[str], group: Index, rows: Index
) -> tuple[Text, Text]:
    """Host and client id of the member that holds each row's partition.

    `group` is each row's place in `groups`.
    """
    held = [snapshot.owners.get(name, _NO_MEMBERS) for name in groups]
    names = snapshot.topic_names
    number: dict[int, int] = {}
    members: list[Member] = []
    codes = np.full(rows.size, UNKNOWN, np.int32)
    with_members = np.flatnonzero(np.array([bool(owners) for owners in held], np.bool_)[group])
    there = rows[with_members]
    for row, number_of_group, topic, partition in zip(
        with_members.tolist(),
        group[with_members].tolist(),
        snapshot.rows.topic[there].tolist(),
        snapshot.rows.partition[there].tolist(),
        strict=True,
    ):
        member = held[number_of_group].get((names[topic], partition))
        if member is not None:
            code = number.setdefault(id(member), len(number))
            if code == len(members):
                members.append(member)
            codes[row] = code
    hosts, client_ids = (
        [member.host for member in members],
        [member.client_id for member in members],
    )
    return Text.coded(codes, hosts), Text.coded(codes, client_ids)


_NO_MEMBERS: Final[Mapping[tuple[str, int], Member]] = {}


def _states(snapshot: ClusterSnapshot, groups: Sequence[str]) -> Text:
    """Kafka's word for the state of each group; unknown where it could not be described."""
    infos = map(snapshot.info.get, groups)
    return Text.of(info.state if info is not None else None for info in infos)


def _members(snapshot: ClusterSnapshot) -> Int32:
    infos = map(snapshot.info.get, snapshot.groups)
    counts = [None if info is None else info.member_count for info in infos]
    return np.array([UNKNOWN if count is None else count for count in counts], np.int32)


def _not_ok(snapshot: ClusterSnapshot) -> Int64:
    """Per group: partitions worse than OK; one that cannot be judged makes no group worse."""
    status = snapshot.rows.status
    bad = (status != PartitionStatus.OK) & (status != PartitionStatus.UNKNOWN)
    total = np.concatenate([[0], np.cumsum(bad)])
    return np.diff(total[snapshot.group.first])


def _codes(numbers: tuple[int, ...]) -> Int32:
    """Status number → position among the words."""
    table = np.full(max(numbers) + 1, UNKNOWN, np.int32)
    table[list(numbers)] = np.arange(len(numbers))
    return table


_REASONS: Final = tuple(reason.word for reason in TimeLagReason)
_RULES: Final = tuple(rule.word for rule in Rule)
_PARTITION_WORDS: Final = tuple(status.name for status in PartitionStatus)
_PARTITION_CODE: Final = _codes(tuple(PartitionStatus))
_GROUP_WORDS: Final = tuple(status.name for status in GroupStatus)
_GROUP_CODE: Final = _codes(tuple(GroupStatus))
