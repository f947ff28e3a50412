"""The OpenAPI document is true: every route answers as it says, whatever is asked."""

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, checks

from docs.parts import documented_app
from lagwatch.access import AccessControl
from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.config.server import ServerSettings
from lagwatch.history.build import History
from lagwatch.history.deployments import RecordedDeployments
from lagwatch.monitor.progress import ReportedProgress
from lagwatch.monitor.scaling import FollowedGroups
from lagwatch.notify.alerts import Alerts
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands, cluster_health
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.history import Live
from tests.support.scraped import Cluster, exporter
from tests.support.serving import ask

pytestmark = pytest.mark.slow  # asks every route over HTTP

ODD_NAMES = (
    *("x", "x/topics/t/partitions/0", "a\nb", "a\rb", "a b", "a%2Fb", "ü⚡", "?#&=", "'\"<>"),
    *("...", "..", "a/../b", "history", "a/history", ";", "\\", "+", "\x7f", "x" * 249),
)
_STREAM = "/api/v1/stream"
_CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
)


@pytest.fixture(scope="module")
def app() -> Iterator[FastAPI]:
    """The application over real parts, with groups and topics of odd names."""
    clock = ShiftedClock()
    live = Live(now_ms=clock.now_ms())
    live.topics(**dict.fromkeys(ODD_NAMES, 1))
    live.wait(1)
    live.commit(*((name, name, 0, 50) for name in ODD_NAMES))
    live.wait(1)
    live.judge()
    queries = SnapshotQueries(
        {"here": live.monitor}, health=lambda: (cluster_health("here", ready=True),)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        alerts = Alerts(alert_settings(folder, _ALERTS), clock)
        fleet = Fleet(["billing", "mailer"], clock)
        fleet.fail("billing")
        fleet.shown_to(alerts)
        history = History(HistorySettings(url=f"{name}/store", spool=folder / "spool"), clock)
        made, _ = exporter(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 4}))
        yield create_app(
            queries,
            RecordingCommands(),
            GivenSettings({"cluster": {"here": {"class-name": "kafka"}}}),
            made,
            alerts=alerts,
            history=history.queries,
            deployments=RecordedDeployments(queries, history, clock),
            scaling=FollowedGroups(queries, clock),
            progress=ReportedProgress({}, clock),
            access=AccessControl(ServerSettings(hosts=("test", "testserver")), SystemClock()),
            hostname="vm",
            version="1.2.3",
        )
        history.stop(5)
        alerts.close()


_ALERTS = '[alerts.policies.all]\n[alerts.webhook.hook]\nurl = "http://127.0.0.1:1"\n'


OPERATIONS = [
    (method, path)
    for path, methods in documented_app().openapi()["paths"].items()
    for method in methods
    if path != _STREAM  # never ends
]


@pytest.mark.parametrize(
    ("method", "path"), OPERATIONS, ids=[" ".join(operation) for operation in OPERATIONS]
)
def test_every_route_answers_as_it_is_documented(app: FastAPI, method: str, path: str) -> None:
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)

    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=schema[path][method].as_strategy())
    def holds(case: Case) -> None:
        case.validate_response(answered(app, case), checks=list(_CHECKS))

    holds()


def answered(app: FastAPI, case: Case) -> httpx.Response:
    """The answer of the application in this thread: its databases belong to it."""
    order = requests.Request(**case.as_transport_kwargs(base_url="http://test")).prepare()
    body = order.body
    assert body is None or isinstance(body, str | bytes)

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.request(
                order.method or "",
                order.url or "",
                headers={name: str(value) for name, value in order.headers.items()},
                content=body,
            )

    return asyncio.run(asked())


def test_every_name_can_be_asked_for_and_gets_its_own_answer(app: FastAPI) -> None:
    for name in ODD_NAMES:
        group = quote(name, safe="")
        status = ask(app, f"/v3/kafka/here/consumer/{group}/status")
        topic = ask(app, f"/v3/kafka/here/topic/{group}")
        shown = ask(app, f"/api/v1/clusters/here/groups/{group}")
        past = ask(app, f"/api/v1/clusters/here/groups/{group}/history")
        part = ask(app, f"/api/v1/clusters/here/groups/{group}/topics/{group}/partitions/0/history")

        assert {each.status for each in (status, topic, shown, past, part)} == {200}, name
        assert status.json["status"]["group"] == shown.json["group"] == name
        assert past.json["about"]["group"] == part.json["about"]["group"] == name
        assert "partition" not in past.json["about"]
        assert part.json["about"]["topic"] == name
