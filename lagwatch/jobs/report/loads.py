"""The load of each group on each topic, as `core.advise` needs it."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.jobs.report.frames import GROUP, TOPIC, bucket_of

DAYS: Final = 7
"""Days that are looked at, the last one included."""


def by_owner(buckets: DataFrame) -> DataFrame:
    """Buckets of partitions → one row per topic of a group, bucket and host that held some of it.

    A partition is saturated in a bucket in which its consumer read, and always had more waiting
    than it commits at a time. Lag above 0 alone says little: between two commits a consumer that
    keeps up has lag, too.
    """
    return (
        buckets.withColumns(
            {"saturated": _saturated()}
            | {f"{name}_per_s": _exact(name) for name in ("consumed", "produced")}
        )
        .groupBy(*TOPIC, "bucket_ms", "owner")
        .agg(
            F.count("partition").alias("held"),
            F.sum(F.col("saturated").cast("int")).alias("saturated"),
            F.sum("consumed_per_s").alias("consumed_per_s"),
            F.sum("produced_per_s").alias("produced_per_s"),
            F.count("produced_per_s").alias("measured"),
            # a share needs both sides of the same partitions
            F.sum(F.when(F.col("produced_per_s").isNotNull(), F.col("consumed_per_s"))).alias(
                "shared_read_per_s"
            ),
            F.sum(F.when(F.col("consumed_per_s").isNotNull(), F.col("produced_per_s"))).alias(
                "shared_produced_per_s"
            ),
            (F.max("partition") + 1).alias("partitions"),
        )
        .select(
            *TOPIC,
            *("bucket_ms", "owner", "held", "saturated", "consumed_per_s", "produced_per_s"),
            *("measured", "shared_read_per_s", "shared_produced_per_s", "partitions"),
        )
    )


def _exact(name: str) -> Column:
    """A rate with all its digits; rows of early releases do not say the time it was measured in."""
    per_s = F.try_divide(F.col(name).cast("double"), F.col(f"{name}_s"))
    return F.coalesce(per_s, F.col(f"{name}_per_s"))


def loads(rounds: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Rows of `by_owner`, with the rounds of the groups → one row per group and topic.

    The rate of one consumer is measured where all of its partitions are saturated. A consumer is
    known by its host; where a group has more members than hosts, they share the host's rate.
    """

    def transform(held: DataFrame) -> DataFrame:
        return (
            held.transform(_produced)
            .join(held.transform(_rates(rounds)), on=list(TOPIC), how="left")
            .join(held.transform(_without_rate), on=list(TOPIC), how="left")
            .join(rounds.transform(_last_members), on=list(GROUP), how="left")
            .join(held.transform(_last_owners), on=list(GROUP), how="left")
            .select(
                *TOPIC,
                *("peak_per_s", "buckets", "rate_per_s"),
                F.coalesce("saturated_buckets", F.lit(0)).alias("saturated_buckets"),
                F.coalesce("unowned_buckets", F.lit(0)).alias("unowned_buckets"),
                F.coalesce("partly_buckets", F.lit(0)).alias("partly_buckets"),
                *("read_share", "partitions"),
                F.coalesce("members", "owners").cast("int").alias("consumers"),
            )
        )

    return transform


def _saturated() -> Column:
    """True if always more messages waited than one commit takes; null counts as no."""
    known = (F.col("samples") > 0) & (F.col("lag_known") == F.col("samples"))
    reading = (F.col("consumed") > 0) & (F.col("commits") > 0)
    waiting = F.col("lag_min") > F.col("consumed") / F.col("commits")
    return F.coalesce(known & reading & waiting, F.lit(False))  # noqa: FBT003 a literal of SQL


def _produced(held: DataFrame) -> DataFrame:
    """The rate produced to each topic at peak, and its partitions.

    The peak is one of the whole topic: buckets in which a partition was not measured do not count.
    """
    whole = F.sum("measured") == F.sum("held")
    peak = F.expr("percentile_disc(0.95) within group (order by produced_per_s)")
    return (
        held.groupBy(*TOPIC, "bucket_ms")
        .agg(
            F.when(whole, F.sum("produced_per_s")).alias("produced_per_s"),
            F.sum("shared_read_per_s").alias("shared_read_per_s"),
            F.sum("shared_produced_per_s").alias("shared_produced_per_s"),
            F.max("partitions").alias("partitions"),
        )
        .groupBy(*TOPIC)
        .agg(
            peak.alias("peak_per_s"),
            F.count("produced_per_s").alias("buckets"),
            F.try_divide(F.sum("shared_read_per_s"), F.sum("shared_produced_per_s")).alias(
                "read_share"
            ),
            F.max("partitions").alias("partitions"),
        )
        .select(*TOPIC, "peak_per_s", "buckets", "read_share", "partitions")
    )


def _rates(rounds: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """The rate of one consumer while all of its partitions are saturated: the median."""

    def transform(held: DataFrame) -> DataFrame:
        each = F.round(F.col("members") / F.col("hosts"))
        consumers = F.least(F.col("held"), F.greatest(F.lit(1), each))
        return (
            held.where(F.col("owner").isNotNull() & (F.col("saturated") == F.col("held")))
            .join(held.transform(_hosts), on=[*GROUP, "bucket_ms"], how="left")
            .join(rounds.transform(_members), on=[*GROUP, "bucket_ms"], how="left")
            .withColumn("rate", F.col("consumed_per_s") / consumers)
            .groupBy(*TOPIC)
            .agg(
                F.expr("percentile_disc(0.5) within group (order by rate)").alias("rate_per_s"),
                F.countDistinct("bucket_ms").alias("saturated_buckets"),
            )
            .select(*TOPIC, "rate_per_s", "saturated_buckets")
        )

    return transform


def _hosts(held: DataFrame) -> DataFrame:
    """Number of hosts of each group in each bucket."""
    return (
        held.where(F.col("owner").isNotNull())
        .groupBy(*GROUP, "bucket_ms")
        .agg(F.countDistinct("owner").alias("hosts"))
        .select(*GROUP, "bucket_ms", "hosts")
    )


def _without_rate(held: DataFrame) -> DataFrame:
    """Buckets in which a partition was saturated but its consumer's rate could not be measured."""
    unowned = F.col("owner").isNull()
    partly = F.col("saturated") < F.col("held")
    return (
        held.where(F.col("saturated") > 0)
        .groupBy(*TOPIC)
        .agg(
            F.countDistinct(F.when(unowned, F.col("bucket_ms"))).alias("unowned_buckets"),
            F.countDistinct(F.when(~unowned & partly, F.col("bucket_ms"))).alias("partly_buckets"),
        )
        .select(*TOPIC, "unowned_buckets", "partly_buckets")
    )


def _members(rounds: DataFrame) -> DataFrame:
    """Members of each group in each bucket."""
    return (
        rounds.groupBy(*GROUP, bucket_of("at_ms").alias("bucket_ms"))
        .agg(F.max("members").alias("members"))
        .select(*GROUP, "bucket_ms", "members")
    )


def _last_members(rounds: DataFrame) -> DataFrame:
    return (
        rounds.where(F.col("members").isNotNull())
        .groupBy(*GROUP)
        .agg(F.max_by("members", "at_ms").alias("members"))
        .select(*GROUP, "members")
    )


def _last_owners(held: DataFrame) -> DataFrame:
    """Hosts that held partitions in the last bucket in which any is known."""
    return (
        held.transform(_hosts)
        .groupBy(*GROUP)
        .agg(F.max_by("hosts", "bucket_ms").alias("owners"))
        .select(*GROUP, "owners")
    )
