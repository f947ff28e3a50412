"""Merges the many small files of an hour or day into few; each record is kept once.

Safe at any moment. The merged file names those it replaces in its footer and is published before
any of them is deleted; from then on readers skip them, and the next compaction deletes those that a
killed one left. Reading meanwhile sees every record once.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from lagwatch.core.record import Kind, concat, schema
from lagwatch.history.layout import Slot, is_data
from lagwatch.history.parquet_file import Footer
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.rows import sort_unique
from lagwatch.ports.history import Compacted, ReportProgress

TARGET_ROWS: Final = 500_000
"""No merged file grows much beyond this; one with more than half of it is left alone."""

_MOST_ROWS: Final = 2_000_000
"""At most this many rows are merged at once.

Otherwise doubled records stay, and readers skip them.
"""


_NOTHING: Final = Compacted()


def compact(
    store: ParquetSlots,
    *,
    before_ms: int,
    kinds: Sequence[Kind] = tuple(Kind),
    progress: ReportProgress | None = None,
) -> Compacted:
    """Compact every slot that ended before an instant.

    Raises:
        HistoryError: the store cannot be written; nothing is lost.
    """
    todo = [
        slot
        for kind in kinds
        for cluster in store.clusters_of(kind)
        for slot in store.stored_slots(kind, cluster)
        if slot.to_ms <= before_ms
    ]
    total = _NOTHING
    for done, slot in enumerate(todo):
        if progress is not None:
            progress(done, len(todo))
        total += compact_slot(store, slot)
    if progress is not None:
        progress(len(todo), len(todo))
    return total


def compact_slot(store: ParquetSlots, slot: Slot) -> Compacted:
    """Compact one slot; concurrent calls for the same slot are safe.

    Raises:
        HistoryError: the store cannot be written; nothing is lost.
    """
    files = [file for file in store.folder.files(slot.path) if is_data(file.name)]
    footers = store.footers(slot, files)
    kept = {footer.file.name for footer in footers}
    replaced = frozenset[str]().union(*(footer.replaces for footer in footers))
    for file in files:
        if file.name in replaced and file.name not in kept:
            store.folder.delete(file.path)
    total = _NOTHING
    for bundle in _bundles(footers):
        try:
            total += _merge(store, slot, bundle)
        except FileNotFoundError:
            continue  # another process has merged these
    return total


def _bundles(footers: Sequence[Footer]) -> Iterator[list[Footer]]:
    """Files to merge: those that may hold the same records, then small ones; two at least."""
    doubled = [bundle for bundle in _overlapping(footers) if len(bundle) > 1]
    taken = {footer.file.name for bundle in doubled for footer in bundle}
    yield from (bundle for bundle in doubled if sum(footer.rows for footer in bundle) <= _MOST_ROWS)
    bundle: list[Footer] = []
    rows = 0
    for footer in footers:
        if footer.rows > TARGET_ROWS // 2 or footer.file.name in taken:
            continue
        if rows + footer.rows > TARGET_ROWS and bundle:
            if len(bundle) > 1:
                yield bundle
            bundle, rows = [], 0
        bundle.append(footer)
        rows += footer.rows
    if len(bundle) > 1:
        yield bundle


def _overlapping(footers: Sequence[Footer]) -> Iterator[list[Footer]]:
    """Files put together whose times overlap."""
    bundle: list[Footer] = []
    last_ms = -1
    for first, footer in sorted(
        ((footer.first_ms or 0, footer) for footer in footers), key=lambda pair: pair[0]
    ):
        if bundle and first > last_ms:
            yield bundle
            bundle = []
        bundle.append(footer)
        last_ms = max(last_ms, footer.last_ms or 0)
    if bundle:
        yield bundle


def _merge(store: ParquetSlots, slot: Slot, footers: Sequence[Footer]) -> Compacted:
    columns = tuple(schema(slot.kind))
    # of doubled records the one stays that was written first
    ordered = sorted(footers, key=lambda footer: footer.file.path)
    found = [
        (footer, rows)
        for footer in ordered
        if (rows := store.rows_of(footer, slot, range(len(footer.groups)), columns)) is not None
    ]
    if len(found) < 2:  # noqa: PLR2004 a file alone stays as it is
        return _NOTHING
    ordered = [footer for footer, _ in found]
    unique, _ = sort_unique(concat([rows for _, rows in found]))
    names = [footer.file.name for footer in ordered]
    store.publish(slot, unique, batch=_batch(names), replaces=ordered)
    for footer in ordered:
        store.folder.delete(footer.file.path)
    return Compacted(merged=len(ordered), written=1, rows=unique.size)


def _batch(names: Sequence[str]) -> str:
    """A name that sorts where the first of the files sorts."""
    first = min(names).removeprefix("part-").partition(".")[0].partition("-merged-")[0]
    digest = blake2b("\n".join(sorted(names)).encode(), digest_size=6).hexdigest()
    return f"{first}-merged-{digest}"
