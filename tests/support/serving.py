"""Asking an ASGI application: directly, or through a real server on loopback."""

import asyncio
import http.client
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import ASGIApp, Receive

from tests.support.waiting import eventually

_DEADLINE_S = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came back; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401
        return orjson.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


def ask(
    app: FastAPI,
    target: str,
    method: str = "GET",
    body: bytes = b"",
    *,
    headers: Mapping[str, str] = {},
    scheme: str = "http",
    receive: Receive | None = None,
    crashes: bool = False,
    also: Sequence[tuple[str, str]] = (),
    http_version: str = "1.1",
) -> Answered:
    """Ask the application itself, with the scope that a server would make of `target`.

    `headers` replace those that are sent otherwise, of which "" as `host` leaves it out; `also` are
    sent beside them. With `crashes` it must raise after its answer;
    a server would log that.
    """
    path, _, query = target.partition("?")
    raw = path.encode("latin-1")
    sent = {"host": "test", "content-length": str(len(body)), **headers}
    if not sent["host"]:
        del sent["host"]

    async def whole() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": http_version,
        "method": method,
        "scheme": scheme,
        "path": unquote(path),
        "raw_path": raw,
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in [*sent.items(), *also]],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    asked = _ask(app, scope, receive or whole, crashes=crashes)
    return asyncio.run(asyncio.wait_for(asked, _DEADLINE_S))


async def _ask(app: FastAPI, scope: dict[str, Any], receive: Receive, *, crashes: bool) -> Answered:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    with pytest.raises(Exception) if crashes else nullcontext():  # noqa: PT011
        await app(scope, receive, send)
    return Answered(
        status=sent[0]["status"],
        headers={name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]},
        body=b"".join(message.get("body", b"") for message in sent[1:]),
    )


class Served:
    """An application behind a real server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, target: str, method: str = "GET", body: bytes | None = None) -> Answered:
        """Ask over a connection of its own; `target` is sent as it stands."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_DEADLINE_S)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Answered(status=response.status, headers=headers, body=response.read())
        finally:
            connection.close()


@contextmanager
def served(app: ASGIApp) -> Iterator[Served]:
    """The application on a free port of the loopback, served by uvicorn."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, http="httptools", loop="uvloop", log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started, "the server listens", timeout_s=_DEADLINE_S)
        yield Served(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(_DEADLINE_S)
        listener.close()
