"""The documentation: complete, true, and readable without the internet."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from pydantic import TypeAdapter

from lagwatch.ports.queries import GroupDetail, PartitionDetail
from lagwatch_api import create_app, ops
from lagwatch_api.v3 import schemas
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
    entry,
    group_verdict,
    partition_verdict,
    unknown_partition,
)
from tests.support.serving import ask


@pytest.fixture
def app() -> FastAPI:
    return create_app(
        GivenQueries({}), RecordingCommands(), GivenSettings(), hostname="vm", version="1.2.3"
    )


def _knowing_app() -> FastAPI:
    windows = [
        PartitionDetail(window=(None, entry(3, lag=None)), owner="", client_id="", current_lag=None)
    ]
    partitions = (partition_verdict(), unknown_partition())
    cluster = GivenCluster(
        topics={"t": (1, None)},
        verdicts={"g": group_verdict(*partitions, group="g")},
        details={"g": GroupDetail(topics={"t": windows})},
    )
    return create_app(
        GivenQueries({"c1": cluster}, [cluster_health("c1", ready=True)]),
        RecordingCommands(),
        GivenSettings({"cluster": {"c1": {"class-name": "kafka"}}}),
        hostname="vm",
        version="1.2.3",
    )


def test_every_route_of_burrow_is_documented(app: FastAPI) -> None:
    paths = ask(app, "/openapi.json").json["paths"]

    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    group = "/v3/kafka/{cluster}/consumer/{group}"
    assert documented >= {
        ("GET", "/burrow/admin"),
        ("GET", "/burrow/admin/ready"),
        ("GET", "/v3/kafka"),
        ("GET", "/v3/kafka/{cluster}"),
        ("GET", "/v3/kafka/{cluster}/topic"),
        ("GET", "/v3/kafka/{cluster}/topic/{topic}"),
        ("GET", "/v3/kafka/{cluster}/topic/{topic}/consumers"),
        ("GET", "/v3/kafka/{cluster}/consumer"),
        ("GET", group),
        ("DELETE", group),
        ("GET", group + "/status"),
        ("GET", group + "/lag"),
        ("DELETE", group + "/topic/{topic}"),
        ("GET", "/v3/config"),
        ("GET", "/v3/config/cluster/{cluster}"),
        ("GET", "/v3/config/notifier/{name}"),
        ("GET", "/v3/admin/loglevel"),
        ("POST", "/v3/admin/loglevel"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    }


def test_the_document_is_whole(app: FastAPI) -> None:
    document = ask(app, "/openapi.json").json

    schemas = document["components"]["schemas"]
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    assert document["info"]["version"] == "1.2.3"
    assert {reference.rsplit("/")[-1] for reference in _references(document)} <= set(schemas)
    assert len({each["operationId"] for each in operations}) == len(operations)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            names = [
                parameter["name"]
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "path"
            ]
            assert names == re.findall(r"{(\w+)}", path)


def test_the_verdict_is_described_key_by_key(app: FastAPI) -> None:
    schemas = ask(app, "/openapi.json").json["components"]["schemas"]

    assert {"totallag", "maxlag", "rule", "time_lag_s"} <= set(schemas["Group"]["properties"])
    assert {"current_lag", "evidence", "lost"} <= set(schemas["Partition"]["properties"])
    assert "current-lag" in schemas["PartitionWindow"]["properties"]
    assert "rule" not in schemas["Group"]["required"]


def test_answers_are_documented_with_their_types(app: FastAPI) -> None:
    paths = ask(app, "/openapi.json").json["paths"]
    status = paths["/v3/kafka/{cluster}/consumer/{group}/status"]["get"]["responses"]
    level = paths["/v3/admin/loglevel"]["post"]

    assert set(status) == {"200", "400", "401", "403", "404", "421"}
    assert _media_types(paths["/burrow/admin"]) == ["text/plain"]
    assert _media_types(paths["/docs"]) == ["text/html"]
    refused = {"401", "403", "413", "415", "421"}
    assert set(level["responses"]) == {"200", "400", "404"} | refused
    assert level["requestBody"]["content"]["application/json"]["schema"]["required"] == ["level"]


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/v3/kafka", schemas.ClusterList),
        ("/v3/kafka/c1/topic", schemas.TopicList),
        ("/v3/kafka/c1/topic/t", schemas.TopicDetail),
        ("/v3/kafka/c1/consumer", schemas.GroupList),
        ("/v3/kafka/c1/consumer/g", schemas.WindowsByTopic),
        ("/v3/kafka/c1/consumer/g/lag", schemas.GroupAnswer),
        ("/v3/kafka/c1/consumer/nope/lag", schemas.GroupAnswer),
        ("/v3/kafka/nope", schemas.Envelope),
        ("/v3/config", schemas.MainConfig),
        ("/v3/config/cluster", schemas.ModuleList),
        ("/v3/config/cluster/c1", schemas.ModuleDetail),
        ("/v3/admin/loglevel", schemas.LogLevel),
        ("/healthz", ops.Health),
        ("/readyz", ops.Readiness),
    ],
)
def test_answers_are_what_the_documentation_says(path: str, model: type[object]) -> None:
    answered = ask(_knowing_app(), path)

    # Keys that are not documented are dropped, so this notices too many of them and too few.
    documented = TypeAdapter(model).validate_json(answered.body)
    assert orjson.loads(orjson.dumps(documented)) == answered.json


def test_the_page_needs_nothing_from_elsewhere(app: FastAPI) -> None:
    answered = ask(app, "/docs")

    page = _Page()
    page.feed(answered.text)
    assert answered.headers["content-type"] == "text/html; charset=utf-8"
    assert "script" not in page.tags
    assert all(link.startswith(("/", "#")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.ids
    assert "/v3/kafka/{cluster}/consumer/{group}/status" in page.text


class _Page(HTMLParser):
    """What a browser would load, follow and show."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in {"href", "src"}:
                self.links.add(value or "")
            elif name == "id":
                self.ids.add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def _media_types(path: dict[str, Any]) -> list[str]:
    return list(path["get"]["responses"]["200"]["content"])


def _references(value: Any) -> list[str]:  # noqa: ANN401
    if isinstance(value, list):
        return [reference for item in value for reference in _references(item)]
    if not isinstance(value, dict):
        return []
    here = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return here + [reference for item in value.values() for reference in _references(item)]


def test_the_page_may_load_and_run_nothing(app: FastAPI) -> None:
    answered = ask(app, "/docs")

    policy = answered.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    (style,) = re.findall(r"<style>(.*?)</style>", answered.text, re.DOTALL)
    assert b64encode(sha256(style.encode()).digest()).decode() in policy
