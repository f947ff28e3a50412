"""HTTP with a deadline for the whole exchange.

The usual time-outs count from one byte to the next: a server that sends one byte a second would
hold a caller for hours.
"""

import base64
import socket
import threading
import time
from typing import Any, Final

from elastic_transport import ConnectionError as TransportFault
from elastic_transport import (
    ConnectionTimeout,
    HttpHeaders,
    JsonSerializer,
    NodeConfig,
    OrjsonSerializer,
    Urllib3HttpNode,
)
from elastic_transport._node import NodeApiResponse
from elastic_transport.client_utils import DEFAULT, DefaultType
from elasticsearch import Elasticsearch

from lagwatch.config.elasticsearch import ElasticsearchSettings

_GRACE_S: Final = 0.01
"""The alarm may come a little early."""


class DeadlineNode(Urllib3HttpNode):
    """A node that gives up `request_timeout` seconds after the request began, in every case."""

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        kind: Any = self.pool.ConnectionCls
        self._watched: Any = type("WatchedConnection", (_Watched, kind), {})
        self.pool.ConnectionCls = self._watched

    def perform_request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: HttpHeaders | None = None,
        request_timeout: DefaultType | float | None = DEFAULT,
    ) -> NodeApiResponse:
        given = self.config.request_timeout if request_timeout is DEFAULT else request_timeout
        allowed_s = given if isinstance(given, int | float) else None
        started_s = time.monotonic()
        _allowed.seconds = allowed_s
        try:
            answer = super().perform_request(method, target, body, headers, request_timeout)
        except TransportFault as error:
            if allowed_s is not None and time.monotonic() - started_s >= allowed_s - _GRACE_S:
                raise _too_late(allowed_s, error) from error
            raise
        finally:
            _allowed.seconds = None
        if allowed_s is not None and time.monotonic() - started_s >= allowed_s - _GRACE_S:
            # the socket may have been shut within the response head, which urllib3 does not notice
            raise _too_late(allowed_s)
        return answer


def _too_late(allowed_s: float, *causes: Exception) -> ConnectionTimeout:
    return ConnectionTimeout(f"no whole answer within {allowed_s:g} s", errors=causes)


class _Allowed(threading.local):
    """How long the request of this thread may take; from the node to its connection."""

    seconds: float | None = None


_allowed = _Allowed()


class _Watched:
    """Mixed into a connection of urllib3: its socket is shut when the time is over."""

    sock: socket.socket | None
    _alarm: threading.Timer | None = None

    def request(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 handed through
        self._silence()
        if _allowed.seconds is not None:
            self._alarm = threading.Timer(_allowed.seconds, self._shut)
            self._alarm.daemon = True
            self._alarm.start()
        try:
            super().request(*arguments, **options)  # type: ignore[misc] # of the connection
        except BaseException:
            self._silence()
            raise

    def getresponse(self) -> Any:  # noqa: ANN401
        """The whole answer: its body is read in here."""
        try:
            return super().getresponse()  # type: ignore[misc] # of the connection
        finally:
            self._silence()

    def _silence(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _shut(self) -> None:
        sock = self.sock
        if sock is not None:
            try:
                # the descriptor stays open for the thread that reads from it
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                return  # it ended meanwhile


_READERS: Final = 8
"""Connections beside those of the bulk requests."""


def connect(settings: ElasticsearchSettings) -> Elasticsearch:
    """A client; nothing is sent yet.

    A node that cannot be reached passes the request on to the next one; beside that it never tries
    again by itself: the writer does.
    """
    return Elasticsearch(
        [url.get_secret_value() for url in settings.urls],
        node_class=DeadlineNode,
        connections_per_node=settings.connections + _READERS,
        request_timeout=settings.timeout_s,
        max_retries=len(settings.urls) - 1,
        retry_on_timeout=False,
        retry_on_status=(),
        serializers={JsonSerializer.mimetype: OrjsonSerializer()},
        **_credentials(settings),
        **_trust(settings),
    )


def _credentials(settings: ElasticsearchSettings) -> dict[str, Any]:
    if settings.api_key is not None:
        return {"api_key": settings.api_key.get_secret_value()}
    if settings.username is not None:
        password = settings.password.get_secret_value() if settings.password is not None else ""
        # the client itself would only take ASCII; UTF-8 is what the server expects (RFC 7617)
        both = base64.b64encode(f"{settings.username}:{password}".encode())
        return {"basic_auth": both.decode("ascii")}
    return {}


def _trust(settings: ElasticsearchSettings) -> dict[str, Any]:
    if not any(str(url).startswith("https://") for url in settings.urls):
        return {}
    if settings.fingerprint is not None:
        return {"ssl_assert_fingerprint": settings.fingerprint}
    return {} if settings.ca_file is None else {"ca_certs": str(settings.ca_file)}
