"""Ends what a Spark driver started once the driver has gone.

A program of its own (standard library only, run by path with `python -I -S`), beside the driver and
its JVM:

    guard.py

- Standard input is the life line. `+PID` and a newline name the leader of a session that must not
  outlive the driver; `-PID` says that it has nothing left to do and may take a moment to end.
- End of file means that the driver has gone, SIGKILL included: every process of these sessions is
  killed, workers too, until there is none.
- The guard inherits the descriptor of the job's lock. The kernel frees a lock when the last copy of
  its descriptor is closed: after a driver was killed that is when nothing of it runs any more.
- The driver may have forked children that hold a copy of the life line's other end, so a change of
  parent counts as the end of file does.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_LIFE_LINE = 0
_OWNER_CHECK_S = 1.0
_LOOK_AGAIN_S = 0.02
_GRACE_S = 10.0
_PROCESSES = Path("/proc")


def main() -> int:
    """Wait for the end of the driver, then end its sessions; return the exit status."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # a signal to the driver's group or unit is meant for the driver; this ends right after it
        signal.signal(number, signal.SIG_IGN)
    graceful = _orders(os.getppid())
    for leader, grace in graceful.items():
        _end(leader, grace_s=_GRACE_S if grace else 0.0)
    return 0


def _orders(owner: int) -> dict[int, bool]:
    """The sessions that were named by the time the driver has gone; True: it may take a moment."""
    named: dict[int, bool] = {}
    rest = b""
    while os.getppid() == owner:
        if not select.select([_LIFE_LINE], [], [], _OWNER_CHECK_S)[0]:
            continue
        data = os.read(_LIFE_LINE, 4096)
        if not data:
            break
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            named[int(line[1:])] = line.startswith(b"-")
    return named


def _end(leader: int, *, grace_s: float) -> None:
    until = time.monotonic() + grace_s
    while members := list(_members(leader)):
        if time.monotonic() >= until:
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        select.select([], [], [], _LOOK_AGAIN_S)


def _members(leader: int) -> Iterator[int]:
    """The processes of a session that can still do something."""
    if not _PROCESSES.is_dir():  # macOS: workers end by themselves when their JVM has
        with suppress(ProcessLookupError):
            os.kill(leader, 0)
            yield leader
        return
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdecimal():
            continue
        with suppress(OSError):
            # the name of the program is in parentheses, and may hold any character
            state, _parent, _group, session = (
                (folder / "stat").read_bytes().rpartition(b")")[2].split()[:4]
            )
            if int(session) == leader and state not in {b"Z", b"X"}:
                yield int(folder.name)


if __name__ == "__main__":
    sys.exit(main())
