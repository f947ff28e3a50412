"""The page over 10,000 groups: what its JSON costs, how soon it shows, how fast it filters.

How soon it shows is given in milliseconds, and beside a page of ten groups in the same browser:
that ratio says what the groups cost, on a machine that is busy, too.
"""

import time
from collections.abc import Iterator

from lagwatch_api.v1.fleet import fleet_rows
from tests.bench.figures import Figure
from tests.support.browser import Browser, browsing
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import NAMES, ROW, open_fleet, serving_many
from tests.support.waiting import eventually

_ROUNDS = 7
_VIEWS = ("team", "prefix", "topic")
_MARK = "return performance.getEntriesByName('groups-shown')[0]?.startTime ?? null"
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
    with browsing() as browser:
        browser.look(1280, 800, "light")
        with serving_many(browser, NAMES[:10]) as url:
            few_ms = _shown_ms(browser, url)
        with serving_many(browser) as url:
            many_ms = _shown_ms(browser, url)
            yield Figure(name="page_shown", value=many_ms, unit="ms", target=500)
            yield Figure(name="page_shown_ratio", value=many_ms / few_ms, unit="x", target=3)
            yield Figure(name="page_typing", value=browser.run(_TYPE), unit="ms", target=50)
            typed_ms = {view: _typed_ms(browser, url, view) for view in _VIEWS}
            yield Figure(name="page_typing_team", value=typed_ms["team"], unit="ms", target=50)
            yield Figure(name="page_typing_prefix", value=typed_ms["prefix"], unit="ms", target=50)
            yield Figure(name="page_typing_topic", value=typed_ms["topic"], unit="ms", target=50)


def _shown_ms(browser: Browser, url: str) -> float:
    """From the question for the page until its first rows are drawn; the median of some rounds."""
    took = []
    for _ in range(_ROUNDS):
        browser.forget()  # as who opens the page for the first time
        open_fleet(browser, url)
        eventually(lambda: browser.run(_MARK) is not None, "the mark of the page")
        took.append(float(browser.run(_MARK)))
    return sorted(took)[_ROUNDS // 2]


def _typed_ms(browser: Browser, url: str, view: str) -> float:
    """With the first heading of the view open."""
    browser.open(f"{url}?view={view}")
    eventually(lambda: bool(browser.texts(".heading:not([hidden])")), "headings are shown")
    browser.click(".heading:not([hidden])")
    eventually(lambda: bool(browser.texts(ROW)), "groups under the heading are shown")
    return float(browser.run(_TYPE))


def _rows_ms() -> float:
    """The median of some rounds."""
    snapshot = Fleet(NAMES, ShiftedClock()).queries.snapshot(CLUSTER)
    took = []
    for _ in range(_ROUNDS):
        began_s = time.perf_counter()
        fleet_rows(snapshot)
        took.append(time.perf_counter() - began_s)
    return sorted(took)[_ROUNDS // 2] * 1000
