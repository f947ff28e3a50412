"""What the HTTP layer refuses before any route sees it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.ports.access import COOKIE, EVERYBODY, NOBODY, Caller, Scope
from lagwatch.ports.queries import ClusterHealth
from lagwatch_api import create_app
from lagwatch_api.gate import MAX_BODY_BYTES
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
    group_verdict,
)
from tests.support.serving import ask, served

pytestmark = pytest.mark.slow  # builds the application many times

_LEVEL = "/v3/admin/loglevel"
_GROUP = "/v3/kafka/c1/consumer/billing"
_JSON = {"content-type": "application/json"}
HOLDERS = {
    "reader": Caller(name="reader", scope=Scope.READ),
    "operator": Caller(name="operator", scope=Scope.OPERATE),
    "admin": Caller(name="admin", scope=Scope.ADMIN),
}


class GivenAccess:
    """Whoever sends the header `x-who` is that one; the host is `test`."""

    takes_tokens = True
    sent_once = frozenset({b"host", b"authorization", b"origin", b"x-user"})

    def __init__(self, *, guarded: bool = True, open_metrics: bool = False) -> None:
        self._guarded = guarded
        self.open_metrics = open_metrics
        self.noted: list[tuple[str, str, str, int]] = []

    def is_host(self, host: bytes) -> bool:
        return host.split(b":")[0] in {b"test", b"127.0.0.1"}

    def caller(self, headers: Mapping[bytes, bytes], peer: str) -> Caller:
        del peer
        if not self._guarded:
            return EVERYBODY
        return self.holder(headers.get(b"x-who", b"").decode())

    def holder(self, token: str) -> Caller:
        return HOLDERS.get(token, NOBODY)

    def note(self, caller: Caller, peer: str, method: str, path: str, status: int) -> None:
        assert peer == "127.0.0.1"
        self.noted.append((caller.name, method, path, status))


def app(
    access: GivenAccess,
    commands: RecordingCommands | None = None,
    health: Sequence[ClusterHealth] = (),
) -> FastAPI:
    queries = GivenQueries(
        {"c1": GivenCluster(verdicts={"billing": group_verdict()})},
        health or [cluster_health("c1", ready=True)],
    )
    return create_app(
        queries,
        commands or RecordingCommands(),
        GivenSettings(),
        access=access,
        hostname="vm",
        version="0",
    )


def status(target: str, method: str = "GET", who: str = "", **headers: str) -> int:
    given = {name.replace("_", "-"): value for name, value in headers.items()} | {"x-who": who}
    return ask(app(GivenAccess()), target, method, headers=given).status


@pytest.mark.parametrize("who", ["", "reader", "operator", "admin"])
@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/healthz", Scope.NONE),
        ("GET", "/readyz", Scope.NONE),
        ("GET", "/burrow/admin/ready", Scope.NONE),
        ("GET", "/", Scope.NONE),
        ("GET", "/ui/main.js", Scope.NONE),
        ("GET", "/v3/kafka", Scope.READ),
        ("HEAD", "/v3/kafka", Scope.READ),
        ("OPTIONS", "/v3/kafka", Scope.READ),
        ("GET", _GROUP + "/status", Scope.READ),
        ("GET", "/api/v1/fleet", Scope.READ),
        ("GET", "/openapi.json", Scope.READ),
        ("GET", "/metrics", Scope.READ),
        ("GET", "/nothing", Scope.READ),
        ("DELETE", _GROUP, Scope.OPERATE),
        ("POST", "/api/v1/clusters/c1/groups/billing/losses/acknowledge", Scope.OPERATE),
        ("POST", "/api/v1/losses/acknowledge", Scope.OPERATE),
        ("PUT", "/nothing", Scope.OPERATE),
        ("POST", _LEVEL, Scope.ADMIN),
        ("POST", "/V3//Admin/loglevel", Scope.OPERATE),  # a redirect to the path above
    ],
)
def test_every_route_needs_the_scope_of_its_kind(method, path, needed, who) -> None:
    has = HOLDERS.get(who, NOBODY).scope

    got = status(path, method, who)

    refused = {401} if who == "" else {403}
    assert (got in refused) is (has < needed), got


def test_a_refusal_says_what_is_needed() -> None:
    nobody = ask(app(GivenAccess()), "/v3/kafka")
    reader = ask(app(GivenAccess()), _GROUP, "DELETE", headers={"x-who": "reader"})

    assert nobody.status == 401
    assert nobody.headers["www-authenticate"].startswith("Bearer")
    assert nobody.json["message"] == "this needs a token with the scope 'read'"
    assert reader.json["message"] == "this needs the scope 'operate'; reader has 'read'"


def test_probes_tell_strangers_nothing_but_the_answer() -> None:
    stranger = ask(app(GivenAccess()), "/readyz")
    reader = ask(app(GivenAccess()), "/readyz", headers={"x-who": "reader"})

    assert stranger.json == {"ready": True, "clusters": {}}
    assert list(reader.json["clusters"]) == ["c1"]


@pytest.mark.parametrize("cluster", ["c1", "c2", "unknown"])
def test_strangers_cannot_tell_known_clusters_from_unknown_ones(cluster) -> None:
    health = [cluster_health("c1", ready=True), cluster_health("c2", ready=False)]
    gate = app(GivenAccess(), health=health)

    stranger = ask(gate, f"/readyz?cluster={cluster}")
    reader = ask(gate, f"/readyz?cluster={cluster}", headers={"x-who": "reader"})

    assert (stranger.status, stranger.json) == (200, {"ready": True, "clusters": {}})
    assert reader.status == {"c1": 200, "c2": 503, "unknown": 404}[cluster]


def test_metrics_can_be_open() -> None:
    assert ask(app(GivenAccess(open_metrics=True)), "/metrics").status == 404  # has no exporter
    assert ask(app(GivenAccess()), "/metrics").status == 401


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/healthz", "/v3/kafka", _GROUP, _LEVEL])
def test_a_foreign_name_of_the_server_is_refused(path, method) -> None:
    answered = ask(app(GivenAccess(guarded=False)), path, method, headers={"host": "evil.example"})

    assert answered.status == 421
    assert "'evil.example' is not a name of this server" in answered.json["message"]


def test_only_http_1_0_may_leave_out_the_host() -> None:
    gate = app(GivenAccess(guarded=False))

    newer = ask(gate, "/healthz", headers={"host": ""})
    older = ask(gate, "/healthz", headers={"host": ""}, http_version="1.0")

    assert (newer.status, newer.json["message"]) == (400, "a request needs a header Host")
    assert older.status == 200


@pytest.mark.parametrize("name", ["host", "authorization", "origin", "x-user"])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_two_headers_that_say_who_may_do_what_are_refused(method, name) -> None:
    commands = RecordingCommands()
    gate = app(GivenAccess(guarded=False), commands)
    first = {"host": "test", "origin": "http://test"}.get(name, "x")

    answered = ask(gate, _GROUP, method, headers={name: first}, also=[(name, first)])

    assert (answered.status, answered.json["message"]) == (400, f"there are 2 headers {name}")
    assert commands.forgotten == []


def test_two_headers_that_say_nothing_of_rights_are_taken() -> None:
    gate = app(GivenAccess(guarded=False))

    assert ask(gate, "/healthz", also=[("accept", "a/b"), ("accept", "c/d")]).status == 200


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({}, True),
        ({"origin": "http://test"}, True),
        ({"origin": "https://test"}, True),
        ({"origin": "http://test:8000"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "http://test.evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "http://["}, False),
        ({"origin": "http://a]b/"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://test", "sec-fetch-site": "cross-site"}, False),
    ],
)
def test_pages_of_other_sites_change_nothing(headers, accepted) -> None:
    commands, access = RecordingCommands(), GivenAccess(guarded=False)

    answered = ask(app(access, commands), _GROUP, "DELETE", headers=headers)

    assert answered.status == (200 if accepted else 403)
    assert bool(commands.forgotten) is accepted
    assert access.noted == [("anyone", "DELETE", _GROUP, answered.status)]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data", 415),
        ("text/plain; application/json", 415),
        ("", 415),
    ],
)
def test_only_json_changes_anything(kind, expected) -> None:
    commands = RecordingCommands(level="info")

    answered = ask(
        app(GivenAccess(guarded=False), commands),
        _LEVEL,
        "POST",
        b'{"level":"fatal"}',
        headers={"content-type": kind},
    )

    assert answered.status == expected
    assert commands.level == ("fatal" if expected == 200 else "info")


@pytest.mark.parametrize("announced", [True, False])
def test_a_large_body_is_refused_and_not_kept(announced) -> None:
    gate = app(GivenAccess(guarded=False))
    body = b'{"level":"' + b"x" * MAX_BODY_BYTES + b'"}'
    length = {} if announced else {"content-length": "0", "transfer-encoding": "chunked"}

    answered = ask(gate, _LEVEL, "POST", body, headers={**_JSON, **length})

    assert answered.status == 413
    assert answered.headers["connection"] == "close"


def test_an_endless_body_is_refused_after_what_is_allowed() -> None:
    received = 0

    async def receive() -> dict[str, Any]:
        nonlocal received
        received += 10_000
        return {"type": "http.request", "body": b"x" * 10_000, "more_body": True}

    answered = ask(app(GivenAccess(guarded=False)), _LEVEL, "POST", headers=_JSON, receive=receive)

    assert answered.status == 413
    assert received < 2 * MAX_BODY_BYTES


@given(
    method=st.sampled_from(["POST", "PUT", "DELETE", "PATCH", "QUERY"]),
    path=st.sampled_from([_GROUP, _LEVEL, "/api/v1/session", "/nothing", "/V3/ADMIN/loglevel"]),
    origin=st.sampled_from(["http://evil.example", "null", "https://test.evil", "http://test:1"]),
    kind=st.sampled_from(["application/json", "text/plain", ""]),
)
def test_no_write_of_another_origin_passes(method, path, origin, kind) -> None:
    commands = RecordingCommands(level="info")
    body = json.dumps({"level": "fatal", "token": "admin"}).encode()
    headers = {"origin": origin, "content-type": kind}

    answered = ask(app(GivenAccess(guarded=False), commands), path, method, body, headers=headers)

    assert answered.status == 403
    assert (commands.forgotten, commands.level) == ([], "info")


def test_orders_are_noted_with_who_and_what_and_reading_is_not() -> None:
    access = GivenAccess()
    gate = app(access)

    ask(gate, "/v3/kafka", headers={"x-who": "reader"})
    ask(gate, _GROUP, "DELETE", headers={"x-who": "operator"})
    ask(gate, _GROUP, "DELETE", headers={"x-who": "reader"})
    ask(gate, _LEVEL, "POST", b'{"level":"loud"}', headers={"x-who": "admin", **_JSON})

    assert access.noted == [
        ("operator", "DELETE", _GROUP, 200),
        ("reader", "DELETE", _GROUP, 403),
        ("admin", "POST", _LEVEL, 404),
    ]


class TestSession:
    def test_a_page_learns_who_asks(self) -> None:
        nobody = ask(app(GivenAccess()), "/api/v1/session")
        reader = ask(app(GivenAccess()), "/api/v1/session", headers={"x-who": "reader"})

        zone = {"time_zone": "UTC", "time_zone_names": {"0": "UTC"}}
        assert nobody.json == {"name": "", "scope": "none", "takes_tokens": True, **zone}
        assert reader.json == {"name": "reader", "scope": "read", "takes_tokens": True, **zone}

    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_the_cookie_is_kept_from_scripts_and_other_sites(self, scheme) -> None:
        answered = ask(
            app(GivenAccess()),
            "/api/v1/session",
            "POST",
            b'{"token":"reader"}',
            headers=_JSON,
            scheme=scheme,
        )

        assert answered.status == 200
        cookie = answered.headers["set-cookie"]
        assert cookie.startswith(f"{COOKIE}=reader; ")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert ("Secure" in cookie) is (scheme == "https")

    def test_a_wrong_token_gets_no_cookie(self) -> None:
        answered = ask(
            app(GivenAccess()), "/api/v1/session", "POST", b'{"token":"x"}', headers=_JSON
        )

        assert answered.status == 401
        assert "set-cookie" not in answered.headers

    def test_logging_out_deletes_the_cookie(self) -> None:
        answered = ask(app(GivenAccess()), "/api/v1/session", "DELETE")

        assert answered.status == 204
        assert "Max-Age=0" in answered.headers["set-cookie"]


def test_every_route_answers_head_as_get_without_a_body() -> None:
    gate = app(GivenAccess(guarded=False))
    paths = ["/", "/ui/main.js", "/healthz", "/v3/kafka", _GROUP + "/status", "/api/v1/fleet"]
    paths += ["/docs", "/openapi.json", "/nothing", "/api/v1/stream"]

    with served(gate) as server:
        for path in paths:
            head = server.ask(path, "HEAD")

            assert head.body == b"", path
            if path != "/api/v1/stream":
                got = server.ask(path)
                assert head.status == got.status, path
                assert head.headers.get("content-length") == str(len(got.body)), path


@pytest.mark.parametrize("path", ["/ui/main.js", "/openapi.json", "/docs"])
def test_large_texts_are_compressed_for_who_accepts_that(path) -> None:
    gate = app(GivenAccess(guarded=False))

    plain = ask(gate, path)
    packed = ask(gate, path, headers={"accept-encoding": "br, gzip"})

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.headers.get("etag") == plain.headers.get("etag")
    assert len(packed.body) == int(packed.headers["content-length"]) < len(plain.body) // 2


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br;q=1, GZIP ; q=0.5", True),
        ("gzip;q=0.001", True),
        ("gzip;q=0", False),
        ("br, gzip; q=0.000", False),
        ("gzip;Q=0", False),
        ("x-gzipped", False),
        ("identity", False),
    ],
)
def test_who_does_not_want_gzip_gets_none(accepted, packed) -> None:
    gate = app(GivenAccess(guarded=False))

    answered = ask(gate, "/openapi.json", headers={"accept-encoding": accepted})

    assert ("content-encoding" in answered.headers) is packed


@pytest.mark.parametrize(
    "path",
    ["/", "/ui/main.js", "/docs", "/healthz", "/v3/kafka", _GROUP, "/api/v1/session", "/nothing"],
)
def test_browsers_are_kept_from_guessing_what_an_answer_is(path) -> None:
    gate = app(GivenAccess(guarded=False))

    answered = ask(gate, path)

    assert answered.headers["x-content-type-options"] == "nosniff"


def test_small_answers_are_not_compressed() -> None:
    gate = app(GivenAccess(guarded=False))

    small = ask(gate, "/healthz", headers={"accept-encoding": "gzip"})

    assert "content-encoding" not in small.headers
    assert small.json["status"] == "ok"
