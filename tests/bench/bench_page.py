"""The page over 10,000 groups: what its JSON costs, how soon it shows, how fast it filters."""

import time
from collections.abc import Iterator

from lagwatch_api.v1.fleet import fleet_rows
from tests.bench.figures import Figure
from tests.support.browser import browsing
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import NAMES, open_fleet, serving_many

_ROUNDS = 7
_TYPE = """
const field = document.querySelector("#q");
const times = [];
for (const text of ["s", "se", "service-0", "service-09", "service-0999", "", "x"]) {
  const begin = performance.now();
  field.value = text;
  field.dispatchEvent(new Event("input"));
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  times.push(performance.now() - begin);
}
return times.sort((a, b) => a - b)[3];
"""


def run() -> Iterator[Figure]:
    """Rows of the fleet in this process; the rest in a real Chromium."""
    yield Figure(name="page_fleet_rows", value=_rows_ms(), unit="ms", target=250)
    with (
        browsing() as browser,
        serving_many(browser) as url,
    ):
        browser.look(1280, 800, "light")
        open_fleet(browser, url)
        shown_ms = browser.run("return performance.getEntriesByName('groups-shown')[0].startTime")
        yield Figure(name="page_shown", value=shown_ms, unit="ms", target=2000)
        yield Figure(name="page_typing", value=browser.run(_TYPE), unit="ms", target=100)


def _rows_ms() -> float:
    """The median of some rounds."""
    snapshot = Fleet(NAMES, ShiftedClock()).queries.snapshot(CLUSTER)
    took = []
    for _ in range(_ROUNDS):
        began_s = time.perf_counter()
        fleet_rows(snapshot)
        took.append(time.perf_counter() - began_s)
    return sorted(took)[_ROUNDS // 2] * 1000
