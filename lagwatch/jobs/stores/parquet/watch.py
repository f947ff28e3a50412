"""Finds new rows and files to compact in a store, and divides rows into tasks.

A mark has the names of the raw files that were there, by slot. An unknown file re-opens the time of
its rows; one that takes the place of others (compaction) only that of the unknown among them. As
`made` it has the names of the files of roll-ups: one that is gone and was not merged into another
re-opens its day.
"""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lagwatch.core.record import KINDS, RAW, Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.layout import Slot, day_of, is_data, slot_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.parquet_file import Footer
from lagwatch.jobs.stores.base import Mark, RawRows, Weighed
from lagwatch.jobs.units import Range, union
from lagwatch.ports.history import HistoryRange

_MANY_FILES: Final = 32
"""A slot that is still growing is compacted when it has this many small files."""
_SMALL_BYTES: Final = 16_000_000
_LEAST_ROWS: Final = 50_000
"""Fewer are not shared out: a task costs more."""

_Sized = tuple[int, int, int]
"""Begin, end, and rows of the files."""


def look(store: ParquetStore, cluster: str, mark: Mark) -> RawRows:
    """As `Rollups.look`."""
    known: Mapping[str, Sequence[str]] = mark.get("files", {})
    files: dict[str, list[str]] = {}
    held: list[Range] = []
    changed: list[Range] = []
    for kind in RAW:
        for slot, listed in store.stored_slots(kind, cluster).items():
            before = frozenset(known.get(slot.path, ()))
            now: set[str] = set()
            for footer in store.footers(slot, listed):
                now |= {footer.file.name, *footer.replaces}
                if kind is not Kind.EVENTS:
                    held.append((slot.from_ms, slot.to_ms))
                changed += _news(footer, slot, before)
            files[slot.path] = sorted(now)
    lost = tuple(_lost(store, cluster, mark.get("made", {})))
    return RawRows(held=union(held), changed=union(changed), lost=lost, mark={"files": files})


def made(store: ParquetStore, cluster: str) -> Mark:
    """As `Rollups.made`."""
    days = {day for kind in RAW for day in store.days(kind, cluster)}
    return {
        slot.path: [file.name for file in files if is_data(file.name)]
        for kind in ROLLUP_STEP_MS
        for slot, files in store.stored_slots(kind, cluster).items()
        if day_of(slot.from_ms) in days
    }


def _lost(
    store: ParquetStore, cluster: str, before: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Kind, Range]]:
    if not before:
        return
    there = {
        slot.path: files
        for kind in ROLLUP_STEP_MS
        for slot, files in store.stored_slots(kind, cluster).items()
    }
    for path, names in before.items():
        files = there.get(path, [])
        gone = set(names).difference(file.name for file in files)
        slot = slot_of(path)
        if not gone or slot is None:
            continue
        for footer in store.footers(slot, files):
            gone -= footer.replaces
        if gone:
            yield slot.kind, (slot.from_ms, slot.to_ms)


def _news(footer: Footer, slot: Slot, before: frozenset[str]) -> list[Range]:
    """The time of the rows of a file that were not in known files."""
    if footer.file.name in before:
        return []
    unknown = footer.replaces - before
    if not footer.replaces or not unknown <= footer.replaced_ms.keys():
        return [_range(footer.first_ms, footer.last_ms, slot)]
    times = [footer.replaced_ms[name] for name in unknown]
    return [
        (max(between[0], slot.from_ms), min(between[1] + 1, slot.to_ms))
        for between in times
        if between is not None
    ]


def _range(first_ms: int | None, last_ms: int | None, slot: Slot) -> Range:
    if first_ms is None or last_ms is None:
        return slot.from_ms, slot.to_ms
    return first_ms, last_ms + 1


def crowded(store: ParquetStore, clusters: Sequence[str], before_ms: int) -> Sequence[Slot]:
    """Slots with small files to merge: those that ended by `before_ms`, or have very many."""
    return [slot for cluster in clusters for slot in _crowded(store, cluster, before_ms)]


def _crowded(store: ParquetStore, cluster: str, before_ms: int) -> Iterator[Slot]:
    for kind in KINDS:
        for slot, files in store.stored_slots(kind, cluster).items():
            small = [
                file for file in files if is_data(file.name) and file.size_bytes < _SMALL_BYTES
            ]
            if len(small) > 1 and (slot.to_ms <= before_ms or len(small) >= _MANY_FILES):
                store.footers(slot, small)  # one that cannot be used is never merged
                if len({file.path for file in small} - store.passed_over.keys()) > 1:
                    yield slot


def weigh(
    store: ParquetStore,
    kind: Kind,
    cluster: str,
    pieces: Sequence[Range],
    *,
    step_ms: int,
    most: int,
) -> Iterator[Weighed]:
    """As `Rollups.weigh`."""
    sized = [part for piece in pieces for part in _apart(store, kind, cluster, piece, step_ms)]
    # a day of few groups has few rows: two tasks of a full size would keep one core waiting
    even = -(-sum(rows for *_, rows in sized) // (os.cpu_count() or 1))
    yield from _bundles(store, kind, cluster, sized, min(most, max(even, _LEAST_ROWS)))


def _apart(
    store: ParquetStore, kind: Kind, cluster: str, piece: Range, step: int
) -> Iterator[_Sized]:
    """A range, cut at steps that no file spans, with the rows of the files of each part.

    So no file is read by two tasks, unless it alone has too many rows for one.
    """
    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=piece[0], to_ms=piece[1])
    files = [
        (*footer.between_ms, footer.rows)
        for slot in store.slots(wanted, cluster)
        for footer in store.footers(slot)
        if footer.wanted_groups(wanted, None, None)
    ]
    begin, end = piece
    borders = [
        border
        for border in range(begin + step, end, step)
        if not any(first < border <= last for first, last, _ in files)
    ]
    for first_ms, until_ms in itertools.pairwise([begin, *borders, end]):
        yield (
            first_ms,
            until_ms,
            sum(rows for first, last, rows in files if first < until_ms and first_ms <= last),
        )


def _bundles(
    store: ParquetStore,
    kind: Kind,
    cluster: str,
    sized: Sequence[_Sized],
    most: int,
) -> Iterator[Weighed]:
    """Join consecutive pieces as long as they have few rows."""
    begun: Range | None = None
    held = 0
    for first, last, rows in sized:
        if begun is not None and begun[1] == first and held + rows <= most:
            begun = (begun[0], last)
            held += rows
            continue
        if begun is not None:
            yield _of_bundle(store, kind, cluster, begun, weigh=held > most)
        begun, held = (first, last), rows
    if begun is not None:
        yield _of_bundle(store, kind, cluster, begun, weigh=held > most)


def _of_bundle(
    store: ParquetStore, kind: Kind, cluster: str, piece: Range, *, weigh: bool
) -> Weighed:
    """A bundle, with rows per group if it has too many rows for one task."""
    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=piece[0], to_ms=piece[1])
    slots = store.slots(wanted, cluster) if weigh else []
    return *piece, [of_group for slot in slots for of_group in store.rows_by_group(slot, wanted)]
