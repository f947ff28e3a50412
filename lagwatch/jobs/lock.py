"""One run of a job at a time on a store.

A run leaves a note in the store, says now and then that it is still there, and takes the note away
at the end. A note not renewed for a while, or whose process on this machine is dead, is of a run
that died: the next one takes its place. Of two runs that begin at the same moment one is refused:
in Elasticsearch by the version of the note, in a local folder by the kernel's lock on a file.
Object stores promise nothing of the kind: two that begin within an instant may both go on there.
"""

import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from lagwatch.clock import Clock
from lagwatch.config.history import HistorySettings
from lagwatch.errors import HistoryError, JobError
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.registry import job_store

RENEW_EVERY_S: Final = 10.0
_DEAD_AFTER_MS: Final = 60_000

_log = structlog.get_logger()


@contextmanager
def only_run(
    job: str,
    state: JobState,
    settings: HistorySettings,
    clock: Clock,
    *,
    renew_every_s: float = RENEW_EVERY_S,
) -> Iterator[None]:
    """Hold the lock of a job on a store, and renew its note every `renew_every_s`.

    Raises:
        JobError: `locked`: another run holds it; the text says which.
        HistoryError: the store cannot be reached.
    """
    with job_store(settings).exclusive(job) as free:
        if not free:
            raise locked(job, state.load(_note(job)))
        note = _Note(job, state, clock)
        note.take()
        renewing = threading.Thread(
            target=note.renew, args=(renew_every_s,), name=f"lock-{job}", daemon=True
        )
        renewing.start()
        try:
            yield
        finally:
            note.ended.set()
            renewing.join()
            note.drop()


class _Note:
    """What is in the store as long as a run goes on."""

    def __init__(self, job: str, state: JobState, clock: Clock) -> None:
        self._job = job
        self._name = _note(job)
        self._state = state
        self._clock = clock
        self._since_ms = clock.now_ms()
        self._token = secrets.token_hex(8)
        self._held: Mapping[str, Any] = {}
        """What is there."""
        self.ended = threading.Event()

    def take(self) -> None:
        self._held = self._state.load(self._name)
        if self._held and not self._is_dead(self._held):
            raise locked(self._job, self._held)
        if not self._put():
            raise locked(self._job, self._held)

    def renew(self, every_s: float) -> None:
        while not self.ended.wait(every_s):
            try:
                if not self._put():
                    _log.error("job_lock_lost", job=self._job)
                    return
            except HistoryError as error:
                _log.warning("job_lock_not_renewed", job=self._job, reason=str(error))

    def drop(self) -> None:
        try:
            if self._state.load(self._name).get("token") == self._token:
                self._state.delete(self._name)
        except HistoryError as error:
            _log.warning("job_lock_not_removed", job=self._job, reason=str(error))

    def _put(self) -> bool:
        """Write the note, unless another one came in between."""
        note = {
            "token": self._token,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since_ms": self._since_ms,
            "seen_ms": self._clock.now_ms(),
        }
        if self._state.swap(self._name, self._held, note):
            self._held = note
            return True
        # ours may have come through although no answer did
        self._held = self._state.load(self._name)
        return self._held.get("token") == self._token

    def _is_dead(self, held: Mapping[str, Any]) -> bool:
        if held.get("host") == socket.gethostname() and not _runs(int(held.get("pid", 0))):
            return True
        return self._clock.now_ms() - int(held.get("seen_ms", 0)) > _DEAD_AFTER_MS


def _note(job: str) -> str:
    return f"{job}.lock"


def locked(job: str, held: Mapping[str, Any]) -> JobError:
    """The error about a run that goes on."""
    since = datetime.fromtimestamp(int(held.get("since_ms", 0)) / 1000, UTC)
    return JobError(
        kind="locked",
        message=f"lagwatch {job} works on this store already: process {held.get('pid')} on "
        f"{held.get('host')} since {since:%Y-%m-%dT%H:%M:%SZ}. Wait for its end, or stop it.",
        retryable=True,
    )


def _runs(pid: int) -> bool:
    """Is there such a process on this machine? One of another user counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
