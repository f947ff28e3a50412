"""One moment of a trace: what lagwatch would have said, against what came."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.forecast import CatchUpReason, outlooks
from lagwatch.core.lags import POINTS, STEP_MS, Lags, PastLags
from lagwatch.core.log_end import LogEndHistory
from lagwatch.core.rates import rates
from lagwatch.core.rows import WindowColumns

Int64 = NDArray[np.int64]
Trace = tuple[Int64, Int64]
"""Instants in ms, rising, and values."""

INTERVALS: Final = 10
"""Commits in a window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A group of one partition that is behind; instants in ms, rising."""

    ends_ms: Int64
    """When log ends were read; the last one is now."""
    ends: Int64
    commits_ms: Int64
    """The newest commits, at most as many as a window has."""
    offsets: Int64
    past: PastLags
    truth_s: float
    """From now until it has caught up; infinite: it did not as long as the trace lasts."""
    lasts_s: float = np.inf
    """How long the trace goes on from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A forecast and how it compares."""

    within: bool
    off: float
    """By what share the time was wrong; not a number: it did not catch up."""
    width: float
    """Length of the interval, as a share of the forecast; infinite: it has no upper end."""


def replayed(moment: Moment) -> Replay | None:
    """The forecast of a moment; None where there is none."""
    history = LogEndHistory(horizon_ms=86_400_000)
    history.restore(moment.ends_ms[:-1], moment.ends[:-1, None], ())
    now_ms = int(moment.ends_ms[-1])
    history.add(now_ms, moment.ends[-1:])
    size = moment.offsets.size
    lag = np.maximum(np.interp(moment.commits_ms, moment.ends_ms, moment.ends) - moment.offsets, 0)
    windows = WindowColumns(
        offset=moment.offsets[:, None],
        commit_ms=moment.commits_ms[:, None],
        lag=lag.astype(np.int64)[:, None],
        count=np.array([size]),
        oldest=np.array([0]),
        newest=np.array([size - 1]),
    )
    at = np.zeros(1, np.int64)
    measured = rates(windows, at, history, now_ms=now_ms, skew_ms=0)
    committed = moment.offsets[-1:]
    found = outlooks(
        measured,
        lag=moment.ends[-1:] - committed,
        waits=np.zeros(1, np.bool_),
        committed=committed,
        log_start=at,
        log_end=moment.ends[-1:],
        past=moment.past,
    ).every()[0]
    if found.catch_up_reason is not CatchUpReason.CATCHING_UP:
        return None
    if found.catch_up_s is None or found.catch_up_low_s is None:
        raise AssertionError("who catches up has a time")
    high_s = np.inf if found.catch_up_high_s is None else found.catch_up_high_s
    off = abs(found.catch_up_s / moment.truth_s - 1) if np.isfinite(moment.truth_s) else np.nan
    return Replay(
        # what comes after the end of the trace refutes nothing
        within=found.catch_up_low_s <= moment.truth_s
        and high_s >= min(moment.truth_s, moment.lasts_s),
        off=off,
        width=(high_s - found.catch_up_low_s) / max(found.catch_up_s, 1.0),
    )


def past(now_ms: int, log_end: Trace, committed: Trace) -> PastLags:
    """The lags of every ten seconds up to now, as lagwatch would have kept them."""
    lags, row = Lags(), np.zeros(1, np.int64)
    commits_ms, offsets = committed
    lag = np.maximum(np.interp(commits_ms, *log_end) - offsets, 0).astype(np.int64)
    first_ms = max(int(commits_ms[0]), int(log_end[0][0]), now_ms - STEP_MS * (POINTS - 1))
    for at_ms in range(now_ms - (now_ms - first_ms) // STEP_MS * STEP_MS, now_ms + 1, STEP_MS):
        newest = np.searchsorted(commits_ms, at_ms, side="right") - 1
        lags.take(row, lag[[newest]], commits_ms[[newest]], at_ms)
    return lags.of(row)
