"""SIGKILL of a job's driver in each of its phases: how often the same command, run again, is right.

What an undisturbed run leaves is the measure: rows, reports, and nothing half-done. `KILLS=3` kills
three times in each phase instead of 20; `KILLS_IN=backfill,nightly` chooses jobs. With 20 it takes
one to two hours on two cores.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.session import spark_session
from tests.bench.figures import Bound, Figure
from tests.support.killed import PHASES, Killing

_TIMES = int(os.environ.get("KILLS", "20"))
_JOBS = os.environ.get("KILLS_IN", ",".join(PHASES)).split(",")


def run() -> Iterator[Figure]:
    settings = JobsSettings(
        master="local[1]", driver_memory_mb=512, spark={"spark.sql.shuffle.partitions": "2"}
    )
    with tempfile.TemporaryDirectory() as folder, spark_session(settings, name="kills"):
        for job in _JOBS:
            killing = Killing(job, Path(folder) / job)
            assert killing.expected
            for phase in PHASES[job]:
                yield Figure(
                    name=f"kills_{job}_{phase}",
                    value=sum(_is_right(killing, phase, time) for time in range(_TIMES)),
                    unit="right",
                    target=_TIMES,
                    bound=Bound.AT_LEAST,
                )


def _is_right(killing: Killing, phase: str, time: int) -> bool:
    try:
        killing.kill_and_repeat(phase, time)
    except AssertionError as error:
        print(f"  {str(error)[:4000]}", file=sys.stderr)
        return False
    return True
