"""One run of a job at a time on a store, and proof of it.

A run leaves a note in the store, says now and then that it is still there, and marks the note as
ended at the end. A note not renewed for a while, or whose processes on this machine are dead, is of
a run that died: the next one takes its place. Notes are swapped in one step, so of two runs that
begin at the same moment one is refused; in a local folder the kernel's lock on a file comes first.

Each run has a token, a number greater than that of every run before. A run that lost its lock, for
instance because its machine slept, learns it from the token at the moment of writing (`NoteFence`).
"""

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

import structlog

from lagwatch.clock import Clock
from lagwatch.config.history import HistorySettings
from lagwatch.errors import HistoryError, JobError
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.registry import job_store

RENEW_EVERY_S: Final = 10.0
_DEAD_AFTER_MS: Final = 60_000
_LOOK_AGAIN_S: Final = 0.1
_LOOKS: Final = 300
"""How often a lock is tried whose driver is dead and whose processes are just being ended."""
_SILENT_RENEWALS: Final = 3
"""Renewals that a run must have missed to be dead where its clock and ours disagree."""
_RUNS_HERE: Final[set[str]] = set()
"""Runs of this process."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteFence:
    """A `Fence` that reads the note; goes to the workers, secrets and all. Never log it."""

    settings: HistorySettings
    job: str
    token: int

    def check(self) -> None:
        """Raises as `Fence`, and `HistoryError` when the store does not answer."""
        held = job_store(self.settings).state().load(_note(self.job))
        if held.get("token") != self.token:
            raise JobError(
                kind="fenced",
                message=f"lagwatch {self.job} lost its lock, to {_named(held)}: this run was not "
                "heard of for a minute. It replaces nothing any more. What it wrote is sound.",
                retryable=True,
            )


@contextmanager
def only_run(
    job: str,
    state: JobState,
    settings: HistorySettings,
    clock: Clock,
    *,
    renew_every_s: float = RENEW_EVERY_S,
) -> Iterator["Held"]:
    """Hold the lock of a job on a store, and renew its note every `renew_every_s`.

    Where the run before was killed and its processes are just being ended this waits for that.

    Raises:
        JobError: `locked`: another run holds it; the text says which.
        HistoryError: the store cannot be reached.
    """
    with ExitStack() as stack:
        held = _taken(stack, _Note(job, state, clock, renew_every_s), settings)
        renewing = threading.Thread(
            target=held.note.renew, args=(renew_every_s,), name=f"lock-{job}", daemon=True
        )
        renewing.start()
        try:
            yield held
        finally:
            held.note.ended.set()
            renewing.join()
            held.note.drop()


def _taken(stack: ExitStack, note: "_Note", settings: HistorySettings) -> "Held":
    """The lock; what holds it stays open in `stack`."""
    for _ in range(_LOOKS):
        with ExitStack() as trying:
            mine = trying.enter_context(job_store(settings).exclusive(note.job))
            if mine.free and note.take():
                stack.push(trying.pop_all())
                return Held(note=note, descriptors=mine.descriptors, settings=settings)
        if not note.is_ending():
            break
        threading.Event().wait(_LOOK_AGAIN_S)
    raise locked(note.job, note.found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A lock that this run has."""

    note: "_Note"
    descriptors: tuple[int, ...]
    """Of the kernel's lock: a process that inherits them holds it, too."""
    settings: HistorySettings

    @property
    def fence(self) -> NoteFence:
        return NoteFence(settings=self.settings, job=self.note.job, token=self.note.token)

    def guarded_by(self, pid: int) -> None:
        """The run counts as dead only when this process is, too, beside its own.

        Raises:
            HistoryError: the store did not take the note.
        """
        self.note.guarded_by(pid)


class _Note:
    """What is in the store as long as a run goes on."""

    def __init__(self, job: str, state: JobState, clock: Clock, renew_every_s: float) -> None:
        self.job = job
        self._renew_every_s = renew_every_s
        self._name = _note(job)
        self._state = state
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._guard = 0
        self._lock = threading.Lock()
        self._run = secrets.token_hex(8)
        self.token = 0
        self.found: Mapping[str, Any] = {}
        """What is there."""
        self.ended = threading.Event()

    def take(self) -> bool:
        """Put the note where there is none, or one of a run that has ended or died."""
        self.found = self._state.load(self._name)
        if not (_is_over(self.found) or self._is_dead(self.found)):
            return False
        # file names contain the token: it must be greater than that of every earlier run
        self.token = max(self._since_ms, _number(self.found.get("token")) + 1)
        _RUNS_HERE.add(self._run)
        return self._put()

    def is_ending(self) -> bool:
        """True if the run that holds the lock is dead, and its processes are being ended."""
        self.found = self._state.load(self._name)
        return _is_over(self.found) or _is_headless(self.found)

    def renew(self, every_s: float) -> None:
        while not self.ended.wait(every_s):
            try:
                with self._lock:
                    if not self._put():
                        _log.error("job_lock_lost", job=self.job)
                        return
            except HistoryError as error:
                _log.warning("job_lock_not_renewed", job=self.job, reason=str(error))

    def guarded_by(self, pid: int) -> None:
        with self._lock:
            self._guard = pid
            self._put()

    def drop(self) -> None:
        """Mark it as ended; it stays, because the next token must be greater."""
        _RUNS_HERE.discard(self._run)
        try:
            held = self._state.load(self._name)
            if held.get("run") == self._run:
                self._state.swap(self._name, held, {"token": self.token, "ended": True})
        except HistoryError as error:
            _log.warning("job_lock_not_removed", job=self.job, reason=str(error))

    def _put(self) -> bool:
        """Write the note, unless another one came in between."""
        note = {
            "token": self.token,
            "run": self._run,
            "host": socket.gethostname(),
            "system": _system(),
            "pid": os.getpid(),
            "guard": self._guard,
            "since_ms": self._since_ms,
            "seen_ms": self._clock.now_ms(),
        }
        if self._state.swap(self._name, self.found, note):
            self.found = note
            return True
        # ours may have come through although no answer did
        self.found = self._state.load(self._name)
        return self.found.get("run") == self._run

    def _is_dead(self, held: Mapping[str, Any]) -> bool:
        if _is_headless(held) and not _runs(_number(held.get("guard"))):
            return True
        silent_ms = self._clock.now_ms() - _number(held.get("seen_ms"))
        if silent_ms < -_DEAD_AFTER_MS:
            # its clock or ours is wrong: all that is sure is whether it renews its note
            return self._stays_as(held)
        return silent_ms > _DEAD_AFTER_MS

    def _stays_as(self, held: Mapping[str, Any]) -> bool:
        """True if no run renews the note while this waits."""
        for _ in range(_SILENT_RENEWALS):
            threading.Event().wait(self._renew_every_s)
            if self._state.load(self._name) != held:
                return False
        return True


def _note(job: str) -> str:
    return f"{job}.lock"


def _is_over(held: Mapping[str, Any]) -> bool:
    return not held or bool(held.get("ended"))


def _is_headless(held: Mapping[str, Any]) -> bool:
    """Is the process of the run dead? Known of this machine only, since it was started."""
    # notes of earlier releases do not name the system
    here = held.get("host") == socket.gethostname() and held.get("system", _system()) == _system()
    pid = _number(held.get("pid"))
    # a process of our own number that is not us is the one before us
    gone = held.get("run") not in _RUNS_HERE if pid == os.getpid() else not _runs(pid)
    return here and gone


@cache
def _system() -> str:
    """This start of this machine, and the processes that can be seen: a container has its own.

    Names of machines are not enough: several may be called `localhost`.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}:{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:  # no Linux
        return ""


def _number(value: object) -> int:
    """Zero for what an earlier release wrote."""
    return value if isinstance(value, int) else 0


def _named(held: Mapping[str, Any]) -> str:
    if _is_over(held):
        return "a run that has just begun or ended"
    since = datetime.fromtimestamp(_number(held.get("since_ms")) / 1000, UTC)
    return f"process {held.get('pid')} on {held.get('host')} since {since:%Y-%m-%dT%H:%M:%SZ}"


def locked(job: str, held: Mapping[str, Any]) -> JobError:
    """The error about a run that goes on."""
    return JobError(
        kind="locked",
        message=f"lagwatch {job} works on this store already: {_named(held)}. Wait for its end, or "
        "stop it.",
        retryable=True,
    )


def _runs(pid: int) -> bool:
    """Is there such a process on this machine? One of another user counts."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
