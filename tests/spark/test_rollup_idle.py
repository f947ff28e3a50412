"""`lagwatch rollup` with nothing to do: it ends as always, and Spark is left alone."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings, RetentionSettings
from lagwatch.core.record import Kind
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_of
from lagwatch.jobs.rollup.job import RollupRequest, RollupResult, run_rollup
from lagwatch.jobs.tables import StoreRef
from tests.support.history import held, sample, samples
from tests.support.rollups import going_on
from tests.support.stores import KINDS_OF_STORES, history_of

_DEADLINE_S = 120
_COMMAND = """
import sys
from lagwatch.cli import main
try:
    main()
finally:
    print(sorted({"pyspark", "py4j"} & set(sys.modules)))
"""
"""The command, and then which of Spark's packages it has imported."""


@pytest.fixture(params=KINDS_OF_STORES)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> HistorySettings:
    return history_of(request.param, request, tmp_path)


@pytest.fixture
def config(history: HistorySettings, tmp_path: Path) -> Path:
    """A configuration whose Spark does not exist: to start it is an error."""
    there = history.elasticsearch
    path = tmp_path / "lagwatch.toml"
    path.write_text(
        f"""
[history]
store = "{history.store}"
url = "{history.url.get_secret_value()}"
spool = "{history.spool}"
[history.elasticsearch]
urls = ["{there.urls[0].get_secret_value()}"]
prefix = "{there.prefix}"
[jobs]
master = "spark://127.0.0.1:1"
textfile = "{tmp_path}/metrics"
[clusters.here]
bootstrap = "127.0.0.1:1"
"""
    )
    return path


def record(history: HistorySettings, at_ms: int) -> None:
    with closing(open_store(history)) as store:
        store.write([samples([sample(at_ms=at_ms)])], batch=f"b{at_ms}")


def rollup(config: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _COMMAND, "rollup", "-c", config],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


def test_what_roll_ups_that_cannot_be_read_were_made_of_is_not_deleted(
    tmp_path: Path, spark: SparkSession
) -> None:
    now_ms = SystemClock().now_ms()
    long_ago_ms = (now_ms - 3 * DAY_MS) // HOUR_MS * HOUR_MS + 60_000
    history = HistorySettings(
        url=str(tmp_path),
        retention=RetentionSettings(samples_days=1, group_samples_days=1, rollup_5m_days=0),
    )
    record(history, long_ago_ms)
    with closing(open_store(history)) as store:
        store.write(going_on(now_ms).records(), batch="goes-on")
    ref = StoreRef(settings=history)

    def run(request: RollupRequest) -> RollupResult:
        return run_rollup(
            lambda: spark, ref, request, now_ms=now_ms, log_step=lambda _event, _values: None
        )

    def rows(kind: Kind) -> int:
        with closing(open_store(history)) as store:
            return len([row for row in held(store, kind) if row["cluster"] == "here"])

    run(RollupRequest(tidy=False))
    [torn] = tmp_path.glob("rollup_5m/cluster=here/**/*.parquet")
    os.truncate(torn, torn.stat().st_size // 2)

    kept = run(RollupRequest())
    left = rows(Kind.SAMPLES)
    again = run(RollupRequest())
    torn.unlink()
    after = run(RollupRequest())

    assert kept.rows[Kind.ROLLUP_5M] == 0
    assert (kept.removed, left) == ({}, 1)
    said = " ".join(kept.set_aside)
    assert torn.name in said
    assert f"raw rows from {day_of(long_ago_ms)} on are kept" in said
    assert again.rows[Kind.ROLLUP_5M] == 2, "a partition and its group"
    assert after.set_aside == ()
    assert after.removed[Kind.SAMPLES] >= 1
    assert rows(Kind.SAMPLES) == 0
    assert rows(Kind.ROLLUP_5M) == 2


def test_with_nothing_due_the_run_ends_as_always_and_imports_no_pyspark(
    history: HistorySettings, config: Path, spark: SparkSession
) -> None:
    now_ms = SystemClock().now_ms()
    record(history, now_ms - 3 * HOUR_MS)
    ref = StoreRef(settings=history)
    run_rollup(
        lambda: spark, ref, RollupRequest(), now_ms=now_ms, log_step=lambda _event, _values: None
    )

    idle = rollup(config)
    record(history, now_ms - 5 * HOUR_MS)
    busy = rollup(config)

    assert idle.returncode == 0, idle.stderr
    assert idle.stdout.splitlines() == ["nothing is due", "[]"]
    assert '"outcome":"done"' in idle.stderr.replace(" ", "")
    assert busy.returncode == 3
    assert "Connection refused. Check jobs.master" in busy.stderr
    assert "jobs.master = spark://127.0.0.1:1" in busy.stderr
    assert "pyspark" in busy.stdout
    with closing(open_store(history)) as store:
        [event] = [row for row in held(store, Kind.EVENTS) if row["event"] == "job"]
    assert (event["cluster"], event["after"]) == ("here", "done")
    # the second run failed: what the first one wrote as its success is still there
    written = (config.parent / "metrics" / "lagwatch_rollup.prom").read_text()
    assert 'lagwatch_job_last_success_timestamp_seconds{job_name="rollup"}' in written


@pytest.mark.parametrize("history", ["parquet"], indirect=True)
def test_a_damaged_file_that_is_set_aside_gives_spark_no_work(
    history: HistorySettings, config: Path, spark: SparkSession
) -> None:
    now_ms = SystemClock().now_ms()
    record(history, now_ms - 3 * HOUR_MS)
    [whole] = Path(history.url.get_secret_value()).glob("samples/**/*.parquet")
    whole.with_name("part-damaged.parquet").write_bytes(b"rubbish")
    ref = StoreRef(settings=history)
    run_rollup(
        lambda: spark, ref, RollupRequest(), now_ms=now_ms, log_step=lambda _event, _values: None
    )

    idle = rollup(config)

    assert idle.returncode == 1, idle.stderr
    assert "part-damaged.parquet" in idle.stderr + idle.stdout
    assert idle.stdout.splitlines()[-1] == "[]"


def test_why_spark_did_not_start_is_its_own_reason_without_the_stack(tmp_path: Path) -> None:
    history = HistorySettings(url=str(tmp_path))
    record(history, SystemClock().now_ms() - 3 * HOUR_MS)

    ended = subprocess.run(
        [
            *(sys.executable, "-m", "lagwatch", "rollup"),
            *("--store", tmp_path, "--master", "local-cluster[a]"),
        ],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )

    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1] == (
        "lagwatch: Spark did not start: jobs.master = local-cluster[a]: Could not parse Master "
        "URL: 'local-cluster[a]'. Check jobs.master, or --master, and that its address answers."
    )
