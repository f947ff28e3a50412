"""Sketches as bytes: the columns `lag_sketch` and `time_lag_sketch`.

A sequence of unsigned LEB128 numbers (seven bits to a byte, lowest first, the high bit set on all
but the last byte): the form, then for each entry, rising, its distance from the one before (the
first: from 0) and how often it came. A sketch of nothing is null. Forms:

- 4 and more: the last entry is left out, because the row has its value as its greatest. Less four,
  the sum of: 1 numbers of bins, not values; 2 the last entry came more than once; 4 the first entry
  is left out, too, because the row has its value as its least; 8 it came more than once. How often
  an entry came that is left out, less two, follows the form (first) or ends the sketch (last) if it
  was more than once. Entries between them: distance to the next times two, plus one if the value
  came more than once; only then how often follows, less two
- 2 values, 3 numbers of bins: all entries, written like those, but the distance is the one from the
  entry before
- 0 values, 1 middles of bins, as earlier releases wrote them: distance, then how often
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.rollup.sketch import (
    Sketches,
    bin_middles,
    bin_numbers,
    bins,
    concat_sketches,
)

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

_OLD_BINS: Final = 1
_VALUES: Final = 2
_BINS: Final = 3
_FLAGS: Final = 4
"""Forms from here on are sums of what follows."""
_IN_BINS: Final = 1
_LAST_MORE: Final = 2
_NO_FIRST: Final = 4
_FIRST_MORE: Final = 8
_GREATEST_FORM: Final = _FLAGS + _IN_BINS + _LAST_MORE + _NO_FIRST + _FIRST_MORE
_WITH_COUNT: Final = 2
"""Numbers of a sketch that holds a form and a count."""
_SHIFT: Final = 7
_MORE: Final = 0x80
_NONE: Final = np.zeros(0, np.intp)
_LONGEST: Final = 9
"""Bytes of the greatest number of 63 bits."""
_BYTES_AT_ONCE: Final = 1 << 17
"""So much is decoded in one go: what is between bytes and numbers stays in the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The least and the greatest value of each sketch, as other columns of its row have them.

    Both [sketches]; -1 where the row does not have it.
    """

    least: Int64
    greatest: Int64

    def take(self, chosen: slice | Bools) -> "Ends":
        """Those of some sketches."""
        return Ends(least=self.least[chosen], greatest=self.greatest[chosen])

    def numbers(self, binned: Bools) -> tuple[Int64, Int64]:
        """Both as numbers of bins where `binned`, else as they are."""
        return _numbered(self.least, binned), _numbered(self.greatest, binned)


def encode(sketches: Sketches, ends: Ends) -> NDArray[np.object_]:
    """[sketches]: bytes, or None for a sketch of nothing."""
    numbers, held = _numbers(sketches, ends)
    data, offsets = _to_leb128(numbers, held)
    flat = data.tobytes()
    borders = offsets.tolist()
    column = np.empty(sketches.size, np.object_)
    column[:] = [
        flat[begin:end] if end > begin else None for begin, end in itertools.pairwise(borders)
    ]
    return column


def decode(column: Sequence[bytes | None] | NDArray[np.object_], ends: Ends) -> Sketches:
    """The inverse.

    Raises:
        ValueError: these bytes are no sketches, or not those of these rows.
    """
    parts = [part or b"" for part in column]
    offsets = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    data = np.frombuffer(b"".join(parts), np.uint8)
    borders = np.searchsorted(offsets, np.arange(_BYTES_AT_ONCE, data.size, _BYTES_AT_ONCE))
    sketches = []
    for begin, end in itertools.pairwise([0, *np.unique(borders).tolist(), len(parts)]):
        places = offsets[begin : end + 1]
        part = data[places[0] : places[-1]]
        sketches.append(_decoded(part, places - places[0], ends.take(slice(begin, end))))
    return concat_sketches(sketches)


def _decoded(data: Bytes, offsets: Int64, ends: Ends) -> Sketches:
    numbers, held = _from_leb128(data, offsets)
    known = held > 0
    head = np.cumsum(held)[known] - held[known]
    if np.any(numbers[head] > _GREATEST_FORM):
        raise ValueError("a sketch of an unknown form")
    forms = np.full(known.size, _VALUES, np.int64)
    forms[known] = numbers[head]
    binned = np.isin(forms, (_OLD_BINS, _BINS)) | ((forms >= _FLAGS) & (forms & _IN_BINS > 0))
    outer = _outer(forms, numbers, held)
    of_number = np.repeat(np.arange(known.size), held)
    inner = outer.inner
    inner[head] = False
    inside = np.flatnonzero(inner)
    entries = _entries(numbers[inside], of_number[inside], forms)
    first, value, count = _around(outer, *entries, ends.numbers(binned))
    numbered = np.repeat(binned & (forms != _OLD_BINS), np.diff(first))
    value[numbered] = bin_middles(value[numbered])
    return Sketches(first=first, value=value, count=count, binned=binned)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outer:
    """Entries that are left out of the bytes of sketches."""

    no_first: Bools
    no_last: Bools
    first_count: Int64
    last_count: Int64
    """How often they came; all [sketches]."""
    inner: Bools
    """[numbers]: False where a number says how often one of them came."""


def _outer(forms: Int64, numbers: Int64, held: Int64) -> _Outer:
    new = forms >= _FLAGS
    end = np.cumsum(held)
    inner = np.ones(numbers.size, np.bool_)
    counts = []
    for flag, at in ((_FIRST_MORE, end - held + 1), (_LAST_MORE, end - 1)):
        more = np.flatnonzero(new & (forms - _FLAGS & flag > 0))
        place = at[more]
        if bool((held[more] < _WITH_COUNT).any()) or not bool(inner[place].all()):
            raise ValueError("a sketch ends within an entry")
        inner[place] = False
        count = np.ones(forms.size, np.int64)
        count[more] = numbers[place] + 2
        counts.append(count)
    return _Outer(
        no_first=new & (forms - _FLAGS & _NO_FIRST > 0),
        no_last=new,
        first_count=counts[0],
        last_count=counts[1],
        inner=inner,
    )


def _around(
    outer: _Outer, step: Int64, count: Int64, place: Int64, ends: tuple[Int64, Int64]
) -> tuple[Int64, Int64, Int64]:
    """Where the entries of each sketch begin, and the value and count of all, of the inner ones."""
    low, high = ends
    sizes = np.bincount(place, minlength=low.size)
    # the only entry of a sketch is its last one
    no_first = outer.no_first & ~((sizes == 0) & (low == high))
    if bool((high[outer.no_last] < 0).any()) or bool((low[no_first] < 0).any()):
        raise ValueError("a sketch without the least or greatest value of its row")
    before = no_first.astype(np.int64)
    around = before + outer.no_last
    first = np.zeros(low.size + 1, np.int64)
    np.cumsum(sizes + around, out=first[1:])
    at = np.arange(step.size) + (np.cumsum(around) - around + before)[place]
    steps, counts = np.zeros(first[-1], np.int64), np.ones(first[-1], np.int64)
    steps[at], counts[at] = step, count
    total = np.cumsum(steps)
    # before the first entry there is none, and its total is 0
    begun = np.concatenate([[0], total])[first]
    down = np.repeat(outer.no_last, sizes + around)
    offset = np.where(outer.no_last, high - begun[1:], -begun[:-1])
    value = total - np.where(down, steps, 0) + np.repeat(offset, sizes + around)
    begin, end = first[:-1][no_first], first[1:][outer.no_last] - 1
    value[begin], counts[begin] = low[no_first], outer.first_count[no_first]
    counts[end] = outer.last_count[outer.no_last]
    if bool((np.diff(value)[begin] <= 0).any()) or bool((value < 0).any()):
        raise ValueError("a sketch does not fit the least and greatest value of its row")
    return first, value, counts


def _entries(numbers: Int64, sketch: Int64, forms: Int64) -> tuple[Int64, Int64, Int64]:
    """Distance, count and sketch of every entry, of numbers that are not heads."""
    old = np.flatnonzero(forms[sketch] < _VALUES) if bool((forms < _VALUES).any()) else _NONE
    counted = np.flatnonzero(_is_counted(numbers, sketch, old))
    follows = counted + 1
    if counted.size and (
        int(follows[-1]) == numbers.size or bool((sketch[follows] != sketch[counted]).any())
    ):
        raise ValueError("a sketch ends within an entry")
    count = np.ones(numbers.size, np.int64)
    count[counted] = numbers[follows] + 2
    step = numbers >> 1
    step[old] = numbers[old]
    count[old] -= 2
    begins = np.ones(numbers.size, np.bool_)
    begins[follows] = False
    at = np.flatnonzero(begins)
    return step[at], count[at], sketch[at]


def _is_counted(numbers: Int64, sketch: Int64, old: Int64) -> Bools:
    """Which numbers begin an entry that says how often it came; `old`: those of the old forms."""
    odd: Bools = numbers & 1 == 1
    odd[old] = False
    # within a run of odd numbers every second one is a count; so is what comes after an odd run
    at = np.flatnonzero(odd)
    new_run = np.ones(at.size, np.bool_)
    new_run[1:] = (np.diff(at) > 1) | (sketch[at[1:]] != sketch[at[:-1]])
    start = np.maximum.accumulate(np.where(new_run, at, 0))
    odd[at[(at - start) & 1 == 1]] = False
    # of the old forms every second number begins an entry
    number_of = old - np.searchsorted(sketch, sketch[old])
    odd[old[number_of % 2 == 0]] = True
    return odd


def _numbers(sketches: Sketches, ends: Ends) -> tuple[Int64, Int64]:
    """All numbers of all sketches that hold something, and how many each sketch has."""
    sizes = np.diff(sketches.first)
    known = sizes > 0
    binned = sketches.binned[known]
    value = sketches.value.copy()
    in_bins = np.repeat(sketches.binned, sizes)
    value[in_bins] = bin_numbers(value[in_bins])
    begin, end = sketches.first[:-1][known], sketches.first[1:][known] - 1
    low, high = ends.take(known).numbers(binned)
    no_last = value[end] == high
    no_first = no_last & (value[begin] == low)
    step = value.copy()
    step[1:] -= value[:-1]
    # the first value of a sketch has none before it: undo the difference to another sketch
    step[begin] = value[begin]
    down = np.flatnonzero(np.repeat(no_last, sizes[known]))
    # what follows the last entry of all does not matter: that entry is left out
    step[down] = np.append(step[1:], 0)[down]
    many = sketches.count > 1
    last_more = no_last & many[end]
    first_more = no_first & many[begin] & (begin < end)
    written = np.ones(step.size, np.bool_)
    written[begin[no_first]] = False
    written[end[no_last]] = False
    counted = many & written
    # the form and a count of the first before the entries, a count of the last after them
    size = written.astype(np.int64) + counted
    size[begin] += 1 + first_more.astype(np.int64)
    size[end] += last_more
    after = np.cumsum(size)
    numbers = np.empty(int(after[-1]) if after.size else 0, np.int64)
    entry = after - written - counted
    entry[end] -= last_more
    numbers[entry[written]] = step[written] * 2 + many[written]
    numbers[entry[counted] + 1] = sketches.count[counted] - 2
    head = after[begin] - size[begin]
    flags = _IN_BINS * binned + _LAST_MORE * last_more
    flags += _NO_FIRST * no_first + _FIRST_MORE * first_more
    numbers[head] = np.where(no_last, _FLAGS + flags, np.where(binned, _BINS, _VALUES))
    numbers[head[first_more] + 1] = sketches.count[begin[first_more]] - 2
    numbers[after[end[last_more]] - 1] = sketches.count[end[last_more]] - 2
    held = np.zeros(sketches.size, np.int64)
    held[known] = after[end] - head
    return numbers, held


def _numbered(value: Int64, binned: Bools) -> Int64:
    """Values as the numbers of their bins where `binned`; -1 stays -1."""
    number = value.copy()
    chosen = binned & (value >= 0)
    number[chosen] = bin_numbers(bins(value[chosen]))
    return number


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
