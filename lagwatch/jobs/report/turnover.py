"""Groups that came or went in the day."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import BUCKET_MS, GROUP


def turns(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Buckets of groups of the day and the week before → a row per group that came or went.

    New: not seen in the week before, of which something is recorded. Gone: not seen any more in the
    last hour of its cluster; one that was gone in the last hour of the day before is old news.
    `turn` is `new` or `gone`; a group may be both.
    """

    def transform(buckets: DataFrame) -> DataFrame:
        cluster = W.partitionBy("cluster").rowsBetween(W.unboundedPreceding, W.unboundedFollowing)
        seen = (
            buckets.where(F.col("bucket_ms") < day.to_ms)
            .groupBy(*GROUP)
            .agg(
                F.min("bucket_ms").alias("first_ms"),
                F.max("bucket_ms").alias("last_ms"),
                F.min_by("lag_max", "bucket_ms").alias("first_lag"),
                F.max_by("lag_max", "bucket_ms").alias("last_lag"),
            )
            .withColumn("cluster_first_ms", F.min("first_ms").over(cluster))
            .withColumn("cluster_last_ms", F.max("last_ms").over(cluster))
        )
        new = (F.col("first_ms") >= day.from_ms) & (F.col("cluster_first_ms") < day.from_ms)
        silent = F.col("last_ms") <= F.col("cluster_last_ms") - HOUR_MS
        gone = silent & (F.col("last_ms") > day.from_ms - HOUR_MS - BUCKET_MS)
        came = seen.where(new).select(
            *GROUP,
            F.lit("new").alias("turn"),
            F.col("first_ms").alias("at_ms"),
            F.col("first_lag").alias("lag"),
        )
        went = seen.where(gone).select(
            *GROUP,
            F.lit("gone").alias("turn"),
            F.col("last_ms").alias("at_ms"),
            F.col("last_lag").alias("lag"),
        )
        return came.unionByName(went).select(*GROUP, "turn", "at_ms", "lag")

    return transform
