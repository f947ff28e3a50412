"""What every panel of a type must be, whatever it shows."""

import json
import re

import pytest

from lagwatch.core.model import GroupStatus
from lagwatch.metrics.view import STATES
from tests.support.dashboards import boards, panels, panels_of_type

COLUMNS = 24

_STATES = {
    "Status": {status.name for status in GroupStatus} - {"NOTFOUND"},
    "State": set(STATES),
}


@pytest.mark.parametrize("panel", panels_of_type("stat"), ids=lambda panel: panel["title"])
def test_one_number_is_of_now_so_that_what_was_deleted_is_not_counted(panel) -> None:
    (target,) = panel["targets"]

    assert (target["instant"], target["range"]) == (True, False)


@pytest.mark.parametrize("name", boards())
def test_every_panel_says_what_it_shows_and_lies_within_the_grid_alone(name) -> None:
    taken: set[tuple[int, int]] = set()

    for panel in panels(boards()[name]):
        assert len(panel["description"]) > 6, panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        cells = {
            (place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_link_leads_to_a_dashboard_and_to_variables_it_has() -> None:
    variables = {
        board["uid"]: {variable["name"] for variable in board["templating"]["list"]}
        for board in boards().values()
    }
    links = re.findall(r'"url": "(/d/[^"]+)"', json.dumps(list(boards().values())))

    assert {link.split("?")[0] for link in links} == {"/d/lagwatch-group", "/d/lagwatch-topic"}
    for link in links:
        uid = link.removeprefix("/d/").split("?")[0]
        given = re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", link)
        assert {first or other for first, other in given} <= variables[uid], link


def test_a_choice_among_thousands_of_groups_is_narrowed_and_asks_for_one_series_each() -> None:
    (group,) = [
        variable
        for variable in boards()["lagwatch-group"]["templating"]["list"]
        if variable["name"] == "group"
    ]

    assert 'group=~"$find"' in group["query"]
    assert 'status="ERR"' in group["query"]


@pytest.mark.parametrize("panel", panels_of_type("table"), ids=lambda panel: panel["title"])
def test_rows_of_a_table_carry_no_label_that_is_neither_shown_nor_hidden(panel) -> None:
    _, organized = panel["transformations"]
    columns = organized["options"]["renameByName"].keys() | organized["options"]["excludeByName"]

    for target in panel["targets"]:
        by = re.match(r"(?:max|count) by \(([\w, ]+)\)", target["expr"])
        assert by, target["expr"]
        assert set(by[1].split(", ")) <= columns
        assert (target["instant"], target["format"]) == (True, "table")


@pytest.mark.parametrize("panel", panels_of_type("table"), ids=lambda panel: panel["title"])
def test_a_cell_without_a_value_says_unknown_and_an_empty_table_does_not(panel) -> None:
    first, *_ = panel["fieldConfig"]["overrides"]

    assert first["matcher"] == {"id": "byRegexp", "options": ".*"}
    assert first["properties"] == [{"id": "noValue", "value": "unknown"}]
    assert "noValue" not in panel["fieldConfig"]["defaults"]


@pytest.mark.parametrize(
    "panel", panels_of_type("state-timeline"), ids=lambda panel: panel["title"]
)
def test_each_state_has_a_color_and_only_a_good_one_is_green(panel) -> None:
    colors = {}
    for override in panel["fieldConfig"]["overrides"]:
        (mappings,) = override["properties"]
        (mapping,) = mappings["value"]
        colors[override["matcher"]["options"]] = mapping["options"]["1"]["color"]

    green = {state for state, color in colors.items() if color == "green"}
    assert colors.keys() >= _STATES[panel["title"]]
    assert green == {"OK" if panel["title"] == "Status" else "Stable"}
