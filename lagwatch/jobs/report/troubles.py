"""Groups that are in trouble when the day ends, and the causes of incidents."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import BAD, GROUP, PARTITION, UNKNOWN, last_changes, within

_STANDING: Final = (
    *("at_ms", "status", "total_lag", "time_lag_s", "time_lag_reason"),
    *("catch_up_s", "catch_up_reason", "loss_in_s", "loss_reason", "since_ms", "partitions"),
)
SPELLS: Final = T.StructType(
    [
        T.StructField("incident", T.IntegerType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("group", T.StringType()),
        T.StructField("from_ms", T.LongType()),
        T.StructField("to_ms", T.LongType()),
    ]
)
"""Incidents by number, each with an instant at which it begins and ends."""

Transform = Callable[[DataFrame], DataFrame]


def standing(day: Day, events: DataFrame) -> Transform:
    """Rounds of groups → the last of each group in the day whose status is known, if it was bad.

    Of a group that recovered or was deleted after its last round only `events` know it.
    `ended_unknown`: it was `UNKNOWN` in all later rounds, which is no recovery.
    """

    def transform(rounds: DataFrame) -> DataFrame:
        known_changes = (F.col("at_ms") < day.to_ms) & (F.col("after") != UNKNOWN)
        changed = events.where(known_changes).transform(last_changes)
        known_ms = F.when(F.col("status") != UNKNOWN, F.col("at_ms"))
        later = F.col("changed_ms") >= F.col("last.at_ms")
        ended = later & ~F.coalesce(F.col("became").isin(*BAD), F.lit(False))  # noqa: FBT003
        return (
            rounds.where(within("at_ms", day.from_ms, day.to_ms))
            .groupBy(*GROUP)
            .agg(
                F.max_by(F.struct(*_STANDING), known_ms).alias("last"),
                (F.max("at_ms") > F.max(known_ms)).alias("ended_unknown"),
            )
            .where(F.col("last.status").isin(*BAD))
            .join(changed, on=list(GROUP), how="left")
            .where(~F.coalesce(ended, F.lit(False)))  # noqa: FBT003 a literal of SQL
            .select(*GROUP, *(f"last.{name}" for name in _STANDING), "ended_unknown")
        )

    return transform


def causes(spells: DataFrame) -> Transform:
    """Rounds of groups → how often each cause was named in each of `SPELLS`, and the lags then.

    Without a certainty: no cause was looked for.
    """

    def transform(rounds: DataFrame) -> DataFrame:
        return (
            rounds.where(F.col("status").isin(*BAD))
            .join(spells, on=list(GROUP), how="inner")
            .where((F.col("at_ms") >= F.col("from_ms")) & (F.col("at_ms") < F.col("to_ms")))
            .groupBy("incident", "cause", "cause_certainty")
            .agg(
                F.count("at_ms").alias("rounds"),
                F.max("total_lag").alias("lag_max"),
                F.max("time_lag_s").alias("time_lag_max_s"),
            )
            .select(
                *("incident", "cause", "cause_certainty", "rounds", "lag_max", "time_lag_max_s")
            )
        )

    return transform


def sentences(spells: DataFrame) -> Transform:
    """Events → the last sentence of each cause, of the changes of status in each of `SPELLS`.

    Its numbers are of `at_ms`: no sentence is recorded until the status changes again.
    """

    def transform(events: DataFrame) -> DataFrame:
        return (
            events.where((F.col("event") == "group_status") & F.col("cause_certainty").isNotNull())
            .select(*GROUP, "at_ms", "cause", "detail")
            .join(spells, on=list(GROUP), how="inner")
            .where((F.col("at_ms") >= F.col("from_ms")) & (F.col("at_ms") < F.col("to_ms")))
            .groupBy("incident", "cause")
            .agg(F.max_by("detail", "at_ms").alias("sentence"), F.max("at_ms").alias("at_ms"))
            .select("incident", "cause", "sentence", "at_ms")
        )

    return transform


def newest_offsets(samples: DataFrame) -> DataFrame:
    """Samples of partitions → the newest one of each."""
    offsets = ("committed_offset", "log_start_offset", "log_end_offset")
    return (
        samples.groupBy(*PARTITION)
        .agg(F.max_by(F.struct("at_ms", *offsets), "at_ms").alias("last"))
        .select(*PARTITION, "last.at_ms", *(f"last.{name}" for name in offsets))
    )
