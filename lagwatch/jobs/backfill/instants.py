"""When a replay takes samples, and at which instants it has to know the log ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]

_LATE: Final = 1.5
"""Rounds further apart than this many intervals have a gap between them, as for `history.gaps`."""
_SPACING: Final = 16
"""Before a gap log ends may lie apart by their age divided by this, as in `core.log_end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A time to fill: `from_ms` <= instant < `to_ms`."""

    from_ms: int
    to_ms: int

    @property
    def seconds(self) -> float:
        return (self.to_ms - self.from_ms) / 1000


def find_gaps(
    rounds_ms: Int64, interval_ms: Int64, *, since_ms: int, until_ms: int, step_ms: int
) -> tuple[Gap, ...]:
    """The times of a range in which there were no rounds, in order.

    `rounds_ms` are the instants of the rounds there were, rising, also those a little before and
    after the range; `interval_ms` is the interval in force at each. What is filled is on the grid
    of `step_ms`.
    """
    late = np.flatnonzero(np.diff(rounds_ms) > interval_ms[:-1] * _LATE)
    begins, ends = rounds_ms[late] + interval_ms[late], rounds_ms[late + 1]
    if rounds_ms.size:
        begins = np.concatenate([[since_ms], begins, [rounds_ms[-1] + interval_ms[-1]]])
        ends = np.concatenate([[rounds_ms[0]], ends, [until_ms]])
    else:
        begins, ends = np.array([since_ms]), np.array([until_ms])
    begins = -(-np.maximum(begins, since_ms) // step_ms) * step_ms
    ends = np.minimum(ends, until_ms)
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    return tuple(Gap(from_ms=begin, to_ms=end) for begin, end in pairs if begin < end)


def sample_instants(gaps: Sequence[Gap], step_ms: int) -> Int64:
    """The instants of the samples: multiples of the interval, rising."""
    parts = [np.arange(_ceil(gap.from_ms, step_ms), gap.to_ms, step_ms) for gap in gaps]
    return np.concatenate(parts).astype(np.int64) if parts else np.zeros(0, np.int64)


def log_end_instants(gaps: Sequence[Gap], step_ms: int, *, history_ms: int) -> Int64:
    """When log ends have to be known, rising: at every sample, and ever more rarely before a gap.

    So a window that was filled before the gap has its lags, and time lags reach back as far as in
    a service that ran all the time.
    """
    lead = _lead(step_ms, history_ms)
    parts = [sample_instants(gaps, step_ms)]
    covered_ms = -1
    for gap in gaps:
        before = _ceil(gap.from_ms, step_ms) - lead
        parts.append(before[before >= max(covered_ms, 0)])
        covered_ms = gap.to_ms
    return np.unique(np.concatenate(parts)).astype(np.int64)


def _lead(step_ms: int, history_ms: int) -> Int64:
    """Ages before a gap, from one interval up to the whole history."""
    ages = [step_ms]
    while ages[-1] < history_ms:
        further = max(step_ms, ages[-1] // _SPACING // step_ms * step_ms)
        ages.append(ages[-1] + further)
    return np.array(ages, np.int64)


def _ceil(at_ms: int, step_ms: int) -> int:
    return -(-at_ms // step_ms) * step_ms
