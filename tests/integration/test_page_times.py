"""Instants on the page: in the time zone of the notices, with its name, wherever the browser is."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from fastapi import FastAPI

from lagwatch.access import AccessControl
from lagwatch.cli.output import local_time
from lagwatch.clock import SystemClock
from lagwatch.config.server import ServerSettings
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.serving import served
from tests.support.waiting import eventually

_HOUR_MS: Final = 3_600_000
_ZONES: Final = ("UTC", "Europe/Berlin", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu")
_WORDS: Final = "const { instant, msOf, setZone, wallClock } = await import('/ui/instants.js'); "
_SESSION: Final = "const session = await (await fetch('/api/v1/session')).json(); "


class Zoned:
    """A server whose time zone can be changed, with a group that has stopped."""

    def __init__(self) -> None:
        self.zone = "Asia/Tokyo"
        self.fleet = Fleet(["group-0", "group-1"], ShiftedClock())
        self.fleet.pass_time(1)
        self.fleet.fail("group-0")
        self.url = ""

    def serving(self) -> FastAPI:
        return create_app(
            self.fleet.queries,
            RecordingCommands(),
            GivenSettings(),
            access=AccessControl(ServerSettings(), SystemClock()),
            time_zone=lambda: self.zone,
            hostname="h",
            version="0",
        )


@pytest.fixture(scope="module")
def server(browser: Browser) -> Iterator[Zoned]:
    zoned = Zoned()
    with served(zoned.serving()) as listening:
        zoned.url = f"http://127.0.0.1:{listening.port}/"
        yield zoned
        browser.open("about:blank")  # an open stream would hold the server up


def _days(year: int) -> list[int]:
    """An instant of each day of a year, each at another hour; in ms.

    Of a past year: of an instant of today the page shows the time alone.
    """
    begin_ms = int(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1000)
    return [begin_ms + day * 25 * _HOUR_MS + 61_000 for day in range(350)]


@pytest.mark.parametrize("zone", _ZONES)
def test_instants_read_on_the_page_as_in_the_commands(
    browser: Browser, server: Zoned, zone: str
) -> None:
    server.zone = zone
    instants = [*_days(2025), 1_396_000_000_000, 2_796_000_000_000, 253_402_300_800_000]
    browser.open(server.url)

    shown, again = browser.run(
        _WORDS + _SESSION + "setZone(session.time_zone, session.time_zone_names);"
        "return [given[0].map(instant), given[0].slice(0, -1).map((ms) => msOf(wallClock(ms)))]",
        instants,
    )

    expected = [local_time(each, ZoneInfo(zone)) for each in instants[:-1]]
    assert shown == [*expected, "253402300800000 ms"]
    # an hour that comes twice has one wall clock
    assert sum(a != b // 1000 * 1000 for a, b in zip(again, instants, strict=False)) <= 1


def test_today_is_shown_by_its_time_and_zone_alone(browser: Browser, server: Zoned) -> None:
    server.zone = "Asia/Tokyo"
    browser.open(server.url)

    now_ms, shown = browser.run(
        _WORDS + _SESSION + "setZone(session.time_zone, session.time_zone_names);"
        "const now = Date.now(); return [now, instant(now)]"
    )

    assert shown == local_time(now_ms, ZoneInfo("Asia/Tokyo")).partition(" ")[2]


def test_a_group_shows_every_instant_and_its_curves_in_the_zone_of_the_notices(
    browser: Browser, server: Zoned
) -> None:
    server.zone = "Asia/Tokyo"
    browser.look(390, 844, "light")

    browser.open(f"{server.url}?group=group-0&of={CLUSTER}")
    eventually(lambda: browser.text("#g-window .u-legend") != "", "the window is drawn")

    facts = dict(
        zip(browser.texts("#g-facts dt"), browser.texts("#g-facts dd > span"), strict=True)
    )
    assert facts["In trouble since"].endswith(" JST")
    assert " JST: " in browser.text("#g-sentence")
    assert browser.texts("#g-details dd > span")[-1].endswith(" JST")
    commits = browser.texts("#g-table td:nth-child(7)")
    assert [text for text in commits if not text.endswith((" JST", "\N{EN DASH}"))] == []
    assert browser.text("#g-window .u-legend .u-label").startswith("Time (JST)")
    labels = "return [...document.querySelectorAll('.own')].map((one) => one.textContent)"
    assert browser.run(labels) == ["From (JST)", "To (JST)"]
