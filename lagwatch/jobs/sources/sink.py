"""Writes the batches of one Spark task into a store; the same rows again change nothing."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from lagwatch.backoff import Backoff
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, Records
from lagwatch.errors import HistoryError
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.rows import digest, gathered
from lagwatch.jobs.fence import Fence, allowed_by
from lagwatch.jobs.schemas import from_batch
from lagwatch.ports.history import HistoryStore

_ROWS_AT_ONCE: Final = 200_000
PATIENCE_S: Final = 600.0
"""How long a store may be away before the task gives up; Spark may still try the task again."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Store and kind to write; sent to the workers with its secrets."""

    settings: HistorySettings
    kind: Kind
    batch: str
    """Name of the batch, equal on every attempt: letters, digits and `-`."""
    patience_s: float = PATIENCE_S
    fence: Fence | None = None
    """Of the run that writes; None: no other run can be at work."""

    def open(self) -> tuple[HistoryStore, Callable[[Records], None]]:
        """The store, which the caller closes, and its function that writes rows.

        Raises:
            HistoryError: the store cannot be understood, or its package is not installed.
        """
        store = open_store(self.settings, allowed=allowed_by(self.fence))

        def put(rows: Records) -> None:
            # a task that is tried again names them alike
            store.write([rows], batch=f"{self.batch}-{digest(rows)}")

        return store, put


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Outcome of writing rows."""

    rows: int = 0
    """Rows handed in."""
    rejected: int = 0
    """Rows among them that the store rejected for good."""
    retries: int = 0
    rejected_in: str = ""
    """Folder of the worker with the rejected rows and the reasons; ""."""

    def __add__(self, other: "Written") -> "Written":
        return Written(
            rows=self.rows + other.rows,
            rejected=self.rejected + other.rejected,
            retries=self.retries + other.retries,
            rejected_in=self.rejected_in or other.rejected_in,
        )


def write_batches(sink: Sink, batches: Iterable[Any]) -> Written:
    """Write `pyarrow.RecordBatch`es of the sink's kind.

    Raises:
        HistoryError: the store refuses, or was away for too long; what it took stays.
    """
    return write_records(sink, (from_batch(sink.kind, batch) for batch in batches))


def write_records(sink: Sink, parts: Iterable[Records]) -> Written:
    """Write rows of the sink's kind.

    Raises:
        HistoryError: as `write_batches`.
    """
    store, put = sink.open()
    try:
        total = Written()
        # files and requests should not be small
        for rows in gathered(parts, _ROWS_AT_ONCE):
            retries = persist(partial(put, rows), patience_s=sink.patience_s)
            total += Written(rows=rows.size, retries=retries)
        if store.rejected_rows:
            place = str((sink.settings.spool / "rejected").absolute())
            total += Written(rejected=store.rejected_rows, rejected_in=place)
        return total
    finally:
        store.close()


def persist(write: Callable[[], None], *, patience_s: float = PATIENCE_S) -> int:
    """Write, with retries while the error is retryable; return the number of retries.

    Raises:
        HistoryError: the store refuses, or was away for longer than `patience_s`.
    """
    backoff = Backoff(first_s=0.5, longest_s=30.0)
    waited_s, retries = 0.0, 0
    while True:
        try:
            write()
        except HistoryError as error:
            if not error.retryable or waited_s >= patience_s:
                raise
            delay_s = backoff.next_s()
            _log.warning(
                "write_failed",
                retry_in_s=round(delay_s, 1),
                gives_up_in_s=max(0, round(patience_s - waited_s)),
                reason=str(error),
            )
            threading.Event().wait(delay_s)
            waited_s += delay_s
            retries += 1
        else:
            return retries
