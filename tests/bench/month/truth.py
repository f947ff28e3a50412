"""What was really wrong with groups, as the traffic shows it: instants, and stretches to excuse."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.bench.month.plan import EVER_S, Bools, Breaks, Floats, Ints, Label, Life, Plan, Trouble
from tests.bench.month.traffic import CHUNK_S, STEP_S, STEPS, Chunk, whole

TAIL_S: Final = 600.0
"""A page this long after the end of a trouble is no false one, at least."""
WINDOW_COMMITS: Final = 10
LONGEST_WINDOW_S: Final = 7200.0
SHORTEST_S: Final = 900.0
"""Troubles seen for less need not be found, nor slow-downs that are behind for less at a time."""
SHORTEST_COMMITS: Final = 3
"""Nor those that end before so many commits were due, unless the members are gone."""
SLOW_S: Final = 120.0
SLOW_COMMITS: Final = 2
"""A slow-down whose time lag stays below that and so many times between two commits need not be
found: between two commits any group is that far behind."""
_USUAL_S: Final = 10.0
"""A queue of so many seconds is what a working group has."""
_PAUSE_S: Final = 60.0
"""A working group's queue for no longer than this is a pause in being behind, no end of it."""
_GIVE_UP_S: Final = 2 * 86_400.0


@dataclass(slots=True, kw_only=True)
class _Watch:
    """One trouble while it lasts, with the grids of its rows so far."""

    trouble: Trouble
    start_s: float
    """Of the first grid kept."""
    reachable: list[Floats] = field(default_factory=list)
    processed: list[Floats] = field(default_factory=list)
    log_start: list[Floats] = field(default_factory=list)


class Truth:
    """Follows the chunks of a plan and fills in its troubles."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._coming = sorted(
            (trouble for life in plan.lives for trouble in life.troubles),
            key=lambda trouble: trouble.start_s,
        )
        self._next = 0
        self._watched: list[_Watch] = []

    def follow(self, chunk: Chunk) -> None:
        """Take in the next chunk."""
        end_s = chunk.start_s + CHUNK_S
        while self._next < len(self._coming) and self._coming[self._next].start_s < end_s:
            self._watched.append(_Watch(trouble=self._coming[self._next], start_s=chunk.start_s))
            self._next += 1
        for watch in self._watched:
            rows = slice(watch.trouble.lo, watch.trouble.hi)
            watch.reachable.append(chunk.reachable[rows, 1:].copy())
            watch.processed.append(chunk.processed[rows, 1:].copy())
            watch.log_start.append(
                chunk.log_start[rows, None].repeat(STEPS, axis=1).astype(np.float64)
            )
        self._watched = [watch for watch in self._watched if not self._settled(watch, end_s)]

    def finish(self) -> None:
        """The month is over: what is still open stays so."""
        for watch in self._watched:
            _settle(watch, self._plan)
        self._watched.clear()

    def _settled(self, watch: _Watch, end_s: float) -> bool:
        if end_s <= watch.trouble.end_s:
            return False
        _settle(watch, self._plan)
        caught_up = watch.trouble.caught_up_s is not None
        return caught_up or end_s > watch.trouble.end_s + _GIVE_UP_S


def _settle(watch: _Watch, plan: Plan) -> None:
    trouble = watch.trouble
    life = plan.lives[trouble.group]
    reachable, processed = np.hstack(watch.reachable), np.hstack(watch.processed)
    at_s = watch.start_s + STEP_S * (1.0 + np.arange(reachable.shape[1]))
    unread = whole(reachable) - whole(processed)
    lost = whole(processed) < np.hstack(watch.log_start)
    during = (at_s >= trouble.start_s) & (at_s < trouble.end_s)
    seen = (lost if trouble.label is Label.LOSS else unread > 0).any(axis=0) & during
    trouble.true_s = float(at_s[seen.argmax()]) if seen.any() else None
    usual = np.maximum(1, life.rate * _USUAL_S)
    current = (unread <= usual).all(axis=0)
    drains = draining(at_s, unread, current, plan.breaks.outages)
    trouble.behind_s = longest_s(during & ~current & ~drains)
    done = current & ~lost.any(axis=0) & (at_s >= trouble.end_s)
    trouble.caught_up_s = float(at_s[done.argmax()]) if done.any() else None
    counts = ~drains[during]
    trouble.worst_time_lag_s = max(
        worst_time_lag_s(at_s[during], reachable[row, during], processed[row, during], counts)
        for row in range(reachable.shape[0])
    )


def draining(
    at_s: NDArray[Any], unread: Ints, current: Bools, outages: Iterable[tuple[float, float]]
) -> Bools:
    """When rows work off what an outage of Kafka left to read: that is not falling behind.

    Until they are current, or have more to read than a minute after it. `unread`: [rows, steps].
    """
    drains = np.zeros(at_s.size, np.bool_)
    for start_s, end_s in outages:
        left = (at_s >= start_s) & (at_s < end_s + _PAUSE_S)
        if not left.any():
            continue
        most = unread[:, left].max(axis=1, keepdims=True)
        over = (at_s >= end_s + _PAUSE_S) & (current | (unread > most).any(axis=0))
        until_s = at_s[over.argmax()] if over.any() else np.inf
        drains |= (at_s >= start_s) & (at_s < until_s)
    return drains


def longest_s(holds: NDArray[np.bool_]) -> float:
    """The longest stretch of the grid in which this holds; short pauses do not end it."""
    at = np.flatnonzero(holds)
    if not at.size:
        return 0.0
    parts = np.split(at, np.flatnonzero(np.diff(at) * STEP_S > _PAUSE_S) + 1)
    return STEP_S * float(max(part[-1] - part[0] + 1 for part in parts))


def worst_time_lag_s(
    at_s: NDArray[Any], reachable: Floats, processed: Floats, counts: Bools
) -> float:
    """Age of the oldest message not processed, at its greatest in the steps that count.

    A part of a message is none; 0 where no step counts.
    """
    ends = np.maximum.accumulate(whole(reachable))
    arrived = np.searchsorted(ends, whole(processed).astype(np.float64) + 0.5)
    arrived = np.minimum(arrived, np.arange(at_s.size))
    return float((at_s - at_s[arrived])[counts].max(initial=0.0))


def must_be_found(trouble: Trouble, plan: Plan) -> bool:
    """Is missing it a fault? Long enough, and one that could be seen for so long."""
    life = plan.lives[trouble.group]
    if not trouble.label.must_be_found or trouble.true_s is None:
        return False
    shortest_s = SHORTEST_S
    if trouble.label is Label.SLOW:
        # one that still reads what an earlier trouble left has been in trouble all the time
        if any(_lasts_to(each, trouble.start_s) for each in life.troubles if each is not trouble):
            return False
        # whether a lag rises is seen in the commits of a window
        shortest_s = max(shortest_s, WINDOW_COMMITS * life.cadence_s)
        slow_s = SLOW_S + SLOW_COMMITS * life.cadence_s
        # a consumer of an idle topic may be slow for hours, and behind for minutes only
        if trouble.worst_time_lag_s < slow_s or trouble.behind_s < shortest_s:
            return False
    if trouble.label is not Label.STOP:
        # its members are there: only the commits that do not come can show it
        shortest_s = max(shortest_s, SHORTEST_COMMITS * life.cadence_s)
    return seen_s(plan.breaks, max(trouble.true_s, 0.0), trouble.end_s) >= shortest_s


def _lasts_to(trouble: Trouble, at_s: float) -> bool:
    """Did it begin before this, and had not been caught up by then?"""
    caught_up_s = EVER_S if trouble.caught_up_s is None else trouble.caught_up_s
    return trouble.start_s < at_s < caught_up_s


def seen_s(breaks: Breaks, start_s: float, end_s: float) -> float:
    """How long of a stretch Kafka could be read: no group can show anything in an outage."""
    left_s, until_s = end_s - start_s, start_s
    away = (*breaks.outages, *breaks.collector_deaths, *breaks.lagwatch_restarts)
    for first_s, last_s in sorted(away):
        begin_s, until_s = max(first_s, until_s), max(min(last_s, end_s), until_s)
        left_s -= max(until_s - begin_s, 0.0)
    return left_s


class Excuses:
    """Stretches of a group's life in which a page is no false one."""

    def __init__(self, plan: Plan) -> None:
        self._stretches: dict[int, list[tuple[float, float]]] = {}
        for life in plan.lives:
            for trouble in life.troubles:
                self._stretches.setdefault(life.number, []).append(
                    (trouble.start_s, self._until_s(trouble, life))
                )

    @staticmethod
    def _until_s(trouble: Trouble, life: Life) -> float:
        """10 minutes after the end, or the time to catch up and to fill the window anew."""
        if trouble.caught_up_s is None:
            return EVER_S
        between_s = max(life.cadence_s, 1 / life.rate)
        window_s = min(WINDOW_COMMITS * between_s, LONGEST_WINDOW_S)
        return max(trouble.end_s + TAIL_S, trouble.caught_up_s + window_s)

    def cover(self, group: int, at_s: float) -> bool:
        """Is something wrong with the group then, or was a moment ago?"""
        return any(first <= at_s <= last for first, last in self._stretches.get(group, ()))

    def seconds(self, group: int, start_s: float, end_s: float) -> float:
        """How long of a stretch is not excused."""
        points = np.arange(start_s, end_s, 60.0)
        covered: NDArray[np.bool_] = np.zeros(points.size, np.bool_)
        for first, last in self._stretches.get(group, ()):
            covered |= (points >= first) & (points <= last)
        return float((~covered).sum() * 60.0)
