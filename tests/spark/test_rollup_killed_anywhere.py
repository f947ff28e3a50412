"""SIGKILL of the driver in each phase of the roll-ups: run again at once, the result is right."""

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.record import Kind
from lagwatch.history.layout import HOUR_MS
from lagwatch.history.parquet import ParquetStore
from tests.spark.test_rollup_kill import configured
from tests.support.rollups import recording

_ROOT = Path(__file__).parents[2]
_DEADLINE_S = 240
_THEN_MS = (SystemClock().now_ms() // HOUR_MS - 30) * HOUR_MS
_KILLER = '''
"""Kills the driver when a function is called for the n-th time, in the driver or in a worker."""

import os
import signal
import sys

_FILE, _FUNCTION, _TIME = os.environ["KILL_AT"].split(":")
_calls = 0


def _look(frame, event, argument):
    global _calls
    code = frame.f_code
    if event == "call" and code.co_name == _FUNCTION and code.co_filename.endswith(_FILE):
        _calls += 1
        if _calls == int(_TIME):
            sys.setprofile(None)
            os.kill(int(open(os.environ["DRIVER_PID"]).read()), signal.SIGKILL)


sys.setprofile(_look)
'''
_START = """
import os, sys
open(os.environ["DRIVER_PID"], "w").write(str(os.getpid()))
from lagwatch.cli import main
main()
"""
PHASES = {
    "reading": "rollup/rows.py:_read:3",
    "aggregating": "core/rollup/build.py:roll_up:2",
    "writing": "history/folder.py:_written_beside:2",
    "swapping": "parquet/rollups.py:delete:1",
    "watermark": "rollup/job.py:_remember:1",
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    store = tmp_path / "history"
    files = ParquetStore(str(store))
    for number in range(6):
        found = recording(number, rounds=100, thin=False, start_ms=_THEN_MS + number * 2 * HOUR_MS)
        files.write(found.records(), batch=f"b{number}")
    return configured(tmp_path, store)


def rollup(config: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _START, "rollup", "-c", config],
        cwd=_ROOT,
        env={**os.environ, "DRIVER_PID": str(config.with_name("pid")), **environment},
        capture_output=True,
        text=True,
        timeout=_DEADLINE_S,
        check=False,
    )


@pytest.mark.parametrize("phase", PHASES)
def test_a_run_killed_in_a_phase_and_run_again_at_once_is_right(
    phase: str, config: Path, tmp_path: Path
) -> None:
    killer = tmp_path / "killer"
    killer.mkdir()
    (killer / "sitecustomize.py").write_text(_KILLER)

    for time in range(int(os.environ.get("KILLS_PER_PHASE", "1"))):
        place = PHASES[phase].rpartition(":")
        killed = rollup(
            config, KILL_AT=f"{place[0]}:{int(place[2]) + time}", PYTHONPATH=str(killer)
        )
        again = rollup(config)

        assert killed.returncode == -9, killed.stdout + killed.stderr[-3000:]
        assert again.returncode == 0, again.stderr[-3000:]
        compared(tmp_path / "history")
        # all of it is due again
        state = tmp_path / "history" / "_jobs" / "rollup"
        for file in state.iterdir():
            file.unlink()


def compared(store: Path) -> None:
    """Buckets of partitions against what DuckDB makes of the samples; each row once."""
    samples = f"read_parquet('{store}/samples/**/*.parquet', hive_partitioning = true)"
    rolled = f"read_parquet('{store}/{Kind.ROLLUP_5M}/**/*.parquet', hive_partitioning = true)"
    expected = duckdb.execute(
        f"""select "group", topic, "partition", at_ms // 300000 * 300000 as bucket_ms,
        count(*), count(lag), sum(lag), min(lag), max(lag) from {samples}
        where reason = 'interval' group by all order by all"""  # noqa: S608 our own paths
    ).fetchall()
    found = duckdb.execute(
        f"""select "group", topic, "partition", bucket_ms, samples, lag_known, lag_sum, lag_min,
        lag_max from {rolled} where level = 'partition' order by all"""  # noqa: S608
    ).fetchall()
    assert len(expected) > 100
    assert found == expected
