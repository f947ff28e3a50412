"""The history of log end offsets: the log end at an instant, and the instant of an offset.

All partitions of a cluster are sampled in one round, so the history is a matrix: one row per
sample, one column per topic-partition, and one shared vector of instants. It is thinned with age:
the distance between samples may grow to a sixteenth of their age, so a day takes under 200
samples and an instant read from it is wrong by at most six per cent of its age.

Within a column the values never fall: a partition without a leader keeps its last value (nothing
can be appended then), and a log that was cut short or re-created loses its older samples.
"""

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, TimeLagReason

Int64 = NDArray[np.int64]
Index = NDArray[np.integer]

_SPACING = 16
"""Age divided by the distance between samples, at least."""
_THIN_EVERY = 16
"""Samples between two thinnings; thinning copies the matrix."""


class LogEndHistory:
    """Log end offsets of all topic-partitions over time. One owner writes."""

    def __init__(self, *, horizon_ms: int) -> None:
        self.horizon_ms = horizon_ms
        self._count = 0
        self._at_ms = np.empty(_THIN_EVERY, np.int64)
        self._ends = np.empty((_THIN_EVERY, 0), np.int64)

    @property
    def at_ms(self) -> Int64:
        """Instants of the samples, rising; shape [samples]."""
        return self._at_ms[: self._count]

    @property
    def ends(self) -> Int64:
        """Log end offsets, -1 before a partition was first known; [samples, partitions]."""
        return self._ends[: self._count]

    @property
    def partitions(self) -> int:
        return int(self._ends.shape[1])

    def latest(self) -> Int64:
        """Newest known log end of each partition, -1 where there is none."""
        if self._count:
            newest: Int64 = self._ends[self._count - 1]
            return newest
        return np.full(self.partitions, UNKNOWN, np.int64)

    def remap(self, source: Index) -> None:
        """Renumber the partitions: new column i is old column `source[i]`, or a new one for -1."""
        ends = np.full((self._at_ms.size, source.size), UNKNOWN, np.int64)
        kept = np.flatnonzero(source >= 0)
        ends[: self._count, kept] = self.ends[:, source[kept]]
        self._ends = ends

    def add(self, at_ms: int, log_end: Int64) -> None:
        """Add one round of samples, -1 where unknown.

        A round not newer than the last (the clock was set back) takes the last one's place.
        """
        before = self.latest()
        fell = np.flatnonzero((log_end >= 0) & (log_end < before))
        if fell.size:
            self._ends[: self._count, fell] = UNKNOWN
        again = self._count > 0 and at_ms <= self._at_ms[self._count - 1]
        if self._count == self._at_ms.size and not again:
            self._thin(at_ms)
        place = self._count - 1 if again else self._count
        self._ends[place] = np.where(log_end >= 0, log_end, before)
        if not again:
            self._at_ms[place] = at_ms
            self._count += 1

    def _thin(self, now_ms: int) -> None:
        """Drop samples that stand closer than their age needs; the oldest one stays."""
        times = self.at_ms.tolist()
        kept = [len(times) - 1]
        for index in range(len(times) - 2, 0, -1):
            # dropping `index` joins its older neighbour to the last one kept
            if times[kept[-1]] - times[index - 1] > (now_ms - times[index]) / _SPACING:
                kept.append(index)
        kept.append(0)
        chosen = [index for index in reversed(kept) if now_ms - times[index] <= self.horizon_ms]
        capacity = len(chosen) + _THIN_EVERY
        ends = np.empty((capacity, self.partitions), np.int64)
        ends[: len(chosen)] = self._ends[chosen]
        at_ms = np.empty(capacity, np.int64)
        at_ms[: len(chosen)] = self._at_ms[chosen]
        self._ends, self._at_ms, self._count = ends, at_ms, len(chosen)

    def first_above(self, partition: Index, offset: Int64) -> Int64:
        """Per pair: the first sample whose log end is above the offset, or the sample count."""
        low = np.zeros(partition.size, np.int64)
        high = np.full(partition.size, self._count, np.int64)
        for _ in range(int(self._count).bit_length()):
            middle = np.minimum((low + high) >> 1, max(self._count - 1, 0))
            above = self._ends[middle, partition] > offset
            high = np.where(above, np.minimum(high, middle), high)
            low = np.where(above, low, np.minimum(middle + 1, high))
        return low

    def at(self, partition: Index, at_ms: Int64) -> Int64:
        """Log end of each partition at each instant, on the line between two samples.

        Before the first known sample it is that sample, an upper bound; after the newest it is
        the newest. -1 where the partition was never known.
        """
        if self._count == 0:
            return np.full(partition.size, UNKNOWN, np.int64)
        after = np.minimum(np.searchsorted(self.at_ms, at_ms), self._count - 1)
        before = np.maximum(after - 1, 0)
        low, high = self._ends[before, partition], self._ends[after, partition]
        span_ms = np.maximum(self._at_ms[after] - self._at_ms[before], 1)
        share = np.clip((at_ms - self._at_ms[before]) / span_ms, 0.0, 1.0)
        ends = np.where(low >= 0, low + np.floor((high - low) * share).astype(np.int64), high)
        unknown = np.flatnonzero(ends < 0)
        if unknown.size:
            ends[unknown] = self._first_known(partition[unknown])
        return ends

    def since(self, at_ms: int) -> Int64:
        """Lowest log end of each partition at or after an instant; -1 where never known."""
        if self._count == 0:
            return self.latest()
        sample = min(int(np.searchsorted(self.at_ms, at_ms)), self._count - 1)
        ends: Int64 = self._ends[sample].copy()
        unknown = np.flatnonzero(ends < 0)
        if unknown.size:
            ends[unknown] = self._first_known(unknown)
        return ends

    def _first_known(self, partition: Index) -> Int64:
        first = self.first_above(partition, np.full(partition.size, UNKNOWN, np.int64))
        known = first < self._count
        return np.where(known, self._ends[np.minimum(first, self._count - 1), partition], UNKNOWN)

    def time_lag(
        self, partition: Index, committed: Int64, now_ms: int
    ) -> tuple[Int64, NDArray[np.int8]]:
        """Age of the oldest message not yet read, in ms, and how it is known (`TimeLagReason`).

        That message was appended between two samples. Taken as one of m evenly spread arrivals,
        the i-th of them is expected at i / (m + 1) of the way. Never extrapolated: -1 when the
        log end had passed the offset before the first sample.
        """
        if self._count == 0:
            unknown = np.full(partition.size, UNKNOWN, np.int64)
            reason = np.full(partition.size, TimeLagReason.LOG_END_UNKNOWN, np.int8)
            return unknown, reason
        after = self.first_above(partition, committed)
        passed = after < self._count
        after = np.minimum(after, self._count - 1)
        before = np.maximum(after - 1, 0)
        low, high = self._ends[before, partition], self._ends[after, partition]
        known = passed & (after > 0) & (low >= 0)
        span_ms = self._at_ms[after] - self._at_ms[before]
        share = (committed - low + 1) / np.maximum(high - low + 1, 1)
        at_ms = self._at_ms[before] + (span_ms * np.clip(share, 0.0, 1.0)).astype(np.int64)
        lag_ms = np.where(known, np.maximum(now_ms - at_ms, 0), UNKNOWN)
        lag_ms = np.where(passed, lag_ms, 0)
        reason = np.where(known, TimeLagReason.MEASURED, TimeLagReason.BEYOND_HISTORY)
        reason = np.where(passed, reason, TimeLagReason.CAUGHT_UP)
        never = self.latest()[partition] < 0
        reason = np.where(never, TimeLagReason.LOG_END_UNKNOWN, reason)
        return np.where(never, UNKNOWN, lag_ms), reason.astype(np.int8)
