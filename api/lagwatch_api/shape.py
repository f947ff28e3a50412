"""HEAD, gzip and `nosniff` for every route, whatever answers it."""

import asyncio
import gzip
import re
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_ZERO: Final = re.compile(rb"q=0(\.0*)?")
"""A weight that refuses a coding (RFC 9110, section 12.4.2)."""
_SMALLEST_BYTES: Final = 1024
_THREAD_FROM_BYTES: Final = 64 * 1024
"""Larger bodies are compressed in a thread, so that no other request waits."""
_LEVEL: Final = 4
_TEXTUAL: Final = ("application/json", "text/", "image/svg+xml")
_STREAM: Final = "text/event-stream"


class Shape:
    """Answers HEAD with the headers of GET, and compresses texts for clients that accept it.

    Every answer says that browsers must not take it for anything but its `Content-Type`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        send = _not_sniffed(send)
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        for name, value in scope["headers"]:
            if name == b"accept-encoding" and _takes_gzip(value):
                send = _Compressed(send)
                break
        return await self._app(scope, receive, send)


def _not_sniffed(send: Send) -> Send:
    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = message["headers"]
            if all(name != _NOSNIFF[0] for name, _ in headers):
                message = {**message, "headers": [*headers, _NOSNIFF]}
        await send(message)

    return marked


def _takes_gzip(accepted: bytes) -> bool:
    """False for `gzip;q=0`, which says that it is not wanted."""
    for offer in accepted.lower().split(b","):
        coding, *parameters = (part.strip() for part in offer.split(b";"))
        if coding == b"gzip":
            return not any(_ZERO.fullmatch(parameter) for parameter in parameters)
    return False


def _without_body(send: Send) -> Send:
    """Sends the headers, and an end; what follows is dropped.

    The server then reports the client as gone, which ends an answer that streams.
    """

    async def only_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body"})

    return only_headers


class _Compressed:
    """Compresses an answer that comes in one piece; others pass as they are."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            message = await self._squeezed(start, message)
            await self._send(start)
        await self._send(message)

    async def _squeezed(self, start: Message, message: Message) -> Message:
        headers, body = MutableHeaders(raw=start["headers"]), message.get("body", b"")
        if not _is_text(headers) or "content-encoding" in headers:
            return message
        headers.add_vary_header("Accept-Encoding")
        if message.get("more_body") or len(body) < _SMALLEST_BYTES:
            return message
        if len(body) < _THREAD_FROM_BYTES:
            body = gzip.compress(body, _LEVEL, mtime=0)
        else:
            body = await asyncio.to_thread(gzip.compress, body, _LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
        headers["Content-Length"] = str(len(body))
        return {**message, "body": body}


def _is_text(headers: MutableHeaders) -> bool:
    kind = headers.get("content-type", "")
    return kind.startswith(_TEXTUAL) and not kind.startswith(_STREAM)
