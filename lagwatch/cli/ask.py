"""Orders to a running lagwatch, over `/api/v1`."""

import http.client
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer

from lagwatch.errors import NotFoundError, SourceError

HERE: Final = "http://127.0.0.1:8000"
Url = Annotated[
    str, typer.Option(metavar="URL", envvar="LAGWATCH_URL", help="Root of the running lagwatch.")
]
_TIMEOUT_S: Final = 10.0


def ask(
    root: str,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    missing: tuple[str, str] = ("", ""),
) -> Any:  # noqa: ANN401 JSON of the server
    """What it answers; None for nothing.

    Raises:
        NotFoundError: it does not know `missing` (kind, name).
        SourceError: it cannot be reached, refuses, or has no such route.
    """
    from lagwatch.cli.remote import authorization, refused, shown_url

    shown = shown_url(root)
    parts = urlsplit(root if "://" in root else f"http://{root}")
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"} | authorization(parts)
        connection.request(
            method, parts.path.rstrip("/") + path, json.dumps(body) if body else None, headers
        )
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        message = f"cannot ask {shown}: {error}. Check --url and that lagwatch runs."
        raise SourceError(cluster="", kind="connection", message=message) from error
    finally:
        connection.close()
    if response.status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        raise refused(shown, response.status)
    if response.status == http.client.NOT_FOUND and missing[0] and b"is not known" in text:
        raise NotFoundError(kind=missing[0], name=missing[1])
    if response.status == http.client.NOT_FOUND:
        message = f"{shown} has no {path}: it is another server, or that part is switched off there"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    if response.status >= http.client.BAD_REQUEST:
        message = f"{shown} answered {response.status}: {text.decode(errors='replace')[:300]}"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    return json.loads(text) if text else None


def only_cluster(url: str) -> str:
    """The cluster that is watched, where there is one.

    Raises:
        SourceError: there are several, and it must be said which.
    """
    clusters = ask(url, "GET", "/v3/kafka")["clusters"]
    if len(clusters) == 1:
        return str(clusters[0])
    message = f"{url} watches {', '.join(clusters) or 'no cluster'}: say which with --cluster"
    raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
