"""Sorts rows by key, removes duplicates, and selects rows."""

import itertools
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import SOURCE_RANK, Records, Text, Values, concat, is_word
from lagwatch.ports.history import HistoryRange

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

GroupRange = tuple[str | None, str | None]
"""`low <= name < high`; None is no limit."""

_WIDEST: Final = 2**62
_FEW_WORDS: Final = 64
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def sort_unique(records: Records) -> tuple[Records, int]:
    """Rows sorted by key, without duplicates, and the number of duplicates.

    Of equal keys the row of the better source stays, then the first of them.
    """
    if records.size == 0:
        return records, 0
    keys = [_sortable(records.columns[name]) for name in records.kind.key]
    order = _order([*keys, source_rank(records)])
    repeated = np.ones(records.size, np.bool_)
    repeated[0] = False
    for key in keys:
        ordered = key[order]
        repeated[1:] &= ordered[1:] == ordered[:-1]
    left_out = int(np.count_nonzero(repeated))
    if left_out:
        order = order[~repeated]
    elif bool(np.all(order[1:] > order[:-1])):
        return records, 0
    return records.take(order), left_out


def source_rank(records: Records) -> Int64:
    """Rank of each row's source among rows with the same key; the lowest is kept."""
    source = records.text("source")
    worst = max(SOURCE_RANK.values()) + 1
    table = np.array([*(SOURCE_RANK.get(word, worst) for word in source.words), worst], np.int64)
    return table[source.codes]


def _sortable(values: Values) -> Int64:
    return values.ranks() if isinstance(values, Text) else values.astype(np.int64, copy=False)


def _order(keys: Sequence[Int64]) -> NDArray[np.intp]:
    """Stable order by the first key, then the second, and so on.

    Keys are small once their least value is taken off, so all of them together mostly fit one
    number; sorting that is several times faster than `lexsort`, and rows are nearly sorted.
    """
    if keys[0].size == 0:
        return np.zeros(0, np.intp)
    packed = np.zeros(keys[0].size, np.int64)
    room = _WIDEST
    for key in keys:
        least, most = int(key.min()), int(key.max())
        width = most - least + 1
        room //= width
        if room == 0:
            return np.lexsort(tuple(reversed(keys)))
        packed = packed * width + (key - least)
    return np.argsort(packed, kind="stable")


def matching(records: Records, wanted: HistoryRange) -> Records:
    """The wanted rows; names left out match all."""
    at_ms = records.at_ms()
    mask: Bools = (at_ms >= wanted.from_ms) & (at_ms < wanted.to_ms)
    for name, value in wanted.names.items():
        mask &= (
            is_word(records.text(name), value)
            if isinstance(value, str)
            else records.numbers(name) == value
        )
    return records if bool(mask.all()) else records.take(mask)


def between(text: Text, low: str | None, high: str | None) -> Bools:
    """Mask of the rows with `low <= word < high`. Unknown sorts before every word."""
    within = [(low is None or word >= low) and (high is None or word < high) for word in text.words]
    return np.array([*within, low is None], np.bool_)[text.codes]


def of_groups(rows: Records, low: str | None, high: str | None) -> Records:
    """The rows of groups with `low <= name < high`."""
    if low is None and high is None:
        return rows
    return rows.take(between(rows.text("group"), low, high))


def by_ranges(
    parts: Iterable[Records], ranges: Sequence[GroupRange]
) -> Iterator[tuple[Records, ...]]:
    """For each of `ranges`, which follow one another and cover all names, its rows of each part.

    Rows that are in the order of their groups, as those of most files, are not copied.
    """
    return zip(*(_split(rows, ranges) for rows in parts), strict=True)


def _split(rows: Records, ranges: Sequence[GroupRange]) -> list[Records]:
    if len(ranges) == 1:
        return [rows]
    name = rows.text("group")
    lows = [low for low, _ in ranges[1:] if low is not None]
    place = np.array([*(bisect_right(lows, word) for word in name.words), 0], np.int32)[name.codes]
    if bool((place[1:] >= place[:-1]).all()):
        borders = np.searchsorted(place, np.arange(len(ranges) + 1)).tolist()
        found = [rows.take(slice(*ends)) for ends in itertools.pairwise(borders)]
    else:
        found = [rows.take(place == number) for number in range(len(ranges))]
    return [_narrowed(some) for some in found]


def _narrowed(rows: Records) -> Records:
    """Without the words of other rows: joining dictionaries takes longer than joining codes."""
    return replace(
        rows,
        columns={
            name: values.narrowed()
            if isinstance(values, Text) and len(values.words) > _FEW_WORDS
            else values
            for name, values in rows.columns.items()
        },
    )


def rows_by_group(rows: Records) -> Iterator[tuple[str, int]]:
    """Names of groups and how many of the rows are theirs."""
    name = rows.text("group")
    counts = np.bincount(name.codes[name.codes >= 0], minlength=len(name.words))
    return zip(name.words, counts.tolist(), strict=True)


def parts_of(group_rows: Iterable[tuple[str, int]], most: int) -> list[GroupRange]:
    """Ranges of groups of about equal size, about `most` rows at most; they cover all names.

    `group_rows` says how many rows are of which group, or from it to the next name; the same name
    may come several times.
    """
    sizes: Counter[str] = Counter()
    for name, rows in group_rows:
        sizes[name] += rows
    total = max(sizes.total(), 1)
    parts = -(-total // most)
    borders: list[str] = []
    before = part = 0
    for name in sorted(sizes):
        # the part that holds the middle of its rows; a group without rows may come after all
        number = min((2 * before + sizes[name]) * parts // (2 * total), parts - 1)
        if before and number > part:
            borders.append(name)
        part = number
        before += sizes[name]
    return list(zip([None, *borders], [*borders, None], strict=True))


def in_time_order(records: Records) -> Records:
    """Rows by instant, then by key."""
    names = [records.kind.time_column, *records.kind.key[:-1]]
    return records.take(_order([_sortable(records.columns[name]) for name in names]))


def gathered(parts: Iterable[Records], rows: int) -> Iterator[Records]:
    """Parts of one kind, joined up to this many rows; empty ones are left out."""
    held: list[Records] = []
    size = 0
    for part in parts:
        if part.size == 0:
            continue
        held.append(part)
        size += part.size
        if size >= rows:
            yield concat(held)
            held, size = [], 0
    if held:
        yield concat(held)


def digest(records: Records) -> str:
    """Digest of the rows' keys, independent of their order: the same rows get the same name."""
    keys = np.sort(key_hashes(records))
    return blake2b(keys.tobytes(), digest_size=8).hexdigest()


def key_hashes(records: Records) -> NDArray[np.uint64]:
    """64 bits for the key of every row, to count equal ones without holding the keys."""
    total = np.zeros(records.size, np.uint64)
    for name in records.kind.key:
        total = _mixed(total * _ODD + _hashes(records.columns[name]))
    return total


def _hashes(values: Values) -> NDArray[np.uint64]:
    if not isinstance(values, Text):
        return _mixed(values.astype(np.int64).view(np.uint64))
    digests = (
        blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for word in values.words
    )
    table = np.array([*(int.from_bytes(digest) for digest in digests), 0], np.uint64)
    return table[values.codes]


def _mixed(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Every bit of the value spread over all (the finaliser of MurmurHash3)."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = (value ^ (value >> np.uint64(33))) * np.uint64(factor)
    return value ^ (value >> np.uint64(33))
