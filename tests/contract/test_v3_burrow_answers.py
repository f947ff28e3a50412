"""A running Burrow was asked; lagwatch, knowing the same, answers the same."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
    detail_in_burrows_words,
    verdict_in_burrows_words,
)
from tests.support.serving import Answered, Served, served

pytestmark = pytest.mark.slow  # asks real HTTP applications

_FOLDER = Path(__file__).parents[1] / "vectors" / "burrow-answers"
_NOT_REQUESTS = {
    "GET",  # Burrow has nothing at `/`; here is the page
    "GET_metrics",  # not an answer of this API
    "GET_v3_config_notifier_http",  # a document without its request: see the test below
}
_COORDINATORS = ("storage", "evaluator", "cluster", "consumer", "notifier")
_SORTED = ("clusters", "topics", "consumers", "modules")
_ADDED_PER_GROUP = {
    *("rule", "time_lag_s", "time_lag_reason", "unknown_partitions"),
    *("time_lag_method", "time_lag_bound", "time_lag_error_s"),
    *(
        "readable_lag",
        "since_ms",
        "time_lag_at_ms",
        "left_behind_lag",
        "at_ms",
        "stale",
        "data_age_s",
    ),
}
_ADDED_PER_PARTITION = {
    "rule",
    "evidence",
    "unknown_reason",
    "time_lag_s",
    "time_lag_reason",
    "time_lag_method",
    "time_lag_bound",
    "time_lag_error_s",
    "lost",
    "readable_lag",
    "since_ms",
    "instance_id",
}
_ANSWERS = {
    path.stem: json.loads(path.read_text())
    for path in sorted(_FOLDER.glob("*.json"))
    if path.stem not in _NOT_REQUESTS
}


def _body(name: str) -> Any:  # noqa: ANN401
    return _ANSWERS[name]["body"]


def _settings() -> GivenSettings:
    modules = {
        coordinator: {
            name: _body(f"GET_v3_config_{coordinator}_{name}")["module"]
            for name in _body(f"GET_v3_config_{coordinator}")["modules"]
        }
        for coordinator in _COORDINATORS
    }
    main = {key: value for key, value in _body("GET_v3_config").items() if isinstance(value, dict)}
    return GivenSettings(modules, main)


def _cluster() -> GivenCluster:
    detail = _body("GET_v3_kafka_local_consumer_brw_classic")["topics"]
    status = _body("GET_v3_kafka_local_consumer_brw_classic_lag")["status"]
    topics: dict[str, tuple[int, ...]] = dict.fromkeys(
        _body("GET_v3_kafka_local_topic")["topics"], ()
    )
    topics["brw-owned"] = tuple(_body("GET_v3_kafka_local_topic_brw_owned")["offsets"])
    groups = _body("GET_v3_kafka_local_consumer")["consumers"]
    return GivenCluster(
        topics=dict(topics),
        details={
            **{group: detail_in_burrows_words({}) for group in groups},
            "brw-classic": detail_in_burrows_words(detail),
        },
        verdicts={"brw-classic": verdict_in_burrows_words(status)},
        groups_of_topic={"brw-owned": ("brw-classic",)},
    )


def _app(settings: GivenSettings) -> FastAPI:
    queries = GivenQueries({"local": _cluster()}, [cluster_health("local", ready=True)])
    return create_app(queries, RecordingCommands(), settings, hostname="vm", version="0")


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with served(_app(_settings())) as running:
        yield running


@pytest.mark.parametrize("name", _ANSWERS)
def test_the_answer_is_burrows(server: Served, name: str) -> None:
    recorded = _ANSWERS[name]
    request = recorded["request"]
    body = None if request["body"] is None else request["body"].encode()

    answered = server.ask(request["path"], request["method"], body)

    assert answered.status == recorded["status"]
    # Burrow sends this one with errors in plain text alone, we with every answer
    expected = _stable_headers(recorded["headers"]) | {"x-content-type-options": "nosniff"}
    assert _stable_headers(answered.headers) == expected
    if recorded["body_kind"] == "text":
        assert answered.text == recorded["body"]
    else:
        assert _without_additions(answered.json) == _in_our_order(recorded["body"])
        assert _keys(_without_additions(answered.json)) == _keys(recorded["body"])
    if "Content-Length" in recorded["headers"] and not _has_additions(answered):
        assert answered.headers["content-length"] == recorded["headers"]["Content-Length"]


def test_a_notifiers_configuration_is_burrows() -> None:
    recorded = (_FOLDER / "GET_v3_config_notifier_http.json").read_bytes()
    module = json.loads(recorded)["module"]
    settings = GivenSettings({"notifier": {"close": module}})

    with served(_app(settings)) as server:
        answered = server.ask("/v3/config/notifier/close")

    assert answered.body == recorded.strip()


def _stable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers a client can depend on."""
    wanted = ("allow", "content-type", "location", "x-content-type-options")
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: lower[name] for name in wanted if name in lower}


def _in_our_order(body: dict[str, Any]) -> dict[str, Any]:
    """Burrow's lists come in random order; ours are sorted."""
    return {
        key: sorted(value) if key in _SORTED and isinstance(value, list) else value
        for key, value in body.items()
    }


def _has_additions(answered: Answered) -> bool:
    return "status" in answered.json if answered.headers["content-type"].endswith("json") else False


def _without_additions(body: dict[str, Any]) -> dict[str, Any]:
    if "status" not in body:
        return body
    status = _less(body["status"], _ADDED_PER_GROUP)
    status["partitions"] = [
        _less(partition, _ADDED_PER_PARTITION) for partition in status["partitions"]
    ]
    if status["maxlag"] is not None:
        status["maxlag"] = _less(status["maxlag"], _ADDED_PER_PARTITION)
    return {**body, "status": status}


def _less(document: dict[str, Any], added: set[str]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in added}


def _keys(value: object) -> object:
    """The keys of a document in their order, all the way down."""
    if isinstance(value, dict):
        return [(key, _keys(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [_keys(item) for item in value]
    return None
