"""From windows and log ends to one immutable snapshot: partition verdicts, then group verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    TimeLagReason,
)
from lagwatch.core.rules import STATUS_OF_RULE, WindowColumns, judge
from lagwatch.core.snapshot import ClusterSnapshot, GroupColumns, RowColumns, TopicColumns
from lagwatch.core.window import Windows

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]

_SEVERITY: Int8 = np.arange(max(PartitionStatus) + 1, dtype=np.int8)
_SEVERITY[PartitionStatus.UNKNOWN] = GroupStatus.NOTFOUND  # makes no group worse

Evidence = dict[str, int | float | None]


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
    """Who stands in the rows of the window store; -1 in unused rows. Shape [stored rows]."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the rules are told."""

    allowed_lag: int
    minimum_complete: float
    recent_ms: int
    """How far back "was at the log end" looks."""


def evaluate(
    *,
    cluster: str,
    at_ms: EpochMs,
    now_ms: EpochMs,
    data_ms: EpochMs,
    number: int,
    layout: Layout,
    windows: Windows,
    history: LogEndHistory,
    topics: TopicColumns,
    limits: Limits,
    info: Mapping[str, GroupInfo],
    owners: Mapping[str, Mapping[tuple[str, int], Member]],
) -> ClusterSnapshot:
    """Judge all rows as of `now_ms`, which may lie before `at_ms`; `number` counts the rounds."""
    # judged in the order of the store: the windows are read where they lie
    judged = _judge(window_columns(windows), layout, history, now_ms, limits)
    rows = _rows(layout, judged, history, now_ms)
    return ClusterSnapshot(
        cluster=cluster,
        at_ms=at_ms,
        judged_ms=now_ms,
        data_ms=data_ms,
        round=number,
        intervals=windows.intervals,
        allowed_lag=limits.allowed_lag,
        groups=layout.groups,
        group_index=layout.group_index,
        topic_names=layout.topic_names,
        topics=topics,
        rows=rows,
        group=_groups(layout, rows, windows.intervals),
        info=info,
        owners=owners,
        rewinds=judged.rewinds,
        recent_end=judged.recent_end,
    )


def window_columns(windows: Windows) -> WindowColumns:
    """The live windows as the rules read them; a view, not a copy."""
    used = windows.rows
    return WindowColumns(
        offset=windows.offset[:, :used],
        commit_ms=windows.commit_ms[:, :used],
        lag=windows.lag[:, :used],
        count=windows.count[:used],
        oldest=windows.oldest_slot(),
        newest=windows.newest[:used],
    )


_BLOCK = 16_384
"""Rows judged at a time: what is held in between fits the cache, however large the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """Verdicts in the order of the window store."""

    rule: Int8
    commits: Int8
    committed: Int64
    """-1 for an empty row."""
    commit_ms: Int64
    """-1 for an empty row."""
    lag: Int64
    lowest_lag: Int64
    recent_end: Int64
    """Per topic-partition."""
    rewinds: dict[int, tuple[int, int]]


def _judge(
    columns: WindowColumns,
    layout: Layout,
    history: LogEndHistory,
    now_ms: EpochMs,
    limits: Limits,
) -> _Judged:
    rows = columns.count.size
    judged = _Judged(
        rule=np.empty(rows, np.int8),
        commits=columns.count.astype(np.int8),
        committed=np.empty(rows, np.int64),
        commit_ms=np.empty(rows, np.int64),
        lag=np.empty(rows, np.int64),
        lowest_lag=np.empty(rows, np.int64),
        recent_end=history.since(now_ms - limits.recent_ms),
        rewinds={},
    )
    # the last element stands for topics that are not visible
    log_end = np.append(history.latest(), UNKNOWN)
    recent_end = np.append(judged.recent_end, UNKNOWN)
    for first in range(0, rows, _BLOCK):
        block = slice(first, min(first + _BLOCK, rows))
        part, at = columns.part(block), layout.at_stored[block]
        newest = part.newest, part.rows
        committed = np.where(part.count > 0, part.offset[newest], UNKNOWN)
        judged.commit_ms[block] = np.where(part.count > 0, part.commit_ms[newest], UNKNOWN)
        ends = log_end[at]
        lag = np.where((ends >= 0) & (committed >= 0), np.maximum(ends - committed, 0), UNKNOWN)
        facts = judge(
            part,
            current_lag=lag,
            recent_end=recent_end[at],
            now_ms=now_ms,
            allowed_lag=limits.allowed_lag,
            minimum_complete=limits.minimum_complete,
        )
        judged.rule[block], judged.lowest_lag[block] = facts.rule, facts.lowest_lag
        judged.committed[block], judged.lag[block] = committed, lag
        judged.rewinds.update({first + row: fall for row, fall in facts.rewinds.items()})
    return judged


def _rows(layout: Layout, judged: _Judged, history: LogEndHistory, now_ms: EpochMs) -> RowColumns:
    """The verdicts in the order of the snapshot, with the time lags."""
    rule, lag = judged.rule[layout.window], judged.lag[layout.window]
    committed = judged.committed[layout.window]
    reason = np.full(lag.size, TimeLagReason.CAUGHT_UP, np.int8)
    reason[lag < 0] = TimeLagReason.LOG_END_UNKNOWN
    reason[committed < 0] = TimeLagReason.NEVER_COMMITTED
    time_lag_ms = np.where(reason == TimeLagReason.CAUGHT_UP, 0, UNKNOWN)
    behind = np.flatnonzero(lag > 0)
    for first in range(0, behind.size, _BLOCK):
        block = behind[first : first + _BLOCK]
        time_lag_ms[block], reason[block] = history.time_lag(
            layout.at[block], committed[block], now_ms
        )
    return RowColumns(
        topic=layout.topic,
        partition=layout.partition,
        at=layout.at,
        window=layout.window,
        status=STATUS_OF_RULE[rule],
        rule=rule,
        commits=judged.commits[layout.window],
        committed=committed,
        commit_ms=judged.commit_ms[layout.window],
        lag=lag,
        lowest_lag=judged.lowest_lag[layout.window],
        time_lag_ms=time_lag_ms,
        time_lag_reason=reason,
    )


def _groups(layout: Layout, rows: RowColumns, intervals: int) -> GroupColumns:
    """Roll the rows up; every group has at least one row."""
    first = layout.group_first
    if not layout.groups:
        return _no_groups()
    heads = first[:-1]
    severity = _SEVERITY[rows.status]
    worst = np.maximum.reduceat(severity, heads)
    unknown = np.add.reduceat((rows.lag < 0).astype(np.int64), heads)
    full = np.add.reduceat((rows.commits == intervals).astype(np.int64), heads)
    status = np.minimum(worst, GroupStatus.ERR)
    status[worst == GroupStatus.NOTFOUND] = GroupStatus.UNKNOWN
    time_lag = np.maximum.reduceat(rows.time_lag_ms, heads)
    time_row = _first_of(rows.time_lag_ms, time_lag, first)
    max_lag = np.maximum.reduceat(rows.lag, heads)
    return GroupColumns(
        first=first,
        status=status.astype(np.int8),
        worst_row=_first_of(severity, worst, first),
        max_lag_row=np.where(max_lag >= 0, _first_of(rows.lag, max_lag, first), UNKNOWN),
        total_lag=np.add.reduceat(np.maximum(rows.lag, 0), heads),
        complete=(full / layout.partition_count).astype(np.float32),
        partition_count=layout.partition_count,
        unknown=unknown,
        time_lag_ms=time_lag,
        time_lag_reason=rows.time_lag_reason[time_row],
    )


def _first_of(values: NDArray[np.integer], best: NDArray[np.integer], first: Int64) -> Int64:
    """Per group: its first row whose value is the best of the group."""
    sizes = np.diff(first)
    rows = np.flatnonzero(values == np.repeat(best, sizes))
    groups = np.searchsorted(first, rows, side="right") - 1
    found = np.empty(best.size, np.int64)
    found[groups[::-1]] = rows[::-1]
    return found


def _no_groups() -> GroupColumns:
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int8)
    return GroupColumns(
        first=np.zeros(1, np.int64),
        status=small,
        worst_row=none,
        max_lag_row=none,
        total_lag=none,
        complete=np.zeros(0, np.float32),
        partition_count=none,
        unknown=none,
        time_lag_ms=none,
        time_lag_reason=small,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The numbers the rules saw of one row; -1 unknown."""

    rule: Rule
    now_ms: int
    current_lag: int
    allowed_lag: int
    commits: int
    start_offset: int
    end_offset: int
    start_ms: int
    end_ms: int
    start_lag: int
    end_lag: int
    lowest_lag: int
    recent_end: int
    rewind: tuple[int, int] | None


def evidence(seen: Seen) -> Evidence:
    """The numbers that made the rule hold, unknown ones as None."""
    numbers: Evidence = {
        "commits": seen.commits,
        "current_lag": _known(seen.current_lag),
        "allowed_lag": seen.allowed_lag,
        "committed_offset": seen.end_offset,
        "start_offset": seen.start_offset,
        "end_offset": seen.end_offset,
        "start_lag": _known(seen.start_lag),
        "end_lag": _known(seen.end_lag),
        "lowest_lag": _known(seen.lowest_lag),
        "last_commit_ms": seen.end_ms,
        "silent_ms": seen.now_ms - seen.end_ms,
        "window_span_ms": seen.end_ms - seen.start_ms,
        "recent_log_end": _known(seen.recent_end),
    }
    if seen.rewind:
        numbers["offset_before"], numbers["offset_after"] = seen.rewind
    return {name: numbers[name] for name in _EVIDENCE[seen.rule]}


_MOVEMENT = (
    *("current_lag", "start_offset", "end_offset", "start_lag", "end_lag"),
    *("window_span_ms", "commits"),
)
_EVIDENCE: Mapping[Rule, tuple[str, ...]] = {
    Rule.NEVER_COMMITTED: ("commits",),
    Rule.LOG_END_UNKNOWN: ("commits", "committed_offset"),
    Rule.WINDOW_INCOMPLETE: ("current_lag", "commits"),
    Rule.LAG_WITHIN_ALLOWED: ("current_lag", "allowed_lag"),
    Rule.STOPPED: (
        *("current_lag", "committed_offset", "last_commit_ms", "silent_ms"),
        *("window_span_ms", "commits", "recent_log_end"),
    ),
    Rule.REWOUND: ("current_lag", "offset_before", "offset_after", "window_span_ms"),
    Rule.LAG_WAS_WITHIN_ALLOWED: ("current_lag", "lowest_lag", "allowed_lag", "window_span_ms"),
    Rule.STALLED: _MOVEMENT,
    Rule.LAG_NOT_DECREASING: _MOVEMENT,
    Rule.PROGRESSING: _MOVEMENT,
}
"""Which numbers each rule looked at."""


def _known(value: int) -> int | None:
    return None if value < 0 else value
