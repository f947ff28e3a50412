"""Sets of instants as sorted ranges that do not touch: from the first, to before the second."""

from collections.abc import Iterable, Sequence

Range = tuple[int, int]
Ranges = tuple[Range, ...]


def union(ranges: Iterable[Range]) -> Ranges:
    """Every instant that is in one of them."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return tuple(found)


def common(ranges: Sequence[Range], others: Sequence[Range]) -> Ranges:
    """Every instant that is in both; both as `union` gives them."""
    found = []
    place = 0
    for begin, end in ranges:
        while place < len(others) and others[place][1] <= begin:
            place += 1
        at = place
        while at < len(others) and others[at][0] < end:
            found.append((max(begin, others[at][0]), min(end, others[at][1])))
            at += 1
    return union(found)


def widened(ranges: Iterable[Range], step: int) -> Ranges:
    """The same made of whole buckets of a length."""
    return union((begin - begin % step, -(-end // step) * step) for begin, end in ranges)


def contains(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Is all from `begin` to before `end` in one of them?"""
    return any(first <= begin and end <= last for first, last in ranges)
