"""Reads what a unit needs from whichever store keeps it, and rolls it up."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T

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
from lagwatch.history.rows import of_groups, parts_of, rows_by_group, sort_unique
from lagwatch.jobs.rollup.elastic import elastic
from lagwatch.jobs.rollup.units import Unit, units_of
from lagwatch.jobs.schemas import struct_type, to_batches
from lagwatch.jobs.sources.options import batch_of
from lagwatch.jobs.sources.sink import Sink, write_records
from lagwatch.jobs.tables import WRITTEN_TYPE, StoreRef
from lagwatch.ports.history import HistoryRange

FINER: Final = {Kind.ROLLUP_1H: Kind.ROLLUP_5M, Kind.ROLLUP_1D: Kind.ROLLUP_1H}
"""What a roll-up is made of, where that is not the samples."""
SAMPLES_AT_ONCE: Final = 130_000
ROLLUPS_AT_ONCE: Final = 30_000
"""Rows of some groups that are rolled up in one go: memory that a process uses for the first time
costs it more than the computing in it."""


class Roller:
    """Rolls up units of one store, each in one go."""

    def __init__(
        self,
        ref: StoreRef,
        kind: Kind,
        *,
        samples_at_once: int = SAMPLES_AT_ONCE,
        rollups_at_once: int = ROLLUPS_AT_ONCE,
    ) -> None:
        history = ref.settings
        self._kind = kind
        self._samples_at_once = samples_at_once
        self._rollups_at_once = rollups_at_once
        self._interval_ms = round(history.interval_s * 1000)
        self._back_ms = back_ms(self._interval_ms, round(history.full_s * 1000))
        self._store = ref.open()

    def roll(self, unit: Unit) -> Records:
        """The rows of a unit, sorted by key."""
        rows, _ = sort_unique(concat(list(self._parts_of(unit))))
        return rows

    def _parts_of(self, unit: Unit) -> Iterator[Records]:
        """The same, some groups at a time."""
        if self._kind in FINER:
            rows = self._read(FINER[self._kind], unit, unit.from_ms, ())
            for low, high in parts_of(rows_by_group(rows), self._rollups_at_once):
                yield merge(of_groups(rows, low, high), self._kind)
            return
        back = unit.from_ms - self._back_ms
        samples = self._read(Kind.SAMPLES, unit, back, SAMPLE_COLUMNS)
        rounds = self._read(Kind.GROUP_SAMPLES, unit, back, ROUND_COLUMNS)
        events = self._read(Kind.EVENTS, unit, unit.from_ms, EVENT_COLUMNS)
        span = Span(kind=self._kind, from_ms=unit.from_ms, to_ms=unit.to_ms)
        for low, high in parts_of(rows_by_group(samples), self._samples_at_once):
            raw = Raw(
                samples=of_groups(samples, low, high),
                rounds=of_groups(rounds, low, high),
                events=of_groups(events, low, high),
            )
            yield roll_up(raw, span, cluster=unit.cluster, interval_ms=self._interval_ms)

    def problems(self) -> list[str]:
        """Files that could not be used."""
        store = self._store
        return sorted(store.passed_over.values()) if isinstance(store, ParquetStore) else []

    def close(self) -> None:
        self._store.close()

    def _read(self, kind: Kind, unit: Unit, from_ms: int, columns: tuple[str, ...]) -> Records:
        wanted = HistoryRange(
            kind=kind, cluster=unit.cluster, from_ms=from_ms, to_ms=unit.to_ms, columns=columns
        )
        parts = list(self._slots(wanted, unit))
        rows = concat(parts) if parts else from_rows(kind, (), columns or None)
        return rows.select(columns) if columns else rows

    def _slots(self, wanted: HistoryRange, unit: Unit) -> Iterator[Records]:
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


Transform = Callable[[DataFrame], DataFrame]
MakeRows = Callable[[Iterator[Any], list[str]], Iterator[Records]]
"""From Arrow batches that say what is to be done to rows; what had to be set aside is added."""

TOLD_TYPE: Final = T.StructType(
    [*WRITTEN_TYPE.fields, T.StructField("problems", T.ArrayType(T.StringType()))]
)
"""What became of rows, and what was set aside while they were made."""


def rolled_up(ref: StoreRef, kind: Kind) -> MakeRows:
    """Units to a kind of roll-up, sorted by key within each unit.

    Tasks read the finer rows themselves, as columns: to hand every sample through Spark's rows
    takes several times as long as all the rest.
    """

    def make(batches: Iterator[Any], problems: list[str]) -> Iterator[Records]:
        roller = Roller(ref, kind)
        try:
            for batch in batches:
                for unit in units_of(batch):
                    yield roller.roll(unit)
            problems += roller.problems()
        finally:
            roller.close()

    return make


def as_rows(make: MakeRows, source: T.StructType, kind: Kind) -> Transform:
    """What is to be done (`source`) to the rows of a kind that are made of it."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in make(batches, []):
            yield from to_batches(rows)

    def transform(frame: DataFrame) -> DataFrame:
        target = struct_type(kind)
        return frame.select(*source.names).mapInArrow(task, target).select(*target.names)

    return transform


def as_files(make: MakeRows, source: T.StructType, sink: Sink) -> Transform:
    """What is to be done to what became of the rows: each task writes what it made.

    Rows of a roll-up have sketches in them: on the way through Spark they cost more than being
    made.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        problems: list[str] = []
        written = asdict(write_records(sink, make(batches, problems)))
        columns = {name: [value] for name, value in written.items()}
        yield batch_of(TOLD_TYPE, {**columns, "problems": [problems]})

    def transform(frame: DataFrame) -> DataFrame:
        told = frame.select(*source.names).mapInArrow(task, TOLD_TYPE)
        return told.select(*TOLD_TYPE.names)

    return transform
