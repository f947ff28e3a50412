"""Deployments: from the command over the API into the history."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from typer.testing import CliRunner, Result

from lagwatch.cli import app as command
from lagwatch.clock import Clock, SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, from_rows
from lagwatch.errors import HistoryError
from lagwatch.history.build import History
from lagwatch.history.deployments import RecordedDeployments
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.history import (
    FOREVER,
    NOON_MS,
    Live,
    SetClock,
    events,
    group_sample,
    group_samples,
    happening,
    held,
    rollup,
    sample,
    samples,
)
from tests.support.serving import Served, served
from tests.support.waiting import eventually

_ORDER = {"version": "4.2", "note": "new parser"}
_NOON = SetClock()
_START_MS = NOON_MS
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
        url=str(tmp_path / "store"),
        spool=tmp_path / "spool",
        flush_s=0.1,
        interval_s=1,
        retention=FOREVER,
    )
    opened = History(settings, SystemClock())
    yield opened
    opened.stop(5)


def _app(live: Live, history: History, clock: Clock = _NOON) -> FastAPI:
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    return create_app(
        queries,
        RecordingCommands(),
        GivenSettings(),
        deployments=RecordedDeployments(queries, history, clock),
        history=history.queries,
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


def _get(app: FastAPI, path: str) -> httpx.Response:
    async def got() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(path)

    return asyncio.run(got())


def _asked(server: Served, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, ["deployments", *arguments, "--url", f"http://127.0.0.1:{server.port}"]
    )


def _run(server: Served, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, ["deployment", *arguments, "--url", f"http://127.0.0.1:{server.port}"]
    )


def test_a_deployment_is_kept_with_the_offsets_of_that_moment(live, history) -> None:
    answered = _post(_app(live, history, SystemClock()), _PATH, _ORDER)

    places = {
        "offsets": {"orders": [None, None, 70], "refunds": [5, 6]},
        "log_start": {"orders": [0, 0, 0], "refunds": [0, 0]},
        "log_end": {"orders": [100, 100, 100], "refunds": [100, 100]},
    }
    made = answered.json()
    assert answered.status_code == 201
    assert made == {
        "cluster": "here",
        "group": "a/b",
        "at_ms": made["at_ms"],
        **_ORDER,
        **places,
    }
    eventually(lambda: len(held(history.store, Kind.EVENTS)) > 0, "the event in the store")
    [row] = held(history.store, Kind.EVENTS)
    assert (row["event"], row["group"], row["at_ms"]) == ("deployment", "a/b", made["at_ms"])
    assert (row["after"], row["count"]) == ("4.2", 3)
    assert json.loads(row["detail"]) == {**_ORDER, **places}


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


def test_a_spool_that_cannot_be_opened_is_reported_to_the_caller(live, tmp_path) -> None:
    (tmp_path / "file").touch()
    settings = HistorySettings(url=str(tmp_path / "store"), spool=tmp_path / "file")

    answered = _post(_app(live, History(settings, SetClock())), _PATH, _ORDER)

    assert answered.status_code == 503
    assert "nothing can be recorded now" in answered.json()["message"]


def test_the_command_says_what_was_remembered(server: Served) -> None:
    result = _run(server, "a/b", "--version", "4.2")

    assert result.exit_code == 0, result.output
    # the server in this process may log beside it
    assert (
        "a/b on here: 4.2 at 2026-11-21 12:00:00Z, with the offsets of 3 partitions\n"
        in result.stdout
    )


def test_the_command_names_a_group_that_nobody_knows(server: Served) -> None:
    result = _run(server, "nobody", "--version", "4.2", "--cluster", "here")

    assert result.exit_code == 2
    assert "group 'nobody on here' is not known" in result.stderr


def test_the_deployments_of_a_group_that_nobody_knows_are_not_listed(server: Served) -> None:
    unknown = _asked(server, "list", "nobody", "--cluster", "here")
    without_any = _asked(server, "list", "a/b", "--cluster", "here", "--json")

    assert unknown.exit_code == 2
    assert "group 'nobody on here' is not known" in unknown.stderr
    assert (without_any.exit_code, without_any.stdout) == (0, "[]\n")


def test_without_a_history_the_command_says_that_the_part_is_off(live) -> None:
    queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
    app = create_app(queries, RecordingCommands(), GivenSettings(), hostname="h", version="1")
    with served(app) as server:
        result = _run(server, "a/b", "--version", "4.2")

    assert result.exit_code == 2
    assert "switched off" in result.stderr


def test_deployments_are_listed_at_once_and_after_a_restart(live, history) -> None:
    clock = SetClock()
    app = _app(live, history, clock)
    for version in ("4.1", "4.2"):
        _post(app, _PATH, {"version": version})
        clock.ms += 1000

    at_once = _get(app, _PATH).json()
    eventually(lambda: len(held(history.store, Kind.EVENTS)) == 2, "the events in the store")
    after_a_restart = _get(_app(live, history, clock), _PATH).json()

    assert [entry["version"] for entry in at_once] == ["4.1", "4.2"]
    assert after_a_restart == at_once


def test_a_deployment_of_an_older_lagwatch_is_read_without_log_bounds(live, history) -> None:
    detail = json.dumps({"version": "4.0", "note": "", "offsets": {"orders": [7]}})
    row = happening(event="deployment", group="a/b", after="4.0", detail=detail)
    history.store.write([events([row])], batch="old")

    [found] = _get(_app(live, history), _PATH).json()

    assert (found["offsets"], found["log_start"]) == ({"orders": [7]}, {})


def test_the_plan_names_a_deployment_by_id_or_version(live, history) -> None:
    app = _app(live, history)
    made = _post(app, _PATH, _ORDER).json()
    live.commit(("a/b", "orders", 2, 90), ("a/b", "refunds", 0, 5), ("a/b", "refunds", 1, 4))
    live.wait(1)
    live.judge()

    plans = [_get(app, f"{_PATH}/{name}/rollback-plan") for name in (made["at_ms"], "4.2")]
    as_csv = _get(app, f"{_PATH}/4.2/rollback-plan?format=csv")

    assert plans[0].json() == plans[1].json()
    plan = plans[0].json()
    assert (plan["read_again"], plan["skipped"], plan["deleted"]) == (20, 2, 0)
    states = [each["state"] for each in plan["partitions"]]
    assert states == ["not_committed_then", "not_committed_then", "exact", "exact", "exact"]
    assert as_csv.text == "orders,2,70\nrefunds,0,5\nrefunds,1,6\n"
    assert as_csv.headers["content-type"].startswith("text/csv")


def test_the_plan_knows_that_a_topic_was_created_anew_since(live, history) -> None:
    app = _app(live, history)
    made = _post(app, _PATH, _ORDER).json()
    row = happening(at_ms=made["at_ms"] + 1, event="topic_recreated", group="a/b", topic="refunds")
    history.store.write([events([row])], batch="later")

    plan = _get(app, f"{_PATH}/4.2/rollback-plan").json()

    states = {(each["topic"], each["state"]) for each in plan["partitions"]}
    assert ("refunds", "recreated") in states
    assert ("orders", "recreated") not in states


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/9.9/rollback-plan", 404),
        ("/4.2/diff/9.9", 404),
        ("/4.2/diff/4.2?last=long", 400),
        ("/4.2/diff/4.2?last=1w", 400),
        ("/4.2/rollback-plan?format=arrow", 400),
    ],
)
def test_questions_about_what_is_not_known_are_refused(live, history, path, status) -> None:
    app = _app(live, history)
    _post(app, _PATH, _ORDER)

    assert _get(app, _PATH + path).status_code == status


@pytest.mark.slow
def test_two_versions_are_compared_by_what_was_recorded_while_each_was_live(live, history) -> None:
    clock = SetClock(_START_MS)
    app = _app(live, history, clock)
    _post(app, _PATH, {"version": "4.1"})
    clock.ms = _START_MS + 600_000
    _post(app, _PATH, {"version": "4.2"})
    clock.ms = _START_MS + 900_000
    # 4.1 reads all of the 10 messages a second; 4.2 reads 4 of them
    committed = 0
    for second in range(0, 900, 30):
        produced = 10 * second
        rows = {"group": "a/b", "at_ms": _START_MS + 1000 * second, "observed_ms": _START_MS}
        lag = produced - committed
        status = "OK" if second < 600 else "WARN"
        partition = sample(
            **rows, committed_offset=committed, log_end_offset=produced, lag=lag, status=status
        )
        whole = group_sample(
            **rows, total_lag=lag, status=status, unchanged=0, interval_ms=30_000, previous_ms=None
        )
        history.store.write([samples([partition]), group_samples([whole])], batch=f"at-{second}")
        committed += 300 if second < 570 else 120

    answered = _get(app, f"{_PATH}/4.1/diff/4.2?last=5m").json()

    before, after = answered["before"], answered["after"]
    assert before["from_ms"] == _START_MS + 300_000
    assert (before["to_ms"], after["to_ms"]) == (_START_MS + 600_000, _START_MS + 900_000)
    assert (before["measured_from"], after["measured_from"]) == ("samples", "samples")
    assert before["consumed_per_s"] == pytest.approx(10)
    assert after["consumed_per_s"] == pytest.approx(4)
    assert after["produced_per_s"] == pytest.approx(10)
    assert (before["lag_max"], before["ok_s"], before["warn_s"]) == (0, 300, 0)
    assert (after["ok_s"], after["warn_s"], after["recorded_s"]) == (0, 300, 300)
    assert after["lag_max"] == 180 * 10
    assert answered["committed"] == 0


def test_what_was_not_recorded_is_unknown_in_a_comparison(live, history) -> None:
    app = _app(live, history)
    _post(app, _PATH, _ORDER)

    run = _get(app, f"{_PATH}/4.2/diff/4.2").json()["after"]

    assert run["measured_from"] == ""
    unknown = ("lag_avg", "lag_max", "consumed_per_s", "ok_s", "rebalances", "time_lag_max_s")
    assert [run[name] for name in unknown] == [None] * len(unknown)


def test_where_samples_are_gone_roll_ups_are_compared(live, history) -> None:
    clock = SetClock(_START_MS + 60_000)
    app = _app(live, history, clock)
    _post(app, _PATH, _ORDER)
    clock.ms = _START_MS + 660_000
    buckets = [
        rollup(
            Kind.ROLLUP_5M,
            level="group",
            group="a/b",
            topic=None,
            partition=None,
            bucket_ms=_START_MS + 300_000 * number,
            consumed=100 * (number + 1),
            consumed_s=50.0,
        )
        for number in range(3)
    ]
    history.store.write([from_rows(Kind.ROLLUP_5M, buckets)], batch="rolled")

    run = _get(app, f"{_PATH}/4.2/diff/4.2").json()["after"]

    assert run["measured_from"] == "rollup_5m"
    assert run["consumed_per_s"] == pytest.approx(4)  # only the whole bucket: 200 in 50 s


def test_the_commands_list_compare_and_plan(server: Served) -> None:
    assert _run(server, "a/b", "--version", "4.2").exit_code == 0

    found = {
        words[0]: _asked(server, *words)
        for words in (
            ("list", "a/b"),
            ("diff", "a/b", "4.2", "4.2"),
            ("rollback-plan", "a/b", "4.2"),
        )
    }

    assert "4.2  3 partitions" in found["list"].stdout
    assert "committed between" in found["diff"].stdout
    assert "unknown" in found["diff"].stdout
    # the server of this process may log between the lines
    rows = re.findall(r"^\w+,\d+,\d+$", found["rollback-plan"].stdout, re.MULTILINE)
    assert rows == ["orders,2,70", "refunds,0,5", "refunds,1,6"]
    assert "read again: 0 messages" in found["rollback-plan"].stderr
    assert "orders 0: no offset was committed then" in found["rollback-plan"].stderr


@pytest.mark.parametrize(("members", "said"), [(1, "1 member;"), (2, "2 members;")])
def test_a_plan_says_how_many_members_must_stop(live, server, members, said) -> None:
    _run(server, "a/b", "--version", "4.2")
    live.describe("a/b", kind="classic", members=members)
    live.wait(1)
    live.judge()

    planned = _asked(server, "rollback-plan", "a/b", "4.2")

    assert f"the group has {said} Kafka resets offsets only when all" in planned.stderr


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("share", "kafka-share-groups.sh --reset-offsets --topic TOPIC --to-datetime TIME"),
        ("spark-checkpoint", "start the query with a copy of the checkpoint's folder"),
        ("flink", "keeps its progress in flink, not in Kafka: set it back there"),
    ],
)
def test_groups_that_offsets_cannot_set_back_get_no_plan(
    live: Live, server: Served, kind: str, remedy: str
) -> None:
    _run(server, "a/b", "--version", "4.2")
    live.describe("a/b", kind=kind, members=0)
    live.wait(1)
    live.judge()

    refused = _asked(server, "rollback-plan", "a/b", "4.2")

    assert refused.exit_code != 0
    lines = re.findall(r"^\w+,\d+,\d+$", refused.stdout, re.MULTILINE)
    assert lines == [], "no file for Kafka's tool"
    assert "409" in refused.stderr
    assert remedy in refused.stderr
    listed = _asked(server, "list", "a/b")
    compared = _asked(server, "diff", "a/b", "4.2", "4.2")
    assert (listed.exit_code, compared.exit_code) == (0, 0)
    assert "4.2" in listed.stdout


def test_a_command_names_the_deployment_that_is_not_known(server: Served) -> None:
    result = _asked(server, "rollback-plan", "a/b", "9.9")

    assert result.exit_code == 2
    assert "'9.9 of a/b on here' is not known" in result.stderr


def test_rows_that_the_spool_refuses_are_not_taken_for_kept(tmp_path) -> None:
    recorder = Recorder(
        Spool(tmp_path, max_bytes=100, spool_id="x"),
        RecorderSettings(interval_ms=30_000, full_every=1),
        SetClock(),
        appended=lambda: None,
    )

    kept = recorder.record_rows(events([happening(event="deployment")]))
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

    left = recorder.record_rows(events([happening(event="deployment")]))
    left.cancel()
    stayed = recorder.record_rows(events([happening(event="deployment")]))
    recorder.work()

    assert stayed.result(timeout=1) is None
    assert recorder.counts.rows == 1
