"""Turns a plan into log ends and commits, half an hour at a time.

A grid of 10 s holds, per row, what was produced and what the group has processed: a queue whose
server is as fast as the group's members are at that moment. Between the grid's points both are on
a line, so that a commit at any instant has an offset of its own, never above the log end.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.sorting import stable_order
from tests.bench.month.plan import (
    BEFORE_S,
    DAY_S,
    EVER_S,
    START_MS,
    Bools,
    Event,
    Floats,
    Ints,
    Jump,
    OpenFor,
    Plan,
)

STEP_S: Final = 10
CHUNK_S: Final = 1800
STEPS: Final = CHUNK_S // STEP_S
TAIL: Final = 1000
"""Newest commits per row that the offsets topic still holds uncompacted."""
FAST_TAIL: Final = 200
_FAST_S: Final = 5.0
"""Rows that commit faster fill their segments faster: FAST_TAIL of them are left."""
_FEW: Final = 3.0
"""Messages a step: rows with fewer get single arrivals, others a noisy flow."""
_ROUNDING: Final = 1e-4
"""Messages: the sums of the flows are wrong by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Commits in the order they were made."""

    row: Ints
    offset: Ints
    at_ms: Ints
    order: Ints

    def __len__(self) -> int:
        return self.row.size

    def part(self, first: int, last: int) -> "Commits":
        return Commits(
            row=self.row[first:last],
            offset=self.offset[first:last],
            at_ms=self.at_ms[first:last],
            order=self.order[first:last],
        )

    def followed_by(self, other: "Commits") -> "Commits":
        return Commits(
            row=np.concatenate((self.row, other.row)),
            offset=np.concatenate((self.offset, other.offset)),
            at_ms=np.concatenate((self.at_ms, other.at_ms)),
            order=np.concatenate((self.order, other.order)),
        )


def no_commits() -> Commits:
    none = np.zeros(0, np.int64)
    return Commits(row=none, offset=none, at_ms=none, order=none)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Half an hour; grids are [rows, steps + 1], from its first instant to its last."""

    start_s: float
    produced: Floats
    """Log end, with fractions of messages."""
    reachable: Floats
    """As `produced`, but for rows whose readers wait for an open transaction."""
    processed: Floats
    log_start: Ints
    """[rows]"""
    commits: Commits
    open_now: tuple[OpenFor, ...]
    stable_rows: Ints
    """Rows whose last stable offset is not the log end all the time."""
    stable: Floats
    """[stable_rows, steps + 1]"""

    def log_end(self, step: int) -> Ints:
        return whole(self.produced[:, step])

    def last_stable(self, step: int) -> Ints:
        ends = self.log_end(step)
        if self.stable_rows.size:
            ends[self.stable_rows] = whole(self.stable[:, step])
        return ends


def whole(offsets: Floats) -> Ints:
    """Whole messages."""
    return np.floor(offsets + _ROUNDING).astype(np.int64)


@dataclass(slots=True, kw_only=True)
class _Grid:
    """What events make of one chunk; [rows, steps] each."""

    produce: Floats
    speed: NDArray[np.float32]
    may_commit: Bools


@dataclass(frozen=True, slots=True, kw_only=True)
class _Queue:
    """What groups read; [rows, steps + 1], but for `power`."""

    reachable: Floats
    processed: Floats
    power: Floats
    """Messages that could be processed since the first point; [rows, steps]."""

    def go_on(self, row: int, at: int, offset: float) -> None:
        """Go on from another offset at point `at` of the grid."""
        reachable, processed = self.reachable[row], self.processed[row]
        possible = self.power[row, at:] - self.power[row, at - 1]
        limits = np.concatenate(([offset], reachable[at + 1 :] - possible))
        processed[at:] = np.minimum.accumulate(limits)
        processed[at + 1 :] += possible
        np.minimum(processed[at:], reachable[at:], out=processed[at:])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extra:
    """A commit, or its removal, besides those at the rhythm of the row."""

    at_s: float
    row: int
    offset: int | None
    """-1: removed; None: what is processed by then."""


class Traffic:
    """Makes the chunks of one plan, in order, from three days before the monitor starts."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._rows = plan, plan.rows
        self.number = plan.rows.rate.size
        rng = np.random.default_rng((plan.size.seed, plan.shard, 1 << 29))
        first = np.floor(np.exp(rng.uniform(np.log(1e3), np.log(1e9), self.number)))
        self._unborn = np.zeros(self.number, np.bool_)
        for life in plan.lives:
            for topic in life.topics:
                self._unborn[topic.lo : topic.hi] = topic.born_s > -EVER_S
        self._produced = np.where(self._unborn, 0.0, first)
        self._processed = self._produced.copy()
        self._held = np.zeros(self.number)
        self._log_start = whole(self._produced * 0.5)
        self._retained = np.flatnonzero(plan.rows.retention_s < EVER_S)
        self._ends: list[Floats] = []
        self._next_chunk = round(-BEFORE_S / CHUNK_S)
        self._next_event, self._active = 0, list[Event]()
        self._next_order = 0
        self._jumps = _by_chunk((jump.at_s, jump) for life in plan.lives for jump in life.jumps)
        self._removals = _by_chunk(_removals(plan))
        self._opens = sorted(
            (each for life in plan.lives for each in life.open_for), key=lambda each: each.start_s
        )
        self._next_open, self._open = 0, list[tuple[OpenFor, list[float]]]()
        self._light = np.flatnonzero(plan.rows.rate * STEP_S < _FEW)
        self._last_offset = np.maximum(whole(self._processed) - plan.rows.control, 0)
        self._tail = np.full((3, self.number, TAIL), -1, np.int64)
        self._tail_number = np.zeros(self.number, np.int64)
        self._newest = self._before = no_commits()

    @property
    def rates(self) -> Floats:
        """Messages a second that are usually written; shape [rows]."""
        return self._rows.rate

    @property
    def now_s(self) -> float:
        """Chunks were made up to here."""
        return float(self._next_chunk * CHUNK_S)

    def tail(self, now_s: float, since: int = 0) -> Commits:
        """What a reader of the offsets topic finds: the last days, and the last by key.

        Who goes on at a place in it reads commits from the order `since` on: no more than half an
        hour of them, see `_remember`.
        """
        if since:
            return since_order(self._before, self._newest, now_s, since)
        return self._held_by_topic(now_s).followed_by(_until(self._newest, now_s))

    def _held_by_topic(self, now_s: float) -> Commits:
        """Commits of the tail in the order they were made, but for the newest chunk's."""
        offset, at_ms, order = self._tail
        kept = at_ms >= START_MS + int((now_s - BEFORE_S) * 1000)
        kept[np.arange(self.number), (self._tail_number - 1) % TAIL] = True
        age = (self._tail_number[:, None] - 1 - np.arange(TAIL)) % TAIL
        kept &= age < np.where(self._rows.cadence_s < _FAST_S, FAST_TAIL, TAIL)[:, None]
        row, slot = np.nonzero(kept & (at_ms >= 0))
        by_order = np.argsort(order[row, slot])
        row, slot = row[by_order], slot[by_order]
        return Commits(
            row=row, offset=offset[row, slot], at_ms=at_ms[row, slot], order=order[row, slot]
        )

    def chunk(self) -> Chunk:
        """The next half hour."""
        start_s = self.now_s
        rng = np.random.default_rng(
            (self._plan.size.seed, self._plan.shard, self._next_chunk + 1000)
        )
        grid, finals = self._events(start_s, self._production(start_s, rng))
        produced = np.empty((self.number, STEPS + 1))
        produced[:, 0] = self._produced
        np.cumsum(grid.produce, axis=1, out=produced[:, 1:])
        produced[:, 1:] += self._produced[:, None]
        jumps: list[Jump] = self._jumps.pop(self._next_chunk, [])
        for jump in jumps:
            if jump.back >= EVER_S:
                at = _step(jump.at_s, start_s)
                produced[jump.row, at:] -= produced[jump.row, at]
                self._log_start[jump.row] = 0
        self._expire()
        stable_rows, stable = self._hold_open(start_s, produced)
        reachable = produced
        waiting = np.flatnonzero(self._rows.read_committed[stable_rows])
        if waiting.size:
            reachable = produced.copy()
            reachable[stable_rows[waiting]] = stable[waiting]
        processed, extras = self._process(start_s, grid, reachable, jumps, rng=rng)
        extras += [
            _Extra(at_s=at_s, row=row, offset=-1)
            for at_s, row in self._removals.pop(self._next_chunk, [])
        ]
        self._remember()
        commits = self._commits(start_s, grid, produced, processed, extras=finals + extras, rng=rng)
        self._newest = commits
        self._produced, self._processed = produced[:, -1].copy(), processed[:, -1].copy()
        self._ends.append(produced[self._retained, -1])
        self._next_chunk += 1
        return Chunk(
            start_s=start_s,
            produced=produced,
            reachable=reachable,
            processed=processed,
            log_start=self._log_start.copy(),
            commits=commits,
            open_now=tuple(each for each, _ in self._open),
            stable_rows=stable_rows,
            stable=stable,
        )

    # production

    def _production(self, start_s: float, rng: np.random.Generator) -> Floats:
        """Messages by row and step, before events."""
        rows = self._rows
        now, later = (
            1 + rows.swing * np.sin(2 * np.pi * (at_s - rows.peak_s) / DAY_S)
            for at_s in (start_s, start_s + CHUNK_S)
        )
        share = (np.arange(STEPS) + 0.5) / STEPS
        flow = rng.standard_normal((self.number, STEPS), dtype=np.float32).astype(np.float64)
        flow *= rows.noise[:, None]
        flow += 1.0
        np.maximum(flow, 0.0, out=flow)
        flow *= (rows.rate * STEP_S * now)[:, None] + (rows.rate * STEP_S * (later - now))[
            :, None
        ] * share
        expected = rows.rate[self._light] * CHUNK_S * now[self._light]
        number = rng.poisson(expected)
        cell = np.repeat(np.arange(self._light.size) * STEPS, number)
        cell += rng.integers(0, STEPS, cell.size)
        counts = np.bincount(cell, minlength=self._light.size * STEPS)
        records = 1 + rows.transactional[self._light]  # the control record behind the data
        flow[self._light] = counts.reshape(self._light.size, STEPS) * records[:, None]
        return flow

    def _events(self, start_s: float, produce: Floats) -> tuple[_Grid, list[_Extra]]:
        """Apply what happens; also the commits members make when they close."""
        grid = _Grid(
            produce=produce,
            speed=np.ones(produce.shape, np.float32),
            may_commit=np.ones(produce.shape, np.bool_),
        )
        events, end_s = self._plan.events, start_s + CHUNK_S
        finals: list[_Extra] = []
        while self._next_event < len(events) and events[self._next_event].start_s < end_s:
            event = events[self._next_event]
            self._next_event += 1
            self._active.append(event)
            if event.final and event.start_s > start_s:
                at_s = event.start_s - 0.05
                finals += [
                    _Extra(at_s=max(at_s, start_s), row=row, offset=None)
                    for row in range(event.lo, event.hi)
                ]
        for event in self._active:
            self._apply(event, start_s, grid)
        self._active = [event for event in self._active if event.end_s > end_s]
        return grid, finals

    def _apply(self, event: Event, start_s: float, grid: _Grid) -> None:
        first = max(0, round((event.start_s - start_s) / STEP_S))
        last = min(STEPS, round((event.end_s - start_s) / STEP_S))
        rows, steps = slice(event.lo, event.hi), slice(first, last)
        if event.hold >= 0:
            self._held[rows] += grid.produce[rows, steps].sum(axis=1)
            grid.produce[rows, steps] = 0.0
            if last < STEPS and event.end_s <= start_s + CHUNK_S:
                grid.produce[rows, last] += np.floor(self._held[rows] * event.hold)
                self._held[rows] = 0.0
        if event.produce != 1.0:
            grid.produce[rows, steps] *= event.produce
            if event.produce > 1.0:
                grid.produce[rows, steps] = np.floor(grid.produce[rows, steps])
        if event.speed != 1.0:
            grid.speed[rows, steps] *= event.speed
        if not event.commits:
            grid.may_commit[rows, steps] = False

    def _expire(self) -> None:
        """Retention deletes in steps of whole segments."""
        for place, row in enumerate(self._retained.tolist()):
            back = int(self._rows.retention_s[row] // CHUNK_S)
            if len(self._ends) > back:
                kept = int(self._ends[-1 - back][place])
                self._log_start[row] = max(self._log_start[row], kept)

    def _hold_open(self, start_s: float, produced: Floats) -> tuple[Ints, Floats]:
        """Open transactions hold the last stable offset where it was when they began."""
        end_s = start_s + CHUNK_S
        while self._next_open < len(self._opens) and self._opens[self._next_open].start_s < end_s:
            self._open.append((self._opens[self._next_open], []))
            self._next_open += 1
        rows = np.unique(np.array([each.row for each, _ in self._open], np.int64))
        stable = produced[rows].copy()
        for each, value in self._open:
            place = int(np.searchsorted(rows, each.row))
            first = max(0, _step(each.start_s, start_s) - 1)
            last = min(STEPS + 1, _step(each.end_s, start_s))
            if not value:
                value.append(float(stable[place, first]))
            held = stable[place, first:last]
            np.minimum(held, value[0], out=held)
        self._open = [(each, value) for each, value in self._open if each.end_s > end_s]
        return rows, stable

    # consumption

    def _process(
        self,
        start_s: float,
        grid: _Grid,
        reachable: Floats,
        jumps: Sequence[Jump],
        *,
        rng: np.random.Generator,
    ) -> tuple[Floats, list[_Extra]]:
        """The queue: what could be processed, but never more than what there was to read."""
        power = np.cumsum(grid.speed * (self._rows.capacity * STEP_S)[:, None], axis=1)
        processed = np.empty_like(reachable)
        processed[:, 0] = self._processed
        np.subtract(reachable[:, 1:], power, out=processed[:, 1:])
        np.minimum.accumulate(processed, axis=1, out=processed)
        processed[:, 1:] += power
        np.minimum(processed, reachable, out=processed)
        queue = _Queue(reachable=reachable, processed=processed, power=power)
        extras = []
        for jump in jumps:
            at = _step(jump.at_s, start_s)
            if jump.back >= EVER_S:
                value, told = 0.0, -1
            else:
                lowest = float(self._log_start[jump.row])
                value = float(np.floor(max(processed[jump.row, at] - jump.back, lowest)))
                told = int(value)
            queue.go_on(jump.row, at, value)
            extras.append(_Extra(at_s=jump.at_s, row=jump.row, offset=told))
        for row in self._retained.tolist():
            self._skip_lost(row, grid, queue, rng)
        return processed, extras

    def _skip_lost(self, row: int, grid: _Grid, queue: _Queue, rng: np.random.Generator) -> None:
        """Who reads what retention deleted is sent to the log start, after what it had fetched."""
        lowest = float(self._log_start[row])
        running = np.flatnonzero(grid.speed[row] > 0)
        if queue.processed[row, 0] >= lowest or not running.size:
            return
        at = int(running[0]) + int(rng.integers(2, 13))
        if at < STEPS and queue.processed[row, at] < lowest:
            queue.go_on(row, at, lowest)

    # commits

    def _commits(
        self,
        start_s: float,
        grid: _Grid,
        produced: Floats,
        processed: Floats,
        *,
        extras: Sequence[_Extra],
        rng: np.random.Generator,
    ) -> Commits:
        row, since_s = self._rhythm(start_s, grid, processed, rng)
        offset = self._offsets(row, since_s, produced, processed)
        at_ms = (since_s * 1000).astype(np.int64)
        row, at_ms, offset, always = self._with_extras(
            row,
            at_ms,
            offset,
            extras=extras,
            start_s=start_s,
            produced=produced,
            processed=processed,
        )
        before = np.concatenate(([-1], offset[:-1]))
        heads = heads_of(row)
        self._never_back(row, at_ms, offset, heads, extras=extras, start_s=start_s)
        before[1:] = offset[:-1]
        before[heads] = self._last_offset[row[heads]]
        kept = np.flatnonzero(always | self._rows.when_idle[row] | (offset != before))
        row, at_ms, offset = row[kept], at_ms[kept], offset[kept]
        if not row.size:
            return no_commits()
        last = np.append(heads_of(row)[1:], row.size) - 1
        self._last_offset[row[last]] = np.maximum(offset[last], 0)
        by_time = _by_time(at_ms)
        first = self._next_order
        self._next_order += row.size
        return Commits(
            row=row[by_time],
            offset=offset[by_time],
            at_ms=at_ms[by_time] + START_MS + int(start_s * 1000),
            order=np.arange(first, self._next_order),
        )

    def _rhythm(
        self, start_s: float, grid: _Grid, processed: Floats, rng: np.random.Generator
    ) -> tuple[Ints, Floats]:
        """Row and instant of the commits that may be made, by row and time."""
        rows = self._rows
        first = np.ceil((start_s - rows.phase_s) / rows.cadence_s).astype(np.int64)
        after = np.ceil((start_s + CHUNK_S - rows.phase_s) / rows.cadence_s).astype(np.int64)
        rests = ~rows.when_idle & (whole(processed[:, -1]) == self._last_offset)
        number = np.where(grid.may_commit.any(axis=1) & ~rests, after - first, 0)
        row = np.repeat(np.arange(self.number), number)
        turn = np.arange(row.size) + np.repeat(first - (np.cumsum(number) - number), number)
        cadence_s, jitter, phase_s = (
            np.repeat(each, number) for each in (rows.cadence_s, rows.jitter, rows.phase_s)
        )
        since_s = phase_s - start_s + cadence_s * (turn + jitter * rng.random(row.size))
        np.clip(since_s, 0.0, CHUNK_S - 0.001, out=since_s)
        may = grid.may_commit.ravel()[row * STEPS + (since_s / STEP_S).astype(np.int64)]
        return row[may], since_s[may]

    def _offsets(self, row: Ints, since_s: Floats, produced: Floats, processed: Floats) -> Ints:
        """What a commit names: the position of a moment before."""
        offset = whole(_at(processed, row, np.maximum(since_s - self._rows.behind_s[row], 0.0)))
        control = np.flatnonzero(self._rows.control[row])
        if control.size:
            last = whole(_at(produced, row[control], since_s[control])) - 1
            offset[control] = np.maximum(np.minimum(offset[control], last), 0)
        return offset

    def _with_extras(
        self,
        row: Ints,
        at_ms: Ints,
        offset: Ints,
        *,
        extras: Sequence[_Extra],
        start_s: float,
        produced: Floats,
        processed: Floats,
    ) -> tuple[Ints, Ints, Ints, Bools]:
        """Put the extra commits into their places; the last column marks those made in any case."""
        if self._next_chunk * CHUNK_S == -BEFORE_S:
            old = np.flatnonzero(~self._unborn).tolist()
            extras = [*extras, *(_Extra(at_s=start_s, row=each, offset=None) for each in old)]
        if not extras:
            return row, at_ms, offset, np.zeros(row.size, np.bool_)
        more = np.array([each.row for each in extras], np.int64)
        since_s = np.array([each.at_s - start_s for each in extras])
        given = np.array([-2 if each.offset is None else each.offset for each in extras], np.int64)
        reached = whole(_at(processed, more, since_s))
        control = self._rows.control[more]
        reached[control] -= whole(_at(produced, more, since_s))[control] == reached[control]
        more_ms = (since_s * 1000).astype(np.int64)
        more_offset = np.where(given == -2, np.maximum(reached, 0), given)
        forced = np.ones(more.size, np.bool_) if start_s == -BEFORE_S else given != -2
        # the others are in that order already
        by_place = stable_order(_place(more, more_ms))
        at = np.searchsorted(_place(row, at_ms), _place(more, more_ms)[by_place], side="right")
        return (
            np.insert(row, at, more[by_place]),
            np.insert(at_ms, at, more_ms[by_place]),
            np.insert(offset, at, more_offset[by_place]),
            np.insert(np.zeros(row.size, np.bool_), at, forced[by_place]),
        )

    def _never_back(
        self,
        row: Ints,
        at_ms: Ints,
        offset: Ints,
        heads: Ints,
        *,
        extras: Sequence[_Extra],
        start_s: float,
    ) -> None:
        """Who commits on closing what is processed does not commit less a moment later."""
        jumping = {each.row for each in extras if each.offset is not None}
        first = offset[heads]
        stays = ~np.isin(row[heads], list(jumping))
        offset[heads] = np.where(stays, np.maximum(first, self._last_offset[row[heads]]), first)
        ends = np.append(heads[1:], row.size)
        closing = [each for each in extras if each.offset is None]
        places = np.searchsorted(row[heads], [each.row for each in closing])
        for each, start, end in zip(
            closing, heads[places].tolist(), ends[places].tolist(), strict=True
        ):
            from_ms = int((each.at_s - start_s) * 1000)
            after = at_ms[start:end]
            # events begin at a point of the grid: until then it commits what it processed before
            last = np.searchsorted(after, from_ms + STEP_S * 1000)
            part = offset[start + np.searchsorted(after, from_ms) : start + last]
            if (part >= 0).all():
                np.maximum.accumulate(part, out=part)

    def _remember(self) -> None:
        """Keep the newest commits of each row; removed ones and those before them are gone.

        Only until the monitor starts: it then goes on from a checkpoint, which is minutes old.
        """
        made = self._before = self._newest
        if self._next_chunk >= 0:
            return
        removals = np.flatnonzero(made.offset < 0)
        removed = np.full(self.number, -1)
        removed[made.row[removals]] = removals  # of several, the last one stays
        self._tail_number[made.row[removals]], self._tail[:, made.row[removals]] = 0, -1
        index = np.flatnonzero(np.arange(len(made)) > removed[made.row])
        index = index[stable_order(made.row[index])]
        row = made.row[index]
        heads = heads_of(row)
        number = np.diff(np.append(heads, row.size))
        rank = np.arange(row.size) - np.repeat(heads, number)
        slot = (self._tail_number[row] + rank) % TAIL
        self._tail_number[row[heads]] += number
        fits = np.repeat(number, number) - rank <= TAIL
        index, flat = index[fits], row[fits] * TAIL + slot[fits]
        for column, values in zip(self._tail, (made.offset, made.at_ms, made.order), strict=True):
            column.ravel()[flat] = values[index]


def since_order(before: Commits, newest: Commits, now_s: float, since: int) -> Commits:
    """Commits of two chunks up to an instant, from an order on."""
    found = before.followed_by(_until(newest, now_s))
    return found.part(int(np.searchsorted(found.order, since)), len(found))


def _until(commits: Commits, now_s: float) -> Commits:
    last = int(np.searchsorted(commits.at_ms, START_MS + int(now_s * 1000)))
    return commits.part(0, last)


def _place(row: Ints, at_ms: Ints) -> Ints:
    """A number that sorts by row, then by the instant within the chunk."""
    return row * (2 * CHUNK_S * 1000) + at_ms


def _by_time(since_ms: Ints) -> Ints:
    """Positions that sort milliseconds since the chunk's start; equal ones keep their order.

    numpy sorts positions by 16-bit numbers with a radix sort. Two of these take two thirds of the
    time of `stable_order` for the million commits of a chunk, a tenth of a month's cost.
    """
    by_low = np.argsort((since_ms & 0xFFFF).astype(np.uint16), kind="stable")
    return by_low[np.argsort((since_ms >> 16).astype(np.uint16)[by_low], kind="stable")]


def heads_of(rows: Ints) -> Ints:
    """Where a new row begins, in a column sorted by row."""
    return np.flatnonzero(np.diff(rows, prepend=-1))


def _step(at_s: float, start_s: float) -> int:
    """Point of the grid at or after an instant, from 1."""
    return max(1, int(np.ceil(min(at_s - start_s, 2 * CHUNK_S) / STEP_S)))


def _at(grid: Floats, row: Ints, since_s: Floats) -> Floats:
    """Values on the lines between the grid's points."""
    place = since_s / STEP_S
    before = np.minimum(place.astype(np.int64), STEPS - 1)
    flat = row * (STEPS + 1) + before
    low, high = grid.ravel()[flat], grid.ravel()[flat + 1]
    return low + (high - low) * (place - before)


def _removals(plan: Plan) -> Iterator[tuple[float, tuple[float, int]]]:
    """When Kafka removes committed offsets: groups deleted, topics left a week ago."""
    for life in plan.lives:
        for topic in life.topics:
            at_s = min(life.gone_s, topic.left_s + 7 * DAY_S)
            if at_s < EVER_S:
                for row in range(topic.lo, topic.hi):
                    yield at_s, (at_s, row)


_Thing = TypeVar("_Thing")


def _by_chunk(things: Iterable[tuple[float, _Thing]]) -> dict[int, list[_Thing]]:
    found: dict[int, list[_Thing]] = defaultdict(list)
    for at_s, thing in things:
        found[int(at_s // CHUNK_S)].append(thing)
    return found
