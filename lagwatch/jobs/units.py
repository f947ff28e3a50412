"""What one task rolls up: some buckets of one cluster, of all its groups or of some."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

_NUMBER: Final = "_number"
UNIT_TYPE: Final = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("from_ms", T.LongType()),
        T.StructField("to_ms", T.LongType()),
        T.StructField("low", T.StringType()),
        T.StructField("high", T.StringType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Buckets from one begin to another, of groups with `low <= name < high`."""

    cluster: str
    from_ms: int
    to_ms: int
    low: str | None = None
    """None: no limit."""
    high: str | None = None


def units_frame(spark: SparkSession, units: Sequence[Unit]) -> DataFrame:
    """A row for each unit, each in a task of its own."""
    return spread(spark, [astuple(unit) for unit in units], UNIT_TYPE)


def spread(
    spark: SparkSession, rows: Sequence[tuple[object, ...]], schema: T.StructType
) -> DataFrame:
    """Few rows that mean much work: each in a partition of its own."""
    numbered = T.StructType([*schema.fields, T.StructField(_NUMBER, T.IntegerType())])
    frame = spark.createDataFrame([(*row, number) for number, row in enumerate(rows)], numbered)
    return frame.repartitionById(max(1, len(rows)), F.col(_NUMBER)).select(*schema.names)


def units_of(batch: Any) -> Iterator[Unit]:  # noqa: ANN401 a pyarrow.RecordBatch
    """The inverse, of one batch."""
    for row in batch.to_pylist():
        yield Unit(**row)


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
