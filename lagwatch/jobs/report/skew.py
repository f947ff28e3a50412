"""Partitions that have far more than their share of what is produced, or of the lag."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import PARTITION, TOPIC, lag_average, within

FACTOR: Final = 2.5
"""Times the fair share from which a partition counts as skewed."""
FEWEST_PARTITIONS: Final = 3
LEAST_PRODUCED: Final = 1000
"""Messages of the topic in the day; of less nothing is said."""
LEAST_LAG: Final = 100
"""Messages of mean lag in all partitions together."""

_ALL = (W.unboundedPreceding, W.unboundedFollowing)
_COLUMNS: Final = (*PARTITION, "what", "partitions", "share", "factor")


def skewed(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Buckets of partitions → those that are skewed, as `model.Skew`.

    What is produced is the same for every group of the topic; it is given once, without a group.
    """

    def transform(buckets: DataFrame) -> DataFrame:
        loads = (
            buckets.where(within("bucket_ms", day.from_ms, day.to_ms))
            .groupBy(*PARTITION)
            .agg(F.sum("produced").alias("produced"), lag_average().alias("lag"))
            .select(*PARTITION, "produced", "lag")
        )
        produced = (
            loads.groupBy("cluster", "topic", "partition")
            .agg(F.max("produced").alias("value"))
            .withColumn("group", F.lit(None).cast("string"))
            .transform(_shares("produced", LEAST_PRODUCED))
        )
        lag = loads.withColumn("value", F.col("lag")).transform(_shares("lag", LEAST_LAG))
        return produced.unionByName(lag).select(*_COLUMNS)

    return transform


def _shares(what: str, least: float) -> Callable[[DataFrame], DataFrame]:
    def transform(loads: DataFrame) -> DataFrame:
        topic = W.partitionBy(*TOPIC).rowsBetween(*_ALL)
        return (
            loads.where(F.col("value").isNotNull())
            .withColumn("partitions", F.count("value").over(topic).cast("int"))
            .withColumn("total", F.sum("value").over(topic).cast("double"))
            .where((F.col("partitions") >= FEWEST_PARTITIONS) & (F.col("total") >= least))
            .withColumn("share", F.col("value") / F.col("total"))
            .withColumn("factor", F.col("share") * F.col("partitions"))
            .where(F.col("factor") >= FACTOR)
            .withColumn("what", F.lit(what))
            .select(*_COLUMNS)
        )

    return transform
