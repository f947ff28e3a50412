"""Sketches as bytes: the columns `lag_sketch` and `time_lag_sketch`.

A sequence of unsigned LEB128 numbers (seven bits to a byte, lowest first, the high bit set on all
but the last byte): 0 exact or 1 binned, then for each value, rising, its distance from the one
before (the first: from 0) and how often it came. A sketch of nothing is null.
"""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.rollup.sketch import Sketches, concat_sketches

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SHIFT: Final = 7
_MORE: Final = 0x80
_LONGEST: Final = 9
"""Bytes of the greatest number of 63 bits."""
_AT_ONCE: Final = 8192
"""Sketches that are decoded in one go: what is between bytes and numbers stays in the cache."""


def encode(sketches: Sketches) -> NDArray[np.object_]:
    """[sketches]: bytes, or None for a sketch of nothing."""
    sizes = np.diff(sketches.first)
    known = sizes > 0
    data, offsets = _to_leb128(_numbers(sketches), np.where(known, 1 + 2 * sizes, 0))
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
    if np.any(held[known] % 2 == 0):
        raise ValueError("a sketch ends within an entry")
    head = np.cumsum(held)[known] - held[known]
    is_head = np.zeros(numbers.size, np.bool_)
    is_head[head] = True
    if np.any(numbers[head] > 1):
        raise ValueError("a sketch of an unknown form")
    binned = np.zeros(known.size, np.bool_)
    binned[known] = numbers[head] == 1
    pairs = numbers[~is_head]
    first = np.zeros(known.size + 1, np.int64)
    np.cumsum(np.where(known, (held - 1) // 2, 0), out=first[1:])
    return Sketches(
        first=first, value=_summed(pairs[0::2], first), count=pairs[1::2].copy(), binned=binned
    )


def _numbers(sketches: Sketches) -> Int64:
    """All numbers of all sketches that hold something, one after another."""
    sizes = np.diff(sketches.first)
    known = sizes > 0
    heads = np.cumsum(known)
    step = sketches.value.copy()
    step[1:] -= sketches.value[:-1]
    begin = sketches.first[:-1][known]
    step[begin] = sketches.value[begin]
    numbers = np.empty(int(heads[-1] if heads.size else 0) + 2 * step.size, np.int64)
    numbers[2 * begin + np.arange(begin.size)] = sketches.binned[known]
    entry = 2 * np.arange(step.size) + np.repeat(heads, sizes)
    numbers[entry], numbers[entry + 1] = step, sketches.count
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
