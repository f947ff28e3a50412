"""What the board of a group shows where the budget of series leaves partitions out."""

from collections.abc import Iterator

import pytest

from tests.support.dashboards import RULES, boards, panels
from tests.support.grafana_shows import NEUTRAL, shown
from tests.support.prometheus import Prometheus, scraping
from tests.support.scraped import Cluster, serving, text
from tests.support.waiting import eventually

_TITLES = ("Partitions left out below", "Lag of the partitions left out", "Partitions", "Lag")


@pytest.fixture(scope="module", params=[1, 0], ids=["one series", "all"])
def prometheus(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[int, Prometheus]]:
    """Of a lagwatch that may write series of so many partitions; 0: of all. A group has three."""
    read = {("g", "t", each): at for each, at in enumerate((60, 20, 50))}
    cluster = Cluster(topics={"t": [(0, 100), (0, 50), (0, 50)]}, commits=read)
    folder = tmp_path_factory.mktemp("budget")
    body = text(cluster, partition_budget=request.param)
    with serving(body) as target, scraping(target, folder, rules=RULES) as made:
        eventually(lambda: bool(made.query("lagwatch_group_status")), "a scrape", timeout_s=30)
        yield request.param, made


def test_it_says_how_many_are_left_out_and_how_far_behind_these_are(
    prometheus: tuple[int, Prometheus],
) -> None:
    budget, made = prometheus
    asked = [
        panel
        for title in _TITLES
        for panel in panels(boards()["lagwatch-group"])
        if panel["title"] == title
    ]
    choices = {"cluster": "here", "group": "g", "topic": ".+", "find": ".*"}

    number, lag, table, whole = shown(made, asked, choices=choices, at_s=made.last_scrape_s())

    cells = [each["series"][0]["cells"][0] for each in (number, lag, whole)]
    left_out = 3 - len(table["rows"])
    listed = sum(float(row["Lag"]["value"]) for row in table["rows"])
    assert left_out == (2 if budget else 0)
    assert (cells[0]["text"], cells[0]["color"]) == (("2", "orange") if budget else ("0", NEUTRAL))
    assert cells[1]["value"] == 70 - listed
    assert cells[2]["text"] == "70"
