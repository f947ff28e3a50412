"""Inputs of the rules: the windows of the rows to judge, and the facts around them.

Columns of windows are rings as in `window`: slots first, rows second. A slot's predecessor is the
slot before it, except for the oldest entry, which has none.

There are two measures of silence. `silent_ms` is the time since the last commit, as Burrow measures
it. `quiet_ms` is the time in which there was something to read and the offset did not move, also
while the same offset was committed again and again. `Rows.quiet_ms` is the part of it that counts
towards the limit: in the evidence that part is `counted_ms`, and `quiet_ms` is the whole.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Membership
from lagwatch.core.pace import KNOWN_AFTER, YOUNG_STEPS, Pace
from lagwatch.core.watching import Unwatched

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Int8 = NDArray[np.int8]
Bools = NDArray[np.bool_]
Slots = NDArray[np.integer]

_REJOIN_MS: Final = 300_000
"""After Kafka was away a group finds its broker, and rejoins, within this time."""
_SHORT_REJOIN_MS: Final = 60_000
"""A moment without Kafka takes no membership away: then groups read on at once, or soon."""
_NO_LAG: Final = np.iinfo(np.int64).max
FRESH_STEPS: Final = 2
"""In steps: so long a partition may wait after its member last read another one. The client has to
change over, and its first commit takes a while."""
_TURN_STEPS: Final = 60
"""An hour by default."""
_SHORT_RUN: Final = 4
"""Part of `next_run_ms` up to which a run is short: 105 seconds by default."""
_LONG_AGO_MS: Final = -(1 << 60)
NEVER_MS: Final = 1 << 60
"""Later than every instant."""


class WindowColumns:
    """The windows of n rows, k slots each.

    Columns of slots are gathered when asked for: most rules look at the newest commit only.
    """

    def __init__(
        self,
        *,
        offset: Int64,
        commit_ms: Int64,
        lag: NDArray[np.signedinteger],
        count: Slots,
        oldest: Slots,
        newest: Slots,
        observed_s: NDArray[np.uint32] | None = None,
        chosen: Slots | None = None,
    ) -> None:
        """Columns of slots are [k, n], the others [n].

        Args:
            offset: committed offsets.
            commit_ms: when they were committed.
            lag: -1 unknown.
            count: entries of each row.
            oldest: slot of the oldest entry; 0 for an empty row.
            newest: slot of the newest entry; -1 for an empty row.
            observed_s: when lagwatch saw each commit, on its own clock; None: not known.
            chosen: the columns of slots are those of more rows, of which these are looked at.
        """
        self._offset = offset
        self._commit_ms = commit_ms
        self._lag = lag
        self._observed_s = observed_s
        self._chosen = chosen
        self.count = count
        self.oldest = oldest
        self.newest = newest

    @property
    def slots(self) -> int:
        return int(self._offset.shape[0])

    @cached_property
    def offset(self) -> Int64:
        """Committed offsets; [k, n]."""
        return self._offset if self._chosen is None else self._offset[:, self._chosen]

    @cached_property
    def commit_ms(self) -> Int64:
        """When they were committed; [k, n]."""
        return self._commit_ms if self._chosen is None else self._commit_ms[:, self._chosen]

    @cached_property
    def lag(self) -> NDArray[np.signedinteger]:
        """[k, n]; -1 unknown."""
        return self._lag if self._chosen is None else self._lag[:, self._chosen]

    @property
    def rows(self) -> NDArray[np.intp]:
        return np.arange(self.count.size)

    @property
    def newest_offset(self) -> Int64:
        """[n]; of an empty row it means nothing, as in the two that follow."""
        return self._offset[self.newest, self._place]

    @property
    def newest_ms(self) -> Int64:
        """When the newest entry was committed; [n]."""
        return self._commit_ms[self.newest, self._place]

    @property
    def oldest_ms(self) -> Int64:
        """When the oldest entry was committed; [n]."""
        return self._commit_ms[self.oldest, self._place]

    @property
    def newest_seen_s(self) -> NDArray[np.uint32] | None:
        """When lagwatch saw the newest entry, on its own clock; None: not known."""
        observed_s = self._observed_s
        return None if observed_s is None else observed_s[self.newest, self._place]

    @property
    def _place(self) -> Slots:
        return self.rows if self._chosen is None else self._chosen

    def take(self, rows: Slots | slice) -> "WindowColumns":
        """The windows of these rows; views for a slice."""
        view = isinstance(rows, slice) and self._chosen is None
        part = np.s_[:, rows] if view else np.s_[:]
        observed_s = self._observed_s
        return WindowColumns(
            offset=self._offset[part],
            commit_ms=self._commit_ms[part],
            lag=self._lag[part],
            count=self.count[rows],
            oldest=self.oldest[rows],
            newest=self.newest[rows],
            observed_s=None if observed_s is None else observed_s[part],
            chosen=None if view else self._place[rows],
        )

    def in_time(self, column: NDArray[np.signedinteger]) -> NDArray[np.signedinteger]:
        """A column unrolled: [k, n], oldest entry first, what follows the newest undefined."""
        slots = np.arange(column.shape[0])[:, None]
        unrolled: NDArray[np.signedinteger] = column[
            (self.oldest[None, :] + slots) % column.shape[0], self.rows[None, :]
        ]
        return unrolled


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumns:
    """Topic-partitions; the last row is unknown, for those that lagwatch may not see."""

    log_start: Int64
    log_end: Int64
    last_stable: Int64
    held_ms: Int64
    """When the open transaction that the last stable offset waits for began. Where that is not
    known: since when it has been below the log end without moving. -1: it is not below."""
    known_ms: Int64
    """When the log end was last read."""
    away_ms: Int64
    """Last reading before the partition was away for a while; -1."""
    back_ms: Int64
    """First reading after it; -1."""
    away_2_ms: Int64
    """`away_ms` and `back_ms` of the absence before; `_3` of the one before that."""
    back_2_ms: Int64
    away_3_ms: Int64
    back_3_ms: Int64
    clear_ms: Int64
    """First reading after the absence before these; -1 when there was none."""
    empty_first: Int64
    empty_end: Int64
    """From `empty_first` to before `empty_end` a read_committed reader found no record; -1."""
    recent_end: Int64
    """Lowest log end of the last while."""

    @classmethod
    def of(cls, log_end: Int64, **columns: Int64) -> "PartitionColumns":
        """From columns without the last element; those left out are unknown."""
        names = [field.name for field in fields(cls)]
        table = np.full((len(names), log_end.size + 1), UNKNOWN, np.int64)
        for place, name in enumerate(names):
            if name == "log_end" or name in columns:
                table[place, :-1] = log_end if name == "log_end" else columns[name]
        return cls(**dict(zip(names, table, strict=True)))


ABSENCE: Final = (
    *("away_ms", "back_ms", "away_2_ms", "back_2_ms", "away_3_ms", "back_3_ms", "clear_ms"),
)
"""Columns that say when something was away: its last three absences, the newest first, and when it
was back from the one before them. In the order of `uninterrupted_ms`."""


Absence = tuple[Int64, ...]
"""`ABSENCE` of each row."""


def note_absence(columns: Sequence[Int64], where: Bools, away_ms: Int64, back_ms: Int64) -> None:
    """Add an absence to `ABSENCE` of these rows; the oldest of three is forgotten."""
    for to, source in ((6, 5), (4, 2), (5, 3), (2, 0), (3, 1)):
        columns[to][where] = columns[source][where]
    columns[0][where], columns[1][where] = away_ms[where], back_ms[where]


def each_absence(absence: Absence) -> Iterator[tuple[Int64, Int64]]:
    """From when and until when each one was, the newest first; -1 where there was none."""
    return zip(absence[:-1:2], absence[1:-1:2], strict=True)


def uninterrupted_ms(
    since_ms: Int64,
    until_ms: Int64,
    *absence: Int64,
    rejoin_ms: int = _REJOIN_MS,
    left_ms: Int64 | None = None,
    without: Unwatched | None = None,
) -> Int64:
    """How long between two instants Kafka was there, and groups could read; 0: never.

    The longest stretch, or the sum of several, less the time that groups may take to come back
    after each absence between them: at most `rejoin_ms`, and less after a short absence. For a
    group without members since `left_ms` that time runs from then. Only the last three absences
    are remembered. A broker that comes and goes thus never makes a silence longer than it was.
    Time within `without` is not counted.
    """
    best, run = _before(since_ms, absence, _Rejoin(rejoin_ms, left_ms), without)
    after_ms = until_ms - np.maximum(since_ms, absence[1])
    longest_ms: Int64 = np.maximum(np.maximum(best, run + after_ms), 0)
    return longest_ms


def longer_from_ms(
    since_ms: Int64,
    than_ms: Int64 | int,
    *absence: Int64,
    rejoin_ms: int = _REJOIN_MS,
    left_ms: Int64 | None = None,
    without: Unwatched | None = None,
) -> Int64:
    """From when on `uninterrupted_ms` since an instant is longer than this.

    Far in the past where it was so before the last absence.
    """
    best, run = _before(since_ms, absence, _Rejoin(rejoin_ms, left_ms), without)
    from_ms = np.maximum(since_ms, absence[1]) - run + than_ms + 1
    return np.where(best > than_ms, _LONG_AGO_MS, from_ms)


class _Rejoin(NamedTuple):
    """How long groups may take to come back after an absence."""

    at_most_ms: int
    left_ms: Int64 | None
    """When the last member went, see `Around.gone_ms`."""

    def after_ms(self, away_ms: Int64, back_ms: Int64) -> Int64:
        grace_ms: Int64 = np.minimum(_SHORT_REJOIN_MS + 4 * (back_ms - away_ms), self.at_most_ms)
        if self.left_ms is not None:
            used_ms = np.maximum(away_ms - self.left_ms, 0)
            grace_ms = np.maximum(grace_ms - used_ms, 0)
        return grace_ms


def _before(
    since_ms: Int64, absence: Absence, rejoin: _Rejoin, without: Unwatched | None
) -> tuple[Int64, Int64]:
    """Of the time since an instant and before the last absence, what counts, see above.

    The best that ended by then, and what goes on to count with the time after it.
    """
    best: Int64 = np.zeros(since_ms.size, np.int64)
    run: Int64 = np.zeros(since_ms.size, np.int64)
    there_ms = absence[-1]
    for away_ms, back_ms in reversed([*each_absence(absence)]):
        if (since_ms < back_ms).any():
            run = run + np.maximum(away_ms - np.maximum(since_ms, there_ms), 0)
            best = np.maximum(best, run)
            grace_ms = rejoin.after_ms(away_ms, back_ms)
            run = np.where(since_ms < back_ms, np.maximum(run - grace_ms, 0), 0)
        there_ms = back_ms
    if without is not None:
        # what ended before the last absence lacks nothing for a gap after it
        left_out_ms = without.after_ms(since_ms)
        best = best - left_out_ms + without.after_ms(np.maximum(since_ms, absence[0]))
        run = run - left_out_ms
    return best, run


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFacts:
    """Facts about each stored row beside its window and pace.

    A column is None if no row has the fact.
    """

    membership: Int8
    """`Membership`"""
    left_ms: Int64 | None
    """Since when no member of the group, which has some, subscribes to the topic; -1 it does."""
    visited_ms: Int64 | None
    """When the third last visit of members to the group ended; -1."""
    mirrored: Bools | None
    """True if a mirror of another cluster writes the offsets."""
    read_committed: Bools | None
    """True if the group is known to read committed records only."""
    rewound_from: Int64 | None
    """Committed offset before it went back; -1."""
    rewound_ms: Int64 | None
    """When it went back first."""
    rewound_again_ms: Int64 | None
    """When it went back last."""
    lost: Int64 | None
    """Messages that were deleted before the group read them."""
    lost_acknowledged: Int64 | None
    """How many of them somebody has acknowledged: they are shown no more."""
    lost_bound: Int64 | None
    """1 where some of the others may have been read, so that their number is an upper bound."""
    lost_doubt_ms: Int64 | None
    """When the group last passed messages that were deleted, and that it may have read or not."""
    lost_ms: Int64 | None
    """When the last of them were noticed missing; -1 never, or acknowledged."""
    lost_since_ms: Int64 | None
    """When the first of the losses that are shown were noticed."""
    commits: "CommitFacts | None"
    """Up to when the commits of the rows are known; None: as of the log ends."""
    turns: "Turns | None" = None
    """Rows whose member works off the backlog of other partitions."""
    times: "OffsetTimes | None" = None
    """When brokers say that some rows' offsets were appended; the rules do not look at it."""
    stored: "StoredTimes | None" = None
    """Stored samples between which some rows' offsets were appended; not for the rules, either."""
    lost_until: Int64 | None = None
    """The offset up to which messages were lost last; -1. The rules do not look at it."""
    out_of_order: NDArray[np.intp] | None = None
    """Rows, sorted, of share groups that have done records behind one that is still unread."""

    def lost_shown(self, rows: NDArray[np.integer]) -> Int64:
        """Messages that were lost and are not acknowledged, of some rows."""
        if self.lost is None:
            return np.zeros(rows.size, np.int64)
        lost: Int64 = np.maximum(self.lost[rows], 0)
        if self.lost_acknowledged is not None:
            lost = lost - self.lost_acknowledged[rows]
        return lost

    @classmethod
    def none(cls, rows: int) -> "RowFacts":
        """Nothing is known."""
        empty = {field.name: None for field in fields(cls) if field.name != "membership"}
        return cls(membership=np.full(rows, Membership.UNKNOWN, np.int8), **empty)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """Up to when commits are known, by partition of the offsets topic."""

    place: NDArray[np.int16]
    """The partition of the offsets topic of each stored row."""
    known_ms: Int64
    """All commits before it are known; -1 none."""
    away_ms: Int64
    """Last instant at which they were known before they were unknown for a while; -1."""
    back_ms: Int64
    away_2_ms: Int64
    """`away_ms` and `back_ms` of the absence before; `_3` of the one before that."""
    back_2_ms: Int64
    away_3_ms: Int64
    back_3_ms: Int64
    clear_ms: Int64
    """The `back_ms` of the absence before these; -1."""
    polled: Bools
    """True if offsets are polled, so that only changes are visible."""
    held_ms: Int64 | None = None
    """Since when it has been seen that an open transaction holds the partition back; -1: it does
    not. None: none is held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetTimes:
    """When the messages at some rows' offsets were appended, on Kafka's clock; one entry per row.

    The offset is or was the row's committed offset.
    """

    row: Int32
    """Stored rows, rising."""
    offset: Int64
    low_ms: Int64
    """Not appended before this."""
    high_ms: Int64
    """Not appended after this; means nothing where times are producers' own."""
    by_broker: Bools
    """True if the broker sets record times (`LogAppendTime`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTimes:
    """Between which stored samples some rows' offsets were appended, on lagwatch's clock."""

    row: Int32
    """Stored rows, rising."""
    offset: Int64
    low_ms: Int64
    """Appended after this; -1 unknown."""
    high_ms: Int64
    """Not appended after this; -1 unknown."""
    share: NDArray[np.float32]
    """How far between the two it is expected, 0..1."""


class Turns(NamedTuple):
    """Stored rows that wait, and when their members last read other partitions far behind."""

    row: NDArray[np.int32]
    """Rising."""
    read_ms: Int64
    """On Kafka's clock."""

    def of(self, rows: Slots) -> Int64:
        """`read_ms` of these rows; -1 of those that do not wait."""
        found = np.full(rows.size, UNKNOWN, np.int64)
        if self.row.size:
            place = np.minimum(np.searchsorted(self.row, rows), self.row.size - 1)
            waits = self.row[place] == rows
            found[waits] = self.read_ms[place[waits]]
        return found


def no_turns() -> Turns:
    """Nothing waits."""
    return Turns(np.zeros(0, np.int32), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Settings of the rules."""

    allowed_lag: int = 0
    minimum_complete: float = 0.0
    recent_ms: int = 100_000
    """How far back "was at the log end" looks."""
    stop_after_ms: int = 180_000
    """A group without members is not stopped before it was quiet for so long.

    All other times of the rules are fixed parts and multiples of it: see `step_ms`.
    """
    stall_after_ms: int = 360_000
    """A group with members is not stopped or stalled before.

    Kafka takes a member for healthy for `max.poll.interval.ms`, by default 300 s, after its last
    poll; a minute later it is seen whether the member has left.
    """
    loss_shown_ms: int = 3_600_000
    leave_ms: int = 12_000
    """From a job's last commit until its members are seen to have left; sessions end later."""
    polled_leave_ms: int = 40_000
    """`leave_ms` where offsets and groups are polled."""

    @property
    def step_ms(self) -> int:
        """The third part of `stop_after_ms`: a minute by default."""
        return self.stop_after_ms // 3

    @property
    def unsure_ms(self) -> int:
        """Limit, instead of `stop_after_ms`, of a row of which little is known: five minutes."""
        return 5 * self.step_ms

    @property
    def next_run_ms(self) -> int:
        """Limit of a job that has ended and of which little is known: seven minutes."""
        return 7 * self.step_ms

    @property
    def deployed_ms(self) -> int:
        """So long after its members left, a group may only be deployed: two and a half minutes."""
        return self.step_ms * 5 // 2

    @property
    def young_ms(self) -> int:
        """A row seen for less than this has not shown what is usual for it: half an hour."""
        return YOUNG_STEPS * self.step_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """Facts about one cluster, beside its windows."""

    pace: Pace
    facts: RowFacts
    partitions: PartitionColumns
    limits: Limits
    complete_ms: int = UNKNOWN
    """Since when lagwatch has been watching without a gap of its own; -1: always."""
    first_ms: int = UNKNOWN
    """When lagwatch first watched the cluster, restarts included; -1: always."""
    unwatched: Unwatched = field(default_factory=Unwatched)
    """The gaps between the two."""
    skew_ms: int = 0
    """How far lagwatch's clock is ahead of Kafka's."""
    asked_ms: int = UNKNOWN
    """The instant that time lags are relative to."""

    def counts_from_ms(self, row: Slots, since_ms: Int64) -> Int64:
        """Instant from which a silence of each of these rows since an instant counts.

        A pace that is not known yet is learned from what is seen, not from the past.
        """
        if self.first_ms < 0:
            return since_ms
        known = self.pace.moves[row] >= KNOWN_AFTER
        return np.where(known, since_ms, np.maximum(since_ms, self.first_ms))

    def away_between(self, row: Slots, at: Slots, from_ms: Int64, until_ms: Int64) -> Bools:
        """True where Kafka or lagwatch was away at some time between two instants.

        Args:
            row: stored rows.
            at: their topic-partitions.
            from_ms: instants, the rows along the last axis.
            until_ms: the same.
        """
        found: Bools = self.unwatched.after_ms(from_ms) > self.unwatched.after_ms(until_ms)
        for away_ms, back_ms in chain.from_iterable(map(each_absence, self.absences(row, at))):
            found |= (away_ms >= 0) & (away_ms < until_ms) & (back_ms > from_ms)
        return found

    def absences(self, row: Slots, at: Slots) -> "tuple[Absence, Absence]":
        """`ABSENCE` of each row's topic-partition, and of its partition of the offsets topic."""
        return (
            tuple(getattr(self.partitions, name)[at] for name in ABSENCE),
            tuple(self.commit_fact(name, row) for name in ABSENCE),
        )

    def commit_fact(self, name: str, row: Slots) -> Int64:
        """A column of `CommitFacts`, by row; -1 where nothing is known."""
        commits = self.facts.commits
        if commits is None:
            return np.full(row.size, UNKNOWN, np.int64)
        values: Int64 = getattr(commits, name)[commits.place[row]]
        return values

    def quiet_since_ms(self, row: Slots, appended_ms: Int64, held: Bools) -> Int64:
        """Since when there has been something to read and the offset has not moved.

        From the last movement, or from when the first unread message was appended (-1: not known)
        or an open transaction ended, if that came later: until then the consumer had nothing to do.
        And where a member holds the partition (`held`), from when it came: a job does not read
        between its runs. Once a group was found down, members that come and leave do not end its
        silence.
        """
        pace = self.pace
        since_ms: Int64 = np.maximum(pace.moved_ms[row], appended_ms)
        came_ms = pace.held_s[row].astype(np.int64) * 1000 - self.skew_ms
        since_ms = np.where(held, np.maximum(since_ms, came_ms), since_ms)
        if pace.waited_ms is not None:
            since_ms = np.maximum(since_ms, pace.waited_ms[row])
        # checkpoints of earlier versions do not say since when
        down_ms = np.where(pace.down[row], pace.down_since_ms[row], UNKNOWN)
        return np.where(down_ms >= 0, down_ms, since_ms)

    def held(self, row: Slots) -> Bools:
        """Mask of rows whose partition a member holds; where unknown, the last known answer."""
        held: Bools = (self.pace.held_s[row] > 0) & (self.pace.left_s[row] == 0)
        membership = self.facts.membership[row]
        return held & np.isin(membership, (Membership.HELD, Membership.UNKNOWN))

    def came(self, row: Slots) -> Bools:
        """Mask of held rows that were once seen without a member."""
        return self.held(row) & self.pace.seen_without[row]

    def gone_ms(self, row: Slots) -> Int64:
        """Since when no member has held each row's partition; `NEVER_MS` where one does."""
        left_s = self.pace.left_s[row].astype(np.int64)
        return np.where(left_s > 0, left_s * 1000 - self.skew_ms, NEVER_MS)

    def counted_ms(
        self, gone_ms: Int64, since_ms: Int64, now_ms: Int64, absences: "Sequence[Absence]"
    ) -> Int64:
        """How much of a silence counts, without times in which Kafka or lagwatch was away.

        After Kafka was away a group has to find its broker, and rejoin: five minutes for that are
        taken off the silence before, see `uninterrupted_ms`, unless its members had gone long
        before. The time in which lagwatch did not run counts once it has run for five minutes.
        """
        rejoin_ms = self.limits.unsure_ms

        def counted(without: Unwatched | None) -> Int64:
            ends = [since_ms, now_ms]
            stretches = [
                uninterrupted_ms(
                    *ends, *each, rejoin_ms=rejoin_ms, left_ms=gone_ms, without=without
                )
                for each in absences
            ]
            least: Int64 = np.minimum.reduce(stretches)
            return least

        young = now_ms <= self.complete_ms + rejoin_ms
        if not self.unwatched.until_ms.size or not young.any():
            return counted(None)
        left_out = self.unwatched.watched_less(rejoin_ms)
        return np.where(young, counted(left_out), counted(None))

    def longer_at_ms(
        self, gone_ms: Int64, since_ms: Int64, than_ms: Int64 | int, absences: "Sequence[Absence]"
    ) -> Int64:
        """From when on `counted_ms` of a silence that goes on is longer than this."""
        rejoin_ms = self.limits.unsure_ms

        def longer(without: Unwatched | None) -> Int64:
            instants = [
                longer_from_ms(
                    since_ms,
                    than_ms,
                    *each,
                    rejoin_ms=rejoin_ms,
                    left_ms=gone_ms,
                    without=without,
                )
                for each in absences
            ]
            last: Int64 = np.maximum.reduce(instants)
            return last

        whole_ms = longer(None)
        left_out = self.unwatched.watched_less(rejoin_ms)
        if not left_out.after_ms(since_ms).any():
            return whole_ms
        again_ms = self.complete_ms + rejoin_ms + 1
        return np.minimum(longer(left_out), np.maximum(whole_ms, again_ms))

    def watched_from_ms(self, row: Slots, since_ms: Int64) -> Int64:
        """From when on lagwatch has watched a silence from before a start long enough.

        That is a minute, for a row that pauses longer three times its pause, up to five minutes.
        What an earlier process watched of it counts.
        """
        pause_ms, limits = self.pace.pause_ms(row), self.limits
        start_ms = np.maximum(since_ms, self.first_ms)
        watch_ms = np.clip(3 * pause_ms, limits.step_ms, limits.unsure_ms)
        return start_ms + watch_ms + self.unwatched.after_ms(start_ms)


class Rows:
    """Rows to be judged. Instants are on Kafka's clock. Derived columns are made when asked for.

    Every condition that depends on the present time calls `come` or `note`, which collect the
    instants at which a verdict can change although nothing happens.
    """

    def __init__(
        self,
        around: Around,
        windows: WindowColumns,
        *,
        row: Slots,
        at: Int32,
        now_ms: Int64,
        lag: Int64,
        readable_lag: Int64,
        time_lag_ms: Int64,
        allowed_lag: Int64 | int,
        appended_ms: Int64 | None = None,
        not_before_ms: Int64 | None = None,
    ) -> None:
        """Columns of equal length.

        Args:
            around: what is known of the cluster.
            windows: commits.
            row: the rows' places in the window store.
            at: their topic-partitions; -1 for those that are not visible.
            now_ms: up to when commits and log ends of each row are known.
            lag: log end - committed offset; -1 unknown.
            readable_lag: what of it the group can read; -1 unknown.
            time_lag_ms: age of the oldest message not read; -1 unknown.
            allowed_lag: lag that counts as none.
            appended_ms: where the time lag is unknown, the latest instant at which the first
                unread message can have been appended, if that is known; -1.
            not_before_ms: the earliest such instant.
        """
        self.around = around
        self.windows = windows
        self.row = row
        self.at = at
        self.now_ms = now_ms
        self.lag = lag
        self.readable_lag = readable_lag
        self.time_lag_ms = time_lag_ms
        self.allowed_lag = allowed_lag
        self.appended_ms = appended_ms
        self.not_before_ms = not_before_ms
        self.due_ms = np.full(row.size, NEVER_MS, np.int64)
        """The next instant at which an answer given so far changes by itself."""
        self._noted_ms: list[tuple[Int64 | int, Bools]] = []

    def come(self, at_ms: Int64 | int, where: Bools | None = None) -> Bools:
        """Mask of rows for which this instant has come; the others are due when it comes.

        `where`: rows for which the answer matters.
        """
        come: Bools = self.now_ms >= at_ms
        self.note(at_ms, ~come if where is None else where & ~come)
        return come

    def note(self, at_ms: Int64 | int, where: Bools) -> None:
        """These rows may change at an instant."""
        self._noted_ms.append((at_ms, where))

    def settle(self, undecided: Bools) -> None:
        """Apply the instants noted since the last call to rows that were undecided then."""
        for at_ms, where in self._noted_ms:
            np.minimum(self.due_ms, at_ms, out=self.due_ms, where=where & undecided)
        self._noted_ms.clear()

    @property
    def size(self) -> int:
        return int(self.row.size)

    @property
    def limits(self) -> Limits:
        return self.around.limits

    def take(self, index: Slots) -> "Rows":
        """Some of the rows."""
        allowed = self.allowed_lag
        taken = Rows(
            self.around,
            self.windows.take(index),
            row=self.row[index],
            at=self.at[index],
            now_ms=self.now_ms[index],
            lag=self.lag[index],
            readable_lag=self.readable_lag[index],
            time_lag_ms=self.time_lag_ms[index],
            allowed_lag=allowed if isinstance(allowed, int) else allowed[index],
            appended_ms=None if self.appended_ms is None else self.appended_ms[index],
            not_before_ms=None if self.not_before_ms is None else self.not_before_ms[index],
        )
        taken.due_ms = self.due_ms[index]
        return taken

    # windows

    @cached_property
    def committed(self) -> Int64:
        """Newest committed offset; of an empty row it means nothing."""
        return self.windows.newest_offset

    @cached_property
    def commit_ms(self) -> Int64:
        """When it was committed."""
        return self.windows.newest_ms

    @cached_property
    def span_ms(self) -> Int64:
        """From the oldest commit of the window to the newest."""
        return self.commit_ms - self.windows.oldest_ms

    @property
    def seen_ms(self) -> Int64 | None:
        """When lagwatch saw the newest commit, on its own clock; None: not known."""
        seen_s = self.windows.newest_seen_s
        return None if seen_s is None else seen_s.astype(np.int64) * 1000

    @cached_property
    def movement(self) -> "Movement":
        return _movement(self.windows)

    # partitions

    def partition(self, name: str) -> Int64:
        """A column of `PartitionColumns`, by row."""
        column: Int64 = getattr(self.around.partitions, name)[self.at]
        return column

    def fact(self, name: str, absent: int = UNKNOWN) -> Int64:
        """A column of `RowFacts`, by row; `absent` where there is none."""
        column = getattr(self.around.facts, name)
        if column is None:
            return np.full(self.size, absent, np.int64)
        values: Int64 = column[self.row]
        return values

    def commit_fact(self, name: str) -> Int64:
        """See `Around.commit_fact`."""
        return self.around.commit_fact(name, self.row)

    def holds(self, name: str) -> Bools:
        """A boolean column of `RowFacts`, by row."""
        return self.fact(name, 0).astype(np.bool_)

    # silence

    @cached_property
    def membership(self) -> Int64:
        return self.fact("membership")

    @cached_property
    def gone(self) -> Bools:
        """Mask of rows without a consumer for the partition."""
        return self._unheld & self.come(self._gone_from_ms, self._unheld)

    @property
    def _gone_from_ms(self) -> Int64:
        """Until then a deployment may be under way, or the last commits of its members."""
        return self._left_ms + self.limits.deployed_ms

    @cached_property
    def _unheld(self) -> Bools:
        return np.isin(self.membership, (Membership.EMPTY, Membership.UNHELD))

    @cached_property
    def _held(self) -> Bools:
        """See `Around.held`."""
        return self.around.held(self.row)

    @cached_property
    def _left_ms(self) -> Int64:
        """When the last member of the partition went; far in the past when none was seen."""
        left_s = self.around.pace.left_s[self.row].astype(np.int64)
        return left_s * 1000 - self.around.skew_ms

    @cached_property
    def pause_ms(self) -> Int64:
        """The row's usual pause; 0 when none is known."""
        return self.around.pace.pause_ms(self.row)

    @cached_property
    def waits_ms(self) -> Int64:
        """Age of the oldest message not read, or what it is at least; -1 unknown."""
        if self.appended_ms is None:
            return self.time_lag_ms
        gap = (self.time_lag_ms < 0) & (self.appended_ms >= 0)
        least_ms = np.maximum(self.around.asked_ms - self.appended_ms, 0)
        return np.where(gap, least_ms, self.time_lag_ms)

    @cached_property
    def quiet_since_ms(self) -> Int64:
        """See `Around.quiet_since_ms`."""
        return self.around.quiet_since_ms(self.row, self._appended_ms, self._held)

    @cached_property
    def quiet_began_ms(self) -> Int64:
        """Start of the silence as displayed: the earliest instant where it is not known exactly.

        While lagwatch or Kafka was away messages went on to come, and who holds a partition at the
        first look may have held it long before. Judged is the silence that is sure.
        """
        earliest_ms = self._appended_ms
        if self.not_before_ms is not None:
            earliest_ms = np.where(self.not_before_ms >= 0, self.not_before_ms, earliest_ms)
        return self.around.quiet_since_ms(self.row, earliest_ms, self.around.came(self.row))

    @cached_property
    def _appended_ms(self) -> Int64:
        """When the first unread message came, or when at the latest."""
        otherwise = UNKNOWN if self.appended_ms is None else self.appended_ms
        known = self.time_lag_ms >= 0
        return np.where(known, self.around.asked_ms - self.time_lag_ms, otherwise)

    @cached_property
    def quiet_ms(self) -> Int64:
        """The part of that silence that counts, see `Around.counted_ms`."""
        return self.around.counted_ms(
            self._gone_ms, self._counted_since_ms, self.now_ms, self._absences
        )

    def quiet_longer(self, than_ms: Int64 | int) -> Bools:
        """Mask of rows with `quiet_ms` longer than this."""
        return self.come(self._longer_at_ms(than_ms))

    def _longer_at_ms(self, than_ms: Int64 | int) -> Int64:
        """When `quiet_ms` exceeds `than_ms`, if the row stays quiet."""
        return self.around.longer_at_ms(
            self._gone_ms, self._counted_since_ms, than_ms, self._absences
        )

    def there_for_ms(self, since_ms: Int64, than_ms: int) -> Int64:
        """When the partition has been there for longer than this since an instant.

        After it was away consumers take a while to find it.
        """
        away, _ = self._absences
        return longer_from_ms(since_ms, than_ms, *away, rejoin_ms=self.limits.step_ms)

    @cached_property
    def _counted_since_ms(self) -> Int64:
        """Instant from which silence counts."""
        return self.around.counts_from_ms(self.row, self.quiet_since_ms)

    @cached_property
    def _gone_ms(self) -> Int64:
        return self.around.gone_ms(self.row)

    @cached_property
    def _absences(self) -> "tuple[Absence, Absence]":
        """`ABSENCE` of each row's partition, and of its partition of the offsets topic."""
        return self.around.absences(self.row, self.at)

    @cached_property
    def pace_known(self) -> Bools:
        known: Bools = self.around.pace.moves[self.row] >= KNOWN_AFTER
        return known

    @cached_property
    def limit_ms(self) -> Int64:
        """How long a row may be quiet before it counts as stopped or stalled.

        Members                    Limit
        hold the partition         `_limit_with_members_ms`
        left a moment ago          the same, or that of none from when they count as gone, which
                                   is at most two and a half minutes later, if it is sooner
        none, or unknown, or come and go without reading
          a job between two runs   `_limit_of_job_ms`
          any other group          `_limit_without_members_ms`
          that may yet rejoin      at least `_rejoins_within_ms`
        """
        may_be_alone = self.gone | ((self.membership == Membership.UNKNOWN) & ~self._held)
        # who comes and goes again and again without reading is given no time to be slow
        may_be_alone |= self.visited
        # a partition with few messages may have been read to its end long before the job left, and
        # both instants are only known as well as one that it ended
        has_run = self.ended | (self.quiet_since_ms + self._leave_ms > self._left_ms)
        has_run &= ~self.visited
        between_runs = (self._next_run_ms >= 0) & has_run
        alone_ms = np.where(between_runs, self._limit_of_job_ms, self._limit_without_members_ms)
        alone_ms = np.maximum(alone_ms, self._rejoins_within_ms)
        held_ms = self._limit_with_members_ms
        left_ms = self._gone_from_ms - self.quiet_since_ms
        soon = self._unheld & (left_ms < held_ms)
        held_ms = np.where(soon, np.maximum(alone_ms, left_ms), held_ms)
        return np.where(may_be_alone, alone_ms, held_ms)

    @property
    def _rejoins_within_ms(self) -> Int64:
        """How long a row that has not moved since Kafka came back may be quiet at least.

        So that its group has the time to rejoin: a consumer that was started while its broker was
        frozen for a minute was seen to hold its partition 280 s after that.
        """
        rejoin = _Rejoin(self.limits.unsure_ms, self._gone_ms)
        moved_ms = self.around.pace.moved_ms[self.row]
        within_ms: Int64 = np.zeros(self.size, np.int64)
        for away_ms, back_ms, *_ in self._absences:
            ends_ms = back_ms + rejoin.after_ms(away_ms, back_ms)
            left_ms = ends_ms - np.maximum(self._counted_since_ms, back_ms)
            np.maximum(within_ms, left_ms, out=within_ms, where=moved_ms < back_ms)
        return within_ms

    @property
    def _limit_with_members_ms(self) -> Int64:
        """Members may be slow, so they get more time than a group without any."""
        limits = self.limits
        # of a group whose usual pauses are not known yet, longer ones may still come
        patience_ms = np.where(
            self.pace_known, limits.stall_after_ms, limits.stall_after_ms * 5 // 2
        )
        # the last commit is not the last moment at which it read
        return np.maximum(patience_ms + self.pause_ms * 2, 3 * self.pause_ms)

    @property
    def _limit_without_members_ms(self) -> Int64:
        """The least limit, or half as much again as its usual pause and one step."""
        return np.maximum(self._least_limit_ms, self.pause_ms * 3 // 2 + self.limits.step_ms)

    @property
    def _limit_of_job_ms(self) -> Int64:
        """Until the next run is due at the latest, and never within a usual pause of a run."""
        moved_ms = self.around.pace.moved_ms[self.row]
        pause_ends_ms = moved_ms + self.pause_ms * 9 // 8 + 2 * self.limits.step_ms
        ends_ms = np.maximum(self._next_run_ms, pause_ends_ms)
        limit_ms: Int64 = np.maximum(ends_ms - self.quiet_since_ms, self._least_limit_ms)
        return limit_ms

    @cached_property
    def _least_limit_ms(self) -> Int64:
        """Of a row without members: longer while little is known of it."""
        limits = self.limits
        since_ms = self.around.pace.since_s[self.row].astype(np.int64) * 1000
        young = ~self.come(since_ms + limits.young_ms)
        # what ended after its first commits may be a job that runs every five minutes
        least_ms: Int64 = np.select(
            [young & self.ended, young],
            [limits.next_run_ms, limits.unsure_ms],
            limits.stop_after_ms,
        )
        return least_ms

    @cached_property
    def _next_run_ms(self) -> Int64:
        """When the next run of a job is due at the latest; -1 if it is not a job."""
        absences = [pair for absence in self._absences for pair in each_absence(absence)]
        return self.around.pace.next_run_ms(self.row, self.quiet_since_ms, absences=absences)

    @property
    def ended(self) -> Bools:
        """Mask of rows whose members left right after a commit, as a finished job does.

        Where groups are polled, who commits and is not seen as a member of a group without any came
        and went between two looks: a job as well, if its last run was short. None came since that
        leaves again without reading, as one does that fails at a message.
        """
        last_ms = np.maximum(self.commit_ms, self.around.pace.moved_ms[self.row])
        ended: Bools = np.abs(self._left_ms - last_ms) <= self._leave_ms
        unseen = (self.membership == Membership.EMPTY) & (self._left_ms < last_ms)
        unseen &= self.commit_fact("polled") == 1
        ended |= unseen & self.worked_briefly(self.around.pace.run_s[self.row])
        return ended & ~self.visited

    def worked_briefly(self, run_s: NDArray[np.integer] | int = 0) -> Bools:
        """Mask of rows that worked for less than two minutes since their first commit, or `run_s`.

        A quarter of the time after which the next run of a job would be missed.
        """
        pace = self.around.pace
        last_ms = np.maximum(self.commit_ms, pace.moved_ms[self.row])
        began_ms = np.maximum(pace.since_s[self.row], run_s).astype(np.int64) * 1000
        short: Bools = (last_ms - began_ms) * _SHORT_RUN <= self.limits.next_run_ms
        return short

    @cached_property
    def visited(self) -> Bools:
        """Mask of rows for which members came and went three times without reading what waits."""
        visited: Bools = self.fact("visited_ms") > self.quiet_since_ms + self._leave_ms
        return visited

    @cached_property
    def _leave_ms(self) -> Int64:
        """Members that leave within this time after a commit count as finished, not as dead."""
        polled = self.commit_fact("polled") == 1
        return np.where(polled, self.limits.polled_leave_ms, self.limits.leave_ms)

    @cached_property
    def overdue(self) -> Bools:
        """Mask of rows that have been quiet for longer than their limit.

        Without groups that have just unsubscribed from the topic: see the rule `not_subscribed`.
        """
        pace = self.around.pace
        quiet = self.quiet_longer(self.limit_ms) & (self.fact("left_ms") < 0)
        # an absence of Kafka is no reason to doubt what was said before it; a member that comes is
        quiet |= pace.silent[self.row] & (self.membership == Membership.EMPTY)
        return quiet | pace.down[self.row]

    @cached_property
    def may_be_overdue(self) -> Bools:
        """Mask of rows that would be overdue if time before the first look counted.

        A member held the partition then, for an unknown time, and there was something to read.
        """
        first_ms = self.around.first_ms
        if first_ms < 0:
            return np.zeros(self.size, np.bool_)
        moved_ms = self.around.pace.moved_ms[self.row]
        unsure = self._held & ~self.around.came(self.row) & (moved_ms < first_ms)
        unsure &= (self._appended_ms <= first_ms) & (self.quiet_since_ms >= first_ms)
        long: Bools = unsure & self.come(moved_ms + self.limit_ms + 1, unsure)
        return long & ~self.overdue

    @cached_property
    def watched(self) -> Bools:
        """Mask of rows that lagwatch has watched long enough.

        A silence before its start may be its own.
        """
        complete_ms = self.around.complete_ms
        if complete_ms < 0:
            return np.ones(self.size, np.bool_)
        return (
            (self.quiet_since_ms >= complete_ms)
            | self.come(self._watched_from_ms)
            | self.around.pace.down[self.row]
        )

    @cached_property
    def _watched_from_ms(self) -> Int64:
        return self.around.watched_from_ms(self.row, self.quiet_since_ms)

    @cached_property
    def judged_from_ms(self) -> Int64:
        """When the row can be judged if it stays quiet."""
        # a millisecond before it is longer than its limit
        from_ms = np.maximum(self.now_ms, self._longer_at_ms(self.limit_ms) - 1)
        if self.around.complete_ms >= 0:
            from_ms = np.maximum(from_ms, self._watched_from_ms)
        return from_ms

    @cached_property
    def waits_turn(self) -> Bools:
        """Mask of overdue rows whose member works off the backlog of another partition.

        For an hour at most: a partition that is stuck while others have a backlog is found then.
        """
        turns, step_ms = self.around.facts.turns, self.limits.step_ms
        if turns is None or not turns.row.size:
            return np.zeros(self.size, np.bool_)
        read_ms = turns.of(self.row)
        waits = self.overdue & (read_ms >= 0)
        # after Kafka was away its member has to find its broker before it reads any partition
        ends_ms = self.around.longer_at_ms(
            self._gone_ms, read_ms, FRESH_STEPS * step_ms, self._absences
        )
        fresh = ~self.come(ends_ms, waits)
        short: Bools = ~self.come(self.quiet_since_ms + _TURN_STEPS * step_ms, waits)
        return waits & fresh & short

    @cached_property
    def commits_on(self) -> Bools:
        """Mask of rows that still commit, or may do so unseen by polls."""
        steps = np.maximum(self.windows.count.astype(np.int64) - 1, 1)
        usual_ms = np.maximum(3 * self.span_ms // steps, self.limits.step_ms)
        # a window may span a pause: no longer than it has committed the same offset already
        repeated_ms = self.commit_ms - self.around.pace.moved_ms[self.row]
        usual_ms = np.minimum(usual_ms, repeated_ms + self.limits.step_ms)
        seen = ~self.come(self.commit_ms + usual_ms + 1)
        seen &= repeated_ms > 0
        polled = self.commit_fact("polled") == 1
        on: Bools = np.where(polled, self.membership == Membership.HELD, seen)
        stalled = self.around.pace.stalled[self.row]
        repeats = self.overdue & ~polled & (self.commit_ms > self.around.pace.moved_ms[self.row])
        if not (stalled | repeats).any():
            return on
        # while Kafka or lagwatch is away nothing gets worse, nor before members can have come back
        unsure = polled & (self.membership == Membership.UNKNOWN)
        watched_ms = self.around.unwatched.until_ms
        if watched_ms.size:
            unsure |= ~self.come(watched_ms[-1] + self.limits.unsure_ms, stalled)
        unsure &= stalled
        for away_ms, back_ms, *_ in self._absences:
            # the same offset was committed until Kafka was away
            went_on = stalled | (repeats & (self.commit_ms + usual_ms >= away_ms))
            waits = went_on & (away_ms >= 0)
            unsure |= waits & ~self.come(back_ms + self.limits.unsure_ms, waits)
        stays: Bools = on | unsure
        return stays

    @cached_property
    def moves(self) -> Bools:
        """Mask of rows whose offset moves in the rhythm of its last commits.

        Not so between two runs of a job.
        """
        steps = np.maximum(self.windows.count.astype(np.int64) - 1, 1)
        rhythm_ms = np.maximum(3 * self.span_ms // steps, self.limits.step_ms)
        return ~self.come(self.around.pace.moved_ms[self.row] + rhythm_ms + 1)

    @cached_property
    def rising_ms(self) -> Int64:
        """For how long the lag rose, up to its peak."""
        return self.around.pace.rising[self.row].astype(np.int64) * self.around.pace.step_ms

    @cached_property
    def rises_since_ms(self) -> Int64:
        """When the lag began to rise."""
        since_ms = self.around.pace.rises_since_ms(self.row)
        # of a rise that an earlier version saw begin nothing but the length is known
        self.note(self.now_ms, (since_ms < 0) & (self.rising_ms > 0))
        return np.where(since_ms >= 0, since_ms - self.around.skew_ms, self.now_ms - self.rising_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Changes from entry to entry within each window."""

    falls: Bools
    """True if an offset is below the one before it."""
    still: Bools
    """True if all offsets are equal."""
    shrinks: Bools
    """True if a lag is below the one before it; undefined where lags are unknown."""
    gaps: Bools
    """True if a lag is unknown."""
    lowest_lag: Int64
    """Lowest known lag; the highest integer when none is known."""


def _movement(windows: WindowColumns) -> Movement:
    """One pass over the slots, each compared with the slot before it."""
    number = windows.count.size
    falls, shrinks, gaps = (np.zeros(number, np.bool_) for _ in range(3))
    still = np.ones(number, np.bool_)
    lowest = np.full(number, _NO_LAG, np.int64)
    for slot in range(windows.slots):
        used = windows.count > slot
        # the ring's oldest entry follows none: the slot before it holds the newest
        follows = used & (windows.oldest != slot)
        offset, before = windows.offset[slot], windows.offset[slot - 1]
        lag, lag_before = windows.lag[slot], windows.lag[slot - 1]
        falls |= follows & (offset < before)
        still &= (offset == before) | ~follows
        shrinks |= follows & (lag < lag_before)
        known = used & (lag >= 0)
        # `known` implies `used`, so this is: used and not known
        gaps |= used ^ known
        np.minimum(lowest, lag, out=lowest, where=known)
    return Movement(falls=falls, still=still, shrinks=shrinks, gaps=gaps, lowest_lag=lowest)


def lowest_known(movement: Movement) -> Int64:
    """Lowest known lag of each window; -1 when none is known."""
    return np.where(movement.lowest_lag == _NO_LAG, UNKNOWN, movement.lowest_lag)
