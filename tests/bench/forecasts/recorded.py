"""Moments of traces that `tests/bench/forecasts/record.py` has recorded of real consumers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from tests.bench.forecasts.replay import INTERVALS, Moment, past

FOLDER: Final = Path(__file__).parents[2] / "data" / "forecasts"
_EVERY_MS: Final = 5_000
_LOOK_S: Final = 2.0
"""Seconds between two log ends of a trace."""
_FEWEST: Final = 300
"""Messages it is behind by, at least."""


def moments(file: Path) -> Iterator[Moment]:
    """Every five seconds from the tenth commit on, until it has caught up."""
    trace = json.loads(file.read_text())
    ends_ms, ends = np.array(trace["log_ends"], np.int64).T
    commits_ms, offsets = np.array(trace["commits"], np.int64).T
    left = np.interp(commits_ms, ends_ms, ends) - offsets
    # the log end of a commit is known no better than what comes between two looks at it
    speed = np.gradient(np.interp(commits_ms, ends_ms, ends), commits_ms / 1000)
    caught_up = np.flatnonzero(left <= np.maximum(speed * _LOOK_S, 1))
    done_ms = float(commits_ms[caught_up[0]]) if caught_up.size else float("inf")
    for now_ms in range(int(commits_ms[INTERVALS - 1]), int(ends_ms[-1]), _EVERY_MS):
        known, read = ends_ms <= now_ms, commits_ms <= now_ms
        moment = Moment(
            ends_ms=ends_ms[known],
            ends=ends[known],
            commits_ms=commits_ms[read][-INTERVALS:],
            offsets=offsets[read][-INTERVALS:],
            past=past(now_ms, (ends_ms[known], ends[known]), (commits_ms[read], offsets[read])),
            truth_s=(done_ms - now_ms) / 1000,
            lasts_s=float(ends_ms[-1] - now_ms) / 1000,
        )
        if moment.truth_s <= 0 or moment.ends[-1] - moment.offsets[-1] < _FEWEST:
            return
        yield moment
