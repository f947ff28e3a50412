"""The Parquet store: history in a folder that Spark, DuckDB and pandas read directly."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from lagwatch.core.record import KINDS, Kind, Records
from lagwatch.history.buckets import aggregate, lag_column
from lagwatch.history.compact import compact, compact_slot
from lagwatch.history.layout import (
    DAY_MS,
    Slot,
    cluster_path,
    day_of,
    day_start_ms,
    slot_of,
)
from lagwatch.history.parquet_slots import ParquetSlots
from lagwatch.history.top import last_of_each, ranked
from lagwatch.history.verify import verify
from lagwatch.ports.history import (
    EVER_MS,
    Buckets,
    Compacted,
    HistoryRange,
    ReportProgress,
    StoredKind,
    TopBy,
    Verification,
)

_SETTLED_MS: Final = 300_000
"""Compaction waits this long after the end of an hour for late rows."""
_TIDY_BACK_MS: Final = 8 * DAY_MS
_MANY_FILES: Final = 64


class ParquetStore(ParquetSlots):
    """A `HistoryStore` over a folder or file system; it takes every row."""

    rejected_rows = 0

    @property
    def set_aside(self) -> Sequence[str]:
        return sorted(self.passed_over.values())

    def damaged(self, kind: Kind, cluster: str) -> Sequence[tuple[int, int]]:
        # the rows of a file that cannot be read may be anywhere in its slot
        found = {slot for file in self.passed_over if (slot := slot_of(file)) is not None}
        return sorted(
            (slot.from_ms, slot.to_ms)
            for slot in found
            if slot.kind is kind and slot.cluster == cluster
        )

    def write(self, records: Sequence[Records], *, batch: str) -> None:
        for part in records:
            for slot, rows in split(part):
                self.publish(slot, rows, batch=batch)

    def read(self, wanted: HistoryRange) -> Iterator[Records]:
        clusters = self.clusters_of(wanted.kind) if wanted.cluster is None else (wanted.cluster,)
        found = [slot for cluster in clusters for slot in self.slots(wanted, cluster)]
        for slot in sorted(found, key=lambda slot: (slot.from_ms, slot.cluster)):
            yield from self.read_slot(slot, wanted)

    def read_groups(
        self, wanted: HistoryRange, low: str | None, high: str | None
    ) -> Iterator[Records]:
        for slot in sorted(self.slots(wanted, wanted.cluster or "")):
            yield from self.read_slot_groups(slot, wanted, low, high)

    def aggregate(self, wanted: HistoryRange, step_ms: int) -> Buckets:
        columns = (lag_column(wanted.kind), "time_lag_s", "status", "reason")
        return aggregate(self.read(replace(wanted, columns=columns)), wanted.kind, step_ms)

    def top(
        self, at_ms: int, *, within_ms: int, by: TopBy, limit: int, cluster: str | None = None
    ) -> Records:
        wanted = HistoryRange(
            kind=Kind.GROUP_SAMPLES,
            from_ms=at_ms - within_ms + 1,
            to_ms=at_ms + 1,
            cluster=cluster,
        )
        return ranked(last_of_each(self.read(wanted)), by=by, limit=limit)

    def tidy(self, now_ms: int) -> None:
        """Compact recent hours and days that have ended, or that are in many small files."""
        self.forget_removed()
        recent = [
            (slot, files)
            for kind in KINDS
            for cluster in self.clusters_of(kind)
            for slot, files in self.stored_slots(kind, cluster).items()
            if slot.to_ms > now_ms - _TIDY_BACK_MS and len(files) > 1
        ]
        for slot, files in recent:
            if slot.to_ms <= now_ms - _SETTLED_MS or len(files) >= _MANY_FILES:
                compact_slot(self, slot)

    def compact(self, progress: ReportProgress | None = None) -> Compacted:
        return compact(self, before_ms=EVER_MS, progress=progress)

    def clusters(self) -> tuple[str, ...]:
        return tuple(sorted({name for kind in KINDS for name in self.clusters_of(kind)}))

    def has(self, kind: Kind) -> bool:
        return any(self.days(kind, cluster) for cluster in self.clusters_of(kind))

    def stats(self) -> tuple[StoredKind, ...]:
        return tuple(
            stored
            for cluster in self.clusters()
            for kind in KINDS
            if (stored := self._stored(kind, cluster)) is not None
        )

    def _stored(self, kind: Kind, cluster: str) -> StoredKind | None:
        footers = [
            footer
            for slot, files in self.stored_slots(kind, cluster).items()
            for footer in self.footers(slot, files)
        ]
        if not footers:
            return None
        firsts = [footer.first_ms for footer in footers if footer.first_ms is not None]
        lasts = [footer.last_ms for footer in footers if footer.last_ms is not None]
        return StoredKind(
            kind=kind,
            cluster=cluster,
            rows=sum(footer.rows for footer in footers),
            size_bytes=sum(footer.file.size_bytes for footer in footers),
            parts=len(footers),
            first_ms=min(firsts, default=None),
            last_ms=max(lasts, default=None),
        )

    def verify(self, progress: ReportProgress | None = None) -> Verification:
        return verify(self, progress)

    def delete_before(self, kind: Kind, day: str) -> int:
        day_start_ms(day)
        rows = 0
        for cluster in self.clusters_of(kind):
            stored = self.stored_slots(kind, cluster)
            for old in [earlier for earlier in self.days(kind, cluster) if earlier < day]:
                rows += sum(
                    footer.rows
                    for slot, files in stored.items()
                    if day_of(slot.from_ms) == old
                    for footer in self.footers(slot, files)
                )
                self.folder.delete_folder(f"{cluster_path(kind, cluster)}/day={old}")
        return rows


def split(records: Records) -> Iterator[tuple[Slot, Records]]:
    """Rows by the slot they belong to."""
    if records.size == 0:
        return
    cluster = records.text("cluster")
    for code in np.unique(cluster.codes).tolist():
        of_cluster = _where(records, cluster.codes == code)
        at_ms = of_cluster.at_ms()
        width = Slot.at(records.kind, "", 0).to_ms
        number = at_ms // width
        for slot_number in np.unique(number).tolist():
            slot = Slot(kind=records.kind, cluster=cluster.words[code], from_ms=slot_number * width)
            yield slot, _where(of_cluster, number == slot_number)


def _where(records: Records, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Records:
    return records if bool(mask.all()) else records.take(mask)
