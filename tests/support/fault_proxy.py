"""A real HTTP proxy on loopback that does to requests what networks and servers do at times.

It reads a whole request, then behaves as the test says: passes it on, hangs, drips, cuts the answer
off after the server has done its work, or answers by itself. It can demand credentials and speak
TLS, which the test server cannot.
"""

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

LOOPBACK = "127.0.0.1"
_START_TIMEOUT_S = 10.0
_STEP_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it came in."""

    method: str
    path: str
    """Without the query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Pass:
    """Hand the request on and the answer back."""


@dataclass(frozen=True, slots=True)
class Hang:
    """Take the request and never answer."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Hand the answer back byte by byte, so that every single wait is short."""

    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Let the server do its work, then break the connection after so many bytes of the answer."""

    after_bytes: int = 0


@dataclass(frozen=True, slots=True)
class CutRequest:
    """Break both connections when only so much of the request has reached the server."""

    after_bytes: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer in the place of the server, which hears nothing of it."""

    status: int
    body: bytes = b'{"error":{"type":"proxy","reason":"told to"}}'
    content_type: str = "application/json"


Behaviour = Pass | Hang | Slow | Cut | CutRequest | Answer
Rule = Callable[[Request], Behaviour]


@dataclass(slots=True)
class FaultProxy:
    """The proxy; use it as a context manager. `rule` may be changed at any time."""

    upstream_port: int
    rule: Rule = lambda _: Pass()
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    """All that came, in their order."""
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _server: asyncio.Server | None = None
    _thread: threading.Thread | None = None
    _served: set[asyncio.Task[None]] = field(default_factory=set)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy")
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        assert self._thread is not None
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{LOOPBACK}:{self.port}"

    def of(self, part: str) -> list[Request]:
        """The requests whose path holds `part`."""
        return [request for request in self.requests if part in request.path]

    def behave(self, behaviour: Behaviour, *, when: str = "", times: int | None = None) -> None:
        """Do this to every request whose path holds `when`, so many times; pass all others."""
        left = [times]

        def rule(request: Request) -> Behaviour:
            if when not in request.path or left[0] == 0:
                return Pass()
            if left[0] is not None:
                left[0] -= 1
            return behaviour

        self.rule = rule

    def listen(self) -> None:
        """Accept connections, on the same port as before."""
        self._run(self._listen())

    def refuse(self) -> None:
        """Close everything: connections are refused until `listen`."""
        self._run(self._close())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_TIMEOUT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve, LOOPBACK, self.port, ssl=self.tls, limit=1 << 20
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._served):
            task.cancel()
        await asyncio.gather(*self._served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._served.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._one(reader, writer)
        except asyncio.CancelledError:
            pass  # of `refuse`
        finally:
            self._served.discard(task)
            writer.transport.abort() if writer.can_write_eof() is False else writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request = await _read_request(head, reader)
        self.requests.append(request)
        behaviour = self.rule(request)
        match behaviour:
            case Hang():
                await reader.read()  # until the client gives up
            case Answer():
                writer.write(_answer(behaviour))
                await writer.drain()
            case _:
                await self._forward(head, request, behaviour, writer)

    async def _forward(
        self, head: bytes, request: Request, behaviour: Behaviour, writer: asyncio.StreamWriter
    ) -> None:
        reader, upstream = await asyncio.open_connection(LOOPBACK, self.upstream_port)
        try:
            sent = _once_only(head) + request.body
            if isinstance(behaviour, CutRequest):
                upstream.write(sent[: behaviour.after_bytes])
                await upstream.drain()
                return
            upstream.write(sent)
            await upstream.drain()
            await _back(_once_only(await reader.read()), behaviour, writer)
        finally:
            upstream.close()
            with contextlib.suppress(OSError):
                await upstream.wait_closed()


async def _back(answer: bytes, behaviour: Behaviour, writer: asyncio.StreamWriter) -> None:
    """Hand the answer back the way it is wanted."""
    match behaviour:
        case Cut():
            writer.write(answer[: behaviour.after_bytes])
            await writer.drain()
        case Slow():
            step = max(1, int(behaviour.bytes_per_s * _STEP_S))
            for first in range(0, len(answer), step):
                writer.write(answer[first : first + step])
                await writer.drain()
                await asyncio.sleep(step / behaviour.bytes_per_s)
        case _:
            writer.write(answer)
            await writer.drain()


async def _read_request(head: bytes, reader: asyncio.StreamReader) -> Request:
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    method, target, _ = first.split(" ")
    named = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in named}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method=method, path=target.partition("?")[0], headers=headers, body=body)


def _once_only(message: bytes) -> bytes:
    """A request or answer, saying that the connection is closed after it."""
    head, end, body = message.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lines.insert(1, b"Connection: close")
    return b"\r\n".join(lines) + end + body


def _answer(behaviour: Answer) -> bytes:
    head = (
        f"HTTP/1.1 {behaviour.status} SteppedCluster\r\nContent-Type: {behaviour.content_type}\r\n"
        f"Content-Length: {len(behaviour.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + behaviour.body
