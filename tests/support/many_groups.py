"""The service's page over ten thousand groups, without a Kafka behind it."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final

from lagwatch.core.trail import STEP_MS, Trail
from lagwatch.ports.queries import Commands, Queries
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.serving import served
from tests.support.waiting import eventually

NAMES: Final = tuple(f"team-{number % 37}.service-{number:05}" for number in range(10_000))
_MINUTES: Final = 3
ROW: Final = ".scroll .row:not([hidden])"
"""Rows of the page's table that are shown."""


@contextmanager
def serving_many(
    browser: Browser,
    names: Sequence[str] = NAMES,
    failing: AbstractSet[str] = frozenset(),
) -> Iterator[str]:
    """The page's address. `failing` have stopped for minutes."""
    clock = ShiftedClock()
    fleet = Fleet(names, clock)
    trail = Trail()
    for _ in range(_MINUTES):
        fleet.failing |= failing
        clock.ahead_ms += STEP_MS
        fleet.pass_time(1)
        assert fleet.monitor.snapshot is not None
        trail.take(fleet.monitor.snapshot)
    with serving_page(browser, fleet.queries, trails={CLUSTER: trail}) as address:
        yield address


@contextmanager
def serving_page(
    browser: Browser,
    queries: Queries,
    *,
    trails: Mapping[str, Trail] = {},
    commands: Commands | None = None,
    version: str = "0",
) -> Iterator[str]:
    """The address of the page over what these queries answer."""
    app = create_app(
        queries,
        commands or RecordingCommands(),
        GivenSettings(),
        trails=trails,
        hostname="h",
        version=version,
    )
    with served(app) as server:
        yield f"http://127.0.0.1:{server.port}/"
        browser.open("about:blank")  # an open stream would hold the server up


def open_fleet(browser: Browser, url: str) -> None:
    """Open the page and wait until it shows groups."""
    browser.open(url)
    eventually(lambda: bool(browser.texts(ROW)), "groups are shown")
