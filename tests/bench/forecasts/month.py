"""Moments of the simulated month (`tests/bench/month`), which no constant was chosen by."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from tests.bench.forecasts.replay import INTERVALS, Int64, Moment, Trace, past
from tests.bench.month import breaks
from tests.bench.month.plan import START_MS, Size
from tests.bench.month.traffic import CHUNK_S, STEP_S, Chunk, Traffic, whole

_BEFORE_STEPS: Final = 120
"""Log ends that are known before the moment."""
_EVERY_STEPS: Final = 60
_BEHIND_S: Final = 120.0
"""It is behind by what is written in so long, at least."""
_FEWEST: Final = 100
"""Messages it is behind by, at least."""
_LONGEST_S: Final = 6 * 3600


def moments(size: Size) -> Iterator[Moment]:
    """Every five minutes, of each row that is behind; the truth is that of the simulation."""
    traffic = Traffic(breaks.make(size, 0))
    open_: list[tuple[int, float, Moment]] = []
    for _ in range(int(size.days * 86_400 / CHUNK_S)):
        chunk = traffic.chunk()
        open_.extend(_behind(chunk, traffic.rates))
        left = []
        for row, at_s, moment in open_:
            truth_s = _caught_up(chunk, row, at_s)
            if truth_s is not None:
                yield replace(moment, truth_s=truth_s)
            elif chunk.start_s + CHUNK_S - at_s < _LONGEST_S:
                left.append((row, at_s, moment))
            else:
                yield moment
        open_ = left


def _behind(chunk: Chunk, rate: np.ndarray) -> Iterator[tuple[int, float, Moment]]:
    """Row, instant and moment, with a truth that is still to be found."""
    commits = chunk.commits
    by_row = np.argsort(commits.row, kind="stable")
    first = np.searchsorted(commits.row[by_row], np.arange(rate.size + 1))
    lag = chunk.produced - chunk.processed
    for step in range(_BEFORE_STEPS, lag.shape[1], _EVERY_STEPS):
        at_s = chunk.start_s + step * STEP_S
        now_ms = START_MS + round(at_s * 1000)
        enough = np.maximum(rate * _BEHIND_S, _FEWEST)
        for row in np.flatnonzero(lag[:, step] >= enough).tolist():
            own = by_row[first[row] : first[row + 1]]
            own = own[(commits.at_ms[own] <= now_ms) & (commits.offset[own] >= 0)]
            every = own[np.argsort(commits.at_ms[own], kind="stable")]
            own = every[-INTERVALS:]
            since = slice(step - _BEFORE_STEPS, step + 1)
            ends = whole(chunk.produced[row, since])
            if own.size == INTERVALS and (np.diff(ends) >= 0).all():
                steps = np.arange(_BEFORE_STEPS, -1, -1, dtype=np.int64)
                yield (
                    row,
                    at_s,
                    _moment(now_ms, steps, ends, (commits.at_ms[every], commits.offset[every])),
                )


def _moment(now_ms: int, steps: Int64, ends: Int64, commits: Trace) -> Moment:
    ends_ms = now_ms - steps * STEP_S * 1000
    commits_ms, offsets = commits
    return Moment(
        ends_ms=ends_ms,
        ends=ends,
        commits_ms=commits_ms[-INTERVALS:],
        offsets=offsets[-INTERVALS:],
        past=past(now_ms, (ends_ms, ends), commits),
        truth_s=float("inf"),
    )


def _caught_up(chunk: Chunk, row: int, at_s: float) -> float | None:
    """When the row has caught up within this chunk, from an instant; None: not in it."""
    first = max(0, round((at_s - chunk.start_s) / STEP_S))
    left = chunk.produced[row, first:] - chunk.processed[row, first:]
    done = np.flatnonzero(left < 1.0)
    if not done.size:
        return None
    return float(chunk.start_s + (first + done[0]) * STEP_S - at_s)
