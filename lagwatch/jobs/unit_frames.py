"""Units of work as Spark has them: a row for each, each in a task of its own."""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.jobs.units import Unit

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


def units_frame(spark: SparkSession, units: Sequence[Unit]) -> DataFrame:
    """A row for each unit, each in a task of its own."""
    return spread(spark, [astuple(unit) for unit in units], UNIT_TYPE)


def spread(
    spark: SparkSession,
    rows: Sequence[tuple[object, ...]],
    schema: T.StructType,
    *,
    tasks: int | None = None,
) -> DataFrame:
    """Rows that mean work, dealt out in turn to so many tasks; None: each has a task of its own."""
    parts = max(1, len(rows) if tasks is None else min(tasks, len(rows)))
    numbered = T.StructType([*schema.fields, T.StructField(_NUMBER, T.IntegerType())])
    dealt = [(*row, number % parts) for number, row in enumerate(rows)]
    frame = spark.createDataFrame(dealt, numbered)
    return frame.repartitionById(parts, F.col(_NUMBER)).select(*schema.names)
