"""Cards of Teams as Microsoft's own renderer draws them, on a phone and on a desk."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lagwatch.clock import SystemClock
from lagwatch.notify.channels.teams import Teams, TeamsSettings
from lagwatch.notify.message_words import overview, subject
from lagwatch.notify.words import cut
from tests.support.alert_situations import hostile, situations
from tests.support.browser import Browser, browsing

EVERY: Final = {**situations(), **hostile()}
_RENDERER: Final = Path(__file__).parents[1] / "support" / "adaptivecards" / "adaptivecards.min.js"
# the renderer leaves it to the style of its host to break a name that is longer than the screen
_PAGE: Final = """<!doctype html><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<style>body { margin: 0; font-family: sans-serif; font-size: 14px; overflow-wrap: anywhere }</style>
<div id="card"></div><script src="renderer.js"></script><script>
const context = new AdaptiveCards.SerializationContext(AdaptiveCards.Versions.v1_4);
const card = new AdaptiveCards.AdaptiveCard();
card.parse(CARD, context);
window.faults = Array.from(
  { length: context.eventCount }, (_, number) => context.getEventAt(number).message
);
card.onExecuteAction = (action) => { window.opened = action.url };
document.getElementById("card").append(card.render());
</script>"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


def _draw(browser: Browser, folder: Path, card: dict[str, Any], width: int) -> None:
    (folder / "renderer.js").write_bytes(_RENDERER.read_bytes())
    written = json.dumps(card).replace("</", "<\\/")
    (folder / "card.html").write_text(_PAGE.replace("CARD", written), encoding="utf-8")
    browser.look(width, 800, "light")
    browser.open((folder / "card.html").as_uri())


def _card(situation: str) -> dict[str, Any]:
    teams = Teams("t", TeamsSettings(webhook_url="http://127.0.0.1:1"), SystemClock())
    card: dict[str, Any] = teams.payload(EVERY[situation])["attachments"][0]["content"]
    return card


@pytest.mark.parametrize("width", [390, 1000])
@pytest.mark.parametrize("situation", EVERY)
def test_a_card_is_drawn_whole_and_fits_the_screen(
    browser: Browser, tmp_path: Path, situation: str, width: int
) -> None:
    card = _card(situation)

    _draw(browser, tmp_path, card, width)

    assert browser.run("return window.faults") == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    shown = " ".join(browser.text("#card").split())
    assert shown.startswith(" ".join(cut(subject(EVERY[situation]), 500).split()))
    for block in card["body"]:
        for run in block["inlines"]:
            assert " ".join(run["text"].split()) in shown
    assert browser.texts("button") == [action["title"] for action in card.get("actions", [])]


def test_a_button_of_a_card_opens_the_page(browser: Browser, tmp_path: Path) -> None:
    _draw(browser, tmp_path, _card("stopped"), 390)

    browser.click("button")

    assert browser.run("return window.opened") == overview(EVERY["stopped"])


def test_the_renderer_says_what_is_no_card(browser: Browser, tmp_path: Path) -> None:
    """So that a card without faults means something."""
    card = {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "NoSuchBlock"}]}

    _draw(browser, tmp_path, card, 390)

    assert len(browser.run("return window.faults")) == 1
