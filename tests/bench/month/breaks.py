"""Draws what happens to the cluster and to lagwatch itself, and what that means for the groups."""

from collections.abc import Iterator
from typing import Any, Final

from tests.bench.month.lives import Dice, draw
from tests.bench.month.plan import (
    DAY_S,
    Breaks,
    Event,
    Life,
    Plan,
    Rows,
    Size,
    State,
    by_start,
)

_OUTAGES: Final = 4
_ROLLING_RESTARTS: Final = 2
_COLLECTOR_DEATHS: Final = 8
_LAGWATCH_RESTARTS: Final = 4
"""Per month; at least one of each."""
_APART_S: Final = 1800.0


def make(size: Size, shard: int) -> Plan:
    """The plan of one shard: the same for the same size, seed and shard."""
    lives, rows = draw(size, shard)
    dice = Dice(size.seed, shard, 1 << 30)
    breaks = _breaks(dice, size)
    rows.broker %= breaks.brokers
    events = [event for life in lives for event in life.events]
    events += _outages(dice, breaks, lives)
    events += _restarts(dice, breaks, lives, rows)
    return Plan(
        size=size, shard=shard, lives=lives, rows=rows, breaks=breaks, events=by_start(events)
    )


def _breaks(dice: Dice, size: Size) -> Breaks:
    """Instants that are apart from each other, so that each break is seen for itself."""
    numbers = [
        max(1, round(each * size.days / 30))
        for each in (_OUTAGES, _ROLLING_RESTARTS, _COLLECTOR_DEATHS, _LAGWATCH_RESTARTS)
    ]
    instants = _spread(dice, sum(numbers), size.days * DAY_S)
    outages, rolling, deaths, restarts = (
        [instants.pop() for _ in range(number)] for number in numbers
    )
    brokers = dice.number(3, 6)
    return Breaks(
        brokers=brokers,
        outages=tuple(sorted((at_s, at_s + dice.wide(30, 900)) for at_s in outages)),
        restarts=tuple(
            sorted(each for at_s in rolling for each in _one_by_one(dice, brokers, at_s))
        ),
        collector_deaths=tuple(sorted((at_s, at_s + dice.wide(5, 60)) for at_s in deaths)),
        lagwatch_restarts=tuple(sorted((at_s, at_s + dice.wide(5, 120)) for at_s in restarts)),
    )


def _spread(dice: Dice, number: int, end_s: float) -> list[float]:
    """Instants in random order, each in a stretch of its own."""
    stretch_s = (end_s - _APART_S) / number
    instants = [
        _APART_S + stretch_s * each + dice.between(0.0, 0.5) * stretch_s for each in range(number)
    ]
    dice.rng.shuffle(instants)
    return instants


def _one_by_one(dice: Dice, brokers: int, at_s: float) -> Iterator[tuple[float, float, int]]:
    for broker in range(brokers):
        yield at_s, at_s + dice.wide(2, 25), broker
        at_s += dice.between(60, 200)


def _outages(dice: Dice, breaks: Breaks, lives: tuple[Life, ...]) -> Iterator[Event]:
    """All brokers are away: nothing is produced or consumed; then each group comes back."""
    for start_s, end_s in breaks.outages:
        for life in lives:
            share = dice.between(0, 1)
            back_s = end_s + dice.between(5, 60)
            rows: dict[str, Any] = {
                "group": life.number,
                "lo": life.lo,
                "hi": life.hi,
                "why": "outage",
            }
            yield Event(start_s=start_s, end_s=end_s, hold=share, **rows)
            # sessions outlive the outage, or clients gave up and were started anew
            state = State.EMPTY if dice.chance(0.5) else State.STABLE
            yield Event(start_s=start_s, end_s=back_s, speed=0.0, commits=False, **rows)
            yield Event(start_s=end_s, end_s=back_s, state=state, **rows)


def _restarts(dice: Dice, breaks: Breaks, lives: tuple[Life, ...], rows: Rows) -> Iterator[Event]:
    """One broker: its partitions have no leader for a while, its groups no coordinator."""
    for start_s, end_s, broker in breaks.restarts:
        for row in (rows.broker == broker).nonzero()[0].tolist():
            yield Event(
                start_s=start_s,
                end_s=end_s,
                group=int(rows.group[row]),
                lo=row,
                hi=row + 1,
                why="leader_away",
                speed=0.0,
                hold=1.0,
            )
        for life in lives:
            if coordinator(life, breaks.brokers) == broker:
                yield Event(
                    start_s=start_s,
                    end_s=start_s + dice.wide(2, 30),
                    group=life.number,
                    lo=life.lo,
                    hi=life.hi,
                    why="coordinator_moves",
                    commits=False,
                )


def coordinator(life: Life, brokers: int) -> int:
    """The broker that coordinates a group at first."""
    return life.number % brokers
