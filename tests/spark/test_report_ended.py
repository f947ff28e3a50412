"""Groups that ended, or recovered, after their last sample of the day: only events know it."""

from datetime import date
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession

from lagwatch.jobs.report import troubles, turnover
from lagwatch.jobs.report.day import Day

DAY = Day(date=date(2026, 11, 20), zone=ZoneInfo("UTC"))
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
ROUNDS = (
    "cluster string, `group` string, at_ms long, status string, total_lag long, time_lag_s double,"
    " time_lag_reason string, catch_up_s double, catch_up_reason string, loss_in_s double,"
    " loss_reason string, since_ms long, partitions int"
)
EVENTS = "cluster string, `group` string, event string, at_ms long, before string, after string"
BUCKETS = "cluster string, `group` string, bucket_ms long, lag_max long"
LAST_MS = DAY.from_ms + 12 * HOUR_MS + 250_000
"""The last round of the group in trouble."""

Change = tuple[int, str | None, str]


def _events(spark: SparkSession, *changes: Change) -> DataFrame:
    rows = [("here", "billing", "group_status", *change) for change in changes]
    return spark.createDataFrame(rows, EVENTS)


def _rounds(spark: SparkSession) -> DataFrame:
    rows = [
        (
            *("here", "billing", at_ms, "ERR", 85, 233.6, "measured"),
            *(None, "not_moving", None, None, None, 3),
        )
        for at_ms in (LAST_MS - 10_000, LAST_MS)
    ]
    return spark.createDataFrame(rows, ROUNDS)


@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        pytest.param([], 1, id="without any event"),
        pytest.param([(LAST_MS - 5_000, "OK", "ERR")], 1, id="bad since before"),
        pytest.param([(LAST_MS + 7_267, "ERR", "NOTFOUND")], 0, id="deleted"),
        pytest.param([(LAST_MS + 7_267, "ERR", "OK")], 0, id="recovered"),
        pytest.param([(LAST_MS + 7_267, "WARN", "ERR")], 1, id="worse"),
        pytest.param([(LAST_MS - 5_000, "ERR", "NOTFOUND")], 1, id="made again"),
        pytest.param(
            [(LAST_MS + 1_000, "ERR", "NOTFOUND"), (LAST_MS + 2_000, None, "ERR")],
            1,
            id="made again within an interval",
        ),
        pytest.param([(DAY.to_ms, "ERR", "OK")], 1, id="recovered the day after"),
    ],
)
def test_nothing_is_to_do_for_a_group_that_ended_or_recovered_after_its_last_round(
    spark, changes, listed
) -> None:
    rows = _rounds(spark).transform(troubles.standing(DAY, _events(spark, *changes)))

    assert [(row["group"], row["at_ms"]) for row in rows.collect()] == [("billing", LAST_MS)][
        :listed
    ]


@pytest.mark.parametrize(
    ("changes", "listed"),
    [
        pytest.param([], True, id="without any event"),
        pytest.param([(LAST_MS + 9_000, "ERR", "UNKNOWN")], True, id="unknown"),
        pytest.param([(LAST_MS + 9_000, None, "UNKNOWN")], True, id="restarted"),
        pytest.param(
            [(LAST_MS + 5_000, "ERR", "OK"), (LAST_MS + 9_000, "OK", "UNKNOWN")],
            False,
            id="recovered before",
        ),
        pytest.param([(LAST_MS + 15_000, "UNKNOWN", "OK")], False, id="recovered after"),
        pytest.param([(LAST_MS + 15_000, "UNKNOWN", "NOTFOUND")], False, id="deleted"),
    ],
)
def test_a_group_that_ended_unknown_is_to_do_with_its_last_known_round(
    spark, changes, listed
) -> None:
    unknown = [("here", "billing", LAST_MS + 10_000, "UNKNOWN", *[None] * 9)]
    rounds = _rounds(spark).union(spark.createDataFrame(unknown, ROUNDS))

    rows = rounds.transform(troubles.standing(DAY, _events(spark, *changes))).collect()

    found = [(row["status"], row["at_ms"], row["total_lag"], row["ended_unknown"]) for row in rows]
    assert found == [("ERR", LAST_MS, 85, True)] * listed


def test_the_sentence_of_a_cause_is_the_last_one_with_its_instant(spark) -> None:
    """A later sentence of another cause, or without one, does not date it."""
    said = [
        (1_000, "records_lost", "certain", "the log begins at 100"),
        (2_000, "records_lost", "certain", "the log begins at 5,122"),
        (3_000, "all_slow", "likely", "too slow"),
        (4_000, None, None, None),
    ]
    events = spark.createDataFrame(
        [("here", "billing", "group_status", *row) for row in said],
        "cluster string, `group` string, event string, at_ms long, cause string,"
        " cause_certainty string, detail string",
    )
    spells = spark.createDataFrame([(0, "here", "billing", 500, 9_000)], troubles.SPELLS)

    rows = events.transform(troubles.sentences(spells)).collect()

    assert {(row["cause"], row["sentence"], row["at_ms"]) for row in rows} == {
        ("records_lost", "the log begins at 5,122", 2_000),
        ("all_slow", "too slow", 3_000),
    }


def _buckets(spark: SparkSession, last_ms: int) -> DataFrame:
    """Of one group up to a bucket, and of another all the time."""
    first_ms = DAY.from_ms - 48 * HOUR_MS
    seen = {"billing": (first_ms, last_ms), "other": (first_ms, DAY.to_ms - 300_000)}
    rows = [("here", group, at_ms, 85) for group, instants in seen.items() for at_ms in instants]
    return spark.createDataFrame(rows, BUCKETS)


@pytest.mark.parametrize(
    ("last_ms", "deleted_ms", "gone"),
    [
        (DAY.to_ms - 10 * MINUTE_MS, DAY.to_ms - 8 * MINUTE_MS, True),
        (DAY.to_ms - 10 * MINUTE_MS, None, False),
        (DAY.to_ms - 10 * MINUTE_MS, DAY.to_ms - 30 * MINUTE_MS, False),
        (DAY.to_ms - 10 * MINUTE_MS, DAY.to_ms, False),
        (DAY.from_ms - 10 * MINUTE_MS, DAY.from_ms - 8 * MINUTE_MS, False),
        (DAY.from_ms - 10 * MINUTE_MS, DAY.from_ms + 1, True),
        (DAY.from_ms - 10 * MINUTE_MS, None, True),
    ],
)
def test_a_group_that_was_deleted_in_the_day_is_gone(spark, last_ms, deleted_ms, gone) -> None:
    changes = [] if deleted_ms is None else [(deleted_ms, "ERR", "NOTFOUND")]

    rows = _buckets(spark, last_ms).transform(turnover.turns(DAY, _events(spark, *changes)))

    found = [(row["group"], row["turn"], row["at_ms"]) for row in rows.collect()]
    assert found == [("billing", "gone", last_ms)] * gone
