"""The service's page over ten thousand groups, without a Kafka behind it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lagwatch.notify.alerts import Alerts
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.browser import Browser
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.serving import served
from tests.support.waiting import eventually

NAMES: Final = tuple(f"team-{number % 37}.service-{number:05}" for number in range(10_000))
ROW: Final = ".scroll .row:not([hidden])"
"""Rows of the page's table that are shown."""


@contextmanager
def serving_many(folder: Path, browser: Browser) -> Iterator[str]:
    """The page's address; `folder` keeps the alerts' file."""
    clock = ShiftedClock()
    fleet = Fleet(NAMES, clock)
    alerts = Alerts(alert_settings(folder, ""), clock)
    app = create_app(
        fleet.queries,
        RecordingCommands(),
        GivenSettings(),
        alerts=alerts,
        hostname="h",
        version="0",
    )
    with served(app) as server:
        yield f"http://127.0.0.1:{server.port}/"
        browser.open("about:blank")  # an open stream would hold the server up
    alerts.close()


def open_fleet(browser: Browser, url: str) -> None:
    """Open the page and wait until it shows groups."""
    browser.open(url)
    eventually(lambda: bool(browser.texts(ROW)), "groups are shown")
