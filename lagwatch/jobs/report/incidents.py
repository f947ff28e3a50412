"""Times in which groups were WARN or ERR, from the changes of their status."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.frames import BAD, BUCKET_MS, GROUP, UNKNOWN, badness, within

_SPELL: Final = ("from_ms", "to_ms", "last_seen_ms", "seconds", "worst", "rule")
_RECORDED: Final = ("ok_s", "warn_s", "err_s", "unknown_s")
"""Of a bucket: together the time in which its group was recorded."""


def spells(events: DataFrame) -> DataFrame:
    """Changes of group status → one row per time in trouble, from the first bad word to the end.

    `UNKNOWN` is no end: a trouble goes on through it, as an open incident of the alerts does.
    `from_ms` is null for one that had begun before the first change, `to_ms` for one whose end is
    not recorded. Of these `ended_by_ms` is the next change, where that one says that the group was
    well before it.
    """
    order = W.partitionBy(*GROUP).orderBy("at_ms")
    before = order.rowsBetween(W.unboundedPreceding, -1)
    so_far = order.rowsBetween(W.unboundedPreceding, W.currentRow)
    said_before = F.last("said_bad", ignorenulls=True).over(before)
    said_so_far = F.last("said_bad", ignorenulls=True).over(so_far)
    was_bad = F.coalesce(said_before, F.col("began_bad")) & ~F.col("denies")
    starts = F.when(F.col("bad") & ~F.col("was_bad"), 1).otherwise(0)
    ended_ms = F.min(F.when(~F.col("bad"), F.col("at_ms")))
    return (
        events.where(F.col("event") == "group_status")
        .select(*GROUP, "at_ms", "before", "after", "rule")
        .withColumn("began_bad", F.coalesce(F.col("before").isin(*BAD), F.lit(False)))  # noqa: FBT003
        .withColumn("denies", _denies(F.lag("at_ms").over(order)))
        .withColumn("next_ms", F.lead("at_ms").over(order))
        .withColumn("said_bad", _said_bad())
        .withColumn("was_bad", was_bad)
        .withColumn("bad", F.coalesce(said_so_far, F.lit(False)))  # noqa: FBT003
        .withColumn("spell", F.sum(starts).over(so_far))
        .where(F.col("bad") | F.col("was_bad"))
        .groupBy(*GROUP, "spell")
        .agg(
            F.min(F.when(F.col("bad"), F.col("at_ms"))).alias("begun_ms"),
            F.min_by("was_bad", "at_ms").alias("older"),
            ended_ms.alias("to_ms"),
            F.when(ended_ms.isNull(), F.max_by("next_ms", "at_ms")).alias("ended_by_ms"),
            F.max_by(_word(), F.struct(badness(_word()), -F.col("at_ms"))).alias("worst"),
            F.max_by("rule", F.when(F.col("after").isin(*BAD), _order())).alias("rule"),
        )
        .select(
            *GROUP,
            F.when(~F.col("older"), F.col("begun_ms")).alias("from_ms"),
            *("to_ms", "ended_by_ms", "worst", "rule"),
        )
    )


def of_day(day: Day, buckets: DataFrame, rounds: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Rows of `spells` → those of the day, as `model.ReportedIncident`.

    Buckets add what the changes of status lack: that a group recovered while recording paused, or
    was in trouble before recording began. Rounds tell when a group was last recorded; where they
    are past their retention, the time recorded in the last bucket does.
    """

    def transform(found: DataFrame) -> DataFrame:
        trouble = (
            buckets.transform(_trouble(day))
            .join(rounds.transform(_last_rounds(day)), on=list(GROUP), how="left")
            .withColumn("recorded_to_ms", F.coalesce("round_end_ms", "recorded_to_ms"))
            .withColumn("last_seen_ms", F.coalesce("round_ms", "recorded_to_ms"))
        )
        ended = (
            found.join(trouble, on=list(GROUP), how="left")
            .withColumn("to_ms", F.coalesce("to_ms", "ended_by_ms", _unseen_end()))
            .where(F.coalesce(F.col("to_ms"), F.lit(day.to_ms)) > day.from_ms)
            .where(F.coalesce(F.col("from_ms"), F.lit(day.from_ms)) < day.to_ms)
            .withColumn("seconds", _overlap_s(day))
            .select(*GROUP, *_SPELL, "ended_by_ms")
        )
        announced = ended.groupBy(*GROUP).agg(
            F.collect_list(
                F.struct(
                    F.coalesce("from_ms", F.lit(0)).alias("from_ms"),
                    F.coalesce("to_ms", F.lit(day.to_ms)).alias("to_ms"),
                )
            ).alias("announced")
        )
        unannounced = (
            buckets.transform(_bad_spells(day))
            .join(announced, on=list(GROUP), how="left")
            .where(~F.coalesce(F.exists("announced", _overlaps), F.lit(False)))  # noqa: FBT003
            .join(trouble.select(*GROUP, "last_seen_ms"), on=list(GROUP), how="left")
            .select(*GROUP, *_SPELL)
        )
        of_both = ended.unionByName(unannounced, allowMissingColumns=True)
        return of_both.transform(_with_lag(day, buckets))

    return transform


def _with_lag(day: Day, buckets: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Add the greatest lag and time lag in the buckets of the day that lie within a spell.

    A bucket at its edge may have its maximum from before or after it, or from another spell.
    One with `ended_by_ms` ends with its last bucket in trouble; it is left out where all its
    trouble was before the day.
    """

    def transform(found: DataFrame) -> DataFrame:
        bucket_to_ms = F.col("bucket_ms") + BUCKET_MS
        from_ms = F.coalesce(F.col("from_ms"), F.lit(day.from_ms))
        ended = bucket_to_ms > F.coalesce(F.col("to_ms"), F.lit(day.to_ms))
        unseen = F.col("ended_by_ms").isNotNull()
        within_it = (F.col("bucket_ms") >= from_ms) & ~ended & (~unseen | F.col("bad"))
        in_trouble = F.col("bad") & (bucket_to_ms > from_ms) & ~ended
        began_today = F.when(F.col("from_ms") >= day.from_ms, F.col("ended_by_ms"))
        lags = buckets.where(within("bucket_ms", day.from_ms, day.to_ms)).select(
            *GROUP, "bucket_ms", "lag_max", "time_lag_max_s", (_bad_s() > 0).alias("bad")
        )
        return (
            found.join(lags, on=list(GROUP), how="left")
            .groupBy(*GROUP, *_SPELL, "ended_by_ms")
            .agg(
                F.max(F.when(within_it, F.col("lag_max"))).alias("lag_max"),
                F.max(F.when(within_it, F.col("time_lag_max_s"))).alias("time_lag_max_s"),
                F.max(F.when(in_trouble, bucket_to_ms)).alias("bad_to_ms"),
            )
            .withColumn(
                "to_ms",
                F.when(unseen, F.coalesce("bad_to_ms", began_today)).otherwise(F.col("to_ms")),
            )
            .where(~unseen | F.col("to_ms").isNotNull())
            .withColumn(
                "seconds", F.when(unseen, _between_s(day, "to_ms")).otherwise(F.col("seconds"))
            )
            .select(*GROUP, *_SPELL, "lag_max", "time_lag_max_s")
        )

    return transform


def _trouble(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Buckets → per group when it was last bad, last OK, and last recorded."""

    def transform(buckets: DataFrame) -> DataFrame:
        bad = _bad_s()
        return (
            buckets.where(F.col("bucket_ms") < day.to_ms)
            .groupBy(*GROUP)
            .agg(
                F.max(F.when(bad > 0, F.col("bucket_ms") + BUCKET_MS)).alias("bad_until_ms"),
                F.max(F.when(F.col("ok_s") > 0, F.col("bucket_ms") + BUCKET_MS)).alias(
                    "well_until_ms"
                ),
                F.max(F.col("bucket_ms") + _recorded_ms()).alias("recorded_to_ms"),
            )
        )

    return transform


def _bad_spells(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Buckets → one row per time in trouble of the day: from bad bucket to bad bucket.

    A bucket in which the group was only well ends it; one in which nothing is known does not.
    `from_ms` is null where no bucket before says that the group was well, `to_ms` where none after.
    """

    def transform(buckets: DataFrame) -> DataFrame:
        order = W.partitionBy(*GROUP).orderBy("bucket_ms")
        well = (_bad_s() == 0) & (F.col("ok_s") > 0)
        wells = F.sum(F.when(well, 1).otherwise(0))
        today = F.col("bucket_ms") >= day.from_ms
        return (
            buckets.where(F.col("bucket_ms") < day.to_ms)
            .withColumn("wells", wells.over(order.rowsBetween(W.unboundedPreceding, W.currentRow)))
            .withColumn("all_wells", wells.over(W.partitionBy(*GROUP)))
            .where(_bad_s() > 0)
            .groupBy(*GROUP, "wells", "all_wells")
            .agg(
                F.min("bucket_ms").alias("first_ms"),
                F.max(F.col("bucket_ms") + BUCKET_MS).alias("last_ms"),
                F.sum(F.when(today, _bad_s())).alias("seconds"),
                F.when(F.sum(F.when(today, F.col("err_s"))) > 0, "ERR")
                .otherwise("WARN")
                .alias("worst"),
            )
            .where(F.col("seconds") > 0)
            .withColumn("from_ms", F.when(F.col("wells") > 0, F.col("first_ms")))
            .withColumn("to_ms", F.when(F.col("wells") < F.col("all_wells"), F.col("last_ms")))
            .withColumn("rule", F.lit(None).cast("string"))
        )

    return transform


def _overlaps(announced: Column) -> Column:
    """Is a row of `_bad_spells` of a time in trouble that changes of status tell?"""
    return (F.col("first_ms") < announced["to_ms"]) & (announced["from_ms"] < F.col("last_ms"))


def _last_rounds(day: Day) -> Callable[[DataFrame], DataFrame]:
    """Rounds of groups → per group the last one of the day, and the end of its interval."""

    def transform(rounds: DataFrame) -> DataFrame:
        end_ms = F.col("at_ms") + F.coalesce("interval_ms", F.lit(0))
        return (
            rounds.where(within("at_ms", day.from_ms, day.to_ms))
            .where(F.col("reason") == "interval")
            .groupBy(*GROUP)
            .agg(F.max("at_ms").alias("round_ms"), F.max(end_ms).alias("round_end_ms"))
            .select(*GROUP, "round_ms", "round_end_ms")
        )

    return transform


def _unseen_end() -> Column:
    """End of a trouble without a recorded end, if the group was later seen well.

    Its last bad bucket.
    """
    return F.when(F.col("bad_until_ms") < F.col("well_until_ms"), F.col("bad_until_ms"))


def _recorded_ms() -> Column:
    seconds = sum((F.coalesce(name, F.lit(0.0)) for name in _RECORDED), start=F.lit(0.0))
    return F.least(F.round(seconds * 1000).cast("long"), F.lit(BUCKET_MS))


def _bad_s() -> Column:
    return F.coalesce("warn_s", F.lit(0.0)) + F.coalesce("err_s", F.lit(0.0))


def _denies(previous_ms: Column) -> Column:
    """True if a change says that the group was well before it, whatever the one before it said.

    Two instances record the same change one shortly after the other: that denies nothing.
    """
    said = (F.col("before") != UNKNOWN) & ~F.col("began_bad")
    apart = F.col("at_ms") - previous_ms >= BUCKET_MS
    return F.coalesce(said & apart, F.lit(False))  # noqa: FBT003 a literal of SQL


def _said_bad() -> Column:
    """Whether a group is in trouble after a change; null: as before it."""
    became_unknown = F.col("after") == UNKNOWN
    return (
        F.when(became_unknown & F.col("began_bad"), F.lit(True))  # noqa: FBT003 literals of SQL
        .when(became_unknown & F.col("denies"), F.lit(False))  # noqa: FBT003
        .when(became_unknown, None)
        .otherwise(F.coalesce(F.col("after").isin(*BAD), F.lit(False)))  # noqa: FBT003
    )


def _overlap_s(day: Day) -> Column:
    """Of one that is open, up to the end of its group's recording: what came after is unknown."""
    return _between_s(day, "to_ms", "recorded_to_ms")


def _between_s(day: Day, *to_ms: str) -> Column:
    """Seconds of the day from `from_ms` to the first of these instants that is known."""
    begin = F.greatest(F.coalesce(F.col("from_ms"), F.lit(day.from_ms)), F.lit(day.from_ms))
    end = F.least(F.coalesce(*to_ms, F.lit(day.to_ms)), F.lit(day.to_ms))
    return F.greatest(end - begin, F.lit(0)) / 1000


def _word() -> Column:
    """The bad word of a change: the new one, or else the old; null if neither is bad."""
    return F.when(F.col("after").isin(*BAD), F.col("after")).when(
        F.col("began_bad"), F.col("before")
    )


def _order() -> Column:
    return F.struct(badness(F.col("after")), -F.col("at_ms"))
