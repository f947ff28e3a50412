"""The fleet as JSON and as events, from real snapshots."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from lagwatch.core.model import PartitionStatus, Rule, RuleSet, UnknownReason
from lagwatch.ports.queries import Partitions
from lagwatch_api import create_app
from lagwatch_api.ui.routes import STATIC
from lagwatch_api.v1.fleet import COLUMNS
from lagwatch_api.v1.stream import events
from lagwatch_api.v1.wording import sentence
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
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.serving import ask


def app_of(queries):
    return create_app(queries, RecordingCommands(), GivenSettings(), hostname="h", version="0")


def rows_by_group(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in answer["rows"]]
    return {row["group"]: row for row in rows}


class TestFleet:
    def test_it_says_of_every_group_what_its_verdict_says(self) -> None:
        fleet = Fleet(["good", "bad", "slow"], ShiftedClock())
        fleet.slow.add("slow")
        fleet.fail("bad")

        (answer,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]

        rows = rows_by_group(answer)
        verdicts = {
            group: fleet.queries.verdict(CLUSTER, group, Partitions.BAD) for group in fleet.groups
        }
        assert {group: row["status"] for group, row in rows.items()} == {
            group: verdict.status.name for group, verdict in verdicts.items()
        }
        assert rows["bad"]["worst"] == "STOP"
        assert rows["slow"]["worst"] == "WARN"
        assert rows["bad"]["lag"] == verdicts["bad"].total_lag > 0
        assert rows["bad"]["readable_lag"] == verdicts["bad"].readable_lag > 0
        assert rows["bad"]["time_lag_s"] == verdicts["bad"].time_lag_s
        assert rows["good"]["partitions"] == verdicts["good"].partition_count

    def test_members_that_nobody_counted_are_unknown_not_zero(self) -> None:
        fleet = Fleet(["one"], ShiftedClock())

        (answer,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]

        row = rows_by_group(answer)["one"]
        assert row["members"] is None
        assert row["state"] == "Unknown"

    def test_a_fault_of_the_connection_that_several_parts_meet_is_one_problem(self) -> None:
        refused = "nothing listens at 127.0.0.1:9092"
        parts = (f"connection: {refused}", f"topics: listing topics: {refused}")
        states = [
            cluster_health("fresh", ready=True, problems=parts, unseen=("groups: not authorized",)),
            cluster_health("old", ready=False, stale=True, problems=parts, reason=parts[0]),
        ]
        queries = GivenQueries({each.cluster: GivenCluster() for each in states}, states)

        fresh, old = ask(app_of(queries), "/api/v1/fleet").json["clusters"]

        assert fresh["problems"] == [parts[0], "groups: not authorized"]
        assert old["problems"] == []
        assert old["reason"] == parts[0]

    def test_a_cluster_without_groups_is_there(self) -> None:
        queries = GivenQueries({"c1": GivenCluster()})

        (answer,) = ask(app_of(queries), "/api/v1/fleet").json["clusters"]

        assert answer["cluster"] == "c1"
        assert answer["rows"] == []
        assert answer["age_s"] is None

    def test_rows_of_a_stale_cluster_say_so(self) -> None:
        clock = ShiftedClock()
        fleet = Fleet(["one", "two"], clock)

        (fresh,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]
        clock.ahead_ms += 20_000
        fleet.judge()
        (stale,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]

        assert [row["stale"] for row in rows_by_group(fresh).values()] == [False, False]
        assert [row["stale"] for row in rows_by_group(stale).values()] == [True, True]

    def test_where_one_broker_is_away_only_the_rows_of_its_groups_are_stale(self) -> None:
        fleet = Fleet(["here", "away"], ShiftedClock())
        fleet.leaderless.add("away")
        fleet.pass_time(20)

        (answer,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]

        assert {name: row["stale"] for name, row in rows_by_group(answer).items()} == {
            group: fleet.queries.verdict(CLUSTER, group, Partitions.BAD).stale
            for group in fleet.groups
        }
        assert rows_by_group(answer)["away"]["stale"] is True
        assert rows_by_group(answer)["here"]["stale"] is False

    def test_a_group_that_commits_while_its_log_end_cannot_be_read_has_no_lag_of_0(self) -> None:
        fleet = Fleet(["here", "away"], ShiftedClock(), rules=RuleSet.LAGWATCH)
        fleet.pass_time(20)
        fleet.leaderless.add("away")
        fleet.pass_time(20)

        app = app_of(fleet.queries)
        (answer,) = ask(app, "/api/v1/fleet").json["clusters"]
        group = ask(app, f"/api/v1/clusters/{CLUSTER}/groups/away").json
        v3 = ask(app, f"/v3/kafka/{CLUSTER}/consumer/away/lag").json["status"]

        rows = rows_by_group(answer)
        numbers = ("lag", "readable_lag", "time_lag_s", "unknown")
        assert [rows["away"][name] for name in numbers] == [None, None, None, 1]
        assert [rows["here"][name] for name in numbers] == [0, 0, 0.0, 0]
        assert (group["lag"], group["worst"]["lag"]) == (None, None)
        assert "ahead of the newest log end that could be read" in group["worst"]["text"]
        (partition,) = (each for each in v3["partitions"] if each["rule"] != "never_committed")
        assert (v3["totallag"], partition["current_lag"]) == (None, None)
        assert partition["unknown_reason"] == "not_polled_yet"
        fleet.leaderless.clear()
        fleet.pass_time(3)
        (answer,) = ask(app, "/api/v1/fleet").json["clusters"]
        assert rows_by_group(answer)["away"]["lag"] == 0

    @pytest.mark.slow
    def test_by_the_default_rules_failures_are_found_after_minutes(self) -> None:
        fleet = Fleet(["good", "bad", "slow"], ShiftedClock(), rules=RuleSet.LAGWATCH)
        fleet.slow.add("slow")
        fleet.fail("bad")
        fleet.pass_time(120)  # a lag has to rise for longer than a group may be silent

        (answer,) = ask(app_of(fleet.queries), "/api/v1/fleet").json["clusters"]

        worst = {group: row["worst"] for group, row in rows_by_group(answer).items()}
        assert worst == {"good": "OK", "bad": "STOP", "slow": "WARN"}


class TestGroup:
    def test_the_window_of_the_worst_partition_comes_along(self) -> None:
        fleet = Fleet(["good", "bad"], ShiftedClock())
        fleet.fail("bad")

        answer = ask(app_of(fleet.queries), f"/api/v1/clusters/{CLUSTER}/groups/bad").json

        assert answer["worst"]["headline"] == "STOPPED"
        assert answer["worst"]["since_ms"] == answer["worst"]["commit_ms"]
        assert answer["window"]["partition"] == answer["worst"]["partition"] == 1
        assert len(answer["window"]["commits"]) == answer["window"]["slots"] == 5

    def test_another_partition_can_be_asked_for(self) -> None:
        fleet = Fleet(["good", "bad"], ShiftedClock())

        path = f"/api/v1/clusters/{CLUSTER}/groups/bad?topic=orders&partition=0"
        window = ask(app_of(fleet.queries), path).json["window"]

        assert (window["topic"], window["partition"]) == ("orders", 0)
        assert window["commits"] == []

    @pytest.mark.parametrize("partition", ["x", "-1", "99999999999999", "٣", ""])
    def test_a_partition_that_is_none_is_the_worst(self, partition: str) -> None:
        fleet = Fleet(["good"], ShiftedClock())

        path = f"/api/v1/clusters/{CLUSTER}/groups/good?topic=orders&partition="
        encoded = "".join(f"%{byte:02X}" for byte in partition.encode())
        answer = ask(app_of(fleet.queries), path + encoded)

        assert answer.json["window"]["partition"] == 0

    def test_a_name_may_hold_a_slash(self) -> None:
        fleet = Fleet(["a/b"], ShiftedClock())

        answer = ask(app_of(fleet.queries), f"/api/v1/clusters/{CLUSTER}/groups/a%2Fb")

        assert answer.json["group"] == "a/b"

    @pytest.mark.parametrize("path", ["nowhere/groups/g", f"{CLUSTER}/groups/nobody"])
    def test_what_nobody_knows_is_not_found(self, path: str) -> None:
        fleet = Fleet(["g"], ShiftedClock())

        assert ask(app_of(fleet.queries), f"/api/v1/clusters/{path}").status == 404

    def test_a_lag_that_is_not_known_is_null(self) -> None:
        verdict = group_verdict(unknown_partition(), max_lag=None, total_lag=0)
        given = GivenCluster(verdicts={"billing": verdict})
        queries = GivenQueries({"c1": given})
        queries.detail = lambda *_: type("Detail", (), {"topics": {}})()  # type: ignore[method-assign]

        answer = ask(app_of(queries), "/api/v1/clusters/c1/groups/billing").json

        assert answer["lag"] is None
        assert answer["partitions"][0]["lag"] is None
        assert "may not describe it" in answer["worst"]["text"]


class TestSentence:
    def test_a_stall_says_the_offset_the_commits_and_the_growth(self) -> None:
        verdict = partition_verdict(
            status=PartitionStatus.STALL,
            rule=Rule.STALLED,
            start=entry(1204, lag=100, at_ms=1_000_000),
            since_ms=1_000_000,
            evidence={
                "current_lag": 8213,
                "start_offset": 1204,
                "end_offset": 1204,
                "start_lag": 100,
                "end_lag": 8213,
                "window_span_ms": 570_000,
                "commits": 10,
            },
        )

        said = sentence(verdict)

        assert (said.headline, said.since_ms, said.at_least) == ("STALLED", 1_000_000, True)
        assert said.text == (
            "offset 1,204 unchanged over 10 commits in 9 min 30 s while the log grew by 8,113"
        )

    @pytest.mark.parametrize("rule", list(Rule))
    def test_every_rule_has_words_even_when_nothing_is_known(self, rule: Rule) -> None:
        text = sentence(partition_verdict(rule=rule, evidence={}, unknown_reason=None)).text

        assert text
        assert "None" not in text

    @pytest.mark.parametrize("reason", list(UnknownReason))
    def test_every_reason_not_to_know_has_words(self, reason: UnknownReason) -> None:
        unknown = partition_verdict(rule=Rule.LOG_END_UNKNOWN, unknown_reason=reason)

        assert sentence(unknown).text


class TestStream:
    def test_after_the_first_only_what_changed_is_sent(self) -> None:
        fleet = Fleet(["good", "bad", "other"], ShiftedClock())

        async def act() -> tuple[str, str]:
            stream = events(fleet.queries, "1", look_every_s=0.001)
            await anext(stream)
            whole = await anext(stream)
            fleet.failing.add("bad")
            fleet.pass_time(1)
            changes = await anext(stream)
            await stream.aclose()
            return whole.decode(), changes.decode()

        whole, changes = asyncio.run(within(act()))

        name, body = parsed(whole)
        assert name == "fleet"
        assert set(rows_by_group(body)) == {"good", "bad", "other"}
        name, body = parsed(changes)
        assert name == "round"
        assert set(rows_by_group(body)) == {"bad"}
        assert body["gone"] == []

    def test_it_ends_when_the_token_of_its_reader_is_revoked(self) -> None:
        fleet = Fleet(["one"], ShiftedClock())
        valid = [True]

        async def act() -> list[bytes]:
            stream = events(fleet.queries, "1", goes_on=lambda: valid[0], look_every_s=0.001)
            await anext(stream)
            await anext(stream)
            valid[0] = False
            fleet.failing.add("one")
            fleet.pass_time(1)
            return [chunk async for chunk in stream]

        assert asyncio.run(within(act())) == []

    def test_while_nothing_happens_there_is_only_a_beat(self) -> None:
        fleet = Fleet(["one"], ShiftedClock())

        async def act() -> bytes:
            stream = events(fleet.queries, "1", look_every_s=0.001, beat_s=0.002)
            await anext(stream)
            await anext(stream)
            return await closed_after(stream)

        assert asyncio.run(within(act())) == b"event: beat\ndata: {}\n\n"


async def within(awaitable):
    return await asyncio.wait_for(awaitable, 20)


async def closed_after(stream: AsyncGenerator[bytes, None]) -> bytes:
    chunk = await anext(stream)
    await stream.aclose()
    return chunk


@pytest.mark.parametrize(
    ("rule", "headline"),
    [
        (Rule.NEVER_COMMITS, "NEVER COMMITS"),
        (Rule.HELD_BY_TRANSACTION, "HELD BY A TRANSACTION"),
        (Rule.FALLING_BEHIND, "FALLING BEHIND"),
    ],
)
def test_a_warning_has_the_headline_of_its_rule(rule: Rule, headline: str) -> None:
    verdict = partition_verdict(rules=RuleSet.LAGWATCH, rule=rule)

    assert sentence(verdict).headline == headline


def parsed(event: str) -> tuple[str, dict[str, Any]]:
    name, data = event.strip().split("\n")
    return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


class TestPage:
    def test_the_page_is_served_with_a_strict_policy(self) -> None:
        answer = ask(app_of(GivenQueries({})), "/")

        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]

    def test_all_that_the_page_names_is_there_and_local(self) -> None:
        app = app_of(GivenQueries({}))
        page = ask(app, "/").text
        names = {part.split('"')[0] for part in page.split('="') if part.startswith("ui/")}

        assert {ask(app, f"/{name}").status for name in names} == {200}
        assert "http" not in page.replace("http-equiv", "")

    def test_every_module_is_loaded_at_once_and_not_one_after_the_other(self) -> None:
        page = ask(app_of(GivenQueries({})), "/").text

        modules = {path.name for path in STATIC.glob("*.js")}
        assert {name for name in modules if f'"ui/{name}"' in page} == modules

    @pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/nothing.js", "/ui/..%2Froutes.py"])
    def test_other_paths_stay_unknown(self, path: str) -> None:
        assert ask(app_of(GivenQueries({})), path).status == 404
