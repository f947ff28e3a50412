"""What groups read, on the page in a real Chromium, when it is opened before they are known."""

from lagwatch.query import SnapshotQueries
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import serving_page
from tests.support.waiting import eventually


def test_topics_are_found_soon_after_groups_came_to_a_page_that_was_open(browser: Browser) -> None:
    before, after = (Fleet(names, ShiftedClock()) for names in (["one"], ["one", "two"]))
    for _ in range(20):
        after.pass_time(1)  # its rounds are later ones
    monitors = {CLUSTER: before.monitor}
    with serving_page(browser, SnapshotQueries(monitors, health=lambda: ())) as url:
        browser.open(f"{url}?view=topic")
        eventually(lambda: "orders · 1 group" in browser.texts(".heading"), "the topic is known")

        monitors[CLUSTER] = after.monitor

        eventually(
            lambda: "orders · 2 groups" in browser.texts(".heading"), "of both", timeout_s=30
        )
