"""SIGKILL of a driver while its workers write: nothing of it goes on, and the lock is free then."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.record import Kind
from lagwatch.jobs.lock import only_run
from lagwatch.jobs.stores.parquet.state import kernel_lock
from lagwatch.jobs.stores.registry import open_state
from tests.spark.test_rollup_kill import configured, record, ref
from tests.support.waiting import eventually

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def driver(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`lagwatch rollup` that has begun to write."""
    store = tmp_path / "history"
    record(store)
    command = [sys.executable, "-m", "lagwatch", "rollup", "-c", str(configured(tmp_path, store))]
    with (tmp_path / "output").open("wb") as output:
        child = subprocess.Popen(command, cwd=_ROOT, stdout=output, stderr=output)
    try:
        eventually(
            lambda: (
                child.poll() is not None
                or any((store / Kind.ROLLUP_5M.value).glob("**/.part-*"))
                or any((store / Kind.ROLLUP_5M.value).glob("**/part-*"))
            ),
            "a file",
            timeout_s=150,
        )
        assert child.poll() is None, (tmp_path / "output").read_text(encoding="utf-8")
        yield child
    finally:
        child.kill()
        child.wait(30)


def of_session(leader: int) -> list[str]:
    """Processes of a session that can still do something."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} {process.name()}")
    return found


def test_when_the_lock_of_a_killed_driver_is_free_nothing_of_it_runs(
    driver: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    store = tmp_path / "history"
    [jvm] = [child for child in psutil.Process(driver.pid).children() if child.name() == "java"]
    assert len(of_session(jvm.pid)) >= 3  # the JVM, the daemon of its workers, a worker

    driver.send_signal(signal.SIGKILL)
    driver.wait(30)
    with only_run("rollup", open_state(ref(store).settings), ref(store).settings, SystemClock()):
        left = of_session(jvm.pid)

    assert left == []


def test_while_the_jvm_of_a_killed_driver_lives_its_lock_is_not_free(
    driver: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    store = tmp_path / "history"
    children = psutil.Process(driver.pid).children()
    [jvm] = [child for child in children if child.name() == "java"]
    jvm.suspend()  # it sees no end of its input
    for guard in children:
        if guard != jvm:
            guard.kill()

    driver.send_signal(signal.SIGKILL)
    driver.wait(30)
    settings = ref(store).settings
    with kernel_lock(store, "rollup") as lock:
        free = lock.free
    jvm.kill()
    eventually(lambda: not of_session(jvm.pid), "the JVM and its workers end", timeout_s=60)
    with only_run("rollup", open_state(settings), settings, SystemClock()):
        pass

    assert not free
