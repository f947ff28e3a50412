"""The page in a real Chromium while clusters cannot be reached, without a Kafka behind it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lagwatch.config.alerts import MuteSettings
from lagwatch.errors import NotFoundError
from lagwatch.monitor import ClusterMonitor
from lagwatch.notify.mutes import from_settings
from lagwatch.ports.alerts import (
    IncidentAsk,
    IncidentRecord,
    Mute,
    NoticeAsk,
    NoticeRecord,
    PolicyRecord,
    TroubleSince,
)
from lagwatch.ports.queries import ClusterHealth, Partitions, Queries
from lagwatch.query import SnapshotQueries
from lagwatch_api import create_app
from tests.support.api_doubles import NOW_MS, GivenSettings, RecordingCommands, cluster_health
from tests.support.browser import Browser
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock
from tests.support.many_groups import ROW, open_fleet, serving_many
from tests.support.relay import Relay, relaying
from tests.support.serving import served
from tests.support.waiting import eventually

_REFUSED = (
    "nothing listens at 127.0.0.1:1 (connection refused); is the broker up, and is the port in "
    "clusters.dr-site.bootstrap right? (127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: "
    "Connection refused (after 0ms in state CONNECT, 546 identical error(s) suppressed))"
)
_LONG = "team." + "x" * 290 + ".orders"
_SUMMARY = "#troubles summary"
_TOTALS = "#totals > :not([hidden]):not(:empty)"
_FOCUSED = "return document.activeElement.innerText"
_TITLE = "return document.title"
_SEEN = """
const text = document.querySelector("#troubles summary span").firstChild;
const range = new Range();
const begin = text.data.indexOf(given[0]);
range.setStart(text, begin);
range.setEnd(text, begin + given[0].length);
const line = document.querySelector("#troubles summary");
const [seen, box] = [range, line].map((one) => one.getBoundingClientRect());
return begin >= 0 && seen.right <= box.right && seen.bottom <= box.bottom;
"""
"""Are these words of the line seen?"""
_HEIGHT = "return document.querySelector('#troubles').getBoundingClientRect().height"


class ConfiguredQueries(SnapshotQueries):
    """Answers for the clusters of a configuration, which can change."""

    removed = ""
    """This cluster is not in it any more."""

    def clusters(self) -> tuple[str, ...]:
        return tuple(cluster for cluster in super().clusters() if cluster != self.removed)


class Sites:
    """Eight groups on a cluster, of which two have failed, and another cluster out of reach."""

    def __init__(self) -> None:
        self.clock = ShiftedClock()
        groups = [f"group-{number}" for number in range(6)]
        self.fleet = Fleet([*groups, "..", _LONG], self.clock)
        self.fleet.fail("group-0", "group-1")
        self.gone = False
        self.began_ms: int | None = None
        """Of lagwatch, for the cluster out of reach."""
        self.url = ""
        self.alerts = GivenAlerts()
        away = ClusterMonitor("dr-site", self.fleet.monitor.settings)
        moments = {CLUSTER: self.fleet.monitor, "dr-site": away}
        self.queries = ConfiguredQueries(moments, health=self.health)

    def health(self) -> tuple[ClusterHealth, ...]:
        now_ms = self.clock.now_ms()
        away = cluster_health(
            "dr-site",
            ready=False,
            reason=f"offsets_topic: looking for __consumer_offsets: {_REFUSED}; "
            "the backlog of commits has not been read yet",
            unreachable=True,
            since_ms=now_ms - 600_000,
            began_ms=self.began_ms,
            data_age_s=600.0,
            problems=(
                "groups: a broker does not answer, the groups it coordinates are not listed",
                f"offsets_topic: looking for __consumer_offsets: {_REFUSED}",
                f"topics: listing topics: {_REFUSED}",
            ),
        )
        here = cluster_health(CLUSTER, ready=True)
        if self.gone:
            here = replace(
                here,
                ready=False,
                stale=True,
                unreachable=True,
                reason=f"connection: {_REFUSED}",
                data_age_s=58.0,
                since_ms=now_ms - 58_000,
            )
        return here, away


class GivenAlerts:
    """An `AlertsView` with two open incidents: of the cluster out of reach, and of a group."""

    time_zone = "UTC"

    def __init__(self) -> None:
        of_cluster = IncidentRecord(
            again_ms=None,
            id="3f2a9c0d11e25b7a",
            about="cluster",
            cluster="dr-site",
            group="",
            policy="lagwatch",
            severity="error",
            since_ms=NOW_MS,
            opened_ms=NOW_MS,
            closed_ms=None,
            notified_ms=None,
            acknowledged_ms=None,
            acknowledged_by="",
            verdict={},
            headline="No fresh data of it.",
        )
        of_group = replace(of_cluster, id="b7", about="group", cluster=CLUSTER, group="group-0")
        self.open = {each.id: each for each in (of_cluster, of_group)}
        self.in_force: list[Mute] = []

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        found = [each for each in self.open.values() if ask.group in {"", each.group}]
        first = int(ask.cursor or 0)
        until = first + ask.limit
        return found[first:until], str(until) if until < len(found) else ""

    def in_trouble_since(self, cluster: str) -> Mapping[str, TroubleSince]:
        return {
            each.group: TroubleSince(since_ms=each.since_ms, at_least=each.since_at_least)
            for each in self.open.values()
            if (each.about, each.cluster) == ("group", cluster)
        }

    def incident(self, incident: str) -> IncidentRecord:
        return self.open[incident]

    def acknowledge(self, incident: str, *, author: str) -> IncidentRecord:
        self.open[incident] = replace(
            self.open[incident], acknowledged_ms=NOW_MS, acknowledged_by=author
        )
        return self.open[incident]

    def notices(self, _: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]:
        return [], ""

    def retry(self, message: str, *, to: str = "") -> int:
        raise NotFoundError(kind="dead message", name=message + to)

    def retry_channel(self, channel: str, *, to: str = "") -> int:
        raise NotFoundError(kind="channel", name=channel + to)

    def now_ms(self) -> int:
        return NOW_MS

    def mutes(self) -> Sequence[Mute]:
        return self.in_force

    def mute(self, **order: object) -> Mute:
        raise NotFoundError(kind="mute", name=str(order))

    def unmute(self, mute: str) -> None:
        raise NotFoundError(kind="mute", name=mute)

    def policies(self) -> Sequence[PolicyRecord]:
        return []

    def policy_of(self, cluster: str, group: str, topics: Sequence[str]) -> Mapping[str, str]:
        del cluster, group
        return dict.fromkeys(topics or ("",), "")


@contextmanager
def _serving(browser: Browser, sites: Sites, queries: Queries | None = None) -> Iterator[str]:
    """The address; `queries`: instead of all that the sites have."""
    app = create_app(
        queries or sites.queries,
        RecordingCommands(),
        GivenSettings(),
        alerts=sites.alerts,
        hostname="h",
        version="0",
    )
    with served(app) as server:
        yield f"http://127.0.0.1:{server.port}/"
        browser.open("about:blank")  # an open stream would hold the server up


@pytest.fixture(scope="module")
def sites() -> Sites:
    return Sites()


@pytest.fixture(scope="module")
def url(browser: Browser, sites: Sites) -> Iterator[str]:
    with _serving(browser, sites) as address:
        sites.url = address
        yield address


@pytest.fixture
def relay(browser: Browser, url: str) -> Iterator[Relay]:
    """The way to the server, which can be cut."""
    with relaying(int(url.rstrip("/").rpartition(":")[2])) as between:
        yield between
        browser.open("about:blank")


def test_no_total_is_shown_on_the_page_of_mutes_before_the_groups_are_known(
    browser: Browser,
) -> None:
    sites = Sites()
    queries = SnapshotQueries({CLUSTER: sites.fleet.monitor}, health=lambda: sites.health()[:1])
    with _serving(browser, sites, queries) as address:
        browser.open(f"{address}?page=mutes")
        eventually(lambda: "every notice is sent" in browser.text("#all-mutes"), "it is there")
        eventually(lambda: browser.text("#live").startswith("live"), "the groups have come")

        totals = browser.texts(_TOTALS)
        # without a cluster, as before the first answer
        browser.run(
            "const { Fleet } = await import('/ui/fleet.js');"
            "const { Live } = await import('/ui/live.js');"
            "document.querySelector('#totals').replaceChildren();"
            "const silent = { onChange() {}, incident() {}, incidentsOn: () => [] };"
            "new Fleet(new Live(), silent, null).count();"
        )

        assert totals == ["2 in error", "6 ok", "1 with an open incident"]
        assert browser.texts(_TOTALS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_an_unreachable_cluster_takes_a_line_or_two_and_says_the_rest_on_demand(
    browser: Browser, url: str, size: tuple[int, int], scheme: str, tmp_path: Path
) -> None:
    browser.look(*size, scheme)

    open_fleet(browser, url)

    assert browser.text(_SUMMARY).startswith("dr-site: unreachable, no data since ")
    assert browser.run(_HEIGHT) < (45 if size[0] > 390 else 60)
    assert browser.run(_SEEN, "nothing listens at")
    assert len(browser.texts(ROW)) == 8
    browser.picture(tmp_path / "closed.png")
    browser.click(_SUMMARY)
    lines = browser.texts("#troubles li")
    assert sum("nothing listens" in line for line in lines) == 1
    assert any("are not listed" in line for line in lines)
    assert browser.barriers() == []
    assert browser.run("return document.body.scrollWidth") <= size[0]
    browser.picture(tmp_path / "open.png")


@pytest.mark.parametrize("at_least", [False, True])
def test_an_incident_from_before_the_start_says_since_when_a_cluster_is_in_trouble(
    browser: Browser, *, at_least: bool
) -> None:
    sites = Sites()
    sites.began_ms = NOW_MS + 60_000
    (incident,) = [each for each in sites.alerts.open.values() if each.about == "cluster"]
    sites.alerts.open[incident.id] = replace(incident, since_at_least=at_least)
    before = ", in trouble since at least " if at_least else ", in trouble since "
    with _serving(browser, sites) as address:
        open_fleet(browser, address)
        eventually(lambda: before in browser.text(_SUMMARY), "it is said")
        said = browser.text(_SUMMARY)
        browser.open(f"{address}?cluster=dr-site")
        eventually(lambda: before in browser.text("#shown"), "so it is of the list")

    assert said.startswith("dr-site: unreachable since lagwatch started at ")
    assert ("since at least" in said) is at_least


@pytest.mark.parametrize("at_least", [False, True])
def test_the_headline_of_a_group_says_like_its_facts_if_its_trouble_may_be_older(
    browser: Browser, *, at_least: bool
) -> None:
    sites = Sites()
    since_ms = sites.queries.verdict(CLUSTER, "group-0", Partitions.ALL).partitions[0].since_ms
    sites.alerts.open["b7"] = replace(
        sites.alerts.open["b7"], since_ms=since_ms or 0, since_at_least=at_least
    )
    with _serving(browser, sites) as address:
        browser.open(f"{address}?group=group-0&of={CLUSTER}")
        eventually(lambda: "since" in browser.text("#g-facts"), "the facts are shown")
        if at_least:
            eventually(lambda: "at least" in browser.text("#g-facts"), "the incident has come")
        headline, facts = browser.text("#g-sentence"), browser.text("#g-facts")

    assert " since " in headline
    assert [" since at least " in headline, "at least" in facts] == [at_least, at_least]


def test_a_group_that_is_well_names_its_open_incident(browser: Browser) -> None:
    sites = Sites()
    sites.alerts.open["b7"] = replace(sites.alerts.open["b7"], group="group-3")
    with _serving(browser, sites) as address:
        browser.open(f"{address}?group=group-3&of={CLUSTER}")
        eventually(lambda: "open incident" in browser.text("#g-facts"), "the incident has come")
        facts, headline = browser.text("#g-facts"), browser.text("#g-sentence")

    assert "open incident since " in facts
    assert not headline.startswith("STOP")


def test_rows_keep_their_cause_while_the_data_are_old(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, url)
    row = ".row[data-bad]:not([hidden])"
    eventually(lambda: browser.texts(f"{row} .note")[0] != "", "the cause has come")
    (before, *_) = browser.texts(f"{row} .note")

    sites.gone = True
    old = f"{row}[data-stale]"
    eventually(lambda: browser.texts(f"{old} .c-mark") != [], "the data are old")
    eventually(lambda: browser.texts(f"{old} .note")[:1] == [before], "it says the same")
    hint = browser.run(f"return document.querySelector('{old} .note').title")
    sites.gone = False

    assert before
    assert hint.startswith("The data are too old to be trusted. Before: ")


def test_several_clusters_out_of_reach_share_the_line(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(390, 844, "light")
    open_fleet(browser, url)

    sites.gone = True
    eventually(lambda: "2 clusters" in browser.text(_SUMMARY), "both are named")
    said, height = browser.text(_SUMMARY), browser.run(_HEIGHT)
    sites.gone = False
    eventually(lambda: "2 clusters" not in browser.text(_SUMMARY), "one is back")

    assert said.startswith("2 clusters without fresh data: ")
    assert f"{CLUSTER} (unreachable, no data since " in said
    assert "dr-site (unreachable, no data since " in said
    assert height < 60


def test_totals_follow_search_and_filters(browser: Browser, url: str) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, f"{url}?q=group-1")
    found = browser.texts(_TOTALS)
    open_fleet(browser, f"{url}?status=ERR")
    by_status = ["2 in error", "6 ok", "1 with an open incident", "dr-site: unknown"]
    eventually(lambda: browser.texts(_TOTALS) == by_status, "those of all groups")
    browser.open(f"{url}?cluster=dr-site")
    eventually(lambda: browser.texts(_TOTALS) == ["dr-site: unknown"], "nothing is known of it")

    assert found == ["1 in error", "0 ok", "dr-site: unknown"]


@pytest.mark.usefixtures("url")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_totals_of_a_cluster_that_cannot_be_reached_are_marked_as_old(
    browser: Browser, sites: Sites, size: tuple[int, int], scheme: str, tmp_path: Path
) -> None:
    browser.look(*size, scheme)
    open_fleet(browser, sites.url)

    sites.gone = True
    eventually(
        lambda: browser.texts(_TOTALS)[:2] == ["2 in error (old)", "6 ok (old)"], "both are old"
    )
    marked = browser.run("return document.querySelectorAll('.total[data-stale]').length")
    barriers = browser.barriers()
    browser.picture(tmp_path / "old.png")
    sites.gone = False
    eventually(lambda: browser.texts(_TOTALS)[:2] == ["2 in error", "6 ok"], "fresh again")

    assert marked == 2
    assert barriers == []
    assert browser.run("return document.body.scrollWidth") <= size[0]


@pytest.mark.usefixtures("url")
def test_headings_over_groups_of_a_cluster_that_cannot_be_reached_are_marked_as_old(
    browser: Browser, sites: Sites
) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, f"{sites.url}?view=cluster")
    heading = f"{CLUSTER} · 8 groups, 2 in trouble"
    eventually(lambda: heading in browser.texts(".heading"), "it is fresh")

    sites.gone = True
    eventually(lambda: f"{heading} (old)" in browser.texts(".heading"), "it is old")
    marked = browser.run(
        "return [...document.querySelectorAll('.heading')]"
        ".find((each) => each.textContent.endsWith('(old)')).dataset.level"
    )
    sites.gone = False
    eventually(lambda: heading in browser.texts(".heading"), "fresh again")

    assert marked == ""


def test_the_list_of_an_unreachable_cluster_says_since_when_and_why(
    browser: Browser, url: str
) -> None:
    browser.look(1280, 800, "light")

    browser.open(f"{url}?cluster=dr-site")

    eventually(
        lambda: "dr-site: unreachable, no data since " in browser.text("#shown"), "it is explained"
    )
    assert "nothing listens at 127.0.0.1:1" in browser.text("#shown")
    assert "Its groups are not known." in browser.text("#shown")


def test_by_cluster_an_unreachable_one_is_listed_and_opens_the_details(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    browser.look(1280, 800, "dark")
    open_fleet(browser, f"{url}?view=cluster")

    headings = browser.texts(f"{ROW} .heading")
    browser.picture(tmp_path / "by-cluster.png")
    browser.click(".heading[data-heading=dr-site]")

    assert headings[0].startswith("dr-site · unreachable, no data since ")
    assert headings[1].startswith(f"{CLUSTER} · 8 groups, 2 in trouble")
    assert browser.run("return document.querySelector('#troubles details').open") is True
    assert browser.barriers() == []


def test_the_incident_of_a_cluster_is_acknowledged_where_its_outage_is_shown(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    browser.look(390, 844, "light")
    open_fleet(browser, url)
    browser.click(_SUMMARY)
    eventually(lambda: bool(browser.texts("#troubles .list button")), "it can be acknowledged")
    browser.picture(tmp_path / "incident.png")

    browser.click("#troubles .list button")

    eventually(lambda: "acknowledged" in browser.text("#troubles .list"), "it is acknowledged")
    assert browser.texts("#troubles .list button") == []
    assert browser.text("#troubles [role=status]").startswith("Acknowledged: ")
    eventually(
        lambda: browser.run("return document.activeElement.tagName") == "SUMMARY",
        "the focus stays there",
    )
    assert browser.barriers() == []


def test_the_light_tells_that_one_cluster_is_fresh(browser: Browser, url: str) -> None:
    browser.look(1280, 800, "light")

    open_fleet(browser, url)

    assert browser.text("#live").startswith("1 of 2 clusters live · data ")
    assert browser.run("return document.querySelector('#live').dataset.state") == "partly"


def test_a_group_whose_name_is_two_dots_can_be_opened(browser: Browser, url: str) -> None:
    browser.open(f"{url}?group=..&of={CLUSTER}")

    eventually(lambda: browser.text("#g-mark") == "OK", "its verdict is shown")
    assert browser.text("#group-name") == ".."


def test_a_long_name_leaves_the_verdict_on_the_phone_and_is_whole_on_demand(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    browser.look(390, 844, "light")
    browser.open(f"{url}?group={_LONG}&of={CLUSTER}")
    eventually(lambda: browser.text("#g-mark") == "OK", "its verdict is shown")
    height = "return document.querySelector('#group-name').getBoundingClientRect().height"

    clamped, top = (
        browser.run(height),
        browser.run("return document.querySelector('#g-verdict').getBoundingClientRect().top"),
    )
    browser.picture(tmp_path / "clamped.png")
    browser.click("#whole-name")

    wide = browser.run(
        "const place = document.querySelector('#g-place');"
        "place.textContent = 't'.repeat(249);"
        "return place.scrollWidth > place.clientWidth"
    )
    assert not wide, "the name of its topic stays in its card"
    assert clamped < 70
    assert top < 400
    assert browser.run(height) > 150
    assert browser.run("return document.activeElement.id") == "group-name"
    assert browser.run("return document.body.scrollWidth") <= 390


def test_a_group_of_a_cluster_that_was_never_read_is_not_called_deleted(
    browser: Browser, url: str
) -> None:
    browser.look(1280, 800, "light")

    browser.open(f"{url}?group=group-1&of=dr-site")

    eventually(
        lambda: (
            browser.text("#g-sentence")
            == "This group is not known yet: lagwatch has not read dr-site whole since it started."
        ),
        "it is not called deleted",
    )


def test_nothing_is_said_any_more_of_a_group_that_goes_while_its_page_is_open(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    browser.open(f"{url}?group=group-1&of={CLUSTER}")
    eventually(lambda: browser.text("#g-cause") != "", "its cause is said")
    sites.fleet.delete("group-1")
    try:
        eventually(lambda: "may have been deleted" in browser.text("#g-sentence"), "it is gone")
        shown = browser.run(
            "return ['#g-mark .mark', '#g-cause-box', '#g-to-do-box', '.pair', '#h-table', "
            "'#h-members', '#g-facts'].filter((one) => "
            "document.querySelector(one)?.checkVisibility())"
        )
        level = browser.run("return document.querySelector('#g-verdict').dataset.level")
    finally:
        sites.fleet.heal("group-1")
        sites.fleet.fail("group-1")

    assert shown == []
    assert level == "unknown"


def test_the_page_of_a_group_says_no_speed_while_its_data_are_old(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    browser.open(f"{url}?group=group-1&of={CLUSTER}")
    eventually(lambda: "Produced" in browser.text("#g-facts"), "its figures")
    sites.clock.ahead_ms += 120_000
    sites.fleet.judge()
    try:
        eventually(lambda: "old" in browser.text("#g-old"), "its data are old")
        facts = browser.texts("#g-facts dt")
    finally:
        sites.fleet.pass_time(10)

    assert facts == ["Lag", "Time lag", "In trouble since"]


def test_a_mute_is_offered_only_for_a_group_that_is_known(browser: Browser, url: str) -> None:
    browser.look(1280, 800, "light")
    browser.open(f"{url}?group=never-seen&of={CLUSTER}")
    eventually(lambda: "not known" in browser.text("#g-sentence"), "it is not known")
    eventually(lambda: browser.text("#incident-list") != "", "its incidents are")
    seen = "return document.querySelector('#mute').checkVisibility()"
    offered = [browser.run(seen)]
    browser.open(f"{url}?group=group-0&of={CLUSTER}")
    eventually(lambda: browser.text("#incident-list") != "", "its incidents are known")
    offered.append(browser.run(seen))

    assert offered == [False, True]


def test_a_good_group_with_an_open_incident_is_seen_and_found(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    known = dict(sites.alerts.open)
    limit = replace(known["b7"], id="c1", group="group-5", severity="warning")
    sites.alerts.open["c1"] = replace(limit, headline="WARNING: 11 behind, more than 10 allowed")
    try:
        open_fleet(browser, url)
        total = ".total[data-status=INCIDENT]"
        eventually(lambda: browser.text(total) == "2 with an open incident", "they are counted")
        names = browser.texts(f"{ROW} .c-group")
        levels = browser.run(
            "return [...document.querySelectorAll(given[0])].map((row) => row.dataset.level)", ROW
        )
        browser.click(total)
        eventually(lambda: len(browser.texts(f"{ROW} .c-group")) == 2, "only these are listed")
        chosen = browser.texts(f"{ROW} .c-group")
    finally:
        sites.alerts.open.clear()
        sites.alerts.open.update(known)

    assert names[2].startswith("group-5")
    assert "open incident" in names[2]
    assert levels[:4] == ["err", "err", "warn", "ok"]
    assert [name.split()[0] for name in chosen] == ["group-0", "group-5"]


def test_in_a_storm_the_oldest_incidents_are_known_too(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    known = dict(sites.alerts.open)
    storm = {
        f"s{each}": replace(known["b7"], id=f"s{each}", group=f"s{each}") for each in range(1500)
    }
    mine = replace(known["b7"], group="group-5", acknowledged_ms=NOW_MS, acknowledged_by="ann")
    sites.alerts.open.clear()
    sites.alerts.open.update({**storm, "b7": mine})
    try:
        open_fleet(browser, url)
        group = f"{ROW} .c-group"
        eventually(
            lambda: any("acknowledged" in text for text in browser.texts(group)),
            "the row says that somebody works on it",
        )
        shown = [text for text in browser.texts(group) if "acknowledged" in text]
    finally:
        sites.alerts.open.clear()
        sites.alerts.open.update(known)

    assert [text.split()[0] for text in shown] == ["group-5"]


def test_open_incidents_are_listed_although_their_cluster_was_not_seen_since_the_start(
    browser: Browser, sites: Sites, url: str
) -> None:
    browser.look(1280, 800, "light")
    known = dict(sites.alerts.open)
    sites.alerts.open["d1"] = replace(known["b7"], id="d1", cluster="dr-site", group="ledger")
    try:
        open_fleet(browser, f"{url}?cluster=dr-site")
        eventually(lambda: len(browser.texts(f"{ROW} .c-group")) == 1, "the group is listed")
        row = {name: browser.text(f"{ROW} .c-{name}") for name in ("group", "mark", "lag", "time")}
        summary = browser.text("#shown")
        browser.click(f"{ROW} .c-group a")
        eventually(lambda: "not known" in browser.text("#g-sentence"), "its page")
        eventually(lambda: "still open" in browser.text("#incident-list"), "its incident")
    finally:
        sites.alerts.open.clear()
        sites.alerts.open.update(known)

    assert row["group"].split("\n")[0].startswith("ledger")
    assert "open incident" in row["group"]
    assert "UNKNOWN" in row["mark"].upper()
    assert (row["lag"], row["time"]) == ("unknown", "unknown")
    assert summary.endswith("Its groups are not known, but for those with an open incident.")


def test_the_focus_stays_where_an_incident_was_acknowledged(browser: Browser, url: str) -> None:
    browser.open(f"{url}?group=group-0&of={CLUSTER}")
    eventually(lambda: bool(browser.texts("#incident-list button")), "it can be acknowledged")

    browser.click("#incident-list button")

    eventually(lambda: browser.texts("#incident-list button") == [], "it is acknowledged")
    eventually(
        lambda: browser.run("return document.activeElement.id") == "mute-said", "the focus stays"
    )


def test_a_cluster_that_was_removed_goes_from_an_open_page(
    browser: Browser, sites: Sites, relay: Relay
) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, f"http://127.0.0.1:{relay.port}/")
    eventually(lambda: "of 2 clusters" in browser.text("#live"), "both clusters are there")

    relay.cut()
    eventually(lambda: "connection lost" in browser.text("#live"), "the loss is reported")
    sites.queries.removed = CLUSTER
    try:
        relay.mend()
        eventually(lambda: browser.texts(ROW) == [], "its groups go")
        totals = browser.texts(_TOTALS)
        clusters = browser.texts("#cluster option")
    finally:
        sites.queries.removed = ""

    assert totals == ["dr-site: unknown"]
    assert clusters == ["All clusters", "dr-site"]


def test_totals_and_title_are_marked_as_old_while_lagwatch_is_away(
    browser: Browser, relay: Relay
) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, f"http://127.0.0.1:{relay.port}/")
    before = browser.run(_TITLE)

    relay.cut()
    eventually(
        lambda: browser.texts(_TOTALS)[:2] == ["2 in error (old)", "6 ok (old)"], "both are old"
    )
    away = browser.run(_TITLE)
    browser.type("#q", "group")  # what is searched then is as old
    eventually(lambda: browser.texts(_TOTALS)[1] == "4 ok (old)", "the totals follow")
    searched = browser.run(_TITLE)
    relay.mend()
    eventually(lambda: browser.texts(_TOTALS)[:2] == ["2 in error", "4 ok"], "fresh again")

    assert [before, away, searched] == ["(2) lagwatch", "(2 old) lagwatch", "(2 old) lagwatch"]
    assert browser.run(_TITLE) == "(2) lagwatch"


def test_the_page_of_a_group_is_marked_as_old_while_lagwatch_is_away(
    browser: Browser, relay: Relay
) -> None:
    browser.look(1280, 800, "light")
    browser.open(f"http://127.0.0.1:{relay.port}/?group=group-5&of={CLUSTER}")
    eventually(lambda: "Produced" in browser.text("#g-facts"), "its figures")
    level = "return document.querySelector('#g-verdict').dataset.level"
    before = browser.text("#g-mark"), browser.run(level)

    relay.cut()
    eventually(lambda: "lagwatch does not answer" in browser.text("#g-old"), "it is old")
    away = browser.text("#g-mark"), browser.run(level), browser.text("#g-sentence")
    facts = browser.texts("#g-facts dt")
    relay.mend()
    eventually(lambda: browser.text("#g-old") == "", "fresh again")

    assert before == ("OK", "ok")
    assert away[:2] == ("was OK", "unknown")
    assert away[2].startswith("Last known: OK")
    assert "Produced" not in facts
    assert (browser.text("#g-mark"), browser.run(level)) == before


_PATTERNS = (
    *("", "oup", "^group", "group-[01]$", "GROUP", "(?i)GROUP", r"\Agroup-0\Z", r"\\A", "(?a)p-0"),
    *(r"(?P<one>x)(?P=one)", "^x*$", "-0|-5", r"team\.x"),
)


def test_mutes_of_the_configuration_are_shown_on_the_groups_that_the_server_mutes(
    browser: Browser, sites: Sites, url: str
) -> None:
    times = {"reason": "r", "starts": "2020-01-01T00:00", "ends": "2100-01-01T00:00"}
    settings = [MuteSettings(group=pattern, **times) for pattern in _PATTERNS]
    rules = [from_settings(f"m{index}", each) for index, each in enumerate(settings)]
    mutes = [
        Mute(
            id=rule.id,
            cluster=rule.cluster.pattern,
            group=rule.group.pattern,
            reason=rule.reason,
            author="",
            starts_ms=0,
            ends_ms=NOW_MS,
            active=True,
        )
        for rule in rules
    ]
    groups = list(sites.fleet.groups)
    browser.look(1280, 800, "light")
    sites.alerts.in_force = mutes
    try:
        browser.open(url)
        shown = browser.run(
            "const { Alerts } = await import('/ui/alerts.js');"
            "const alerts = new Alerts();"
            "await alerts.refresh();"
            "return alerts.mutes.map((one) =>"
            " given[1].filter((group) => one.matches(given[0], group)))",
            CLUSTER,
            groups,
        )
        sites.alerts.in_force = mutes[3:4]
        open_fleet(browser, f"{url}?sort=group&q=group-")
        eventually(lambda: "muted" in browser.texts(ROW)[0], "the list shows it")
        marked = ["muted" in row for row in browser.texts(ROW)]
    finally:
        sites.alerts.in_force = []

    covered = [[group for group in groups if rule.covers(CLUSTER, group)] for rule in rules]
    assert dict(zip(_PATTERNS, shown, strict=True)) == dict(zip(_PATTERNS, covered, strict=True))
    assert marked == [True, True, False, False, False, False]


def test_a_mute_says_when_it_comes_and_that_no_group_has_its_name(
    browser: Browser, sites: Sites, url: str
) -> None:
    mute = Mute(
        id="config:night",
        cluster="",
        group="group-0",
        reason="r",
        author="a",
        starts_ms=None,
        ends_ms=None,
        active=False,
        weekly="sun at 02:00 UTC for 2 h",
        matching=1,
    )
    once = replace(mute, id="m", starts_ms=NOW_MS, ends_ms=NOW_MS, weekly="", matching=0)
    sites.alerts.in_force = [mute, replace(once, group="gruop-0")]
    browser.look(390, 844, "dark")
    try:
        browser.open(f"{url}?page=mutes")
        eventually(lambda: "gruop-0" in browser.text("#all-mutes"), "they are listed")
        weekly, mistyped = browser.texts("#all-mutes li")
    finally:
        sites.alerts.in_force = []

    said = "Muted every week (sun at 02:00 UTC for 2 h): group-0 on all clusters (1 group now)"
    assert weekly.startswith(said)
    assert "gruop-0 on all clusters (no group now: is the name right?)" in mistyped


_CUT = """
const paint = document.createElement("canvas").getContext("2d");
return [...document.querySelectorAll("#filters select")].filter((one) => one.checkVisibility())
  .map((one) => {
    paint.font = getComputedStyle(one).font;
    const text = one.selectedOptions[0].text;
    return [text, paint.measureText(text).width + 24 > one.clientWidth];
  });
"""
"""By filter: what is chosen, and is it cut off beside the arrow?"""


def test_on_a_phone_no_choice_of_the_filters_is_cut_off(browser: Browser, url: str) -> None:
    browser.look(390, 844, "light")
    open_fleet(browser, url)

    expected = ("All groups", "All clusters", "Any status", "Any state")
    assert dict(browser.run(_CUT)) == dict.fromkeys(expected, False)


def test_with_a_single_cluster_none_is_to_be_chosen(browser: Browser) -> None:
    with serving_many(browser, ["one"]) as address:
        open_fleet(browser, address)
        alone = [name for name, _ in browser.run(_CUT)]
        open_fleet(browser, f"{address}?cluster={CLUSTER}")
        chosen = [name for name, _ in browser.run(_CUT)]

    assert alone == ["All groups", "Any status", "Any state"]
    assert CLUSTER in chosen, "the address chose it: it can be taken back"


_WHITE = """
const canvas = document.querySelector("#g-window canvas");
const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
let found = 0;
for (let at = 0; at < data.length; at += 4)
  found += data[at] === 255 && data[at + 1] === 255 && data[at + 2] === 255 && data[at + 3] === 255;
return found;
"""
"""How many pixels of the window's curves are white."""


def test_the_points_of_the_curves_are_not_white_in_the_dark(browser: Browser, url: str) -> None:
    browser.look(1280, 800, "dark")

    browser.open(f"{url}?group=group-1&of={CLUSTER}")
    eventually(lambda: browser.text("#g-window .u-legend") != "", "the window is drawn")

    assert browser.run(_WHITE) == 0
    browser.look(1280, 800, "light")


def test_partitions_in_error_come_before_all_others(browser: Browser, url: str) -> None:
    browser.open(url)
    statuses = ["OK", "UNKNOWN", "WARN", "STOP", "ERR"]

    worst_first = browser.run(
        "const { byBadness } = await import('/ui/group.js');"
        "const all = given[0].map((status, index) => ({ status, lag: 100 - index }));"
        "return all.sort(byBadness).map((one) => one.status)",
        statuses,
    )

    assert worst_first == statuses[::-1]


def test_a_search_without_matches_says_so_while_a_cluster_is_out_of_reach(
    browser: Browser, url: str
) -> None:
    open_fleet(browser, url)

    browser.type("#q", "no-such-group")

    eventually(lambda: browser.texts(ROW) == [], "nothing is found")
    assert browser.text("#shown").startswith("No group matches.")


def test_escape_in_a_shared_link_leads_to_the_list_and_to_the_row(
    browser: Browser, url: str
) -> None:
    browser.look(1280, 800, "light")
    browser.open("about:blank")
    browser.open(f"{url}?group=group-3&of={CLUSTER}&q=group&topic=orders&partition=3")
    eventually(lambda: browser.text("#g-mark") == "OK", "its verdict is shown")

    browser.press("\ue00c")  # escape

    eventually(lambda: len(browser.texts(ROW)) == 6, "the list is shown")
    eventually(lambda: browser.run(_FOCUSED) == "group-3", "its row has the focus")
    assert browser.url == f"{url}?q=group"


def test_escape_in_a_group_opened_from_the_list_goes_back_to_its_row(
    browser: Browser, url: str
) -> None:
    browser.look(1280, 800, "light")
    open_fleet(browser, f"{url}?sort=group")

    browser.click(f"{ROW}[data-index='5'] a")
    eventually(lambda: browser.text("#g-mark") != "", "its verdict is shown")
    opened = browser.text("#group-name")
    browser.click(".heat button")  # what is chosen in the group is no step of its own
    browser.press("\ue00c")  # escape

    eventually(lambda: browser.run(_FOCUSED) == opened, "its row has the focus")
    assert browser.url == f"{url}?sort=group"
    forward = "return navigation.entries().length - navigation.currentEntry.index - 1"
    assert browser.run(forward) == 1
