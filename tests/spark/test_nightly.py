"""The nightly chain as cron runs it, on a history in which one file is torn."""

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.lock import only_run
from lagwatch.jobs.stores.registry import open_state
from tests.support.history import group_sample, group_samples, held, sample, samples

NIGHTLY = Path(__file__).parents[2] / "deploy" / "cron" / "lagwatch-nightly"
_DEADLINE_S = 240


@pytest.fixture
def yesterday() -> datetime:
    """Its first instant; the command itself reads the clock."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


@pytest.fixture
def folder(tmp_path, yesterday) -> Path:
    """A folder with a configuration and an hour of yesterday's history."""
    (tmp_path / "lagwatch.toml").write_text(
        f"""
[history]
url = "{tmp_path}/history"
[jobs]
master = "local[2]"
driver_memory_mb = 768
textfile = "{tmp_path}/metrics"
[jobs.report]
folder = "{tmp_path}/reports"
[clusters.here]
bootstrap = "127.0.0.1:1"
"""
    )
    first_ms = round((yesterday + timedelta(hours=9)).timestamp() * 1000)
    instants = range(first_ms, first_ms + 3_600_000, 30_000)
    store = ParquetStore(str(tmp_path / "history"))
    store.write(
        [
            samples([sample(at_ms=at_ms, lag=5 + at_ms // 1000 % 7) for at_ms in instants]),
            group_samples([group_sample(at_ms=at_ms, total_lag=9) for at_ms in instants]),
        ],
        batch="made",
    )
    return tmp_path


def test_the_night_is_rolled_up_and_reported_though_a_file_is_torn(folder, yesterday) -> None:
    whole = next((folder / "history" / "samples").rglob("*.parquet"))
    torn = whole.with_name("part-torn.parquet")
    torn.write_bytes(whole.read_bytes()[:-100])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    done = subprocess.run(
        [NIGHTLY, folder / "lagwatch.toml"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    # each JVM says so: Spark's launcher, and the one driver of both jobs
    assert done.stderr.count("Picked up JAVA_TOOL_OPTIONS") == 2
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    ended = [(line["job"], line["outcome"]) for line in lines if line["event"] == "job_ended"]
    assert ended == [("rollup", "set_aside"), ("report", "set_aside")]
    assert any("part-torn.parquet" in line.get("what", "") for line in lines)

    store = ParquetStore(str(folder / "history"))
    [hour] = [row for row in held(store, Kind.ROLLUP_1H) if row["level"] == "partition"]
    assert (hour["samples"], hour["lag_max"]) == (120, 11)
    jobs = [(row["after"], row["cluster"]) for row in held(store, Kind.EVENTS)]
    assert jobs == [("set_aside", "here"), ("set_aside", "here")]

    day = f"{yesterday:%Y-%m-%d}"
    reports = sorted(path.name for path in (folder / "reports").iterdir())
    assert reports == [f"{day}.html", f"{day}.json", f"{day}.txt"]
    for job in ("rollup", "report"):
        text = (folder / "metrics" / f"lagwatch_{job}.prom").read_text()
        assert f'lagwatch_job_succeeded{{job_name="{job}"}} 1.0' in text


def test_a_second_run_ends_at_once_and_says_who_is_at_work(folder) -> None:
    history = HistorySettings(url=str(folder / "history"))

    with only_run("rollup", open_state(history), history, SystemClock()):
        done = subprocess.run(
            [sys.executable, "-m", "lagwatch", "rollup", "-c", folder / "lagwatch.toml"],
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )

    assert done.returncode == 3
    assert f"process {os.getpid()} on" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_in_the_configuration_is_named_before_anything_starts(folder) -> None:
    config = folder / "lagwatch.toml"
    config.write_text(config.read_text().replace("local[2]", ""))
    shutil.rmtree(folder / "history")

    done = subprocess.run(
        [sys.executable, "-m", "lagwatch", "report", "-c", config],
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )

    assert done.returncode == 2
    assert "jobs.master" in done.stderr
    assert not (folder / "history").exists()
