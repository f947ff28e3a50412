"""Which rows of an offsets topic are kept for a time, and what they say of missing ones."""

from typing import Any

from pyspark.sql import SparkSession

from lagwatch.jobs.backfill.coverage import NEVER_MS, look_at, within
from lagwatch.jobs.sources.offsets import SCHEMA

FROM_MS, TO_MS = 1000, 2000


def row(order: int, at_ms: int | None, *, missing: int = 0, what: str = "commit") -> Any:  # noqa: ANN401
    group, topic = ("g", "t") if at_ms is not None else (None, None)
    return ("here", 0, order, what, group, topic, order, 7, at_ms, missing, None)


def test_records_missing_before_a_later_row_may_be_of_the_time(spark: SparkSession) -> None:
    rows = [
        row(5, 900, missing=3),
        row(6, 1500),
        row(9, 2500, missing=2),
        row(10, 2600),
        row(11, None, what="end"),
    ]

    kept = spark.createDataFrame(rows, SCHEMA).transform(within(FROM_MS, TO_MS))

    found = [
        (*tuple(each)[2:5], each["commit_ms"], each["missing_before"]) for each in kept.collect()
    ]
    assert found == [
        (6, "commit", "g", 1500, 0),
        (9, "hole", None, None, 2),
        (11, "end", None, None, 0),
    ]
    read = look_at(kept, shards=1)
    assert (read.commits, read.groups, read.complete_from) == (1, 1, {0: NEVER_MS})


def test_a_time_with_nothing_missing_up_to_the_next_row_is_complete(spark: SparkSession) -> None:
    rows = [row(5, 900, missing=3), row(6, 1500), row(7, 2500), row(8, None, what="end")]

    kept = spark.createDataFrame(rows, SCHEMA).transform(within(FROM_MS, TO_MS))

    assert [each["order"] for each in kept.collect()] == [6, 8]
    assert look_at(kept, shards=1).complete_from == {}
