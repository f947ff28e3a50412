"""The drawing of a dashboard shows what Grafana's code said, and adds nothing."""

import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from docs.board_pictures import NOTE, picture

MINUTES = [60_000.0 * number for number in range(5)]


def panel(kind: str, **options: str) -> dict[str, Any]:
    return {
        "type": kind,
        "title": "Any",
        "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8},
        "fieldConfig": {"defaults": {"custom": {}}},
        "options": options,
    }


def cell(value: float | None, text: str = "", color: str = "text") -> dict[str, Any]:
    return {"value": value, "text": text or str(value), "color": color}


def curve(*values: float | None, name: str = "orders") -> dict[str, Any]:
    return {"name": name, "times": MINUTES[: len(values)], "cells": [cell(each) for each in values]}


def drawn(panel: dict[str, Any], shown: dict[str, Any]) -> str:
    return picture("board", [panel], [shown])


def texts(svg: str) -> list[str | None]:
    return [element.text for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]  # noqa: S314 ours


def test_an_unknown_value_is_a_gap_in_the_curve_and_not_zero() -> None:
    svg = drawn(panel("timeseries"), {"series": [curve(4, 2, None, 2, 4)]})

    (line,) = re.findall(r'<path d="(M[^"]+)" fill="none" stroke="#\w+" stroke-width="1.5"', svg)
    assert line.count("M") == 2
    assert line.count("L") == 2


def test_a_curve_that_ends_unknown_shows_its_last_known_value_and_one_never_known_says_so() -> None:
    known, unknown = curve(4, 2, None), curve(None, None, name="new")

    assert "2" in texts(drawn(panel("timeseries"), {"series": [known]}))
    assert "unknown" in texts(drawn(panel("timeseries"), {"series": [known, unknown]}))


@pytest.mark.parametrize("kind", ["stat", "table", "timeseries", "state-timeline", "heatmap"])
def test_a_panel_without_data_says_so(kind: str) -> None:
    assert texts(drawn(panel(kind), {"series": [], "rows": []})) == [
        "board",
        NOTE,
        "Any",
        "No data",
    ]


def test_a_number_has_the_text_and_the_color_of_grafana() -> None:
    svg = drawn(panel("stat"), {"series": [{"name": "", "cells": [cell(3, "3 min", "red")]}]})

    assert re.search(r'fill="#d1242f"[^>]*>3 min<', svg)


def test_a_panel_that_shows_names_shows_them_in_place_of_values() -> None:
    shown = {"series": [{"name": "stopped", "cells": [cell(1)]}]}

    assert texts(drawn(panel("stat", textMode="name"), shown))[-1] == "stopped"


def test_a_state_is_drawn_only_while_it_held() -> None:
    held = [*[cell(0, "no", "transparent")] * 2, *[cell(1, "yes", "green")] * 2]
    shown = {"series": [{"name": "OK", "times": MINUTES[:4], "cells": held}]}

    bars = re.findall(r'<rect x="(\S+)"[^>]*fill="#1a7f37"', drawn(panel("state-timeline"), shown))

    assert bars == ["351.0"]  # the second half of what is right of the names


def test_rows_of_a_table_are_whole_and_a_name_that_is_markup_stays_text() -> None:
    name = "<b>&"
    row = {"Group": cell(None, name), "Status": cell(None, "ERR", "red")}

    svg = drawn(panel("table"), {"columns": ["Group", "Status"], "rows": [row]})

    assert texts(svg)[3:] == ["Group", "Status", name, "ERR"]
    assert re.search(r'fill="#d1242f"[^>]*>ERR<', svg)


def test_stacked_curves_lie_on_each_other() -> None:
    stacked = panel("timeseries")
    stacked["fieldConfig"]["defaults"]["custom"]["stacking"] = {"mode": "normal"}

    svg = drawn(stacked, {"series": [curve(1, 1), curve(3, 3, name="other")]})

    assert "4" in texts(svg)
