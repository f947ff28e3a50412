"""What a broker's log says about a failure."""

from collections import deque
from pathlib import Path

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
        """Return the last lines that are no routine.

        A broker that fails logs hundreds of lines about its shutdown after the one that matters,
        and stack frames in front of it.
        """
        telling = (line for line in self._lines() if " INFO " not in line)
        return "".join(deque((line for line in telling if not line.startswith("\tat ")), _LINES))

    def _lines(self) -> list[str]:
        if not self.path.exists():
            return []
        with self.path.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._start)
            return log.readlines()
