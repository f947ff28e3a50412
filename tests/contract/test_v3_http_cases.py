"""What Burrow's own unit tests expect of its API, and the shapes of all its documents."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from lagwatch.core.model import EpochMs, GroupStatus, PartitionStatus, Rule, WindowEntry
from lagwatch.ports.queries import GroupDetail, PartitionDetail
from lagwatch_api import create_app
from tests.support.api_doubles import (
    MAIN,
    GivenCluster,
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
    group_verdict,
    partition_verdict,
)
from tests.support.serving import ask

pytestmark = pytest.mark.slow  # asks real HTTP applications

_VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "http_cases.json").read_text())
_CASES = _VECTORS["unit_tests"]
_SHAPES = _VECTORS["shapes"]
_MODULES = {
    "cluster": {"testcluster": {"class-name": "kafka"}},
    "consumer": {"testconsumer": {"class-name": "kafka_zk"}},
    "evaluator": {"testevaluator": {"class-name": "caching"}},
    "notifier": {"testnotifier": {"class-name": "null"}},
    "storage": {"teststorage": {"class-name": "inmemory"}},
}
_WHERE = {
    "error": "/v3/kafka/nope/topic",
    "cluster_list": "/v3/kafka",
    "topic_list": "/v3/kafka/testcluster/topic",
    "topic_detail": "/v3/kafka/testcluster/topic/testtopic",
    "consumer_list": "/v3/kafka/testcluster/consumer",
    "consumer_detail": "/v3/kafka/testcluster/consumer/testgroup",
    "consumer_status": "/v3/kafka/testcluster/consumer/testgroup/lag",
    "loglevel": "/v3/admin/loglevel",
    "config_main": "/v3/config",
    "module_list": "/v3/config/storage",
    "module_detail": "/v3/config/storage/teststorage",
}


def _app(*, ready: bool = True, settings: GivenSettings | None = None) -> FastAPI:
    partition = partition_verdict(
        topic="testtopic",
        status=PartitionStatus.OK,
        rule=Rule.PROGRESSING,
        current_lag=2345,
    )
    commit = WindowEntry(
        offset=9837458, commit_ms=EpochMs(12837487), observed_ms=EpochMs(0), lag=2355
    )
    window = PartitionDetail(window=(commit,), owner="somehost", client_id="", current_lag=2345)
    cluster = GivenCluster(
        topics={"testtopic": (345, 921)},
        verdicts={
            "testgroup": group_verdict(
                partition,
                cluster="testcluster",
                group="testgroup",
                status=GroupStatus.OK,
                partition_count=2134,
            )
        },
        details={"testgroup": GroupDetail(topics={"testtopic": [window]})},
    )
    health = [cluster_health("testcluster", ready=ready)]
    return create_app(
        GivenQueries({"testcluster": cluster}, health),
        RecordingCommands(),
        settings or GivenSettings(_MODULES),
        hostname="vm",
        version="0",
    )


@pytest.mark.parametrize("case", _CASES, ids=[f"{case['name']} {case['path']}" for case in _CASES])
def test_burrows_own_expectation_holds(case: dict[str, Any]) -> None:
    app = _app(ready=case["name"] != "not ready")

    answered = ask(app, case["path"], case["method"], (case["send"] or "").encode())

    assert answered.status == case["status"]
    if case["shape"] == "text":
        assert answered.text == case["body"]
    else:
        assert _failures(answered.json, case["body"]) == []
    if case["shape"] in _SHAPES and not case["shape"].startswith("module."):
        assert _misfits(answered.json, _SHAPES[case["shape"]]) == []


@pytest.mark.parametrize("shape", _WHERE)
def test_the_document_has_burrows_shape(shape: str) -> None:
    answered = ask(_app(settings=GivenSettings(_MODULES, MAIN)), _WHERE[shape])

    assert _misfits(answered.json, _SHAPES[shape]) == []


def test_a_commit_has_burrows_shape() -> None:
    answered = ask(_app(), _WHERE["consumer_detail"])

    (commit,) = answered.json["topics"]["testtopic"][0]["offsets"]
    assert _misfits(commit, _SHAPES["offset"]) == []
    assert list(commit) == list(_SHAPES["offset"])


@pytest.mark.parametrize("shape", [name for name in _SHAPES if name.startswith("module.")])
def test_the_configuration_of_a_module_passes_unchanged(shape: str) -> None:
    coordinator = shape.split(".")[1]
    module = _example(_SHAPES[shape])
    app = _app(settings=GivenSettings({coordinator: {"m": module}}))

    answered = ask(app, f"/v3/config/{coordinator}/m")

    assert answered.json["module"] == module
    assert list(answered.json["module"]) == list(module)


def test_every_shape_is_looked_at() -> None:
    modules = {name for name in _SHAPES if name.startswith("module.")}

    assert {*_WHERE, *modules, "offset"} == set(_SHAPES)


def test_a_document_of_another_shape_would_be_noticed() -> None:
    shape = {"error": "bool", "topics": ["string"], "maxlag": [{"a": "int"}, "null"]}

    assert _misfits({"error": False, "topics": ["t"], "maxlag": None}, shape) == []
    assert _misfits({"error": 1, "topics": [2], "maxlag": {}}, shape) == [
        "error",
        "topics",
        "maxlag.a",
    ]


def _failures(body: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """The expectations that do not hold."""
    failures = []
    for key, value in expected.items():
        if key == "partitions_len":
            holds = len(body["partitions"]) == value
        elif value == "not null":
            holds = body[key] is not None
        elif isinstance(value, dict):
            failures += _failures(body[key], value)
            continue
        else:
            holds = body[key] == value
        if not holds:
            failures.append(f"{key}: {body.get(key)} instead of {value}")
    return failures


def _misfits(value: object, shape: Any, place: str = "") -> list[str]:  # noqa: ANN401
    """The places at which a document is not of the shape; more keys than in the shape are fine."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [place]
        (wild,) = [key for key in shape if key.startswith("<")] or [None]
        keys = value if wild else shape
        return [
            misfit
            for key in keys
            for misfit in _misfits(
                value.get(key, ...), shape[wild or key], f"{place}.{key}".strip(".")
            )
        ]
    if isinstance(shape, list):
        if shape[1:] == ["null"]:
            return [] if value is None else _misfits(value, shape[0], place)
        if not isinstance(value, list):
            return [place]
        return [misfit for item in value for misfit in _misfits(item, shape[0], place)]
    return [] if _fits(value, shape) else [place]


def _fits(value: object, words: str) -> bool:
    """Is the value of the type that the words begin with?"""
    if value is None:
        return "null" in words
    if words.startswith(("offset object", "one of", "object", "list of")):
        return isinstance(value, dict | list)
    if words.startswith("bool"):
        return isinstance(value, bool)
    if words.startswith(("int", "uint")):
        return isinstance(value, int) and not isinstance(value, bool)
    if words.startswith("float"):
        return isinstance(value, int | float)
    return isinstance(value, str)


def _example(shape: Any) -> Any:  # noqa: ANN401
    if isinstance(shape, dict):
        return {key: _example(item) for key, item in shape.items() if not key.startswith("_")}
    if isinstance(shape, list):
        return None if shape[1:] == ["null"] else [_example(shape[0])]
    examples: tuple[object, ...] = (7, True, {}, "text")
    return next(example for example in examples if _fits(example, shape))
