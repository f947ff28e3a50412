"""Groups over the day: how far behind, how long not OK, how much they read; the heat map."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import GROUP, lag_average, within, worst

Transform = Callable[[DataFrame], DataFrame]


def by_group(day: Day) -> Transform:
    """Buckets of groups → one row per group, as `model.GroupDay`."""

    def transform(buckets: DataFrame) -> DataFrame:
        return (
            buckets.where(within("bucket_ms", day.from_ms, day.to_ms))
            .groupBy(*GROUP)
            .agg(
                worst("status").alias("status"),
                F.max("time_lag_max_s").alias("time_lag_max_s"),
                _first_of_greatest("time_lag_max_s").alias("time_lag_max_ms"),
                F.max("lag_max").alias("lag_max"),
                lag_average().alias("lag_avg"),
                *(
                    F.sum(name).alias(name)
                    for name in ("ok_s", "warn_s", "err_s", "produced", "consumed")
                ),
                *(F.sum(name).alias(name) for name in ("commits", "rebalances")),
                F.max_by("owner", F.when(F.col("owner").isNotNull(), F.col("lag_max"))).alias(
                    "owner"
                ),
            )
            .select(
                *GROUP,
                *("status", "time_lag_max_s", "time_lag_max_ms", "lag_max", "lag_avg"),
                *("ok_s", "warn_s", "err_s"),
                _not_ok("warn_s", "err_s").alias("not_ok_s"),
                *("produced", "consumed", "commits", "rebalances", "owner"),
            )
        )

    return transform


def by_hour(day: Day) -> Transform:
    """Buckets of groups → one row per group and hour of the day, counted from its beginning."""

    def transform(buckets: DataFrame) -> DataFrame:
        hour = F.floor((F.col("bucket_ms") - day.from_ms) / HOUR_MS).cast("int")
        return (
            buckets.where(within("bucket_ms", day.from_ms, day.to_ms))
            .groupBy(*GROUP, hour.alias("hour"))
            .agg(
                F.max("lag_max").alias("lag_max"),
                F.max("time_lag_max_s").alias("time_lag_max_s"),
                worst("status").alias("status"),
            )
            .select(*GROUP, "hour", "lag_max", "time_lag_max_s", "status")
        )

    return transform


def recorded(day: Day) -> Transform:
    """Rounds of groups → how much of the day was recorded, by cluster."""

    def transform(rounds: DataFrame) -> DataFrame:
        regular = within("at_ms", day.from_ms, day.to_ms) & (F.col("reason") == "interval")
        return (
            rounds.where(regular)
            .groupBy("cluster", "at_ms")
            .agg(F.max("interval_ms").alias("interval_ms"))
            .groupBy("cluster")
            .agg((F.sum("interval_ms") / 1000).alias("recorded_s"))
            .select("cluster", "recorded_s")
        )

    return transform


def _first_of_greatest(name: str) -> Column:
    """The first bucket in which a column is greatest; null where it is never known."""
    order = F.struct(F.col(name), -F.col("bucket_ms"))
    return F.max_by("bucket_ms", F.when(F.col(name).isNotNull(), order))


def _not_ok(*names: str) -> Column:
    """The sum of what is known of them; null when nothing is."""
    known = F.coalesce(*(F.col(name) for name in names)).isNotNull()
    total = sum((F.coalesce(F.col(name), F.lit(0.0)) for name in names), F.lit(0.0))
    return F.when(known, total)
