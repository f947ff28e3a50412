"""`lagwatch rollup` when nothing is due: a whole process, from its start to its end."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from lagwatch.config.history import HistorySettings, RetentionSettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.session import spark_session
from lagwatch.jobs.tables import StoreRef
from tests.bench.bench_history import (
    HOUR_MS,
    START_MS,
    group_samples_of_hour,
    samples_of_hour,
)
from tests.bench.figures import Figure

_HOURS = 6
_TIMES = 5
_WITHIN_S = 60
_FOREVER = {f"{kind.value}_days": 0 for kind in Kind}


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        history = HistorySettings(
            url=str(folder / "history"), retention=RetentionSettings(**_FOREVER)
        )
        _roll_up(history)
        config = folder / "lagwatch.toml"
        config.write_text(
            f'[history]\nurl = "{folder}/history"\n[history.retention]\n'
            + "".join(f"{key} = {days}\n" for key, days in _FOREVER.items())
            + '[clusters.bench]\nbootstrap = "127.0.0.1:9"\n'
        )
        seconds = [_seconds(config) for _ in range(_TIMES)]
    print(f"  {_TIMES} runs: {', '.join(f'{took_s:.2f} s' for took_s in seconds)}", file=sys.stderr)
    yield Figure(name="rollup_idle", value=median(seconds), unit="s", target=1.5)


def _roll_up(history: HistorySettings) -> None:
    """Some hours of samples, all rolled up."""
    store = ParquetStore(history.url.get_secret_value())
    for hour in range(_HOURS):
        rows = [samples_of_hour(hour), group_samples_of_hour(hour)]
        store.write(rows, batch=f"h{hour:03}")
    store.close()
    with spark_session(JobsSettings(driver_memory_mb=1024), name="bench") as spark:
        run_rollup(
            lambda: spark,
            StoreRef(settings=history),
            RollupRequest(),
            now_ms=START_MS + 48 * HOUR_MS,
            log_step=lambda event, values: print(event, values, file=sys.stderr),
        )


def _seconds(config: Path) -> float:
    command = [sys.executable, "-m", "lagwatch", "rollup", "-c", str(config)]
    started_s = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, check=True, text=True, timeout=_WITHIN_S, cwd=config.parent
    )
    took_s = time.perf_counter() - started_s
    if done.stdout.strip() != "nothing is due":
        raise RuntimeError(f"something was done: {done.stdout}")
    return took_s
