"""Runs one command that must not outlive the process that asked for it.

A program of its own (standard library only, run by path with `python -I -S`), standing between
lagwatch and the JVM:

    guard.py LOG DOOMED COMMAND [ARGUMENT …]

- The command's output goes to the file LOG; its process id is the one line on standard output.
- Standard input is the life line. `t` asks the command to end (SIGTERM), `k` ends it (SIGKILL).
  End of file means the owner is gone, SIGKILL included: the command is killed and the directory
  DOOMED removed ("" for none).
- Should the guard itself be killed, Linux kills the command: PR_SET_PDEATHSIG is tied to the
  *thread* that forked, so it is only safe below a process of one thread, which is this one.
- The owner may have forked children that hold a copy of the life line's other end, so a change of
  parent counts as the end of file does.

Exits with the command's own status, 128 + n after signal n.
"""

import ctypes
import os
import select
import shutil
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_OWNER_CHECK_S = 1.0
_COULD_NOT_RUN = 127
_LIFE_LINE = 0
_REPORT = 1
_SIGNALS = {b"t": signal.SIGTERM, b"k": signal.SIGKILL}


def main(log: str, doomed: str, *command: str) -> int:
    """Run `command` until it ends or its owner does; return its exit status."""
    owner = os.getppid()
    woken = _wake_on_signals()
    child = _spawn(log, command)
    os.write(_REPORT, f"{child}\n".encode("ascii"))
    while True:
        if (status := _reap(child)) is not None:
            return status
        ready, _, _ = select.select([_LIFE_LINE, woken], [], [], _OWNER_CHECK_S)
        if woken in ready and set(os.read(woken, 64)) - {signal.SIGCHLD}:
            return _end(child, doomed)
        if _LIFE_LINE in ready:
            order = os.read(_LIFE_LINE, 1)
            if order not in _SIGNALS:
                return _end(child, doomed)
            os.kill(child, _SIGNALS[order])  # not yet reaped, so the id is still the command's
        if os.getppid() != owner:
            return _end(child, doomed)


def _spawn(log: str, command: tuple[str, ...]) -> int:
    guard = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guard:
                os._exit(_COULD_NOT_RUN)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execv(command[0], command)  # noqa: S606 - deliberately without a shell
    except OSError as error:
        os.write(2, f"cannot run {command[0]}: {error}\n".encode())
    os._exit(_COULD_NOT_RUN)


def _wake_on_signals() -> int:
    """Return a descriptor on which the numbers of arriving signals can be read."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the owner's mask came with the fork
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return readable


def _reap(child: int, flags: int = os.WNOHANG) -> int | None:
    pid, status = os.waitpid(child, flags)
    if not pid:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _end(child: int, doomed: str) -> int:
    os.kill(child, signal.SIGKILL)
    status = _reap(child, 0)
    if doomed:
        _remove(Path(doomed))
    return 1 if status is None else status


def _remove(directory: Path) -> None:
    """Remove a broker's directory, and the cluster's when it was the last one in it."""
    shutil.rmtree(directory, ignore_errors=True)
    if not any(directory.parent.glob("broker-*")):
        shutil.rmtree(directory.parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
