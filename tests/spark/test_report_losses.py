"""Messages lost in a day, each counted once: small frames."""

import json
from datetime import date
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession

from lagwatch.jobs.report import retention
from lagwatch.jobs.report.day import Day

DAY = Day(date=date(2026, 11, 28), zone=ZoneInfo("UTC"))
NOON_MS = DAY.from_ms + 12 * 3_600_000
YESTERDAY_MS = NOON_MS - 24 * 3_600_000
EVENTS = (
    "cluster string, `group` string, topic string, partition int, event string, at_ms long,"
    " detail string"
)
SAMPLES = (
    "cluster string, `group` string, topic string, partition int, at_ms long,"
    " committed_offset long, log_end_offset long, log_start_offset long, topic_id string,"
    " status string"
)
RECREATED = -1


def _events(spark: SparkSession, *found: tuple) -> DataFrame:
    """Of instant, first offset and end, and whether all are lost; or a re-creation of the topic."""
    rows = [
        ("here", "billing", "orders", None, "topic_recreated", at_ms, None)
        if first == RECREATED
        else (
            *("here", "billing", "orders", 0, "records_lost", at_ms),
            json.dumps({"first": first, "end": end, "exact": exact}),
        )
        for at_ms, first, end, exact in found
    ]
    return spark.createDataFrame(rows, EVENTS)


def _samples(spark: SparkSession, *found: tuple) -> DataFrame:
    """Of instant, committed offset, log start and id of the topic."""
    rows = [
        ("here", "billing", "orders", 0, at_ms, committed, 20_000, start, topic_id, "OK")
        for at_ms, committed, start, topic_id in found
    ]
    return spark.createDataFrame(rows, SAMPLES)


def _lost(samples: DataFrame, events: DataFrame) -> tuple[int, bool]:
    rows = samples.transform(retention.risks(DAY, events)).collect()
    return next(((row["lost"], row["lost_at_most"]) for row in rows), (0, False))


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        pytest.param(
            [(NOON_MS, 5_879, 6_131, True), (NOON_MS + 900, 5_879, 6_131, True)],
            (252, False),
            id="two instances wrote it",
        ),
        pytest.param(
            [
                (NOON_MS, 5_879, 6_131, True),
                (NOON_MS + 1, 6_131, 6_383, True),
                (NOON_MS + 9_000, 6_131, 8_895, False),
            ],
            (3_016, True),
            id="written again after a kill, with more",
        ),
        pytest.param(
            [(NOON_MS, 0, 900, True), (NOON_MS + 1, 100, 200, True), (NOON_MS + 2, 300, 400, True)],
            (900, False),
            id="within another",
        ),
        pytest.param(
            [
                (NOON_MS, 100, 900, True),
                (NOON_MS + 1, RECREATED, 0, True),
                (NOON_MS + 2, 0, 300, True),
            ],
            (1_100, False),
            id="in a new log",
        ),
        pytest.param(
            [(YESTERDAY_MS, 0, 500, False), (NOON_MS, 200, 600, True)],
            (100, False),
            id="partly written the day before",
        ),
        pytest.param([(YESTERDAY_MS, 0, 500, True)], (0, False), id="of the day before"),
    ],
)
def test_each_lost_message_of_the_day_is_counted_once(spark, events, lost) -> None:
    nothing_deleted = _samples(spark, (NOON_MS, 9_000, 9_000, "a"))

    assert _lost(nothing_deleted, _events(spark, *events)) == lost


@pytest.mark.parametrize(
    ("samples", "lost"),
    [
        pytest.param([(1_000, 6_000, "a"), (1_000, 6_000, "a")], 0, id="before the day"),
        pytest.param([(1_000, 6_000, "a"), (1_000, 6_100, "a")], 100, id="in the day"),
        pytest.param([(1_000, 900, "a"), (1_000, 1_300, "a")], 300, id="partly read"),
        pytest.param([(1_000, 6_000, "a"), (1_000, 1_300, "b")], 300, id="of a new log"),
    ],
)
def test_what_the_log_start_had_passed_before_the_day_is_not_lost_in_it(
    spark, samples, lost
) -> None:
    found = [(NOON_MS + number, *sample) for number, sample in enumerate(samples)]

    assert _lost(_samples(spark, *found), _events(spark)) == (lost, False)


PER_S = 50


def _stopped(spark: SparkSession, hour: int, *, retained_h: int, status: str = "STOP") -> DataFrame:
    """Of a reader that kept up until an hour of the day: a sample each half hour, 50/s produced."""
    stop_ms = DAY.from_ms + hour * 3_600_000

    def end(at_ms: int) -> int:
        return 10_000_000 + (at_ms - DAY.from_ms) // 1000 * PER_S

    rows = [
        (
            *("here", "billing", "orders", 0, at_ms, end(min(at_ms, stop_ms)), end(at_ms)),
            *(end(at_ms) - retained_h * 3600 * PER_S, "a", "OK" if at_ms <= stop_ms else status),
        )
        for at_ms in range(DAY.from_ms, DAY.to_ms, 1_800_000)
    ]
    return spark.createDataFrame(rows, SAMPLES)


@pytest.mark.parametrize(
    ("hour", "retained_h", "status", "left_s"),
    [
        pytest.param(22, 4, "STOP", [2.5 * 3600], id="stopped at 22:00, in 2 hours and a half"),
        pytest.param(23, 30, "STOP", [29.5 * 3600], id="little is unread, in a day and a half"),
        pytest.param(23, 30, "OK", [], id="little is unread of a partition that is OK"),
        pytest.param(24, 30, "OK", [], id="all is read"),
    ],
)
def test_the_time_left_is_that_of_the_last_hour(spark, hour, retained_h, status, left_s) -> None:
    samples = _stopped(spark, hour, retained_h=retained_h, status=status)

    rows = samples.transform(retention.risks(DAY, _events(spark))).collect()

    assert [row["left_s"] for row in rows] == left_s
