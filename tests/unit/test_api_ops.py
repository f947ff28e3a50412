"""Health and the log level."""

import pytest
from fastapi import FastAPI

from lagwatch.ports.queries import ClusterHealth
from lagwatch_api import create_app
from tests.support.api_doubles import (
    GivenQueries,
    GivenSettings,
    RecordingCommands,
    cluster_health,
)
from tests.support.serving import ask, served

_LEVEL = "/v3/admin/loglevel"


def _app(*health: ClusterHealth, commands: RecordingCommands | None = None) -> FastAPI:
    return create_app(
        GivenQueries({}, health),
        commands or RecordingCommands(),
        GivenSettings(),
        hostname="vm",
        version="1.2.3",
    )


def test_the_process_is_alive_though_no_cluster_is_ready() -> None:
    answered = ask(_app(cluster_health("c1", ready=False)), "/healthz")

    assert answered.status == 200
    assert answered.json == {"status": "ok", "version": "1.2.3"}


def test_every_cluster_says_how_it_fares() -> None:
    fresh = cluster_health("c1", ready=True, data_age_s=0.7, clock_skew_s=-0.2)
    late = cluster_health(
        "c2",
        ready=False,
        stale=True,
        data_age_s=171.0,
        reason="log ends: no broker answers",
        commits_mode="admin",
        problems=("the broker refused the connection",),
        unseen=("topic orders: needs DESCRIBE",),
        collector_restarts=2,
    )

    answered = ask(_app(fresh, late), "/readyz")

    assert answered.status == 200
    assert answered.json == {
        "ready": True,
        "clusters": {
            "c1": {
                "ready": True,
                "stale": False,
                "data_age_s": 0.7,
                "reason": "",
                "age_s": 0.5,
                "backlog": {"read": 10, "total": 10},
                "mode": "offsets-topic",
                "problems": [],
                "unseen": [],
                "restarts": 0,
                "clock_skew_s": -0.2,
            },
            "c2": {
                "ready": False,
                "stale": True,
                "data_age_s": 171.0,
                "reason": "log ends: no broker answers",
                "age_s": None,
                "backlog": {"read": 10, "total": 100},
                "mode": "admin",
                "problems": ["the broker refused the connection"],
                "unseen": ["topic orders: needs DESCRIBE"],
                "restarts": 2,
                "clock_skew_s": None,
            },
        },
    }


def test_one_ready_cluster_keeps_the_instance_in_service() -> None:
    ready = cluster_health("c1", ready=True)
    starting = cluster_health("c2", ready=False)

    assert ask(_app(ready, starting), "/readyz").status == 200
    assert ask(_app(starting), "/readyz").status == 503
    assert ask(_app(ready, starting), "/burrow/admin/ready").text == "READY"
    assert ask(_app(starting), "/burrow/admin/ready").text == "STARTING"
    assert ask(_app(starting), "/burrow/admin/ready").status == 503


def test_one_cluster_can_be_asked_for() -> None:
    app = _app(cluster_health("c1", ready=True), cluster_health("c2", ready=False))

    ready, starting = ask(app, "/readyz?cluster=c1"), ask(app, "/readyz?cluster=c2")
    unknown = ask(app, "/readyz?cluster=c3")

    assert (ready.status, list(ready.json["clusters"])) == (200, ["c1"])
    assert (starting.status, starting.json["ready"]) == (503, False)
    assert unknown.status == 404


def test_probes_answer_to_head_with_the_same_code_and_no_body() -> None:
    with served(_app(cluster_health("c1", ready=False))) as server:
        alive, ready = server.ask("/healthz", "HEAD"), server.ask("/readyz", "HEAD")

    assert (alive.status, alive.body) == (200, b"")
    assert (ready.status, ready.body) == (503, b"")


@pytest.mark.parametrize(
    ("body", "level"),
    [
        (b'{"level":"DEBUG"}', "debug"),
        (b'{"Level": "warn"}\n', "warning"),
        (b'{"level":"Warning"}', "warning"),
        (b'{"level":"trace"}', "trace"),
        (b'{"level":"error","more":1}', "error"),
        (b'{"level":"fatal"}', "fatal"),
    ],
)
def test_the_log_level_is_set(body: bytes, level: str) -> None:
    commands = RecordingCommands()

    answered = ask(_app(commands=commands), _LEVEL, "POST", body)

    assert (answered.status, answered.json["message"]) == (200, "set log level")
    assert commands.level == level


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "could not decode message body"),
        (b"{", 400, "could not decode message body"),
        (b'"debug"', 400, "could not decode message body"),
        (b'{"level":5}', 400, "could not decode message body"),
        (b'{"level":"debug","x":"' + b"x" * 100_000 + b'"}', 400, "could not decode message body"),
        (b'{"level":"\xff"}', 400, "could not decode message body"),
        (b"{}", 404, "unknown log level"),
        (b'{"level":"loud"}', 404, "unknown log level"),
    ],
)
def test_what_is_no_level_changes_nothing(body: bytes, status: int, message: str) -> None:
    commands = RecordingCommands(level="info")

    answered = ask(_app(commands=commands), _LEVEL, "POST", body)

    assert (answered.status, answered.json["error"]) == (status, True)
    assert answered.json["message"] == message
    assert commands.level == "info"


@pytest.mark.parametrize(
    ("ours", "shown"),
    [("trace", "debug"), ("debug", "debug"), ("warning", "warn"), ("fatal", "fatal")],
)
def test_the_log_level_is_shown_in_burrows_words(ours: str, shown: str) -> None:
    answered = ask(_app(commands=RecordingCommands(level=ours)), _LEVEL)

    assert answered.json["level"] == shown
