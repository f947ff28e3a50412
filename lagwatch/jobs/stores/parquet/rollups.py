"""Writes roll-ups into Parquet files, in place of earlier ones.

Old files with rows of the same buckets are replaced by new files, which also take over their rows
of other buckets; then the old files are deleted. As long as both are there, and if somebody
compacts them at that moment, the newer row counts: of rows with the same key the one of the first
file by name stays, and newer files come first. A run that is killed leaves its intent, and the next
one does it again.

Names are made of the token of the run's lock. So a run that lost its lock and publishes a file in
the instant after it was checked (no file system offers both in one step) replaces no row either:
the files of the run that has the lock come before its own.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import replace as replaced
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, Records, schema
from lagwatch.history.compact import compact_slot
from lagwatch.history.layout import Slot, slots
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.parquet_file import Footer, read_rows
from lagwatch.jobs.fence import Fence
from lagwatch.jobs.sources.options import batch_of
from lagwatch.jobs.sources.sink import Sink
from lagwatch.jobs.stores.base import Made, MakeRows, Making
from lagwatch.jobs.stores.making import as_outcomes, summed
from lagwatch.jobs.unit_frames import UNIT_TYPE, spread
from lagwatch.jobs.units import Ranges, contains
from lagwatch.ports.history import Compacted

_MADE: Final = "made"
"""Column: True if the rows were made, False if only moved from one file to another."""
_LAST_MS: Final = 2**46
"""Far away."""
FILE_TYPE: Final = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("from_ms", T.LongType()),
        T.StructField("name", T.StringType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFile:
    """A file with rows of buckets that are replaced."""

    slot: Slot
    footer: Footer
    whole: bool
    """True if it holds no rows of other buckets."""


def batch_name(token: int) -> str:
    """A name for the files of one run: before those of earlier runs, and no other run's."""
    return f"rollup-{_LAST_MS - token:012x}-{secrets.token_hex(4)}"


def old_files(store: ParquetStore, kind: Kind, ranges: Mapping[str, Ranges]) -> list[OldFile]:
    """The files that hold rows of these buckets, by cluster."""
    return [
        OldFile(slot=slot, footer=footer, whole=_is_within(footer, wanted))
        for cluster, wanted in ranges.items()
        for slot in dict.fromkeys(
            slot for first, last in wanted for slot in slots(kind, cluster, first, last)
        )
        for footer in store.footers(slot)
        if _touches(footer, wanted)
    ]


def delete(store: ParquetStore, files: Sequence[OldFile], fence: Fence | None) -> None:
    """Remove files whose rows are elsewhere now.

    Raises:
        HistoryError: the store refused.
        JobError: `fenced`: another run has the lock by now.
    """
    for file in files:
        if fence is not None:
            fence.check()
        # files merged into it, which a killed compaction did not delete, would be read again
        for name in (*sorted(file.footer.replaces), file.footer.file.name):
            store.folder.delete(f"{file.slot.path}/{name}")


def _touches(footer: Footer, ranges: Ranges) -> bool:
    first, last = footer.between_ms
    return any(begin <= last and first < end for begin, end in ranges)


def _is_within(footer: Footer, ranges: Ranges) -> bool:
    first, last = footer.between_ms
    return contains(ranges, first, last + 1)


def old_frame(spark: SparkSession, files: Sequence[OldFile]) -> DataFrame:
    """One row for each file that also holds rows of other buckets."""
    rows = [
        (file.slot.cluster, file.slot.from_ms, file.footer.file.name)
        for file in files
        if not file.whole
    ]
    return spread(spark, rows, FILE_TYPE)


def other_rows(where: str, kind: Kind, ranges: Mapping[str, Ranges]) -> MakeRows:
    """Old files to those rows of them that are not in these buckets."""

    def make(batches: Iterator[Any], _problems: list[str]) -> Iterator[Records]:
        store = ParquetStore(where)
        for batch in batches:
            for row in batch.to_pylist():
                slot = Slot(kind=kind, cluster=row["cluster"], from_ms=row["from_ms"])
                yield _other_rows(store, slot, row["name"], ranges[slot.cluster])
        store.close()

    return make


def _other_rows(store: ParquetStore, slot: Slot, name: str, ranges: Ranges) -> Records:
    footer = next(held for held in store.footers(slot) if held.file.name == name)
    every = range(len(footer.groups))
    rows = read_rows(store.folder, footer, slot, every, tuple(schema(slot.kind)))
    at_ms = rows.at_ms()
    again = np.zeros(rows.size, np.bool_)
    for begin, end in ranges:
        again |= (at_ms >= begin) & (at_ms < end)
    return rows.take(~again)


def replace(spark: SparkSession, history: HistorySettings, making: Making) -> Made:
    """Write roll-ups into new files, and delete those with rows of the same buckets.

    Raises:
        HistoryError: a file could not be deleted.
        JobError: `fenced`: another run has the lock by now.
        PySparkException: a store refused, or was away for long.
    """
    kind, ranges, fence = making.kind, making.ranges, making.fence
    batch = batch_name(making.now_ms if fence is None else fence.token)
    sink = Sink(settings=history, kind=kind, batch=batch, fence=fence)
    where = history.url.get_secret_value()
    store = ParquetStore(where)
    try:
        old = old_files(store, kind, ranges)
        outcomes = making.units.transform(as_outcomes(making.make, UNIT_TYPE, sink))
        outcomes = outcomes.withColumn(_MADE, F.lit(True))  # noqa: FBT003 Spark's own
        if not all(file.whole for file in old):
            others = other_rows(where, kind, ranges)
            left = old_frame(spark, old).transform(as_outcomes(others, FILE_TYPE, sink))
            outcomes = outcomes.unionByName(left.withColumn(_MADE, F.lit(False)))  # noqa: FBT003
        made = _collected(outcomes, sum(file.footer.rows for file in old))
        delete(store, old, fence)
    finally:
        store.close()
    return made


def _collected(outcomes: DataFrame, held: int) -> Made:
    """Sum of the tasks' results. Of the `held` old rows, those of other buckets were only moved."""
    rows = outcomes.collect()
    written, problems = summed(rows)
    moved = sum(row["rows"] for row in rows if not row[_MADE])
    return Made(
        written=replaced(written, rows=written.rows - moved),
        replaced=held - moved,
        problems=problems,
    )


_SLOT: Final = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("from_ms", T.LongType()),
    ]
)
_DONE: Final = T.StructType(
    [T.StructField(name, T.LongType()) for name in ("merged", "written", "rows")]
)


_COMPACTION_TASKS: Final = 16
"""At most so many: a task costs more than to put the files of a small slot together."""


def compact(spark: SparkSession, where: str, crowded: Sequence[Slot]) -> Compacted:
    """Make few files of many, slot by slot; each task does several slots.

    Raises:
        PySparkException: a file could not be written; nothing is lost.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        here = ParquetStore(where)
        for batch in batches:
            for row in batch.to_pylist():
                done = compact_slot(here, Slot(**{**row, "kind": Kind(row["kind"])}))
                yield batch_of(_DONE, {name: [value] for name, value in asdict(done).items()})
        here.close()

    rows = [(slot.kind.value, slot.cluster, slot.from_ms) for slot in crowded]
    dealt = spread(spark, rows, _SLOT, tasks=_COMPACTION_TASKS)
    outcomes = dealt.mapInArrow(task, _DONE).collect()
    return sum((Compacted(**row.asDict()) for row in outcomes), Compacted())
