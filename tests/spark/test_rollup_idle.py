"""`lagwatch rollup` with nothing to do: it ends as always, and Spark is left alone."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.layout import HOUR_MS
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.tables import StoreRef
from tests.support.history import held, sample, samples
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
    assert "jobs.master = spark://127.0.0.1:1" in busy.stderr
    assert "pyspark" in busy.stdout
    with closing(open_store(history)) as store:
        [event] = [row for row in held(store, Kind.EVENTS) if row["event"] == "job"]
    assert (event["cluster"], event["after"]) == ("here", "done")
    # the second run failed: what the first one wrote as its success is still there
    written = (config.parent / "metrics" / "lagwatch_rollup.prom").read_text()
    assert 'lagwatch_job_last_success_timestamp_seconds{job_name="rollup"}' in written
