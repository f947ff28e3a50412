"""The JVM of a driver: it ends when this process ends, however it ends."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from lagwatch.jobs import guard
from lagwatch.jobs.lock import Held


class GuardedJvm:
    """A JVM that PySpark talks to, and the guard beside it."""

    def __init__(self, conf: SparkConf, descriptors: Sequence[int]) -> None:
        """Start both.

        Args:
            conf: what the JVM is started with, its memory for instance.
            descriptors: of a lock that is to be held as long as one of them runs.

        Raises:
            PySparkException: the JVM ended at once.
        """
        self._guard = subprocess.Popen(  # noqa: S603 our own program, no shell
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd="/",
            pass_fds=tuple(descriptors),
            bufsize=0,
            start_new_session=True,  # it outlives what ends the driver
        )
        # a session of its own: the guard finds the JVM's workers by it
        options = {"pass_fds": tuple(descriptors), "start_new_session": True}
        launched: Any = launch_gateway(conf, options)  # type: ignore[no-untyped-call]  # PySpark's
        self.gateway = launched
        self.pid: int = self.gateway.proc.pid
        self.guard_pid = self._guard.pid
        self.busy()

    def busy(self) -> None:
        """Spark is about to run in it."""
        self._write_order(f"+{self.pid}")

    def idle(self) -> None:
        """Spark has stopped: when this process ends the JVM may tidy up first."""
        self._write_order(f"-{self.pid}")

    def _write_order(self, line: str) -> None:
        pipe = self._guard.stdin
        with suppress(BrokenPipeError):  # the guard was killed
            if pipe is not None:
                pipe.write(f"{line}\n".encode("ascii"))


_RUNNING: Final[list[GuardedJvm]] = []
"""PySpark keeps one JVM per process, whatever sessions come and go."""


def guarded_jvm(conf: SparkConf, lock: Held | None) -> GuardedJvm:
    """The JVM of this process, started if there is none; the lock's note names its guard.

    Raises:
        PySparkException: it ended at once.
    """
    if not _RUNNING:
        _RUNNING.append(GuardedJvm(conf, () if lock is None else lock.descriptors))
    [jvm] = _RUNNING
    jvm.busy()
    if lock is not None:
        lock.guarded_by(jvm.guard_pid)
    return jvm


def running_jvm() -> GuardedJvm | None:
    """The JVM of this process; None: there is none that lagwatch started."""
    return _RUNNING[0] if _RUNNING else None
