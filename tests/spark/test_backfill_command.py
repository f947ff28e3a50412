"""`lagwatch backfill` as people run it, and into Elasticsearch."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from tests.support.backfilled import Store
from tests.support.copies import some_hours
from tests.support.elastic_history import settings, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch


def lagwatch(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lagwatch", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
    )


def test_a_replay_into_elasticsearch_gives_the_same_rows(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    where = some_hours(tmp_path / "copies", hours=1, groups="abc").write()
    there = settings(elasticsearch.url, unique_prefix())
    parquet = Store(spark, tmp_path / "store")
    elastic = Store(
        spark, tmp_path / "none", HistorySettings(store="elasticsearch", elasticsearch=there)
    )

    for store in (parquet, elastic):
        store.backfill(where)
    elasticsearch.client().indices.refresh(index=f"{there.prefix}-*")
    again = elastic.backfill(where)

    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS):
        assert elastic.rows(kind) == parquet.rows(kind)
    assert again.clusters[0].rounds == 0


@pytest.mark.timeout(200)
def test_the_command_fills_a_store_from_copies(tmp_path: Path) -> None:
    where = some_hours(tmp_path / "copies", hours=1, groups="abc").write()
    words = ["backfill", "--from", f"parquet:{where}", "--cluster", "here"]
    words += ["--store", str(tmp_path / "store"), "--master", "local[1]"]
    span = ["--since", "2026-11-21T12:00:00Z", "--until", "2026-11-21T12:30:00Z"]

    done = lagwatch(*words, *span)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("here: 1 gap, 30 min, 60 rounds from 2026-11-21T12:00:00Z")
    assert list((tmp_path / "store" / "samples" / "cluster=here").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "zookeeper"], "not one of kafka"),
        (["--from", "parquet"], "say where the copies are"),
        (["--since", "yesterday", "--from", "telegraf"], "no day and no instant"),
        ([], "needs the clusters of a configuration"),
    ],
)
def test_bad_arguments_are_refused_before_spark_starts(words: list[str], said: str) -> None:
    done = lagwatch("backfill", *words)

    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
