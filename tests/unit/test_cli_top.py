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
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.cli.group_table import Line
from lagwatch.cli.top import keys
from lagwatch.cli.top_view import Seen, View, chosen, pressed, read, screen
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.fleet import Fleet, ShiftedClock
from tests.support.serving import served

_DEADLINE_S = 30


def line(group: str, **changes) -> Line:
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
    return Line(**(values | changes))


FLEET = Seen(
    lines=(
        line("calm"),
        line("dark", status="UNKNOWN", worst="UNKNOWN", lag=None, time_lag_s=None),
        line("slow", status="WARN", worst="WARN", lag=900, time_lag_s=5.0),
        line("stuck", status="ERR", worst="STALL", lag=10, time_lag_s=80.0),
    ),
    age_s=1.0,
)


def drawn(seen: Seen, view: View, *, width: int = 100, height: int = 12) -> str:
    console = Console(width=width, height=height, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(screen(seen, view, width=width, height=height))
    return captured.get()


def test_a_group_whose_data_are_old_is_marked() -> None:
    seen = Seen(lines=(line("away", stale=True), line("here")))

    away, here = (row for row in drawn(seen, View()).splitlines() if row.endswith("1"))

    assert ("OK (stale)" in away, "stale" in here) == (True, False)


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
        assert [line.group for line in chosen(FLEET, View(sort=sort))] == order

    def test_typing_filters_and_escape_ends_it(self) -> None:
        view = View()
        for key in "StU":
            view = pressed(view, key)

        assert [line.group for line in chosen(FLEET, view)] == ["stuck"]
        assert len(chosen(FLEET, pressed(view, "backspace"))) == 1
        assert len(chosen(FLEET, pressed(view, "escape"))) == 4

    def test_tab_sorts_by_the_next_column_and_shift_tab_turns_round(self) -> None:
        view = pressed(pressed(View(), "tab"), "back_tab")

        assert [line.group for line in chosen(FLEET, view)] == ["dark", "calm", "stuck", "slow"]

    def test_an_unknown_lag_is_called_so(self) -> None:
        shown = next(line for line in drawn(FLEET, View()).splitlines() if "dark" in line)

        assert "unknown" in shown
        assert " 0 " not in shown

    @pytest.mark.parametrize("key", ["down", "end", "page_down", "up", "home"])
    def test_scrolling_stays_inside_the_list_and_the_screen(self, key: str) -> None:
        many = Seen(lines=tuple(line(f"group-{number:03}") for number in range(50)))

        text = drawn(many, pressed(View(), key), height=12)

        assert len(text.splitlines()) == 12
        assert "group-0" in text

    def test_a_group_in_trouble_says_for_how_long_and_by_which_rule(self) -> None:
        bad = line("stuck", status="ERR", worst="STALL", rule="stalled", since_s=754.0)

        text = drawn(Seen(lines=(bad, line("calm", rule="caught_up"))), View(), width=120)

        assert "12 min 34 s" in text
        assert "stalled" in text
        assert "caught_up" not in text

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_long_names_lose_their_middle_and_numbers_stay_whole(self, width: int) -> None:
        names = ["team." + "x" * 300 + end for end in ("-one", "-two")]
        lines = tuple(line(name, lag=1_234_567, since_s=60.0) for name in names)

        text = drawn(Seen(lines=lines), View(), width=width)

        assert text.count("1,234,567") == 2
        assert "-one" in text
        assert "-two" in text
        assert max(len(each) for each in text.splitlines()) <= width

    def test_a_name_cannot_move_the_cursor(self) -> None:
        text = drawn(Seen(lines=(line("a\x1b[2Jb\n"),)), View())

        assert "\x1b" not in text
        assert "a\N{REPLACEMENT CHARACTER}[2Jb" in text

    def test_what_failed_is_told_beside_what_was_last_known(self) -> None:
        text = drawn(Seen(lines=FLEET.lines, age_s=70.0, failed="cannot ask it"), View())

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
        (b"\x00\xff", []),
    ],
)
def test_bytes_of_a_terminal_are_keys(given: bytes, expected: list[str]) -> None:
    assert keys(given) == expected


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    clock = ShiftedClock()
    fleet = Fleet(["good", "broken", "other"], clock)
    fleet.fail("broken")
    application = create_app(
        fleet.queries, RecordingCommands(), GivenSettings(), hostname="h", version="0"
    )
    with served(application) as server:
        yield f"http://127.0.0.1:{server.port}"


class TestCommand:
    def test_without_a_terminal_it_prints_once_the_worst_first(self, url: str) -> None:
        result = CliRunner().invoke(app, ["top", "--url", url])

        assert result.exit_code == 0
        assert re.findall("good|broken|other", result.stdout) == ["broken", "good", "other"]

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
            assert "3 of 3 groups" in told(controller, "3 of 3 groups")
            os.write(controller, b"brok")
            assert "1 of 3 groups" in told(controller, "1 of 3 groups")
            os.write(controller, b"\x04")
            last = told(controller, "\x1b[?1049l")
            assert "\x1b[?1049l" in last
            assert process.wait(_DEADLINE_S) == 0
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            os.close(terminal)
            os.close(controller)


def told(controller: int, wanted: str) -> str:
    """What the terminal showed, up to `wanted` or the deadline."""
    deadline_s, text = time.monotonic() + _DEADLINE_S, ""
    while wanted not in text and time.monotonic() < deadline_s:
        if select.select([controller], [], [], 0.1)[0]:
            text += os.read(controller, 65_536).decode(errors="replace")
    return text
