"""Incidents from changes of status and buckets, the odd cases: small frames, compared whole."""

from datetime import date
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from lagwatch.jobs.report import incidents
from lagwatch.jobs.report.day import Day

DAY = Day(date=date(2026, 11, 20), zone=ZoneInfo("UTC"))
HOUR_MS = 3_600_000
LAST_MS = DAY.from_ms + 23 * HOUR_MS + 300_000
EVENTS = (
    "cluster string, `group` string, event string, at_ms long, before string, after string,"
    " rule string"
)
BUCKETS = (
    "cluster string, `group` string, bucket_ms long, ok_s double, warn_s double,"
    " err_s double, unknown_s double, lag_max long, time_lag_max_s double"
)
ROUNDS = "cluster string, `group` string, at_ms long, reason string, interval_ms int"
FOUND = (
    "cluster string, `group` string, from_ms long, to_ms long, last_seen_ms long, seconds double,"
    " worst string, rule string, lag_max long, time_lag_max_s double"
)


def at(hour: float) -> int:
    return DAY.from_ms + round(hour * HOUR_MS)


def change(hour: float, before: str | None, after: str, rule: str | None = None) -> tuple:
    return ("here", "billing", "group_status", at(hour), before, after, rule)


def buckets(spark: SparkSession, bad: tuple[float, float] | None, last: float = 24) -> DataFrame:
    """Of one group, an hour each; ERR between two hours; the lag is the hour's number."""
    rows = []
    for hour in range(-4, round(last)):
        err = 300.0 if bad is not None and bad[0] <= hour < bad[1] else 0.0
        states = (300.0 - err, 0.0, err, None)
        rows.append(("here", "billing", at(hour), *states, 100 + hour, float(100 + hour)))
    return spark.createDataFrame(rows, BUCKETS)


def found(
    spark: SparkSession, changes: list[tuple], rows: DataFrame, rounds_ms: tuple[int, ...] = ()
) -> DataFrame:
    events = spark.createDataFrame(changes, EVENTS)
    rounds = spark.createDataFrame(
        [("here", "billing", at_ms, "interval", 10_000) for at_ms in rounds_ms], ROUNDS
    )
    return events.transform(incidents.spells).transform(incidents.of_day(DAY, rows, rounds))


def expected(spark: SparkSession, *rows: tuple) -> DataFrame:
    """Rows with all but when the group was last recorded: in the bucket of the last hour."""
    whole = [("here", "billing", *row[:2], LAST_MS, *row[2:]) for row in rows]
    return spark.createDataFrame(whole, FOUND)


def test_getting_worse_and_better_again_is_one_incident(spark) -> None:
    changes = [
        change(2, "OK", "WARN", "lag_not_decreasing"),
        change(3, "WARN", "ERR", "stopped"),
        change(4, "ERR", "WARN", "lag_not_decreasing"),
        change(5, "WARN", "OK", "progressing"),
        change(8, "OK", "WARN", "lag_not_decreasing"),
        change(9, "WARN", "NOTFOUND"),
    ]

    seen = found(spark, changes, buckets(spark, (2, 9)))

    assertDataFrameEqual(
        seen,
        expected(
            spark,
            (at(2), at(5), 10_800.0, "ERR", "stopped", 104, 104.0),
            (at(8), at(9), 3600.0, "WARN", "lag_not_decreasing", 108, 108.0),
        ),
    )


@pytest.mark.parametrize(
    ("changes", "bad", "row"),
    [
        pytest.param(
            [change(1, "ERR", "OK", "progressing")],
            (-4, 1),
            (None, at(1), 3600.0, "ERR", None, 100, 100.0),
            id="it began before the history and ends",
        ),
        pytest.param(
            [change(-30, "OK", "ERR", "stalled")],
            (-4, 24),
            (at(-30), None, 83_100.0, "ERR", "stalled", 123, 123.0),
            id="it began before the day and is open",
        ),
        pytest.param(
            [change(2, "OK", "ERR", "stalled")],
            (2, 4),
            (at(2), at(3) + 300_000, 3900.0, "ERR", "stalled", 103, 103.0),
            id="it recovered while nobody recorded changes",
        ),
        pytest.param(
            [change(-30, None, "OK")],
            (5, 24),
            (at(5), None, 5700.0, "ERR", None, 123, 123.0),
            id="it was bad and no change was ever recorded",
        ),
        pytest.param(
            [],
            (-4, 3),
            (None, at(2) + 300_000, 900.0, "ERR", None, 102, 102.0),
            id="it was bad from the first bucket on",
        ),
        pytest.param(
            [],
            (-2, 3),
            (at(-2), at(2) + 300_000, 900.0, "ERR", None, 102, 102.0),
            id="it was bad since the day before",
        ),
    ],
)
def test_what_no_change_tells_is_reported_by_the_buckets(spark, changes, bad, row) -> None:
    seen = found(spark, changes, buckets(spark, bad))

    assertDataFrameEqual(seen, expected(spark, row))


def two_troubles(
    spark: SparkSession, first: tuple[float, float], second: tuple[float, float]
) -> DataFrame:
    """Of one group, a bucket every five minutes; ERR between these hours."""
    rows = []
    for number in range(-24 * 12, 24 * 12):
        hour = number / 12
        err = 300.0 if any(begin <= hour < end for begin, end in (first, second)) else 0.0
        rows.append(("here", "billing", at(hour), 300.0 - err, 0.0, err, None, round(err), err))
    return spark.createDataFrame(rows, BUCKETS)


def spans(rows: DataFrame) -> list[tuple[int | None, int | None, float]]:
    return sorted((row["from_ms"], row["to_ms"], row["seconds"]) for row in rows.collect())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("OK", "WARN", id="well and then bad"),
        pytest.param("OK", "ERR", id="the same words again"),
    ],
)
def test_a_trouble_whose_end_was_not_recorded_ends_with_its_last_bucket(
    spark, before, after
) -> None:
    changes = [
        change(2, "OK", "ERR", "stopped"),
        change(20, before, after),
        change(20.5, after, "OK"),
    ]

    seen = found(spark, changes, two_troubles(spark, (2, 2.5), (20, 20.5)))

    assert spans(seen) == [(at(2), at(2.5), 1800.0), (at(20), at(20.5), 1800.0)]


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param([change(2, "OK", "ERR"), change(2.5, "ERR", "OK")], id="of the first"),
        pytest.param([change(20, "OK", "ERR"), change(20.5, "ERR", "OK")], id="of the second"),
        pytest.param([], id="of none"),
    ],
)
def test_of_two_troubles_each_is_reported_whichever_has_recorded_changes(spark, changes) -> None:
    seen = found(spark, changes, two_troubles(spark, (2, 2.5), (20, 20.5)))

    assert spans(seen) == [(at(2), at(2.5), 1800.0), (at(20), at(20.5), 1800.0)]


def test_a_trouble_over_midnight_without_recorded_changes_began_the_day_before(spark) -> None:
    seen = found(spark, [], two_troubles(spark, (-1, 0.5), (15, 16)))

    assert spans(seen) == [(at(-1), at(0.5), 1800.0), (at(15), at(16), 3600.0)]


def test_a_trouble_of_the_day_before_whose_end_was_not_recorded_is_none_of_the_day(spark) -> None:
    changes = [change(-22, "OK", "ERR"), change(10, "OK", "WARN"), change(10.5, "WARN", "OK")]

    seen = found(spark, changes, two_troubles(spark, (-22, -21.5), (10, 10.5)))

    assert spans(seen) == [(at(10), at(10.5), 1800.0)]


@pytest.mark.parametrize(
    ("changes", "span"),
    [
        pytest.param([], (at(2), None, 79_200.0), id="no change"),
        pytest.param([change(4, "ERR", "UNKNOWN")], (at(2), None, 79_200.0), id="unknown"),
        pytest.param([change(4, None, "UNKNOWN")], (at(2), None, 79_200.0), id="restarted"),
        pytest.param(
            [change(4, "ERR", "UNKNOWN"), change(6, "UNKNOWN", "ERR"), change(8, "ERR", "OK")],
            (at(2), at(8), 21_600.0),
            id="bad again",
        ),
        pytest.param(
            [change(4, "ERR", "UNKNOWN"), change(8, "UNKNOWN", "OK")],
            (at(2), at(8), 21_600.0),
            id="recovered",
        ),
        pytest.param([change(20, "OK", "UNKNOWN")], (at(2), at(4), 7200.0), id="well before it"),
    ],
)
def test_unknown_is_no_recovery(spark, changes, span) -> None:
    rows = two_troubles(spark, (2, 4), (0, 0))
    after = F.col("bucket_ms") >= at(4)
    unknown = rows.withColumn("unknown_s", F.when(after, 300.0)).withColumn(
        "ok_s", F.when(after, 0.0).otherwise(F.col("ok_s"))
    )

    seen = found(spark, [change(2, "OK", "ERR", "stopped"), *changes], unknown)

    (row,) = seen.collect()
    assert (row["from_ms"], row["to_ms"], row["seconds"]) == span
    assert (row["worst"], row["rule"]) == ("ERR", "stopped")


def test_a_trouble_that_two_instances_recorded_is_one(spark) -> None:
    second = 1 / 3600
    changes = [
        change(2, "OK", "ERR"),
        change(2 + second, "OK", "ERR"),
        change(4, "ERR", "OK"),
        change(4 + second, "ERR", "OK"),
    ]

    seen = found(spark, changes, two_troubles(spark, (2, 4), (0, 0)))

    assert spans(seen) == [(at(2), at(4), 7200.0)]


def test_what_ended_before_the_day_or_was_never_bad_is_none(spark) -> None:
    changes = [change(-9, "OK", "ERR", "stopped"), change(-8, "ERR", "OK", "progressing")]

    seen = found(spark, changes, buckets(spark, None))

    assertDataFrameEqual(seen, expected(spark))


def test_a_gap_in_the_last_bucket_does_not_hide_its_last_round(spark) -> None:
    """Recorded from 05:00:00 to 05:02:00, and from 05:04:00 to the round of 05:04:50."""
    rows = buckets(spark, (2, 24), last=6)
    until = F.when(F.col("bucket_ms") == at(5), F.lit(180.0)).otherwise(F.col("err_s"))
    rounds_ms = tuple(
        at(5) + at_ms for at_ms in (*range(0, 120_000, 10_000), *range(240_000, 300_000, 10_000))
    )
    changes = [change(2, "OK", "ERR", "stopped")]

    seen = found(spark, changes, rows.withColumn("err_s", until), rounds_ms)

    (row,) = seen.collect()
    assert row["last_seen_ms"] == at(5) + 290_000
    assert row["seconds"] == 3 * 3600 + 300


def test_an_open_incident_lasts_no_longer_than_its_group_was_recorded(spark) -> None:
    rows = buckets(spark, (2, 24), last=6)
    until = F.when(F.col("bucket_ms") == at(5), F.lit(120.0)).otherwise(F.col("err_s"))

    seen = found(spark, [change(2, "OK", "ERR", "stopped")], rows.withColumn("err_s", until))

    (row,) = seen.collect()
    assert (row["to_ms"], row["last_seen_ms"]) == (None, at(5) + 120_000)
    assert row["seconds"] == 3 * 3600 + 120
