"""What the report compares of a deployment."""

from datetime import date
from zoneinfo import ZoneInfo

from pyspark.sql import SparkSession

from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.deployments import around
from lagwatch.jobs.report.frames import BUCKET_MS

_DAY = Day(date=date(2026, 3, 4), zone=ZoneInfo("UTC"))
_NOON_MS = _DAY.from_ms + 12 * HOUR_MS
_BUCKETS = (
    "cluster string, group string, bucket_ms long, lag_sum long, lag_known long, "
    "time_lag_max_s double, consumed long, consumed_s double, produced long, produced_s double, "
    "ok_s double, warn_s double, err_s double, rebalances long"
)
_EVENTS = (
    "cluster string, group string, at_ms long, event string, after string, detail string, "
    "count long"
)


def test_the_hours_around_a_deployment_end_where_another_version_was_live(
    spark: SparkSession,
) -> None:
    """Version 1 reads 8/s, 2 for half an hour 200/s, then 1 again: rolled back."""
    first_ms, second_ms, third_ms = (_NOON_MS + minutes * 60_000 + 1000 for minutes in (2, 62, 92))

    def bucket(at_ms: int) -> tuple[object, ...]:
        read = (200 if second_ms < at_ms < third_ms else 8) * 300
        lag, verdict = (10, 1, 1.0), (300.0, 0.0, 0.0, 0)
        return ("here", "slow", at_ms, *lag, read, 300.0, 10, 300.0, *verdict)

    times = range(_NOON_MS - HOUR_MS, _NOON_MS + 3 * HOUR_MS, BUCKET_MS)
    events = [
        ("here", "slow", at_ms, "deployment", version, "{}", 1)
        for at_ms, version in ((first_ms, "1"), (second_ms, "2"), (third_ms, "1 again"))
    ]
    transform = around(_DAY, spark.createDataFrame([bucket(at_ms) for at_ms in times], _BUCKETS))

    rows = spark.createDataFrame(events, _EVENTS).transform(transform).orderBy("at_ms").collect()

    seen = [(row.before_consumed_per_s, row.after_consumed_per_s) for row in rows]
    assert seen == [(8, 8), (8, 200), (200, 8)]
    assert [row.after_seconds for row in rows] == [55 * 60, 25 * 60, 60 * 60]
