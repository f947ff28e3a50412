"""Transforms that make rows in Spark tasks and write them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import types as T

from lagwatch.jobs.schemas import struct_type
from lagwatch.jobs.sources.options import batch_of
from lagwatch.jobs.sources.sink import Sink, Written, write_batches, write_records
from lagwatch.jobs.stores.base import MakeRows

Transform = Callable[[DataFrame], DataFrame]

WRITTEN_TYPE: Final = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("rejected", T.LongType()),
        T.StructField("retries", T.LongType()),
        T.StructField("rejected_in", T.StringType()),
    ]
)
"""Columns of `Written`."""
OUTCOME_TYPE: Final = T.StructType(
    [*WRITTEN_TYPE.fields, T.StructField("problems", T.ArrayType(T.StringType()))]
)
"""Columns of `Written`, and the files that were set aside meanwhile."""


def as_outcomes(make: MakeRows, source: T.StructType, sink: Sink) -> Transform:
    """Transform work items into the outcome of writing: each task writes the rows it makes.

    Rows of a roll-up hold sketches: passing them through Spark costs more than making them.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        problems: list[str] = []
        written = asdict(write_records(sink, make(batches, problems)))
        columns = {name: [value] for name, value in written.items()}
        yield batch_of(OUTCOME_TYPE, {**columns, "problems": [problems]})

    def transform(frame: DataFrame) -> DataFrame:
        outcomes = frame.select(*source.names).mapInArrow(task, OUTCOME_TYPE)
        return outcomes.select(*OUTCOME_TYPE.names)

    return transform


def summed(outcomes: Iterable[Row]) -> tuple[Written, tuple[str, ...]]:
    """The sum of such outcomes, and all that was set aside, each once."""
    total = Written()
    problems: list[str] = []
    for row in outcomes:
        values = row.asDict()
        problems += values["problems"]
        total += Written(**{name: values[name] for name in WRITTEN_TYPE.names})
    return total, tuple(dict.fromkeys(problems))


def write(rows: DataFrame, sink: Sink) -> Written:
    """Write the rows of a frame; returns how many were written.

    Raises:
        PySparkException: a store refused, or was away for long.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        written = asdict(write_batches(sink, batches))
        yield batch_of(WRITTEN_TYPE, {name: [value] for name, value in written.items()})

    outcomes = rows.select(*struct_type(sink.kind).names).mapInArrow(task, WRITTEN_TYPE).collect()
    return sum((Written(**row.asDict()) for row in outcomes), Written())
