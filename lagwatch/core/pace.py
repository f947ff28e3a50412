"""State of each row beyond its window: its last progress, its usual pauses and rises.

A window of ten commits shows seconds of a busy consumer. Whether it is late can only be judged from
how it usually behaves, and that must cost a few bytes: so a row keeps the longest pause it usually
makes, not its pauses.

A *pause* is the time in which a group had something to read and its committed offset did not move.
A *rise* is the time for which its lag went on rising.

A length is *usual* when it is not much longer than what was usual before, or when one about as long
was seen a short while ago: the first long pause is only noted, the second is believed. Of a row
that was first seen less than half an hour ago the first one is, unless it was judged a stop.
Shorter ones in between wear the note down, each by half of the difference. So one night on which a
group was down does not excuse the next one, and a nightly batch is known by its third run. The
length of a stop, one that was judged as such, is believed at its second time only where its members
did the same both times, ended or stayed, and did not die at work; and the group rests much of its
time, or both stops ended a whole number of days or a common number of hours apart, or the members
ended and came back within ten minutes. So two longer failures of like length do not excuse a third.
What is usual is forgotten as time passes, by a second every 24 seconds: what recurs within 24 times
its length stays known.

A *period* is the time from the first movement after a long pause to the next such movement. A job
that runs every half hour for twenty minutes or so pauses for five minutes or for fifteen; but it
begins every half hour. It is the average of what was seen, and is not forgotten as time passes.
Where members are seen to leave and to come back, a run begins when they come, however short the
pause was in which there was something to read, and no other begins while they stay.

Of commits made before lagwatch watched it is not known whether there was something to read between
them. Their pauses are kept apart: they count until members are seen to stay through half an hour
without moving any partition, or for six hours. Then the group does not leave between runs, and its
pauses were idleness.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Uint16 = NDArray[np.uint16]
Float32 = NDArray[np.float32]
Bools = NDArray[np.bool_]
Rows = NDArray[np.integer]

UNIT_MS: Final = 10_000
"""Lengths are kept in units of ten seconds: in two bytes up to a week."""
_MOST_UNITS: Final = np.iinfo(np.uint16).max
_FORGET_EVERY_MS: Final = 24 * UNIT_MS
"""One unit is forgotten in this time."""
_NEVER_MS: Final = 1 << 60
_LIKE: Final = 1.5
"""A length is about as long as another when it is at most this many times as long."""
_SCHEDULED_MS: Final = 6 * 3_600_000
"""A pause between commits of the past that is so long is believed when it is seen first."""
_STAYS_MS: Final = 6 * 3_600_000
_IDLE_STEPS: Final = 30
_DIP: Final = np.float32(0.8)
"""A lag that fell to less than this share of its peak does not rise any more."""
_HIGHER: Final = np.float32(1.001)
"""A peak is higher when it is so many times the one before: any lag goes up and down a little."""
_LEVEL_STEPS: Final = 10
"""A lag that has had no higher peak for longer does not rise any more, see `_compare`."""
_NOISE: Final = np.float32(0.25)
"""Less than this share of a rise, before a pause or a single step, was no part of it: `_rise`."""
_CREEPS: Final = np.float32(2)
"""A lag that rose at most so many times as far as when it paused last has not begun to rise."""
YOUNG_STEPS: Final = 30
"""A row that was first seen so many steps ago has not shown yet what is usual for it."""
KNOWN_AFTER: Final = 3
"""Movements after which the pace of a row is known."""
RESTS: Final = 3
"""A group rests much of its time when it works at most this many times as long as it pauses."""
_SHORT_REST_STEPS: Final = 10
"""To wait for so long once more costs little: it may be the rest of a job that works on and on."""
_RESTED: Final = 8
"""A job rests for this part of its period at least."""
_KEPT: Final = 4
"""Of a job whose runs come as due this part of its period is kept as its pause: it is forgotten
when none has come as due for three periods."""
_BUSY_RUNS: Final = 12
_BUSY_MS: Final = 25 * 3_600_000
"""Not a job any more: its runs followed one another for longer, and for so many periods."""
_LATE_STEPS: Final = 6
"""A run may begin so many steps late: one of a job of every five minutes may be too short to be
seen."""
_LATE_PART: Final = 13
"""Or this part of its period: of nightly runs that begin up to an hour and a half late, one in ten
thousand is later, and a run that failed is missed after two."""
_SOON_STEPS: Final = 5
_OFTEN_STEPS: Final = 30
"""A run of a job that runs often may begin half its period late, but not more steps than this: such
runs wait for each other, and differ in length."""
_NEAR: Final = 6
"""A run that begins within this part of the period around the instant it is due came as due."""
_MOST_LEFT_OUT: Final = 8
"""A run that begins more periods after the one before did not come as due."""
_AVERAGE: Final = 4
_SHORTEN: Final = 8
"""A period follows runs that come as due by this part of the difference, earlier ones by this."""
_ENDED: Final = 0
"""They went after their last commit, or having read everything, as those of a job; or it is not
known."""
_HELD: Final = 1
"""They stayed."""
_DIED: Final = 2
"""They went at work, as those that crash do."""
_HOUR_MS: Final = 3_600_000
_DAYS: Final = 7
_SCHEDULE_MS: Final = np.array(
    [hours * _HOUR_MS for hours in (1, 2, 3, 4, 6, 8, 12)]
    + [days * 24 * _HOUR_MS for days in range(1, _DAYS + 1)]
)
"""Intervals at which schedules run."""
_SCHEDULE_SLACK_MS: Final = np.array(
    [max(2 * 60_000, hours * _HOUR_MS // 50) for hours in (1, 2, 3, 4, 6, 8, 12)]
    + [_HOUR_MS] * _DAYS  # the clocks are changed, and runs take longer on some days
)
_NO_FLOOR: Final = np.float32(np.inf)


@dataclass(frozen=True, slots=True)
class Usual:
    """Usual lengths by row, and those noted once; shape [rows], in `UNIT_MS`."""

    known: Uint16
    noted: Uint16

    def learn(
        self,
        rows: Rows,
        length_ms: Int64,
        *,
        slack_ms: int,
        believe_ms: int = _NEVER_MS,
        also: "Usual | None" = None,
        may_recur: Bools | None = None,
        believed: Bools | None = None,
        may_expect: Bools | None = None,
    ) -> None:
        """Take in one length for each of these rows; a row must not occur twice.

        Expected are lengths up to twice the usual one, here or in `also`, and `slack_ms` more, but
        not where `may_expect` is False. Lengths from `believe_ms` on are believed when they are
        seen first. Where `may_recur` is False, the length is not believed because it was noted
        before, here or in `also`. Where `believed`, it is.
        """
        # rounded up: an expected pause must never look shorter than it was
        units = np.minimum(-(-length_ms // UNIT_MS), _MOST_UNITS).astype(np.int64)
        known, noted = self.known[rows].astype(np.int64), self.noted[rows].astype(np.int64)
        usual = known if also is None else np.maximum(known, also.known[rows])
        expected = units <= 2 * usual + slack_ms // UNIT_MS
        if may_expect is not None:
            expected &= may_expect
        recurs = _alike(units, noted)
        if also is not None:
            recurs |= _alike(units, also.noted[rows].astype(np.int64))
        if may_recur is not None:
            recurs &= may_recur
        believes = expected | recurs | (units >= believe_ms // UNIT_MS)
        if believed is not None:
            believes |= believed
        self.known[rows] = np.where(believes, np.maximum(known, units), known)
        # a shorter one does not wipe out a longer one at once: of lengths that vary widely no two
        # in a row may be alike
        unlike = np.where(units < noted, (noted + units) // 2, units)
        # what recurs is noted anew, or it would be believed only every second time
        self.noted[rows] = np.where(recurs, units, np.where(believes, noted, unlike))

    def approach(self, rows: Rows, length_ms: Int64, part: int) -> None:
        """Change the known lengths of these rows by this part of the difference to others."""
        known = self.known[rows].astype(np.int64)
        off = length_ms // UNIT_MS - known
        self.known[rows] = known + np.rint(off / part).astype(np.int64)

    def keep(self, rows: Rows, units: NDArray[np.integer]) -> None:
        """Make the known lengths of these rows no shorter than these."""
        self.known[rows] = np.maximum(self.known[rows], units)

    def forget(self, units: int, *, noted: int) -> None:
        """Shorten the usual lengths by `units`, and those noted once by `noted`."""
        for column, by in ((self.known, units), (self.noted, noted)):
            if by > 0:
                step = np.uint16(min(by, _MOST_UNITS))
                np.subtract(column, np.minimum(column, step), out=column)

    def length_ms(self, rows: Rows | slice) -> Int64:
        """The usual length of each row, rounded up; 0 when none is known."""
        return self.known[rows].astype(np.int64) * UNIT_MS


class Pace:
    """The pace of all rows of one cluster; rows are those of the window store. One owner writes."""

    moved_ms: NDArray[np.int64]
    """Last commit at which the offset changed; -1 before the first commit."""
    since_s: NDArray[np.uint32]
    """First commit that was seen."""
    moves: NDArray[np.uint8]
    """Movements seen, up to 255."""
    down: NDArray[np.bool_]
    """True if it was judged stopped or stalled, and has not moved since."""
    down_since_ms: NDArray[np.int64]
    """Since when it did not move when it was judged so; means nothing unless `down`."""
    stalled: NDArray[np.bool_]
    """True if it was last judged stalled and not stopped, and has not moved since."""
    downs: NDArray[np.uint8]
    """What its members did when it was judged stopped or stalled last: `_ENDED`, `_HELD`, `_DIED`;
    and, four bits higher, the time before."""
    returned_s: NDArray[np.uint32]
    """When it last moved after a stop; 0 never."""
    unread_s: NDArray[np.uint32]
    """When its first unread message was appended, as first measured since it moved; 0 not yet."""
    run_s: NDArray[np.uint32]
    """First movement after its last long pause; 0 never."""
    held_s: NDArray[np.uint32]
    """When a member came to hold the partition, short interruptions left out; 0 never."""
    left_s: NDArray[np.uint32]
    """When its last member went; 0 while one holds it, and before."""
    seen_without: NDArray[np.bool_]
    """True if once no member held the partition.

    Otherwise its member may have held it long before it was first seen.
    """
    silent: NDArray[np.bool_]
    """True if it was judged silent, a job or stopped, and has not moved since."""
    may_be_job: NDArray[np.bool_]
    """True if it was silent when first seen, no member has stayed since, and no run began as
    due."""
    due_s: NDArray[np.uint32]
    """When a run last began as due, after a rest of a job; 0 never."""
    behind: NDArray[np.bool_]
    """True if the last round judged it to fall behind."""
    _floor: NDArray[np.float32]
    """Lowest lag of the time under way: a step, or more for a row that pauses longer."""
    _floor_before: NDArray[np.float32]
    """Lowest lag of the time before; of a lag that rises, the highest of these."""
    _under_way: NDArray[np.uint16]
    """Steps of the time under way so far."""
    rising: NDArray[np.uint16]
    """Steps for which the lag rose up to its peak, its small ups and downs before included."""
    level: NDArray[np.uint16]
    """Steps since that peak."""
    rises_s: NDArray[np.uint32]
    """When the lag began to rise (epoch seconds, on the clock of `see_lags`)."""
    _base: NDArray[np.float32]
    """Lowest lag before it began to rise."""
    _leap: NDArray[np.float32]
    """The most by which one peak of the rise was higher than the one before."""
    _calm: NDArray[np.float32]
    """Its peak when it last paused near its base; infinite if it never did."""
    _calm_steps: NDArray[np.uint16]
    """Steps since then."""
    _late: NDArray[np.bool_]
    """True if it was late while its lag rose."""

    def __init__(self, *, step_ms: int = 60_000) -> None:
        """`step_ms`: lowest lags are compared in steps of this length."""
        self.step_ms = step_ms
        for name, (dtype, _) in _COLUMNS.items():
            setattr(self, name, np.empty(0, dtype))
        self.pauses = Usual(np.empty(0, np.uint16), np.empty(0, np.uint16))
        self.past = Usual(np.empty(0, np.uint16), np.empty(0, np.uint16))
        """Pauses between commits that were made before lagwatch watched."""
        self.rises = Usual(np.empty(0, np.uint16), np.empty(0, np.uint16))
        self.periods = Usual(np.empty(0, np.uint16), np.empty(0, np.uint16))
        """From the first movement after a long pause to the next such: from run to run of a job."""
        self.waited_ms: Int64 | None = None
        """When the row last waited for a transaction, or nothing but control records was left; -1
        never. None: no row ever did."""
        self._step = UNKNOWN
        self._forgotten_ms = UNKNOWN

    def make_room(self, capacity: int) -> None:
        """Grow to this number of rows; new ones know nothing."""
        old = self.moved_ms.size
        if capacity <= old:
            return
        for name, (_, empty) in _COLUMNS.items():
            setattr(self, name, _grown(getattr(self, name), capacity, empty))
        if self.waited_ms is not None:
            self.waited_ms = _grown(self.waited_ms, capacity, UNKNOWN)
        for name in ("pauses", "past", "rises", "periods"):
            usual: Usual = getattr(self, name)
            grown = (_grown(column, capacity, 0) for column in (usual.known, usual.noted))
            setattr(self, name, Usual(*grown))

    def clear(self, rows: Rows) -> None:
        """Forget everything about these rows."""
        for name, (_, empty) in _COLUMNS.items():
            getattr(self, name)[rows] = empty
        if self.waited_ms is not None:
            self.waited_ms[rows] = UNKNOWN
        for usual in (self.pauses, self.past, self.rises, self.periods):
            usual.known[rows] = 0
            usual.noted[rows] = 0

    # checkpoints

    def copied(self, rows: Rows) -> dict[str, NDArray[np.generic]]:
        """All columns of these rows, by name; copies."""
        waited_ms = self.waited_ms
        copies = {name: column[rows] for name, column in self._columns().items()}
        never = np.full(rows.size, UNKNOWN, np.int64)
        return copies | {"waited_ms": never if waited_ms is None else waited_ms[rows]}

    def stored(self, first: int, end: int) -> Iterator[NDArray[np.generic]]:
        """All columns of the rows from `first` to before `end`; views."""
        yield from (column[first:end] for column in self._columns().values())
        if self.waited_ms is not None:
            yield self.waited_ms[first:end]

    def put(self, first: int, columns: Mapping[str, NDArray[np.generic]]) -> None:
        """Write such copies into the rows from `first` on, for which there must be room."""
        for name, column in self._columns().items():
            if name in columns:  # checkpoints of earlier versions lack some
                column[first : first + columns[name].size] = columns[name]
        waited = np.flatnonzero(columns["waited_ms"] != UNKNOWN)
        if waited.size:
            self.wait(first + waited, columns["waited_ms"][waited].astype(np.int64))

    def _columns(self) -> dict[str, NDArray[np.generic]]:
        return {
            **{name: getattr(self, name) for name in _COLUMNS},
            "pauses": self.pauses.known,
            "pauses_noted": self.pauses.noted,
            "past": self.past.known,
            "past_noted": self.past.noted,
            "rises": self.rises.known,
            "rises_noted": self.rises.noted,
            "periods": self.periods.known,
            "periods_noted": self.periods.noted,
        }

    @property
    def clocks(self) -> tuple[int, int]:
        """The step under way, and up to when lengths were forgotten (ms); -1 not yet."""
        return self._step, self._forgotten_ms

    @clocks.setter
    def clocks(self, clocks: tuple[int, int]) -> None:
        self._step, self._forgotten_ms = clocks

    # movements

    def move(self, rows: Rows, at_ms: Int64, pause_ms: Int64, *, past: bool = False) -> None:
        """These rows' offsets changed at these instants after such pauses, -1 for the first one.

        Sorted by row, then in the order of time. Of a backlog (`past`) a pause of hours is
        believed at once: schedules make such pauses, and there may be only one of them.
        """
        if not rows.size:
            return
        self._start_over(rows[self.down[rows]])
        usual = self.past if past else self.pauses
        long = self._to_learn(rows, pause_ms, usual)
        # of a row with several, one at a time: each changes what is usual for the next
        turn = _turns(rows[long])
        for number in range(int(turn.max(initial=UNKNOWN)) + 1):
            chosen = long[turn == number]
            ordinary = ~self.down[rows[chosen]]
            may_recur = self._may_recur(rows[chosen], at_ms[chosen], pause_ms[chosen])
            age_ms = at_ms[chosen] - self.since_s[rows[chosen]].astype(np.int64) * 1000
            left_out = np.zeros(chosen.size, np.bool_)
            runs = np.flatnonzero(pause_ms[chosen] >= self.step_ms)
            if runs.size:
                some = chosen[runs]
                left_out[runs] = self._learn_period(
                    rows[some],
                    at_ms[some],
                    pause_ms[some],
                    None if may_recur is None else may_recur[runs],
                    ordinary=ordinary[runs],
                )
            usual.learn(
                rows[chosen],
                # what a job usually pauses does not become longer when its runs fail
                np.where(left_out, 0, pause_ms[chosen]),
                slack_ms=self.step_ms,
                believe_ms=_SCHEDULED_MS if past else _NEVER_MS,
                also=self.past,
                may_recur=may_recur,
                believed=ordinary & (age_ms < YOUNG_STEPS * self.step_ms),
            )
        heads = _heads(rows)
        moved, times = rows[heads], np.diff(heads, append=rows.size)
        last_ms = at_ms if heads.size == rows.size else np.maximum.reduceat(at_ms, heads)
        self.moved_ms[moved] = np.maximum(self.moved_ms[moved], last_ms)
        self.moves[moved] = np.minimum(self.moves[moved] + times, 255)
        self.down[moved] = self.stalled[moved] = self.silent[moved] = False
        self.unread_s[moved] = 0

    def _to_learn(self, rows: Rows, pause_ms: Int64, usual: Usual) -> NDArray[np.intp]:
        """Which pauses are to be learned: of steady rows none that is short changes anything."""
        long = np.flatnonzero(pause_ms > UNIT_MS)
        row = rows[long]
        # no longer than what is usual, too short for a period, and nothing noted that it is like
        changes = (pause_ms[long] > usual.length_ms(row)) | (pause_ms[long] >= self.step_ms)
        changes |= (usual.noted[row] > 0) | (self.past.noted[row] > 0) | self.down[row]
        changing = np.zeros(self.down.size, np.bool_)
        changing[row[changes]] = True
        return long[changing[row]]

    def _learn_period(
        self,
        rows: Rows,
        at_ms: Int64,
        pause_ms: Int64,
        may_recur: Bools | None,
        *,
        ordinary: Bools,
    ) -> Bools:
        """A pause of these rows of a step at least ended: learn how long after the last such end.

        Runs of a job differ in length, and so do the pauses between them; its period does not. A
        pause too short to be noticed for itself counts where a run is due. A period that was
        judged a stop is only believed when it recurs.

        Returns a mask of the pauses in which runs were left out: the next run came when one was
        due. Whether that was judged a stop, or an outage hid it, makes no difference.
        """
        run_ms = self.run_s[rows].astype(np.int64) * 1000
        since_ms = at_ms - run_ms
        runs, near = self._whole_periods(rows, since_ms)
        away, inside = self._away(rows, at_ms, pause_ms)
        long = pause_ms >= np.maximum(self.long_ms, self.pause_ms(rows) // 2)
        due = near & (pause_ms >= self.step_ms) & (run_ms > 0) & ~inside
        begins = due | away | (long & ~inside)
        other = begins & ~due & (run_ms > 0) & (since_ms > 0)
        again = np.flatnonzero(other & ~away)
        if again.size:
            self._take_for_runs(
                rows[again],
                since_ms[again],
                None if may_recur is None else may_recur[again],
                ordinary=ordinary[again],
            )
        if due.any():
            self.periods.approach(rows[due], (since_ms // runs)[due], _AVERAGE)
            self._keep_resting(rows[due], at_ms[due], pause_ms[due], ordinary=ordinary[due])
            came = rows[due & (runs == 1)]
            self.periods.noted[came] = 0
            self.may_be_job[came] = False  # it is one
        left_out: Bools = due & (runs > 1)
        may = ordinary if may_recur is None else may_recur
        # runs that are left out again and again are none
        seen = np.flatnonzero(away & ((other & may) | (left_out & ordinary)))
        self._see_runs(rows[seen], since_ms[seen])
        self.run_s[rows[begins]] = at_ms[begins] // 1000
        return left_out

    @property
    def long_ms(self) -> int:
        """A pause of so much, and of half what is usual, may be the rest of a job."""
        return 2 * self.step_ms

    def begin_runs(self, rows: Rows, at_ms: Int64) -> None:
        """These rows moved at these instants after long pauses of which nothing is learned."""
        self.run_s[rows] = at_ms // 1000

    def _whole_periods(self, rows: Rows, since_ms: Int64) -> tuple[Int64, Bools]:
        """How many periods of each row have passed since a run began, and if about that many.

        Of any long time a third is near a whole number of short periods: so many runs are not
        left out.
        """
        period_ms = self.periods.length_ms(rows)
        runs = np.maximum((since_ms + period_ms // 2) // np.maximum(period_ms, 1), 1)
        near = np.abs(since_ms - runs * period_ms) <= period_ms // _NEAR
        return runs, near & (runs <= _MOST_LEFT_OUT)

    def _take_for_runs(
        self, rows: Rows, since_ms: Int64, may_recur: Bools | None, *, ordinary: Bools
    ) -> None:
        """Long pauses ended, and these rows' members are not known to have left in them."""
        period_ms = self.periods.length_ms(rows)
        self.periods.learn(
            rows, since_ms, slack_ms=self.step_ms, may_recur=may_recur, may_expect=ordinary
        )
        shorter = since_ms < period_ms
        self.periods.approach(rows[shorter], since_ms[shorter], _SHORTEN)

    def _see_runs(self, rows: Rows, since_ms: Int64) -> None:
        """Members of these rows came back when no run was due: what recurs at once is the period.

        Not before: one run may come late, and the next so soon after it that it is not seen.
        """
        noted_ms = self.periods.noted[rows].astype(np.int64) * UNIT_MS
        recurs = np.abs(since_ms - noted_ms) <= since_ms // _NEAR
        units = np.minimum(-(-since_ms // UNIT_MS), _MOST_UNITS).astype(np.uint16)
        self.periods.noted[rows] = units
        self.periods.known[rows[recurs]] = units[recurs]

    def _away(self, rows: Rows, at_ms: Int64, pause_ms: Int64) -> tuple[Bools, Bools]:
        """Masks of pauses in which the members had left, and of those within one run of theirs."""
        run_ms, came_ms, left_ms = (
            column[rows].astype(np.int64) * 1000
            for column in (self.run_s, self.held_s, self.left_s)
        )
        began_ms, known = at_ms - pause_ms, came_ms > 0
        # the coming of members may be seen later than their first commit
        begun = run_ms >= came_ms - self.step_ms
        came = (came_ms >= began_ms) & ~begun
        away = known & np.where(left_ms > 0, left_ms >= run_ms, came)
        # members that stay for long are not those of a job
        stay = (left_ms == 0) & (at_ms - came_ms < _STAYS_MS) & self.seen_without[rows]
        first = begun & (run_ms <= came_ms + _SOON_STEPS * self.step_ms)
        return away, known & first & stay

    def _keep_resting(self, rows: Rows, at_ms: Int64, pause_ms: Int64, *, ordinary: Bools) -> None:
        """Runs of these rows began when they were due: those that are jobs stay jobs.

        The rests of some are seldom an eighth of the period, and those that are would be forgotten.
        Only a pause in which the members had left is the rest of a job.
        """
        came_ms = self.held_s[rows].astype(np.int64) * 1000
        left = (self.left_s[rows] > 0) | (came_ms >= at_ms - pause_ms)
        stays = rows[left & self._rests(rows)]
        self.pauses.keep(stays, self.periods.known[stays] // _KEPT)
        rested = ordinary & left & (_RESTED * pause_ms >= self.periods.length_ms(rows))
        self.due_s[rows[rested]] = at_ms[rested] // 1000

    def _rests(self, rows: Rows) -> Bools:
        """Mask of jobs: rows with a period that rest for an eighth of it at least."""
        period_ms = self.periods.length_ms(rows)
        rests: Bools = (period_ms > 0) & (_RESTED * self.pause_ms(rows) >= period_ms)
        return rests

    def next_run_ms(
        self, rows: Rows, since_ms: Int64, *, absences: Sequence[tuple[Int64, Int64]] = ()
    ) -> Int64:
        """When the first run of each row after this is due at the latest; -1: it is no job.

        A job rests for an eighth of its period at least, or has done so of late: where there is
        much to read, its runs follow one another. A run that found nothing to read, or began soon
        after the one before, was not noticed: so the beginning is counted on in whole periods. Nor
        could one begin that was due in one of the `absences` of Kafka, from and until when.
        """
        period_ms = self.periods.length_ms(rows)
        run_ms = self.run_s[rows].astype(np.int64) * 1000
        runs = 1 + np.maximum(since_ms - run_ms, 0) // np.maximum(period_ms, 1)
        often_ms = np.minimum(_OFTEN_STEPS * self.step_ms, period_ms // 2)
        late_ms = np.maximum(
            np.maximum(_LATE_STEPS * self.step_ms, often_ms), period_ms // _LATE_PART
        )
        for away_ms, back_ms in absences:
            due_ms = run_ms + runs * period_ms
            # most runs begin soon after they are due
            begun_ms = due_ms + _SOON_STEPS * self.step_ms
            fell_out = (due_ms <= back_ms) & (away_ms <= begun_ms)
            later = 1 + (back_ms - run_ms) // np.maximum(period_ms, 1)
            runs = np.where(fell_out, np.maximum(runs + 1, later), runs)
        rested_ms = self.due_s[rows].astype(np.int64) * 1000
        busy_ms = np.maximum(_BUSY_RUNS * period_ms, _BUSY_MS)
        is_job = self._rests(rows) | ((rested_ms > 0) & (since_ms - rested_ms <= busy_ms))
        return np.where(is_job, run_ms + runs * period_ms + late_ms, UNKNOWN)

    def _may_recur(self, rows: Rows, at_ms: Int64, pause_ms: Int64) -> Bools | None:
        """Mask of rows whose ending pause may be usual because a similar one was seen before.

        An ordinary pause may. One that was judged a stop may when its members did the same as at
        the last stop and did not die, and either the group rests much of its time, or they ended
        and came back soon, or it comes back as a schedule does. None: all may.
        """
        down = self.down[rows]
        if not down.any():
            return None
        returned_ms = self.returned_s[rows].astype(np.int64) * 1000
        apart_ms = at_ms - returned_ms
        now, before = self.downs[rows] & 0x0F, self.downs[rows] >> 4
        short = (pause_ms <= _SHORT_REST_STEPS * self.step_ms) & (now == _ENDED)
        rests = apart_ms - pause_ms <= RESTS * pause_ms
        off_ms = np.abs(apart_ms[:, None] - _SCHEDULE_MS)
        scheduled = (off_ms <= _SCHEDULE_SLACK_MS).any(axis=1)
        alike = (now != _DIED) & (now == before)
        stopped = rows[down]
        self.returned_s[stopped] = at_ms[down] // 1000
        self.down[stopped] = False
        may: Bools = ~down | (returned_ms == 0) | (alike & (short | rests | scheduled))
        return may

    def go_down(self, rows: Rows, since_ms: Int64, left_later_ms: Int64, *, leave_ms: int) -> None:
        """These rows were judged stopped or stalled since then, and were not before.

        `left_later_ms`: how long after their last commit their members went, negative before it.
        Those of a job that has ended go within `leave_ms`, or have read everything.
        """
        self.down_since_ms[rows] = since_ms
        gone_s = self.left_s[rows].astype(np.int64)
        died = (gone_s > 0) & (left_later_ms > leave_ms) & (since_ms <= gone_s * 1000)
        held = (gone_s == 0) & (self.held_s[rows] > 0)
        now = np.select([died, held], [_DIED, _HELD], _ENDED)
        self.downs[rows] = self.downs[rows] << 4 | now

    def begin(self, rows: Rows, at_ms: Int64) -> None:
        """The first commits of these rows were seen."""
        self.since_s[rows] = at_ms // 1000

    def pause_ms(self, rows: Rows) -> Int64:
        """The usual pause of each row; 0 when none is known."""
        units = np.maximum(self.pauses.known[rows], self.past.known[rows])
        return units.astype(np.int64) * UNIT_MS

    def wait(self, rows: Rows, at_ms: Int64) -> None:
        """Note that these rows had read everything readable, although the log goes on."""
        if self.waited_ms is None:
            self.waited_ms = np.full(self.moved_ms.size, UNKNOWN, np.int64)
        self.waited_ms[rows] = at_ms

    def see_members(self, held: Bools, now_ms: int, *, unknown: Bools) -> Rows:
        """Which rows' partitions are held by members now; where that is `unknown`, as before.

        Returns the rows for which that changed.
        """
        size, now_s = held.size, now_ms // 1000
        held_s, left_s = self.held_s[:size], self.left_s[:size]
        self.seen_without[:size] |= ~held & ~unknown
        changed = np.flatnonzero((held != ((held_s > 0) & (left_s == 0))) & ~unknown)
        if not changed.size:
            return changed
        joins, leaves = changed[held[changed]], changed[~held[changed]]
        anew = (left_s[joins] == 0) | ((now_s - left_s[joins]) * 1000 >= self.step_ms)
        self._rest(joins[anew], now_ms)
        held_s[joins[anew]] = now_s
        left_s[joins] = 0
        left_s[leaves] = now_s
        return changed

    def have_left(self, rows: Rows, *, skew_ms: int) -> None:
        """Members of these rows came and went between two looks: they left behind their commit.

        `skew_ms`: how far the clock of `see_members` is ahead of that of commits.
        """
        last_s = (self.moved_ms[rows] + skew_ms) // 1000
        unseen = (self.moved_ms[rows] >= 0) & (last_s > self.left_s[rows])
        self.left_s[rows[unseen]] = last_s[unseen]

    def _rest(self, rows: Rows, now_ms: int) -> None:
        """Members of these rows came: where a run is due, and they were away for long, they rested.

        There may have been nothing to read meanwhile, or only of late. Those that are jobs stay
        jobs, also when the run before took until now.
        """
        left_ms = self.left_s[rows].astype(np.int64) * 1000
        away_ms = np.where(left_ms > 0, now_ms - left_ms, 0)
        period_ms = self.periods.length_ms(rows)
        _, near = self._whole_periods(rows, now_ms - self.run_s[rows].astype(np.int64) * 1000)
        rested_ms = np.where(self._rests(rows), period_ms, away_ms)
        rests = np.flatnonzero((period_ms > 0) & near & (_RESTED * rested_ms >= period_ms))
        units = np.minimum(rested_ms, period_ms // _KEPT)[rests] // UNIT_MS
        self.pauses.keep(rows[rests], units)

    def set_back(self, at_ms: int) -> None:
        """The clock of `see_members` was set back to this instant: no later one has been."""
        for column in (self.held_s, self.left_s):
            np.minimum(column, at_ms // 1000, out=column)

    def forget_past(self, held: Bools, now_ms: int, *, moved_ms: Int64) -> None:
        """Forget the pauses of the past where members stay without moving; called once a step.

        Such a group is no job either. `moved_ms`: when any row of its group moved last.
        """
        known = np.flatnonzero((self.past.known[: held.size] > 0) | self.may_be_job[: held.size])
        if known.size:
            held_ms = now_ms - self.held_s[known].astype(np.int64) * 1000
            idle_ms = np.minimum(now_ms - moved_ms[known], held_ms)
            stays = (held_ms >= _STAYS_MS) | (idle_ms >= _IDLE_STEPS * self.step_ms)
            stay = known[held[known] & stays]
            self.past.known[stay] = 0
            self.may_be_job[stay] = False

    # lags

    def rises_since_ms(self, rows: Rows) -> Int64:
        """When the lags of these rows began to rise, on the clock of `see_lags`; -1 unknown.

        It stays the same instant from step to step, while steps go by in which nothing is known,
        and over a restart.
        """
        rises_ms = self.rises_s[rows].astype(np.int64) * 1000
        return np.where(rises_ms > 0, rises_ms, UNKNOWN)

    def rose_ms(self, rows: Rows) -> Int64:
        """For how long the lags of these rows rose, up to their peak."""
        peak_steps = self._step - self.level[rows].astype(np.int64) - self._under_way[rows]
        since_ms = self.rises_since_ms(rows)
        known = (since_ms >= 0) & (self._step != UNKNOWN)
        rose_ms = np.where(known, peak_steps * self.step_ms - since_ms, _NEVER_MS)
        counted_ms = self.rising[rows].astype(np.int64) * self.step_ms
        return np.clip(rose_ms, 0, counted_ms)

    def rose_by(self, rows: Rows) -> Float32:
        """How far the lags of these rows rose to their peak, in messages, without the largest leap.

        A backlog that came at once is no rise, even if a few messages were added to it later.
        Infinite where an earlier version saw the rise begin.
        """
        with np.errstate(invalid="ignore"):
            rose = self._floor_before[rows] - self._base[rows] - self._leap[rows]
        return np.where(np.isfinite(rose), rose, _NO_FLOOR)

    def see_lags(self, rows: Rows, lag: Int64, now_ms: int) -> bool:
        """Take in a round of known lags, those that are unknown left out; True once a step.

        Then `follow_rises` is to be called.
        """
        self._floor[rows] = np.minimum(self._floor[rows], lag.astype(np.float32))
        return now_ms // self.step_ms != self._step

    def judged_by(self) -> Mapping[str, NDArray[np.generic]]:
        """Copies of the columns that rules look at and that a step may change."""
        columns = self._columns()
        return {name: columns[name].copy() for name in _JUDGED_BY}

    def changed_since(self, before: Mapping[str, NDArray[np.generic]]) -> NDArray[np.intp]:
        """Rows that may be judged otherwise than by these columns; those that rise, by others."""
        columns = self._columns()
        changed = self.rising > 0
        for name, column in before.items():
            changed |= columns[name] != column
        return np.flatnonzero(changed)

    def may_rise(self, rows: Rows) -> Bools:
        """Mask of rows whose lags rise, or may have begun to when `follow_rises` is called."""
        lowest = self._floor[rows]
        higher = np.isfinite(lowest) & (lowest > self._floor_before[rows])
        return higher | (self.rising[rows] > 0)

    def follow_rises(self, now_ms: int, *, late: Rows, shown: Rows) -> None:
        """Compare lags with those of the step before; `late` rows have old messages to read.

        The beginning of the rises that are `shown` does not change any more. Of rises only those
        that made a row late are learned: others need no excuse.
        """
        step = now_ms // self.step_ms
        if self._step != UNKNOWN:
            self._compare(step, shown)
        self._step = step
        self._late[late[self.rising[late] > 0]] = True
        self._forget(now_ms)

    def resume(self, now_ms: int) -> Rows:
        """No lags were seen for a while: that time does not count as one in which any rose.

        After it a group catches up, so only the rises of those go on that were judged to fall
        behind. Returns the rows whose rises end.
        """
        if self._step == UNKNOWN:
            return np.zeros(0, np.intp)
        self._step = now_ms // self.step_ms
        ends = np.flatnonzero((self.rising > 0) & ~self.behind)
        self.rising[ends] = 0
        self.level[ends] = 0
        self._late[ends] = False
        return ends

    def leave_out(self, rows: Rows, absent_ms: Int64) -> None:
        """Leave this time out of the rises of these rows, because their lags were unknown."""
        steps = np.minimum(self._under_way[rows], absent_ms // self.step_ms)
        self._under_way[rows] -= steps.astype(np.uint16)

    def _compare(self, step: int, shown: Rows) -> None:
        """Compare the lowest lag of the time that ends now with that of the time before.

        The lag of a group that commits every five minutes rises for five minutes and falls at each
        commit: so a row's times are at least twice as long as its usual pause. Rounds may be some
        steps apart, and the clock may have been set back.

        A consumer that is a little too slow has better times now and then: a rise goes on after a
        small dip. It has ended when no higher peak follows: then the lag stays where it is.
        """
        passed = max(step - self._step, 0)
        steps = 1 + 2 * self.pauses.known.astype(np.int64) * UNIT_MS // self.step_ms
        steps = np.clip(steps, passed, _MOST_UNITS)
        # looks over at least twice the usual pause, so that a pause does not seem to be a rise
        under_way = np.minimum(self._under_way.astype(np.int64) + passed, steps)
        self._under_way[:] = under_way
        known = np.isfinite(self._floor) & (under_way >= steps)
        peak, level = self._floor_before, self.level + under_way
        higher = known & np.isfinite(peak) & (self._floor > _HIGHER * peak)
        patience = np.maximum(np.maximum(_LEVEL_STEPS, under_way), self.rising // 3)
        dips = known & ~higher & (self.rising > 0)
        goes_on = dips & (self._floor >= _DIP * peak) & (level <= patience)
        ended = np.flatnonzero(dips & ~goes_on)
        if ended.size:
            excused = ended[self._late[ended]]
            length_ms = self.rising[excused].astype(np.int64) * self.step_ms
            self.rises.learn(excused, length_ms, slack_ms=self.step_ms)
            self.rising[ended] = 0
            self._late[ended] = False
        self._rise(np.flatnonzero(higher), under_way, steps=steps, step=step, shown=shown)
        self._pause(np.flatnonzero(goes_on), under_way)
        self.rising[higher] = np.minimum(self.rising[higher] + level[higher], _MOST_UNITS)
        self.level[known] = np.where(goes_on, np.minimum(level, _MOST_UNITS), 0)[known]
        begins_anew = known & ~goes_on
        self._floor_before[begins_anew] = self._floor[begins_anew]
        self._floor[known] = _NO_FLOOR
        self._under_way[known] = 0

    def _rise(self, rows: Rows, under_way: Int64, *, steps: Int64, step: int, shown: Rows) -> None:
        """The lags of these rows have a higher peak than before: when did that begin?

        Any lag goes up and down a little, and has now and then a higher peak. So when what it rose
        before it paused last, or before this step, is little beside what it has risen now, the
        rise began there.
        """
        if not rows.size:
            return
        peak, calm, base = self._floor_before[rows], self._calm[rows], self._base[rows]
        calm_steps = self._calm_steps[rows] + under_way[rows]
        rises = self.rising[rows] > 0
        free = rises & ~np.isin(rows, shown)
        with np.errstate(invalid="ignore"):  # the base of an earlier version is not known
            risen = self._floor[rows] - base
            here = ~rises | (free & (peak - base < _NOISE * risen))
            there = free & ~here & (calm - base < _NOISE * risen)
        leap = self._floor[rows] - peak
        self._leap[rows] = np.where(here | there, leap, np.maximum(leap, self._leap[rows]))
        length = np.where(here, np.minimum(under_way, steps)[rows], calm_steps)
        begins = np.flatnonzero(here | there)
        began_ms = (step - length[begins]) * self.step_ms
        self.rises_s[rows[begins]] = np.maximum(began_ms // 1000, 1)
        self._base[rows[begins]] = np.where(here, peak, calm)[begins]
        self._calm[rows[begins]] = _NO_FLOOR
        self._calm_steps[rows] = np.minimum(calm_steps, _MOST_UNITS)

    def _pause(self, rows: Rows, under_way: Int64) -> None:
        """Pause the rises of these rows: no higher peak, but not ended either."""
        if not rows.size:
            return
        peak, calm, base = self._floor_before[rows], self._calm[rows], self._base[rows]
        with np.errstate(invalid="ignore"):
            creeps = ~np.isfinite(calm) | (peak - base <= _CREEPS * (calm - base))
        self._calm[rows] = np.where(creeps, peak, calm)
        steps = np.minimum(self._calm_steps[rows] + under_way[rows], _MOST_UNITS)
        self._calm_steps[rows] = np.where(creeps, 0, steps)

    def _start_over(self, rows: Rows) -> None:
        """Restart the rises of rows that move again after a stop.

        Their lags did not rise by themselves.
        """
        for name in ("rising", "level", "_under_way", "_late"):
            getattr(self, name)[rows] = 0
        self._floor[rows] = self._floor_before[rows] = _NO_FLOOR

    def _forget(self, now_ms: int) -> None:
        if self._forgotten_ms == UNKNOWN or now_ms < self._forgotten_ms:
            self._forgotten_ms = now_ms
        units = (now_ms - self._forgotten_ms) // _FORGET_EVERY_MS
        if units:
            before = self._forgotten_ms // _FORGET_EVERY_MS
            self._forgotten_ms += units * _FORGET_EVERY_MS
            # noted lengths shrink slower: one that recurs after 24 times its length must still be
            # similar
            noted = (before + units) // 3 - before // 3
            for usual in (self.pauses, self.past, self.rises):
                usual.forget(units, noted=noted)
            # a job does not change its schedule because it did not run
            self.periods.forget(0, noted=noted)


_JUDGED_BY: Final = (
    *("rising", "rises_s", "may_be_job", "pauses", "pauses_noted", "past", "past_noted"),
    *("rises", "rises_noted", "periods", "periods_noted"),
)
_COLUMNS: Final[Mapping[str, tuple[type[np.generic], float]]] = {
    "moved_ms": (np.int64, UNKNOWN),
    "since_s": (np.uint32, 0),
    "moves": (np.uint8, 0),
    "down": (np.bool_, False),
    "down_since_ms": (np.int64, UNKNOWN),
    "stalled": (np.bool_, False),
    "downs": (np.uint8, 0),
    "returned_s": (np.uint32, 0),
    "unread_s": (np.uint32, 0),
    "run_s": (np.uint32, 0),
    "held_s": (np.uint32, 0),
    "left_s": (np.uint32, 0),
    "seen_without": (np.bool_, False),
    "silent": (np.bool_, False),
    "may_be_job": (np.bool_, False),
    "due_s": (np.uint32, 0),
    "behind": (np.bool_, False),
    "_floor": (np.float32, float("inf")),
    "_floor_before": (np.float32, float("inf")),
    "_under_way": (np.uint16, 0),
    "rising": (np.uint16, 0),
    "level": (np.uint16, 0),
    "rises_s": (np.uint32, 0),
    "_base": (np.float32, float("inf")),
    "_leap": (np.float32, 0),
    "_calm": (np.float32, float("inf")),
    "_calm_steps": (np.uint16, 0),
    "_late": (np.bool_, False),
}
"""Type of each column, and what it holds of a row of which nothing is known."""


def _alike(units: Int64, noted: Int64) -> Bools:
    """Is neither much longer than the other?"""
    alike: Bools = (units <= _LIKE * noted) & (noted <= _LIKE * units)
    return alike


def _heads(rows: Rows) -> NDArray[np.intp]:
    """Where a new row begins, in a column sorted by row."""
    heads = np.ones(rows.size, np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=heads[1:])
    return np.flatnonzero(heads)


def _turns(rows: Rows) -> Int64:
    """How many entries of the same row precede each, in a column sorted by row."""
    heads = _heads(rows)
    return np.arange(rows.size) - np.repeat(heads, np.diff(heads, append=rows.size))


T = TypeVar("T", bound=np.generic)


def _grown(column: NDArray[T], capacity: int, empty: float) -> NDArray[T]:
    grown = np.full(capacity, empty, column.dtype)
    grown[: column.size] = column
    return grown
