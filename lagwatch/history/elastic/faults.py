"""Translates errors of Elasticsearch into `HistoryError`.

An error is `retryable` if it can be remedied without changing the rows: they wait in the spool
until then.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from elastic_transport import (
    ConnectionError as TransportFault,
)
from elastic_transport import (
    ConnectionTimeout,
    SerializationError,
    TlsError,
    TransportError,
)
from elasticsearch import ApiError, UnsupportedProductError

from lagwatch.errors import HistoryError

STORE: Final = "elasticsearch"

FULL_DISK: Final = "disk usage exceeded"
"""Part of the reason why an index refuses writes on a full disk.

Source: Elasticsearch, IndexMetadata.INDEX_READ_ONLY_ALLOW_DELETE_BLOCK.
"""

_TEXT: Final = "Fielddata is disabled on ["
"""Part of the reason why names cannot be counted where they are analysed text."""

_BUSY: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_NEEDED: Final = (
    "It needs, on {prefix}-*: create_doc, index, read, view_index_metadata, monitor, "
    "maintenance, auto_configure and delete_index; and, unless manage_templates = false, the "
    "cluster privileges manage_index_templates and monitor."
)

_NOT_OURS: Final = (
    "an index of {prefix}-* was not made by lagwatch's index template, and holds names as analysed "
    "text. `lagwatch history verify` names it, and says what to do"
)


@contextmanager
def reported(action: str, *, prefix: str) -> Iterator[None]:
    """Turn errors of the client into `HistoryError`; `action` names the attempted operation."""
    try:
        yield
    except (TransportError, ApiError, UnsupportedProductError) as error:
        raise history_error(error, action, prefix=prefix) from error


def whole(answer: object, action: str) -> dict[str, Any]:
    """The body of a complete answer.

    An answer that was cut off within its headers looks like a success without a body.

    Raises:
        HistoryError: the answer is cut off, or not from Elasticsearch.
    """
    if isinstance(answer, dict):
        return answer
    raise unusable(action)


def unusable(action: str) -> HistoryError:
    """The error for a response that is cut off or not from Elasticsearch."""
    return HistoryError(
        store=STORE,
        kind="connection",
        message=f"Elasticsearch: cannot {action}: what came back is cut off, or from no "
        "Elasticsearch. Check history.elasticsearch.urls and the proxies in between.",
        retryable=True,
    )


def history_error(error: Exception, action: str, *, prefix: str) -> HistoryError:
    """The `HistoryError` for an error of the client."""
    kind, reason, retryable = _said(error, prefix)
    return HistoryError(
        store=STORE,
        kind=kind,
        message=f"Elasticsearch: cannot {action}: {reason}",
        retryable=retryable,
    )


def _said(error: Exception, prefix: str) -> tuple[str, str, bool]:
    """Kind, sentence, retryable."""
    match error:
        case ConnectionTimeout():
            return "timeout", f"{error.message}. It is slow or hangs; we try again.", True
        case TlsError():
            return (
                "connection",
                f"TLS: {error.message}. Check history.elasticsearch.ca_file and fingerprint.",
                True,
            )
        case TransportFault():
            return (
                "connection",
                f"{error.message}. Check history.elasticsearch.urls and that it runs.",
                True,
            )
        case SerializationError() | UnsupportedProductError():
            return "connection", f"what answers is no Elasticsearch 9: {error.message}", True
        case ApiError():
            return _refused(error, prefix)
    return "connection", str(error), True


def _refused(error: ApiError, prefix: str) -> tuple[str, str, bool]:
    status = error.status_code
    reason = reason_of(error.body) or f"HTTP {status}"
    if FULL_DISK in reason:
        return "disk_full", f"{reason}. Make room on its nodes, or shorten the retention.", True
    if _TEXT in reason:
        reason = _NOT_OURS.format(prefix=prefix)
    if status == HTTPStatus.UNAUTHORIZED:
        return "authentication", f"{reason}. Check api_key, or username and password.", True
    if status == HTTPStatus.FORBIDDEN:
        return "authorization", f"{reason}. {_NEEDED.format(prefix=prefix)}", True
    if status in _BUSY:
        return "overloaded", f"{reason} (HTTP {status})", True
    if status == HTTPStatus.NOT_FOUND:
        return "schema", f"{reason}. It was removed; lagwatch creates it again.", True
    return "schema", f"{reason} (HTTP {status})", False


def reason_of(body: Any) -> str:  # noqa: ANN401 whatever was answered
    """Type and reason, with the innermost cause, from the body of an error."""
    cause = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(cause, dict):
        return str(cause)[:500] if cause else ""
    words = [_one_reason(cause)]
    roots = cause.get("failed_shards") or cause.get("root_cause") or [{}]
    inner = cause.get("caused_by") or roots[0].get("reason") or roots[0]
    while isinstance(inner, dict):
        words.append(_one_reason(inner))
        inner = inner.get("caused_by")
    return ": ".join(dict.fromkeys(word for word in words if word))


def _one_reason(cause: dict[str, Any]) -> str:
    kind, reason = cause.get("type", ""), cause.get("reason", "")
    return f"{kind}: {reason}" if reason and isinstance(reason, str) else str(kind)
