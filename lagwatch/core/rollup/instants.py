"""Instants that the offsets of samples are of: rates are measured between these.

`at_ms` of a regular sample is only the start of its interval. Right after a start of lagwatch, its
log ends were read up to a whole interval later.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.rollup.timeline import Series, Timeline

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetInstants:
    """All [entries]; within a series instants never go back."""

    log_end_ms: Int64
    """When the log end was read; the entry's `at_ms` where that is unknown."""
    committed_ms: Int64
    """When the offset was committed, if that was in the interval before the log end was read.

    Otherwise when the log end was read: it still held then. So the time of a group that commits
    nothing is time in which nothing was consumed.
    """

    log_end_newest: Int64 | None
    """The entry of the same series, up to this one, that `log_end_ms` is of; None: each itself."""
    committed_newest: Int64 | None

    @classmethod
    def of(
        cls, rows: Series, line: Timeline, *, log_end_ms: Int64, commit_ms: Int64
    ) -> "OffsetInstants":
        """From the columns of samples, [rows], -1 unknown."""
        row, series = line.entries.row, rows.series[line.entries.row]
        later_ms = log_end_ms - rows.at_ms
        # one that is much older says only that the partition was not asked again
        later_ms[(log_end_ms < 0) | (np.abs(later_ms) > line.interval_ms)] = 0
        # rounds that were left out were read as late in their interval as the row itself
        read_ms = line.entries.at_ms + later_ms[row]
        committed_ms = commit_ms[row]
        fresh = (committed_ms >= 0) & (np.abs(committed_ms - read_ms) < line.interval_ms[row])
        known_ms = np.where(fresh, committed_ms, read_ms)
        log_end_ms, committed_ms = _rising(series, read_ms), _rising(series, known_ms)
        return cls(
            log_end_ms=log_end_ms,
            committed_ms=committed_ms,
            log_end_newest=_newest(log_end_ms, read_ms),
            committed_newest=_newest(committed_ms, known_ms),
        )


def _newest(rising_ms: Int64, at_ms: Int64) -> Int64 | None:
    """The last entry that has risen, up to each one; the first of a series always has."""
    if rising_ms is at_ms:  # as a rule, and the entries are many
        return None
    risen = rising_ms == at_ms
    return np.maximum.accumulate(np.where(risen, np.arange(risen.size), 0))


def _rising(series: Int64, at_ms: Int64) -> Int64:
    """The greatest instant so far of the same series; series are in order."""
    if at_ms.size == 0 or bool(((np.diff(at_ms) >= 0) | (np.diff(series) > 0)).all()):
        return at_ms
    least = int(at_ms.min())
    width = int(at_ms.max()) - least + 1
    # series and instant as one number: all of a later series are above those of an earlier one
    packed = np.maximum.accumulate(series * width + (at_ms - least))
    return packed - series * width + least
