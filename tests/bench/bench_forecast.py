"""Forecasts replayed against what came: how often a group catches up within the 90 % interval.

Three kinds of traces of groups that are behind and catch up. Generated ones, by which the constants
of the forecast were chosen: steady and noisy consumers, bursty producers, speeds that wander, and a
daily shape; each is a commit every few seconds and a log end every five. Those recorded of real
consumers (`tests/data/forecasts`), and those of simulated months.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tests.bench.figures import Bound, Figure
from tests.bench.forecasts import month, recorded
from tests.bench.forecasts.replay import INTERVALS, Moment, Replay, past, replayed
from tests.bench.month.plan import Size

_KINDS = ("steady", "noisy", "bursty", "wandering", "daily")
_TRACES = 500
"""Of each kind."""
_LENGTH_S, _ROUND_S, _START_S = 7200, 5, 600
_EVERY_S = (5, 15, 60)
"""Seconds between two commits; by trace."""
_MONTHS: Final = tuple(Size(groups=300, days=1.0, shards=1, seed=seed) for seed in range(3, 7))

Float64 = NDArray[np.float64]


def run() -> Iterator[Figure]:
    """Coverage and error of each; by kind and trace on standard error."""
    generated = {kind: _moments(kind, place) for place, kind in enumerate(_KINDS)}
    yield from _figures("", _replays(generated))
    files = sorted(recorded.FOLDER.glob("*.json"))
    yield from _figures(
        "recorded_", _replays({file.stem: recorded.moments(file) for file in files})
    )
    months = {f"month {size.seed}": month.moments(size) for size in _MONTHS}
    yield from _figures("month_", _replays(months))


def _replays(traces: Mapping[str, Iterable[Moment]]) -> list[Replay]:
    """Forecasts of all moments, with a line for each kind."""
    by_kind: defaultdict[str, list[Replay]] = defaultdict(list)
    for kind, moments in traces.items():
        found = by_kind[kind]
        found += [each for moment in moments if (each := replayed(moment)) is not None]
        within = sum(each.within for each in found)
        wide, open_ = _shape(found)
        print(
            f"{kind}: {within} of {len(found)} within the interval, which is {wide:.2f} times the "
            f"forecast long; {open_:.0%} have no upper end",
            file=sys.stderr,
        )
    return [each for found in by_kind.values() for each in found]


def _shape(found: list[Replay]) -> tuple[float, float]:
    """Median length of intervals as a share of the forecast, and the share without an upper end."""
    closed = [each.width for each in found if np.isfinite(each.width)]
    wide = float(np.median(closed)) if closed else float("nan")
    return wide, 1 - len(closed) / len(found) if found else float("nan")


def _figures(name: str, replays: list[Replay]) -> Iterator[Figure]:
    share = float(np.mean([each.within for each in replays])) if replays else float("nan")
    for bound, target in ((Bound.AT_LEAST, 0.85), (Bound.AT_MOST, 0.95)):
        yield Figure(
            name=f"forecast_{name}coverage_{bound}",
            value=share,
            unit="share",
            target=target,
            bound=bound,
        )
    off = float(np.nanmedian([each.off for each in replays])) if replays else float("nan")
    wide, open_ = _shape(replays)
    for figure, value, target in (
        ("off_median", off, 0.25),
        ("width_median", wide, 1.5),
        ("without_upper_end", open_, 0.6),
    ):
        yield Figure(name=f"forecast_{name}{figure}", value=value, unit="share", target=target)


def _moments(kind: str, place: int) -> Iterator[Moment]:
    rng = np.random.default_rng(100 + place)
    for number in range(_TRACES):
        moment = _moment(kind, number, rng)
        if moment is not None:
            yield moment


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


def _moment(kind: str, number: int, rng: np.random.Generator) -> Moment | None:
    """Ten minutes after the start of a trace; None where it is not behind, or stays so."""
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
    every_s = _EVERY_S[number % len(_EVERY_S)]
    at_s = np.arange(_START_S - (INTERVALS - 1) * every_s, _START_S + 1, every_s)
    rounds = np.arange(0, _START_S + 1, _ROUND_S)
    all_s = np.arange(_START_S % every_s, _START_S + 1, every_s)
    log_end = rounds * 1000, ends[rounds].astype(np.int64)
    return Moment(
        ends_ms=rounds * 1000,
        ends=ends[rounds].astype(np.int64),
        commits_ms=at_s * 1000,
        offsets=position[at_s].astype(np.int64),
        past=past(_START_S * 1000, log_end, (all_s * 1000, position[all_s].astype(np.int64))),
        # its lag is gone at the first commit after that
        truth_s=float(-(-(caught_up[0] - _START_S) // every_s) * every_s),
    )
