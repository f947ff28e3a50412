"""What clients see when something goes wrong."""

import http.client
import logging
import socket
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, HTTPException, Query, Request

from lagwatch.errors import NotFoundError
from lagwatch_api import create_app
from lagwatch_api.deps import Deps, deps_of
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.serving import ask, served

pytestmark = pytest.mark.slow  # builds the application many times


class BrokenQueries(GivenQueries):
    """A `Queries` with a fault in it."""

    def clusters(self) -> tuple[str, ...]:
        message = "the secret is swordfish"
        raise RuntimeError(message)


@pytest.fixture
def app() -> FastAPI:
    return create_app(
        BrokenQueries({}), RecordingCommands(), GivenSettings(), hostname="vm", version="0"
    )


def test_a_fault_of_ours_is_reported_in_burrows_envelope_and_without_its_text(app: FastAPI) -> None:
    answered = ask(app, "/v3/kafka", crashes=True)

    assert answered.status == 500
    assert answered.headers["content-type"] == "application/json"
    assert answered.json == {
        "error": True,
        "message": "internal error; the log of lagwatch says more",
        "request": {"url": "/v3/kafka", "host": "vm"},
    }


def test_the_server_logs_the_fault_and_goes_on(
    app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "uvicorn.error"), served(app) as server:
        failed, healthy = server.ask("/v3/kafka"), server.ask("/healthz")

    assert (failed.status, healthy.status) == (500, 200)
    assert "swordfish" not in failed.text
    assert "swordfish" in caplog.text


def test_failures_of_other_routes_come_in_the_same_envelope(app: FastAPI) -> None:
    @app.get("/api/v1/limited")
    async def limited(limit: Annotated[int, Query(le=10)]) -> int:
        return limit

    @app.get("/api/v1/refused")
    async def refused() -> None:
        raise HTTPException(409, "not now", {"Retry-After": "3"})

    @app.get("/api/v1/missing")
    async def missing() -> None:
        raise NotFoundError(kind="group", name="billing")

    invalid = ask(app, "/api/v1/limited?limit=x")
    conflict = ask(app, "/api/v1/refused")
    not_found = ask(app, "/api/v1/missing")
    wrong_method = ask(app, "/api/v1/refused", "POST")

    assert invalid.status == 400
    assert invalid.json["message"].startswith("query.limit: ")
    assert (conflict.status, conflict.json["message"]) == (409, "not now")
    assert conflict.headers["retry-after"] == "3"
    assert (not_found.status, not_found.json["message"]) == (404, "group 'billing' is not known")
    assert (wrong_method.status, wrong_method.text) == (405, "Method Not Allowed\n")
    assert wrong_method.headers["allow"] == "GET"
    for answered in (invalid, conflict, not_found):
        assert list(answered.json) == ["error", "message", "request"]


def test_other_routes_reach_the_ports(app: FastAPI) -> None:
    @app.get("/api/v1/host")
    async def host(deps: Annotated[Deps, Depends(deps_of)]) -> str:
        return deps.hostname

    assert ask(app, "/api/v1/host").json == "vm"


def test_a_foreign_application_has_no_ports() -> None:
    foreign = FastAPI()
    foreign.state.deps = "something else"

    with pytest.raises(TypeError, match="create_app"):
        deps_of(Request({"type": "http", "app": foreign, "headers": []}))


@pytest.mark.parametrize("target", [b"/v3/kafka/\xff\xfe", b"/\x00", b"/%ff%00", b"*", b"//"])
def test_bytes_no_url_should_hold_do_not_stop_the_server(app: FastAPI, target: bytes) -> None:
    with served(app) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(b"OPTIONS " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            response = http.client.HTTPResponse(connection)
            response.begin()
            refused = response.status
            response.read()
            response.close()
        healthy = server.ask("/healthz")

    assert refused in {400, 404}
    assert healthy.status == 200
