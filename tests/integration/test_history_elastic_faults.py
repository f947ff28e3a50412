"""The Elasticsearch store when the network or the server misbehaves; the server is a real one."""

import base64
import hashlib
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError
from lagwatch.history.elastic import ElasticStore
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from lagwatch.kafka.embedded.tls import write_certificates
from lagwatch.ports.history import HistoryRange
from tests.support.elastic_history import open_store, partitions, samples, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.fault_proxy import (
    Answer,
    Behaviour,
    Cut,
    CutRequest,
    FaultProxy,
    Hang,
    Pass,
    Request,
    Slow,
)
from tests.support.history import EVER, NOON_MS, SetClock, held
from tests.support.waiting import eventually

TIMEOUT_S = 3.0
ROWS = 300
BULK = "/_bulk"


@pytest.fixture
def proxy(elasticsearch: EmbeddedElasticsearch) -> Iterator[FaultProxy]:
    with FaultProxy(elasticsearch.port) as running:
        yield running


@pytest.fixture
def store(proxy: FaultProxy, tmp_path: Path) -> Iterator[ElasticStore]:
    """A store behind the proxy, with small bulk requests and little patience; made ready."""
    opened = open_store(
        proxy.url, unique_prefix(), tmp_path, timeout_s=TIMEOUT_S, bulk_bytes=10_000
    )
    write_in_the_end(opened, 1, batch="first")
    yield opened
    opened.close()


def write_in_the_end(store: ElasticStore, rows: int, *, batch: str = "a") -> None:
    """Write again, as the service does, while the error says that it may heal."""

    def written() -> bool:
        try:
            store.write([samples(rows)], batch=batch)
        except HistoryError as error:
            if not error.retryable:
                raise
            return False
        return True

    eventually(written, "the rows to be written")


def fault(store: ElasticStore) -> HistoryError:
    """The error of writing ROWS rows."""
    with pytest.raises(HistoryError) as caught:
        store.write([samples(ROWS)], batch="a")
    return caught.value


def assert_all_there_once(store: ElasticStore, proxy: FaultProxy) -> None:
    """Write again with nothing in the way: every row is there, none twice, none set aside."""
    proxy.rule = lambda _: Pass()
    write_in_the_end(store, ROWS)
    assert partitions(store) == list(range(ROWS))
    assert store.rejected.rows == 0


def test_a_refused_connection_is_said_and_passes(store: ElasticStore, proxy: FaultProxy) -> None:
    proxy.refuse()

    error = fault(store)

    assert (error.kind, error.retryable) == ("connection", True)
    assert "urls" in str(error)
    proxy.listen()
    assert_all_there_once(store, proxy)


@pytest.mark.parametrize("behaviour", [Hang(), Slow(bytes_per_s=20)], ids=["hangs", "drips"])
def test_a_server_that_hangs_or_drips_is_given_up_at_the_deadline(
    store: ElasticStore, proxy: FaultProxy, behaviour: Hang | Slow
) -> None:
    proxy.behave(behaviour, when=BULK)

    started_s = time.monotonic()
    error = fault(store)
    took_s = time.monotonic() - started_s

    assert (error.kind, error.retryable) == ("timeout", True)
    assert TIMEOUT_S <= took_s < 10 * TIMEOUT_S
    assert_all_there_once(store, proxy)


def test_a_reader_of_a_dripping_server_is_not_held_for_ever(
    store: ElasticStore, proxy: FaultProxy
) -> None:
    assert len(held(store)) == 1
    proxy.behave(Slow(bytes_per_s=20), when="/_search")

    with pytest.raises(HistoryError) as caught:
        held(store)

    assert (caught.value.kind, caught.value.retryable) == ("timeout", True)


def test_a_server_that_is_only_slow_is_waited_for(store: ElasticStore, proxy: FaultProxy) -> None:
    proxy.behave(Slow(bytes_per_s=5000), when=BULK)

    store.write([samples(ROWS)], batch="a")

    assert partitions(store) == list(range(ROWS))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (429, "overloaded"),
        (503, "overloaded"),
        (502, "overloaded"),
        (504, "overloaded"),
        (500, "overloaded"),
        (401, "authentication"),
        (403, "authorization"),
        (404, "schema"),
    ],
)
def test_an_error_of_the_whole_request_passes_and_has_its_kind(
    store: ElasticStore, proxy: FaultProxy, status: int, kind: str
) -> None:
    proxy.behave(Answer(status), when=BULK)

    error = fault(store)

    assert (error.kind, error.retryable) == (kind, True)
    assert_all_there_once(store, proxy)


def test_what_answers_without_being_elasticsearch_is_said(
    store: ElasticStore, proxy: FaultProxy
) -> None:
    proxy.behave(Answer(200, b"<html>Welcome</html>", "text/html"), when=BULK)

    error = fault(store)

    assert (error.kind, error.retryable) == ("connection", True)
    assert "no Elasticsearch" in str(error)
    assert_all_there_once(store, proxy)


@pytest.mark.parametrize("status", [429, 503])
def test_documents_refused_for_now_come_again_and_the_others_are_not_doubled(
    store: ElasticStore, proxy: FaultProxy, status: int
) -> None:
    refused = {"create": {"status": status, "error": {"type": "settings", "reason": "not now"}}}

    def every_third(request: Request) -> Answer | Pass:
        if BULK not in request.path or len(proxy.of(BULK)) % 3:
            return Pass()
        items = [refused] * (len(request.body.splitlines()) // 2)
        return Answer(200, orjson.dumps({"errors": True, "items": items}))

    proxy.rule = every_third

    error = fault(store)

    assert (error.kind, error.retryable) == ("overloaded", True)
    assert "settings: not now" in str(error)
    assert 0 < len(partitions(store)) < ROWS
    assert_all_there_once(store, proxy)


@pytest.mark.parametrize("after_bytes", [0, 1, 60, 150])
def test_killed_between_bulk_and_acknowledgement_nothing_is_lost_and_nothing_doubled(
    store: ElasticStore, proxy: FaultProxy, after_bytes: int
) -> None:
    proxy.behave(Cut(after_bytes), when=BULK, times=2)

    error = fault(store)

    assert (error.kind, error.retryable) == ("connection", True)
    assert_all_there_once(store, proxy)


def test_a_request_that_is_torn_on_its_way_leaves_nothing_by_halves(
    store: ElasticStore, proxy: FaultProxy
) -> None:
    proxy.behave(CutRequest(3000), when=BULK, times=2)

    error = fault(store)

    assert (error.kind, error.retryable) == ("connection", True)
    assert_all_there_once(store, proxy)


def test_requests_too_large_for_a_proxy_are_halved_until_they_pass(
    store: ElasticStore, proxy: FaultProxy
) -> None:
    proxy.rule = lambda request: Answer(413) if len(request.body) > 3000 else Pass()

    store.write([samples(ROWS)], batch="a")

    assert partitions(store) == list(range(ROWS))
    assert store.rejected.rows == 0


def test_a_row_too_large_for_everybody_is_set_aside_alone(
    store: ElasticStore, proxy: FaultProxy
) -> None:
    proxy.rule = lambda request: Answer(413) if len(request.body) > 3000 else Pass()

    store.write([samples(3), samples(1, first=3, owner="x" * 5000)], batch="a")

    assert partitions(store) == [0, 1, 2]
    assert store.rejected.rows == 1


def test_templates_that_cannot_be_written_yet_are_written_before_any_row(
    proxy: FaultProxy, tmp_path: Path
) -> None:
    store = open_store(proxy.url, unique_prefix(), tmp_path, timeout_s=TIMEOUT_S)
    proxy.behave(Answer(503), when="/_index_template", times=1)

    error = fault(store)

    assert (error.kind, error.retryable) == ("overloaded", True)
    assert not proxy.of(BULK)
    assert_all_there_once(store, proxy)
    store.close()


def test_the_next_node_is_asked_when_one_is_down(
    elasticsearch: EmbeddedElasticsearch, proxy: FaultProxy, tmp_path: Path
) -> None:
    prefix = unique_prefix()
    store = open_store(proxy.url, prefix, tmp_path, urls=(proxy.url, elasticsearch.url))
    proxy.refuse()

    for number in range(4):  # whosever turn it is
        store.write([samples(number)], batch="a")
        assert partitions(store) == list(range(number))
    store.close()


def test_only_what_every_installation_has_is_used(proxy: FaultProxy, tmp_path: Path) -> None:
    store = open_store(proxy.url, unique_prefix(), tmp_path)
    store.write([samples(3)], batch="a")
    store.write([samples(5001, source="backfill")], batch="b")
    store.write([samples(3)], batch="a")
    everything = HistoryRange(kind=Kind.SAMPLES, cluster="here", group="billing", **EVER)

    held(store)
    store.aggregate(everything, 60_000)
    store.clusters()
    store.days(Kind.SAMPLES, "here")
    store.stats()
    store.verify()
    store.delete_before(Kind.SAMPLES, "2030-01-01")
    store.close()

    verbs = {(request.method, _verb(request.path)) for request in proxy.requests}
    assert verbs == {
        ("PUT", "_index_template"),
        ("POST", "_index_template"),
        ("GET", "_mapping"),
        ("GET", "_settings"),
        ("PUT", "_bulk"),
        ("POST", "_refresh"),
        ("POST", "_pit"),
        ("DELETE", "_pit"),
        ("POST", "_search"),
        ("GET", "_stats"),
        ("GET", "_cluster"),
        ("DELETE", ""),
    }


def _verb(path: str) -> str:
    """The part of a path that says what is wanted; "" for a mere index."""
    return next((part for part in path.split("/") if part.startswith("_")), "")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"api_key": "aWQ6c2VjcmV0"}, "ApiKey aWQ6c2VjcmV0"),
        (
            {"username": "lagwatch", "password": "pä:ss"},
            "Basic " + base64.b64encode("lagwatch:pä:ss".encode()).decode(),
        ),
    ],
)
def test_credentials_go_with_every_request(
    proxy: FaultProxy, tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    def guarded(request: Request) -> Answer | Pass:
        return Pass() if request.headers.get("authorization") == expected else Answer(401)

    proxy.rule = guarded
    stranger = open_store(proxy.url, unique_prefix(), tmp_path)
    known = open_store(proxy.url, unique_prefix(), tmp_path, **options)

    error = fault(stranger)
    known.write([samples(3)], batch="a")

    assert error.kind == "authentication"
    assert partitions(known) == [0, 1, 2]
    stranger.close()
    known.close()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    write_certificates(folder)
    return folder


@pytest.fixture
def tls_proxy(elasticsearch: EmbeddedElasticsearch, certificates: Path) -> Iterator[FaultProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem")
    with FaultProxy(elasticsearch.port, tls=context) as running:
        yield running


def fingerprint(certificate: Path) -> str:
    """SHA-256 of the last certificate in a PEM file."""
    pem = certificate.read_text(encoding="ascii")
    start = pem.rindex("-----BEGIN CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[start:])).hexdigest()


def test_a_server_is_trusted_for_its_ca(
    tls_proxy: FaultProxy, certificates: Path, tmp_path: Path
) -> None:
    store = open_store(tls_proxy.url, unique_prefix(), tmp_path, ca_file=certificates / "ca.pem")

    store.write([samples(3)], batch="a")

    assert partitions(store) == [0, 1, 2]
    store.close()


def test_a_server_is_trusted_for_its_fingerprint(
    tls_proxy: FaultProxy, certificates: Path, tmp_path: Path
) -> None:
    known = fingerprint(certificates / "server.pem")
    store = open_store(tls_proxy.url, unique_prefix(), tmp_path, fingerprint=known)

    store.write([samples(3)], batch="a")

    assert partitions(store) == [0, 1, 2]
    store.close()


@pytest.mark.parametrize("options", [{}, {"fingerprint": "0" * 64}])
def test_a_server_that_is_not_trusted_gets_nothing(
    tls_proxy: FaultProxy, tmp_path: Path, options: dict[str, str]
) -> None:
    store = open_store(tls_proxy.url, unique_prefix(), tmp_path, **options)

    error = fault(store)

    assert (error.kind, error.retryable) == ("connection", True)
    assert "fingerprint" in str(error)
    assert not tls_proxy.requests
    store.close()


def test_an_hour_without_elasticsearch_loses_nothing_and_doubles_nothing(
    store: ElasticStore, proxy: FaultProxy, tmp_path: Path
) -> None:
    """The time is that of a clock which is set; the faults are real, one after the other."""
    clock = SetClock(NOON_MS)
    spool = Spool(tmp_path / "spool", max_bytes=100_000_000, spool_id="test")
    settings = WriterSettings(flush_ms=0, retention_days={}, max_rows=20 * ROWS)
    writer = Writer(spool, store, settings, clock)
    faults: list[Behaviour] = [
        Answer(503),
        Cut(0),
        Answer(429),
        Cut(100),
        Answer(200, b"?", "text/plain"),
    ]

    for round_number in range(120):
        clock.ms = NOON_MS + (round_number + 1) * 30_000
        spool.append([samples(ROWS // 10, at_ms=clock.ms)])
        if round_number % 10 == 0:
            proxy.behave(faults[round_number // 10 % len(faults)], when=BULK)
            assert not writer.deliver()
    during = spool.fill()
    proxy.rule = lambda _: Pass()
    while writer.deliver():
        pass

    expected = 120 * ROWS // 10
    assert during.rows == expected
    assert writer.problem == ""
    assert writer.delivered == expected
    assert spool.fill().rows == 0
    rows = held(store, from_ms=NOON_MS + 1)
    assert len({(row["at_ms"], row["partition"]) for row in rows}) == len(rows) == expected


def test_a_server_killed_in_mid_write_has_every_acknowledged_row_once(
    own_elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    prefix = unique_prefix()
    with FaultProxy(own_elasticsearch.port) as proxy:
        store = open_store(proxy.url, prefix, tmp_path, timeout_s=20.0, bulk_bytes=10_000)
        store.write([samples(ROWS)], batch="a")
        sent = len(proxy.of(BULK))

        def kill_once(request: Request) -> Pass:
            if BULK in request.path and len(proxy.of(BULK)) == sent + 40:
                own_elasticsearch.kill()
            return Pass()

        proxy.rule = kill_once
        with pytest.raises(HistoryError) as caught:
            store.write([samples(20 * ROWS)], batch="b")
        own_elasticsearch.start()
        proxy.rule = lambda _: Pass()
        before = partitions(store)
        write_in_the_end(store, 20 * ROWS, batch="b")

        assert caught.value.retryable
        assert set(range(ROWS)) <= set(before)
        assert ROWS < len(before) < 20 * ROWS
        assert partitions(store) == list(range(20 * ROWS))
        store.close()


def test_a_server_that_is_stopped_and_goes_on_is_written_to_again(
    own_elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    store = open_store(own_elasticsearch.url, unique_prefix(), tmp_path, timeout_s=10.0)
    write_in_the_end(store, 1, batch="first")
    hasty = open_store(own_elasticsearch.url, store.prefix, tmp_path, timeout_s=TIMEOUT_S)
    own_elasticsearch.pause()

    error = fault(hasty)
    own_elasticsearch.resume()
    write_in_the_end(store, ROWS)

    assert (error.kind, error.retryable) == ("timeout", True)
    assert partitions(store) == list(range(ROWS))
    hasty.close()
    store.close()
