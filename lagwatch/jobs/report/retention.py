"""Partitions whose messages go, or will go, before the group has read them."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lagwatch.core.record import EventName
from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import OFFSETS, PARTITION, within

SOON_S: Final = 7 * 86_400
"""Messages that go within this time are a risk."""
FAR_BEHIND: Final = 0.5
"""Share of what the broker holds; a lag of so much is a risk once old messages go."""
BEHIND: Final = 0.1
"""A lag below this share is no risk, however fast old messages go: it is read soon enough."""
_LOSS: Final = ("first", "end", "exact")


def risks(day: Day, events: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Samples of partitions → those at risk, or with losses, as `model.RetentionRisk`.

    The margin is what is between the log start and the committed offset. Over the day it shrinks
    by what the log start moved, less what the group read. Lost are the messages of the day's
    events, and what is below the log start at the last sample and in no event yet.
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
            .join(losses(day, events), [*PARTITION], "full_outer")
            .select(
                *PARTITION,
                (F.coalesce("counted", F.lit(0)) + _not_counted()).alias("lost"),
                (F.coalesce("doubtful", F.lit(0)) > 0).alias("lost_at_most"),
                _margin("last").alias("margin"),
                _behind_share().alias("behind_share"),
                _per_s("log_start_offset").alias("start_per_s"),
                (_per_s("log_start_offset") - _per_s("committed_offset")).alias("margin_per_s"),
            )
            .withColumn("left_s", _left_s())
            .where(_at_risk())
            .select(
                *PARTITION,
                "lost",
                "lost_at_most",
                "margin",
                "behind_share",
                "margin_per_s",
                "left_s",
            )
        )

    return transform


def losses(day: Day, events: DataFrame) -> DataFrame:
    """Messages that were counted as lost in the day, by partition.

    `counted`; `doubtful`: events of which some may have been read; `counted_to`: their end.
    """
    first, end, exact = (F.get_json_object("detail", f"$.{name}") for name in _LOSS)
    return (
        events.where(within("at_ms", day.from_ms, day.to_ms))
        .where(F.col("event") == EventName.RECORDS_LOST.value)
        .groupBy(*PARTITION)
        .agg(
            F.sum(end.cast("long") - first.cast("long")).alias("counted"),
            F.count_if(exact == "false").alias("doubtful"),
            F.max(end.cast("long")).alias("counted_to"),
        )
    )


def _not_counted() -> Column:
    """Messages below the log start of the last sample that no event has yet."""
    read = F.greatest(F.col("last.committed_offset"), F.coalesce("counted_to", F.lit(0)))
    return F.coalesce(F.greatest(F.col("last.log_start_offset") - read, F.lit(0)), F.lit(0))


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
