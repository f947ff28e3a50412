"""Groups as a table, one line each: what `top` and `status` show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.table import Table
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.output import plain
from lagwatch.core.words import duration

_TROUBLE: Final = {"REWIND": 4, "STALL": 4, "STOP": 4, "ERR": 4, "WARN": 3, "UNKNOWN": 2, "OK": 1}
_COLUMNS: Final = (
    *("VERDICT", "GROUP", "CLUSTER", "FOR", "LAG", "TIME LAG", "CAUSE", "STATE", "MEMBERS"),
)
_NUMBERS: Final = frozenset({"FOR", "LAG", "TIME LAG", "MEMBERS"})
_LEFT_OUT: Final = ("MEMBERS", "STATE", "CAUSE")
"""On a narrow screen, in this order."""
_NAME_LENGTH: Final = 24
"""Of a group, which others make room for."""
_SHORTEST_NAME: Final = 12
_LONGEST_CLUSTER: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One group."""

    cluster: str
    group: str
    status: str
    worst: str
    state: str
    lag: int | None
    unknown: int
    time_lag_s: float | None
    members: int | None
    stale: bool = False
    """Its data are too old to be trusted."""
    time_lag_bound: str = ""
    """A word of `TimeLagBound`; "" from an older server."""
    rule: str = ""
    """That decided for the worst partition."""
    since_s: float | None = None
    """For how long it is in trouble; None while it is not, and from an older server."""
    since_at_least: bool = False
    note: str = ""
    """Shown in place of the verdict; ""."""


def table(lines: Sequence[Line], *, width: int, room: int = 0) -> Table:
    """One line per group, in at most `width` characters; filled up with empty lines to `room`.

    Numbers are never cut: on a narrow screen columns are left out, then names lose their middle,
    because names of one team often differ in their ends.
    """
    rows = [_cells(line) for line in lines]
    titles = [title for title in _COLUMNS if title != "GROUP"]
    if not any(line.state for line in lines):  # a Burrow tells neither
        titles = [title for title in titles if title not in {"STATE", "MEMBERS"}]
    widths = {
        title: max(cell_len(title), *(row[title].cell_len for row in rows), 0) for title in titles
    }
    for title in _LEFT_OUT:
        if width - sum(widths.values()) - 2 * len(widths) < _NAME_LENGTH:
            widths.pop(title, None)
    name = max(_SHORTEST_NAME, width - sum(widths.values()) - 2 * len(widths))
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown = [title for title in _COLUMNS if title in widths or title == "GROUP"]
    for title in shown:
        right = title in _NUMBERS
        drawn.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        row["GROUP"] = _shortened(row["GROUP"], name)
        drawn.add_row(*(row[title] for title in shown))
    for _ in range(room - len(lines)):
        drawn.add_row("")
    return drawn


def trouble(line: Line) -> tuple[float, ...]:
    """Sorts the worst first."""
    return -_TROUBLE.get(line.worst, 2), -or_less(line.lag)


def or_less(value: float | None) -> float:
    """The number; less than any other when it is not known."""
    return -1 if value is None else value


def _cells(line: Line) -> dict[str, Text]:
    """Of a line, by title."""
    least = "≥ " if line.since_at_least else ""
    lasting = "" if line.since_s is None else least + duration(max(0, line.since_s))
    return {
        "VERDICT": _verdict(line),
        "GROUP": plain(line.group),
        "CLUSTER": _shortened(plain(line.cluster), _LONGEST_CLUSTER),
        "FOR": Text(lasting),
        "LAG": Text(_lag(line)),
        "TIME LAG": Text(words.time_lag(line.time_lag_s, line.time_lag_bound)),
        "CAUSE": Text("" if line.status == "OK" else line.rule),
        "STATE": Text(line.state, style="dim"),
        "MEMBERS": Text(words.number(line.members)),
    }


def _shortened(name: Text, width: int) -> Text:
    """A name without its middle, if it is longer."""
    if name.cell_len <= width:
        return name
    text = name.plain
    end = (width - 1) // 2
    # wide characters take two places
    head, tail = set_cell_size(text, width - 1 - end), set_cell_size(text[::-1], end)[::-1]
    return Text(f"{head}…{tail}", style=name.style)


def _verdict(line: Line) -> Text:
    if line.note:
        return plain(line.note, style="dim")
    if line.stale:
        return Text(f"{line.worst} (stale)", style="dim")
    return Text(line.worst, style=words.COLOURS.get(line.worst, "dim"))


def _lag(line: Line) -> str:
    known = words.number(line.lag)
    return f"≥ {known}" if line.lag is not None and line.unknown else known
