"""Names that would turn the direction of a line: anyone who may commit to Kafka chooses them."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from lagwatch.core.words import printable
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import ROW, open_fleet, serving_page
from tests.support.waiting import eventually

_NAME = "pay\u202egpj.exe"
_SHOWN = "pay\ufffdgpj.exe"
_EVERYWHERE = """
const all = [...document.querySelectorAll("*")];
const texts = all.flatMap((one) => [...one.childNodes]).filter((one) => one.nodeType === 3);
const said = [...texts.map((one) => one.data), document.title];
for (const name of ["title", "aria-label"]) said.push(...all.map((one) => one.getAttribute(name)));
return said.filter((text) => text?.includes("gpj.exe"));
"""
"""Every text, title and label of the page with the end of the name."""


@pytest.fixture(scope="module")
def url(browser: Browser) -> Iterator[str]:
    fleet = Fleet([_NAME, "group-1"], ShiftedClock())
    fleet.pass_time(1)
    with serving_page(browser, fleet.queries) as address:
        yield address


def test_a_name_that_turns_its_direction_is_shown_the_same_safe_way_everywhere(
    browser: Browser, url: str
) -> None:
    open_fleet(browser, f"{url}?q=gpj")
    eventually(lambda: len(browser.texts(ROW)) == 1, "it is found by its name")
    in_list = browser.run(_EVERYWHERE)

    browser.open(f"{url}?group={quote(_NAME)}&of={CLUSTER}")
    eventually(lambda: browser.text("#g-mark") == "OK", "its verdict is shown")
    on_page = browser.run(_EVERYWHERE)

    assert [text for text in (*in_list, *on_page) if "\u202e" in text] == []
    assert _SHOWN in in_list
    assert f"{_SHOWN} \N{EN DASH} lagwatch" in on_page
    assert browser.text("#group-name") == _SHOWN


def test_names_are_as_printable_on_the_page_as_everywhere_else(browser: Browser, url: str) -> None:
    names = [
        *("billing", "заказы", "a b", "a\n b", "a\x1b[31m", "\u202eevil", "\u2066x\u2069"),
        *("x\u200f", "a\u00a0b", "a\u2028b", "é", "e\u0301", "日本", "😀", "a\u200db", "\ue000"),
    ]
    browser.open(url)

    shown = browser.run(
        "const { printable } = await import('/ui/words.js'); return given[0].map(printable)", names
    )

    assert shown == [printable(name) for name in names]
