"""Advance of offsets, and the time in which it was measured.

A rate is the advance divided by that time. Time in which an offset was unknown, went back, or was
not recorded is in neither. So a rate does not fall because less was seen.

Partitions of a topic may have been measured for different times. Their rates add up, their times do
not: the time of a topic is that in which all that is known to have moved would have moved at the
sum of the rates. It is taken for every five minutes, so that longer buckets are sums of shorter
ones.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.rollup.tally import greatest, sums

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Of series in buckets of five minutes; all [cells], -1 where nothing was measured."""

    count: Int64
    """Messages."""
    measured_ms: Int64

    @classmethod
    def of(cls, count: Int64, length_ms: Int64, cell: Int64, size: int) -> "Moved":
        """From single steps, each with its time and cell."""
        return cls(count=sums(count, cell, size), measured_ms=sums(length_ms, cell, size))

    def joined(self, cell: Int64, size: int) -> "Moved":
        """Of what these are parts of: `cell[n]` says to which of `size` cells n belongs."""
        count = sums(self.count, cell, size)
        known = self.measured_ms > 0
        rate = np.zeros(size, np.float64)
        # rates of parts add up even if measured over different times; counts and times would not
        np.add.at(rate, cell[known], self.count[known] / self.measured_ms[known])
        # where nothing moved there is no rate to divide by, and any time is right
        measured_ms = greatest(self.measured_ms, cell, size)
        moving = rate > 0
        measured_ms[moving] = np.maximum(np.rint(count[moving] / rate[moving]), 1)
        return Moved(count=count, measured_ms=measured_ms)

    def in_longer(self, buckets: int) -> "Moved":
        """In buckets that are each as long as so many of these."""
        if buckets == 1:
            return self
        place = np.arange(self.count.size) // buckets
        size = self.count.size // buckets
        return Moved(
            count=sums(self.count, place, size), measured_ms=sums(self.measured_ms, place, size)
        )


def nothing_moved(size: int) -> Moved:
    """Cells in which nothing was measured."""
    unknown = np.full(size, UNKNOWN, np.int64)
    return Moved(count=unknown, measured_ms=unknown)
