"""`lagwatch nightly` over a day of 50 groups: a whole process, from its start to its end."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from lagwatch.clock import SystemClock
from lagwatch.core.record import Records
from lagwatch.history.layout import DAY_MS, day_of, day_start_ms
from lagwatch.history.parquet import ParquetStore
from tests.bench.bench_history import (
    START_MS,
    group_samples_of_hour,
    samples_of_hour,
)
from tests.bench.figures import Figure

_GROUPS, _PARTITIONS = 50, 10
_HOURS = 24
_WITHIN_S = 300


def run() -> Iterator[Figure]:
    """1.44 million samples: 50 groups of 10 partitions, every 30 s, each of them moving."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _record(folder / "history")
        config = folder / "lagwatch.toml"
        config.write_text(
            f'[history]\nurl = "{folder}/history"\n'
            f'[jobs]\ntextfile = "{folder}/metrics"\n'
            f'[jobs.report]\nfolder = "{folder}/reports"\n'
            '[clusters.bench]\nbootstrap = "127.0.0.1:9"\n'
        )
        started_s = time.perf_counter()
        command = [sys.executable, "-m", "lagwatch", "nightly", "-c", str(config)]
        done = subprocess.run(
            command, capture_output=True, check=False, text=True, timeout=_WITHIN_S, cwd=folder
        )
        took_s = time.perf_counter() - started_s
        print(done.stderr, file=sys.stderr)
        done.check_returncode()
    yield Figure(name="nightly_50_groups", value=took_s, unit="s", target=25)


def _record(folder: Path) -> None:
    """The day before, which is what the command reports on."""
    shift_ms = day_start_ms(day_of(SystemClock().now_ms() - DAY_MS)) - START_MS
    store = ParquetStore(str(folder))
    for hour in range(_HOURS):
        rows = [samples_of_hour(hour), group_samples_of_hour(hour)]
        store.write([_of_some(part, shift_ms) for part in rows], batch=f"h{hour:03}")
    store.close()


def _of_some(rows: Records, shift_ms: int) -> Records:
    """Rows of some groups and partitions, so many milliseconds later."""
    wanted = rows.text("group").codes < _GROUPS
    if "partition" in rows.columns:
        wanted &= rows.numbers("partition") < _PARTITIONS
    some = rows.take(wanted)
    moved = {
        column: some.numbers(column) + shift_ms
        for column in ("at_ms", "observed_ms", "commit_ms", "previous_ms")
        if column in some.columns
    }
    if "observed" in some.columns:
        moved["observed"] = np.full(some.size, _PARTITIONS, np.int32)
    return replace(some, columns={**some.columns, **moved})
