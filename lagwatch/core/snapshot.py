"""One immutable moment of one cluster: what every reader reads.

Rows are group-partitions that have committed, sorted by (group, topic, partition); the rows of
group `g` are `group.first[g]:group.first[g + 1]`. Topic-partitions are numbered densely: those of
topic `t` are `topics.first[t]:topics.first[t + 1]`. In all integer columns -1 means unknown.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    Member,
    OpenTransaction,
    Rule,
    RuleSet,
    SharePartition,
    TimeLagBound,
    TimeLagReason,
    UnknownReason,
)
from lagwatch.core.rows import Around

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]


REPEATED: Final = 2
"""A log start that rose so many times does so by retention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicColumns:
    """All visible topics, sorted by name, and their partitions."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    first: Int64
    """[topics + 1]"""
    log_start: Int64
    log_end: Int64
    last_stable: Int64
    """Last stable offset: what a read_committed consumer can reach."""
    leader: Int32
    """Broker id; -1 none."""
    ids: tuple[str, ...]
    """Kafka's id of each topic; "" unknown."""
    read_ms: Int64
    """When each log end was read, on lagwatch's clock; -1: not by this process."""
    removals: Int64
    """Rounds in which the log start was seen to rise, 2 at most; 2 if it was above 0 at first."""

    @property
    def retained_from(self) -> Int64:
        """Log start where retention removes messages; 0 where nothing was, or only once, removed.

        One removal may have been on request (DeleteRecords). -1 unknown.
        """
        once = (self.log_start > 0) & (self.removals < REPEATED)
        return np.where(once, 0, self.log_start)


COARSE: Final = 8
"""Samples that are apart by more than this part of an age do not measure it: see `LogEndHistory`,
which thins to a sixteenth."""
PAUSE_MS: Final = 20_000
"""Samples closer than this always do; further apart than both, they give an estimate at best."""
AT_MOST: Final = np.array([each.bound is TimeLagBound.AT_MOST for each in TimeLagReason])
"""`AT_MOST[reason]`: is a time lag of this reason an upper bound?"""


def exact_within_ms(lag_ms: Int64) -> Int64:
    """The error up to which time lags are exact, see `TimeLagBound`."""
    return np.maximum(lag_ms // COARSE, PAUSE_MS)


class RowTimes(NamedTuple):
    """Time lags of some rows."""

    lag_ms: Int64
    """-1 where nothing is known."""
    reason: Int8
    error_ms: Float64
    """Not a number: unknown."""

    def part(self, rows: slice | NDArray[np.intp]) -> "RowTimes":
        """Those of a range of these rows; views."""
        return RowTimes(self.lag_ms[rows], self.reason[rows], self.error_ms[rows])


class GroupTimes(NamedTuple):
    """Time lags of some groups."""

    lag_ms: Int64
    reason: Int8
    error_ms: Float64
    row: Int64
    """Row that the time lag is of; -1 none."""

    def part(self, groups: slice | NDArray[np.intp]) -> "GroupTimes":
        """Those of a range of these groups; views."""
        return GroupTimes(
            self.lag_ms[groups], self.reason[groups], self.error_ms[groups], self.row[groups]
        )


DOUBTED_MS: Final = 600_000
"""How long it counts that a group passed deleted messages, and may have read them or not."""
_SOME_TIMES: Final = 32
"""Questions of a round; the time lags of all take about as long as so many, up to 100,000 rows."""

TimesT = TypeVar("TimesT", RowTimes, GroupTimes)


class _WithTimes(Generic[TimesT]):
    """Time lags change with every round, so they are computed on request."""

    times: Callable[[slice | NDArray[np.intp]], TimesT]

    @cached_property
    def every_time(self) -> TimesT:
        """The time lags of all."""
        return self.times(slice(None))

    def some_times(self, chosen: slice | NDArray[np.intp]) -> TimesT:
        """Those of a range, or of some.

        Who asks for many in one round, as who wants the status of each group, gets them from those
        of all: these are worth their time then.
        """
        every: TimesT | None = self.__dict__.get("every_time")
        if every is None:
            asked = self.__dict__["times_asked"] = self.__dict__.get("times_asked", 0) + 1
            if asked <= _SOME_TIMES:
                return self.times(chosen)
            every = self.every_time
        return every.part(chosen)

    @property
    def time_lag_ms(self) -> Int64:
        """A bound where `time_lag_reason` says so; of a group that of its oldest partition."""
        return self.every_time.lag_ms

    @property
    def time_lag_reason(self) -> Int8:
        return self.every_time.reason

    @property
    def time_lag_error_ms(self) -> Float64:
        """By how much the true time lag may differ, as the bound says; not a number: unknown."""
        return self.every_time.error_ms


@dataclass(frozen=True, kw_only=True)
class RowColumns(_WithTimes[RowTimes]):
    """One row per committed group-partition; shape [rows] each."""

    topic: Int32
    """Index into `ClusterSnapshot.topic_names`."""
    partition: Int32
    at: Int32
    """Position among all topic-partitions (`TopicColumns`); -1 when the topic is not visible."""
    window: Int32
    """Row in the live window store."""
    status: Int8
    rule: Int8
    commits: Int8
    """Entries in the window."""
    committed: Int64
    """Committed offset."""
    commit_ms: Int64
    """When it was committed."""
    lag: Int64
    """Log end offset - committed offset."""
    readable_lag: Int64
    """The part of it that the group can read.

    The same array as `lag` if that is all of it everywhere.
    """
    since_ms: Int64
    """When the trouble began; -1 where there is none."""
    limit_ms: Int32
    """How long the row may be quiet before it counts as stopped; -1 where it was not looked at."""
    lowest_lag: Int64
    """Lowest known lag in the window of a row that is behind; -1 when not looked at."""
    times: Callable[[slice | NDArray[np.intp]], RowTimes]
    """The time lags of a range of rows."""


@dataclass(frozen=True, kw_only=True)
class GroupColumns(_WithTimes[GroupTimes]):
    """One entry per group; shape [groups] each."""

    first: Int64
    """[groups + 1]"""
    status: Int8
    worst_row: Int64
    """The row that decided the status; -1 when no row is known."""
    max_lag_row: Int64
    """First row with the greatest known lag; -1 when there is none."""
    total_lag: Int64
    readable_lag: Int64
    left_behind_lag: Int64
    """The part of `total_lag` in partitions that the group does not read itself."""
    since_ms: Int64
    """When the oldest trouble of its partitions began; -1 while it has none."""
    complete: Float32
    partition_count: Int64
    """All partitions of every topic the group committed to."""
    unknown: Int64
    """Rows whose lag is not known."""
    times: Callable[[slice | NDArray[np.intp]], GroupTimes]
    """The time lags of a range of groups."""

    def rows_of(self, number: int) -> slice:
        """The rows of a group."""
        return slice(*self.first[number : number + 2].tolist())

    def committed_partitions(self, number: int) -> int:
        """How many partitions a group committed to: what it takes to look at each of them."""
        return int(self.first[number + 1] - self.first[number])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """State of one cluster at `at_ms`."""

    cluster: str
    at_ms: EpochMs
    """When the round was judged."""
    judged_ms: EpochMs
    """As of when: up to here commits and log ends were known. At most `at_ms`.

    Rows whose broker is away are judged as of an earlier instant.
    """
    data_ms: EpochMs
    """When the newest log end offsets were read; -1 when never."""
    time_lags_ms: EpochMs
    """The instant that all time lags are as of, on lagwatch's clock; -1 before any log end."""
    round: int
    intervals: int
    """Slots of a full window."""
    allowed_lag: int
    groups: tuple[str, ...]
    group_index: Mapping[str, int]
    topic_names: tuple[str, ...]
    """Names behind `rows.topic`; includes topics that are not visible (any more)."""
    topics: TopicColumns
    rows: RowColumns
    group: GroupColumns
    info: Mapping[str, GroupInfo]
    owners: Mapping[str, Mapping[tuple[str, int], Member]]
    """Per group: who holds a partition."""
    rules: RuleSet
    around: Around
    """What the rules saw around the windows; its pace and facts go on changing."""
    stale_after_ms: int = 15_000
    """Age from which on data count as stale."""
    transactions: Mapping[tuple[str, int], OpenTransaction] = field(default_factory=dict)
    """Open transactions that a last stable offset waits for, by (topic, partition)."""
    to_come: Mapping[str, int] = field(default_factory=dict)
    """Partitions that members hold and have not come to yet, by group: these work off a backlog."""
    listed: frozenset[str] | None = None
    """Groups that Kafka listed last; None: since the start it has not listed them completely."""
    hidden: frozenset[str] = frozenset()
    """Groups that were watched, and may not be described any more: nothing is known of them."""
    shares: Mapping[str, Mapping[tuple[str, int], SharePartition]] = field(default_factory=dict)
    """Share groups: how far they have come, by group, topic and partition."""
    stale: bool = False
    """Log ends or commits were older than that when the round was judged."""

    @property
    def data_age_ms(self) -> int:
        """How old log ends or commits, whichever are older, were when the round was judged."""
        return max(0, self.at_ms - self.judged_ms)

    def unknown_reasons(self, rows: slice | NDArray[np.intp] | list[int] = slice(None)) -> Int8:
        """Why the lags of these rows cannot be seen, as places in `UnknownReason`.

        -1 where they can, and where nothing was committed. That a committed offset is beyond the
        log end is a verdict of its own: nothing keeps from seeing it.
        """
        columns, topics, places = self.rows, self.topics, tuple(UnknownReason)
        unknown = (columns.lag[rows] < 0) & (columns.commits[rows] > 0)
        unknown &= columns.rule[rows] != Rule.AHEAD_OF_LOG_END
        found = np.full(unknown.size, UNKNOWN, np.int8)
        found[unknown] = places.index(UnknownReason.TOPIC_NOT_VISIBLE)
        seen = np.flatnonzero(unknown & (columns.at[rows] >= 0))
        if self.data_ms < 0:
            found[seen] = places.index(UnknownReason.NOT_POLLED_YET)
            return found
        at = columns.at[rows][seen]
        # a log end that was read is older than the commit
        reasons = np.where(
            topics.log_end[at] >= 0,
            places.index(UnknownReason.NOT_POLLED_YET),
            places.index(UnknownReason.REFUSED),
        )
        found[seen] = np.where(
            topics.leader[at] < 0, places.index(UnknownReason.NO_LEADER), reasons
        )
        return found

    def group_ages_ms(self, groups: slice = slice(None)) -> Int64:
        """Age of the oldest log end and the oldest known commits of each of these groups.

        A single broker may be away, and with it the data of some groups only.
        """
        around, asked_ms = self.around, self.around.asked_ms
        first = self.group.first
        start, stop, _ = groups.indices(len(self.groups))
        if start >= stop:
            return np.zeros(0, np.int64)
        rows = slice(int(first[start]), int(first[stop]))
        known_ms = around.partitions.known_ms[self.rows.at[rows]]
        known_ms = np.where(known_ms >= 0, known_ms, asked_ms)
        commits = around.facts.commits
        if commits is not None:
            commits_ms = commits.known_ms[commits.place[self.rows.window[rows]]]
            known_ms = np.where(commits_ms >= 0, np.minimum(known_ms, commits_ms), known_ms)
        # every group has at least one row
        oldest_ms = np.minimum.reduceat(known_ms, first[start:stop] - first[start])
        oldest_ms = np.minimum(oldest_ms, asked_ms)
        ages_ms: Int64 = np.maximum(self.at_ms - around.skew_ms - oldest_ms, 0)
        return ages_ms

    def lost_messages(self, number: int) -> tuple[int, bool]:
        """What a group lost, as long as it is shown; True: no more than that.

        Also where other trouble decides the verdict of the group or of the partition.
        """
        rows = self.group.rows_of(number)
        window = self.rows.window[rows][self.shows_loss(rows)]
        bound = self.around.facts.lost_bound
        at_most = bound is not None and bool((bound[window] > 0).any())
        return int(self.around.facts.lost_shown(window).sum()), at_most

    def more_is_lost(self, number: int) -> bool:
        """Was more deleted unread than is counted yet, or may it have been?

        Of partitions with a loss that is shown, and of those where the group lately passed deleted
        messages that it may have read or not.
        """
        rows = self.group.rows_of(number)
        lost, shown = self.around.facts.lost, self.shows_loss(rows)
        if self.doubts_loss(rows).any():
            return True
        if lost is None:
            return False
        deleted = self.below_log_start(rows)[shown]
        return bool((deleted > lost[self.rows.window[rows][shown]]).any())

    def doubts_loss(self, rows: slice | list[int]) -> NDArray[np.bool_]:
        """Mask of these rows: within ten minutes deleted messages were passed, read or not."""
        doubt_ms, window = self.around.facts.lost_doubt_ms, self.rows.window[rows]
        if doubt_ms is None or self.rules is not RuleSet.LAGWATCH:
            return np.zeros(window.size, np.bool_)
        since_ms = self.judged_ms - self.around.skew_ms - DOUBTED_MS
        doubted: NDArray[np.bool_] = doubt_ms[window] > max(since_ms, 0)
        return doubted

    def below_log_start(self, rows: slice | list[int] | NDArray[np.intp]) -> Int64:
        """How many messages of each row's lag lie below the log start: they were deleted."""
        columns = self.rows
        at, committed, lag = columns.at[rows], columns.committed[rows], columns.lag[rows]
        log_start = np.where(at >= 0, self.around.partitions.log_start[at], 0)
        below: Int64 = np.clip(log_start - committed, 0, np.maximum(lag, 0))
        return below

    def shows_loss(self, rows: slice | list[int]) -> NDArray[np.bool_]:
        """Mask of these rows: messages were lost, and that is still shown.

        Also where other trouble decides the verdict.
        """
        lost_ms, window = self.around.facts.lost_ms, self.rows.window[rows]
        if lost_ms is None or self.rules is not RuleSet.LAGWATCH:
            return np.zeros(window.size, np.bool_)
        since_ms = self.judged_ms - self.around.skew_ms - self.around.limits.loss_shown_ms
        shows: NDArray[np.bool_] = lost_ms[window] > max(since_ms, 0)
        return shows

    def stale_groups(self) -> NDArray[np.bool_]:
        """Mask of groups whose data are stale; shape [groups]."""
        if self.stale:
            return np.ones(len(self.groups), np.bool_)
        stale: NDArray[np.bool_] = self.group_ages_ms() > self.stale_after_ms
        return stale
