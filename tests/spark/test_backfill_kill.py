"""A backfill that is killed goes on where it was, and nothing is there twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.sql import SparkSession

from lagwatch.core.record import Kind
from tests.support.backfilled import HOUR_S, Store
from tests.support.copies import some_hours
from tests.support.history import NOON_MS
from tests.support.waiting import eventually

HOURS = 4
_ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(400)
def test_a_killed_run_is_carried_on_and_nothing_is_there_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    where = some_hours(tmp_path / "copies", hours=HOURS, groups="abcdefghijklmnop").write()
    until_ms = NOON_MS + HOURS * HOUR_S * 1000
    unhurt = Store(spark, tmp_path / "unhurt")
    unhurt.backfill(where, until_ms=until_ms)
    hurt = Store(spark, tmp_path / "hurt")

    written = _run_and_kill(hurt.folder, where)
    result = hurt.backfill(where, until_ms=until_ms)

    assert 0 < written < 3 * HOURS
    assert [cluster.resumed for cluster in result.clusters] == [True, False]
    assert result.clusters[1].rounds == 0
    done = result.clusters[0]
    assert done.count("samples_before") > 0
    assert done.count("samples") + done.count("samples_before") == len(unhurt.rows(Kind.SAMPLES))
    assert any("written by an earlier run" in line for line in result.lines())
    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES):
        assert hurt.rows(kind) == unhurt.rows(kind)
    assert _events(hurt) == _events(unhurt)
    store = hurt.ref.open()
    checked = store.verify()
    assert (checked.duplicates, checked.torn, checked.foreign) == (0, (), ())
    assert list((hurt.folder / "_jobs").glob("*.json")) == []


def _events(store: Store) -> list[dict[str, Any]]:
    return [dict(row) for row in store.rows(Kind.EVENTS) if row["event"] != "recording"]


def _run_and_kill(folder: Path, where: str) -> int:
    """Kill it as soon as a part is written; how many parts the ledgers have then."""
    command = [sys.executable, "-m", "tests.support.backfill_child", str(folder), where, str(HOURS)]
    with subprocess.Popen(
        command,
        cwd=_ROOT,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as child:
        try:
            eventually(
                lambda: _parts(folder) > 0 or child.poll() is not None, "a part", timeout_s=200
            )
            assert child.poll() is None, child.stderr and child.stderr.read()
        finally:
            os.killpg(child.pid, signal.SIGKILL)
    return _parts(folder)


def _parts(folder: Path) -> int:
    ledgers = (folder / "_jobs").glob("backfill-*-*-*.json")
    return sum(len(orjson.loads(ledger.read_bytes())["parts"]) for ledger in ledgers)
