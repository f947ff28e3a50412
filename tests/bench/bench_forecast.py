"""Forecasts replayed against what came: how often a group catches up within the 90 % interval.

Traces of groups that are behind and catch up: steady and noisy consumers, bursty producers, speeds
that wander, and a daily shape. Each is a commit every few seconds and a log end every five.
"""

import sys
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.forecast import CatchUpReason, outlooks
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.rates import rates
from lagwatch.core.rows import WindowColumns
from tests.bench.figures import Bound, Figure

_KINDS = ("steady", "noisy", "bursty", "wandering", "daily")
_TRACES = 150
"""Of each kind."""
_LENGTH_S, _ROUND_S, _START_S = 7200, 5, 600
_INTERVALS = 10
_EVERY_S = (5, 15, 60)
"""Seconds between two commits; by trace."""

Float64 = NDArray[np.float64]


def run() -> Iterator[Figure]:
    inside, all_in_all, off = 0, 0, []
    for place, kind in enumerate(_KINDS):
        rng = np.random.default_rng(100 + place)
        told = [_replayed(kind, number, rng) for number in range(_TRACES)]
        known = [each for each in told if each is not None]
        within = sum(each[0] for each in known)
        inside, all_in_all = inside + within, all_in_all + len(known)
        off += [each[1] for each in known]
        print(f"{kind}: {within} of {len(known)} within the interval", file=sys.stderr)
    print(f"half are off by less than {np.median(off):.0%}", file=sys.stderr)
    share = inside / max(all_in_all, 1)
    for bound, target in ((Bound.AT_LEAST, 0.85), (Bound.AT_MOST, 0.95)):
        yield Figure(
            name=f"forecast_coverage_{bound}", value=share, unit="share", target=target, bound=bound
        )
    yield Figure(name="forecast_off_median", value=float(np.median(off)), unit="share", target=0.25)


def _trace(kind: str, rng: np.random.Generator) -> tuple[Float64, Float64]:
    """Produced and consumed messages of each second."""
    seconds = np.arange(_LENGTH_S)
    produced = np.full(_LENGTH_S, rng.uniform(20, 200))
    speed = produced * rng.uniform(1.15, 3.0)
    if kind == "noisy":
        speed = speed * rng.gamma(4.0, 0.25, _LENGTH_S)
    if kind == "bursty":
        produced = produced * (rng.random(_LENGTH_S) < 0.1) * 10
    if kind == "wandering":
        steps = rng.normal(0, 0.004, _LENGTH_S)
        speed = speed * np.exp(np.cumsum(steps) - 0.05 * np.cumsum(np.cumsum(steps)) / _LENGTH_S)
    if kind == "daily":
        produced = produced * (1 + 0.3 * np.sin(2 * np.pi * (seconds / 86_400 + rng.random())))
    return rng.poisson(produced).astype(np.float64), np.maximum(speed, 0)


def _replayed(kind: str, number: int, rng: np.random.Generator) -> tuple[bool, float] | None:
    """Was the truth within, and by what share was the forecast off? None: there is no forecast."""
    produced, speed = _trace(kind, rng)
    backlog = rng.uniform(200, 3000) * produced.mean()
    ends = np.cumsum(produced) + backlog
    position = np.cumsum(speed)
    left = ends - position
    # it reads no more than there is
    if left[_START_S] <= 0:
        return None
    caught_up = np.flatnonzero(left <= 0)
    if not caught_up.size:
        return None
    truth_s = float(caught_up[0] - _START_S)
    every_s = _EVERY_S[number % len(_EVERY_S)]
    at_s = np.arange(_START_S - (_INTERVALS - 1) * every_s, _START_S + 1, every_s)
    history = LogEndHistory(horizon_ms=86_400_000)
    history.remap(np.array([-1]))
    for second in range(0, _START_S + 1, _ROUND_S):
        history.add(second * 1000, np.array([int(ends[second])]))
    columns = [np.array([column]).T.astype(np.int64) for column in (position[at_s], at_s * 1000)]
    windows = WindowColumns(
        offset=columns[0],
        commit_ms=columns[1],
        lag=np.array([left[at_s]]).T.astype(np.int64),
        count=np.array([_INTERVALS]),
        oldest=np.array([0]),
        newest=np.array([_INTERVALS - 1]),
    )
    at = np.zeros(1, np.int64)
    measured = rates(windows, at, history, now_ms=_START_S * 1000, skew_ms=0)
    lag = np.array([int(left[_START_S])])
    found = outlooks(
        measured, lag=lag, committed=columns[0][-1], log_start=at, log_end=columns[0][-1] + lag
    )[0]
    if found.catch_up_reason is not CatchUpReason.CATCHING_UP:
        return None
    assert found.catch_up_s is not None
    assert found.catch_up_low_s is not None
    high_s = np.inf if found.catch_up_high_s is None else found.catch_up_high_s
    return found.catch_up_low_s <= truth_s <= high_s, abs(found.catch_up_s / truth_s - 1)
