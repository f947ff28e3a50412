"""A page that stays open while the server is replaced by another version."""

from tests.support.browser import Browser
from tests.support.fleet import Fleet, ShiftedClock
from tests.support.many_groups import ROW, open_fleet, serving_page
from tests.support.relay import relaying
from tests.support.waiting import eventually

_LOADED = "return performance.timeOrigin"


def port_of(address: str) -> int:
    return int(address.rstrip("/").rpartition(":")[2])


def test_an_open_page_loads_itself_again_when_another_version_serves_it(browser: Browser) -> None:
    fleet = Fleet(["group-1", "group-2"], ShiftedClock())
    fleet.pass_time(1)
    with (
        serving_page(browser, fleet.queries) as old,
        serving_page(browser, fleet.queries) as same,
        serving_page(browser, fleet.queries, version="1") as new,
        relaying(port_of(old)) as way,
    ):
        open_fleet(browser, f"http://127.0.0.1:{way.port}/?q=group-1")
        first = browser.run(_LOADED)

        way.lead_to(port_of(same))
        eventually(lambda: browser.text("#live").startswith("live"), "it is connected again")
        kept = browser.run(_LOADED)
        browser.click("#filters input[type=search]")
        way.lead_to(port_of(new))
        eventually(lambda: browser.text("#live").startswith("live"), "it is connected again")
        while_writing = browser.run(_LOADED)
        browser.run("document.activeElement.blur()")
        eventually(lambda: browser.run(_LOADED) != first, "it was loaded again")
        eventually(lambda: len(browser.texts(ROW)) == 1, "the same groups are shown")
        browser.open("about:blank")

    assert kept == while_writing == first
