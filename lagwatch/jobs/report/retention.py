"""Partitions whose messages go, or will go, before the group has read them."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import OFFSETS, PARTITION, within

SOON_S: Final = 7 * 86_400
"""Messages that go within this time are a risk."""
FAR_BEHIND: Final = 0.5
"""Share of what the broker holds; a lag of so much is a risk once old messages go."""
BEHIND: Final = 0.1
"""A lag below this share is no risk, however fast old messages go: it is read soon enough."""


def risks(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Samples of partitions → those at risk, as `model.RetentionRisk`.

    The margin is what is between the log start and the committed offset. Over the day it shrinks
    by what the log start moved, less what the group read.
    """

    def transform(samples: DataFrame) -> DataFrame:
        known = F.col("committed_offset").isNotNull()
        for name in OFFSETS[1:]:
            known &= F.col(name).isNotNull()
        return (
            samples.where(within("at_ms", day.from_ms, day.to_ms) & known)
            .select(*PARTITION, "at_ms", *OFFSETS)
            .groupBy(*PARTITION)
            .agg(
                F.min("at_ms").alias("first_ms"),
                F.max("at_ms").alias("last_ms"),
                F.min_by(F.struct(*OFFSETS), "at_ms").alias("first"),
                F.max_by(F.struct(*OFFSETS), "at_ms").alias("last"),
            )
            .select(
                *PARTITION,
                F.greatest(-_margin("last"), F.lit(0)).alias("lost"),
                _margin("last").alias("margin"),
                _behind_share().alias("behind_share"),
                _per_s("log_start_offset").alias("start_per_s"),
                (_per_s("log_start_offset") - _per_s("committed_offset")).alias("margin_per_s"),
            )
            .withColumn("left_s", _left_s())
            .where(_at_risk())
            .select(*PARTITION, "lost", "margin", "behind_share", "margin_per_s", "left_s")
        )

    return transform


def _margin(which: str) -> Column:
    return F.col(f"{which}.committed_offset") - F.col(f"{which}.log_start_offset")


def _behind_share() -> Column:
    end, start = F.col("last.log_end_offset"), F.col("last.log_start_offset")
    lag = F.greatest(end - F.greatest(F.col("last.committed_offset"), start), F.lit(0))
    return F.try_divide(lag.cast("double"), (end - start).cast("double"))


def _per_s(name: str) -> Column:
    moved = F.col(f"last.{name}") - F.col(f"first.{name}")
    return F.try_divide(moved * 1000.0, (F.col("last_ms") - F.col("first_ms")).cast("double"))


def _left_s() -> Column:
    shrinking = (F.col("margin_per_s") > 0) & (F.col("margin") >= 0)
    return F.when(shrinking, F.col("margin") / F.col("margin_per_s"))


def _at_risk() -> Column:
    soon = (F.col("behind_share") >= BEHIND) & (F.col("left_s") <= SOON_S)
    far = F.col("behind_share") >= FAR_BEHIND
    return (F.col("lost") > 0) | ((F.col("start_per_s") > 0) & (soon | far))
