"""What every panel of a type must be, whatever it shows."""

import re

import pytest

from lagwatch.core.model import GroupStatus
from lagwatch.metrics.view import STATES
from tests.support.dashboards import panels_of_type
from tests.support.grafana_table import merge

_STATES = {
    "Status": {status.name for status in GroupStatus} - {"NOTFOUND"},
    "State": set(STATES),
}


@pytest.mark.parametrize("panel", panels_of_type("stat"), ids=lambda one: one["title"])
def test_one_number_is_of_now_so_that_what_was_deleted_is_not_counted(panel) -> None:
    (target,) = panel["targets"]

    assert (target["instant"], target["range"]) == (True, False)


@pytest.mark.parametrize("panel", panels_of_type("table"), ids=lambda one: one["title"])
def test_rows_of_a_table_carry_no_label_that_is_neither_shown_nor_hidden(panel) -> None:
    _, organized = panel["transformations"]
    columns = organized["options"]["renameByName"].keys() | organized["options"]["excludeByName"]

    for target in panel["targets"]:
        by = re.match(r"(?:max|count) by \(([\w, ]+)\)", target["expr"])
        assert by, target["expr"]
        assert set(by[1].split(", ")) <= columns
        assert (target["instant"], target["format"]) == (True, "table")


@pytest.mark.parametrize("panel", panels_of_type("table"), ids=lambda one: one["title"])
def test_a_cell_without_a_value_says_unknown_and_an_empty_table_does_not(panel) -> None:
    first, *_ = panel["fieldConfig"]["overrides"]

    assert first["matcher"] == {"id": "byRegexp", "options": ".*"}
    assert first["properties"] == [{"id": "noValue", "value": "unknown"}]
    assert "noValue" not in panel["fieldConfig"]["defaults"]


@pytest.mark.parametrize("panel", panels_of_type("state-timeline"), ids=lambda one: one["title"])
def test_each_state_has_a_color_and_only_a_good_one_is_green(panel) -> None:
    colors = {}
    for override in panel["fieldConfig"]["overrides"]:
        (mappings,) = override["properties"]
        (mapping,) = mappings["value"]
        colors[override["matcher"]["options"]] = mapping["options"]["1"]["color"]

    green = {state for state, color in colors.items() if color == "green"}
    assert colors.keys() >= _STATES[panel["title"]]
    assert green == {"OK" if panel["title"] == "Status" else "Stable"}


def test_rows_of_two_queries_join_unless_a_column_contradicts() -> None:
    lag = [{"group": "orders", "Value #A": "4"}, {"group": "audit", "Value #A": "0"}]

    joined = merge(lag, [{"group": "orders", "Value #B": "2"}])
    apart = merge([{"__name__": "lag", **lag[0]}], [{"__name__": "members", "group": "orders"}])

    assert joined == [{"group": "orders", "Value #A": "4", "Value #B": "2"}, lag[1]]
    assert len(apart) == 2
