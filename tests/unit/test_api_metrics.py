"""`/metrics` over HTTP: formats, encodings, and what the client asked for."""

import gzip
import http.client
import re
from collections.abc import Mapping

import pytest

from lagwatch.metrics.exporter import accepts_gzip, negotiate
from lagwatch.metrics.metric import Format
from lagwatch_api import create_app
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.scraped import Cluster, exporter
from tests.support.serving import Answered, served

_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
"""What Prometheus 2.42 sends."""


def ask(headers: Mapping[str, str], method: str = "GET") -> Answered:
    made, _ = exporter(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 4}))
    app = create_app(
        GivenQueries({}), RecordingCommands(), GivenSettings(), made, hostname="vm", version="1"
    )
    with served(app) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        try:
            connection.request(method, "/metrics", headers=dict(headers))
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answered(status=response.status, headers=found, body=response.read())
        finally:
            connection.close()


def test_whoever_asks_for_nothing_special_gets_the_old_format() -> None:
    answered = ask({})

    assert answered.status == 200
    assert answered.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "content-encoding" not in answered.headers
    assert int(answered.headers["content-length"]) == len(answered.body)
    assert '\nlagwatch_lag_messages{cluster="here",group="g"' in answered.text
    assert "# EOF" not in answered.text


def test_prometheus_gets_openmetrics_and_gzip() -> None:
    answered = ask({"Accept": _PROMETHEUS, "Accept-Encoding": "gzip"})

    assert answered.headers["content-type"].startswith("application/openmetrics-text; version=1.0")
    assert answered.headers["content-encoding"] == "gzip"
    assert answered.headers["vary"] == "Accept, Accept-Encoding"
    assert gzip.decompress(answered.body).decode().endswith("# EOF\n")


def test_answers_are_counted_by_route_and_never_by_path() -> None:
    made, state = exporter(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 4}))
    app = create_app(
        GivenQueries({}), RecordingCommands(), GivenSettings(), made, hostname="vm", version="1"
    )
    app.add_api_route("/added/{name}", lambda name: name)

    with served(app) as server:
        for method, path in (
            ("GET", "/v3/kafka/somewhere"),
            ("GET", "/v3/kafka/elsewhere"),
            ("GET", "/added/one"),
            ("GET", "/no/such/path"),
            ("PROPFIND", "/metrics"),
        ):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
            connection.request(method, path)
            connection.getresponse().read()
            connection.close()

    text = b"".join(made.render(state, Format.PROMETHEUS).plain()).decode()
    counted = re.findall(r"^lagwatch_http_request_duration_seconds_count(.*)$", text, re.MULTILINE)
    assert sorted(counted) == [
        '{method="GET",route="/added/{name}",status="200"} 1.0',
        '{method="GET",route="/v3/kafka/{cluster}",status="404"} 2.0',
        '{method="GET",route="other",status="404"} 1.0',
        '{method="other",route="other",status="405"} 1.0',
    ]


def test_other_methods_are_refused() -> None:
    assert ask({}, "POST").status == 405


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Format.PROMETHEUS),
        ("*/*", Format.PROMETHEUS),
        (_PROMETHEUS, Format.OPENMETRICS),
        ("Application/OpenMetrics-Text", Format.OPENMETRICS),
        ("text/plain, application/openmetrics-text;q=0.5", Format.PROMETHEUS),
        ("application/openmetrics-text;q=0", Format.PROMETHEUS),
        ("application/openmetrics-text;q=much", Format.PROMETHEUS),
    ],
)
def test_the_format_is_the_one_the_client_prefers(accept, form) -> None:
    assert negotiate(accept) is form


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("*", True),
        ("gzip;q=0, *", False),
        ("br", False),
    ],
)
def test_gzip_is_used_only_when_accepted(accept, wanted) -> None:
    assert accepts_gzip(accept) is wanted
