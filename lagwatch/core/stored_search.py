"""Finds between which stored samples of log ends the records at many offsets were appended.

A sample is a log end and when it was read. The record at an offset o came after the newest sample
whose log end is at most o, and not after the first one behind it whose log end is greater. Samples
come in spans of time, the newest span first, in any order within a span; an offset needs no older
span once a sample before its record is found.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """Between which samples records were appended; columns, -1 unknown."""

    low_ms: Int64
    """After this: the last sample without the record."""
    high_ms: Int64
    """Not after this: the first sample with it."""
    share: NDArray[np.float32]
    """How far between the two it is expected, 0..1, if what came between them came evenly."""


class StoredSearch:
    """Searches for many offsets at once, several of them of one partition."""

    def __init__(self, place: Int64, offset: Int64) -> None:
        """`place` is the number of each offset's partition, rising."""
        self._offset = offset
        partitions = int(place[-1]) + 1 if place.size else 0
        self._first = np.searchsorted(place, np.arange(partitions + 1))
        empty = np.full(offset.size, UNKNOWN, np.int64)
        self._low_ms, self._low_end = empty.copy(), empty.copy()
        self._high_ms, self._high_end = empty.copy(), empty.copy()
        self._begin()

    def _begin(self) -> None:
        size = self._offset.size
        self._span_low_ms = np.full(size, UNKNOWN, np.int64)
        self._span_low_end = self._span_low_ms.copy()
        self._span_high_ms = np.full(size, _NEVER, np.int64)
        self._span_high_end = self._span_high_ms.copy()

    @property
    def open(self) -> Bools:
        """Mask of offsets for which older samples may say more."""
        return self._low_ms < 0

    def take(self, place: Int64, log_end: Int64, read_ms: Int64) -> None:
        """Take known samples of the present span; columns of equal length."""
        number = np.diff(self._first)[place]
        sample = np.repeat(np.arange(place.size), number)
        # the offsets of a sample's partition, one after the other
        within = np.arange(sample.size) - np.repeat(np.cumsum(number) - number, number)
        wanted = self._first[place][sample] + within
        end, at_ms = log_end[sample], read_ms[sample]
        without = end <= self._offset[wanted]
        np.maximum.at(self._span_low_ms, wanted[without], at_ms[without])
        np.maximum.at(self._span_low_end, wanted[without], end[without])
        np.minimum.at(self._span_high_ms, wanted[~without], at_ms[~without])
        np.minimum.at(self._span_high_end, wanted[~without], end[~without])

    def end_span(self) -> None:
        """All samples of the span are taken; the next one is older."""
        searched = self.open
        found = searched & (self._span_low_ms >= 0)
        # a log that was cut short has a sample with the offset before one without it: that record
        # was another one
        later = searched & (self._span_high_ms < _NEVER)
        later &= ~found | (self._span_high_ms > self._span_low_ms)
        self._high_ms[later] = self._span_high_ms[later]
        self._high_end[later] = self._span_high_end[later]
        self._low_ms[found] = self._span_low_ms[found]
        self._low_end[found] = self._span_low_end[found]
        self._begin()

    def found(self) -> Enclosed:
        """What the spans so far say."""
        both = (self._high_ms >= 0) & (self._low_ms >= 0)
        came = np.maximum(self._high_end - self._low_end, 1)
        # as in LogEndHistory.age: the i-th of m evenly spread arrivals
        share = (self._offset - self._low_end + 1) / (came + 1)
        return Enclosed(
            low_ms=self._low_ms.copy(),
            high_ms=self._high_ms.copy(),
            share=np.where(both, np.clip(share, 0.0, 1.0), 0.5).astype(np.float32),
        )
