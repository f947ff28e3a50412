"""What Grafana's own code shows of the dashboards, with groups in every state."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from grafana.panels import OLD_DATA_S, STATUS_COLORS
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.dashboards import boards, panels
from tests.support.grafana_shows import NEUTRAL, Cell, Panel, Shown, as_shown, shown
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.scene import CLUSTER, DEADLINE_S, Scene, watched_scene
from tests.support.table_truth import TABLES, Row
from tests.support.waiting import eventually

LIVE = ("fleet", "group", "topic", "itself")
EMPTY = {
    ("group", "Retention used"),
}
"""Panels that rightly have nothing to show of a group that catches up: nothing was removed."""
MAY_BE_ABSENT = {"Catches up in", "Loses messages in"}
"""Columns that Grafana leaves out while no group has a value."""
NOT_NUMBERS = {"unknown", "-"}


@pytest.fixture(scope="module")
def scene(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with watched_scene(kafka, tmp_path_factory.mktemp("shown")) as made:
        stopped = f'lagwatch_group_status{{group="{made.stopped}",status="ERR"}} == 1'
        eventually(lambda: bool(made.prometheus.query(stopped)), "a stop", timeout_s=DEADLINE_S)
        yield made


def panel_of(board: str, title: str, kind: str = "") -> Panel:
    """The only panel with this title, and of this type where there are two."""
    (found,) = [
        panel
        for panel in panels(boards()[f"lagwatch-{board}"])
        if panel["title"] == title and kind in ("", panel["type"])
    ]
    return dict(found)


def choices(scene: Scene, group: str = "") -> Mapping[str, str]:
    return {
        "cluster": CLUSTER,
        "group": group or scene.catching_up,
        "topic": scene.topic if group in ("", scene.catching_up) else ".+",
        "find": ".*",
    }


def see(scene: Scene, *asked: Panel, group: str = "", at_s: float | None = None) -> list[Shown]:
    """What the panels show at an instant, or at the newest scrape."""
    if at_s is None:
        at_s = scene.prometheus.last_scrape_s()
    return shown(scene.prometheus, asked, choices=choices(scene, group), at_s=at_s)


def only_cell(seen: Shown) -> Cell:
    """Of a panel with one number."""
    (series,) = seen["series"]
    (cell,) = series["cells"]
    return dict(cell)


@pytest.mark.parametrize("board", LIVE)
def test_every_panel_shows_something(scene: Scene, board: str) -> None:
    every = list(panels(boards()[f"lagwatch-{board}"]))

    def empty() -> set[tuple[str, str]]:
        return {
            (board, panel["title"])
            for panel, seen in zip(every, see(scene, *every), strict=True)
            if not seen.get("rows")
            and not any(series["cells"] for series in seen.get("series", ()))
        }

    eventually(lambda: empty() <= EMPTY, f"data in all of {board}", timeout_s=DEADLINE_S)


@pytest.mark.parametrize(
    ("board", "title", "chosen"),
    [
        ("fleet", "Groups that are not OK", ()),
        ("group", "Partitions", ("group",)),
        ("topic", "Groups", ("topic",)),
    ],
)
def test_a_table_has_one_complete_row_for_each_subject(scene, board, title, chosen) -> None:
    truth, prometheus = TABLES[title], scene.prometheus
    only = {"cluster": CLUSTER} | {name: choices(scene)[name] for name in chosen}
    panel = panel_of(board, title, "table")

    at_s, expected = 0.0, list[Row]()

    def each_column_has_a_value() -> bool:
        nonlocal at_s, expected
        at_s = prometheus.last_scrape_s()
        expected = truth.expected(prometheus, at_s=at_s, only=only)
        names = {name for row in expected for name in row}
        return {*truth.shown.values(), *truth.columns} <= names

    eventually(each_column_has_a_value, f"a value in each column of {title}", timeout_s=DEADLINE_S)
    (seen,) = shown(prometheus, [panel], choices=choices(scene), at_s=at_s)

    headings = [*truth.shown.values(), *truth.columns]
    rows = [{name: comparable(row[name]["value"]) for name in headings} for row in seen["rows"]]
    wanted = [{name: comparable(row.get(name)) for name in headings} for row in expected]
    assert sorted(rows, key=str) == sorted(wanted, key=str)
    for row in seen["rows"]:
        for name in headings:
            if comparable(row[name]["value"]) is None:
                assert row[name]["text"] in NOT_NUMBERS, (name, row)


def comparable(value: Any) -> float | str | None:  # noqa: ANN401 - is JSON
    """A number as a number, whether JSON or Prometheus wrote it."""
    try:
        return None if value in (None, "") else float(value)
    except ValueError:
        return str(value)


def test_the_table_of_trouble_lists_what_stopped_in_its_color_and_leaves_out_what_is_ok(
    scene: Scene,
) -> None:
    (seen,) = see(scene, panel_of("fleet", "Groups that are not OK"))

    assert [name for name in seen["columns"] if name not in MAY_BE_ABSENT] == (
        [
            "Cluster",
            "Group",
            "Status",
            "Rule",
            "Cause",
            "Since",
            "Lag",
            "Time lag",
            "Bound",
            "Members",
        ]
    )
    by_group = {row["Group"]["text"]: row for row in seen["rows"]}
    assert scene.idle not in by_group
    row = by_group[scene.stopped]
    assert (row["Status"]["text"], row["Status"]["color"]) == ("ERR", STATUS_COLORS["ERR"])
    assert row["Since"]["text"].endswith("ago")
    # its messages came before lagwatch: until a broker was asked, the time lag is a lower bound
    assert row["Bound"]["text"] in {"at_least", "at_most"}


def test_numbers_of_the_fleet_are_counts_and_red_where_there_is_trouble(scene: Scene) -> None:
    asked = [panel_of("fleet", title) for title in ("Groups OK", "With a warning", "In error")]
    at_s = scene.prometheus.last_scrape_s()
    found = scene.prometheus.query(
        f'sum by (status) (lagwatch_group_status{{cluster="{CLUSTER}"}})', at_s=at_s
    )
    counts = {sample["metric"]["status"]: float(sample["value"][1]) for sample in found}

    seen = shown(scene.prometheus, asked, choices=choices(scene), at_s=at_s)

    cells = [only_cell(panel) for panel in seen]
    assert [cell["value"] for cell in cells] == [counts["OK"], counts["WARN"], counts["ERR"]]
    assert {cell["color"] for cell in cells if cell["value"] == 0} <= {NEUTRAL}
    assert (cells[2]["value"] > 0, cells[2]["color"]) == (True, "red")


def test_the_fleet_says_which_clusters_cannot_be_trusted_and_how_old_its_data_are(
    scene: Scene,
) -> None:
    ready, age = see(
        scene, panel_of("fleet", "Clusters not ready"), panel_of("fleet", "Oldest data")
    )

    assert (only_cell(ready)["value"], only_cell(ready)["color"]) == (0, NEUTRAL)
    assert 0 <= only_cell(age)["value"] < OLD_DATA_S
    assert only_cell(age)["color"] == NEUTRAL


def test_a_cluster_that_is_not_ready_is_red_on_the_fleet_and_its_age_too() -> None:
    not_ready, old = panel_of("fleet", "Clusters not ready"), panel_of("fleet", "Oldest data")

    seen = as_shown(
        [
            {"panel": not_ready, "answers": {"A": _number(1)}},
            {"panel": old, "answers": {"A": _number(120)}},
        ]
    )

    assert [(only_cell(each)["text"], only_cell(each)["color"]) for each in seen] == [
        ("1", "red"),
        ("2 mins", "red"),
    ]


def _number(value: float) -> Mapping[str, Any]:
    """Prometheus' answer with one number and no labels."""
    return {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [1_790_000_000, str(value)]}],
    }


def test_a_group_that_is_well_is_green_and_its_other_verdicts_are_invisible(scene: Scene) -> None:
    status, timeline, lost, cause = see(
        scene,
        panel_of("group", "Status", "stat"),
        panel_of("group", "Status", "state-timeline"),
        panel_of("group", "Lost in the time shown"),
        panel_of("group", "Cause"),
        group=scene.idle,
    )

    assert (only_cell(status)["text"], only_cell(status)["color"]) == ("OK", "green")
    colors = {series["name"]: {cell["color"] for cell in series["cells"][-3:]}
              for series in timeline["series"]}  # fmt: skip
    assert colors == {
        "OK": {"green"},
        **{name: {"transparent"} for name in ("WARN", "ERR", "UNKNOWN")},
    }
    assert (only_cell(lost)["value"], only_cell(lost)["color"]) == (0, NEUTRAL)
    assert only_cell(cause)["text"] == "-"


def test_a_group_that_stopped_says_so_with_its_cause_and_what_is_unknown(scene: Scene) -> None:
    status, timeline, rule, cause, lag, time_lag = see(
        scene,
        panel_of("group", "Status", "stat"),
        panel_of("group", "Status", "state-timeline"),
        panel_of("group", "Rule"),
        panel_of("group", "Cause"),
        panel_of("group", "Lag"),
        panel_of("group", "Time lag", "stat"),
        group=scene.stopped,
    )

    assert (only_cell(status)["text"], only_cell(status)["color"]) == ("ERR", "red")
    (held,) = [series for series in timeline["series"] if series["cells"][-1]["value"] == 1]
    assert (held["name"], held["cells"][-1]["color"]) == ("ERR", "red")
    (series,) = rule["series"]
    assert series["name"] in {"stopped", "records_lost"}
    (series,) = cause["series"]
    assert series["name"] == "no_members, likely"
    assert only_cell(lag)["text"] == "40"
    (series,) = time_lag["series"]
    assert series["name"] in {"at_least", "at_most"}
    assert series["cells"][0]["text"].endswith(("s", "min", "mins"))


def test_a_state_of_kafka_is_in_its_color(scene: Scene) -> None:
    (empty,) = see(scene, panel_of("group", "State"), group=scene.idle)
    (held,) = empty["series"]

    assert (held["name"], held["cells"][-1]["color"]) == ("Empty", "blue")


def test_nothing_is_left_of_a_group_that_was_deleted(scene: Scene, kafka: EmbeddedKafka) -> None:
    group, topic = unique("doomed"), create_topic(kafka)
    produce(kafka, topic, 30)
    commit(kafka, group, topic, 10)
    lag = f'lagwatch_group_lag_messages{{group="{group}"}} == 20'
    # its verdict has series as long as lagwatch knows of it, also while its lag is not known
    series = f'{{group="{group}",__name__=~"lagwatch_.+"}}'
    gone_s = 0.0

    def gone() -> bool:
        nonlocal gone_s
        gone_s = scene.prometheus.last_scrape_s()
        return not scene.prometheus.query(series, at_s=gone_s)

    eventually(lambda: bool(scene.prometheus.query(lag)), "the group is seen", timeout_s=DEADLINE_S)
    numbers = [panel for panel in panels(boards()["lagwatch-group"]) if panel["type"] == "stat"]
    before = [only_cell(shown)["text"] for shown in see(scene, *numbers, group=group)]

    admin = AdminClient(kafka.admin_config())
    (deleted,) = admin.delete_consumer_groups([group]).values()
    deleted.result(DEADLINE_S)
    eventually(gone, "the group is gone", timeout_s=DEADLINE_S)

    after = [only_cell(shown)["text"] for shown in see(scene, *numbers, group=group, at_s=gone_s)]
    (table,) = see(scene, panel_of("fleet", "Groups that are not OK"), at_s=gone_s)
    lost = [panel["title"] for panel in numbers].index("Lost in the time shown")
    assert "20" in before
    assert {text for place, text in enumerate(after) if place != lost} <= NOT_NUMBERS
    assert group not in {row["Group"]["text"] for row in table["rows"]}
