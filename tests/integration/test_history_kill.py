"""SIGKILL at any moment: what the spool has taken is in the store afterwards, once."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from lagwatch.core.record import Kind
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.spool import Spool
from lagwatch.ports.history import HistoryRange
from tests.support.history import EVER, held
from tests.support.history_child import GROUPS, PARTITIONS
from tests.support.thorough import rounds

ROUNDS = rounds(30, quick=8)
_ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    chance = random.Random(20261121)  # noqa: S311 not a secret
    acknowledged: list[int] = []

    for _ in range(ROUNDS):
        acknowledged += _run_and_kill(tmp_path, after_s=chance.uniform(0.0, 0.5))
    acknowledged += _run(tmp_path)

    store = ParquetStore(str(tmp_path / "store"))
    checked = store.verify()
    found = Counter(
        at_ms
        for part in store.read(HistoryRange(kind=Kind.SAMPLES, columns=("lag",), **EVER))
        for at_ms in part.at_ms().tolist()
    )
    rows = GROUPS * PARTITIONS
    assert len(set(acknowledged)) == len(acknowledged) > 5 * ROUNDS
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {rows}
    assert (checked.duplicates, checked.torn, checked.foreign) == (0, (), ())
    assert checked.rows[Kind.SAMPLES] == len(found) * rows
    assert checked.rows[Kind.GROUP_SAMPLES] == len(found) * GROUPS
    starts = [row for row in held(store, Kind.EVENTS) if row["after"] == "started"]
    assert len(starts) > ROUNDS / 2
    assert Spool(tmp_path / "spool", max_bytes=10**9, spool_id="x").fill().segments == 0


def _run_and_kill(folder: Path, *, after_s: float) -> list[int]:
    """Let it work for a moment after its first round; what it has acknowledged."""
    with _child(folder, rounds=10_000) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        killer = threading.Timer(after_s, os.kill, (child.pid, signal.SIGKILL))
        killer.start()
        output = first + child.stdout.read()
        killer.join()
        assert child.wait(30) == -signal.SIGKILL
    return _acknowledged(output)


def _run(folder: Path) -> list[int]:
    """Let it end by itself: what is left is delivered."""
    with _child(folder, rounds=3) as child:
        output, _ = child.communicate(timeout=60)
        assert child.returncode == 0
    return _acknowledged(output)


def _child(folder: Path, *, rounds: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.support.history_child", str(folder), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT)


def _acknowledged(output: str) -> list[int]:
    """Instants of the lines that were written to their end."""
    return [int(line.split()[0]) for line in output.split("\n")[:-1]]
