"""Partitions whose messages go, or will go, before the group has read them."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.core.record import EventName
from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import OFFSETS, PARTITION, TOPIC, within

SOON_S: Final = 7 * 86_400
"""Messages that go within this time are a risk."""
FAR_BEHIND: Final = 0.5
"""Share of what the broker holds; a lag of so much is a risk once old messages go."""
BEHIND: Final = 0.1
"""A lag below this share is no risk, however fast old messages go: it is read soon enough."""
COLUMNS: Final = (*OFFSETS, "topic_id")
"""Of the samples."""
_LOSS: Final = ("first", "end", "exact")


def risks(day: Day, events: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Samples of partitions → those at risk, or with losses, as `model.RetentionRisk`.

    The margin is what is between the log start and the committed offset. Over the day it shrinks
    by what the log start moved, less what the group read. Lost are the messages of the day's
    events, and those that the log start passed since the first sample and that no event has yet.
    """

    def transform(samples: DataFrame) -> DataFrame:
        known = F.col("committed_offset").isNotNull()
        for name in OFFSETS[1:]:
            known &= F.col(name).isNotNull()
        return (
            samples.where(within("at_ms", day.from_ms, day.to_ms) & known)
            .select(*PARTITION, "at_ms", *COLUMNS)
            .groupBy(*PARTITION)
            .agg(
                F.min("at_ms").alias("first_ms"),
                F.max("at_ms").alias("last_ms"),
                F.min_by(F.struct(*COLUMNS), "at_ms").alias("first"),
                F.max_by(F.struct(*COLUMNS), "at_ms").alias("last"),
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
    """Messages that were counted as lost in the day, each once, by partition.

    Two instances write the same loss, and one that was killed writes it again. `counted` are the
    offsets of the day's events that no event of the days before has. A topic that was created anew
    has another log. `doubtful`: events of the day of which some may have been read; `counted_to`:
    the end of all events.
    """
    first, end, exact = (F.get_json_object("detail", f"$.{name}") for name in _LOSS)
    so_far = W.partitionBy(*TOPIC).orderBy("at_ms").rangeBetween(W.unboundedPreceding, 0)
    new_log = F.col("event") == EventName.TOPIC_RECREATED.value
    today = F.col("at_ms") >= day.from_ms
    old_end = F.when(~today, F.col("end"))
    return (
        events.where(F.col("at_ms") < day.to_ms)
        .withColumn("log", F.count_if(new_log).over(so_far))
        .where(F.col("event") == EventName.RECORDS_LOST.value)
        .withColumn("first", first.cast("long"))
        .withColumn("end", end.cast("long"))
        .withColumn("fresh", _beyond(F.col("end")))
        .withColumn("known", F.when(~today, _beyond(old_end)))
        .groupBy(*PARTITION, "log")
        .agg(
            (F.sum("fresh") - F.coalesce(F.sum("known"), F.lit(0))).alias("counted"),
            F.count_if(today & (exact == "false")).alias("doubtful"),
            F.max("end").alias("counted_to"),
        )
        .groupBy(*PARTITION)
        .agg(
            F.sum("counted").alias("counted"),
            F.sum("doubtful").alias("doubtful"),
            F.max_by("counted_to", "log").alias("counted_to"),
        )
        .select(*PARTITION, "counted", "doubtful", "counted_to")
    )


def _beyond(end: Column) -> Column:
    """How many offsets up to `end` no range that begins earlier has: their sum is the union's."""
    earlier = (
        W.partitionBy(*PARTITION, "log")
        .orderBy("first", "end")
        .rowsBetween(W.unboundedPreceding, -1)
    )
    begin = F.greatest("first", F.max(end).over(earlier))  # ignores null
    return F.greatest(F.col("end") - begin, F.lit(0))


def _not_counted() -> Column:
    """Messages that went below the log start in the day and that no event has yet."""
    same_log = F.col("first.topic_id").eqNullSafe(F.col("last.topic_id"))
    gone_before = F.when(same_log, F.col("first.log_start_offset"))
    read = F.greatest(F.col("last.committed_offset"), F.col("counted_to"), gone_before)
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
