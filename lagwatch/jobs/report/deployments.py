"""Deployments of the day, with the hour before and the hour after."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import BUCKET_MS, BUCKET_S, GROUP, bucket_of, moved_per_s, within

AROUND_MS: Final = HOUR_MS
"""How much is looked at on either side, up to another deployment of the group; buckets in which
there is one are left out."""
_SIDE: Final = (
    *("seconds", "lag_avg", "time_lag_max_s", "consumed_per_s", "produced_per_s"),
    *("not_ok_s", "rebalances"),
)
COLUMNS: Final = (*GROUP, "at_ms", "version", "detail", "partitions")


def around(day: Day, buckets: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Events → the day's deployments with `before_…` and `after_…` of the sides' columns."""

    def transform(events: DataFrame) -> DataFrame:
        of_group = Window.partitionBy(*GROUP).orderBy("at_ms")
        deployments = (
            events.where(F.col("event") == "deployment")
            .select(
                *GROUP,
                "at_ms",
                F.col("after").alias("version"),
                "detail",
                F.col("count").alias("partitions"),
                F.lag("at_ms").over(of_group).alias("earlier_ms"),
                F.lead("at_ms").over(of_group).alias("later_ms"),
            )
            .where(within("at_ms", day.from_ms, day.to_ms))
        )
        middle = bucket_of("at_ms")
        first = F.greatest(middle - AROUND_MS, bucket_of("earlier_ms") + BUCKET_MS)
        last = F.least(middle + AROUND_MS, bucket_of("later_ms") - BUCKET_MS)
        near = (F.col("bucket_ms") >= first) & (F.col("bucket_ms") <= last)
        return (
            deployments.join(buckets, on=list(GROUP), how="left")
            .withColumn("before", near & (F.col("bucket_ms") < middle))
            .withColumn("after", near & (F.col("bucket_ms") >= middle + BUCKET_MS))
            .groupBy(*COLUMNS)
            .agg(*_side("before"), *_side("after"))
            .select(*COLUMNS, *(f"{side}_{name}" for side in ("before", "after") for name in _SIDE))
        )

    return transform


def _side(side: str) -> list[Column]:
    def of(name: str) -> Column:
        return F.when(F.col(side), F.col(name))

    bad = F.coalesce(F.col("warn_s"), F.lit(0.0)) + F.coalesce(F.col("err_s"), F.lit(0.0))
    known = F.coalesce(F.col("ok_s"), F.col("warn_s"), F.col("err_s")).isNotNull()
    values = {
        "seconds": F.count(of("bucket_ms")) * BUCKET_S,
        "lag_avg": F.try_divide(
            F.sum(of("lag_sum")).cast("double"), F.sum(of("lag_known")).cast("double")
        ),
        "time_lag_max_s": F.max(of("time_lag_max_s")),
        "consumed_per_s": moved_per_s("consumed", F.col(side)),
        "produced_per_s": moved_per_s("produced", F.col(side)),
        "not_ok_s": F.sum(F.when(F.col(side) & known, bad)),
        "rebalances": F.sum(of("rebalances")),
    }
    return [values[name].alias(f"{side}_{name}") for name in _SIDE]
