"""What one task rolls up: some buckets of one cluster, of all its groups or of some."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Buckets from one begin to another, of groups with `low <= name < high`."""

    cluster: str
    from_ms: int
    to_ms: int
    low: str | None = None
    """None: no limit."""
    high: str | None = None


def units_of(batch: Any) -> Iterator[Unit]:  # noqa: ANN401 a pyarrow.RecordBatch
    """The inverse, of one batch."""
    for row in batch.to_pylist():
        yield Unit(**row)


Range = tuple[int, int]
Ranges = tuple[Range, ...]


def union(ranges: Iterable[Range]) -> Ranges:
    """The union of ranges: sorted, without overlaps."""
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
    """The intersection of two results of `union`."""
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
    """True if one of the ranges covers `begin` <= instant < `end`."""
    return any(first <= begin and end <= last for first, last in ranges)
