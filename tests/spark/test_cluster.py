"""The jobs on Spark elsewhere: a standalone cluster, spark-submit, Spark Connect."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.package import write_package
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded.ports import free_ports
from tests.support.history import group_sample, group_samples, sample, samples
from tests.support.spark_cluster import SPARK_HOME, connect_server, environment, standalone

ROOT = Path(__file__).parents[2]
_DEADLINE_S = 180
_HOUR_MS = 3_600_000
_THEN_MS = (SystemClock().now_ms() // _HOUR_MS - 48) * _HOUR_MS
"""Over, and within the retention: the commands themselves read the clock."""
SMALL = """
[jobs]
driver_memory_mb = 512

[jobs.spark]
"spark.executor.memory" = "512m"
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.sql.shuffle.partitions" = 4

[clusters.here]
bootstrap = "127.0.0.1:1"
"""


def recorded(folder: Path) -> Path:
    """Three hours of a group with two partitions, long ago."""
    store = ParquetStore(str(folder))
    instants = range(_THEN_MS, _THEN_MS + 3 * _HOUR_MS, 30_000)
    rows = [
        sample(at_ms=at_ms, partition=partition, lag=at_ms // 1000 % 97 + partition)
        for at_ms in instants
        for partition in (0, 1)
    ]
    groups = [group_sample(at_ms=at_ms, total_lag=at_ms // 1000 % 97) for at_ms in instants]
    store.write([samples(rows), group_samples(groups)], batch="made")
    return folder


def rolled(folder: Path) -> list[tuple[object, ...]]:
    """Everything that was rolled up, in order."""
    rows: list[tuple[object, ...]] = []
    for kind in (Kind.ROLLUP_5M, Kind.ROLLUP_1H):
        files = duckdb.read_parquet(f"{folder}/{kind}/**/*.parquet", hive_partitioning=True)
        rows += files.order('bucket_ms, level, "group", topic, "partition"').fetchall()
    return rows


@pytest.fixture(scope="module")
def expected(spark: SparkSession, tmp_path_factory) -> list[tuple[object, ...]]:
    """What a local Spark makes of it."""
    folder = recorded(tmp_path_factory.mktemp("local"))
    ref = StoreRef(settings=HistorySettings(url=str(folder)))
    now_ms = SystemClock().now_ms()
    run_rollup(
        lambda: spark, ref, RollupRequest(), now_ms=now_ms, log_step=lambda _event, _values: None
    )
    rows = rolled(folder)
    assert len(rows) > 100
    return rows


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A master and two workers: their URL and the folder of what they write."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder) as url:
        yield url, folder


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "lagwatch.toml"
    path.write_text(SMALL)
    return path


def lagwatch(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-m", "lagwatch", *arguments)


def run(*command: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )
    print(done.stdout, done.stderr)  # noqa: T201 shown when the test fails
    return done


def executors(folder: Path) -> list[Path]:
    """What executors said, by worker."""
    return sorted(folder.glob("work-*/app-*/*/stderr"))


@pytest.mark.thorough  # test_bare_workers runs the same on one worker
def test_a_cluster_of_two_workers_rolls_up_the_same(tmp_path, cluster, config, expected) -> None:
    url, logs = cluster
    store = recorded(tmp_path / "history")

    done = lagwatch("rollup", "-c", str(config), "--store", str(store), "--master", url)

    assert done.returncode == 0
    assert rolled(store) == expected
    assert {path.parts[-4] for path in executors(logs)} == {"work-0", "work-1"}


@pytest.mark.thorough  # so does test_bare_workers
def test_spark_submit_runs_the_zipped_package(tmp_path, cluster, config, expected) -> None:
    url, _ = cluster
    store = recorded(tmp_path / "history")
    package = write_package(tmp_path / "lagwatch-jobs.zip")
    submit = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", url]
    submit += ["--conf", "spark.driver.host=127.0.0.1", "--executor-memory", "512m"]
    submit += ["--py-files", str(package), str(ROOT / "deploy" / "spark" / "job.py")]

    done = run(*submit, "rollup", "-c", str(config), "--store", str(store))

    assert done.returncode == 0
    assert rolled(store) == expected


def test_spark_connect_rolls_up_the_same(tmp_path, config, expected) -> None:
    store = recorded(tmp_path / "history")

    with connect_server(tmp_path / "server", port=free_ports(1)[0]) as url:
        done = lagwatch("rollup", "-c", str(config), "--store", str(store), "--master", url)

    assert done.returncode == 0
    assert rolled(store) == expected


@pytest.mark.parametrize("scheme", ["sc", "spark"])
def test_a_cluster_that_is_not_there_is_said_and_may_be_tried_again(tmp_path, scheme) -> None:
    store = recorded(tmp_path / "history")
    master = f"{scheme}://127.0.0.1:{free_ports(1)[0]}"

    done = lagwatch("rollup", "--store", str(store), "--master", master)

    assert done.returncode == 3
    assert f"jobs.master = {master}" in done.stderr
    assert "Traceback" not in done.stderr
