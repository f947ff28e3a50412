"""Sketches as bytes: the columns `lag_sketch` and `time_lag_sketch`.

A sequence of unsigned LEB128 numbers (seven bits to a byte, lowest first, the high bit set on all
but the last byte): the form, then for each entry, rising, its distance from the one before (the
first: from 0) and how often it came. A sketch of nothing is null. Forms:

- 2 values, 3 numbers of bins: distance times two, plus one if the value came more than once; only
  then how often follows, less two
- 0 values, 1 middles of bins, as earlier releases wrote them: distance, then how often
"""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.rollup.sketch import (
    Sketches,
    bin_middles,
    bin_numbers,
    concat_sketches,
)

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

_OLD_BINS: Final = 1
_VALUES: Final = 2
_BINS: Final = 3
_SHIFT: Final = 7
_MORE: Final = 0x80
_LONGEST: Final = 9
"""Bytes of the greatest number of 63 bits."""
_AT_ONCE: Final = 8192
"""Sketches that are decoded in one go: what is between bytes and numbers stays in the cache."""


def encode(sketches: Sketches) -> NDArray[np.object_]:
    """[sketches]: bytes, or None for a sketch of nothing."""
    sizes = np.diff(sketches.first)
    many = np.concatenate([[0], np.cumsum(sketches.count > 1)])[sketches.first]
    numbers, held = _numbers(sketches, sizes), np.where(sizes > 0, 1 + sizes + np.diff(many), 0)
    data, offsets = _to_leb128(numbers, held)
    flat = data.tobytes()
    borders = offsets.tolist()
    column = np.empty(sketches.size, np.object_)
    column[:] = [
        flat[begin:end] if end > begin else None for begin, end in itertools.pairwise(borders)
    ]
    return column


def decode(column: Sequence[bytes | None] | NDArray[np.object_]) -> Sketches:
    """The inverse.

    Raises:
        ValueError: these bytes are no sketches.
    """
    starts = range(0, max(len(column), 1), _AT_ONCE)
    return concat_sketches([_decoded(column[start : start + _AT_ONCE]) for start in starts])


def _decoded(column: Sequence[bytes | None] | NDArray[np.object_]) -> Sketches:
    parts = [part or b"" for part in column]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    numbers, held = _from_leb128(np.frombuffer(b"".join(parts), np.uint8), offsets)
    known = held > 0
    head = np.cumsum(held)[known] - held[known]
    form = numbers[head]
    if np.any(form > _BINS):
        raise ValueError("a sketch of an unknown form")
    forms = np.full(known.size, _VALUES, np.int64)
    forms[known] = form
    is_head = np.zeros(numbers.size, np.bool_)
    is_head[head] = True
    of_number = np.repeat(np.arange(known.size), held)
    step, count, place = _entries(numbers[~is_head], of_number[~is_head], forms)
    first = np.zeros(known.size + 1, np.int64)
    np.cumsum(np.bincount(place, minlength=known.size), out=first[1:])
    value = _summed(step, first)
    numbered = forms[place] == _BINS
    value[numbered] = bin_middles(value[numbered])
    binned = np.isin(forms, (_OLD_BINS, _BINS)) & known
    return Sketches(first=first, value=value, count=count, binned=binned)


def _entries(numbers: Int64, sketch: Int64, forms: Int64) -> tuple[Int64, Int64, Int64]:
    """Distance, count and sketch of every entry, of numbers that are not heads."""
    old = forms[sketch] < _VALUES
    begins = ~_is_count(numbers, sketch, old)
    if old.any():
        # of the old forms every second number begins an entry
        number_of = np.arange(numbers.size) - np.searchsorted(sketch, sketch)
        begins = np.where(old, number_of % 2 == 0, begins)
    at = np.flatnonzero(begins)
    place, head = sketch[at], numbers[at]
    counted = old[at] | (head & 1 == 1)
    follows = np.append(~begins, [False])[at + 1] & (np.append(sketch, UNKNOWN)[at + 1] == place)
    if np.any(counted & ~follows):
        raise ValueError("a sketch ends within an entry")
    count = np.ones(at.size, np.int64)
    count[counted] = numbers[at[counted] + 1] + np.where(old[at[counted]], 0, 2)
    return np.where(old[at], head, head >> 1), count, place


def _is_count(numbers: Int64, sketch: Int64, old: Bools) -> Bools:
    """Which numbers of the new forms say how often: those after an odd one that is not a count."""
    odd = (numbers & 1 == 1) & ~old
    # within a run of odd numbers every second one is a count; so is what comes after an odd run
    new_run = np.ones(numbers.size, np.bool_)
    new_run[1:] = ~odd[:-1] | (sketch[1:] != sketch[:-1])
    start = np.maximum.accumulate(np.where(new_run, np.arange(numbers.size), 0))
    counts: Bools = (np.arange(numbers.size) - start) % 2 == 1
    return counts


def _numbers(sketches: Sketches, sizes: Int64) -> Int64:
    """All numbers of all sketches that hold something, one after another."""
    known = sizes > 0
    value = sketches.value.copy()
    in_bins = np.repeat(sketches.binned, sizes)
    value[in_bins] = bin_numbers(value[in_bins])
    step = value.copy()
    step[1:] -= value[:-1]
    begin = sketches.first[:-1][known]
    # the first value of a sketch has none before it: undo the difference to another sketch
    step[begin] = value[begin]
    many = sketches.count > 1
    heads = np.repeat(np.cumsum(known), sizes)
    # each entry is shifted by the head of its sketch, and by one for each count written before it
    entry = heads + np.arange(step.size) + np.cumsum(many) - many
    numbers = np.empty(int(known.sum() + step.size + many.sum()), np.int64)
    numbers[entry[begin] - 1] = np.where(sketches.binned[known], _BINS, _VALUES)
    numbers[entry] = step * 2 + many
    numbers[entry[many] + 1] = sketches.count[many] - 2
    return numbers


def _summed(steps: Int64, first: Int64) -> Int64:
    """Running sums that begin anew with each sketch."""
    total = np.cumsum(steps)
    before: Int64 = np.concatenate([[0], total])[first[:-1]]
    return np.subtract(total, np.repeat(before, np.diff(first)))


def _to_leb128(numbers: Int64, held: Int64) -> tuple[Bytes, Int64]:
    """The bytes, and where those of each sketch begin, which has so many numbers."""
    many = np.flatnonzero(numbers >= _MORE)  # most take one byte
    rest = numbers[many] >> _SHIFT
    length = np.ones(numbers.size, np.int64)
    length[many] = _lengths(rest) + 1
    end = np.zeros(numbers.size + 1, np.int64)
    np.cumsum(length, out=end[1:])
    data = np.empty(int(end[-1]), np.uint8)
    # the cast keeps the lowest eight bits; of long numbers the eighth becomes the "more" bit
    low = numbers.astype(np.uint8)
    low[many] |= _MORE
    data[end[:-1]] = low
    left, at = length[many] - 1, end[:-1][many] + 1
    while rest.size:
        more = left > 1
        data[at] = (rest & (_MORE - 1)) | np.where(more, _MORE, 0)
        left, at, rest = left[more] - 1, at[more] + 1, rest[more] >> _SHIFT
    return data, end[np.concatenate([[0], np.cumsum(held)])]


def _lengths(numbers: Int64) -> Int64:
    """How many bytes each number takes."""
    length = np.ones(numbers.size, np.int64)
    rest = numbers >> _SHIFT
    while rest.any():
        length += rest > 0
        rest >>= _SHIFT
    return length


def _from_leb128(data: Bytes, offsets: Int64) -> tuple[Int64, Int64]:
    """All numbers, and how many each sketch has."""
    last = data < _MORE
    ends = np.flatnonzero(last)
    borders = offsets[1:][np.diff(offsets) > 0]
    # a number that runs on into the next sketch would shift all that follow
    if not bool(last[borders - 1].all()):
        raise ValueError("a sketch ends within a number")
    start = np.concatenate([[0], ends + 1])[: ends.size]
    length = ends - start + 1
    if length.size and int(length.max()) > _LONGEST:
        raise ValueError("a sketch holds a number that is too large")
    numbers = (data[start] & (_MORE - 1)).astype(np.int64)
    longer = np.flatnonzero(length > 1)
    position = 1
    while longer.size:
        part = data[start[longer] + position].astype(np.int64) & (_MORE - 1)
        numbers[longer] |= part << (_SHIFT * position)
        position += 1
        longer = longer[length[longer] > position]
    return numbers, np.diff(np.searchsorted(ends, offsets))
