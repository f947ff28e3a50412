"""Groups that came or went in the day."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import BUCKET_MS, GROUP, last_changes


def turns(day: Day, events: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Buckets of groups of the day and the week before → a row per group that came or went.

    New: not seen in the week before, of which something is recorded. Gone: `events` have its end,
    or it was not seen any more in the last hour of its cluster; one that was gone in the last hour
    of the day before is old news. `turn` is `new` or `gone`; a group may be both.
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
            .join(events.transform(_deleted(day)), on=list(GROUP), how="left")
            .withColumn("cluster_first_ms", F.min("first_ms").over(cluster))
            .withColumn("cluster_last_ms", F.max("last_ms").over(cluster))
        )
        new = (F.col("first_ms") >= day.from_ms) & (F.col("cluster_first_ms") < day.from_ms)
        silent = F.col("last_ms") <= F.col("cluster_last_ms") - HOUR_MS
        unseen = silent & (F.col("last_ms") > day.from_ms - HOUR_MS - BUCKET_MS)
        # a group that was seen after its end has been made again
        deleted = F.col("deleted_ms") >= F.col("last_ms")
        gone = F.when(deleted, F.col("deleted_ms") >= day.from_ms).otherwise(unseen)
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


def _deleted(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Events → when each group was deleted that was not there any more at the end of the day."""

    def transform(events: DataFrame) -> DataFrame:
        return (
            events.where(F.col("at_ms") < day.to_ms)
            .transform(last_changes)
            .where(F.col("became") == "NOTFOUND")
            .select(*GROUP, F.col("changed_ms").alias("deleted_ms"))
        )

    return transform
