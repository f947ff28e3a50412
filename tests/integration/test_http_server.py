"""The HTTP server under clients that are slow, greedy or many, and with TLS."""

import asyncio
import contextlib
import gc
import json
import os
import resource
import shutil
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import uvloop
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from structlog.testing import capture_logs

from lagwatch.clock import SystemClock
from lagwatch.config.server import ServerSettings, ServerTlsSettings
from lagwatch.config.tokens import line
from lagwatch.errors import ConfigError
from lagwatch.http_server import MAX_REQUEST_BYTES, Certificate, ClientTimeouts, HttpServer
from lagwatch_api.gate import MAX_BODY_BYTES
from lagwatch_api.v1.stream import endpoints
from tests.support import traffic
from tests.support.api_doubles import GivenCluster, GivenQueries
from tests.support.certificates import self_signed, with_pass_phrase
from tests.support.history import SetClock
from tests.support.served import serving
from tests.support.waiting import eventually

_GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
_LARGE = 64 * 1024 * 1024
_CLIENT = ssl._create_unverified_context()  # noqa: S323, SLF001 the certificate is the test's own


(_ENDPOINT,) = endpoints(GivenQueries({"here": GivenCluster()}), "1")
_STREAM = _ENDPOINT.handler


async def application(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401
    async def large() -> Any:  # noqa: ANN401
        for _ in range(_LARGE // 65536):
            yield bytes(65536)

    answer: Response = PlainTextResponse("yes")
    match scope["path"]:
        case "/large":
            answer = StreamingResponse(large())
        case "/body":
            body = await Request(scope, receive).body()
            answer = PlainTextResponse(f"{len(body)} bytes, {len(scope['headers'])} headers, yes")
        case "/api/v1/stream":
            answer = await _STREAM(Request(scope))
    await answer(scope, receive, send)


@contextlib.contextmanager
def running(timeouts: ClientTimeouts | None = None, **options: object) -> Iterator[int]:
    """The server in a thread of its own; yields its port."""
    settings = ServerSettings.model_validate({"address": "127.0.0.1:0", **options})
    server = HttpServer(application, settings, SystemClock(), timeouts=timeouts)
    thread = threading.Thread(
        target=lambda: asyncio.Runner(loop_factory=uvloop.new_event_loop).run(server.run())
    )
    thread.start()
    try:
        yield int(server.url.rpartition(":")[2])
    finally:
        server.stop()
        thread.join(30)
        assert not thread.is_alive()


@contextlib.contextmanager
def connected(port: int, count: int = 1) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            for _ in range(count)
        ]


def received(connection: socket.socket, until: bytes = b"\r\n\r\nyes") -> bytes:
    """What comes until `until`, or until the server closes."""
    data = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while until not in data[-100_000:] and (more := connection.recv(65536)):
            data += more
    return bytes(data)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"X: yyyyyyyyyyyyyyyy\r\n" * 5000 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 2_000_000, b"431"),
        (b"GET /" + b"x" * 2_000_000, b"431"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", b"200"),
    ],
    ids=["URL", "header", "headers", "endless header", "endless URL", "allowed"],
)
def test_large_heads_are_refused(head, status) -> None:
    with running() as port, connected(port) as (connection,):
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(head)

        # a refused client may see the end of the connection before it sees the answer
        assert received(connection)[9:12] in {status, b"" if status != b"200" else status}


_CHUNKED = b" / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_POST = _CHUNKED.replace(b"/", b"/body", 1)


@pytest.mark.parametrize(
    "method_and_path", [b"GET" + _CHUNKED, b"POST" + _POST], ids=["answered", "waits for its body"]
)
@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (b"0\r\n", b"X-T: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 1000),
        (b"0\r\nX-T: ", b"y" * 65536),
        (b"1;x=", b"y" * 65536),
        (b"", b"1;x=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\nz\r\n" * 1000),
    ],
    ids=["trailers", "endless trailer", "endless extension", "extensions"],
)
def test_what_is_sent_beside_a_body_is_cut(method_and_path, begin, again) -> None:
    most = 16 * 1024 * 1024  # what the kernels keep between client and server is below
    sent = 0
    with running() as port, connected(port) as (connection,):
        connection.sendall(method_and_path + begin)
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < most:
                connection.sendall(again)
                sent += len(again)

        assert sent < most
        answer = received(connection, b"never")  # may be lost with the connection
        assert answer[9:12] in {b"200" if method_and_path.startswith(b"GET") else b"413", b""}
        assert answer.count(b"HTTP/1.1") <= 1


def test_trailers_are_not_kept() -> None:
    trailers = b"X-T: yyyy\r\n" * 10_000
    with running() as port, connected(port) as (connection,):
        connection.sendall(b"POST" + _POST + b"1\r\nz\r\n0\r\n" + trailers + b"\r\n")
        first = received(connection, b"yes")
        connection.sendall(_GET.replace(b"/", b"/body", 1))
        second = received(connection, b"yes")

    assert first.endswith(b"1 bytes, 2 headers, yes")
    assert second.endswith(b"0 bytes, 1 headers, yes")


def test_the_longest_body_is_taken_in_chunks_of_one_byte() -> None:
    chunks = b"1\r\nz\r\n" * MAX_BODY_BYTES
    with running() as port, connected(port) as (connection,):
        for _ in range(2):  # what is counted of one request does not count for the next
            connection.sendall(b"POST" + _POST + chunks + b"0\r\n\r\n")
            assert received(connection, b"yes").endswith(b"65536 bytes, 2 headers, yes")

    assert len(chunks) > MAX_REQUEST_BYTES // 2


def test_several_requests_on_one_connection_are_answered() -> None:
    with running() as port, connected(port) as (connection,):
        for _ in range(3):
            connection.sendall(_GET)
            assert received(connection).startswith(b"HTTP/1.1 200")
        connection.sendall(_GET * 2)
        assert received(connection, b"yesHTTP").startswith(b"HTTP/1.1 200")


def test_clients_that_send_nothing_make_room_for_those_who_wait() -> None:
    hasty = ClientTimeouts(request_s=1)
    with running(hasty, max_connections=5) as port, connected(port, 3) as slow:
        for connection in slow:
            connection.sendall(_GET)
            received(connection)
            connection.sendall(b"\r\n")
        with connected(port, 8) as silent, connected(port) as (waiting,):
            waiting.sendall(_GET)

            assert received(waiting).startswith(b"HTTP/1.1 200")
            assert all(received(connection) == b"" for connection in [*slow, *silent[:2]])


@contextlib.contextmanager
def half_open_for_ever(
    port: int, count: int, sent: bytes = b"GET / HTTP/1.1\r\n"
) -> Iterator[None]:
    """So many connections that send half of a request; one that is closed is opened again."""

    def hold(ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), connected(port) as (connection,):
                connection.sendall(sent)
                connection.settimeout(0.1)
                while not ended.is_set():
                    with contextlib.suppress(TimeoutError):
                        if not connection.recv(1):
                            break

    with traffic.running(*[hold] * count):
        yield


def test_probes_come_through_while_half_open_requests_take_all_connections() -> None:
    with running(max_connections=5) as port, half_open_for_ever(port, 30):
        for _ in range(3):
            began_s = time.monotonic()
            with connected(port) as (probe,):
                probe.sendall(_GET)

                assert received(probe).startswith(b"HTTP/1.1 200")
            # 30 wait for 5 places: five rounds of half a second, and not of 15 s
            assert time.monotonic() - began_s < 12


def test_probes_come_through_while_connections_that_begin_no_handshake_take_all(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    tls = {"cert_file": str(cert_file), "key_file": str(key_file)}
    with running(tls=tls, max_connections=5) as port, half_open_for_ever(port, 30, b""):
        for _ in range(3):
            began_s = time.monotonic()
            with connected(port) as (plain,), _CLIENT.wrap_socket(plain) as probe:
                probe.sendall(_GET)

                assert received(probe).startswith(b"HTTP/1.1 200")
            # as above; a handshake may take ten seconds while there is room
            assert time.monotonic() - began_s < 12


def test_probes_come_through_while_connections_that_are_kept_take_all() -> None:
    def keep(port: int, ended: threading.Event) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError), connected(port) as (connection,):
                while not ended.is_set():
                    connection.sendall(_GET)
                    if not received(connection):
                        break
                    ended.wait(4)  # less than uvicorn waits for the next request

    with running(max_connections=5) as port, traffic.running(*[partial(keep, port)] * 30):
        for _ in range(3):
            began_s = time.monotonic()
            with connected(port) as (probe,):
                probe.sendall(_GET)

                assert received(probe).startswith(b"HTTP/1.1 200")
            # 30 wait for 5 places, which each have for two looks
            assert time.monotonic() - began_s < 20


def test_a_server_that_ends_while_clients_come_leaves_no_connection_open() -> None:
    for _ in range(8):
        with contextlib.ExitStack() as clients, running() as port:
            # they come until the server has ended
            clients.enter_context(traffic.running(*[partial(_come_and_go, port)] * 4))
            with connected(port) as (probe,):
                probe.sendall(_GET)
                assert received(probe).startswith(b"HTTP/1.1 200")
    gc.collect()  # a socket that is left open warns here


def _come_and_go(port: int, ended: threading.Event) -> None:
    while not ended.is_set():
        with contextlib.suppress(OSError), connected(port) as (connection,):
            connection.sendall(b"GET / HTTP/1.1\r\n")


def test_a_slow_client_has_its_time_while_there_is_room() -> None:
    patient = ClientTimeouts(request_s=60)
    with (
        running(patient, max_connections=5) as port,
        connected(port) as (slow,),
        connected(port) as (gone,),
    ):
        slow.sendall(b"GET / HTTP/1.1\r\n")
        gone.settimeout(3)
        with pytest.raises(TimeoutError):  # the server looks each second
            gone.recv(1)
        slow.sendall(b"Host: localhost\r\n\r\n")

        assert received(slow).startswith(b"HTTP/1.1 200")


def test_pages_that_stay_open_leave_half_of_the_connections_to_others() -> None:
    stream = b"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with (
        running(max_connections=6) as port,
        connected(port, 5) as pages,
        connected(port) as (probe,),
    ):
        for page in pages:
            page.sendall(stream)
        answers = [received(page, b"\r\n\r\n") for page in pages]
        probe.sendall(_GET)

        assert received(probe).startswith(b"HTTP/1.1 200")
        assert sorted(answer[9:12] for answer in answers) == [b"200"] * 3 + [b"503"] * 2


def test_who_asks_for_a_websocket_is_answered_without_a_line_in_the_log(caplog) -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with running() as port, connected(port) as (connection,):
        connection.sendall(_GET.removesuffix(b"\r\n") + upgrade)

        assert received(connection).startswith(b"HTTP/1.1 200")
    assert "WebSocket" not in caplog.text


def test_a_client_that_takes_nothing_is_left() -> None:
    hasty = ClientTimeouts(answer_s=1)
    with running(hasty, max_connections=1) as port, connected(port, 2) as (greedy, waiting):
        greedy.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        waiting.sendall(_GET)

        assert received(waiting).startswith(b"HTTP/1.1 200")
        assert len(received(greedy, b"never")) < _LARGE


def renew(folder: Path, served: Path, *, days: float = 1) -> None:
    """Put another certificate in the place of the one that is served."""
    folder.mkdir()
    for file in self_signed(folder, days=days):
        shutil.copy(file, served / file.name)


def served_certificate(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=30)


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    tls = {"cert_file": str(cert_file), "key_file": str(key_file)}
    with running(tls=tls) as port:
        first = served_certificate(port)
        assert first == cert_file.read_text()

        renew(tmp_path / "renewed", tmp_path)
        eventually(lambda: served_certificate(port) != first, "it is served")
        second = served_certificate(port)
        assert second == cert_file.read_text()

        cert_file.write_text("half of a certifi")
        renew(tmp_path / "later", tmp_path / "renewed")
        assert served_certificate(port) == second
        shutil.copy(tmp_path / "later" / "cert.pem", cert_file)
        shutil.copy(tmp_path / "later" / "key.pem", key_file)
        eventually(lambda: served_certificate(port) == cert_file.read_text(), "the next one, too")


def test_a_certificate_that_could_not_be_read_is_read_as_soon_as_it_can(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    certificate = Certificate(
        ServerTlsSettings(cert_file=cert_file, key_file=key_file), SystemClock()
    )
    first = certificate.context
    renew(tmp_path / "renewed", tmp_path)
    with capture_logs() as logged:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            certificate.renew()
            certificate.renew()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        problem, meanwhile = certificate.problem, certificate.context
        certificate.renew()

    assert str(cert_file) in problem
    assert meanwhile is first
    assert (certificate.problem, certificate.context is first) == ("", False)
    events = [each["event"] for each in logged]
    assert events == ["certificate_not_renewed", "certificate_renewed"]


def test_a_certificate_that_has_expired_does_not_take_the_place_of_a_valid_one(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    settings = ServerTlsSettings(cert_file=cert_file, key_file=key_file)
    certificate = Certificate(settings, SystemClock())
    first = certificate.context
    renew(tmp_path / "expired", tmp_path, days=-1)

    certificate.renew()
    problem, meanwhile = certificate.problem, certificate.context
    with capture_logs() as logged:
        anew = Certificate(settings, SystemClock())
    renew(tmp_path / "valid", tmp_path)
    for each in (certificate, anew):
        each.renew()

    assert str(cert_file) in problem
    assert "has expired" in problem
    assert meanwhile is first
    assert [each["event"] for each in logged] == ["certificate_not_valid"]
    assert certificate.problem == anew.problem == ""
    assert certificate.context is not first


def test_a_certificate_that_is_not_valid_yet_is_named_until_it_is(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path, begins=timedelta(seconds=3))
    settings = ServerTlsSettings(cert_file=cert_file, key_file=key_file)
    certificate = Certificate(settings, SystemClock())
    problems = [certificate.problem]

    def valid() -> bool:
        certificate.renew()
        return not certificate.problem

    eventually(valid, "it is valid")

    assert problems == ["the certificate is not valid yet: clients refuse it"]


@pytest.mark.parametrize("name", ["cert_file", "key_file", "client_ca_file"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_awaited_by_nobody(tmp_path, name) -> None:
    """To open one waits until somebody writes into it; all of lagwatch would wait."""
    cert_file, key_file = self_signed(tmp_path)
    files = {"cert_file": cert_file, "key_file": key_file, "client_ca_file": tmp_path / "ca.pem"}
    shutil.copy(cert_file, files["client_ca_file"])
    settings = ServerTlsSettings(**files)
    certificate = Certificate(settings, SystemClock())
    files[name].unlink()
    os.mkfifo(files[name])

    certificate.renew()

    assert "it is a pipe or device" in certificate.problem
    with pytest.raises(ConfigError, match="it is a pipe or device"):
        Certificate(settings, SystemClock())


def test_a_certificate_that_expires_in_use_is_named(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    clock = SetClock(SystemClock().now_ms())
    certificate = Certificate(ServerTlsSettings(cert_file=cert_file, key_file=key_file), clock)
    before = certificate.problem
    clock.ms += 2 * 86_400_000

    with capture_logs() as logged:
        certificate.renew()
        certificate.renew()

    assert before == ""
    assert certificate.problem == "the certificate has expired: clients refuse it"
    assert [each["event"] for each in logged] == ["certificate_not_valid"]


def test_a_key_with_a_pass_phrase_is_refused_and_asks_nobody(tmp_path) -> None:
    """OpenSSL would ask for it on the terminal, for ever."""
    cert_file, key_file = self_signed(tmp_path)
    settings = ServerTlsSettings(cert_file=cert_file, key_file=key_file)
    certificate = Certificate(settings, SystemClock())
    with_pass_phrase(key_file)

    certificate.renew()

    assert str(key_file) in certificate.problem
    assert "the key has a pass phrase" in certificate.problem
    with pytest.raises(ConfigError, match="the key has a pass phrase"):
        Certificate(settings, SystemClock())


def test_readyz_names_tokens_that_cannot_be_read_again(tmp_path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line("reader", "read", "abc"))
    sections = f'[server.auth]\ntokens_file = "{tokens}"\
'
    with serving("127.0.0.1:1", sections=sections) as served:
        tokens.write_text("no token at all\n")

        def named() -> bool:
            ask = urllib.request.Request(  # noqa: S310 loopback
                f"{served.base}/readyz", headers={"Authorization": "Bearer abc"}
            )
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(ask, timeout=30)  # noqa: S310 loopback
            with refused.value as answer:
                problems = json.load(answer)["clusters"]["here"]["problems"]
            return any(each.startswith("server: the tokens that were read") for each in problems)

        eventually(named, "the tokens are named")


def test_only_clients_with_a_certificate_connect_where_one_is_wanted(tmp_path) -> None:
    cert_file, key_file = self_signed(tmp_path)
    context = ssl.create_default_context(cafile=str(cert_file))
    files = {"cert_file": str(cert_file), "key_file": str(key_file)}
    with running(tls={**files, "client_ca_file": str(cert_file)}) as port:
        with connected(port) as (stranger,), contextlib.suppress(ssl.SSLError, ConnectionError):
            assert _asked_with(context, stranger) == b""
        context.load_cert_chain(cert_file, key_file)
        with connected(port) as (known,):
            assert _asked_with(context, known).startswith(b"HTTP/1.1 200")


def _asked_with(context: ssl.SSLContext, connection: socket.socket) -> bytes:
    with context.wrap_socket(connection, server_hostname="localhost") as secure:
        secure.sendall(_GET)
        return secure.recv(65536)


def test_a_certificate_that_cannot_be_used_is_a_fault(tmp_path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")

    tls = {"cert_file": str(tmp_path / "cert.pem")}
    settings = ServerSettings.model_validate({"address": "127.0.0.1:0", "tls": tls})

    with pytest.raises(ConfigError, match=r"server\.tls = .*cert\.pem: the certificate cannot be"):
        HttpServer(application, settings, SystemClock())


def test_slow_connections_do_not_keep_a_dead_collector_from_restarting() -> None:
    """With 256 open files and 300 connections that send nothing."""
    with (
        serving("127.0.0.1:1", sections='[history]\nstore = "none"', most_files=256) as served,
        connected(int(served.base.rpartition(":")[2]), 300) as connections,
    ):
        for connection in connections:
            connection.sendall(b"GET / HTTP/1.1\r\n")
        service = psutil.Process(served.pid)
        eventually(lambda: service.num_fds() > 128, "connections are taken")
        (collector,) = service.children()

        collector.kill()
        collector.wait(30)

        eventually(lambda: bool(service.children()), "another collector runs")
        assert service.num_fds() < 250
