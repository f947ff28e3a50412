"""SIGKILL of a job's driver where something is half done: run again at once, the result is right.

Each takes half a minute, so usually only where data is deleted; with `THOROUGH=1` wherever
something is half done. `make bench ONLY=kills` does it 20 times in every phase.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.killed import Killing
from tests.support.thorough import THOROUGH

pytestmark = pytest.mark.minutes

HALF_DONE: dict[str, tuple[str, ...]] = {"compaction": ("deleting",)}
if THOROUGH:
    HALF_DONE |= {
        "backfill": ("written", "ending"),
        "rollup": ("swapping", "watermark"),
        "nightly": ("files",),
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", HALF_DONE)
def test_a_run_killed_in_a_phase_and_run_again_at_once_is_right(
    job: str,
    tmp_path: Path,
    spark: SparkSession,  # noqa: ARG001 what runs to its end runs in it
) -> None:
    killing = Killing(job, tmp_path / job)
    expected = killing.expected

    for number, phase in enumerate(HALF_DONE[job]):
        killing.kill_and_repeat(phase, number)

    assert any(expected.values())
