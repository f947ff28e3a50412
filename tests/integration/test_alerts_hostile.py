"""Receivers whose answers are an attack, or broken: they cost little, and nothing is sent twice."""

import gzip
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest

from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.running_alerts import running
from tests.support.waiting import eventually

_POLICY: Final = "[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
_MEGABYTE: Final = 1_000_000
_OK: Final = b"HTTP/1.1 200 OK\r\n"


class Hostile:
    """Answers each request with `head` and then `part` again and again, up to `most_bytes`."""

    def __init__(self, head: bytes, part: bytes, most_bytes: int, pause_s: float) -> None:
        self.head, self.part, self.most_bytes, self.pause_s = head, part, most_bytes, pause_s
        self.requests = 0
        self.sent_bytes = 0
        self.stopping = threading.Event()

    url: str


@contextmanager
def hostile(
    head: bytes, part: bytes = b"", *, most_bytes: int = 0, pause_s: float = 0.0
) -> Iterator[Hostile]:
    found = Hostile(head, part, most_bytes, pause_s)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()) not in {b"\r\n", b""}:
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            self.rfile.read(length)
            found.requests += 1
            with suppress(OSError):  # the client has had enough
                self.wfile.write(found.head)
                while found.sent_bytes < found.most_bytes and not found.stopping.wait(
                    found.pause_s
                ):
                    self.wfile.write(found.part)
                    found.sent_bytes += len(found.part)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield found
        finally:
            found.stopping.set()
            server.shutdown()
            thread.join()


_CHUNK: Final = b"10000\r\n" + b"z" * 65_536 + b"\r\n"
_BOMB: Final = gzip.compress(b"\0" * 100 * _MEGABYTE, 9)


@pytest.mark.parametrize(
    ("head", "part", "most_bytes", "pause_s"),
    [
        (_OK + b"Transfer-Encoding: chunked\r\n\r\n", _CHUNK, 100 * _MEGABYTE, 0.0),
        (
            _OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(_BOMB),
            _BOMB,
            len(_BOMB),
            0.0,
        ),
        (_OK + b"Content-Length: 4000\r\n\r\n", b"x", 4000, 0.5),
        (_OK + b"Content-Length: 4000\r\n\r\n", b"x", 1, 0.0),
    ],
    ids=["without end", "compressed", "drop by drop", "cut short"],
)
def test_a_body_that_never_ends_is_not_read_and_the_notice_is_delivered_once(
    tmp_path, head, part, most_bytes, pause_s
) -> None:
    clock = ShiftedClock()
    with hostile(head, part, most_bytes=most_bytes, pause_s=pause_s) as receiver:
        settings = f'{_POLICY}[alerts.webhook.hook]\nurl = "{receiver.url}"\ntimeout_s = 20\n'
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, settings), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            eventually(lambda: receiver.requests == 1, "the notice")
            eventually(alerts.idle, "it is delivered", timeout_s=30)
            counts = alerts.call(alerts.alerts.counts)

        assert receiver.requests == 1
        assert counts.deliveries["hook"].failed == 0
        assert receiver.sent_bytes < 10 * _MEGABYTE


def test_what_a_receiver_answers_cannot_steer_a_terminal(tmp_path) -> None:
    clock = ShiftedClock()
    body = b"\x1b[2J\x07no\nsuch room"
    head = b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n" % len(body)
    with hostile(head, body, most_bytes=len(body)) as receiver:
        settings = f'{_POLICY}[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        fleet = Fleet(["billing"], clock)
        with running(alert_settings(tmp_path, settings), clock) as alerts:
            fleet.fail("billing")
            alerts.sees(fleet)
            delivery = alerts.call(alerts.alerts.counts).deliveries["hook"]
            eventually(lambda: delivery.failed == 1, "refused")

    assert delivery.last_error == "400 Bad: �[2J�no such room"
