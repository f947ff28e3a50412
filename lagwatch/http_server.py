"""The HTTP server: TLS, and limits that no client can exceed.

uvicorn speaks HTTP; this module accepts the connections, because their number must be bounded
before anything is read from them: each is an open file, and a collector that is restarted needs
some, too.
"""

import asyncio
import contextlib
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Final

import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from lagwatch.clock import Clock
from lagwatch.config.server import ServerSettings, ServerTlsSettings
from lagwatch.errors import ConfigError, Fault, LagwatchError
from lagwatch.key_pair import Validity, load_key_pair, validity
from lagwatch.named_files import require_file, version
from lagwatch.ports.access import MOST_STREAMS

ASGIApp = Callable[
    [
        MutableMapping[str, Any],
        Callable[[], Awaitable[MutableMapping[str, Any]]],
        Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ],
    Awaitable[None],
]

MAX_URL_BYTES: Final = 8 * 1024
MAX_HEAD_BYTES: Final = 32 * 1024
"""Of the request line and all headers."""
MAX_REQUEST_BYTES: Final = 512 * 1024
"""Of all of a request as it is sent: chunks of one byte make the longest body six times as long."""
_HANDSHAKE_WITHIN_S: Final = 10.0
_WAITS_SAID_EVERY_S: Final = 60.0
_LOOK_EVERY_S: Final = 1.0
_LOOK_EVERY_WHEN_FULL_S: Final = 0.25
_REQUEST_WITHIN_WHEN_FULL_S: Final = 0.5
"""While others wait for a connection: probes must come through before they time out."""
_TICK_S: Final = 1.0
_ANSWERED_WITHIN_S: Final = 0.5
"""Answers under way get so long when the server stops."""
_BACKLOG: Final = 2048
_OWN_FILES: Final = 128
"""Open files that are kept for collectors, brokers, stores and receivers."""

_log = structlog.get_logger(__name__)


class AddressError(LagwatchError):
    """The server cannot listen on its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimeouts:
    """How long the server waits for a client before it closes the connection, in seconds."""

    request_s: float = 15.0
    """From the first byte of a request, or the start of a connection, to the end of the request."""
    answer_s: float = 60.0
    """Without the client reading any of its answer."""
    idle_s: float = inf
    """Between an answer and the next request; uvicorn has a limit of its own."""


class HttpServer:
    """Serves an ASGI application by the options of `[server]`."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        clock: Clock,
        *,
        timeouts: ClientTimeouts | None = None,
    ) -> None:
        """Listen; connections wait until `run` answers them.

        Raises:
            AddressError: the address is taken or not ours.
            ConfigError: the certificate cannot be used.
        """
        self._clock = clock
        self._certificate = Certificate(settings.tls, clock) if settings.tls.cert_file else None
        self._listener = _listen(settings.host, settings.port)
        self._uvicorn = _Uvicorn(
            app,
            self._listener,
            self._certificate,
            most=_most_connections(settings),
            timeouts=timeouts or ClientTimeouts(),
        )

    @property
    def url(self) -> str:
        host, port = self._listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._certificate else 'http'}://{shown}:{port}"

    async def run(self) -> None:
        """Serve until `stop`."""
        looking = asyncio.create_task(self._look())
        try:
            await self._uvicorn.serve(sockets=[self._listener])
        finally:
            looking.cancel()

    @property
    def problem(self) -> str:
        """What is wrong with its certificate; ""."""
        return "" if self._certificate is None else self._certificate.problem

    def stop(self) -> None:
        self._uvicorn.end()

    async def _look(self) -> None:
        while True:
            full = self._uvicorn.is_full
            await self._clock.sleep(_LOOK_EVERY_WHEN_FULL_S if full else _LOOK_EVERY_S)
            self._uvicorn.close_slow()
            if self._certificate is not None:
                self._certificate.renew()


class _Uvicorn(uvicorn.Server):
    """Accepts at most `most` connections at a time; the others wait in the kernel."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        certificate: "Certificate | None",
        *,
        most: int,
        timeouts: ClientTimeouts,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # they would let clients choose their address
                timeout_graceful_shutdown=1,
            )
        )
        self._listener = listener
        self._certificate = certificate
        self._most = most
        self._timeouts = timeouts
        self._opening: dict[asyncio.Task[None], float] = {}
        """Connections whose TLS handshake is not finished, with the instant when they came."""
        self._accepts = False
        self._waits_said_s = -_WAITS_SAID_EVERY_S
        self._ended = asyncio.Event()

    def end(self) -> None:
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Renew the date once a second until `end`; uvicorn looks ten times a second."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    await self._ended.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the service."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        del sockets  # is the listener
        await self.lifespan.startup()
        self.servers = []
        self._listener.settimeout(0)
        self._accept_if_room()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._accepts:
            asyncio.get_running_loop().remove_reader(self._listener)
        for task in self._opening:
            task.cancel()
        closing = asyncio.create_task(self._close_open_ends())
        await super().shutdown(sockets)
        closing.cancel()

    async def _close_open_ends(self) -> None:
        """Close what is answered for ever, as a stream; uvicorn would call that an error."""
        await asyncio.sleep(_ANSWERED_WITHIN_S)
        for connection in tuple(self.server_state.connections):
            connection.transport.close()

    @property
    def is_full(self) -> bool:
        """True if there is no room for another connection."""
        return len(self.server_state.connections) + len(self._opening) >= self._most

    def close_slow(self) -> None:
        """Close connections whose clients send or take nothing; room goes to those who wait."""
        now_s, timeouts = asyncio.get_running_loop().time(), self._timeouts
        if self.is_full:
            within_s = min(timeouts.request_s, _REQUEST_WITHIN_WHEN_FULL_S)
            timeouts = replace(timeouts, request_s=within_s, idle_s=within_s)
        for connection in tuple(self.server_state.connections):
            if isinstance(connection, _Protocol) and connection.is_slow(now_s, timeouts):
                connection.transport.abort()
        for task, since_s in self._opening.items():
            if now_s - since_s > timeouts.request_s:
                task.cancel()
        self._accept_if_room()

    def _accept_if_room(self) -> None:
        full = self.is_full
        if full and self._accepts:
            self._pause("full")
        elif not full and not self._accepts and not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)
            self._accepts = True

    def _pause(self, reason: str) -> None:
        """Accept nothing until there is room, or until the next look."""
        asyncio.get_running_loop().remove_reader(self._listener)
        self._accepts = False
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._waits_said_s + _WAITS_SAID_EVERY_S:
            self._waits_said_s = now_s
            _log.warning("connections_wait", reason=reason, connections=self._most)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # the client has gone again
            return
        except OSError as error:  # no more open files
            self._pause(str(error))
            return
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.create_task(self._open(connection))
        self._opening[task] = asyncio.get_running_loop().time()
        task.add_done_callback(lambda task: self._opened(task, connection))
        self._accept_if_room()

    def _opened(self, task: asyncio.Task[None], connection: socket.socket) -> None:
        del self._opening[task]
        if task.cancelled():  # before it began: the end came between
            connection.close()
        self._accept_if_room()

    async def _open(self, connection: socket.socket) -> None:
        tls = self._certificate.context if self._certificate else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._protocol,
                connection,
                ssl=tls,
                ssl_handshake_timeout=_HANDSHAKE_WITHIN_S if tls else None,
            )
        except (OSError, asyncio.CancelledError) as error:
            connection.close()
            _log.debug("connection_not_opened", reason=str(error))

    def _protocol(self) -> "_Protocol":
        # pages that stay open leave room for probes and questions
        state = {MOST_STREAMS: max(1, self._most // 2)}
        return _Protocol(self.config, self.server_state, state, on_lost=self._accept_if_room)


class _Protocol(HttpToolsProtocol):
    """HTTP with bounds on sizes and times."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._on_lost = on_lost
        self._since_s = 0.0
        """When the first byte of a still incomplete request arrived; 0 = no such request."""
        self._idle_s = 0.0
        """Since when all requests are answered; 0 = one is not."""
        self._head_bytes = 0
        """Bytes received since the last complete request: an upper bound of the next one's size."""
        self._in_head = True
        self._refused = False
        self._left: tuple[int, float] = (0, 0.0)
        """Bytes not yet sent to the client, and since when their number has not changed."""

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing: a request for a WebSocket is answered as any other."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn
        super().connection_made(transport)
        self._since_s = self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        self._since_s = self._since_s or self.loop.time()
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES and self._in_head:
            self._refuse(431, "the headers are too large")
        elif self._head_bytes > MAX_REQUEST_BYTES and not self._refused:
            self._cut()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._since_s = self._since_s or self.loop.time()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes behind a body is of no use to anyone here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.url) > MAX_URL_BYTES:
            self._refuse(414, "the URL is too long")
        elif self._head_bytes > MAX_HEAD_BYTES and _size(self.headers) > MAX_HEAD_BYTES:
            self._refuse(431, "the headers are too large")
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._since_s = 0.0
        self._head_bytes = 0
        if not self._refused:
            super().on_message_complete()

    def is_slow(self, now_s: float, timeouts: ClientTimeouts) -> bool:
        """True if the client keeps its connection without using it."""
        if getattr(self.cycle, "response_complete", True):  # None before the first
            self._idle_s = self._idle_s or now_s
        else:
            self._idle_s = 0.0
        if self._idle_s and now_s - self._idle_s > timeouts.idle_s:
            return True
        if self._since_s and now_s - self._since_s > timeouts.request_s:
            return True
        left = self.transport.get_write_buffer_size()
        if left == 0 or left != self._left[0]:
            self._left = (left, now_s)
        return now_s - self._left[1] > timeouts.answer_s

    def _cut(self) -> None:
        """End a request that goes on and on, also one that is being answered or was."""
        if self.cycle.response_started:
            self._refused = True
            self.transport.close()  # a second answer would be taken for that of the next request
        else:
            self._refuse(413, "the request is too large")

    def _refuse(self, status: int, text: str) -> None:
        if self._refused:
            return
        self._refused = True
        head = f"HTTP/1.1 {status} \r\nContent-Type: text/plain\r\nConnection: close\r\n"
        self.transport.write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.close()


def _size(headers: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) for name, value in headers)


class Certificate:
    """The server's certificate; new connections get the one that the files hold now."""

    def __init__(self, settings: ServerTlsSettings, clock: Clock) -> None:
        """Read it; one that has expired is served all the same, for there is no better one.

        Raises:
            ConfigError: it cannot be used.
        """
        self._settings = settings
        self._clock = clock
        self._seen = self._unread = self._versions()
        self._fault = ""
        """Why files that have changed are not in use; ""."""
        self._said = ""
        try:
            self.context, self._valid = self._read()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                [
                    Fault(
                        key="server.tls",
                        value=str(settings.cert_file),
                        problem=f"the certificate cannot be used: {error}",
                        remedy="Check cert_file, key_file and client_ca_file.",
                    )
                ]
            ) from error
        self._look_at_dates()

    @property
    def problem(self) -> str:
        """Why files that have changed are not in use, or what is used is not valid; ""."""
        return "; ".join(filter(None, (self._fault, self._date_problem())))

    def renew(self) -> None:
        """Read the files again if they have changed; while they cannot be used the old stay."""
        self._look_at_dates()
        versions = self._versions()
        # one that is not valid yet may be by now
        if versions == self._seen and not self._valid.problem:
            self._fault = ""
            return
        try:
            context, valid = self._read()
            if valid.problem and not self._date_problem():
                raise ssl.SSLError(1, f"the certificate {valid.problem}")  # noqa: TRY301
        except (OSError, ssl.SSLError) as error:
            files = [str(path) for path in self._files()]
            self._fault = f"one of {', '.join(files)} cannot be used: {error}"
            if versions != self._unread:
                _log.error("certificate_not_renewed", files=files, reason=str(error))
            self._unread = versions
            return
        self.context, self._valid = context, valid
        if versions != self._seen:
            _log.info("certificate_renewed", file=str(self._settings.cert_file))
        self._seen, self._fault = versions, ""

    def _date_problem(self) -> str:
        until_s = self._valid.until_s
        expired = until_s is not None and until_s * 1000 <= self._clock.now_ms()
        problem = "has expired" if expired else self._valid.problem
        return f"the certificate {problem}: clients refuse it" if problem else ""

    def _look_at_dates(self) -> None:
        """Log once that the certificate in use is not valid."""
        problem = self._date_problem()
        if problem and problem != self._said:
            _log.error("certificate_not_valid", file=str(self._settings.cert_file), reason=problem)
        self._said = problem

    def _read(self) -> tuple[ssl.SSLContext, Validity]:
        files = self._settings
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        load_key_pair(context, files.cert_file or "", files.key_file)
        valid = validity(context)
        if files.client_ca_file is not None:
            require_file(files.client_ca_file)
            context.load_verify_locations(files.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context, valid

    def _files(self) -> tuple[Path, ...]:
        files = (self._settings.cert_file, self._settings.key_file, self._settings.client_ca_file)
        return tuple(path for path in files if path is not None)

    def _versions(self) -> tuple[tuple[int, ...], ...]:
        return tuple(version(path) for path in self._files())


def _most_connections(settings: ServerSettings) -> int:
    """Number of connections that the limit on open files allows; raises that limit first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_connections + _OWN_FILES
    if soft == resource.RLIM_INFINITY:
        return settings.max_connections
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(settings.max_connections, soft - _OWN_FILES))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise AddressError(
            f"server.address = {host}:{port}: {error.strerror or error}. "
            "Choose another port or stop what listens there."
        ) from error
    return listener
