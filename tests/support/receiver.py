"""A real HTTP receiver that answers as the test says: well, badly, slowly or not at all."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How one request is answered."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "fine"
    after_s: float = 0.0
    """Answer this late, or when the receiver is stopped."""
    hang_up: bool = False
    """Close the connection without an answer."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @cached_property
    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)

    @property
    def key(self) -> str:
        return self.headers["idempotency-key"]


class Receiver:
    """Answers with `replies` in turn, then with 200; keeps what came in."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.taken: list[Request] = []
        """Those answered with 2xx."""
        self.most_bytes: int | None = None
        """Larger bodies are answered with 413."""
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    url: str

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            reply = self.replies.pop(0) if self.replies else Reply()
            if self.most_bytes is not None and len(request.body) > self.most_bytes:
                reply = Reply(status=413, body="too large")
            if reply.status < 300 and not reply.hang_up and not reply.after_s:
                self.taken.append(request)
        return reply

    @property
    def notices(self) -> list[dict[str, Any]]:
        """All notices of the default body that were taken."""
        return [notice for request in self.taken for notice in request.json["notices"]]


@contextmanager
def receiving(*replies: Reply) -> Iterator[Receiver]:
    """Run a receiver on a free port."""
    receiver = Receiver(*replies)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(length)
            if len(body) < length:
                self.close_connection = True  # the client died while it sent: that is no request
                return
            reply = receiver.answer(
                Request(method=self.command, path=self.path, headers=headers, body=body)
            )
            if reply.after_s:
                receiver.stopping.wait(reply.after_s)
            if reply.hang_up:
                self.close_connection = True
                return
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                answer = reply.body.encode()
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except OSError:
                self.close_connection = True  # the client waited long enough

        do_POST = do_PUT = do_DELETE = do_GET = do_PATCH = _handle  # noqa: N815 their names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Nothing to stderr."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that dies in the middle is part of the test."""

    server = Server(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
