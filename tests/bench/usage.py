"""CPU and memory of a process with all its descendants, from Linux's /proc."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Positions in /proc/PID/stat, counted after the command's name: proc(5), fields 4 and 14 to 17.
_PPID, _UTIME, _CSTIME = 1, 11, 14


@dataclass(slots=True)
class CpuTime:
    """CPU seconds spent inside a `cpu_time` block; valid once the block has ended."""

    seconds: float = 0.0


@contextlib.contextmanager
def cpu_time(*pids: int, without: tuple[int, ...] = ()) -> Iterator[CpuTime]:
    """Measure what `pids` and their descendants spend (user + system) inside the block.

    Children that end inside the block count, if their parent waits for them. The processes in
    `without` (a broker, say) are left out, with their descendants.
    """
    spent = CpuTime()
    before = _cpu_s(pids, without)
    yield spent
    spent.seconds = _cpu_s(pids, without) - before


def rss_bytes(*pids: int, without: tuple[int, ...] = ()) -> int:
    """Return the resident memory of `pids` and their descendants together."""
    return sum(_kilobytes(pid, "status", "VmRSS:") * 1024 for pid in family(pids, without))


def pss_bytes(*pids: int) -> int:
    """Return the memory of `pids` and their descendants; what several share counts once."""
    return sum(_kilobytes(pid, "smaps_rollup", "Pss:") * 1024 for pid in family(pids, ()))


def family(pids: tuple[int, ...], without: tuple[int, ...] = ()) -> set[int]:
    """Return `pids` and all their living descendants, except `without` and theirs."""
    children: dict[int, list[int]] = {}
    for pid, fields in _every_stat():
        children.setdefault(int(fields[_PPID]), []).append(pid)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid not in without:
            found.add(pid)
            waiting.extend(children.get(pid, ()))
    return found


def _cpu_s(pids: tuple[int, ...], without: tuple[int, ...]) -> float:
    members = family(pids, without)
    ticks = sum(
        sum(int(field) for field in fields[_UTIME : _CSTIME + 1])
        for pid, fields in _every_stat()
        if pid in members
    )
    return ticks / _TICKS_PER_S


def _kilobytes(pid: int, file: str, name: str) -> int:
    try:
        lines = (_PROC / str(pid) / file).read_text(encoding="ascii", errors="replace").splitlines()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name))


def _every_stat() -> Iterator[tuple[int, list[str]]]:
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                stat = (directory / "stat").read_text(encoding="ascii", errors="replace")
                yield int(directory.name), stat.rsplit(")", 1)[1].split()
