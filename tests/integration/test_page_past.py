"""What the page shows of a group's past, in a real Chromium, from a real store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.core.model import EpochMs
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.reader import HistoryReader
from lagwatch.ports.queries import GroupEvent
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.history import events, group_sample, group_samples, happening
from tests.support.serving import served
from tests.support.waiting import eventually

GROUP = "billing"
_MINUTE_MS = 60_000
_LINES = "#g-events li"
_MARKS = """
const canvas = document.querySelector("#g-past canvas");
const over = document.querySelector("#g-past .u-over").getBoundingClientRect();
const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
const paint = document.createElement("canvas").getContext("2d");
paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--soft");
paint.fillRect(0, 0, 1, 1);
const line = [...paint.getImageData(0, 0, 1, 1).data].join();
const y = Math.round((over.top - box.top) * scale) + 2;
const row = canvas.getContext("2d").getImageData(0, y, canvas.width, 1).data;
let found = 0;
for (let at = 0; at < row.length; at += 4) found += [...row.slice(at, at + 4)].join() === line;
return { found, width: over.width };
"""
"""How many lines of events stand in the upper end of the curves, and how wide these are (px)."""


class Memory:
    """Events that are not in the store yet, and one that is."""

    def __init__(self, now_ms: int) -> None:
        self.newest = [
            GroupEvent(at_ms=EpochMs(now_ms - age_ms), group=GROUP, event=name, after=after)
            for age_ms, name, after in (
                (2 * _MINUTE_MS, "deployment", "2.0"),
                (_MINUTE_MS, "assignor", "sticky"),
            )
        ]

    def events(self, _cluster: str, group: str) -> tuple[GroupEvent, ...]:
        return tuple(self.newest) if group == GROUP else ()


@pytest.fixture(scope="module")
def url(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a group to which more happened in five hours than fits into a page of the history."""
    fleet = Fleet([GROUP], ShiftedClock())
    now_ms = SystemClock().now_ms()  # that of the routes
    store = ParquetStore(str(_store(tmp_path_factory.mktemp("past"), now_ms)))
    app = create_app(
        fleet.queries,
        RecordingCommands(),
        GivenSettings(),
        history=HistoryReader(store, interval_ms=30_000, full_ms=600_000),
        events=Memory(now_ms),
        hostname="h",
        version="0",
    )
    with served(app) as server:
        yield f"http://127.0.0.1:{server.port}/?group={GROUP}&of={CLUSTER}"
        browser.open("about:blank")  # an open stream would hold the server up


def _store(folder: Path, now_ms: int) -> Path:
    """Verdicts of partitions for four hours, a group that goes back and back, a release."""
    store = ParquetStore(str(folder))
    ago = [now_ms - minutes * _MINUTE_MS for minutes in range(300, 0, -1)]
    partitions = [
        happening(group=GROUP, partition=partition, at_ms=at_ms)
        for at_ms in ago[:240]
        for partition in range(5)
    ]
    back = [
        happening(
            group=GROUP, partition=None, at_ms=at_ms, event="offsets_reset",
            before=None, after=None, rule=None, lag=None, count=2,
        )
        for minute_ms in ago[240:290] for at_ms in (minute_ms, minute_ms + 30_000)
    ]  # fmt: skip
    deployed = happening(group=GROUP, topic=None, partition=None, at_ms=ago[-2], event="deployment",
                         before="1.0", after="2.0", rule=None, lag=None)  # fmt: skip
    curve = [group_sample(group=GROUP, at_ms=at_ms) for at_ms in ago]
    store.write([group_samples(curve), events([*partitions, *back, deployed])], batch="b1")
    return folder


@pytest.fixture(scope="module")
def lines(browser: Browser, url: str) -> list[str]:
    browser.look(1280, 1600, "light")
    browser.open(url)
    eventually(lambda: bool(browser.texts(_LINES)), "what happened is listed")
    return browser.texts(_LINES)


def test_the_newest_events_are_listed_though_a_page_of_the_history_does_not_reach_them(
    lines: list[str],
) -> None:
    assert "assignor changed" in lines[0]  # from memory
    assert "deployment" in lines[1]
    assert sum("deployment" in line for line in lines) == 1


def test_what_happens_again_and_again_takes_one_line_and_leaves_the_curves_to_be_seen(
    browser: Browser, lines: list[str]
) -> None:
    (again,) = [line for line in lines if "offsets reset" in line]
    drawn = browser.run(_MARKS)

    assert "(100 times since " in again
    assert 0 < drawn["found"] <= drawn["width"] / 12 + 3
