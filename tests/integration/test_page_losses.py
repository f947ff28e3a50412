"""Lost messages of a group whose verdict says something else, on the page in a real Chromium."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import pytest

from lagwatch.core.model import RuleSet
from lagwatch.ports.queries import AcknowledgedLoss
from tests.support.api_doubles import RecordingCommands
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import ROW, open_fleet, serving_page
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def url(browser: Browser) -> Iterator[str]:
    """A group that stopped, and of which 50 messages were deleted then; and one that is well."""
    fleet = Fleet(["good", "stopped"], ShiftedClock(), rules=RuleSet.LAGWATCH)
    fleet.fail("stopped")
    fleet.delete_before(fleet.committed("stopped") + 50)
    with serving_page(browser, fleet.queries) as address:
        yield address


@pytest.mark.parametrize("width", [1440, 390])
def test_a_loss_is_seen_beside_the_verdict_of_a_group_that_stopped(
    browser: Browser, url: str, width: int, tmp_path: Path
) -> None:
    browser.look(width, 844, "light")
    open_fleet(browser, f"{url}?q=stopped")
    eventually(lambda: "50 lost" in browser.text(f"{ROW} .note"), "the loss is in the list")
    browser.picture(tmp_path / "list.png")
    listed, noted = browser.text(f"{ROW} .c-mark"), browser.text(f"{ROW} .note")

    browser.open(f"{url}?group=stopped&of={CLUSTER}")
    eventually(lambda: "STOPPED" in browser.text("#g-sentence"), "the group is shown")
    browser.picture(tmp_path / "group.png")

    assert listed == "STOPPED"
    assert browser.text("#g-lost") == ("MESSAGES LOST: 50 were deleted before the group read them.")
    facts, table = browser.text("#g-facts"), browser.texts("#g-table td:nth-child(4)")
    lag = shown_lag(browser)
    # what is long is cut at its end: what was lost and why come first
    assert noted == f"50 lost, cause not known, {lag - 50:,} readable"
    assert f"{lag - 50:,} of it can be read: the rest was deleted" in facts
    assert f"{lag:,} ({lag - 50:,} can be read)" in table
    assert f"with {lag - 50:,} messages to read" in browser.text("#g-sentence")
    browser.open(f"{url}?group=good&of={CLUSTER}")
    eventually(lambda: "OK" in browser.text("#g-sentence"), "the other group is shown")
    assert browser.text("#g-lost") == ""
    browser.look(1280, 800, "light")


class _Acknowledging(RecordingCommands):
    """Acknowledges losses in the monitor of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self._fleet = fleet

    async def acknowledge_losses(
        self, cluster: str, groups: Sequence[str]
    ) -> dict[str, AcknowledgedLoss]:
        for group in groups:
            self._fleet.monitor.acknowledge_losses(group)
        self._fleet.judge()
        return await super().acknowledge_losses(cluster, groups)


@pytest.mark.parametrize("group", ["stopped", "slow / and strange"])
def test_a_loss_is_acknowledged_where_it_is_shown(browser: Browser, group: str) -> None:
    fleet = Fleet([group, "good"], ShiftedClock(), rules=RuleSet.LAGWATCH)
    fleet.fail(group)
    fleet.delete_before(fleet.committed(group) + 50)
    button = "#lost-seen:not([hidden])"
    with serving_page(browser, fleet.queries, commands=_Acknowledging(fleet)) as url:
        browser.open(f"{url}?group={quote(group)}&of={CLUSTER}")
        eventually(lambda: bool(browser.texts(button)), "the loss can be acknowledged")
        browser.click(button)
        eventually(lambda: browser.text("#g-lost") == "", "it is no longer shown")

        assert browser.texts(button) == []
        assert "it stays counted" in browser.text("#shared")
        browser.open(f"{url}?group=good&of={CLUSTER}")
        eventually(lambda: "OK" in browser.text("#g-sentence"), "the other group is shown")
        assert browser.texts(button) == []


def shown_lag(browser: Browser) -> int:
    """The lag that the group's view shows."""
    return int(browser.texts("#g-facts dd > span")[0].replace(",", ""))
