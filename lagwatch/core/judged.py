"""The verdicts of all rows from round to round: only rows that something happened to are judged.

A row is judged when a commit, its partition, its members or its pace changed (its owner says so by
`touched`, or it shows in the columns of partitions), and when its instant has come: `judge` says of
each row when its verdict can change by itself. All rows are judged when something changes that all
depend on. The result is the same as if all rows were judged in every round.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, fields
from typing import ClassVar, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.layout import Layout
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.model import UNKNOWN, EpochMs, Rule, RuleSet, TimeLagReason
from lagwatch.core.pace import Pace
from lagwatch.core.rows import ABSENCE, Around, PartitionColumns, Rows, WindowColumns
from lagwatch.core.rules import STATUS_OF_RULE, TABLES, judge, looks_at_windows
from lagwatch.core.snapshot import RowColumns
from lagwatch.core.time_lags import NOTHING_UNREAD, TimesOfRows, Waits
from lagwatch.core.window import Windows

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Bools = NDArray[np.bool_]
Index = NDArray[np.integer]
Column = NDArray[np.integer]
Follow: TypeAlias = Callable[["Inputs", "Judged"], tuple["Inputs", Index]]
"""Adds to the inputs what follows from the verdicts of a round, and names the stored rows whose
verdict that may change."""

_DUE_NOW: Final = -1
_TYPES: Final = {
    "rule": np.int8,
    "commits": np.int8,
    "time_lag_reason": np.int8,
    "limit_ms": np.int32,
    "committed": np.int64,
    "commit_ms": np.int64,
    "lag": np.int64,
    "readable_lag": np.int64,
    "since_ms": np.int64,
    "lowest_lag": np.int64,
    "appended_ms": np.int64,
    "after_ms": np.int64,
    "before_ms": np.int64,
    "due_ms": np.int64,
}
_SHARED: Final = (
    *("rule", "commits", "limit_ms", "committed", "commit_ms", "lag", "readable_lag", "since_ms"),
)
"""Columns that a snapshot shows as they are."""
_KNOWN_MS: Final = "known_ms"
_APART_MS: Final = 30_000
_OF_ITS_AGE: Final = 4
"""Two samples are far apart by so much, and by this part of the age of the later one."""
_DOWN = np.isin(np.arange(len(Rule)), (Rule.STOPPED, Rule.STALLED))
_TIMED = np.isin(
    np.arange(len(TimeLagReason)),
    (TimeLagReason.MEASURED, TimeLagReason.STORED, TimeLagReason.SAMPLES_APART),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Inputs of one round."""

    windows: Windows
    layout: Layout
    history: LogEndHistory
    now_ms: EpochMs
    """Up to when commits and log ends are known."""
    rules: RuleSet
    around: Around

    @property
    def read_ms(self) -> int:
        """Lag is that of the newest log ends, which may be younger than commits: so is its age."""
        return max(int(self.now_ms), *map(int, self.history.at_ms[-1:]), UNKNOWN)


class Judged:
    """The verdicts of one cluster, in the order of its layout. One owner calls `round`."""

    compares_every: ClassVar[int] = 0
    """For tests: so many rounds apart all rows are judged as well, and compared; 0 never."""

    def __init__(self) -> None:
        self._columns = {name: np.zeros(0, dtype) for name, dtype in _TYPES.items()}
        self._status: Int8 = np.zeros(0, np.int8)
        self._own: set[str] = set()
        """Columns that no snapshot refers to, so they may be written in place."""
        self._layout: Layout | None = None
        self._place: Int32 = np.zeros(0, np.int32)
        """Position in the layout of each stored row; -1 unused."""
        self._basis: tuple[object, ...] = ()
        self._partitions: PartitionColumns | None = None
        self._commits_ms: Int64 = np.zeros(0, np.int64)
        self._asked_ms = UNKNOWN
        self._again: Index = np.zeros(0, np.intp)
        """Stored rows to be judged in the next round."""
        self.changed: NDArray[np.intp] | None = None
        """Positions judged in the last round; None: all."""
        self._rounds = 0

    @property
    def compared(self) -> bool:
        """True if the round is one of those of which everything is judged as well."""
        return self.compares_every > 0 and self._rounds % self.compares_every == 0

    def round(
        self, seen: Inputs, *, touched: Index, whole: bool, follow: Follow
    ) -> Generator[None, None, Inputs]:
        """Judge what may have changed; pauses between blocks of rows.

        Until it has ended nothing that it looks at may change. Returns the inputs with what
        follows from them: see `Follow`.
        """
        touched = np.concatenate((touched, self._again))
        if not looks_at_windows(TABLES[seen.rules]):
            self._columns.pop("lowest_lag", None)  # no rule fills it
        self._follow(seen.layout)
        chosen = None if self._all_change(seen) or whole else self._due(seen, touched)
        self._own = {"due_ms"}
        again: list[Index] = [np.zeros(0, np.intp)]
        for part in _parts(seen, chosen):
            again.append(self._judge(seen, part))
            yield
        seen, late = follow(seen, self)
        place = np.unique(self._place[late]).astype(np.intp)
        if place.size:
            again.extend(self._judge(seen, part) for part in _parts(seen, place))
            chosen = None if chosen is None else np.union1d(chosen, place)
        self._join_readable()
        self._rounds += 1
        if self.compared:
            self._compare(seen)
        self._remember(seen, chosen, np.concatenate(again))
        return seen

    def _follow(self, layout: Layout) -> None:
        """Bring the columns into the order of a new layout; rows that are new to it are due."""
        before = self._layout
        if layout is before:
            return
        size = layout.window.size
        source = np.full(size, UNKNOWN, np.int64)
        stored = layout.window < self._place.size
        source[stored] = self._place[layout.window[stored]]
        for name, column in self._columns.items():
            known = column if column.size else np.zeros(1, column.dtype)
            self._columns[name] = known[source]
        moved = source < 0
        if before is not None and before.at.size:
            moved |= before.at[source] != layout.at
        self._columns["due_ms"][moved] = _DUE_NOW
        self._status = STATUS_OF_RULE[self._columns["rule"]]
        self._place = np.full(layout.at_stored.size, UNKNOWN, np.int32)
        self._place[layout.window] = np.arange(size)
        self._layout = layout

    def _all_change(self, seen: Inputs) -> bool:
        """True if something changed that all rows depend on."""
        around, commits = seen.around, seen.around.facts.commits
        known_ms = np.zeros(0, np.int64) if commits is None else commits.known_ms
        basis = (
            *(seen.rules, around.limits, around.skew_ms, around.complete_ms, around.first_ms),
            *(seen.history.revision, around.partitions.log_end.size, known_ms.size),
            () if commits is None else (*_absences(commits), commits.polled.tobytes()),
            (known_ms >= 0).tobytes(),
        )
        same = basis == self._basis and around.asked_ms >= self._asked_ms
        went_back = not same or bool((known_ms < self._commits_ms).any())
        self._basis, self._commits_ms, self._asked_ms = basis, known_ms, around.asked_ms
        return went_back

    def _due(self, seen: Inputs, touched: Index) -> NDArray[np.intp]:
        """Positions to be judged, rising."""
        layout, around = seen.layout, seen.around
        due: Bools = self._columns["due_ms"] <= around.asked_ms
        touched = touched[touched < self._place.size]
        place = self._place[touched]
        due[place[place >= 0]] = True
        if self._partitions is not None:
            changed = _changed(self._partitions, around.partitions)
            if changed.any():
                due |= changed[layout.at]
        commits = around.facts.commits
        if commits is not None and commits.polled.any():
            due |= commits.polled[commits.place[layout.window]] & _moving(seen)[layout.at]
        return np.flatnonzero(due)

    def _judge(self, seen: Inputs, part: "_Part") -> Index:
        """Judge some rows; returns the stored rows whose next verdict depends on this one."""
        around, row, at = seen.around, part.row, part.at
        has = part.windows.count > 0
        committed = np.where(has, part.windows.newest_offset, UNKNOWN)
        commit_ms = np.where(has, part.windows.newest_ms, UNKNOWN)
        known_ms = _known_ms(around, row, at, seen.now_ms)
        ends = _log_ends(around, seen.history, row, at, np.maximum(known_ms, commit_ms))
        lag = np.where((ends >= 0) & (committed >= 0), np.maximum(ends - committed, 0), UNKNOWN)
        readable = _readable(around, row, at, committed, lag)
        waiting = _waits(seen, at, committed, lag)
        appended_ms, reason = waiting.since_ms, waiting.reason
        waits = appended_ms >= 0
        time_lag_ms = np.where(waits, np.maximum(seen.now_ms - appended_ms, 0), appended_ms)
        time_lag_ms[appended_ms == NOTHING_UNREAD] = 0
        measured = waits & _TIMED[reason]
        unread_ms = _unread_ms(around.pace, row, appended_ms, measured, seen.now_ms)
        first = (lag > 0) & (unread_ms > np.where(measured, appended_ms, UNKNOWN))
        time_lag_ms[first] = np.maximum(seen.now_ms - unread_ms[first], 0)
        not_before_ms, by_ms = _gap(seen.history, at, committed, waiting, around.skew_ms)
        not_before_ms = _far_apart(waiting, not_before_ms, first, seen.now_ms, around.skew_ms)
        rows = Rows(
            around,
            part.windows,
            row=row,
            at=at,
            now_ms=known_ms,
            lag=lag,
            readable_lag=readable,
            time_lag_ms=time_lag_ms,
            allowed_lag=around.limits.allowed_lag,
            appended_ms=by_ms,
            not_before_ms=not_before_ms,
        )
        found = judge(TABLES[seen.rules], rows)
        # control records have an age, but nothing waits to be read
        nothing_left = found.rule == Rule.CONTROL_RECORDS_ONLY
        appended_ms[nothing_left], reason[nothing_left] = NOTHING_UNREAD, TimeLagReason.CAUGHT_UP
        # the log was cut short or replaced: the lag is not known until the group resets itself
        ahead = found.rule == Rule.AHEAD_OF_LOG_END
        appended_ms[ahead], reason[ahead] = UNKNOWN, TimeLagReason.AHEAD_OF_LOG_END
        # commits go on while the log end cannot be read: what there is to read is not known
        beyond = _beyond_what_was_read(seen, at, committed) & ~ahead
        appended_ms[beyond], reason[beyond] = UNKNOWN, TimeLagReason.LOG_END_UNKNOWN
        unknown = ahead | beyond
        if unknown.any():
            lag, readable = np.where(unknown, UNKNOWN, lag), np.where(unknown, UNKNOWN, readable)
        # a message that came after what is known of commits: how long it waits begins to count
        young = waits & (appended_ms > seen.now_ms)
        lowest = np.zeros(0, np.int64) if found.lowest_lag is None else found.lowest_lag
        place = self._place[row if part.whole is None else row[part.whole]]
        for name, values in (
            ("rule", found.rule),
            ("commits", part.windows.count),
            ("time_lag_reason", reason),
            ("limit_ms", found.limit_ms),
            ("committed", committed),
            ("commit_ms", commit_ms),
            ("lag", lag),
            ("readable_lag", readable),
            ("since_ms", found.since_ms),
            ("lowest_lag", lowest),
            ("appended_ms", appended_ms),
            ("after_ms", waiting.after_ms),
            ("before_ms", waiting.before_ms),
            ("due_ms", np.where(young, _DUE_NOW, found.due_ms)),
        ):
            if name != "lowest_lag" or found.lowest_lag is not None:
                self._put(name, place, values if part.whole is None else values[part.whole])
        return row[_news(around.pace, row, found.rule)]

    def _put(self, name: str, place: Int32, values: Column) -> None:
        """Write values at positions; the column is copied when the first differs."""
        column = self._columns[name]
        if name not in self._own:
            if np.array_equal(column[place], values):
                return
            column = self._columns[name] = column.copy()
            self._own.add(name)
            if name == "rule":
                self._status = self._status.copy()
        column[place] = values
        if name == "rule":
            self._status[place] = STATUS_OF_RULE[values]

    def _compare(self, seen: Inputs) -> None:
        afresh = Judged()
        afresh._follow(seen.layout)
        for part in _parts(seen, None):
            afresh._judge(seen, part)
        for name, column in self._columns.items():
            other = np.flatnonzero(column != afresh._columns[name])
            # it may be due earlier than needed
            if other.size and name != "due_ms":
                known, new = column[other[:5]], afresh._columns[name][other[:5]]
                rules = [Rule(each).word for each in self._columns["rule"][other[:5]]]
                raise AssertionError(f"{name} of rows {other[:5]} ({rules}): {known}, now {new}")

    def _join_readable(self) -> None:
        """Use one array for both lags if everything up to the log end is readable."""
        lag, readable = self._columns["lag"], self._columns["readable_lag"]
        if readable is not lag and np.array_equal(lag, readable):
            self._columns["readable_lag"] = lag

    def _remember(self, seen: Inputs, chosen: NDArray[np.intp] | None, again: Index) -> None:
        pace, window = seen.around.pace, seen.layout.window
        self._partitions, self.changed = seen.around.partitions, chosen
        lag, readable = self._columns["lag"], self._columns["readable_lag"]
        if readable is not lag:
            waits = window[(lag > 0) & (readable == 0)]
            pace.wait(waits, np.full(waits.size, seen.around.asked_ms, np.int64))
        again = self._again = again[self._place[again] >= 0]
        rule = self._columns["rule"][self._place[again]]
        # what was once found down stays so until it moves, through restarts and outages
        new = again[_DOWN[rule] & ~pace.down[again]]
        since_ms, commit_ms = (
            self._columns[name][self._place[new]] for name in ("since_ms", "commit_ms")
        )
        left_ms = pace.left_s[new].astype(np.int64) * 1000 - seen.around.skew_ms
        # the longer limit for both: only members whose session ran out go later than that
        leave_ms = seen.around.limits.polled_leave_ms
        pace.go_down(new, since_ms, left_ms - commit_ms, leave_ms=leave_ms)
        pace.down[again] |= _DOWN[rule]
        pace.stalled[again] = np.where(_DOWN[rule], rule == Rule.STALLED, pace.stalled[again])
        silent = rule == Rule.SILENT_BEFORE_START
        pace.may_be_job[again] |= silent
        pace.silent[again] |= silent
        pace.behind[again] = rule == Rule.FALLING_BEHIND

    def rows(self, seen: Inputs, asked_ms: Int64) -> RowColumns:
        """The verdicts of the last round; columns that did not change are those before it.

        `asked_ms`: start of the round that answered last for each topic-partition; -1 unknown.
        """
        layout, columns = seen.layout, self._columns
        shared = {name: columns[name] for name in _SHARED}
        if looks_at_windows(TABLES[seen.rules]):
            lowest_lag = columns["lowest_lag"]
        else:
            lowest_lag = np.broadcast_to(np.int64(UNKNOWN), layout.window.shape)
        waits = Waits(
            columns["appended_ms"],
            columns["time_lag_reason"],
            columns["after_ms"],
            columns["before_ms"],
        )
        return RowColumns(
            topic=layout.topic,
            partition=layout.partition,
            at=layout.at,
            window=layout.window,
            status=self._status,
            lowest_lag=lowest_lag,
            times=TimesOfRows(
                waits=waits,
                at=layout.at,
                window=layout.window,
                committed=columns["committed"],
                asked_ms=asked_ms,
                read_ms=seen.read_ms,
                around=seen.around,
                restored_ms=seen.history.restored_ms,
                spacing_ms=seen.history.spacing_ms,
            ),
            **shared,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some rows that are judged at once."""

    windows: WindowColumns
    row: Index
    at: Int32
    whole: NDArray[np.intp] | None = None
    """Which of these are laid out; None: all."""


def _parts(seen: Inputs, chosen: NDArray[np.intp] | None) -> Iterator[_Part]:
    """The rows to be judged, in blocks: what is held in between fits the cache."""
    windows, layout = seen.windows, seen.layout
    if chosen is None:
        # in the order of the store: the windows are read where they are
        columns = window_columns(windows)
        used = np.zeros(windows.rows, np.bool_)
        used[layout.window] = True
        for first in range(0, windows.rows, windows.block_rows):
            block = slice(first, min(first + windows.block_rows, windows.rows))
            there = used[block]
            yield _Part(
                windows=columns.take(block),
                row=np.arange(block.start, block.stop),
                at=layout.at_stored[block],
                whole=None if there.all() else np.flatnonzero(there),
            )
        return
    for first in range(0, chosen.size, windows.block_rows):
        some = chosen[first : first + windows.block_rows]
        row = layout.window[some]
        yield _Part(windows=window_columns(windows, row), row=row, at=layout.at[some])


def window_columns(windows: Windows, rows: Index | None = None) -> WindowColumns:
    """The live windows as the rules read them, of all rows or of these; a view, not a copy."""
    used: Index | slice = slice(windows.rows) if rows is None else rows
    every = slice(windows.rows)
    return WindowColumns(
        offset=windows.offset[:, every],
        commit_ms=windows.commit_ms[:, every],
        lag=windows.lag[:, every],
        count=windows.count[used],
        oldest=windows.oldest_slot(used),
        newest=windows.newest[used],
        observed_s=windows.observed_s[:, every],
        chosen=rows,
    )


def _news(pace: Pace, row: Index, rule: Int8) -> Bools:
    """Rows with a verdict that their pace has not recorded yet."""
    news: Bools = _DOWN[rule] & (~pace.down[row] | ((rule == Rule.STALLED) != pace.stalled[row]))
    news |= (rule == Rule.SILENT_BEFORE_START) & ~(pace.may_be_job[row] & pace.silent[row])
    news |= (rule == Rule.FALLING_BEHIND) != pace.behind[row]
    return news


def _absences(commits: object) -> tuple[bytes, ...]:
    return tuple(getattr(commits, name).tobytes() for name in ABSENCE)


def _changed(before: PartitionColumns, after: PartitionColumns) -> Bools:
    """Mask of topic-partitions that changed in more than the instant up to which they are known."""
    known_before, known = before.known_ms, after.known_ms
    changed: Bools = (known < known_before) | ((known < 0) != (known_before < 0))
    for field in fields(PartitionColumns):
        if field.name != _KNOWN_MS:
            changed |= getattr(before, field.name) != getattr(after, field.name)
    return changed


def _moving(seen: Inputs) -> Bools:
    """Topic-partitions whose log end may differ from that at the instant of a poll."""
    around = seen.around
    partitions, commits = around.partitions, around.facts.commits
    moving: Bools = partitions.recent_end != partitions.log_end
    oldest_ms = UNKNOWN if commits is None else int(commits.known_ms[commits.polled].min())
    if around.asked_ms - oldest_ms > around.limits.recent_ms // 2:
        moving[:] = True
    return moving


def _known_ms(around: Around, row: Index, at: Int32, now_ms: EpochMs) -> Int64:
    """Up to when commits and log end of each row are known, on Kafka's clock."""
    here_ms = now_ms - around.skew_ms
    known_ms = around.partitions.known_ms[at]
    known_ms = np.where(known_ms >= 0, np.minimum(known_ms, here_ms), here_ms)
    commits = around.facts.commits
    if commits is not None:
        commits_ms = commits.known_ms[commits.place[row]]
        known_ms = np.where(commits_ms >= 0, np.minimum(known_ms, commits_ms), known_ms)
    return known_ms


def _log_ends(around: Around, history: LogEndHistory, row: Index, at: Int32, at_ms: Int64) -> Int64:
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


def _beyond_what_was_read(seen: Inputs, at: Int32, committed: Int64) -> NDArray[np.bool_]:
    """Mask of rows whose offset is above their newest log end; Burrow calls their lag 0."""
    if seen.rules is not RuleSet.LAGWATCH:
        return np.zeros(at.size, np.bool_)
    log_end = seen.around.partitions.log_end[at]
    return (log_end >= 0) & (committed > log_end)


def _readable(around: Around, row: Index, at: Int32, committed: Int64, lag: Int64) -> Int64:
    """The readable part of each lag; the array `lag` itself if all of it is readable everywhere."""
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


def _waits(seen: Inputs, at: Int32, committed: Int64, lag: Int64) -> Waits:
    """Instant since which the oldest unread message of each row waits, by the log end history."""
    reason = np.full(lag.size, TimeLagReason.CAUGHT_UP, np.int8)
    reason[lag < 0] = TimeLagReason.LOG_END_UNKNOWN
    reason[committed < 0] = TimeLagReason.NEVER_COMMITTED
    since_ms = np.where(reason == TimeLagReason.CAUGHT_UP, NOTHING_UNREAD, UNKNOWN)
    after_ms, before_ms = (np.full(lag.size, UNKNOWN, np.int64) for _ in range(2))
    behind = np.flatnonzero(lag > 0)
    if behind.size:
        age = seen.history.age(at[behind], committed[behind], seen.read_ms)
        reason[behind] = age.reason
        after_ms[behind], before_ms[behind] = age.after_ms, age.before_ms
        waits_ms = np.where(age.lag_ms >= 0, seen.read_ms - age.lag_ms, UNKNOWN)
        nothing = age.reason == TimeLagReason.CAUGHT_UP
        since_ms[behind] = np.where(nothing, NOTHING_UNREAD, waits_ms)
    return Waits(since_ms, reason, after_ms, before_ms)


def _unread_ms(pace: Pace, row: Index, appended_ms: Int64, measured: Bools, now_ms: int) -> Int64:
    """When the first unread message of each row was appended, as first measured; -1 unknown.

    It is kept after the history of log ends has forgotten that instant: a silence of two days is
    not one of a day. The first measurement is the closest one, because the history keeps fewer
    samples of older times: measured later, the message may seem to have come before the last run
    of a job had ended. An instant in the future comes from a clock that was set back.
    """
    pace.unread_s[row[pace.unread_s[row] > now_ms // 1000 + 1]] = 0
    found = np.flatnonzero(measured & (pace.unread_s[row] == 0))
    pace.unread_s[row[found]] = appended_ms[found] // 1000
    unread_ms = pace.unread_s[row].astype(np.int64) * 1000
    return np.where(unread_ms > 0, unread_ms, UNKNOWN)


def _gap(
    history: LogEndHistory, at: Int32, committed: Int64, waits: Waits, skew_ms: int
) -> tuple[Int64 | None, Int64 | None]:
    """Instants between which the first unread message of each row arrived, if in a gap of samples.

    Those of the samples on both sides of the gap, on Kafka's clock; -1 unknown.
    """
    unseen = np.flatnonzero(waits.reason == TimeLagReason.NOT_SAMPLED)
    if not unseen.size:
        return None, None
    first_ms, last_ms = (np.full(waits.reason.size, UNKNOWN, np.int64) for _ in range(2))
    last_ms[unseen] = history.appended_by(at[unseen], committed[unseen]) - skew_ms
    after_ms = waits.after_ms[unseen]
    first_ms[unseen] = np.where(after_ms >= 0, after_ms - skew_ms, last_ms[unseen])
    return first_ms, last_ms


def _far_apart(
    waits: Waits, not_before_ms: Int64 | None, first: Bools, now_ms: int, skew_ms: int
) -> Int64 | None:
    """First instant of `_gap`, and of samples that are far apart, as after an outage of Kafka.

    Between these an instant was computed, at which nothing need have happened. Not where it was
    measured closer before (`first`), nor for what is old: the history keeps fewer samples of it.
    """
    apart_ms = waits.before_ms - waits.after_ms
    age_ms = now_ms - waits.before_ms
    wide = (waits.after_ms >= 0) & (waits.before_ms >= 0) & ~first
    wide &= apart_ms > np.maximum(_APART_MS, age_ms // _OF_ITS_AGE)
    if not_before_ms is None:
        return np.where(wide, waits.after_ms - skew_ms, UNKNOWN) if wide.any() else None
    not_before_ms = np.where(wide, waits.after_ms - skew_ms, not_before_ms)
    return np.where(first, UNKNOWN, not_before_ms)
