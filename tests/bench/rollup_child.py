"""One measured roll-up in a process of its own: `MASTER FOLDER HOURS` → seconds."""

import shutil
import sys
import time
from pathlib import Path

from lagwatch.config.history import HistorySettings, RetentionSettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.core.record import Kind
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.rollup.plan import ROLLUPS
from lagwatch.jobs.session import start
from lagwatch.jobs.tables import StoreRef
from tests.bench.bench_history import HOUR_MS, START_MS

_WARM_UP_HOURS = 6
"""Enough for a task on each core: the workers of both have started then."""


def main(master: str, folder: str, hours: int) -> None:
    forever = RetentionSettings(**{f"{kind.value}_days": 0 for kind in Kind})
    ref = StoreRef(settings=HistorySettings(url=folder, retention=forever))
    spark = start(JobsSettings(master=master, driver_memory_mb=1024), name="rollup")

    def seconds(rolled_hours: int) -> float:
        forget(Path(folder))
        to_ms = START_MS + rolled_hours * HOUR_MS
        started_s = time.perf_counter()
        run_rollup(
            lambda: spark,
            ref,
            RollupRequest(from_ms=START_MS, to_ms=to_ms, tidy=False),
            now_ms=to_ms + HOUR_MS,
            log_step=lambda event, values: print(event, values, file=sys.stderr),
        )
        return time.perf_counter() - started_s

    seconds(_WARM_UP_HOURS)  # Java compiles what it runs often
    print(seconds(hours))
    spark.stop()


def forget(folder: Path) -> None:
    """Remove what earlier runs made."""
    for name in (*map(str, ROLLUPS), "_jobs"):
        shutil.rmtree(folder / name, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
