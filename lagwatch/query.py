"""The read side: snapshots → answers. Never waits, never asks Kafka."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.case import Case
from lagwatch.core.causes import Cause, cause_of
from lagwatch.core.evaluate import window_columns
from lagwatch.core.forecast import (
    GroupOutlook,
    Taking,
    of_group,
    outlooks,
    without_catch_up,
)
from lagwatch.core.lags import Lags, no_lags
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import (
    UNKNOWN,
    EpochMs,
    GroupInfo,
    GroupStatus,
    GroupVerdict,
    Member,
    Membership,
    OpenTransaction,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    RuleSet,
    TimeLagReason,
    UnknownReason,
    WindowEntry,
)
from lagwatch.core.rates import (
    FEWEST,
    LONG_MS,
    Rates,
    produced_around,
    rates,
    reading,
    together,
    with_outage,
)
from lagwatch.core.rows import ABSENCE, Absence, Around, WindowColumns
from lagwatch.core.rules import first_rewind, membership_word, row_of
from lagwatch.core.snapshot import DOUBTED_MS, ClusterSnapshot
from lagwatch.core.time_lags import NOT_READ
from lagwatch.core.window import Entries, Windows
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import (
    ClusterHealth,
    GroupDetail,
    GroupEvent,
    PartitionDetail,
    Partitions,
)

_RULES: Final = tuple(Rule)
"""By number."""
_REASONS: Final = tuple(TimeLagReason)
_UNKNOWN_REASONS: Final = tuple(UnknownReason)
"""By number."""
_MEASURED: Final = (
    TimeLagReason.MEASURED,
    TimeLagReason.STORED,
    TimeLagReason.SAMPLES_APART,
    TimeLagReason.BETWEEN_ROUNDS,
    TimeLagReason.CAUGHT_UP,
)
"""How the rules know a time lag."""
_BEHIND_TRANSACTION: Final = (Rule.WAITS_FOR_TRANSACTION, Rule.HELD_BY_TRANSACTION)
_ROWS_AT_ONCE: Final = 5_000
"""Partitions whose forecasts are computed at once: each takes some kilobytes meanwhile."""
_REWIND_SHOWN_MS: Final = 600_000
"""A rewind explains a lag for this long, as the rule `rewound` shows it."""
_NOBODY: Final = Member(member_id="", client_id="", host="", instance_id="", assignment=())


class Moment(Protocol):
    """A cluster's newest snapshot and the windows behind it."""

    @property
    def snapshot(self) -> ClusterSnapshot | None: ...

    @property
    def windows(self) -> Windows: ...

    @property
    def history(self) -> LogEndHistory: ...

    @property
    def past_lags(self) -> Lags: ...

    @property
    def story(self) -> "GroupEvents": ...


class GroupEvents(Protocol):
    """What happened to the groups of a cluster."""

    def of(self, group: str) -> Sequence[GroupEvent]: ...


class SnapshotQueries:
    """Answers from the newest snapshot of each cluster (`ports.Queries`)."""

    def __init__(
        self,
        moments: Mapping[str, Moment],
        *,
        health: Callable[[], tuple[ClusterHealth, ...]],
    ) -> None:
        self._moments = moments
        self._health = health
        self._clusters = tuple(sorted(moments))

    def clusters(self) -> tuple[str, ...]:
        return self._clusters

    def snapshot(self, cluster: str) -> ClusterSnapshot:
        snapshot = self._moment(cluster).snapshot
        if snapshot is None:
            raise NotFoundError(kind="snapshot", name=cluster)
        return snapshot

    def topics(self, cluster: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        return snapshot.topics.names if snapshot else ()

    def log_ends(self, cluster: str, topic: str) -> tuple[int | None, ...]:
        topics = self.snapshot(cluster).topics
        index = topics.index.get(topic)
        if index is None:
            raise NotFoundError(kind="topic", name=topic)
        ends = topics.log_end[topics.first[index] : topics.first[index + 1]].tolist()
        return tuple(None if end < 0 else end for end in ends)

    def groups(self, cluster: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        return snapshot.groups if snapshot else ()

    def groups_of_topic(self, cluster: str, topic: str) -> tuple[str, ...]:
        snapshot = self._moment(cluster).snapshot
        if snapshot is None or topic not in snapshot.topic_names:
            return ()
        rows = (snapshot.rows.topic == snapshot.topic_names.index(topic)).nonzero()[0]
        groups = snapshot.group.first.searchsorted(rows, side="right") - 1
        return tuple(snapshot.groups[group] for group in dict.fromkeys(groups.tolist()))

    def verdict(self, cluster: str, group: str, partitions: Partitions) -> GroupVerdict:
        reader = self._reader(cluster, group)
        match partitions:
            case Partitions.BAD:
                return reader.verdict(reader.worse_than_ok())
            case Partitions.COMMITTED:
                return reader.verdict(reader.committed())
            case Partitions.ALL:
                return reader.verdict(reader.with_never_committed())

    def outlook(self, cluster: str, group: str) -> GroupOutlook:
        found = self.outlooks(cluster, (group,))
        if group not in found:
            raise NotFoundError(kind="group", name=group)
        return found[group]

    def outlooks(self, cluster: str, groups: Iterable[str]) -> dict[str, GroupOutlook]:
        moment = self._moment(cluster)
        snapshot = moment.snapshot
        if snapshot is None:
            return {}
        known = [group for group in groups if group in snapshot.group_index]
        number = np.array([snapshot.group_index[group] for group in known], np.int64)
        first = snapshot.group.first
        part = np.cumsum(first[number + 1] - first[number]) // _ROWS_AT_ONCE
        parts = np.split(number, np.flatnonzero(np.diff(part)) + 1)
        found = [each for part in parts for each in _outlooks(moment, snapshot, part)]
        return dict(zip(known, found, strict=True))

    def cause(self, verdict: GroupVerdict, outlook: GroupOutlook) -> Cause | None:
        return self._reader(verdict.cluster, verdict.group).cause(verdict, outlook)

    def detail(self, cluster: str, group: str) -> GroupDetail:
        return self._reader(cluster, group).detail()

    def info(self, cluster: str, group: str) -> GroupInfo | None:
        return self.snapshot(cluster).info.get(group)

    def health(self) -> tuple[ClusterHealth, ...]:
        return self._health()

    def _moment(self, cluster: str) -> Moment:
        moment = self._moments.get(cluster)
        if moment is None:
            raise NotFoundError(kind="cluster", name=cluster)
        return moment

    def _reader(self, cluster: str, group: str) -> "_GroupReader":
        moment = self._moment(cluster)
        snapshot = moment.snapshot
        number = snapshot.group_index.get(group) if snapshot else None
        if snapshot is None or number is None:
            raise NotFoundError(kind="group", name=group)
        return _GroupReader(moment, snapshot, group, number)


class _Row(NamedTuple):
    """The numbers of one row of a snapshot; -1 unknown."""

    topic: int
    partition: int
    at: int
    window: int
    rule: int
    commits: int
    lag: int
    readable_lag: int
    since_ms: int
    limit_ms: int
    lowest_lag: int
    unknown: int
    """Place in `UnknownReason`."""
    time_lag_ms: int
    time_lag_reason: int
    time_lag_error_ms: float


class _Seen(NamedTuple):
    """A row and the facts around it, for its evidence."""

    snapshot: ClusterSnapshot
    windows: Windows
    row: _Row
    start: WindowEntry | None
    end: WindowEntry | None

    @property
    def now_ms(self) -> int:
        """As of when the row was judged, on Kafka's clock."""
        around, row = self.snapshot.around, self.row
        known = [self.snapshot.judged_ms - around.skew_ms]
        known += [
            each
            for each in (int(around.partitions.known_ms[row.at]), self._commits_known_ms())
            if each >= 0
        ]
        return min(known)

    def _commits_known_ms(self) -> int:
        commits = self.snapshot.around.facts.commits
        return UNKNOWN if commits is None else int(commits.known_ms[commits.place[self.row.window]])

    @property
    def quiet_ms(self) -> int:
        around, since_ms, appended_ms = self.snapshot.around, self.row.since_ms, UNKNOWN
        if since_ms < 0:
            if self.row.time_lag_ms >= 0 and self.row.time_lag_reason in _MEASURED:
                later_ms = max(0, self.snapshot.data_ms - self.snapshot.judged_ms)
                appended_ms = around.asked_ms + later_ms - self.row.time_lag_ms
            row, appended = np.array([self.row.window]), np.array([appended_ms])
            since_ms = int(around.quiet_since_ms(row, appended, around.held(row))[0])
        return max(self.now_ms - since_ms, 0)

    @property
    def counted_ms(self) -> int:
        """The part of `quiet_ms` that the rules count.

        While Kafka was there and lagwatch watched.
        """
        around = self.snapshot.around
        counted_ms = around.counted_ms(
            *(self._gone_ms, self._counts_from_ms, np.array([self.now_ms]), self._absences)
        )
        return int(counted_ms[0])

    @property
    def stopped_from_ms(self) -> int:
        """When `counted_ms` reaches the limit, if the row stays quiet; not before now."""
        limit_ms, around = np.array([self.row.limit_ms]), self.snapshot.around
        # a millisecond before it is longer
        at_ms = (
            around.longer_at_ms(self._gone_ms, self._counts_from_ms, limit_ms, self._absences) - 1
        )
        return max(self.now_ms, int(at_ms[0]))

    @property
    def _gone_ms(self) -> NDArray[np.int64]:
        return self.snapshot.around.gone_ms(np.array([self.row.window]))

    @property
    def _counts_from_ms(self) -> NDArray[np.int64]:
        since_ms = np.array([self.now_ms - self.quiet_ms])
        return self.snapshot.around.counts_from_ms(np.array([self.row.window]), since_ms)

    @property
    def _absences(self) -> list[Absence]:
        around = self.snapshot.around
        absences = [tuple(getattr(around.partitions, name)[[self.row.at]] for name in ABSENCE)]
        if (commits := around.facts.commits) is not None:
            place = commits.place[[self.row.window]]
            absences.append(tuple(getattr(commits, name)[place] for name in ABSENCE))
        return absences

    @property
    def polled(self) -> bool:
        """True if the group's offsets are polled, so that only changes are visible."""
        commits = self.snapshot.around.facts.commits
        return commits is not None and bool(commits.polled[commits.place[self.row.window]])

    @property
    def transaction(self) -> OpenTransaction | None:
        """The transaction that the last stable offset waits for; None while it is not known."""
        place = self.snapshot.topic_names[self.row.topic], self.row.partition
        found = self.snapshot.transactions.get(place)
        # it may have ended since it was reported, and another one have begun
        return found if found and found.last_stable == self.partition("last_stable") else None

    def fact(self, name: str) -> int:
        """A column of `RowFacts` for this row; -1 where there is none."""
        column = getattr(self.snapshot.around.facts, name)
        return UNKNOWN if column is None else int(column[self.row.window])

    @property
    def lost(self) -> int:
        """Messages that were lost and are not acknowledged."""
        return int(self.snapshot.around.facts.lost_shown(np.array([self.row.window]))[0])

    def partition(self, name: str) -> int | None:
        """A column of `PartitionColumns` for this row."""
        return _known(int(getattr(self.snapshot.around.partitions, name)[self.row.at]))

    def fell(self) -> tuple[int | None, int | None]:
        """Offsets around the first fall in the window."""
        held = window_columns(self.windows, np.array([self.row.window]))
        fell, before, after = first_rewind(held)
        return (int(before[0]), int(after[0])) if fell[0] else (None, None)


def _of(entry: WindowEntry | None, name: str) -> int | None:
    """A number of a window's entry; None when there is no entry."""
    value: int | None = None if entry is None else getattr(entry, name)
    return value


def _passed(seen: _Seen, since_ms: int | None) -> int | None:
    return None if since_ms is None or since_ms < 0 else max(seen.now_ms - since_ms, 0)


def _of_transaction(seen: _Seen, name: str) -> int | str | None:
    value: int | str | None = None
    if seen.transaction is not None:
        value = getattr(seen.transaction, name)
    return value


def _transaction_age_ms(seen: _Seen) -> int | None:
    """Since its start as its coordinator says it, or since lagwatch has seen it."""
    seen_ms, transaction = seen.partition("held_ms"), seen.transaction
    if transaction is None or transaction.started_ms is None:
        return _passed(seen, seen_ms)
    started_ms = int(transaction.started_ms)
    return _passed(seen, started_ms if seen_ms is None else min(started_ms, seen_ms))


def _lost_is(seen: _Seen) -> str:
    """`exact`, `upper_bound`, or `lower_bound` where more was, or may have been, deleted unread."""
    if seen.fact("lost_bound") > 0:
        return "upper_bound"
    if seen.fact("lost_doubt_ms") > max(seen.now_ms - DOUBTED_MS, 0):
        return "lower_bound"
    committed = _of(seen.end, "offset")
    log_start = seen.partition("log_start")
    deleted = 0 if committed is None or log_start is None else log_start - committed
    known = seen.lost + max(seen.fact("lost_acknowledged"), 0)
    return "lower_bound" if known < deleted else "exact"


def _judged_from(seen: _Seen) -> int:
    """The instant at which a row that stays quiet can be judged."""
    around, since_ms = seen.snapshot.around, seen.now_ms - seen.quiet_ms
    from_ms = seen.stopped_from_ms
    if since_ms >= around.complete_ms:
        return from_ms
    row, silences = np.array([seen.row.window]), np.array([since_ms])
    return max(from_ms, int(around.watched_from_ms(row, silences)[0]))


def _silent_before_ms(seen: _Seen) -> int | None:
    """How long a row had been silent when lagwatch first saw the cluster; None: not known.

    Polls do not say how long an offset had been there when it was first seen.
    """
    around, window = seen.snapshot.around, seen.row.window
    if seen.polled and around.pace.moves[window] <= 1:
        return None
    return _known(around.first_ms - int(around.pace.moved_ms[window]))


_NUMBERS: Final[Mapping[str, Callable[[_Seen], int | float | str | None]]] = {
    "commits": lambda seen: seen.row.commits,
    "current_lag": lambda seen: _known(seen.row.lag),
    "readable_lag": lambda seen: _known(seen.row.readable_lag),
    "allowed_lag": lambda seen: seen.snapshot.allowed_lag,
    "committed_offset": lambda seen: _of(seen.end, "offset"),
    "start_offset": lambda seen: _of(seen.start, "offset"),
    "end_offset": lambda seen: _of(seen.end, "offset"),
    "start_lag": lambda seen: _of(seen.start, "lag"),
    "end_lag": lambda seen: _of(seen.end, "lag"),
    "lowest_lag": lambda seen: _known(seen.row.lowest_lag),
    "last_commit_ms": lambda seen: _of(seen.end, "commit_ms"),
    "silent_ms": lambda seen: _passed(seen, _of(seen.end, "commit_ms")),
    "window_span_ms": lambda seen: (
        seen.end.commit_ms - seen.start.commit_ms if seen.start and seen.end else None
    ),
    "recent_log_end": lambda seen: seen.partition("recent_end"),
    "offset_before": lambda seen: (
        seen.fell()[0]
        if seen.snapshot.rules is RuleSet.BURROW
        else _known(seen.fact("rewound_from"))
    ),
    "offset_after": lambda seen: seen.fell()[1],
    "rewound_ms": lambda seen: _passed(seen, seen.fact("rewound_ms")),
    "quiet_ms": lambda seen: seen.quiet_ms,
    "counted_ms": lambda seen: seen.counted_ms,
    "silent_before_ms": _silent_before_ms,
    "runs_seen": lambda seen: int(
        seen.snapshot.around.pace.moved_ms[seen.row.window] > seen.snapshot.around.first_ms
    ),
    "limit_ms": lambda seen: _known(seen.row.limit_ms),
    "usual_pause_ms": lambda seen: int(
        seen.snapshot.around.pace.pause_ms(np.array([seen.row.window]))[0]
    ),
    "usual_rise_ms": lambda seen: int(
        seen.snapshot.around.pace.rises.length_ms(slice(seen.row.window, seen.row.window + 1))[0]
    ),
    "rising_ms": lambda seen: int(
        seen.snapshot.around.pace.rose_ms(np.array([seen.row.window]))[0]
    ),
    "commits_are": lambda seen: "polled" if seen.polled else "read",
    "membership": lambda seen: membership_word(seen.fact("membership")),
    "judged_from_ms": _judged_from,
    "time_lag_ms": lambda seen: _known(seen.row.time_lag_ms),
    "log_end_offset": lambda seen: seen.partition("log_end"),
    "log_start_offset": lambda seen: seen.partition("log_start"),
    "last_stable_offset": lambda seen: seen.partition("last_stable"),
    "transaction_age_ms": _transaction_age_ms,
    "producer_id": lambda seen: _of_transaction(seen, "producer_id"),
    "transactional_id": lambda seen: _of_transaction(seen, "transactional_id") or None,
    "transaction_unnamed": lambda seen: _of_transaction(seen, "problem") or None,
    "left_for_ms": lambda seen: _passed(seen, seen.fact("left_ms")),
    "held_for_ms": lambda seen: _passed(
        seen, int(seen.snapshot.around.pace.since_s[seen.row.window]) * 1000
    ),
    "interrupted": lambda seen: int(seen.snapshot.around.pace.seen_without[seen.row.window]),
    "lost_messages": lambda seen: seen.lost,
    "acknowledged_messages": lambda seen: max(seen.fact("lost_acknowledged"), 0),
    "lost_is": _lost_is,
}
"""How each number of the evidence is found."""


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _outlooks(
    moment: Moment, snapshot: ClusterSnapshot, groups: NDArray[np.int64]
) -> Iterator[GroupOutlook]:
    """Rates and forecasts of groups and of their partitions that were committed to.

    Those of a whole group are of the partitions that it reads itself. All are computed at once:
    group by group it takes many times as long.
    """
    columns, topics, around = snapshot.rows, snapshot.topics, snapshot.around
    first = snapshot.group.first
    sizes = first[groups + 1] - first[groups]
    group = np.repeat(np.arange(groups.size), sizes)
    rows = np.arange(group.size) + (first[groups + 1] - np.cumsum(sizes))[group]
    committed = columns.commits[rows] > 0
    rows, group = rows[committed], group[committed]
    at, lag = columns.at[rows], columns.readable_lag[rows]
    windows = window_columns(moment.windows).take(columns.window[rows])
    measured = _rates(moment, snapshot, rows, group, windows)
    every = outlooks(
        measured,
        lag=lag,
        waits=np.isin(columns.rule[rows], _BEHIND_TRANSACTION),
        committed=columns.committed[rows],
        log_start=np.append(topics.retained_from, UNKNOWN)[at],
        log_end=np.append(topics.log_end, UNKNOWN)[at],
        past=moment.past_lags.of(columns.window[rows]),
    ).every()
    names = [snapshot.topic_names[topic] for topic in columns.topic[rows].tolist()]
    places = list(zip(names, columns.partition[rows].tolist(), strict=True))
    lags = [_known(each) for each in lag.tolist()]
    reads = ~NOT_READ[columns.rule[rows]]
    own_rows = np.flatnonzero(reads)
    taking = _taking(
        windows.take(own_rows),
        group[own_rows],
        measured.take(own_rows),
        lag=lag[own_rows],
        fine=columns.status[rows[own_rows]] == PartitionStatus.OK,
        places=[places[row] for row in own_rows.tolist()],
        now_ms=around.asked_ms,
        away_between=partial(around.away_between, columns.window[rows[own_rows]], at[own_rows]),
    )
    bounds = np.searchsorted(group, np.arange(groups.size + 1)).tolist()
    is_read = reads.tolist()
    for number, (start, stop) in enumerate(pairwise(bounds)):
        own = [row for row in range(start, stop) if is_read[row]]
        whole = of_group(
            {places[row]: every[row] for row in own},
            {places[row]: lags[row] for row in own},
            taking.get(number),
        )
        if snapshot.to_come.get(snapshot.groups[int(groups[number])]):
            whole = without_catch_up(whole)
        yield replace(
            whole, partitions=dict(zip(places[start:stop], every[start:stop], strict=True))
        )


def _rates(
    moment: Moment,
    snapshot: ClusterSnapshot,
    rows: NDArray[np.int64],
    group: NDArray[np.int64],
    windows: WindowColumns,
) -> Rates:
    """How fast each of these rows is written and read; NaN where that is not known.

    `group`, `windows`: the group, as a number from 0, and the window of commits of each row.
    """
    columns, around = snapshot.rows, snapshot.around
    at, lag = columns.at[rows], columns.readable_lag[rows]
    still = np.isin(columns.status[rows], (PartitionStatus.STOP, PartitionStatus.STALL))
    unread = around.facts.membership[columns.window[rows]] == Membership.EMPTY
    empty = np.flatnonzero(unread)
    few = windows.take(empty)
    left = _have_left(around, columns.window[rows[empty]], few)
    unread[empty] = left | _was_set_back(few)
    measured = rates(
        windows,
        at,
        moment.history,
        now_ms=around.asked_ms,
        skew_ms=around.skew_ms,
        stopped=still | unread,
        caught_up=lag == 0,
    )
    # how much they read of what they passed is not known
    unsure = _have_skipped(around, columns.window[rows], windows, columns.committed[rows])
    unsure |= (
        (measured.consumed_per_s == 0)
        & (lag != 0)
        & ~still
        & _wait_for_kafka(around, columns.window[rows], at, windows, unread=unread, group=group)
    )
    if unsure.any():
        reads_per_s = np.where(unsure, np.nan, measured.consumed_per_s)
        measured = replace(measured, consumed_per_s=reads_per_s)
    return measured


def _taking(
    windows: WindowColumns,
    group: NDArray[np.integer],
    measured: Rates,
    *,
    lag: NDArray[np.int64],
    fine: NDArray[np.bool_],
    places: Sequence[tuple[str, int]],
    now_ms: int,
    away_between: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
) -> Mapping[int, Taking]:
    """By group; only those with partitions that rest while others are read. Groups rise."""
    found = reading(windows, now_ms, away_between)
    turns = found.rests & fine & (lag > 0)
    # what rests and has been read counts in the sum of rates
    chosen, size = np.unique(group, return_counts=True)
    some = np.isin(chosen, group[turns | (found.rests & (measured.consumed_per_s > 0))])
    chosen = chosen[some & (size > 1)]
    rows = np.flatnonzero(np.isin(group, chosen))
    if not rows.size:
        return {}
    of_chosen = np.searchsorted(chosen, group[rows])
    common = together(measured.take(rows), found.take(rows), of_chosen, chosen.size)
    unknown = np.full(chosen.size, UNKNOWN, np.int64)
    wholes = outlooks(
        common,
        lag=np.bincount(of_chosen, np.maximum(lag[rows], 0), chosen.size).astype(np.int64),
        waits=np.zeros(chosen.size, np.bool_),
        committed=unknown,
        log_start=unknown,
        log_end=unknown,
        past=no_lags(chosen.size),
    ).every()
    names: dict[int, set[tuple[str, int]]] = {number: set() for number in chosen.tolist()}
    for row in rows[turns[rows]].tolist():
        names[int(group[row])].add(places[row])
    return {
        number: Taking(whole, frozenset(names[number]))
        for number, whole in zip(chosen.tolist(), wholes, strict=True)
    }


def _have_left(
    around: Around, rows: NDArray[np.integer], windows: WindowColumns
) -> NDArray[np.bool_]:
    """Rows whose members left a minute ago or longer, of groups without any.

    A tool may have set their offsets since. Where offsets are committed again and again, a consumer
    reads that assigns itself its partitions.
    """
    left_ms = around.pace.left_s[rows].astype(np.int64) * 1000
    long_left = (left_ms > 0) & (around.asked_ms + around.skew_ms - left_ms > LONG_MS)
    commit_ms = windows.in_time(windows.commit_ms)
    counts = np.arange(commit_ms.shape[0])[:, None] < windows.count.astype(np.int64)
    later = (counts & (commit_ms + around.skew_ms > left_ms)).sum(axis=0)
    found: NDArray[np.bool_] = long_left & (later < FEWEST)
    return found


def _wait_for_kafka(
    around: Around,
    rows: NDArray[np.integer],
    at: NDArray[np.integer],
    windows: WindowColumns,
    *,
    unread: NDArray[np.bool_],
    group: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which rows have not committed since Kafka came back a few minutes ago.

    Nobody could read while it was away, and consumers take a while to come back after it: a minute
    where the group is still without members (`unread`), or has committed for other partitions; two
    where a member is known to hold the partition.
    """
    back_ms = np.maximum(around.partitions.back_ms[at], around.commit_fact("back_ms", rows))
    committed_ms = windows.in_time(windows.commit_ms).max(axis=0, initial=UNKNOWN)
    reads_on = np.isin(group, group[(back_ms >= 0) & (committed_ms >= back_ms)])
    within_ms = np.where(around.held(rows), 2 * LONG_MS, around.limits.unsure_ms)
    within_ms[unread | reads_on] = LONG_MS
    back_of_late = around.asked_ms - back_ms <= within_ms
    waits: NDArray[np.bool_] = (back_ms >= 0) & back_of_late & (committed_ms < back_ms)
    return waits


def _have_skipped(
    around: Around,
    rows: NDArray[np.integer],
    windows: WindowColumns,
    committed: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Which rows lost messages between the first and the last commit of their windows."""
    until = around.facts.lost_until
    if until is None:
        return np.zeros(rows.size, np.bool_)
    first = windows.in_time(windows.offset)[0]
    skipped: NDArray[np.bool_] = (first < until[rows]) & (until[rows] <= committed)
    return skipped


def _was_set_back(windows: WindowColumns) -> NDArray[np.bool_]:
    """Rows whose committed offset went back when it changed last."""
    offset = windows.in_time(windows.offset)
    moved = np.diff(offset, axis=0)
    moved[np.arange(1, offset.shape[0])[:, None] >= windows.count.astype(np.int64)] = 0
    slot = np.arange(1, moved.shape[0] + 1)[:, None]
    last = np.where(moved != 0, slot, 0).max(axis=0, initial=0)
    back: NDArray[np.bool_] = np.where(slot == last, moved, 0).min(axis=0, initial=0) < 0
    return back


class _GroupReader:
    """One group in one snapshot."""

    def __init__(self, moment: Moment, snapshot: ClusterSnapshot, group: str, number: int) -> None:
        self._moment = moment
        self._snapshot = snapshot
        self._group = group
        self._number = number
        first = snapshot.group.first
        self._rows = range(int(first[number]), int(first[number + 1]))
        self._owners = snapshot.owners.get(group, {})
        self._shares = snapshot.shares.get(group, {})

    def verdict(self, partitions: tuple[PartitionVerdict, ...]) -> GroupVerdict:
        snapshot, number = self._snapshot, self._number
        columns = snapshot.group
        max_lag_row = int(columns.max_lag_row[number])
        time = columns.some_times(slice(number, number + 1))
        time_lag_ms = int(time.lag_ms[0])
        age_ms = int(snapshot.group_ages_ms(slice(number, number + 1))[0])
        return GroupVerdict(
            cluster=snapshot.cluster,
            group=self._group,
            at_ms=snapshot.at_ms,
            status=GroupStatus(int(columns.status[number])),
            rule=Rule(int(snapshot.rows.rule[columns.worst_row[number]])),
            complete=float(columns.complete[number]),
            partitions=partitions,
            partition_count=int(columns.partition_count[number]),
            max_lag=self._one_of(partitions, max_lag_row),
            total_lag=int(columns.total_lag[number]),
            readable_lag=int(columns.readable_lag[number]),
            left_behind_lag=int(columns.left_behind_lag[number]),
            since_ms=_instant(int(columns.since_ms[number])),
            unknown_partitions=int(columns.unknown[number]),
            time_lag_s=None if time_lag_ms < 0 else time_lag_ms / 1000,
            time_lag_reason=TimeLagReason(int(time.reason[0])),
            time_lag_error_s=_error_s(float(time.error_ms[0])),
            time_lag_partition=self._place(int(time.row[0])),
            time_lag_at_ms=_instant(snapshot.time_lags_ms),
            stale=snapshot.stale or age_ms > snapshot.stale_after_ms,
            data_age_s=max(age_ms, snapshot.data_age_ms) / 1000,
        )

    def _one_of(
        self, partitions: tuple[PartitionVerdict, ...], row: int
    ) -> PartitionVerdict | None:
        """The verdict of a row, from among these where it is there; None for -1."""
        place = self._place(row)
        if place is None:
            return None
        known = (each for each in partitions if (each.topic, each.partition) == place)
        return next(known, None) or self._partitions([row])[0]

    def cause(self, verdict: GroupVerdict, outlook: GroupOutlook) -> Cause | None:
        """Why it has this verdict, which is of all its partitions."""
        snapshot, columns = self._snapshot, self._snapshot.rows
        rows = np.arange(self._rows.start, self._rows.stop)
        at, status = columns.at[rows], columns.status[rows]
        leader = np.append(snapshot.topics.leader, 0)[at]
        behind = (status == PartitionStatus.WARN) & (columns.since_ms[rows] >= 0)
        before, since, after_outage = None, None, False
        if behind.any():
            since_ms = int(columns.since_ms[rows[behind]].min()) + snapshot.around.skew_ms
            history = self._moment.history
            before, since = produced_around(at[behind], history, since_ms)
            after_outage = before is not None and bool(
                (with_outage(at[behind], history, since_ms) < since_ms).any()
            )
        known, first_ms = snapshot.around.facts.read_committed, snapshot.around.first_ms
        return cause_of(
            Case(
                verdict=verdict,
                outlook=outlook,
                info=snapshot.info.get(self._group),
                events=self._moment.story.of(self._group),
                leaderless=frozenset(
                    place for row in rows[leader < 0].tolist() if (place := self._place(row))
                ),
                produced_before_per_s=before,
                produced_since_per_s=since,
                after_outage=after_outage,
                went_back=self._went_back(),
                read_committed=known is not None and bool(known[columns.window[rows]].any()),
                offsets_held=self._offsets_held(),
                skew_ms=snapshot.around.skew_ms,
                watched_ms=first_ms if first_ms >= 0 else None,
            )
        )

    def _offsets_held(self) -> tuple[int, int] | None:
        """The group's partition of the offsets topic, and since when it is held back, if it is."""
        commits = self._snapshot.around.facts.commits
        window = self._snapshot.rows.window[self._rows.start : self._rows.stop]
        stored = window[window >= 0]
        if commits is None or commits.held_ms is None or not stored.size:
            return None
        place = int(commits.place[stored[0]])
        held_ms = int(commits.held_ms[place])
        return None if held_ms < 0 else (place, held_ms)

    def _went_back(self) -> dict[tuple[str, int], int]:
        """Partitions that went back, and from where, as long as that is shown."""
        facts, columns = self._snapshot.around.facts, self._snapshot.rows
        if facts.rewound_from is None or facts.rewound_again_ms is None:
            return {}
        window = columns.window[self._rows.start : self._rows.stop]
        before, since_ms = facts.rewound_from[window], facts.rewound_again_ms[window]
        shown = (before >= 0) & (self._snapshot.at_ms - since_ms <= _REWIND_SHOWN_MS)
        places = ((self._place(self._rows[row]), row) for row in shown.nonzero()[0].tolist())
        return {place: int(before[row]) for place, row in places if place is not None}

    def _place(self, row: int) -> tuple[str, int] | None:
        """Topic and partition of a row; None for -1."""
        if row < 0:
            return None
        rows = self._snapshot.rows
        return self._snapshot.topic_names[int(rows.topic[row])], int(rows.partition[row])

    def worse_than_ok(self) -> tuple[PartitionVerdict, ...]:
        status = self._snapshot.rows.status[self._rows.start : self._rows.stop]
        worse = (status != PartitionStatus.OK).nonzero()[0] + self._rows.start
        return tuple(self._partitions(worse.tolist()))

    def committed(self) -> tuple[PartitionVerdict, ...]:
        """Every partition the group committed to."""
        return tuple(self._partitions(list(self._rows)))

    def with_never_committed(self) -> tuple[PartitionVerdict, ...]:
        """Every partition of every topic the group committed to."""
        committed = dict(zip(self._rows, self.committed(), strict=True))
        return tuple(
            _never_committed(topic, partition, self._owner(topic, partition))
            if row is None
            else committed[row]
            for topic, rows in self._topics().items()
            for partition, row in enumerate(rows)
        )

    def _topics(self) -> dict[str, list[int | None]]:
        """Topic → row by partition; None for partitions never committed."""
        snapshot = self._snapshot
        numbers = snapshot.rows.topic[self._rows.start : self._rows.stop].tolist()
        partitions = snapshot.rows.partition[self._rows.start : self._rows.stop].tolist()
        found: dict[str, list[int | None]] = {}
        for row, number, partition in zip(self._rows, numbers, partitions, strict=True):
            topic = snapshot.topic_names[number]
            if topic not in found:
                found[topic] = [None] * self._partitions_of(topic)
            rows = found[topic]
            rows += [None] * (partition + 1 - len(rows))
            rows[partition] = row
        return found

    def _partitions_of(self, topic: str) -> int:
        topics = self._snapshot.topics
        index = topics.index.get(topic)
        return 0 if index is None else int(topics.first[index + 1] - topics.first[index])

    def _owner(self, topic: str, partition: int) -> Member:
        return self._owners.get((topic, partition), _NOBODY)

    def _partitions(self, wanted: list[int]) -> list[PartitionVerdict]:
        """Verdicts of rows of the snapshot; read as columns, for a group may have thousands."""
        if not wanted:
            return []
        columns = self._snapshot.rows
        windows = columns.window[wanted]
        # windows change while the snapshot does not: a commit since then is not part of this answer
        oldest, newest = self._moment.windows.oldest_and_newest(
            windows, columns.committed[wanted], columns.commit_ms[wanted]
        )
        rows = (
            columns.topic[wanted].tolist(),
            columns.partition[wanted].tolist(),
            columns.at[wanted].tolist(),
            windows.tolist(),
            columns.rule[wanted].tolist(),
            columns.commits[wanted].tolist(),
            columns.lag[wanted].tolist(),
            columns.readable_lag[wanted].tolist(),
            columns.since_ms[wanted].tolist(),
            columns.limit_ms[wanted].tolist(),
            columns.lowest_lag[wanted].tolist(),
            self._snapshot.unknown_reasons(wanted).tolist(),
            *self._times(wanted),
        )
        return [
            self._partition(_Row(*numbers), oldest, newest, index)
            for index, numbers in enumerate(zip(*rows, strict=True))
        ]

    def _times(self, wanted: list[int]) -> list[list[float]]:
        """Time lag, reason and error of rows of this group."""
        first = self._rows.start
        times = self._snapshot.rows.some_times(slice(first, self._rows.stop))
        return [column[np.array(wanted) - first].tolist() for column in times]

    def _partition(
        self, row: "_Row", oldest: Entries, newest: Entries, index: int
    ) -> PartitionVerdict:
        snapshot = self._snapshot
        topic = snapshot.topic_names[row.topic]
        owner = self._owner(topic, row.partition)
        rule = row_of(snapshot.rules, _RULES[row.rule])
        has = row.commits > 0
        start, end = (_entry(each, index) if has else None for each in (oldest, newest))
        if end is not None and rule.rule is Rule.AHEAD_OF_LOG_END:
            end = replace(end, lag=None)  # it was counted as none when the offset was committed
        seen = _Seen(snapshot, self._moment.windows, row, start, end)
        return PartitionVerdict(
            topic=topic,
            partition=row.partition,
            owner=owner.host,
            client_id=owner.client_id,
            instance_id=owner.instance_id,
            status=rule.status,
            rules=snapshot.rules,
            rule=rule.rule,
            evidence={name: _NUMBERS[name](seen) for name in rule.evidence},
            start=start,
            end=end,
            current_lag=_known(row.lag),
            readable_lag=_known(row.readable_lag),
            since_ms=_instant(row.since_ms),
            complete=row.commits / snapshot.intervals,
            unknown_reason=None if row.unknown < 0 else _UNKNOWN_REASONS[row.unknown],
            time_lag_s=None if row.time_lag_ms < 0 else row.time_lag_ms / 1000,
            time_lag_reason=_REASONS[row.time_lag_reason],
            time_lag_error_s=_error_s(row.time_lag_error_ms),
            lost=max(seen.fact("lost"), 0),
            lost_unacknowledged=seen.lost,
            share=self._shares.get((topic, row.partition)),
        )

    def detail(self) -> GroupDetail:
        return GroupDetail(
            topics={
                topic: tuple(
                    self._partition_detail(topic, partition, row)
                    for partition, row in enumerate(rows)
                )
                for topic, rows in self._topics().items()
            }
        )

    def _partition_detail(self, topic: str, partition: int, row: int | None) -> PartitionDetail:
        owner = self._owner(topic, partition)
        window: tuple[WindowEntry | None, ...] = ()
        lag = None
        if row is not None:
            held = self._moment.windows.entries(int(self._snapshot.rows.window[row]))
            entries = tuple(_entry(held, index) for index in range(len(held.offset)))
            window = (None,) * (self._snapshot.intervals - len(entries)) + entries
            lag = int(self._snapshot.rows.lag[row])
        return PartitionDetail(
            window=window,
            owner=owner.host,
            client_id=owner.client_id,
            current_lag=None if lag is None or lag < 0 else lag,
        )


def _entry(held: Entries, index: int) -> WindowEntry:
    lag = held.lag[index]
    return WindowEntry(
        offset=held.offset[index],
        commit_ms=EpochMs(held.commit_ms[index]),
        observed_ms=EpochMs(held.observed_s[index] * 1000),
        lag=None if lag < 0 else lag,
    )


def _error_s(error_ms: float) -> float | None:
    return None if math.isnan(error_ms) else round(error_ms) / 1000


def _instant(at_ms: int) -> EpochMs | None:
    return None if at_ms < 0 else EpochMs(at_ms)


def _never_committed(topic: str, partition: int, owner: Member) -> PartitionVerdict:
    return PartitionVerdict(
        topic=topic,
        partition=partition,
        owner=owner.host,
        client_id=owner.client_id,
        instance_id=owner.instance_id,
        status=PartitionStatus.OK,
        rules=RuleSet.BURROW,
        rule=Rule.NEVER_COMMITTED,
        evidence={"commits": 0},
        start=None,
        end=None,
        current_lag=None,
        readable_lag=None,
        since_ms=None,
        complete=0.0,
        unknown_reason=None,
        time_lag_s=None,
        time_lag_reason=TimeLagReason.NEVER_COMMITTED,
        lost=0,
    )
