"""Series of a day beside those of the week before, compared hour by hour."""

from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.core.trend import compare
from lagwatch.jobs.report.frames import GROUP, lag_average, moved_per_s, quarter_of

DAYS_BEFORE: Final = 7
METRICS: Final = ("time_lag_s", "lag", "produced_per_s")
"""Greatest time lag, mean lag and rate produced, of an hour."""

COMPARED: Final = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in ("cluster", "group", "metric")),
        *(
            T.StructField(name, T.DoubleType())
            for name in ("now", "before", "lowest", "highest", "p")
        ),
        T.StructField("hours", T.IntegerType()),
    ]
)

_ARROW: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster", "group", "metric")),
        *((name, pa.float64()) for name in ("now", "before", "lowest", "highest", "p")),
        ("hours", pa.int32()),
    ]
)


def by_wall_hour(quarters: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Buckets of groups → one row per group, day and hour on the wall, with the metrics."""

    def transform(buckets: DataFrame) -> DataFrame:
        return (
            buckets.withColumn("quarter_ms", quarter_of("bucket_ms"))
            .join(F.broadcast(quarters), on="quarter_ms", how="inner")
            .groupBy(*GROUP, "days_ago", "hour")
            .agg(
                F.max("time_lag_max_s").alias("time_lag_s"),
                lag_average().alias("lag"),
                moved_per_s("produced").alias("produced_per_s"),
            )
            .select(*GROUP, "days_ago", "hour", *METRICS)
        )

    return transform


def compared(hours: DataFrame) -> DataFrame:
    """Rows of `by_wall_hour` → one row per group and metric that can be compared."""
    return (
        hours.groupBy(*GROUP)
        .agg(F.collect_list(F.struct("days_ago", "hour", *METRICS)).alias("hours"))
        .select(*GROUP, "hours")
        .mapInArrow(_compare_all, COMPARED)
    )


def _compare_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [
            dict(zip(COMPARED.names, row, strict=True))
            for each in batch.to_pylist()
            for row in _compare_group(each["cluster"], each["group"], each["hours"])
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def _compare_group(
    cluster: str, group: str, hours: list[dict[str, float]]
) -> Iterator[tuple[object, ...]]:
    for metric in METRICS:
        days: list[dict[int, float]] = [{} for _ in range(DAYS_BEFORE + 1)]
        for hour in hours:
            if hour[metric] is not None:
                days[int(hour["days_ago"])][int(hour["hour"])] = hour[metric]
        found = compare(days[0], days[1:])
        if found is not None:
            numbers = (found.now, found.before, found.lowest, found.highest, found.p, found.hours)
            yield (cluster, group, metric, *numbers)
