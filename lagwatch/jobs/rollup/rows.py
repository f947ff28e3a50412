"""Reads what a unit needs from whichever store keeps it, and rolls it up."""

from collections.abc import Iterator
from typing import Final

from lagwatch.core.record import Kind, Records, concat, from_rows
from lagwatch.core.rollup import (
    EVENT_COLUMNS,
    ROUND_COLUMNS,
    SAMPLE_COLUMNS,
    Raw,
    Span,
    merge,
    roll_up,
)
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.elastic import elastic
from lagwatch.jobs.rollup.units import Unit
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports import HistoryRange

FINER: Final = {Kind.ROLLUP_1H: Kind.ROLLUP_5M, Kind.ROLLUP_1D: Kind.ROLLUP_1H}
"""What a roll-up is made of, where that is not the samples."""


class Roller:
    """Rolls up units of one store, each in one go."""

    def __init__(self, ref: StoreRef, kind: Kind) -> None:
        history = ref.settings
        self._kind = kind
        self._interval_ms = round(history.interval_s * 1000)
        self._back_ms = back_ms(self._interval_ms, round(history.full_s * 1000))
        self._store = ref.open()
        self._told: set[str] = set()

    def roll(self, unit: Unit) -> Records:
        """The rows of a unit, sorted by key."""
        if self._kind in FINER:
            rows = self._read(FINER[self._kind], unit, unit.from_ms, ())
            return merge(rows, self._kind)
        back = unit.from_ms - self._back_ms
        raw = Raw(
            samples=self._read(Kind.SAMPLES, unit, back, SAMPLE_COLUMNS),
            rounds=self._read(Kind.GROUP_SAMPLES, unit, back, ROUND_COLUMNS),
            events=self._read(Kind.EVENTS, unit, unit.from_ms, EVENT_COLUMNS),
        )
        span = Span(kind=self._kind, from_ms=unit.from_ms, to_ms=unit.to_ms)
        return roll_up(raw, span, cluster=unit.cluster, interval_ms=self._interval_ms)

    def problems(self) -> Iterator[str]:
        """Files that could not be used, told once each."""
        if isinstance(self._store, ParquetStore):
            for file, problem in sorted(self._store.passed_over.items()):
                if file not in self._told:
                    self._told.add(file)
                    yield problem

    def close(self) -> None:
        self._store.close()

    def _read(self, kind: Kind, unit: Unit, from_ms: int, columns: tuple[str, ...]) -> Records:
        wanted = HistoryRange(
            kind=kind, cluster=unit.cluster, from_ms=from_ms, to_ms=unit.to_ms, columns=columns
        )
        parts = list(self._parts(wanted, unit))
        rows = concat(parts) if parts else from_rows(kind, (), columns or None)
        return rows.select(columns) if columns else rows

    def _parts(self, wanted: HistoryRange, unit: Unit) -> Iterator[Records]:
        store = self._store
        if not isinstance(store, ParquetStore):
            yield from elastic(store).read_groups(wanted, unit.low, unit.high)
            return
        for slot in sorted(store.slots(wanted, unit.cluster)):
            found = store.read_groups(slot, wanted, unit.low, unit.high)
            if found is not None:
                yield found


def back_ms(interval_ms: int, full_ms: int) -> int:
    """How long before a bucket rows may begin to matter to it: two turns of whole rounds."""
    return 2 * full_ms + 2 * interval_ms
