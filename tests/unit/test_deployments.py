"""Deployments: from the command over the API into the history."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from lagwatch.cli import app as command
from lagwatch.clock import Clock, SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError
from lagwatch.history.build import History
from lagwatch.history.deployments import RecordedDeployments
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.history import Live, SetClock, events, happening, held
from tests.support.serving import Served, served
from tests.support.waiting import eventually

_ORDER = {"version": "4.2", "note": "new parser"}
_NOON = SetClock()
_PATH = "/api/v1/clusters/here/groups/a%2Fb/deployments"


@pytest.fixture
def live() -> Live:
    """A group that committed to one partition of a topic and both of another."""
    live = Live()
    live.topics(orders=3, refunds=2)
    live.wait(1)
    live.commit(("a/b", "orders", 2, 70), ("a/b", "refunds", 0, 5), ("a/b", "refunds", 1, 6))
    live.wait(1)
    live.judge()
    return live


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    settings = HistorySettings(
        url=str(tmp_path / "store"), spool=tmp_path / "spool", flush_s=0.1, interval_s=1
    )
    one = History(settings, SystemClock())
    yield one
    one.stop(5)


def _app(live: Live, history: History, clock: Clock = _NOON) -> FastAPI:
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    return create_app(
        queries,
        RecordingCommands(),
        GivenSettings(),
        deployments=RecordedDeployments(queries, history, clock),
        hostname="h",
        version="1",
    )


@pytest.fixture
def server(live: Live, history: History) -> Iterator[Served]:
    with served(_app(live, history)) as running:
        yield running


def _post(app: FastAPI, path: str, order: Mapping[str, str]) -> httpx.Response:
    async def posted() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(path, json=order)

    return asyncio.run(posted())


def _run(server: Served, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, ["deployment", *arguments, "--url", f"http://127.0.0.1:{server.port}"]
    )


def test_a_deployment_is_kept_with_the_offsets_of_that_moment(live, history) -> None:
    answered = _post(_app(live, history, SystemClock()), _PATH, _ORDER)

    offsets = {"orders": [None, None, 70], "refunds": [5, 6]}
    made = answered.json()
    assert answered.status_code == 201
    assert made == {
        "cluster": "here",
        "group": "a/b",
        "at_ms": made["at_ms"],
        **_ORDER,
        "offsets": offsets,
    }
    eventually(lambda: len(held(history.store, Kind.EVENTS)) > 0, "the event in the store")
    [row] = held(history.store, Kind.EVENTS)
    assert (row["event"], row["group"], row["at_ms"]) == ("deployment", "a/b", made["at_ms"])
    assert (row["after"], row["count"]) == ("4.2", 3)
    assert json.loads(row["detail"]) == {**_ORDER, "offsets": offsets}


@pytest.mark.parametrize(
    ("path", "order", "status"),
    [
        (_PATH.replace("a%2Fb", "nobody"), _ORDER, 404),
        (_PATH.replace("here", "nowhere"), _ORDER, 404),
        (_PATH, {"version": ""}, 400),
        (_PATH, {"version": "1", "color": "red"}, 400),
    ],
)
def test_what_is_no_deployment_is_refused(live, history, path, order, status) -> None:
    answered = _post(_app(live, history), path, order)

    assert answered.status_code == status
    assert held(history.store, Kind.EVENTS) == []


def test_a_spool_that_cannot_be_opened_is_told_to_the_caller(live, tmp_path) -> None:
    (tmp_path / "file").touch()
    settings = HistorySettings(url=str(tmp_path / "store"), spool=tmp_path / "file")

    answered = _post(_app(live, History(settings, SetClock())), _PATH, _ORDER)

    assert answered.status_code == 503
    assert "nothing can be recorded now" in answered.json()["message"]


def test_the_command_says_what_was_remembered(server: Served) -> None:
    told = _run(server, "a/b", "--version", "4.2")

    assert told.exit_code == 0, told.output
    assert told.stdout == (
        "a/b on here: 4.2 at 2026-11-21 12:00:00+00:00, with the offsets of 3 partitions\n"
    )


def test_the_command_names_a_group_that_nobody_knows(server: Served) -> None:
    told = _run(server, "nobody", "--version", "4.2", "--cluster", "here")

    assert told.exit_code == 2
    assert "group 'nobody on here' is not known" in told.stderr


def test_without_a_history_the_command_says_that_the_part_is_off(live) -> None:
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    app = create_app(queries, RecordingCommands(), GivenSettings(), hostname="h", version="1")
    with served(app) as server:
        told = _run(server, "a/b", "--version", "4.2")

    assert told.exit_code == 2
    assert "switched off" in told.stderr


def test_rows_that_the_spool_refuses_are_not_taken_for_kept(tmp_path) -> None:
    recorder = Recorder(
        Spool(tmp_path, max_bytes=100, spool_id="x"),
        RecorderSettings(interval_ms=30_000, full_every=1),
        SetClock(),
        appended=lambda: None,
    )

    kept = recorder.tell(events([happening(event="deployment")]))
    recorder.work()

    with pytest.raises(HistoryError, match="spool holds 100"):
        kept.result(timeout=1)


def test_who_does_not_wait_any_more_stops_nobody(tmp_path) -> None:
    recorder = Recorder(
        Spool(tmp_path, max_bytes=10**6, spool_id="x"),
        RecorderSettings(interval_ms=30_000, full_every=1),
        SetClock(),
        appended=lambda: None,
    )

    left = recorder.tell(events([happening(event="deployment")]))
    left.cancel()
    stayed = recorder.tell(events([happening(event="deployment")]))
    recorder.work()

    assert stayed.result(timeout=1) is None
    assert recorder.counts.rows == 1
