"""What Telegraf recorded of Burrow becomes history; what it did not record stays unknown."""

import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.request import From
from tests.support.backfilled import Store
from tests.support.elastic_history import settings, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import NOON_MS, group_sample, group_samples

ROUNDS_S = range(0, 180, 60)


def document(second: int, measurement: str, tags: dict[str, str], **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    at = datetime.fromtimestamp(NOON_MS / 1000 + second, UTC)
    return {
        "@timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "measurement_name": measurement,
        measurement: fields,
        "tag": {"host": "tg-host", "cluster": "here", **tags},
    }


def of_group(second: int, *, status: str = "WARN", lag: int = 7) -> list[dict[str, Any]]:
    """A round: a group with a partition that is behind, one that is not and one never committed."""
    group = {"group": "billing"}
    stamp = NOON_MS + second * 1000 - 2625

    def partition(number: int, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
        tags = {"topic": "orders", "partition": str(number), "owner": "/10.0.0.7", **group}
        return document(second, "burrow_partition", tags, **fields)

    return [
        partition(0, lag=lag, offset=93, status=status, status_code=3, timestamp=stamp),
        partition(1, lag=0, offset=100, status="OK", status_code=1, timestamp=stamp),
        partition(2, lag=0, offset=0, status="OK", status_code=1, timestamp=0),
        document(
            second,
            "burrow_group",
            group,
            status=status,
            status_code=3,
            partition_count=3,
            total_lag=lag,
            lag=lag,
            offset=93,
            timestamp=stamp,
        ),
        document(second, "burrow_topic", {"topic": "orders", "partition": "0"}, offset=101),
        document(second, "burrow_topic", {"topic": "orders", "partition": "2"}, offset=500),
    ]


@pytest.fixture
def pattern(elasticsearch: EmbeddedElasticsearch) -> str:
    """Documents of three rounds, one of them sent twice, and two that cannot be used."""
    index = f"{unique_prefix()}-2026.11.21"
    documents = [document for second in ROUNDS_S for document in of_group(second)]
    documents += of_group(60)
    documents.append({"@timestamp": "2026-11-21T12:00:00Z", "measurement_name": "cpu", "tag": {}})
    nameless = copy.deepcopy(documents[1])
    assert nameless["tag"].pop("partition")
    documents.append(nameless)
    client = elasticsearch.client()
    for document in documents:
        client.index(index=index, document=document)
    client.indices.refresh(index=index)
    return index.split("-", maxsplit=1)[0] + "-*"


def take_over(store: Store, elasticsearch: EmbeddedElasticsearch, pattern: str) -> Any:  # noqa: ANN401
    return store.backfill(
        pattern, source=From.TELEGRAF, elasticsearch=settings(elasticsearch.url, "lagwatch")
    )


def test_verdicts_and_lags_are_taken_over_and_nothing_is_guessed(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, pattern: str, tmp_path: Path
) -> None:
    store = Store(spark, tmp_path / "store")

    result = take_over(store, elasticsearch, pattern)

    samples, groups = store.rows(), store.rows(Kind.GROUP_SAMPLES)
    assert [row["at_ms"] - NOON_MS for row in groups] == [0, 60_000, 120_000]
    assert result.total("samples") == len(samples) == 9
    behind, level, never = samples[0], samples[3], samples[6]
    assert (behind["lag"], behind["committed_offset"], behind["status"]) == (7, 93, "WARN")
    assert (behind["rule"], behind["time_lag_s"]) == ("lag_not_decreasing", None)
    assert behind["commit_ms"] == NOON_MS - 2625
    assert (level["lag"], level["time_lag_s"], level["rule"]) == (0, 0.0, None)
    assert (never["lag"], never["committed_offset"], never["commit_ms"]) == (None, None, None)
    # offset and lag of one answer; without a commit what Burrow said of the topic
    assert [row["log_end_offset"] for row in (behind, level, never)] == [100, 100, 500]
    unknown = ("log_start_offset", "complete", "client_id", "group_state")
    assert {row[name] for row in samples for name in unknown} == {None}
    assert {(row["source"], row["method"], row["owner"]) for row in samples} == {
        ("telegraf", "telegraf", "/10.0.0.7")
    }
    first = groups[0]
    assert (first["status"], first["total_lag"], first["max_lag"]) == ("WARN", 7, 7)
    assert (first["max_lag_topic"], first["max_lag_partition"]) == ("orders", 0)
    assert (first["observed"], first["unchanged"], first["unknown_partitions"]) == (3, 0, 1)
    assert (first["interval_ms"], first["not_ok"], first["complete"]) == (60_000, 1, None)
    reasons = sorted(line.split(": ", maxsplit=1)[1] for line in store.run.set_aside)
    assert reasons == ["measurement_name is 'cpu'", "tag.partition is missing"]


def test_verdicts_that_changed_between_rounds_are_events_and_none_over_a_missing_round(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    prefix = unique_prefix()
    client = elasticsearch.client()
    for second, status in ((0, "OK"), (60, "WARN"), (120, "WARN"), (240, "OK"), (300, "ERR")):
        for document in of_group(second, status=status):
            client.index(index=f"{prefix}-2026.11.21", document=document)
    client.indices.refresh(index=f"{prefix}-*")
    store = Store(spark, tmp_path / "store")

    result = take_over(store, elasticsearch, f"{prefix}-*")

    verdicts = [
        (row["event"], (row["at_ms"] - NOON_MS) // 1000, row["before"], row["after"], row["lag"])
        for row in store.rows(Kind.EVENTS)
        if row["source"] == "telegraf"
    ]
    assert sorted(verdicts) == [
        ("group_status", 60, "OK", "WARN", 7),
        ("group_status", 300, "OK", "ERR", 7),
        ("partition_status", 60, "OK", "WARN", 7),
        ("partition_status", 300, "OK", "ERR", 7),
    ]
    assert result.total("events") == 4
    assert {row["topic"] for row in store.rows(Kind.EVENTS) if row["event"] == "group_status"} == {
        None
    }


def test_rows_of_ours_stay_and_running_it_again_changes_nothing(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, pattern: str, tmp_path: Path
) -> None:
    store = Store(spark, tmp_path / "store")
    live = [group_sample(at_ms=NOON_MS + second * 1000, total_lag=777) for second in (30, 60, 90)]
    opened = store.ref.open()
    opened.write([group_samples(live)], batch="live")
    opened.close()

    take_over(store, elasticsearch, pattern)
    once = store.rows(Kind.GROUP_SAMPLES)
    take_over(store, elasticsearch, pattern)

    assert store.rows(Kind.GROUP_SAMPLES) == once
    assert [(row["at_ms"] - NOON_MS, row["source"]) for row in once] == [
        (0, "telegraf"),
        (30_000, "live"),
        (60_000, "live"),
        (90_000, "live"),
        (120_000, "telegraf"),
    ]


@pytest.mark.thorough  # so are rows of other sources in test_backfill_command
def test_it_is_written_to_elasticsearch_alike(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, pattern: str, tmp_path: Path
) -> None:
    parquet = Store(spark, tmp_path / "store")
    there = settings(elasticsearch.url, unique_prefix())
    elastic = Store(
        spark, tmp_path / "none", HistorySettings(store="elasticsearch", elasticsearch=there)
    )

    for store in (parquet, elastic):
        take_over(store, elasticsearch, pattern)
    elasticsearch.client().indices.refresh(index=f"{there.prefix}-*")

    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS):
        assert elastic.rows(kind) == parquet.rows(kind)
