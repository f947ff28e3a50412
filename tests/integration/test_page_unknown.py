"""What the page says where something is not known, in a real Chromium."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lagwatch.query import SnapshotQueries
from tests.support.api_doubles import cluster_health
from tests.support.browser import Browser
from tests.support.history import Live
from tests.support.many_groups import ROW, open_fleet, serving_page
from tests.support.waiting import eventually

_CLUSTER = "here"
_HIDDEN = "the topic was deleted, or lagwatch may not describe it"


@pytest.fixture(scope="module")
def url(browser: Browser) -> Iterator[str]:
    """Groups of which a topic became invisible: one of two that it reads, and the only one.

    And a group that is new, and behind.
    """
    live = Live()
    live.topics(audit=1, orders=2)
    for step in range(8):
        for partition in range(2):
            live.produce("orders", partition, 10)
        live.wait(5)
        offset = 110 + 10 * step
        live.commit(
            *(("partly", "orders", partition, offset) for partition in range(2)),
            ("partly", "audit", 0, 100),
            ("wholly", "audit", 0, 100),
            ("seen", "orders", 0, offset),
        )
        live.judge()
    live.topics("audit", orders=2)
    live.commit(("new", "orders", 0, 150))
    live.wait(5)
    live.judge()
    health = lambda: (cluster_health(_CLUSTER, ready=True),)  # noqa: E731 a name would say no more
    queries = SnapshotQueries({_CLUSTER: live.monitor}, health=health)
    with serving_page(browser, queries) as address:
        yield address


@pytest.mark.parametrize("width", [1440, 390])
def test_the_list_says_why_partitions_of_a_group_are_unknown(
    browser: Browser, url: str, width: int, tmp_path: Path
) -> None:
    browser.look(width, 844, "light")
    open_fleet(browser, f"{url}?sort=group")

    eventually(lambda: any(_HIDDEN in text for text in browser.texts(ROW)), "the reason comes")
    browser.picture(tmp_path / "list.png")

    names, notes, lags, times = (
        browser.texts(f"{ROW} {which}") for which in (".c-group a", ".note", ".c-lag", ".c-time")
    )
    assert dict(zip(names, notes, strict=True)) == {
        "new": "30 messages to read and 1 commit seen so far: too little to judge",
        "partly": f"1 of 3 partitions unknown: {_HIDDEN}",
        "seen": "",
        "wholly": _HIDDEN,
    }
    assert dict(zip(names, zip(lags, times, strict=True), strict=True)) == {
        "new": ("30", "19.5 s"),
        "partly": ("unknown", "log end not known"),
        "seen": ("0", "0 s"),
        "wholly": ("unknown", "unknown"),
    }, "at least nothing is not known"
    browser.look(1280, 800, "light")


def test_a_heading_counts_the_groups_under_it_that_are_unknown(browser: Browser, url: str) -> None:
    browser.look(1440, 900, "light")
    open_fleet(browser, f"{url}?view=cluster")

    eventually(lambda: browser.texts(".heading") != [], "the heading comes")

    assert browser.text(".heading") == f"{_CLUSTER} · 4 groups, 2 unknown"


def test_a_rate_that_is_not_known_yet_is_called_so(browser: Browser, url: str) -> None:
    browser.look(1440, 900, "light")
    open_fleet(browser, f"{url}?q=new")
    eventually(lambda: browser.texts(f"{ROW} .c-rate") == ["not yet"], "speeds come")

    until = browser.texts(f"{ROW} .c-up")
    browser.open(f"{url}?group=new&of={_CLUSTER}")
    eventually(lambda: "Produced" in browser.text("#g-facts"), "the group is shown")
    facts = browser.text("#g-facts")

    assert until == ["no rate yet"]
    assert facts.count("not measured yet") == 2
    assert "1 of 1 partitions: too few commits seen" in facts
    assert "not known yet: too few commits" in facts


def test_a_rate_of_a_group_is_a_bound_where_only_most_partitions_are_measured(
    browser: Browser, url: str
) -> None:
    browser.look(1440, 900, "light")
    browser.open(f"{url}?group=partly&of={_CLUSTER}")
    eventually(lambda: "Produced" in browser.text("#g-facts"), "the group is shown")

    facts = browser.texts("#g-facts div")

    missing = "not measured in 1 of 3 partitions: log end not known"
    shown = [[line.strip() for line in fact.splitlines() if line.strip()] for fact in facts]
    assert [fact for fact in shown if fact[0] == "Produced"] == [
        ["Produced", "at least 2.7/s", missing]
    ]
    assert ["Read", "4/s"] in shown


def test_a_group_that_reads_but_one_partition_is_not_said_to_read_nothing(
    browser: Browser, url: str
) -> None:
    parts = [{"catch_up_reason": reason} for reason in ("caught_up", "not_moving", "catching_up")]
    stuck = {"catch_up_reason": "not_moving", "catch_up_s": None, "status": "ERR"}
    browser.open(url)

    said = browser.run(
        "const { catchUp } = await import('/ui/words.js'); return given[0].map(catchUp)",
        [
            {**stuck, "consumed_per_s": 12.0, "partitions": parts},
            {**stuck, "consumed_per_s": 12.0, "partitions": [*parts, *parts]},
            {**stuck, "consumed_per_s": 12.0},  # of the list
            {**stuck, "consumed_per_s": 0.0, "partitions": parts},
        ],
    )

    assert said == [
        "never: 1 of 3 partitions is not read",
        "never: 2 of 6 partitions are not read",
        "never: not all partitions are read",
        "never: nothing is read",
    ]


def test_of_a_group_that_is_read_without_members_it_is_not_said_that_nothing_reads(
    browser: Browser, url: str
) -> None:
    browser.open(f"{url}?group=new&of={_CLUSTER}")
    eventually(lambda: browser.text("#g-members-said") != "", "the group is shown")

    said = browser.run(
        "const { fillMembers } = await import('/ui/members.js');"
        "const said = document.querySelector('#g-members-said');"
        "return given[0].map((read) => (fillMembers([], read), said.textContent))",
        [0.0, 1.9, None],
    )

    assert said == [
        "No members: nothing reads for this group.",
        (
            "No members, but its offsets are committed: by a consumer that assigns partitions "
            "itself, or by another program."
        ),
        "No members.",
    ]


def test_a_group_says_which_partitions_are_unknown_and_why(browser: Browser, url: str) -> None:
    browser.open(f"{url}?group=partly&of={_CLUSTER}")
    eventually(lambda: "1 of 3" in browser.text("#g-facts"), "the group is shown")

    tile = browser.run("return document.querySelector('#g-heat button').title")
    verdicts = browser.texts("#g-table td:nth-child(3)")

    facts = browser.texts("#g-facts dd > span")
    assert facts[:2] == ["unknown", "unknown"]
    assert f"1 of 3 partitions not counted: {_HIDDEN}" in browser.text("#g-facts")
    assert f"UNKNOWN: {_HIDDEN}" in tile
    assert sorted(verdicts) == ["OK", "OK", f"UNKNOWN: {_HIDDEN}"]
