"""The page in a real Chromium: over a real broker's groups, and over ten thousand."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from confluent_kafka import Consumer

from lagwatch.config.tokens import line, new_token
from lagwatch.core.words import client, duration
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch_api.v1.wording import HEADLINES
from tests.support.browser import Browser
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.many_groups import NAMES, ROW, open_fleet, serving_many
from tests.support.relay import relaying
from tests.support.served import Served, serving
from tests.support.traffic import committing, producer_of, running
from tests.support.waiting import eventually

_QUICK = (
    "[evaluator]\ninterval_s = 1\nstop_after_s = 10\nstall_after_s = 10\n"
    "[windows]\nintervals = 5\nmin_distance_s = 0\n"
    "[history]\ninterval_s = 2\nflush_s = 1\n"
    '[alerts.webhook.nobody]\nurl = "http://127.0.0.1:1"\n'
    '[alerts.policies.storage]\ngroup = "^stalled"\nteam = "storage"\n'
    'runbook = "https://wiki.example.com/storage"\n'
    "[alerts.policies.rest]\n"
)

_HOLES = """
const { bands, betweenSamples } = await import("/ui/past.js");
const points = given[0].map((status) => ({ status, samples: status ? 1 : 0 }));
return [bands(points), betweenSamples(points), betweenSamples(points, 4)];
"""
"""Of verdicts of points: the strip, and what is between samples of a group, and of a partition."""
_SEEN = (
    "return [...document.querySelectorAll(given[0])].filter((one) => one.checkVisibility())"
    ".map((one) => one.innerText)"
)
_CURVES = "return !!document.querySelector('#g-past .u-over')"
_STRIP = """
const canvas = document.querySelector("#g-past canvas");
const over = document.querySelector("#g-past .u-over").getBoundingClientRect();
const box = canvas.getBoundingClientRect(), scale = canvas.width / box.width;
const paint = document.createElement("canvas").getContext("2d");
const level = (name) => {
  paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  paint.fillRect(0, 0, 1, 1);
  return [...paint.getImageData(0, 0, 1, 1).data].join();
};
const y = Math.round((over.bottom - box.top) * scale) - 3;
const row = canvas.getContext("2d").getImageData(0, y, canvas.width, 1).data;
const found = { ok: 0, warn: 0, err: 0, all: 0 };
const names = Object.fromEntries(["ok", "warn", "err"].map((name) => [level(name), name]));
for (let at = 0; at < row.length; at += 4) {
  const name = names[[...row.slice(at, at + 4)].join()];
  if (name) { found[name] += 1; found.all += 1; }
}
return found;
"""
"""How many pixels of the strip below the curves have the colour of each level."""
_ENDS = """
return [...document.querySelectorAll(given[0])].map((cell) => {
  const link = cell.querySelector("a"), box = link.getBoundingClientRect();
  const [start, end] = [...link.querySelectorAll("span")].map((one) => one.getBoundingClientRect());
  const uncut = [link, link.firstChild].every((one) => one.scrollWidth <= one.clientWidth);
  return [uncut, end.width > 0 && end.right <= box.right + 1 && end.left >= start.right - 1];
});
"""
"""By cell: is the name whole, and is its end seen, right behind its start?"""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A real broker's groups, watched by a real lagwatch."""

    lagwatch: Served
    stalled: str
    current: str
    odd: str
    """Its name is markup."""
    topic: str

    def subscriptions(self) -> dict[str, Any]:
        """Group → its topics, clients and teams."""
        path = f"/api/v1/clusters/{self.lagwatch.cluster}/subscriptions"
        return dict(self.lagwatch.get(path)["groups"])

    def at(self, group: str) -> str:
        return f"{self.lagwatch.base}/?group={quote(group, safe='')}&of={self.lagwatch.cluster}"


@pytest.fixture(scope="module")
def scene(own_kafka: EmbeddedKafka) -> Iterator[Scene]:
    """A group that commits but never moves, one that has read all, and one with an odd name."""
    topic, quiet = (
        create_topic(own_kafka, "growing"),
        create_topic(own_kafka, "quiet", partitions=2),
    )
    stalled, current = unique("stalled"), unique("current")
    odd = f'<img src=x onerror="document.title=1">&/{unique("odd")}'
    produce(own_kafka, topic, 50)
    produce(own_kafka, quiet, 10)
    commit(own_kafka, current, quiet, 10)
    commit(own_kafka, odd, quiet, 3)
    stuck = committing(own_kafka, stalled, topic, lambda _: 7, every_s=1)
    options: dict[str, object] = {"log_end_interval_s": 1, "group_interval_s": 2}
    with (
        running(stuck, producer_of(own_kafka, topic, rate=20)),
        serving(own_kafka.bootstrap_servers, cluster=options, sections=_QUICK) as lagwatch,
    ):
        lagwatch.wait_ready()
        built = Scene(lagwatch=lagwatch, stalled=stalled, current=current, odd=odd, topic=topic)
        eventually(lambda: (lagwatch.status(stalled) or {}).get("status") == "ERR", "it is stalled")
        yield built


def test_durations_and_verdicts_read_on_the_page_as_everywhere_else(
    browser: Browser, scene: Scene
) -> None:
    seconds = [0, 0.04, 0.25, 9.99, 59.94, 59.96, 61, 192.5, 3599.97, 3600, 90_061, 172_800]
    browser.open(scene.lagwatch.base)
    words = "const { duration, VERDICTS } = await import('/ui/words.js'); "

    shown = browser.run(words + "return given[0].map(duration)", seconds)
    verdicts = browser.run(words + "return VERDICTS")

    assert shown == [duration(each) for each in seconds]
    assert verdicts == {status.name: text for status, text in HEADLINES.items()}


def test_members_read_on_the_page_as_everywhere_else(browser: Browser, scene: Scene) -> None:
    members = [("a", "/10.0.3.14"), ("a", "host"), ("a", ""), ("", "/10.0.3.14"), ("", "")]
    browser.open(scene.lagwatch.base)

    shown = browser.run(
        "const { member } = await import('/ui/words.js'); "
        "return given[0].map(([clientId, host]) => member(clientId, host))",
        members,
    )

    assert shown == [client(*each) for each in members]


def open_group(browser: Browser, url: str) -> None:
    browser.open(url)
    eventually(lambda: browser.text("#g-mark") != "", "the verdict is shown")


def headings(
    browser: Browser, view: str, found: list[dict[str, Any]], every: list[dict[str, Any]]
) -> list[list[object]]:
    """Headings of a view of the groups that were found, and how many groups each has."""
    call = "const { arranged } = await import('/ui/views.js');"
    call += "const [found, all] = [given[1], given[2]].map((groups) => groups.map((group) =>"
    call += " ({ trouble: 1, worst: 'OK', ...group })));"
    call += (
        "return arranged(found, given[0], () => false, all).map((one) => [one.heading, one.count])"
    )
    counted: list[list[object]] = browser.run(call, view, found, every)
    return counted


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
class TestLooks:
    def test_the_fleet_shows_the_worst_first_and_has_no_barrier(
        self, browser: Browser, scene: Scene, size: tuple[int, int], scheme: str, tmp_path: Path
    ) -> None:
        browser.look(*size, scheme)
        browser.errors()

        open_fleet(browser, f"{scene.lagwatch.base}/")

        rows = browser.texts(ROW)
        assert scene.stalled in rows[0]
        assert "STALLED" in rows[0]
        assert any(scene.current in row and "OK" in row for row in rows)
        assert browser.barriers() == []
        assert browser.errors() == []
        assert _overflow(browser) == 0
        assert is_lit(browser) == (scheme == "light")
        assert len(browser.picture(tmp_path / "fleet.png")) > 10_000

    def test_a_group_shows_its_verdict_as_a_sentence_and_has_no_barrier(
        self, browser: Browser, scene: Scene, size: tuple[int, int], scheme: str, tmp_path: Path
    ) -> None:
        browser.look(*size, scheme)
        browser.errors()

        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: browser.text("#g-past-said") == "", "its past is drawn")
        eventually(
            lambda: "although it goes on committing" in browser.text("#g-sentence"),
            "the sentence of a stall",
        )

        sentence = browser.text("#g-sentence")
        assert sentence.startswith("STALLED since ")
        assert "offset 7 unchanged for " in sentence
        assert sentence.endswith(" messages to read.")
        assert browser.run("return document.querySelectorAll('#g-window canvas').length") == 1
        assert f"{scene.topic} partition 0: STALLED" in browser.run(
            "return document.querySelector('.heat button').getAttribute('aria-label')"
        )
        assert browser.barriers() == []
        assert [each for each in browser.errors() if "SEVERE" in each] == []
        assert _overflow(browser) == 0
        assert len(browser.picture(tmp_path / "group.png")) > 10_000


class TestUse:
    def test_the_address_holds_what_is_shown(self, browser: Browser, scene: Scene) -> None:
        browser.look(1280, 800, "light")
        open_fleet(browser, f"{scene.lagwatch.base}/")

        browser.type("#q", scene.stalled)
        eventually(lambda: len(browser.texts(ROW)) == 1, "one group is left")
        browser.click(f"{ROW} a")
        eventually(lambda: browser.text("#group-name") == scene.stalled, "the group opens")
        shared = browser.url
        browser.back()
        eventually(lambda: len(browser.texts(ROW)) == 1, "the search is as it was")

        assert browser.run("return document.querySelector('#q').value") == scene.stalled
        open_group(browser, shared)
        assert browser.text("#group-name") == scene.stalled

    def test_keys_alone_lead_to_a_group_and_back(self, browser: Browser, scene: Scene) -> None:
        browser.look(1280, 800, "light")
        open_fleet(browser, f"{scene.lagwatch.base}/")

        browser.press("/")
        browser.press(scene.stalled)
        eventually(lambda: len(browser.texts(ROW)) == 1, "one group is left")
        browser.press("\ue015")  # arrow down
        browser.press("\ue007")  # enter
        eventually(lambda: browser.text("#group-name") == scene.stalled, "the group opens")
        browser.press("\ue00c")  # escape
        eventually(lambda: len(browser.texts(ROW)) == 1, "back among the groups")

    def test_by_team_groups_are_under_the_team_of_their_alert_policy(
        self, browser: Browser, scene: Scene
    ) -> None:
        open_fleet(browser, f"{scene.lagwatch.base}/?view=team")
        eventually(
            lambda: "storage · 1 group, 1 in trouble" in browser.texts(".heading"), "the team"
        )

        browser.click(".heading[data-heading='storage']")
        eventually(lambda: scene.stalled in " ".join(browser.texts(ROW)), "it opens")
        first, *others = browser.texts(".heading:not([hidden])")
        browser.open(f"{scene.lagwatch.base}/?q=storage&view=team")  # teams are searched as well
        eventually(lambda: browser.text("#shown").startswith("1 of "), "the team is found")
        eventually(lambda: scene.stalled in " ".join(browser.texts(ROW)), "what is found is seen")
        browser.click(".heading[data-heading='storage']")
        eventually(lambda: scene.stalled not in " ".join(browser.texts(ROW)), "it folds")

        assert first.startswith("storage")
        assert any(text.startswith("(no alert policy names a team) · ") for text in others)

    def test_by_client_groups_are_under_the_client_that_reads_for_them(
        self, browser: Browser, scene: Scene, own_kafka: EmbeddedKafka
    ) -> None:
        group = unique("read")
        consumer = Consumer(
            own_kafka.admin_config() | {"group.id": group, "client.id": "billing-7"}
        )
        try:
            consumer.subscribe([scene.topic])
            eventually(lambda: consumer.poll(0.1) is not None, "it reads", timeout_s=90)
            consumer.commit(asynchronous=False)
            eventually(
                lambda: (scene.subscriptions().get(group) or {}).get("clients") == ["billing-7"],
                "lagwatch knows the client",
            )

            open_fleet(browser, f"{scene.lagwatch.base}/?view=client")
            eventually(
                lambda: any(
                    text.startswith("billing · 1 group") for text in browser.texts(".heading")
                ),
                "the client, without its number",
            )
            browser.click(".heading[data-heading='billing']")
            eventually(lambda: group in " ".join(browser.texts(ROW)), "it opens")
        finally:
            consumer.close()

    def test_clients_are_of_one_service_only_where_their_ends_show_it(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        clients = [["pay-client"], ["pay-client2"], ["api1", "api2"], ["log-1", "log-2"], ["7"]]
        groups = [{"group": f"g{nth}", "clients": each} for nth, each in enumerate(clients)]

        found = headings(browser, "client", groups, groups)

        assert sorted(found) == [
            ["7", 1],
            ["api", 1],
            ["log", 1],
            ["pay-client", 1],
            ["pay-client2", 1],
        ]

    def test_the_strip_is_unknown_where_more_than_a_quarter_was_not_recorded(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        call = "const { bands } = await import('/ui/past.js');"
        call += "return given[0].map((points) => bands(points.map(([samples, status]) => "
        call += "({ samples, status }))))"
        outage = [[2, "OK"], [12, "OK"], [2, "OK"], [0, None], [9, "WARN"], [12, "OK"], [1, "OK"]]
        short = [[12, "OK"], [12, "OK"], [6, "OK"], [9, "OK"], [12, "ERR"], [11, "ERR"]]
        slower = [[2, "OK"], [2, "OK"], [2, "OK"], [12, "OK"], [12, "OK"]]
        # each change is recorded beside the samples of its time
        changes = [[2, "OK"], [3, "WARN"], [7, "ERR"], [2, "WARN"], [2, "OK"], [2, "OK"]]

        found = browser.run(call, [outage, short, slower, changes])

        unknown = "UNKNOWN"
        assert found == [
            ["OK", "OK", unknown, unknown, "WARN", "OK", "OK"],
            ["OK", "OK", unknown, "OK", "ERR", "ERR"],
            ["OK"] * 5,
            ["OK", "WARN", "ERR", "WARN", "OK", "OK"],
        ]

    def test_a_second_between_two_samples_is_no_hole_and_a_minute_without_any_is_one(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        # a point a second, a sample each five seconds, and 45 s without
        seconds = [*["OK", *[None] * 4] * 4, "ERR", *[None] * 44, *["ERR", *[None] * 4] * 4, "OK"]

        verdicts, between, _ = browser.run(_HOLES, seconds)

        hole = slice(21, 65)
        assert verdicts == [*["OK"] * 20, "ERR", *["UNKNOWN"] * 44, *["ERR"] * 20, "OK"]
        assert between[:20] == [False, True, True, True, True] * 4
        assert between[hole] == [False] * 44

    def test_the_last_step_before_a_hole_is_as_wide_as_every_other(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        call = "const { withWidth } = await import('/ui/past.js');"
        call += "return withWidth(given[0].map(([at, lag, late]) => ({ at, lag, late })))"
        steps = [[0, 5, 1], [60, 6, None], [120, None, None], [180, 7, 1], [240, 8, 1]]

        found = browser.run(call, steps)

        ends = [(each["at"], each["lag"], each["late"]) for each in found]
        assert ends[:4] == [(0, 5, 1), (59.999, 5, 1), (60, 6, None), (119.999, 6, None)]
        assert [at for at, *_ in ends[4:]] == [120, 180, 240]

    def test_a_round_without_a_sample_is_a_hole_of_a_group_and_a_rest_of_a_partition(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        # a point and a sample each half minute, and an outage of a minute; a change of the interval
        rounds = [*["OK"] * 6, None, None, *["OK"] * 6, *[None, None, "OK"] * 6]

        _, of_group, of_partition = browser.run(_HOLES, rounds)
        _, few, _ = browser.run(_HOLES, ["OK", "OK", None, None, "OK"])

        assert of_group[6:8] == [False, False]
        assert few == [False] * 5
        assert of_group[14:] == [True, True, False] * 6
        assert of_partition[6:8] == [True, True]

    def test_a_prefix_is_a_heading_only_where_groups_share_it(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.open(scene.lagwatch.base)
        names = ["billing-a", "billing-b", "team.x-1", "team.x-2", "team", "alone-1", "other"]
        groups = [{"group": name} for name in names]

        whole = headings(browser, "prefix", groups, groups)
        searched = headings(browser, "prefix", groups[:1], groups)

        assert whole == [["team", 3], ["billing", 2], ["(no prefix shared)", 2]]
        assert searched == [["billing", 1]]

    def test_a_filter_by_status_leaves_only_these(self, browser: Browser, scene: Scene) -> None:
        open_fleet(browser, f"{scene.lagwatch.base}/?status=STALL")

        rows = browser.texts(ROW)

        assert rows
        assert all("STALLED" in row for row in rows)

    def test_a_name_that_is_markup_stays_text(self, browser: Browser, scene: Scene) -> None:
        browser.errors()

        open_fleet(browser, f"{scene.lagwatch.base}/?q=onerror")
        assert any(scene.odd in row for row in browser.texts(ROW))
        open_group(browser, scene.at(scene.odd))

        assert browser.text("#group-name") == scene.odd
        assert browser.run("return document.images.length") == 0
        assert [each for each in browser.errors() if "SEVERE" in each] == []

    def test_changes_come_by_themselves(
        self, browser: Browser, scene: Scene, own_kafka: EmbeddedKafka
    ) -> None:
        open_fleet(browser, f"{scene.lagwatch.base}/")
        new = unique("new")

        commit(own_kafka, new, scene.topic, 1)

        eventually(lambda: any(new in row for row in browser.texts(ROW)), "the new group comes")

    def test_a_lost_connection_is_reported_and_mends_itself(
        self, browser: Browser, scene: Scene, own_kafka: EmbeddedKafka
    ) -> None:
        new = unique("meanwhile")
        with relaying(int(scene.lagwatch.base.rpartition(":")[2])) as relay:
            open_fleet(browser, f"http://127.0.0.1:{relay.port}/")
            eventually(lambda: browser.text("#live").startswith("live"), "it is live")

            relay.cut()
            eventually(lambda: "connection lost" in browser.text("#live"), "the loss is reported")
            shown = browser.text("#live"), browser.texts(ROW)
            commit(own_kafka, new, scene.topic, 1)
            relay.mend()

            eventually(lambda: browser.text("#live").startswith("live"), "it is live again")
            eventually(lambda: any(new in row for row in browser.texts(ROW)), "the news is shown")
            browser.open("about:blank")
        assert "old" in shown[0]
        assert any(scene.stalled in row for row in shown[1])

    def test_dragging_over_the_curves_zooms_and_can_be_undone(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(
            lambda: browser.run("return !!document.querySelector('#g-past .u-over')"), "curves"
        )
        eventually(
            lambda: (
                "verdict OK → ERR" in browser.text("#g-events")
                or "→ ERR" in browser.text("#g-events")
            ),
            "the change of the verdict is listed",
        )

        browser.drag("#g-past .u-over", 200, right=300)  # what is there is new: it is at the end
        eventually(lambda: "range=own" in browser.url, "the address has the range")
        eventually(lambda: browser.run(_CURVES), "its curves")
        selected = browser.run("return document.querySelector('#g-past .u-select').clientWidth")
        zoomed = browser.url
        browser.back()
        eventually(lambda: "range=own" not in browser.url, "back is to the range before")
        assert "group=" in browser.url
        browser.open(zoomed)
        eventually(lambda: bool(browser.texts("#unzoom")), "the page is there again")
        browser.click("#unzoom")

        eventually(lambda: "range=own" not in browser.url, "the whole range is back")
        assert selected == 0
        assert [error for error in browser.errors() if "SEVERE" in error] == []

    def test_the_usual_range_begins_where_the_data_begin(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: browser.run(_CURVES), "curves")
        eventually(lambda: browser.run(_STRIP)["all"] > 0, "data")
        width = browser.run("return document.querySelector('#g-past .u-over').clientWidth")
        chosen = browser.run("return document.querySelector('#range').value")

        browser.drag("#g-past .u-over", 200)
        eventually(lambda: "range=own" in browser.url, "the address has the range")

        asked = parse_qs(urlsplit(browser.url).query)
        begin, end = (datetime.fromisoformat(asked[name][0]) for name in ("from", "to"))
        shown = (end - begin) * (width / 200)
        assert chosen == "6h"
        assert timedelta(0) < shown < timedelta(hours=1)  # lagwatch has watched for minutes

    def test_a_strip_under_the_curves_has_the_colours_of_the_verdicts(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")

        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: browser.run(_CURVES), "curves")
        eventually(lambda: browser.run(_STRIP)["err"] > 0, "a sample since it is in ERR")

        open_group(browser, scene.at(scene.current))
        eventually(lambda: browser.run(_CURVES), "curves")
        eventually(lambda: browser.run(_STRIP)["ok"] > 0, "a sample while it is OK")
        assert browser.run(_STRIP)["err"] == 0

    def test_a_group_has_its_runbook_and_its_address_to_share(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: browser.text("#g-runbook") == "Runbook", "the runbook of its policy")
        runbook = browser.run("return document.querySelector('#g-runbook a').href")
        shared = browser.url

        browser.click("#share")
        eventually(lambda: browser.text("#shared") == "Copied.", "it is copied")
        browser.type("#mute-reason", "\ue009v\ue000")  # control and v

        assert runbook == "https://wiki.example.com/storage"
        pasted = browser.run("return document.querySelector('#mute-reason').value")
        assert pasted == shared

    def test_a_group_says_what_to_do_and_who_is_in_it(self, browser: Browser, scene: Scene) -> None:
        open_group(browser, scene.at(scene.stalled))

        eventually(lambda: "message that it cannot process" in browser.text("#g-to-do"), "steps")
        assert browser.text("#g-members-said").startswith("No members")
        assert "Caught up in" in browser.text("#g-facts")

    def test_on_a_phone_how_far_a_group_is_behind_is_seen_without_scrolling(
        self, browser: Browser, scene: Scene, tmp_path: Path
    ) -> None:
        browser.look(390, 844, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: "Caught up in" in browser.text("#g-facts"), "its figures")

        bottom = browser.run(
            "return document.querySelector('#g-facts').getBoundingClientRect().bottom"
        )
        browser.picture(tmp_path / "facts.png")

        assert "Time lag" in browser.text("#g-facts")
        assert bottom < 844
        browser.look(1280, 800, "light")

    def test_a_group_names_the_cause_and_what_would_refute_it(
        self, browser: Browser, scene: Scene
    ) -> None:
        open_group(browser, scene.at(scene.stalled))
        eventually(lambda: "Cause (likely)" in browser.text("#g-cause-name"), "the cause")
        said = browser.text("#g-cause"), browser.text("#g-refuted")

        open_group(browser, scene.at(scene.current))

        assert (
            said[0] == "The consumer does not get past offset 7, which it commits again and again."
        )
        assert said[1].startswith("It is another cause if: the consumer is paused on purpose")
        assert browser.run("return document.querySelector('#g-cause-box').hidden")

    def test_the_list_names_the_cause_beside_the_group(
        self, browser: Browser, scene: Scene
    ) -> None:
        open_fleet(browser, f"{scene.lagwatch.base}/?q={scene.stalled}")

        eventually(lambda: "stuck on record" in browser.texts(ROW)[0], "the cause comes")
        browser.look(390, 844, "dark")
        eventually(lambda: "stuck on record" in browser.texts(ROW)[0], "also on a phone")
        assert _overflow(browser) == 0
        browser.look(1280, 800, "light")

    def test_on_a_phone_a_group_in_trouble_shows_its_cause_whole_and_where_its_lag_goes(
        self, browser: Browser, scene: Scene, tmp_path: Path
    ) -> None:
        browser.look(390, 844, "light")
        browser.open(f"{scene.lagwatch.base}?q={scene.stalled}")
        going = "return document.querySelector(given[0])?.checkVisibility() ?? false"
        eventually(
            lambda: (
                browser.texts(f"{ROW} .note") == ["stuck on record"]
                and browser.run(going, f"{ROW} .going")
            ),
            "cause and trend come",
        )

        long = "acknowledged by somebody with a very long name of the night shift, stuck on record"
        whole = browser.run(
            "const note = document.querySelector(given[0]); const text = note.textContent;"
            "const seen = () => note.scrollWidth <= note.clientWidth &&"
            " note.scrollHeight <= note.clientHeight + 1 &&"
            " note.getBoundingClientRect().right <= innerWidth;"
            "const short = seen(); note.textContent = given[1]; return [short, seen()]",
            f"{ROW} .note",
            long,
        )
        browser.picture(tmp_path / "phone.png")

        assert whole == [True, True]
        assert browser.texts(f"{ROW} .c-up")[0] != ""
        browser.look(1280, 800, "light")

    def test_on_a_phone_rows_of_different_heights_neither_overlap_nor_leave_gaps(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(390, 844, "light")
        browser.open(scene.lagwatch.base)
        eventually(lambda: "stuck on record" in browser.texts(f"{ROW} .note"), "the cause comes")

        edges = browser.run(
            "return [...document.querySelectorAll(given[0])]"
            ".map((row) => row.getBoundingClientRect())"
            ".map(({ top, bottom }) => [top, bottom]).sort((a, b) => a[0] - b[0])",
            ROW,
        )

        heights = {round(bottom - top) for top, bottom in edges}
        assert len(heights) > 1
        between = [after[0] - before[1] for before, after in pairwise(edges)]
        assert all(abs(each) <= 1 for each in between)
        browser.look(1280, 800, "light")

    def test_a_group_that_is_opened_first_has_the_totals_over_it(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")

        open_group(browser, scene.at(scene.stalled))

        eventually(lambda: "in error" in browser.text("#totals"), "the totals come")

    def test_an_incident_is_acknowledged_in_place_and_the_list_shows_it(
        self, browser: Browser, scene: Scene
    ) -> None:
        browser.look(1280, 800, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(
            lambda: "Acknowledge" in browser.text("#incident-list"), "the incident can be taken"
        )
        said = browser.text("#incident-list")
        assert f"ERROR: {scene.stalled} on " in said, "the words of its notices"
        assert "\nCause" in said

        browser.click("#incident-list button")
        eventually(lambda: "acknowledged" in browser.text("#incident-list"), "it is taken")
        open_fleet(browser, f"{scene.lagwatch.base}/?q={scene.stalled}")

        eventually(lambda: "acknowledged" in browser.texts(ROW)[0], "the list shows it")

    def test_mutes_have_a_page_of_their_own(self, browser: Browser, scene: Scene) -> None:
        browser.look(390, 844, "dark")
        browser.open(f"{scene.lagwatch.base}/?page=mutes")
        eventually(lambda: "every notice is sent" in browser.text("#all-mutes"), "there are none")

        browser.type("#new-group", "current-*")
        browser.type("#new-reason", "rollout")
        browser.click("#mutes-page form button")
        eventually(lambda: "rollout" in browser.text("#all-mutes"), "it is listed")
        barriers = browser.barriers()
        open_fleet(browser, f"{scene.lagwatch.base}/?q={scene.current}")
        eventually(lambda: "muted" in browser.texts(ROW)[0], "the list shows it")
        browser.open(f"{scene.lagwatch.base}/?page=mutes")
        eventually(lambda: "rollout" in browser.text("#all-mutes"), "it is still there")
        browser.click("#all-mutes button")

        eventually(lambda: "every notice is sent" in browser.text("#all-mutes"), "it has ended")
        assert browser.text("#mutes-said") == "The mute has ended."
        assert barriers == []

    def test_without_alerts_no_mute_is_offered(self, browser: Browser) -> None:
        with serving("127.0.0.1:1", sections='[history]\nstore = "none"') as lagwatch:
            browser.open(f"{lagwatch.base}/?page=mutes")
            eventually(lambda: "Alerts may be" in browser.text("#all-mutes"), "the list is there")

            assert browser.run("return document.querySelector('#new-mute').hidden")
            browser.open("about:blank")

    def test_a_mute_is_made_and_ended(self, browser: Browser, scene: Scene) -> None:
        browser.look(1280, 800, "light")
        open_group(browser, scene.at(scene.stalled))
        eventually(
            lambda: not browser.run("return document.querySelector('#incidents').hidden"),
            "mutes are offered",
        )

        browser.type("#mute-reason", "load test")
        browser.click("#mute")
        eventually(lambda: "load test" in browser.text("#mutes"), "it is muted")
        browser.click("#mutes button")
        eventually(lambda: browser.text("#mutes") == "", "it is not muted any more")
        assert browser.text("#mute-said") == "The mute has ended."


@pytest.fixture(scope="module")
def url(browser: Browser) -> Iterator[str]:
    with serving_many(browser, failing=set(NAMES[:100])) as address:
        yield address


class TestTenThousandGroups:
    def test_all_are_there_and_few_are_drawn(self, browser: Browser, url: str) -> None:
        browser.look(1280, 800, "light")
        open_fleet(browser, url)

        assert browser.text("#shown") == "10,000 of 10,000 groups"
        assert len(browser.texts(ROW)) < 60

    def test_typing_filters(self, browser: Browser, url: str) -> None:
        open_fleet(browser, url)

        found = []
        for text, shown in (("service-0999", "10 of 10,000 groups"), ("x", "No group matches")):
            browser.type("#q", text)
            eventually(lambda shown=shown: shown in browser.text("#shown"), shown)  # type: ignore[misc]
            found.append(len(browser.texts(ROW)))

        assert found == [10, 0]

    def test_a_regular_expression_finds_groups_and_a_wrong_one_is_named(
        self, browser: Browser, url: str
    ) -> None:
        open_fleet(browser, f"{url}?q={quote('/^team-3[.]service-000[0-9]/')}")
        found = browser.text("#shown")

        browser.open(f"{url}?q={quote('/(/')}")
        eventually(lambda: "No regular expression" in browser.text("#shown"), "it is named")

        assert found == "3 of 10,000 groups"

    def test_a_total_is_a_filter_and_can_be_taken_back(self, browser: Browser, url: str) -> None:
        open_fleet(browser, url)

        browser.click("#totals [data-status=ERR]")
        eventually(lambda: browser.text("#shown").startswith("100 of"), "only those in error")
        filtered = browser.texts(ROW)
        browser.click("#totals [data-status=ERR]")

        eventually(lambda: browser.text("#shown").startswith("10,000 of"), "all again")
        assert all("STOPPED" in row for row in filtered)

    def test_groups_are_counted_under_headings_that_open(self, browser: Browser, url: str) -> None:
        open_fleet(browser, f"{url}?view=prefix")
        closed = browser.texts(".heading")

        browser.click(".heading[data-heading='team-5']")
        eventually(lambda: any("team-5.service" in row for row in browser.texts(ROW)), "it opens")

        assert any(text.startswith("team-5 · 271 groups") for text in closed)
        assert browser.barriers() == []

    def test_on_a_phone_a_heading_shows_its_counts_whole(self, browser: Browser, url: str) -> None:
        browser.look(390, 844, "light")
        open_fleet(browser, f"{url}?view=team")
        eventually(
            lambda: any("100 in trouble" in text for text in browser.texts(".heading")), "teams"
        )

        cut = "return [...document.querySelectorAll('.heading')].filter((each) => each.offsetWidth"
        cut += " && (each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight))"
        cut_off = browser.run(cut + ".map((each) => each.textContent)")
        browser.look(1280, 800, "light")

        assert cut_off == []

    def test_a_curve_of_one_sample_is_a_point(self, browser: Browser, url: str) -> None:
        browser.open(url)
        drawn = (
            "const { Chart } = await import('/ui/charts.js');"
            "const box = document.body.appendChild(document.createElement('div'));"
            "box.style.cssText = 'position:fixed;inset:0;width:600px;height:300px';"
            "const chart = new Chart(box, [{ label: 'lag', colour: '--link', scale: 'count' }]);"
            "chart.show(given[0]); await new Promise((done) => setTimeout(done, 300));"
            "const canvas = box.querySelector('canvas'), { width, height } = canvas;"
            "const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);"
            "box.remove(); let blue = 0;"
            "for (let at = 0; at < data.length; at += 4)"
            " if (data[at + 3] > 200 && data[at + 2] > data[at] + 60) blue += 1;"
            "return blue;"
        )

        alone, none = (browser.run(drawn, [[1_800_000_000], [lag]]) for lag in (5, None))

        assert alone > none

    def test_by_topic_groups_are_found_that_do_not_bear_its_name(
        self, browser: Browser, url: str
    ) -> None:
        open_fleet(browser, f"{url}?view=topic")

        eventually(
            lambda: "orders · 10,000 groups, 100 in trouble" in browser.texts(".heading"),
            "the topic has all groups",
        )

    def test_a_search_from_the_address_finds_topics_as_well(
        self, browser: Browser, url: str
    ) -> None:
        open_fleet(browser, f"{url}?q=orders")

        eventually(
            lambda: browser.text("#shown") == "10,000 of 10,000 groups", "all that read the topic"
        )

    def test_a_group_in_trouble_says_for_how_long_and_where_its_lag_goes(
        self, browser: Browser, url: str
    ) -> None:
        browser.look(1280, 800, "light")
        open_fleet(browser, f"{url}?status=STOP")

        eventually(lambda: "/s" in browser.texts(".slope")[0], "the trend comes")
        assert browser.texts(".c-since.soft")[0] in {"2 min", "3 min"}
        path = browser.run("return document.querySelector('.spark path').getAttribute('d')")
        assert path.startswith("M")

    def test_on_a_phone_the_cluster_is_seen_and_numbers_say_what_they_are(
        self, browser: Browser, url: str
    ) -> None:
        browser.look(390, 844, "dark")
        open_fleet(browser, f"{url}?status=STOP")

        assert browser.texts(f"{ROW} .c-cluster")[0] == "here"
        before = "return getComputedStyle(document.querySelector(given[0]), '::before').content"
        cells = [browser.run(before, f"{ROW} .{name}") for name in ("c-lag", "c-since", "c-time")]
        assert cells == ['"lag "', '"for "', '"late "']
        browser.look(1280, 800, "light")

    def test_a_group_that_keeps_up_is_steady_and_needs_not_catch_up(
        self, browser: Browser, url: str
    ) -> None:
        browser.open(url)
        words = "const { trend } = await import('/ui/trends.js'); const { catchUp, keepsUp } = "
        words += "await import('/ui/words.js'); "
        known = {"speed": {"consumed_per_s": 120, "lag_trend_per_s": 0.05}}
        by_chance = {"speed": {"consumed_per_s": 120, "lag_trend_per_s": 5, "steady": True}}
        steady = {"catch_up_s": None, "catch_up_reason": "falling_behind", "steady": True}
        answers = [{**steady, "status": "OK"}, {**steady, "status": "WARN"}]
        # one whose verdict is still good, and whose lag grows
        answers.append({**steady, "status": "OK", "steady": False})

        both = "return given[0].flatMap((each) => [trend(each, 'OK'), trend(each, 'WARN')])"
        seen = browser.run(words + both, [known, by_chance])
        texts = browser.run(words + "return given[0].map(catchUp)", answers)

        assert seen == ["steady", "+0.05/s", "steady", "+5/s"]
        assert texts == ["keeps up", "never at this rate", "never at this rate"]

    def test_growth_is_the_measured_one_and_trouble_began_with_its_incident(
        self, browser: Browser, url: str
    ) -> None:
        browser.open(url)
        words = "const { trend } = await import('/ui/trends.js'); const { inTroubleSince } = "
        words += "await import('/ui/alerts.js'); "
        curve = {"lags": [600, 600, 600, 600, 600, 1200, 1800, 2400], "stepMs": 60_000}
        measured = {**curve, "speed": {"lag_trend_per_s": 12.5}}
        unknown = {**curve, "speed": {"lag_trend_per_s": None}}

        seen = browser.run(words + "return given[0].map((one) => trend(one))", [measured, unknown])
        since = browser.run(
            words + "return given[0].map((each) => Object.values(inTroubleSince(...each)))",
            [
                [9000, False, {"since_ms": 4000, "again_ms": None, "since_at_least": True}],
                [9000, True, {"since_ms": 4000, "again_ms": 5000, "since_at_least": True}],
                [9000, True, None],
                [None, False, {"since_ms": 4000, "again_ms": None, "since_at_least": True}],
            ],
        )

        assert seen == ["+13/s", ""], "a curve says nothing of now"
        assert since == [[4000, True], [5000, False], [9000, True], [None, False]]

    def test_no_title_and_no_verdict_of_the_list_is_cut_off(
        self, browser: Browser, url: str
    ) -> None:
        browser.look(1440, 900, "light")
        open_fleet(browser, url)
        browser.run(
            "const { mark } = await import('/ui/words.js');"
            "document.querySelector(given[0]).replaceChildren(mark('REWIND', true))",
            f"{ROW} .c-mark",
        )

        cut = browser.run(
            "return [...document.querySelectorAll('#head > *, .scroll .c-mark, .scroll .c-rate')]"
            ".filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText)"
        )

        assert cut == []
        browser.look(1280, 800, "light")

    def test_a_cause_beside_a_name_of_twenty_characters_is_not_cut_off(
        self, browser: Browser, url: str, tmp_path: Path
    ) -> None:
        browser.look(1280, 800, "light")
        open_fleet(browser, f"{url}?sort=group")

        cut = browser.run(
            "const note = document.querySelector(given[0]);"
            "note.hidden = false;"
            "note.textContent = 'topic recreated';"
            "return [note, note.previousSibling].map((one) => one.scrollWidth > one.clientWidth)",
            f"{ROW} .note",
        )
        browser.picture(tmp_path / "cause.png")

        assert len(browser.texts(f"{ROW} .c-group a")[0]) == 20
        assert cut == [False, False]

    @pytest.mark.parametrize("width", [1440, 390])
    def test_a_long_name_in_the_list_keeps_its_end_and_one_that_fits_is_whole(
        self, browser: Browser, width: int, tmp_path: Path
    ) -> None:
        fits = "team-1.service-orders-eu-1"
        long = f"team-1.{'service-' * 35}orders-eu-1"
        browser.look(width, 844, "light")

        with serving_many(browser, [fits, long]) as url:
            open_fleet(browser, f"{url}?sort=group")
            shown = browser.texts(f"{ROW} .c-group a")
            ends = browser.run(_ENDS, f"{ROW} .c-group")
            notes = browser.run(
                "return [...document.querySelectorAll(given[0])].map((one) => {"
                " one.hidden = false; one.textContent = 'muted';"
                " return one.scrollWidth <= one.clientWidth; })",
                f"{ROW} .note",
            )
            browser.picture(tmp_path / "names.png")

        assert shown == [fits, long]
        (whole, kept), (cut, end) = ends
        assert (whole, kept) == (True, True)
        assert (cut, end) == (False, True)
        assert notes == [True, True], "beside any name it can be read that a group is muted"
        browser.look(1280, 800, "light")

    @pytest.mark.parametrize("width", [1440, 390])
    def test_no_time_lag_of_the_list_is_cut_off(
        self, browser: Browser, url: str, width: int
    ) -> None:
        browser.look(width, 844, "light")
        open_fleet(browser, f"{url}?status=STOP")

        cut = browser.run(
            "const { boundedBrief } = await import('/ui/words.js');"
            "const cell = document.querySelector(given[0]);"
            "return [59.9, 599, 1493, 35940].map((seconds) => {"
            "  cell.textContent = boundedBrief(seconds, 'at_most');"
            "  return [cell.innerText, cell.scrollWidth > cell.clientWidth];"
            "})",
            f"{ROW} .c-time",
        )

        assert cut == [
            *(["≤ 59.9 s", False], ["≤ 9 min 59 s", False]),
            *(["≤ 24 min", False], ["≤ 9 h 59 min", False]),
        ]
        browser.look(1280, 800, "light")

    @pytest.mark.parametrize("width", [1280, 390])
    def test_every_group_can_be_scrolled_to(self, browser: Browser, url: str, width: int) -> None:
        browser.look(width, 800, "light")
        open_fleet(browser, f"{url}?sort=group")

        browser.run("document.querySelector('#scroll').scrollTop = 1e9")

        eventually(lambda: max(NAMES) in " ".join(browser.texts(ROW)), "the last is shown")


def _overflow(browser: Browser) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(browser.run("return Math.max(0, document.documentElement.scrollWidth - innerWidth)"))


def is_lit(browser: Browser) -> bool:
    """Is the background bright?"""
    colour = browser.run("return getComputedStyle(document.body).backgroundColor")
    return int(colour.removeprefix("rgb(").split(",")[0]) > 128


def test_the_page_asks_for_a_token_and_forgets_it_when_asked(
    browser: Browser, tmp_path: Path
) -> None:
    token = new_token()
    (tmp_path / "tokens").write_text(line("alice", "read", token))
    sections = f'[server.auth]\ntokens_file = "{tmp_path}/tokens"\n[history]\nstore = "none"'
    browser.look(1280, 800, "light")
    with serving("127.0.0.1:1", sections=sections) as lagwatch:
        browser.open(f"{lagwatch.base}/")
        browser.errors()
        eventually(lambda: browser.text("#log-in") != "", "it asks for a token")
        assert browser.barriers() == []

        browser.type("#token", "wrong")
        browser.click("#log-in button")
        eventually(lambda: "not known" in browser.text("#log-in-said"), "it is refused")
        browser.type("#token", token)
        browser.click("#log-in button")
        eventually(lambda: browser.text("#who-name") == "alice (read)", "it is accepted")
        eventually(lambda: browser.text("#live") != "connecting …", "the stream is open")
        assert browser.run("return document.cookie") == ""
        assert browser.run("return document.activeElement.id") == "main"

        (tmp_path / "tokens").write_text(line("bob", "read", new_token()))
        os.kill(lagwatch.pid, signal.SIGHUP)
        eventually(lambda: browser.text("#log-in") != "", "her token is revoked")
        (tmp_path / "tokens").write_text(line("alice", "read", token))
        os.kill(lagwatch.pid, signal.SIGHUP)
        eventually(lambda: browser.text("#who-name") == "alice (read)", "she is known again")

        browser.click("#log-out")
        eventually(lambda: browser.text("#log-in") != "", "it asks again")


def test_a_reader_sees_no_buttons(
    browser: Browser, own_kafka: EmbeddedKafka, scene: Scene, tmp_path: Path
) -> None:
    tokens = {"read": new_token(), "operate": new_token()}
    lines = "".join(line(f"a-{right}", right, token) for right, token in tokens.items())
    (tmp_path / "tokens").write_text(lines)
    sections = f'{_QUICK}[server.auth]\ntokens_file = "{tmp_path}/tokens"\n'
    browser.look(1280, 800, "light")
    seen, hints = {}, {}
    options: dict[str, object] = {"log_end_interval_s": 1, "group_interval_s": 2}
    with serving(own_kafka.bootstrap_servers, cluster=options, sections=sections) as lagwatch:
        for right, token in tokens.items():
            browser.open(lagwatch.base)
            eventually(lambda: browser.run(_SEEN, "#log-in button"), "it asks for a token")
            browser.type("#token", token)
            browser.click("#log-in button")
            eventually(
                lambda right=right: browser.text("#who-name") == f"a-{right} ({right})",  # type: ignore[misc]
                "it is accepted",
            )
            open_group(browser, f"{lagwatch.base}/?group={scene.stalled}&of={lagwatch.cluster}")
            eventually(lambda: browser.text("#incident-list") != "", "incidents")
            buttons = browser.run(_SEEN, "#incidents button")
            hints[right] = browser.run(_SEEN, "#may-not")
            browser.open(f"{lagwatch.base}/?page=mutes")
            eventually(lambda: "every notice is sent" in browser.text("#all-mutes"), "mutes")
            seen[right] = [*buttons, *browser.run(_SEEN, "#mutes-page button")]
            browser.open(lagwatch.base)
            eventually(lambda: browser.run(_SEEN, "#log-out"), "it knows who looks")
            browser.click("#log-out")
            eventually(lambda: browser.run(_SEEN, "#log-in button"), "it asks again")
        browser.open("about:blank")

    assert seen["read"] == []
    assert (bool(hints["read"]), bool(hints["operate"])) == (True, False)
    assert seen["operate"] == ["Mute this group", "Mute"]
