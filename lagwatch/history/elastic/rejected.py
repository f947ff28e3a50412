"""Where rows go that Elasticsearch will never take: a file with the reason of each."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import orjson
import structlog

from lagwatch.errors import HistoryError
from lagwatch.history.elastic.faults import STORE

_FILE: Final = "rejected.jsonl"
_OLDER: Final = "rejected.1.jsonl"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A document that was refused for what it is."""

    index: str
    id: str
    status: int
    reason: str
    body: bytes
    """The document, JSON."""


class RejectedRows:
    """The dead letters: `rejected.jsonl` in a folder, and the file before it.

    A line holds `index`, `id`, `status`, `reason` and `document`. A row that is written again
    because its batch is may stand there more than once, with the same `id`.
    """

    def __init__(self, folder: Path, *, max_bytes: int = 64_000_000) -> None:
        """`max_bytes` bounds both files together; the older half goes."""
        self._folder = folder
        self._half = max_bytes // 2
        self.rows = 0
        """Rows set aside since the start."""
        self._lock = Lock()

    @property
    def file(self) -> Path:
        return self._folder / _FILE

    def add(self, rows: Sequence[RejectedRow]) -> None:
        """Keep these rows, durably, and say so.

        Raises:
            HistoryError: they cannot be written.
        """
        with self._lock:
            try:
                self._append(b"".join(_line(row) for row in rows))
            except OSError as error:
                raise HistoryError(
                    store=STORE,
                    kind="io",
                    message=f"cannot keep rejected rows in {self.file}: {error.strerror}. "
                    "Check the path, its rights and its free space.",
                    retryable=True,
                ) from error
            self.rows += len(rows)
        first = rows[0]
        _log.error(
            "history_rows_rejected",
            store=STORE,
            rows=len(rows),
            index=first.index,
            reason=first.reason,
            kept_in=str(self.file),
        )

    def _append(self, lines: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.file.exists() and self.file.stat().st_size + len(lines) > self._half:
            self.file.replace(self._folder / _OLDER)
        with self.file.open("ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())


def _line(row: RejectedRow) -> bytes:
    said = {"index": row.index, "id": row.id, "status": row.status, "reason": row.reason}
    return orjson.dumps({**said, "document": orjson.Fragment(row.body)}) + b"\n"
