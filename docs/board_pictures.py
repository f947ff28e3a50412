"""Draws what a dashboard shows as one SVG: every panel at its place in the grid.

This is not Grafana's drawing. What is drawn (names, texts with their units, colors, rows, gaps) is
what Grafana's own code makes of each panel and the answers of a real Prometheus.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import groupby
from typing import Any, Final

Panel = Mapping[str, Any]
Shown = Mapping[str, Any]
"""As of `tests.support.grafana_shows`."""

BOARDS: Final = ("fleet", "group", "itself", "topic")
"""Dashboards that are drawn; the demo has no roll-ups of weeks, which the history shows."""
NOTE: Final = (
    "Drawn by lagwatch from what Grafana's code says of each panel; not Grafana's drawing."
)

_COLUMN, _ROW, _GAP = 50, 30, 4
"""Of the grid, in pixels."""
_LINE: Final = 15
_LEFT: Final = 62
"""Where a curve begins, right of its scale."""
_NAMES: Final = 130
"""Width of names that are left of what is drawn."""
_POINTS: Final = 120
"""Of one curve at most."""
_LEGEND: Final = 4
_CHARACTER: Final = 6.3
"""Width of a letter at 12 pixels, about."""
_INK, _SOFT, _RULE = "#1f2328", "#59636e", "#d1d9e0"
_COLORS: Final[Mapping[str, str]] = {
    "green": "#1a7f37",
    "semi-dark-green": "#1a7f37",
    "yellow": "#9a6700",
    "orange": "#bc4c00",
    "red": "#d1242f",
    "dark-red": "#82071e",
    "purple": "#8250df",
    "blue": "#0969da",
    "transparent": "none",
    "text": _SOFT,
    "#ccccdc": _INK,  # of texts in Grafana's dark theme
}
_CURVES: Final = (
    *("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989"),
    *("#9a6700", "#1b7c83", "#82071e", "#59636e", "#4d2d00"),
)


def picture(title: str, panels: Sequence[Panel], shown: Sequence[Shown]) -> str:
    """The board as an SVG document; `shown` is of `panels`, in their order."""
    top = 34
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels) * _ROW + top
    width = 24 * _COLUMN
    body = "\n".join(_panel(panel, seen, top) for panel, seen in zip(panels, shown, strict=True))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 8}" '
        f'font-family="system-ui,sans-serif" font-size="12" fill="{_INK}">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="100%" height="100%" fill="#f6f8fa"/>\n'
        f"{_text(10, 22, title, size=16, weight=600)}"
        f"{_text(width - 10, 22, NOTE, anchor='end', color=_SOFT)}\n"
        f"{body}\n</svg>\n"
    )


def _panel(panel: Panel, shown: Shown, top: int) -> str:
    place = panel["gridPos"]
    x, y = place["x"] * _COLUMN + _GAP, place["y"] * _ROW + top + _GAP
    width, height = place["w"] * _COLUMN - 2 * _GAP, place["h"] * _ROW - 2 * _GAP
    draw = _DRAWN[panel["type"]]
    empty = not shown.get("rows") and not any(each["cells"] for each in shown.get("series", ()))
    inner = (width - 20, height - 34)
    body = _text(inner[0] / 2, inner[1] / 2, "No data", anchor="middle", color=_SOFT)
    return (
        f'<g transform="translate({x} {y})">'
        f'<rect width="{width}" height="{height}" rx="4" fill="#fff" stroke="{_RULE}"/>'
        f"{_text(10, 18, panel['title'], weight=600)}"
        f'<g transform="translate(10 26)">{body if empty else draw(panel, shown, *inner)}</g></g>'
    )


def _number(panel: Panel, shown: Shown, width: float, height: float) -> str:
    """A number, or the name of its series, as the panel wants it."""
    (series, *_), mode = shown["series"], panel["options"].get("textMode", "auto")
    (cell, *_) = series["cells"]
    named = mode == "name" and series["name"]
    color = _INK if named else _color(cell["color"], _INK)
    said = series["name"] if named else cell["text"]
    size = min(30.0, width / max(1, len(said)) / 0.58)
    drawn = _text(width / 2, height / 2 + size / 3, said, size=size, anchor="middle", color=color)
    if mode == "value_and_name" and series["name"]:
        drawn += _text(width / 2, height - 2, series["name"], anchor="middle", color=_SOFT)
    return drawn


def _curves(panel: Panel, shown: Shown, width: float, height: float) -> str:
    """Curves from 0 up, the time below them, and names with their last values."""
    every = [series for series in shown["series"] if series["cells"]]
    bottom = height - _LINE * (min(len(every), _LEGEND) + (len(every) > _LEGEND)) - 18
    stacked = panel["fieldConfig"]["defaults"]["custom"].get("stacking", {}).get("mode") == "normal"
    heights = _stacked(every) if stacked else [_values(series) for series in every]
    most = max((value or 0 for values in heights for value in values), default=0) or 1
    begin, end = _span(every)

    def place(at: float, value: float) -> str:
        x = _LEFT + (at - begin) / ((end - begin) or 1) * (width - _LEFT)
        return f"{x:.0f} {8 + (1 - value / most) * (bottom - 8):.1f}"

    lines = "".join(
        f'<path d="{_path(series["times"], values, place)}" fill="none" '
        f'stroke="{_line_color(series, number)}" stroke-width="1.5"/>'
        for number, (series, values) in enumerate(zip(every, heights, strict=True))
    )
    scale = f"{most:g}" if stacked else _top(every)
    return (
        f'<path d="M{_LEFT} 8V{bottom:.0f}H{width:.0f}" fill="none" stroke="{_RULE}"/>'
        f"{_text(_LEFT - 6, bottom, '0', anchor='end', color=_SOFT)}"
        f"{_text(_LEFT - 6, 14, scale, anchor='end', color=_SOFT)}"
        f"{_times(every, _LEFT, width, bottom + 14)}{lines}{_legend(every, width, height)}"
    )


def _top(every: Sequence[Shown]) -> str:
    """The text of the greatest value; "" where none is above 0."""
    cells = [cell for series in every for cell in series["cells"] if (cell["value"] or 0) > 0]
    return str(max(cells, key=lambda cell: cell["value"])["text"]) if cells else ""


def _span(every: Sequence[Shown]) -> tuple[float, float]:
    """The first and the last instant (epoch ms) of all series."""
    return min(each["times"][0] for each in every), max(each["times"][-1] for each in every)


def _times(every: Sequence[Shown], left: float, right: float, y: float) -> str:
    begin, end = _span(every)
    last = _text(right, y, _clock(end), anchor="end", color=_SOFT)
    return _text(left, y, _clock(begin), color=_SOFT) + last


def _legend(every: Sequence[Shown], width: float, height: float) -> str:
    rows = every if len(every) <= _LEGEND else every[:_LEGEND]
    more = len(every) - len(rows)
    begin = height - _LINE * (len(rows) + bool(more)) + 10
    drawn = "".join(
        f'<path d="M0 {begin + _LINE * at - 4}h12" stroke="{_line_color(series, at)}" '
        f'stroke-width="3"/>{_text(18, begin + _LINE * at, _cut(series["name"], width - 110))}'
        f"{_text(width, begin + _LINE * at, _last(series), anchor='end')}"
        for at, series in enumerate(rows)
    )
    said = f"and {more} more"
    return drawn + (_text(18, begin + _LINE * len(rows), said, color=_SOFT) if more else "")


def _states(_: Panel, shown: Shown, width: float, height: float) -> str:
    """One line for each state, filled while it held."""
    every = [series for series in shown["series"] if series["cells"]]
    tall, left = (height - 16) / len(every), _NAMES
    drawn = ""
    for at, series in enumerate(every):
        drawn += _text(0, at * tall + tall / 2 + 4, series["name"])
        number, cells = 0, series["cells"]
        for color, run in groupby(cells, key=lambda cell: cell["color"]):
            length = len(list(run))
            x, wide = (part / len(cells) * (width - left) for part in (number, length))
            number += length
            if color != "transparent":
                drawn += (
                    f'<rect x="{left + x:.1f}" y="{at * tall + 1:.1f}" width="{wide:.1f}" '
                    f'height="{tall - 2:.1f}" fill="{_color(color, _SOFT)}"/>'
                )
    return drawn + _times(every, left, width, height)


def _heat(_: Panel, shown: Shown, width: float, height: float) -> str:
    """One line of cells for each series: the darker, the greater."""
    every = [series for series in shown["series"] if series["cells"]]
    most = max((value or 0 for series in every for value in _values(series)), default=0) or 1
    tall, left = (height - 16) / len(every), _NAMES
    drawn = ""
    for at, series in enumerate(every):
        drawn += _text(0, at * tall + tall / 2 + 4, _cut(series["name"], left - 6))
        chosen = _thinned(_values(series), 60)
        wide = (width - left) / len(chosen)
        drawn += "".join(
            f'<rect x="{left + number * wide:.1f}" y="{at * tall + 1:.1f}" width="{wide:.1f}" '
            f'height="{tall - 2:.1f}" fill="#bc4c00" '
            f'fill-opacity="{math.sqrt(max(0, value) / most):.2f}"/>'
            for number, value in enumerate(chosen)
            if value is not None
        )
    return drawn + _times(every, left, width, height)


def _table(_: Panel, shown: Shown, width: float, height: float) -> str:
    """Rows that fit; each column as wide as its texts ask for."""
    fits = int(height // (_LINE + 5)) - 1
    rows, names = shown["rows"][:fits], shown["columns"]
    widths = [max(len(name) + 1, *(len(row[name]["text"]) for row in rows)) + 2 for name in names]
    scale = min(1.0, width / (sum(widths) * _CHARACTER)) * _CHARACTER
    places = [sum(widths[:at]) * scale for at in range(len(names))]
    drawn = "".join(
        _text(x, 14, name, color=_SOFT, weight=600) for x, name in zip(places, names, strict=True)
    )
    for number, row in enumerate(rows, start=1):
        y = 14 + number * (_LINE + 5)
        drawn += f'<path d="M0 {y - 15}H{width:.0f}" stroke="{_RULE}"/>'
        for x, wide, name in zip(places, widths, names, strict=True):
            color = _color(row[name]["color"], _INK) if name == "Status" else _INK
            drawn += _text(x, y, _cut(row[name]["text"], wide * scale), color=color)
    return drawn


_DRAWN: Final[Mapping[str, Callable[[Panel, Shown, float, float], str]]] = {
    "stat": _number,
    "timeseries": _curves,
    "state-timeline": _states,
    "heatmap": _heat,
    "table": _table,
}


def _values(series: Shown) -> list[float | None]:
    return [cell["value"] for cell in series["cells"]]


def _stacked(every: Sequence[Shown]) -> list[list[float | None]]:
    """Each curve on those before it; they are of the same instants."""
    base: dict[float, float] = {}
    heights: list[list[float | None]] = []
    for series in every:
        curve: list[float | None] = []
        for at, value in zip(series["times"], _values(series), strict=True):
            base[at] = base.get(at, 0) + (value or 0)
            curve.append(None if value is None else base[at])
        heights.append(curve)
    return heights


def _thinned(values: Sequence[Any], most: int) -> Sequence[Any]:
    """Every so many of them, the last one included."""
    step = max(1, -(-len(values) // most))
    return values[(len(values) - 1) % step :: step]


def _path(
    times: Sequence[float],
    values: Sequence[float | None],
    place: Callable[[float, float], str],
) -> str:
    """A line with gaps where a value is unknown."""
    steps: Iterator[tuple[float, float | None]] = iter(
        _thinned(list(zip(times, values, strict=True)), _POINTS)
    )
    drawn, pen = "", "M"
    for at, value in steps:
        if value is None:
            pen = "M"
            continue
        drawn += f"{pen}{place(at, value)}"
        pen = "L"
    return drawn


def _last(series: Shown) -> str:
    texts = [cell["text"] for cell in series["cells"] if cell["value"] is not None]
    return texts[-1] if texts else "unknown"


def _color(name: str | None, other: str) -> str:
    return _COLORS.get(name or "", other)


def _line_color(series: Shown, number: int) -> str:
    return _color(series["cells"][-1]["color"], _CURVES[number % len(_CURVES)])


def _clock(at_ms: float) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, tz=UTC):%H:%M:%S}"


def _cut(text: str, width: float) -> str:
    most = max(4, int(width / _CHARACTER))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(
    x: float,
    y: float,
    said: str,
    *,
    size: float = 12,
    color: str = _INK,
    anchor: str = "start",
    weight: int = 400,
) -> str:
    more = "" if color == _INK else f' fill="{color}"'
    more += "" if size == 12 else f' font-size="{size:.0f}"'  # noqa: PLR2004 of the document
    more += "" if anchor == "start" else f' text-anchor="{anchor}"'
    more += "" if weight == 400 else f' font-weight="{weight}"'  # noqa: PLR2004 of the document
    return f'<text x="{x:.0f}" y="{y:.0f}"{more}>{escape(said)}</text>'
