"""SIGKILL while roll-ups are written."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.layout import HOUR_MS, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.rollup.plan import ROLLUPS
from lagwatch.jobs.tables import StoreRef
from tests.support.history import FOREVER, held
from tests.support.rollups import Recording, recording
from tests.support.waiting import eventually

START_MS = day_start_ms("2026-03-01")
DAYS = 2
NOW_MS = START_MS + (DAYS * 24 + 1) * HOUR_MS
_ROOT = Path(__file__).parents[2]
_CONFIG = """
[clusters.here]
bootstrap = "127.0.0.1:9"
[history]
url = "{folder}"
[history.retention]
{retention}
[jobs]
master = "local[1]"
driver_memory_mb = 512
"""


def ref(folder: Path) -> StoreRef:
    return StoreRef(settings=HistorySettings(url=str(folder), retention=FOREVER))


def configured(place: Path, store: Path) -> Path:
    """A configuration of this store, which keeps all rows."""
    retention = "\n".join(f"{kind.value}_days = 0" for kind in Kind)
    config = place / "lagwatch.toml"
    config.write_text(_CONFIG.format(folder=store, retention=retention), encoding="utf-8")
    return config


def record(folder: Path) -> None:
    """Some hours of each day, in groups of several clusters."""
    for number in range(DAYS * 8):
        found: Recording = recording(
            number,
            rounds=100,
            start_ms=START_MS + number * 3 * HOUR_MS,
            cluster=f"cluster-{number % 2}",
        )
        ParquetStore(str(folder)).write(found.records(), batch=f"b{number}")


def run(spark: SparkSession, folder: Path) -> None:
    run_rollup(
        lambda: spark,
        ref(folder),
        RollupRequest(),
        now_ms=NOW_MS,
        log_step=lambda _event, _values: None,
    )


def test_a_run_that_is_killed_and_run_again_leaves_what_an_undisturbed_run_leaves(
    spark: SparkSession, tmp_path: Path
) -> None:
    disturbed, undisturbed = tmp_path / "disturbed", tmp_path / "undisturbed"
    for folder in (disturbed, undisturbed):
        record(folder)
    run(spark, undisturbed)

    _start_and_kill(disturbed, tmp_path, at_first_file_of=Kind.ROLLUP_5M)
    left = {kind: len(held(ParquetStore(str(disturbed)), kind)) for kind in ROLLUPS}
    run(spark, disturbed)

    killed, whole = ParquetStore(str(disturbed)), ParquetStore(str(undisturbed))
    assert left[Kind.ROLLUP_5M]
    assert not left[Kind.ROLLUP_1D]
    for kind in ROLLUPS:
        assert held(killed, kind) == held(whole, kind)
    checked = killed.verify()
    assert (checked.duplicates, checked.torn, checked.foreign) == (0, (), ())


def _start_and_kill(folder: Path, place: Path, *, at_first_file_of: Kind) -> None:
    """Run the command, and kill it with all its processes when it has begun to write a kind."""
    config = configured(place, folder)
    command = [sys.executable, "-m", "lagwatch", "rollup", "-c", str(config)]
    with (place / "output").open("wb") as output:
        child = subprocess.Popen(
            command, cwd=_ROOT, stdout=output, stderr=output, start_new_session=True
        )
    try:
        eventually(
            lambda: (
                child.poll() is not None
                or any((folder / at_first_file_of.value).glob("**/part-*.parquet"))
            ),
            f"a file of {at_first_file_of}",
            timeout_s=150,
        )
        assert child.poll() is None, (place / "output").read_text(encoding="utf-8")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(30)
