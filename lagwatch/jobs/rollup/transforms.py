"""DataFrame → DataFrame: from what is to be done to rows, or to what became of them."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from lagwatch.core.record import Kind, Records
from lagwatch.jobs.rollup.rows import Roller
from lagwatch.jobs.rollup.units import units_of
from lagwatch.jobs.schemas import struct_type, to_batches
from lagwatch.jobs.sources.arrow import batch_of
from lagwatch.jobs.sources.sink import Sink, write_records
from lagwatch.jobs.tables import WRITTEN_TYPE, StoreRef

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
