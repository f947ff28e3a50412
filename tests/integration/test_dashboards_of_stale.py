"""What the tables show while nothing is known of a cluster: their columns, with unknown in them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.dashboards import RULES, boards, panels
from tests.support.grafana_shows import NEUTRAL, Shown, shown
from tests.support.prometheus import Prometheus, scraping
from tests.support.scraped import Cluster, serving, text
from tests.support.waiting import eventually

UNKNOWN = "unknown"
CHOICES = {"cluster": "here", "group": "g", "topic": "t", "find": ".*"}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Of a lagwatch whose only cluster is stale."""
    cluster = Cluster(topics={"t": [(10, 100), (0, 50)]},
                      commits={("g", "t", 0): 60, ("g", "t", 1): 50})  # fmt: skip
    assert cluster.monitor.snapshot is not None
    cluster.monitor.snapshot = replace(cluster.monitor.snapshot, stale=True)
    folder: Path = tmp_path_factory.mktemp("stale")
    with serving(text(cluster)) as target, scraping(target, folder, rules=RULES) as made:
        eventually(lambda: bool(made.query("lagwatch_group_status")), "a scrape", timeout_s=30)
        yield made


def table(prometheus: Prometheus, board: str, title: str) -> Shown:
    (panel,) = [
        panel
        for panel in panels(boards()[f"lagwatch-{board}"])
        if (panel["title"], panel["type"]) == (title, "table")
    ]
    at_s = prometheus.last_scrape_s()
    (seen,) = shown(prometheus, [panel], choices=CHOICES, at_s=at_s)
    return seen


@pytest.mark.parametrize(
    ("board", "title", "known", "unknown"),
    [
        (
            "fleet",
            "Groups that are not OK",
            [{"Cluster": "here", "Group": "g", "Status": "UNKNOWN"}],
            ["Rule", "Cause", "Since", "Lag", "Time lag", "Members"],
        ),
        (
            "group",
            "Partitions",
            [{"Topic": "t", "Partition": each, "Status": "UNKNOWN"} for each in ("0", "1")],
            ["Lag", "Time lag", "Last commit", "Committed"],
        ),
        ("topic", "Groups", [{"Group": "g", "Partitions not OK": "2"}], ["Lag", "Time lag"]),
    ],
)
def test_a_table_keeps_its_columns_and_says_unknown(
    prometheus, board, title, known, unknown
) -> None:
    seen = table(prometheus, board, title)

    assert {*known[0], *unknown} == {*seen["columns"]} - {"Bound"}
    rows = [{name: row[name]["text"] for name in (*known[0], *unknown)} for row in seen["rows"]]
    assert sorted(rows, key=str) == sorted(
        [row | dict.fromkeys(unknown, UNKNOWN) for row in known], key=str
    )


def test_a_number_that_is_not_known_says_so_and_is_neither_green_nor_red(prometheus) -> None:
    numbers = [
        panel
        for board in ("fleet", "group", "topic", "itself")
        for panel in panels(boards()[f"lagwatch-{board}"])
        if panel["type"] == "stat" and "vector(NaN)" in panel["targets"][0]["expr"]
    ]
    nothing = dict.fromkeys(CHOICES, "never seen")
    at_s = prometheus.last_scrape_s() - 86_400  # before the first scrape

    found = shown(prometheus, numbers, choices=nothing, at_s=at_s)

    cells = [cell for seen in found for series in seen["series"] for cell in series["cells"]]
    assert len(cells) == len(numbers) > 15
    # the color of texts in the dark theme
    assert {(cell["text"], cell["color"]) for cell in cells} == {(UNKNOWN, NEUTRAL)}
