"""Quantiles that can be merged: many multisets of integers at once.

A sketch that is kept is exact while it holds no more than `MOST` distinct values; then each value
is put into a bin that depends on the value alone. Whether it is binned depends on nothing but the
distinct values that went into it (a binned part has more than `MOST` of them, so has every union
with it), so it does not matter in which order, or over which steps, sketches are merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST: Final = 4
"""Distinct values of an exact sketch that is kept: every value takes more bytes than its bin."""
BITS: Final = 7
"""Significant bits that a bin keeps: its middle is off by less than 1 %."""

_DOUBLING_BITS: Final = BITS - 1
"""Binary logarithm of the number of bins between a power of two and the next."""
_WIDEST: Final = 62
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketches:
    """One sketch after another; an empty one knows nothing."""

    first: Int64
    """[sketches + 1]: where the entries of each begin."""
    value: Int64
    """[entries]: rising within a sketch."""
    count: Int64
    """[entries]: how often; 1 at least."""
    binned: Bools
    """[sketches]"""

    @property
    def size(self) -> int:
        """Number of sketches."""
        return int(self.binned.size)

    def totals(self) -> Int64:
        """[sketches]: how many values went into each."""
        return np.diff(np.concatenate([[0], np.cumsum(self.count)])[self.first])

    def quantile(self, percent: int) -> Int64:
        """[sketches]: the value at rank `ceil(n * percent / 100)`; -1 where there are none.

        The value itself of an exact sketch (nearest rank), else the middle of its bin.
        """
        total = self.totals()
        rank = np.maximum(-(-total * percent // _PERCENT), 1)
        reached = np.cumsum(self.count)
        before = np.concatenate([[0], reached])[self.first[:-1]]
        place = np.searchsorted(reached, before + rank)
        known = total > 0
        found = np.full(self.size, -1, np.int64)
        found[known] = self.value[place[known]]
        return found


def sketch(place: Int64, value: Int64, size: int) -> Sketches:
    """`size` sketches from single values: `value` goes into sketch number `place`.

    They hold every value; `kept` gives what is kept of them.
    """
    place, value, count = _runs(place, value, None)
    return Sketches(
        first=_borders(place, size), value=value, count=count, binned=np.zeros(size, np.bool_)
    )


def kept(sketches: Sketches) -> Sketches:
    """Sketches in the form that is stored: binned where they hold many values."""
    if not bool((np.diff(sketches.first)[~sketches.binned] > MOST).any()):
        return sketches
    place = np.repeat(np.arange(sketches.size), np.diff(sketches.first))
    return _binned(place, sketches.value, sketches.count, sketches.binned)


def merge_sketches(sketches: Sketches, place: Int64, size: int) -> Sketches:
    """`size` sketches: each of `sketches` goes into the one at its `place`."""
    binned = np.zeros(size, np.bool_)
    binned[place[sketches.binned]] = True
    of_entry = np.repeat(place, np.diff(sketches.first))
    return _gathered(of_entry, sketches.value, sketches.count, binned)


def concat_sketches(parts: list[Sketches]) -> Sketches:
    """One after another."""
    sizes = np.concatenate([np.diff(part.first) for part in parts])
    return Sketches(
        first=np.concatenate([[0], np.cumsum(sizes)]),
        value=np.concatenate([part.value for part in parts]),
        count=np.concatenate([part.count for part in parts]),
        binned=np.concatenate([part.binned for part in parts]),
    )


def take_sketches(sketches: Sketches, index: NDArray[np.intp]) -> Sketches:
    """The sketches at these positions, in this order."""
    sizes = np.diff(sketches.first)[index]
    first = np.concatenate([[0], np.cumsum(sizes)])
    entry = np.arange(first[-1]) + np.repeat(sketches.first[:-1][index] - first[:-1], sizes)
    return Sketches(
        first=first,
        value=sketches.value[entry],
        count=sketches.count[entry],
        binned=sketches.binned[index],
    )


def bins(value: Int64) -> Int64:
    """The middle of the bin of each value; a middle stays where it is."""
    drop = _bits_too_many(value)
    # the middle is in its own bin, so binning twice changes nothing: merging in any order agrees
    middle: Int64 = ((value >> drop) << drop) + _half(drop)
    return middle


def _half(drop: Int64) -> Int64:
    """Half the width of a bin that drops so many bits, rounded down."""
    half: Int64 = (np.int64(1) << drop) >> 1
    return half


def bin_numbers(middle: Int64) -> Int64:
    """The numbers of bins, from 0 on without holes, by their middles."""
    drop = _bits_too_many(middle)
    numbers: Int64 = (drop << _DOUBLING_BITS) + (middle >> drop)
    return numbers


def _bits_too_many(value: Int64) -> Int64:
    """Number of low bits of each value that its bin drops."""
    _, length = np.frexp(value.astype(np.float64))
    # a number that a real cannot hold may have been rounded up to the next power of two
    length = length - ((value >> np.maximum(length.astype(np.int64) - 1, 0)) == 0)
    drop: Int64 = np.maximum(length.astype(np.int64) - BITS, 0)
    return drop


def bin_middles(number: Int64) -> Int64:
    """The inverse."""
    drop = np.maximum((number >> _DOUBLING_BITS) - 1, 0)
    middles: Int64 = ((number - (drop << _DOUBLING_BITS)) << drop) + _half(drop)
    return middles


def _gathered(place: Int64, value: Int64, count: Int64 | None, binned: Bools) -> Sketches:
    """Entries in any order to sketches, binned where they must be."""
    return _binned(*_runs(place, value, count), binned)


def _binned(place: Int64, value: Int64, count: Int64, binned: Bools) -> Sketches:
    """Entries in order to sketches, binned where they must be."""
    size = binned.size
    # counted after merging: two sketches may share values, and only distinct ones count
    crowded = binned | (np.bincount(place, minlength=size) > MOST)
    if crowded.any():
        coarse = crowded[place]
        value = value.copy()
        value[coarse] = bins(value[coarse])
        # bins keep the order: equal ones are side by side already
        place, value, count = _merged_runs(place, value, count)
    return Sketches(first=_borders(place, size), value=value, count=count, binned=crowded)


def _borders(place: Int64, size: int) -> Int64:
    first = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(place, minlength=size), out=first[1:])
    return first


def _runs(place: Int64, value: Int64, count: Int64 | None) -> tuple[Int64, Int64, Int64]:
    """Entries sorted by place and value, each pair once."""
    if value.size == 0:
        none = np.zeros(0, np.int64)
        return none, none, none
    columns = (place, value) if count is None else (place, value, count)
    widths = [int(column.max()).bit_length() for column in columns]
    # beyond 63 bits the packed number would overflow; `lexsort` is slow, but always right
    if sum(widths) <= _WIDEST:
        place, value, *counts = _sorted_as_one(columns, widths)
        count = counts[0] if counts else None
    else:
        order = np.lexsort((value, place))
        place, value = place[order], value[order]
        count = None if count is None else count[order]
    return _merged_runs(place, value, count)


def _sorted_as_one(columns: Sequence[Int64], widths: Sequence[int]) -> list[Int64]:
    """The rows of some columns, sorted.

    All of them together are one number: sorting that is many times faster than sorting places.
    """
    packed = columns[0]
    for column, width in zip(columns[1:], widths[1:], strict=True):
        packed = (packed << width) | column
    packed = np.sort(packed)
    found = []
    for width in reversed(widths[1:]):
        found.append(packed & ((np.int64(1) << width) - 1))
        packed >>= width
    return [packed, *reversed(found)]


def _merged_runs(place: Int64, value: Int64, count: Int64 | None) -> tuple[Int64, Int64, Int64]:
    """Sorted entries, each pair once."""
    new = np.ones(value.size, np.bool_)
    new[1:] = (place[1:] != place[:-1]) | (value[1:] != value[:-1])
    start = np.flatnonzero(new)
    if count is None:
        total = np.diff(np.append(start, value.size))
    else:
        total = np.add.reduceat(count, start) if start.size else count
    return place[start], value[start], total
