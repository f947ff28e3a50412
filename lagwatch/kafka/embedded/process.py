"""One broker's JVM, held through its guard."""

import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from lagwatch.kafka.embedded import guard
from lagwatch.kafka.embedded.settings import EmbeddedKafkaError

_KILL_TIMEOUT_S = 30.0


class GuardedProcess:
    """A running command that ends when this process ends, however it ends.

    Not for several threads at once.
    """

    def __init__(self, command: Sequence[str], *, log: Path, doomed: Path | None) -> None:
        """Start the command.

        Args:
            command: program, by its full path, and arguments.
            log: file to which its output is appended.
            doomed: directory to be removed should this process die without calling `kill`.
        """
        arguments = [str(log), "" if doomed is None else str(doomed), *command]
        self._guard = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-I", "-S", guard.__file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,  # Ctrl-C in the terminal is for this process alone
        )
        self.pid = self._read_pid()

    @property
    def running(self) -> bool:
        return self._guard.poll() is None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the command; False if it still runs after `timeout_s`."""
        try:
            self._guard.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the command at once (SIGKILL)."""
        self._order(b"k")
        if not self.wait(_KILL_TIMEOUT_S):
            raise EmbeddedKafkaError(f"Process {self.pid} survived SIGKILL for {_KILL_TIMEOUT_S} s")
        self._close()

    def terminate(self) -> None:
        """Ask the command to end (SIGTERM); `wait` returns when it has."""
        self._order(b"t")

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            os.write(self._pipe(), order)

    def _pipe(self) -> int:
        if self._guard.stdin is None or self._guard.stdin.closed:
            raise BrokenPipeError
        return self._guard.stdin.fileno()

    def _read_pid(self) -> int:
        if self._guard.stdout is None:
            raise EmbeddedKafkaError("The guard of the broker has no output")
        with self._guard.stdout as report:
            line = report.readline()
        if not line:
            self._close()
            raise EmbeddedKafkaError(f"The guard of the broker ended: {self._guard.wait()}")
        return int(line)

    def _close(self) -> None:
        if self._guard.stdin is not None:
            self._guard.stdin.close()


_LINES = 25


class LogFile:
    """A broker's log, of which only what was written since the last `mark` counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._start = 0

    def mark(self) -> None:
        """Forget what was written so far."""
        self._start = self.path.stat().st_size if self.path.exists() else 0

    def port_taken(self) -> bool:
        """Did the broker find one of its ports taken?"""
        return any("Address already in use" in line for line in self._lines())

    def complaints(self) -> str:
        """Return the last lines that report a problem.

        A broker that fails logs hundreds of lines about its shutdown after the one that matters,
        and stack frames in front of it.
        """
        relevant = (line for line in self._lines() if " INFO " not in line)
        return "".join(deque((line for line in relevant if not line.startswith("\tat ")), _LINES))

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._start)
            return log.readlines()
