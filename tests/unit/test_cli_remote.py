"""Asking a server that goes and comes back, as `top` does for hours."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lagwatch.cli.remote import RemoteSource
from lagwatch.errors import SourceError
from lagwatch.kafka.embedded.ports import free_ports


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing is to be printed."""


@contextmanager
def answering(port: int) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", port), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_was_away_is_asked_again() -> None:
    (port,) = free_ports(1)
    source = RemoteSource(f"http://127.0.0.1:{port}", timeout_s=5)

    for _ in range(2):
        for _ in range(3):
            with pytest.raises(SourceError, match="refused"):
                source.document("/any")
        with answering(port):
            assert source.document("/any") == {}
