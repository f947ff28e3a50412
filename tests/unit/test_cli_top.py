"""`lagwatch top`: what it shows, what keys do, and the command in a real terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from rich.console import Console
from starlette.types import Receive, Scope, Send
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.cli.group_table import Line
from lagwatch.cli.top import keys
from lagwatch.cli.top_view import (
    LastAnswer,
    TopView,
    chosen,
    pressed,
    read,
    screen,
    with_found,
)
from lagwatch.cli.views import Found
from lagwatch.clock import SystemClock
from lagwatch.core.model import RuleSet
from lagwatch.ports.queries import Partitions
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.serving import served

_DEADLINE_S = 30


def line(group: str, **changes) -> Line:
    """`since_s`: for so long it has been in trouble."""
    since_s = changes.pop("since_s", None)
    began = {} if since_s is None else {"since_ms": 0, "at_ms": round(since_s * 1000)}
    values: dict[str, Any] = {
        "cluster": "c1",
        "group": group,
        "status": "OK",
        "worst": "OK",
        "state": "Stable",
        "lag": 0,
        "unknown": 0,
        "time_lag_s": 0.0,
        "members": 1,
    }
    return Line(**(values | began | changes))


FLEET = LastAnswer(
    lines=(
        line("calm"),
        line("dark", status="UNKNOWN", worst="UNKNOWN", lag=None, time_lag_s=None),
        line("slow", status="WARN", worst="WARN", lag=900, time_lag_s=5.0),
        line("stuck", status="ERR", worst="STALL", lag=10, time_lag_s=80.0),
    ),
    age_s=1.0,
)


def drawn(seen: LastAnswer, view: TopView, *, width: int = 100, height: int = 12) -> str:
    console = Console(width=width, height=height, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(screen(seen, view, width=width, height=height))
    return captured.get()


def test_a_group_whose_data_are_old_is_marked() -> None:
    seen = LastAnswer(lines=(line("away", stale=True), line("here")))

    away, here = (row for row in drawn(seen, TopView()).splitlines() if row.endswith("1"))

    assert ("OK (stale)" in away, "stale" in here) == (True, False)


@pytest.mark.parametrize(
    ("reason", "catch_up_s", "shown"),
    [("catching_up", 190.0, "3 min 10 s"), ("falling_behind", None, "never"), ("", None, "")],
)
def test_speeds_are_shown_where_there_is_room(
    reason: str, catch_up_s: float | None, shown: str
) -> None:
    behind = line(
        "slow",
        status="WARN",
        worst="WARN",
        lag=900,
        consumed_per_s=37.94 if reason else None,
        lag_trend_per_s=-4.7 if reason else None,
        catch_up_s=catch_up_s,
        catch_up_reason=reason,
    )
    seen = LastAnswer(lines=(behind,))

    wide, narrow = (drawn(seen, TopView(), width=width) for width in (140, 44))

    assert ("CATCHES UP" in wide, "READS" in wide) == (bool(reason), bool(reason))
    assert "CATCHES UP" not in narrow
    row = next(row for row in wide.splitlines() if "slow" in row)
    assert ("-4.7/s" in row, "37.9/s" in row, bool(shown) and shown in row) == (bool(reason),) * 3


class TestView:
    @pytest.mark.parametrize(
        ("sort", "order"),
        [
            ("trouble", ["stuck", "slow", "dark", "calm"]),
            ("lag", ["slow", "stuck", "calm", "dark"]),
            ("time lag", ["stuck", "slow", "calm", "dark"]),
            ("group", ["calm", "dark", "slow", "stuck"]),
        ],
    )
    def test_groups_stand_in_the_order_asked_for(self, sort: str, order: list[str]) -> None:
        assert [line.group for line in chosen(FLEET, TopView(sort=sort))] == order

    def test_typing_filters_and_escape_ends_it(self) -> None:
        view = TopView()
        for key in "StU":
            view = pressed(view, key)

        assert [line.group for line in chosen(FLEET, view)] == ["stuck"]
        assert len(chosen(FLEET, pressed(view, "backspace"))) == 1
        assert len(chosen(FLEET, pressed(view, "escape"))) == 4

    def test_tab_sorts_by_the_next_column_and_shift_tab_turns_round(self) -> None:
        view = pressed(pressed(TopView(), "tab"), "back_tab")

        assert [line.group for line in chosen(FLEET, view)] == ["dark", "calm", "stuck", "slow"]

    def test_an_unknown_lag_is_called_so(self) -> None:
        shown = next(line for line in drawn(FLEET, TopView()).splitlines() if "dark" in line)

        assert "unknown" in shown
        assert " 0 " not in shown

    def test_a_lag_that_is_at_least_nothing_is_unknown(self) -> None:
        bound = {"unknown": 1, "time_lag_bound": "at_least"}
        lines = (line("dark", **bound), line("late", lag=5, **bound | {"time_lag_s": 3.0}))

        dark, late = drawn(LastAnswer(lines=lines), TopView()).splitlines()[2:4][::-1]

        assert re.search(r" unknown +unknown ", dark)
        assert re.search(r" ≥ 5 +≥ 3 s ", late)

    def test_old_data_keep_losses_and_causes_and_say_nothing_of_speeds(self) -> None:
        seen = LastAnswer(lines=(line("a", status="ERR", worst="ERR", lag=9, stale=True),))
        found = Found(
            cause="records lost",
            cause_sentence="",
            consumed_per_s=7.0,
            lag_trend_per_s=1.0,
            catch_up_s=None,
            catch_up_reason="not_moving",
            lost=4_321,
        )

        text = drawn(with_found(seen, {("c1", "a"): found}), TopView(), width=160)

        assert "4,321" in text
        assert ("READS" in text, "records lost" in text) == (False, True)

    @pytest.mark.parametrize("key", ["down", "end", "page_down", "up", "home"])
    def test_scrolling_stays_inside_the_list_and_the_screen(self, key: str) -> None:
        many = LastAnswer(lines=tuple(line(f"group-{number:03}") for number in range(50)))

        text = drawn(many, pressed(TopView(), key), height=12)

        assert len(text.splitlines()) == 12
        assert "group-0" in text

    def test_a_group_in_trouble_says_for_how_long_and_by_which_rule(self) -> None:
        bad = line("stuck", status="ERR", worst="STALL", rule="stalled", since_s=754.0)

        text = drawn(LastAnswer(lines=(bad, line("calm", rule="caught_up"))), TopView(), width=120)

        assert "12 min 34 s" in text
        assert "stalled" in text
        assert "caught_up" not in text

    @pytest.mark.parametrize("cause", ["slow member", "member without assignment"])
    def test_eighty_columns_have_room_for_the_cause_and_a_long_name(self, cause: str) -> None:
        bad = line(
            "team." + "x" * 300,
            status="ERR",
            worst="STOP",
            rule="stopped",
            cause=cause,
            since_s=754.0,
            lag=1_234_567,
            time_lag_s=754.0,
        )

        text = drawn(LastAnswer(lines=(bad,)), TopView(), width=80)

        assert cause[:5] in text
        assert "12 min 34 s" in text
        assert "team." in text

    @pytest.mark.parametrize("clusters", [1, 2])
    @pytest.mark.parametrize("name", ["mailer", "team." + "x" * 300])
    def test_eighty_columns_show_verdict_cause_and_trend_whole(
        self, name: str, clusters: int
    ) -> None:
        bad = line(
            name,
            cluster="prod-of-the-east",
            status="ERR",
            worst="STOP",
            cause="member without assignment",
            since_s=754_000.0,
            since_at_least=True,
            lag=1_234_567,
            unknown=1,
            time_lag_s=754_000.0,
            time_lag_bound="at_least",
            lag_trend_per_s=1_234.5,
            catch_up_reason="not_moving",
        )
        seen = LastAnswer(lines=(bad, line("calm")), clusters=clusters)

        text = drawn(seen, TopView(), width=80, height=24)

        assert "STOP" in text
        assert "cause: member without assignment; lag +1,234/s; does not catch up" in text
        assert max(len(each) for each in text.splitlines()) <= 80
        assert len(text.splitlines()) == 24

    @pytest.mark.parametrize("width", [80, 120, 160])
    @pytest.mark.parametrize("name", ["mailer", "team." + "x" * 300])
    def test_what_of_a_lag_can_be_read_and_what_was_lost_is_shown_at_every_width(
        self, name: str, width: int
    ) -> None:
        bad = line(
            name,
            status="ERR",
            worst="STOP",
            cause="no members",
            since_s=754.0,
            lag=1_234_567,
            readable_lag=1_204_000,
            lost=30_567,
            lost_at_most=True,
            time_lag_s=754.0,
            consumed_per_s=0.0,
            lag_trend_per_s=1_234.5,
            catch_up_reason="not_moving",
        )
        whole = line("calm", lag=12, readable_lag=12)

        text = drawn(LastAnswer(lines=(bad, whole)), TopView(), width=width)

        assert ("1,204,000" in text, "≤ 30,567" in text) == (True, True)
        assert ("readable" in text.lower() or "can be read" in text, "no members" in text) == (
            True,
            True,
        )
        calm = text[text.index("calm") :].splitlines()
        assert calm[0].count("12") == 1
        assert "lost" not in calm[1]
        assert max(len(each) for each in text.splitlines()) <= width

    def test_columns_of_losses_are_left_out_where_there_are_none(self) -> None:
        text = drawn(LastAnswer(lines=(line("calm", lag=5, readable_lag=5),)), TopView(), width=160)

        assert ("READABLE" in text, "LOST" in text) == (False, False)

    @pytest.mark.parametrize("width", [80, 160])
    def test_why_a_group_is_unknown_is_shown_whole_below_it(self, width: int) -> None:
        because = (
            "1 of 3 partitions unknown: the topic was deleted, or lagwatch may not describe it"
        )
        lines = tuple(
            line(f"dark-{number:02}", lag=5, unknown=1, unknown_because=because)
            for number in range(20)
        )
        seen = LastAnswer(lines=lines)

        first, last = (
            drawn(seen, pressed(TopView(), key), width=width, height=16) for key in ("home", "end")
        )

        assert because in " ".join(first.split())
        assert "dark-19" in last
        assert [len(each.splitlines()) for each in (first, last)] == [16, 16]
        assert max(len(each) for each in first.splitlines()) <= width

    def test_the_last_group_can_be_scrolled_to_where_causes_have_lines_of_their_own(self) -> None:
        many = LastAnswer(
            lines=tuple(
                line(
                    f"{number:02}" + "x" * 300,
                    status="ERR",
                    worst="STOP",
                    cause="member without assignment",
                    since_s=754_000.0,
                    lag=1_234_567,
                )
                for number in range(30)
            )
        )

        first, last = (
            drawn(many, pressed(TopView(), key), width=60, height=13) for key in ("home", "end")
        )

        assert (first.count("cause: "), last.count("cause: ")) == (4, 4)
        assert "00xx" in first
        assert "29xx" in last
        assert len(last.splitlines()) == 13

    def test_short_names_leave_the_room_to_the_cause_and_other_columns(self) -> None:
        bad = line(
            "mailer",
            status="ERR",
            worst="REWIND",
            cause="stuck on record",
            since_s=85.0,
            since_at_least=True,
            lag=8_311,
            time_lag_s=86.0,
            time_lag_bound="at_most",
            consumed_per_s=0.0,
            lag_trend_per_s=19.8,
            catch_up_reason="not_moving",
        )

        text = drawn(LastAnswer(lines=(bad,)), TopView(), width=80)

        row, below = next(pairwise(text[text.index("REWIND") :].splitlines()))
        assert "stuck on record" in row
        assert below.strip() == "lag +19.8/s; does not catch up", "their columns have no room"
        assert max(len(each) for each in text.splitlines()) <= 80

    def test_the_lag_of_a_group_that_keeps_up_wobbles_without_a_trend(self) -> None:
        speeds = {"consumed_per_s": 119.0, "catch_up_reason": "keeps_up"}
        lines = (
            line("calm", lag=66, lag_trend_per_s=0.41, **speeds),
            line("rising", lag=66, lag_trend_per_s=12.0, **speeds),
            line("slow", status="WARN", worst="WARN", lag=66, lag_trend_per_s=0.41, **speeds),
        )

        text = drawn(LastAnswer(lines=lines), TopView(), width=140)

        shown = {
            name: row
            for row in text.splitlines()
            for name in ("calm", "rising", "slow")
            if name in row
        }
        assert "0.41/s" not in shown["calm"]
        assert "+12/s" in shown["rising"]
        assert "+0.41/s" in shown["slow"]

    def test_totals_follow_the_filter_and_mark_what_is_old(self) -> None:
        aged = line("stuck-too", status="ERR", worst="STALL", stale=True)
        seen = replace(FLEET, lines=(*FLEET.lines, aged), unknown=("dr-site",), clusters=2)

        whole = drawn(seen, TopView(), width=120).splitlines()[0]
        found = drawn(seen, TopView(wanted="stuck-too"), width=120).splitlines()[0]

        assert "2 ERR (1 old)  1 WARN  1 UNKNOWN  1 OK  dr-site: unknown" in whole
        assert "1 ERR (old)  0 OK" in found
        assert "WARN" not in found

    def test_clusters_are_not_left_out_where_there_are_two(self) -> None:
        lines = tuple(line("x" * 60, cluster=cluster) for cluster in ("prod-east", "prod-west"))

        text = drawn(LastAnswer(lines=lines), TopView(), width=60)

        assert "prod-east" in text
        assert "prod-west" in text

    @pytest.mark.parametrize("width", [60, 80])
    def test_the_cluster_is_named_where_there_are_several_whatever_the_others_take(
        self, width: int
    ) -> None:
        bad = line(
            "team." + "x" * 300,
            cluster="prod-of-the-east",
            status="ERR",
            worst="STOP",
            since_s=754_000.0,
            since_at_least=True,
            lag=1_234_567,
            time_lag_s=754_000.0,
            stale=True,
        )

        text = drawn(LastAnswer(lines=(bad,), clusters=2), TopView(), width=width)

        assert "CLUSTER" in text
        assert re.search(r" prod\S*east ", text)
        assert "1,234,567" in text
        assert max(len(each) for each in text.splitlines()) <= width

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_long_names_lose_their_middle_and_numbers_stay_whole(self, width: int) -> None:
        names = ["team." + "x" * 300 + end for end in ("-one", "-two")]
        lines = tuple(line(name, lag=1_234_567, since_s=60.0) for name in names)

        text = drawn(LastAnswer(lines=lines), TopView(), width=width)

        assert text.count("1,234,567") == 2
        assert "-one" in text
        assert "-two" in text
        assert max(len(each) for each in text.splitlines()) <= width

    def test_a_name_cannot_move_the_cursor(self) -> None:
        text = drawn(LastAnswer(lines=(line("a\x1b[2Jb\n"),)), TopView())

        assert "\x1b" not in text
        assert "a\N{REPLACEMENT CHARACTER}[2Jb" in text

    @pytest.mark.parametrize(
        ("failed", "age_s", "old"),
        [("cannot ask it", 31.0, True), ("cannot ask it", 5.0, False), ("", 70.0, False)],
    )
    def test_what_was_last_known_is_old_once_nothing_answers(
        self, failed: str, age_s: float, *, old: bool
    ) -> None:
        text = drawn(LastAnswer(lines=FLEET.lines, age_s=age_s, failed=failed), TopView())

        assert ("(old)" in text.splitlines()[0]) is old
        assert ("(stale)" in text) is old

    def test_what_failed_is_reported_beside_what_was_last_known(self) -> None:
        text = drawn(LastAnswer(lines=FLEET.lines, age_s=70.0, failed="cannot ask it"), TopView())

        assert "cannot ask it" in text
        assert "data 1 min 10 s old" in text
        assert "stuck" in text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"ab", ["a", "b"]),
        ("ü".encode(), ["ü"]),
        (b"\x1b[A", ["up"]),
        (b"\x1b", ["escape"]),
        (b"\t", ["tab"]),
        (b"a\x7f", ["a", "backspace"]),
        (b"\x1b[15~", []),
        # several at once, as over a slow connection or with a key held
        (b"x\x1b[Z", ["x", "back_tab"]),
        (b"\t\x1b[Z", ["tab", "back_tab"]),
        (b"\x1b[B\x1b[B", ["down", "down"]),
        (b"\x7f\x7f\x1b", ["backspace", "backspace", "escape"]),
        (b"\x1b[15~q", ["q"]),
        (b"\x00\xff", []),
    ],
)
def test_bytes_of_a_terminal_are_keys(given: bytes, expected: list[str]) -> None:
    assert keys(given) == expected


@pytest.fixture(scope="module")
def application() -> FastAPI:
    clock = ShiftedClock()
    fleet = Fleet(["good", "broken", "other"], clock)
    fleet.fail("broken")
    fleet.describe("broken", state="Empty")
    return create_app(
        fleet.queries, RecordingCommands(), GivenSettings(), hostname="h", version="0"
    )


@pytest.fixture(scope="module")
def url(application: FastAPI) -> Iterator[str]:
    with served(application) as server:
        yield f"http://127.0.0.1:{server.port}"


def shown_beside(
    application: FastAPI, incidents: list[dict[str, Any]], *command: str, width: int
) -> str:
    """What is printed of a server with these incidents, of which each answer has one."""

    async def with_alerts(scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") == "/api/v1/alerts/incidents":
            asked = dict(parse_qsl(scope["query_string"].decode()))
            first = int(asked.get("cursor", 0))
            more = str(first + 1) if first + 1 < len(incidents) else ""
            page = {"incidents": incidents[first : first + 1], "next": more}
            await JSONResponse(page)(scope, receive, send)
        else:
            await application(scope, receive, send)

    with served(with_alerts) as server:
        url = f"http://127.0.0.1:{server.port}"
        result = CliRunner().invoke(app, [*command, "--url", url], env={"COLUMNS": str(width)})
    return result.stdout


class TestCommand:
    def test_without_a_terminal_it_prints_once_the_worst_first(self, url: str) -> None:
        result = CliRunner().invoke(app, ["top", "--url", url])

        assert result.exit_code == 0
        assert re.findall("good|broken|other", result.stdout) == ["broken", "good", "other"]

    @pytest.mark.parametrize("command", ["top", "status"])
    def test_lost_messages_and_what_can_still_be_read_have_columns(self, command: str) -> None:
        fleet = Fleet(["good", "stopped"], ShiftedClock(), rules=RuleSet.LAGWATCH)
        fleet.fail("stopped")
        fleet.delete_before(fleet.committed("stopped") + 50)
        lossy = create_app(
            fleet.queries, RecordingCommands(), GivenSettings(), hostname="h", version="0"
        )

        with served(lossy) as server:
            url = f"http://127.0.0.1:{server.port}"
            every = CliRunner().invoke(app, [command, "--url", url]).stdout.splitlines()
            alone = CliRunner().invoke(app, ["status", "stopped", "--url", url]).stdout

        verdict = fleet.queries.verdict(CLUSTER, "stopped", Partitions.ALL)
        assert re.search(r"LAG +READABLE +LOST ", every[0])
        numbers = rf" {verdict.total_lag:,} +{verdict.total_lag - 50:,} +50 "
        assert re.search(numbers, every[1])
        assert re.search(r" good .* 0 ", every[2])
        assert f", 50 lost, {verdict.total_lag - 50:,} of the lag can be read, " in alone
        assert re.search(numbers, alone)

    def test_a_group_in_trouble_has_its_cause(self, url: str) -> None:
        result = CliRunner().invoke(app, ["top", "--url", url], env={"COLUMNS": "140"})

        broken, good, _ = result.stdout.splitlines()[1:4]
        assert "no members" in broken
        assert "no members" not in good

    def test_a_good_group_with_an_open_incident_comes_before_other_good_ones(
        self, application: FastAPI
    ) -> None:
        about = {"about": "group", "cluster": CLUSTER, "group": "other", "severity": "error"}
        known = {**about, "muted": False, "acknowledged_ms": None, "acknowledged_by": ""}

        shown = shown_beside(application, [known], "top", width=140)

        broken, other, good = shown.splitlines()[1:4]
        assert ["broken" in broken, "other" in other, "good" in good] == [True] * 3
        assert "open incident" in other
        assert "open incident" not in broken + good

    def test_a_group_is_in_trouble_for_as_long_as_its_incident(self, application: FastAPI) -> None:
        about = {"about": "group", "cluster": CLUSTER, "severity": "error"}
        handled = {"muted": False, "acknowledged_ms": None, "acknowledged_by": ""}
        now_ms = SystemClock().now_ms()
        began = {"broken": now_ms - 7_200_000, "good": now_ms - 10_800_000}
        known = [
            {**about, **handled, "group": group, "since_ms": since_ms}
            for group, since_ms in began.items()
        ]

        shown = shown_beside(application, known, "top", width=160)

        broken, good, other = shown.splitlines()[1:4]
        assert " 2 h " in broken
        assert "good" in good
        assert " 3 h " not in good, "it is not in trouble now"
        assert " 2 h " not in other

    def test_what_was_done_about_an_incident_is_beside_the_cause(
        self, application: FastAPI
    ) -> None:
        def known(group: str, **more: object) -> dict[str, object]:
            about = {"about": "group", "cluster": CLUSTER, "group": group, "severity": "error"}
            return {**about, "acknowledged_ms": None, "acknowledged_by": "", **more}

        handled = [  # the first as an older server says it
            known("broken", acknowledged_ms=1, acknowledged_by="ann"),
            known("other", muted=True, acknowledged_ms=1),
        ]

        shown = shown_beside(application, handled, "top", width=160)

        broken, other, good = shown.splitlines()[1:4]
        assert "no members, acknowledged by ann" in broken
        assert "open incident, muted, acknowledged " in other
        assert "acknowledged" not in good

    @pytest.mark.parametrize("command", [["status"], ["status", "broken"]])
    def test_status_says_what_was_done_about_an_incident(
        self, application: FastAPI, command: list[str]
    ) -> None:
        about = {"about": "group", "cluster": CLUSTER, "group": "broken", "severity": "error"}
        muted = {"muted": True, "acknowledged_ms": 1, "acknowledged_by": "ann"}

        shown = shown_beside(application, [{**about, **muted}], *command, width=200)

        assert "muted, acknowledged by ann" in shown

    def test_a_server_that_is_not_there_is_an_error(self) -> None:
        result = CliRunner().invoke(app, ["top", "--url", "http://127.0.0.1:1"])

        assert result.exit_code == 3
        assert "cannot ask http://127.0.0.1:1" in result.stderr

    def test_an_unknown_order_is_refused(self, url: str) -> None:
        result = CliRunner().invoke(app, ["top", "--url", url, "--sort", "size"])

        assert result.exit_code == 2

    def test_an_answer_of_somebody_else_is_refused(self) -> None:
        with pytest.raises((KeyError, TypeError)):
            read({"error": False})

    @pytest.mark.slow
    def test_in_a_terminal_it_lives_filters_and_leaves_the_terminal_as_it_was(
        self, url: str
    ) -> None:
        controller, terminal = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "lagwatch", "top", "--url", url, "--every", "0.2"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "24"},
        )
        try:
            assert "3 of 3 groups" in screen_until(controller, "3 of 3 groups")
            os.write(controller, b"brok")
            assert "1 of 3 groups" in screen_until(controller, "1 of 3 groups")
            os.write(controller, b"\x04")
            last = screen_until(controller, "\x1b[?1049l")
            assert "\x1b[?1049l" in last
            assert process.wait(_DEADLINE_S) == 0
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            os.close(terminal)
            os.close(controller)


def screen_until(controller: int, wanted: str) -> str:
    """What the terminal showed, up to `wanted` or the deadline."""
    deadline_s, text = time.monotonic() + _DEADLINE_S, ""
    while wanted not in text and time.monotonic() < deadline_s:
        if select.select([controller], [], [], 0.1)[0]:
            text += os.read(controller, 65_536).decode(errors="replace")
    return text
