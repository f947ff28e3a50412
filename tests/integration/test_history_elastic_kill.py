"""SIGKILL at any moment while delivering to Elasticsearch, and the test server itself."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from lagwatch.core.record import Kind
from tests.support.elastic_history import open_store, unique_prefix
from tests.support.elastic_history_child import PARTITIONS
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import held
from tests.support.thorough import rounds
from tests.support.waiting import eventually

ROUNDS = rounds(10, quick=4)
_ROOT = Path(__file__).parents[2]


def test_kills_while_delivering_lose_nothing_and_double_nothing(
    elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    chance = random.Random(20261121)  # noqa: S311 not a secret
    prefix = unique_prefix()
    command = [sys.executable, "-m", "tests.support.elastic_history_child"]
    command += [elasticsearch.url, prefix, str(tmp_path)]

    acknowledged: list[int] = []
    for _ in range(ROUNDS):
        acknowledged += _run_and_kill(command, after_s=chance.uniform(0.0, 0.6))
    acknowledged += _run(command)

    store = open_store(elasticsearch.url, prefix, tmp_path)
    checked = store.verify()
    rows = held(store)
    found = Counter(row["at_ms"] for row in rows)
    assert len(set(acknowledged)) == len(acknowledged) > ROUNDS
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {PARTITIONS}
    assert len({(row["at_ms"], row["partition"]) for row in rows}) == len(rows)
    assert checked.sound
    assert checked.rows[Kind.SAMPLES] == len(rows)
    store.close()


def _run_and_kill(command: list[str], *, after_s: float) -> list[int]:
    """Let it work for a moment after its first round; what it has acknowledged."""
    with subprocess.Popen(
        [*command, "10000"], stdout=subprocess.PIPE, text=True, cwd=_ROOT
    ) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        killer = threading.Timer(after_s, os.kill, (child.pid, signal.SIGKILL))
        killer.start()
        output = first + child.stdout.read()
        killer.join()
        assert child.wait(30) == -signal.SIGKILL
    return _acknowledged(output)


def _run(command: list[str]) -> list[int]:
    """Let it end by itself: what is left is delivered."""
    ended = subprocess.run(
        [*command, "3"], capture_output=True, text=True, cwd=_ROOT, timeout=120, check=True
    )
    return _acknowledged(ended.stdout)


def _acknowledged(output: str) -> list[int]:
    """Instants of the lines that were written to their end."""
    return [int(line) for line in output.split("\n")[:-1]]


def test_the_embedded_server_dies_with_the_process_that_started_it() -> None:
    script = (
        "from tests.support.elasticsearch import EmbeddedElasticsearch as E; import time; "
        "e = E(); e.start(); print(e.pid, e.data.parents[1], flush=True); time.sleep(300)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=_ROOT
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert _lives(int(pid))
        owner.kill()

    eventually(lambda: not _lives(int(pid)), "the server to end")
    eventually(lambda: not Path(folder).exists(), "its files to be gone")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
