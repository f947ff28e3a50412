"""From windows and log ends to one immutable snapshot: partition verdicts, then group verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.log_end import Age, LogEndHistory
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    GroupStatus,
    Member,
    PartitionStatus,
    Rule,
    RuleSet,
    TimeLagReason,
)
from lagwatch.core.rows import Around, Rows, WindowColumns
from lagwatch.core.rules import STATUS_OF_RULE, TABLES, judge
from lagwatch.core.snapshot import ClusterSnapshot, GroupColumns, RowColumns, TopicColumns
from lagwatch.core.time_lags import Shown, first_of, of_groups, shown
from lagwatch.core.window import Windows

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]

_SEVERITY: Int8 = np.arange(max(PartitionStatus) + 1, dtype=np.int8)
_SEVERITY[PartitionStatus.UNKNOWN] = GroupStatus.NOTFOUND  # makes no group worse


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
    """Which group-partition each stored row is of; -1 in unused rows. Shape [stored rows]."""

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
    rules: RuleSet,
    around: Around,
    info: Mapping[str, GroupInfo],
    owners: Mapping[str, Mapping[tuple[str, int], Member]],
) -> ClusterSnapshot:
    """Judge all rows as of `now_ms`, which may be before `at_ms`; `number` counts the rounds."""
    # judged in the order of the store: the windows are read where they are
    judged = _judge(windows, layout, history, now_ms=now_ms, rules=rules, around=around)
    rows = _rows(layout, judged)
    return ClusterSnapshot(
        cluster=cluster,
        at_ms=at_ms,
        judged_ms=now_ms,
        data_ms=data_ms,
        round=number,
        intervals=windows.intervals,
        allowed_lag=around.limits.allowed_lag,
        groups=layout.groups,
        group_index=layout.group_index,
        topic_names=layout.topic_names,
        topics=topics,
        rows=rows,
        group=_groups(layout, rows, windows.intervals),
        info=info,
        owners=owners,
        rules=rules,
        around=around,
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
        observed_s=windows.observed_s[:, :used],
    )


class _Judged:
    """Verdicts in the order of the window store; -1 unknown."""

    def __init__(self, columns: WindowColumns) -> None:
        rows = columns.count.size
        self.rule = np.empty(rows, np.int8)
        self.commits = columns.count.astype(np.int8)
        self.limit_ms = np.empty(rows, np.int32)
        self.time_lag_reason = np.empty(rows, np.int8)
        self.time_lag_error_ms = np.empty(rows, np.float32)
        self.committed = np.empty(rows, np.int64)
        self.commit_ms = np.empty(rows, np.int64)
        self.lag = np.empty(rows, np.int64)
        self.readable_lag: Int64 | None = None
        """None while everything up to the log end is readable, for all rows."""
        self.since_ms = np.empty(rows, np.int64)
        self.lowest_lag: Int64 | None = None
        """None while no window was looked at."""
        self.time_lag_ms = np.empty(rows, np.int64)

    def put_readable(self, block: slice, readable: Int64) -> None:
        """Take in the readable lag of a block in which it differs from the lag."""
        if self.readable_lag is None:
            self.readable_lag = self.lag.copy()
        self.readable_lag[block] = readable

    def put_lowest(self, block: slice, lowest: Int64) -> None:
        """Take in the lowest lags of a block whose windows were looked at."""
        if self.lowest_lag is None:
            self.lowest_lag = np.full(self.lag.size, UNKNOWN, np.int64)
        self.lowest_lag[block] = lowest


def _judge(
    windows: Windows,
    layout: Layout,
    history: LogEndHistory,
    *,
    now_ms: EpochMs,
    rules: RuleSet,
    around: Around,
) -> _Judged:
    columns, rows = window_columns(windows), windows.rows
    judged = _Judged(columns)
    # lag is that of the newest log ends, which may be younger than the commits: so is the time lag
    read_ms = EpochMs(max([now_ms, *history.at_ms[-1:].tolist()]))
    spacing_ms = history.spacing_ms
    for first in range(0, rows, windows.block_rows):
        block = slice(first, min(first + windows.block_rows, rows))
        part, at = columns.take(block), layout.at_stored[block]
        row = np.arange(block.start, block.stop)
        newest = part.newest, part.rows
        has = part.count > 0
        committed = np.where(has, part.offset[newest], UNKNOWN)
        commit_ms = np.where(has, part.commit_ms[newest], UNKNOWN)
        known_ms = _known_ms(around, row, at, now_ms)
        ends = _log_ends(around, history, row, at, np.maximum(known_ms, commit_ms))
        lag = np.where((ends >= 0) & (committed >= 0), np.maximum(ends - committed, 0), UNKNOWN)
        readable = _readable(around, row, at, committed, lag)
        behind = np.flatnonzero(lag > 0)
        age = history.age(at[behind], committed[behind], read_ms) if behind.size else None
        measured_ms, reason = _time_lags(committed, lag, behind, age)
        later_ms = read_ms - now_ms
        time_lag_ms = np.where(measured_ms > 0, np.maximum(measured_ms - later_ms, 0), measured_ms)
        seen = Rows(
            around,
            part,
            row=row,
            at=at,
            now_ms=known_ms,
            lag=lag,
            readable_lag=readable,
            time_lag_ms=time_lag_ms,
            allowed_lag=around.limits.allowed_lag,
            appended_ms=_appended_ms(history, at, committed, reason, around.skew_ms),
        )
        found = judge(TABLES[rules], seen)
        # control records have an age, but nothing waits to be read
        nothing_left = found.rule == Rule.CONTROL_RECORDS_ONLY
        measured = Shown(
            lag_ms=measured_ms,
            reason=reason,
            error_ms=np.where(measured_ms >= 0, np.float32(0), np.float32(np.nan)),
        )
        time = measured
        if age is not None:
            time = measured.with_part(
                behind,
                shown(
                    age,
                    at=at[behind],
                    row=row[behind],
                    committed=committed[behind],
                    read_ms=read_ms,
                    around=around,
                    restored_ms=history.restored_ms,
                    spacing_ms=spacing_ms,
                ),
            )
        time.lag_ms[nothing_left], time.error_ms[nothing_left] = 0, 0
        time.reason[nothing_left] = TimeLagReason.CAUGHT_UP
        for column, values in (
            (judged.rule, found.rule),
            (judged.limit_ms, found.limit_ms),
            (judged.since_ms, found.since_ms),
            (judged.committed, committed),
            (judged.commit_ms, commit_ms),
            (judged.lag, lag),
            (judged.time_lag_ms, time.lag_ms),
            (judged.time_lag_reason, time.reason),
            (judged.time_lag_error_ms, time.error_ms),
        ):
            column[block] = values
        if readable is not lag or judged.readable_lag is not None:
            judged.put_readable(block, readable)
        if found.lowest_lag is not None or judged.lowest_lag is not None:
            unknown = np.full(lag.size, UNKNOWN, np.int64)
            judged.put_lowest(block, unknown if found.lowest_lag is None else found.lowest_lag)
    if judged.readable_lag is not None:
        waits = np.flatnonzero((judged.lag > 0) & (judged.readable_lag == 0))
        around.pace.wait(waits, np.full(waits.size, around.asked_ms, np.int64))
    down = _DOWN[judged.rule]
    # what was once found down stays so until it moves, through restarts and outages
    around.pace.down[:rows] |= down
    around.pace.may_be_job[:rows] |= judged.rule == Rule.SILENT_BEFORE_START
    around.pace.behind[:rows] = judged.rule == Rule.FALLING_BEHIND
    return judged


_DOWN = np.isin(np.arange(len(Rule)), (Rule.STOPPED, Rule.STALLED))


def _known_ms(around: Around, row: Int64, at: Int32, now_ms: EpochMs) -> Int64:
    """Up to when commits and log end of each row are known, on Kafka's clock."""
    here_ms = now_ms - around.skew_ms
    known_ms = around.partitions.known_ms[at]
    known_ms = np.where(known_ms >= 0, np.minimum(known_ms, here_ms), here_ms)
    commits = around.facts.commits
    if commits is not None:
        commits_ms = commits.known_ms[commits.place[row]]
        known_ms = np.where(commits_ms >= 0, np.minimum(known_ms, commits_ms), known_ms)
    return known_ms


def _log_ends(around: Around, history: LogEndHistory, row: Int64, at: Int32, at_ms: Int64) -> Int64:
    """The log end to compare each row's offset with.

    A polled offset is as old as its poll: it is compared with the log end at that instant, on the
    line between two rounds. A commit that was read is the newest there is: it is compared with the
    newest log end.
    """
    ends = around.partitions.log_end[at]
    commits = around.facts.commits
    if commits is not None and commits.polled.any():
        polled = np.flatnonzero(commits.polled[commits.place[row]] & (ends >= 0))
        ends[polled] = history.at(at[polled], at_ms[polled] + around.skew_ms)
    return ends


def _readable(around: Around, row: Int64, at: Int32, committed: Int64, lag: Int64) -> Int64:
    """What of the lag each group can read; `lag` itself when that is all of it everywhere."""
    behind = np.flatnonzero(lag > 0)
    partitions, facts = around.partitions, around.facts
    some, where = committed[behind], at[behind]
    deleted = np.maximum(partitions.log_start[where] - some, 0)
    unreadable = np.minimum(deleted, lag[behind])
    last_stable, log_end = partitions.last_stable[where], partitions.log_end[where]
    waits = (last_stable >= 0) & (last_stable < log_end)
    if waits.any():
        bound = some == last_stable
        if facts.read_committed is not None:
            bound |= facts.read_committed[row[behind]]
        held = np.where(waits & bound, np.maximum(log_end - np.maximum(last_stable, some), 0), 0)
        unreadable = np.minimum(unreadable + held, lag[behind])
    first = partitions.empty_first[where]
    proved = (first >= 0) & (first <= some) & (log_end <= partitions.empty_end[where])
    unreadable = np.where(proved, lag[behind], unreadable)
    if not unreadable.any():
        return lag
    readable = lag.copy()
    readable[behind] -= unreadable
    return readable


def _time_lags(
    committed: Int64, lag: Int64, behind: NDArray[np.intp], age: Age | None
) -> tuple[Int64, Int8]:
    """Age of the oldest message not read as far as it was measured, and how (`TimeLagReason`).

    `age` is that of the rows `behind`; None if there are none.
    """
    reason = np.full(lag.size, TimeLagReason.CAUGHT_UP, np.int8)
    reason[lag < 0] = TimeLagReason.LOG_END_UNKNOWN
    reason[committed < 0] = TimeLagReason.NEVER_COMMITTED
    time_lag_ms = np.where(reason == TimeLagReason.CAUGHT_UP, 0, UNKNOWN)
    if age is not None:
        time_lag_ms[behind], reason[behind] = age.lag_ms, age.reason
    return time_lag_ms, reason


def _appended_ms(
    history: LogEndHistory, at: Int32, committed: Int64, reason: Int8, skew_ms: int
) -> Int64 | None:
    """When the first unread message was there, of rows whose messages came within a gap.

    The end of the gap: so the silence of a group is never taken for longer than it was.
    """
    unseen = np.flatnonzero(reason == TimeLagReason.NOT_SAMPLED)
    if not unseen.size:
        return None
    appended_ms = np.full(reason.size, UNKNOWN, np.int64)
    appended_ms[unseen] = history.appended_by(at[unseen], committed[unseen]) - skew_ms
    return appended_ms


def _rows(layout: Layout, judged: _Judged) -> RowColumns:
    """The verdicts in the order of the snapshot."""
    order = layout.window
    rule, lag = judged.rule[order], judged.lag[order]
    return RowColumns(
        topic=layout.topic,
        partition=layout.partition,
        at=layout.at,
        window=order,
        status=STATUS_OF_RULE[rule],
        rule=rule,
        commits=judged.commits[order],
        committed=judged.committed[order],
        commit_ms=judged.commit_ms[order],
        lag=lag,
        readable_lag=lag if judged.readable_lag is None else judged.readable_lag[order],
        since_ms=judged.since_ms[order],
        limit_ms=judged.limit_ms[order],
        lowest_lag=_ordered(judged.lowest_lag, order),
        time_lag_ms=judged.time_lag_ms[order],
        time_lag_reason=judged.time_lag_reason[order],
        time_lag_error_ms=judged.time_lag_error_ms[order],
    )


def _ordered(column: Int64 | None, order: Int32) -> Int64:
    """A column in the order of the snapshot; one unknown number for all rows where it is None."""
    return np.broadcast_to(np.int64(UNKNOWN), order.shape) if column is None else column[order]


def _groups(layout: Layout, rows: RowColumns, intervals: int) -> GroupColumns:
    """Roll the rows up; every group has at least one row."""
    first = layout.group_first
    if not layout.groups:
        return _no_groups()
    heads = first[:-1]
    group = np.repeat(np.arange(heads.size), np.diff(first))
    severity = _SEVERITY[rows.status]
    worst = np.maximum.reduceat(severity, heads)
    # of several that are equally bad the one with the greatest lag speaks for the group
    rank = np.where(severity == worst[group], rows.readable_lag, _NO_RANK)
    # a partition that was never committed has no lag that could be known
    unknown = np.add.reduceat(((rows.lag < 0) & (rows.commits > 0)).astype(np.int64), heads)
    full = np.add.reduceat((rows.commits == intervals).astype(np.int64), heads)
    status = np.minimum(worst, GroupStatus.ERR)
    status[worst == GroupStatus.NOTFOUND] = GroupStatus.UNKNOWN
    time = of_groups(rows, heads, group)
    max_lag = np.maximum.reduceat(rows.lag, heads)
    return GroupColumns(
        first=first,
        status=status.astype(np.int8),
        worst_row=first_of(rank, np.maximum.reduceat(rank, heads), group),
        max_lag_row=np.where(max_lag >= 0, first_of(rows.lag, max_lag, group), UNKNOWN),
        total_lag=np.add.reduceat(np.maximum(rows.lag, 0), heads),
        readable_lag=np.add.reduceat(np.maximum(rows.readable_lag, 0), heads),
        since_ms=_oldest(rows.since_ms, heads),
        complete=(full / layout.partition_count).astype(np.float32),
        partition_count=layout.partition_count,
        unknown=unknown,
        time_lag_ms=time.lag_ms,
        time_lag_reason=time.reason,
        time_lag_error_ms=time.error_ms,
        time_lag_row=time.row,
    )


_NO_RANK: Final = UNKNOWN - 1


def _oldest(since_ms: Int64, heads: Int64) -> Int64:
    """Per group: the earliest known instant; -1 when there is none."""
    never = np.iinfo(np.int64).max
    oldest: Int64 = np.minimum.reduceat(np.where(since_ms >= 0, since_ms, never), heads)
    return np.where(oldest == never, UNKNOWN, oldest)


def _no_groups() -> GroupColumns:
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int8)
    return GroupColumns(
        first=np.zeros(1, np.int64),
        status=small,
        worst_row=none,
        max_lag_row=none,
        total_lag=none,
        readable_lag=none,
        since_ms=none,
        complete=np.zeros(0, np.float32),
        partition_count=none,
        unknown=none,
        time_lag_ms=none,
        time_lag_reason=small,
        time_lag_error_ms=np.zeros(0, np.float32),
        time_lag_row=none,
    )
