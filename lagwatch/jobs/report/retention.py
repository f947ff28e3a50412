"""Partitions whose messages go, or will go, before the group has read them."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.core.record import EventName
from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import OFFSETS, PARTITION, TOPIC, UNKNOWN, within

SOON_S: Final = 7 * 86_400
"""Messages that go within this time are a risk."""
FAR_BEHIND: Final = 0.5
"""Share of what the broker holds; a lag of so much is a risk once old messages go."""
BEHIND: Final = 0.1
"""A lag below this share of a partition that is OK is no risk: it is read soon enough."""
COLUMNS: Final = (*OFFSETS, "topic_id", "status")
"""Of the samples."""
_LOSS: Final = ("first", "end", "exact")


def risks(day: Day, events: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Samples of partitions → those at risk, or with losses, as `model.RetentionRisk`.

    The margin is what is between the log start and the committed offset. It shrinks as the lag
    grows, as in the forecasts of the service: a log of constant length loses as much at its start
    as it gains at its end. That is measured over the last hour of the day. Lost are the messages
    of the day's events, and those that the log start passed since the first sample and that no
    event has yet.
    """

    def transform(samples: DataFrame) -> DataFrame:
        sample = F.struct("at_ms", *COLUMNS)
        late_ms = day.to_ms - HOUR_MS
        known = F.col("committed_offset").isNotNull()
        for name in OFFSETS[1:]:
            known &= F.col(name).isNotNull()
        return (
            samples.where(within("at_ms", day.from_ms, day.to_ms) & known)
            .select(*PARTITION, "at_ms", *COLUMNS)
            .groupBy(*PARTITION)
            .agg(
                F.min_by(sample, "at_ms").alias("first"),
                F.min_by(sample, F.when(F.col("at_ms") >= late_ms, F.col("at_ms"))).alias("late"),
                F.max_by(sample, "at_ms").alias("last"),
            )
            .join(losses(day, events), [*PARTITION], "full_outer")
            .select(
                *PARTITION,
                (F.coalesce("counted", F.lit(0)) + _not_counted()).alias("lost"),
                (F.coalesce("doubtful", F.lit(0)) > 0).alias("lost_at_most"),
                _margin("last").alias("margin"),
                _behind_share().alias("behind_share"),
                (F.col("last.log_start_offset") > F.col("first.log_start_offset")).alias("deleted"),
                F.coalesce(_grows_per_s("late"), _grows_per_s("first")).alias("margin_per_s"),
                _in_trouble(F.col("last.status")).alias("in_trouble"),
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


def _grows_per_s(since: str) -> Column:
    """How fast the lag grew from a sample to the last one; null if they are the same."""
    lags = [
        F.col(f"{each}.log_end_offset") - F.col(f"{each}.committed_offset")
        for each in (since, "last")
    ]
    took_ms = F.col("last.at_ms") - F.col(f"{since}.at_ms")
    return F.try_divide((lags[1] - lags[0]) * 1000.0, took_ms.cast("double"))


def _in_trouble(status: Column) -> Column:
    return ~F.coalesce(status, F.lit(UNKNOWN)).isin("OK", UNKNOWN)


def _left_s() -> Column:
    shrinking = (F.col("margin_per_s") > 0) & (F.col("margin") >= 0)
    return F.when(shrinking, F.col("margin") / F.col("margin_per_s"))


def _at_risk() -> Column:
    unread = (F.col("behind_share") >= BEHIND) | F.col("in_trouble")
    soon = unread & (F.col("left_s") <= SOON_S)
    far = F.col("behind_share") >= FAR_BEHIND
    return (F.col("lost") > 0) | (F.col("deleted") & (soon | far))
