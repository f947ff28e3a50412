"""Writes documents so that each is stored once, whatever fails on the way.

Rows as recorded are only created, never overwritten, under ids made from their keys: after a fault
the same documents are sent again, and Elasticsearch answers 409 for those it already has, which
counts as success. Computed rows are written over whatever is stored under their ids.
"""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, Final

import orjson
import structlog
from elasticsearch import ApiError, Elasticsearch

from lagwatch.errors import HistoryError
from lagwatch.history.elastic.documents import Document
from lagwatch.history.elastic.faults import FULL_DISK, STORE, reason_of, reported, unusable, whole

_FILE: Final = "rejected.jsonl"
_OLDER: Final = "rejected.1.jsonl"

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRow:
    """A document that Elasticsearch rejected because of its content."""

    index: str
    id: str
    status: int
    reason: str
    body: bytes
    """The document, JSON."""


class RejectedRows:
    """The dead letters: `rejected.jsonl` in a folder, and the file before it.

    A line holds `index`, `id`, `status`, `reason` and `document`. When a batch is sent again, its
    rejected rows are added again, with the same `id`.
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
        """Append these rows durably, and log them.

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


_WANTED: Final = "errors,items.*.status,items.*.error"
_SERVER_SHARE: Final = 0.5
"""Share of the deadline for the server's own waiting: its reasons then still arrive in time."""

_CREATE: Final = b"create"
_INDEX: Final = b"index"
_CHANGED: Final = (HTTPStatus.CONFLICT, "another writer replaced rows at the same time")

_OF_THE_PLACE: Final = frozenset(
    {
        "circuit_breaking_exception",
        "cluster_block_exception",
        "es_rejected_execution_exception",
        "index_closed_exception",
        "index_not_found_exception",
        "invalid_index_name_exception",
        "process_cluster_event_timeout_exception",
        "security_exception",
        "unavailable_shards_exception",
        "validation_exception",  # the cluster holds as many shards as it may
    }
)
"""Errors of single documents that are not caused by the document."""


@dataclass(slots=True)
class BulkOutcome:
    """Outcome for the documents sent to one index."""

    there: list[Document] = field(default_factory=list)
    """Documents that were already stored."""
    rejected: list[RejectedRow] = field(default_factory=list)
    later: int = 0
    """Documents refused for a temporary reason."""
    why_later: tuple[int, str] = (0, "")
    """Status and reason of the first of those."""

    def add(self, other: "BulkOutcome") -> None:
        """Add the counts of another outcome."""
        self.there += other.there
        self.rejected += other.rejected
        self.why_later = self.why_later if self.later else other.why_later
        self.later += other.later

    def fault(self) -> HistoryError | None:
        """The error to raise if documents must be sent again; None otherwise."""
        if not self.later:
            return None
        status, reason = self.why_later
        kind = "overloaded"
        if FULL_DISK in reason:
            kind = "disk_full"
        elif status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            kind = "authorization"
        return HistoryError(
            store=STORE,
            kind=kind,
            message=f"Elasticsearch did not take {self.later} rows yet: {reason} (HTTP {status})",
            retryable=True,
        )


class BulkSender:
    """Sends documents in bulk requests, a few at a time."""

    def __init__(
        self,
        client: Elasticsearch,
        *,
        prefix: str,
        bulk_bytes: int,
        connections: int,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._bulk_bytes = bulk_bytes
        self._connections = connections
        self._server_wait = f"{max(1, int(timeout_s * _SERVER_SHARE * 1000))}ms"
        self._pool = ThreadPoolExecutor(connections, thread_name_prefix="elastic-bulk")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def create(self, index: str, documents: Iterable[Document]) -> BulkOutcome:
        """Create these documents in an index where they are not there yet.

        Raises:
            HistoryError: a whole request failed; documents of other requests stay written.
        """
        return self._all(index, documents, _CREATE)

    def put(
        self, index: str, documents: Iterable[Document], *, version: int | None = None
    ) -> BulkOutcome:
        """Put these documents into an index, in the place of any with the same ids.

        With a version not in the place of those with a greater one: these count as `there`.

        Raises:
            HistoryError: a whole request failed; documents of other requests stay written.
        """
        if version is None:
            return self._all(index, documents, _INDEX)
        options = b',"version":%d,"version_type":"external_gte"' % version
        return self._all(index, documents, _INDEX, options)

    def _all(
        self, index: str, documents: Iterable[Document], action: bytes, options: bytes = b""
    ) -> BulkOutcome:
        outcome = BulkOutcome()
        under_way: deque[Future[BulkOutcome]] = deque()
        try:
            for chunk in chunks(documents, self._bulk_bytes):
                if len(under_way) == self._connections:
                    wait(under_way, return_when=FIRST_COMPLETED)
                    _collect(under_way, outcome)
                under_way.append(self._pool.submit(self._send, index, chunk, action, options))
        finally:
            wait(under_way)
        _collect(under_way, outcome)
        return outcome

    def replace(self, index: str, documents: Sequence[tuple[Document, int, int]]) -> BulkOutcome:
        """Put documents in the place of others, each named by sequence number and primary term.

        Raises:
            HistoryError: a request failed as a whole.
        """
        operations: list[Any] = []
        for document, seq_no, term in documents:
            operations.append(
                {"index": {"_id": document.id, "if_seq_no": seq_no, "if_primary_term": term}}
            )
            operations.append(document.body)
        with reported(f"write to {index}", prefix=self._prefix):
            answer = self._client.bulk(
                index=index,
                operations=operations,
                timeout=self._server_wait,
                filter_path=_WANTED,
            ).body
        sent = [document for document, _, _ in documents]
        outcome = _sorted(index, sent, whole(answer, f"write to {index}"))
        if outcome.there:  # another writer was quicker: the batch has to look again
            outcome.add(BulkOutcome(later=len(outcome.there), why_later=_CHANGED))
            outcome.there.clear()
        return outcome

    def _send(
        self, index: str, chunk: Sequence[Document], action: bytes, options: bytes
    ) -> BulkOutcome:
        try:
            with reported(f"write to {index}", prefix=self._prefix):
                return self._once(index, chunk, action, options)
        except HistoryError as error:
            if not _too_large(error.__cause__):
                raise
        if len(chunk) == 1:  # one document, and still larger than a proxy or the server accepts
            return BulkOutcome(
                rejected=[_rejected(index, chunk[0], 413, "too large for the server")]
            )
        outcome = BulkOutcome()
        for half in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :]):
            outcome.add(self._send(index, half, action, options))
        return outcome

    def _once(
        self, index: str, chunk: Sequence[Document], action: bytes, options: bytes
    ) -> BulkOutcome:
        operations: list[Any] = [
            _body(chunk, action, options)
        ]  # the client also accepts serialised JSON
        answer = self._client.bulk(
            index=index,
            operations=operations,
            timeout=self._server_wait,
            filter_path=_WANTED,
        ).body
        return _sorted(index, chunk, whole(answer, f"write to {index}"))


def chunks(documents: Iterable[Document], max_bytes: int) -> Iterator[list[Document]]:
    """Documents in lists that make requests of at most about `max_bytes`, one document at least."""
    chunk: list[Document] = []
    size = 0
    for document in documents:
        length = len(document.body) + len(document.id) + _FRAME
        if chunk and size + length > max_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(document)
        size += length
    if chunk:
        yield chunk


_FRAME: Final = len('{"create":{"_id":""}}\n\n')


def _body(chunk: Sequence[Document], action: bytes, options: bytes) -> bytes:
    lines = []
    for document in chunk:
        lines.append(b'{"%b":{"_id":"%b"%b}}' % (action, document.id.encode("ascii"), options))
        lines.append(document.body)
    return b"\n".join(lines)


def _collect(under_way: deque[Future[BulkOutcome]], outcome: BulkOutcome) -> None:
    """Collect the results of all finished requests; raise the first fault."""
    for future in [request for request in under_way if request.done()]:
        under_way.remove(future)
        outcome.add(future.result())


def _sorted(index: str, chunk: Sequence[Document], answer: Mapping[str, Any]) -> BulkOutcome:
    """The outcome of each document; an answer that leaves any out counts as a failed request."""
    outcome = BulkOutcome()
    errors, items = answer.get("errors"), answer.get("items", ())
    if errors is False:
        return outcome
    if errors is not True or len(items) != len(chunk):
        raise unusable(f"write to {index}")
    for document, item in zip(chunk, items, strict=True):
        (answer,) = item.values()
        status = answer["status"]
        if status == HTTPStatus.CONFLICT:
            outcome.there.append(document)
        elif status >= HTTPStatus.BAD_REQUEST:
            _sort_error(outcome, index, document, status, answer.get("error", {}))
    return outcome


def _sort_error(
    outcome: BulkOutcome, index: str, document: Document, status: int, error: Mapping[str, Any]
) -> None:
    reason = reason_of(error)
    if status == HTTPStatus.BAD_REQUEST and error.get("type") not in _OF_THE_PLACE:
        outcome.rejected.append(_rejected(index, document, status, reason))
    else:
        outcome.add(BulkOutcome(later=1, why_later=(status, reason)))


def _rejected(index: str, document: Document, status: int, reason: str) -> RejectedRow:
    return RejectedRow(
        index=index, id=document.id, status=status, reason=reason, body=document.body
    )


def _too_large(cause: BaseException | None) -> bool:
    return isinstance(cause, ApiError) and cause.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
