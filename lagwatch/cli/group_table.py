"""Groups as a table, one line each: what `top` and `status` show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.output import aligned, plain
from lagwatch.core.advise import rate
from lagwatch.core.words import duration, spoken

_TROUBLE: Final = {"REWIND": 4, "STALL": 4, "STOP": 4, "ERR": 4, "WARN": 3, "UNKNOWN": 2, "OK": 1}
_OF_INCIDENT: Final[Mapping[str, float]] = {"error": 3.5, "warning": 2.5}
_COLUMNS: Final = (
    *("VERDICT", "GROUP", "CLUSTER", "FOR", "LAG", "TREND", "TIME LAG", "READS", "CATCHES UP"),
    *("CAUSE", "STATE", "MEMBERS"),
)
_SPEEDS: Final = frozenset({"TREND", "READS", "CATCHES UP"})
_NUMBERS: Final = frozenset({"FOR", "LAG", "TIME LAG", "MEMBERS"}) | _SPEEDS
_LEFT_OUT: Final[Sequence[str]] = (
    *("MEMBERS", "STATE", "READS", "TREND", "CATCHES UP", "CLUSTER", "CAUSE"),
)
"""On a narrow screen, in this order. The cluster only where there is one; causes are cut before."""
_SHORTEST_CAUSE: Final = 12
_NAME_LENGTH: Final = 24
"""Minimum width of a longer name of a group; other columns are left out to keep it."""
_SHORT_NAME: Final = 16
"""The same where the cause would be left out."""
_SHORTEST_NAME: Final = 12
_LONGEST_CLUSTER: Final = 16
_SHORTEST_CLUSTER: Final = 9


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
    """True if the group's data are too old to be trusted."""
    time_lag_bound: str = ""
    """A word of `TimeLagBound`; "" from an older server."""
    rule: str = ""
    """The rule that decided for the worst partition."""
    cause: str = ""
    """The likeliest cause in a word or two; "" if it is not known, or was not looked for."""
    incident: str = ""
    """Severity of its open incident; "" where there is none, or was not looked for."""
    since_s: float | None = None
    """How long the group has been in trouble; None without trouble, or from an older server."""
    since_at_least: bool = False
    note: str = ""
    """Shown in place of the verdict; ""."""
    consumed_per_s: float | None = None
    """None also where it was not asked for; so the next two."""
    lag_trend_per_s: float | None = None
    """Messages per second by which the lag grows."""
    catch_up_s: float | None = None
    catch_up_reason: str = ""
    """A `CatchUpReason`; "" where it was not asked for."""


def table(
    lines: Sequence[Line], *, width: int | None, room: int = 0, clusters: int = 0
) -> RenderableType:
    """One line per group, in at most `width` characters; filled up with empty lines to `room`.

    Numbers are never cut: on a narrow screen columns are left out, then names lose their middle,
    because names of one team often differ in their ends. With `width` None, for a file or pipe,
    nothing is. Where there are several `clusters`, each line has its own.
    """
    rows = [_cells(line) for line in lines]
    several = max(clusters, len({line.cluster for line in lines})) > 1
    titles = [title for title in _COLUMNS if title != "GROUP"]
    if not any(line.state for line in lines):  # Burrow reports neither
        titles = [title for title in titles if title not in {"STATE", "MEMBERS"}]
    if not any(line.catch_up_reason for line in lines):  # nor does a Burrow report speeds
        titles = [title for title in titles if title not in _SPEEDS]
    if width is None:
        return _piped(lines, rows, [title for title in _COLUMNS if title in (*titles, "GROUP")])
    widths = _widths(rows, titles, width, several=several)
    name = max(_SHORTEST_NAME, width - sum(widths.values()) - 2 * len(widths))
    drawn = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    shown = [title for title in _COLUMNS if title in widths or title == "GROUP"]
    for title in shown:
        right = title in _NUMBERS
        drawn.add_column(_named(title, lines), justify="right" if right else "left", no_wrap=True)
    for row in rows:
        row["GROUP"] = shortened(row["GROUP"], name)
        row["CLUSTER"] = shortened(row["CLUSTER"], widths.get("CLUSTER", 0))
        if row["CAUSE"].cell_len > widths.get("CAUSE", 0):
            row["CAUSE"].truncate(widths.get("CAUSE", 0), overflow="ellipsis")
        drawn.add_row(*(row[title] for title in shown))
    for _ in range(room - len(lines)):
        drawn.add_row("")
    return drawn


def _widths(
    rows: Sequence[Mapping[str, Text]], titles: Sequence[str], width: int, *, several: bool
) -> dict[str, int]:
    """Characters of each column that is shown, beside the name."""
    widths = {
        title: max(cell_len(title), *(row[title].cell_len for row in rows), 0) for title in titles
    }
    widths["CLUSTER"] = min(widths["CLUSTER"], _LONGEST_CLUSTER)
    longest = max(cell_len("GROUP"), *(row["GROUP"].cell_len for row in rows), 0)
    enough, little = (min(longest, each) for each in (_NAME_LENGTH, _SHORT_NAME))
    for title in (title for title in _LEFT_OUT if title in widths):
        room_left = width - sum(widths.values()) - 2 * len(widths)
        if room_left >= enough or (title == "CLUSTER" and several):
            continue
        cut = max(0, min(widths[title] - _SHORTEST_CAUSE, enough - room_left))
        if title == "CAUSE" and room_left + cut >= little:
            widths[title] -= cut
        else:
            del widths[title]
    if several:
        _make_room(widths, width)
    return widths


def _piped(lines: Sequence[Line], rows: Sequence[Mapping[str, Text]], shown: Sequence[str]) -> Text:
    cells = [[row[title].plain for title in shown] for row in rows]
    right = {at for at, title in enumerate(shown) if title in _NUMBERS}
    return Text("\n".join(aligned([[_named(each, lines) for each in shown], *cells], right=right)))


def _named(title: str, lines: Sequence[Line]) -> str:
    """The title as it is shown: where causes were not looked for, their column has the rule."""
    return title if title != "CAUSE" or any(line.cause for line in lines) else "RULE"


def _make_room(widths: dict[str, int], width: int) -> None:
    """Shorten the clusters, then leave out how long the trouble lasts: a name needs its place."""
    missing = _SHORTEST_NAME + sum(widths.values()) + 2 * len(widths) - width
    if missing > 0:
        widths["CLUSTER"] -= min(missing, max(0, widths["CLUSTER"] - _SHORTEST_CLUSTER))
    if _SHORTEST_NAME + sum(widths.values()) + 2 * len(widths) > width:
        del widths["FOR"]


def trouble(line: Line) -> tuple[float, ...]:
    """Sorts the worst first."""
    judged = _TROUBLE.get(line.worst, 2)
    return -max(judged, _OF_INCIDENT.get(line.incident, 0)), -or_less(line.lag)


def _cause(line: Line) -> str:
    """Why it is in trouble; a group that misses a limit is, although its verdict is good."""
    if line.status == "OK":
        return "open incident" if line.incident else ""
    return line.cause or spoken(line.rule)


def or_less(value: float | None) -> float:
    """The number; for None a value below all others."""
    return -1 if value is None else value


def _cells(line: Line) -> dict[str, Text]:
    """Of a line, by title."""
    least = "≥ " if line.since_at_least else ""
    lasting = "" if line.since_s is None else least + duration(max(0, line.since_s))
    return {
        "VERDICT": _verdict(line),
        "GROUP": plain(line.group),
        "CLUSTER": plain(line.cluster),
        "FOR": Text(lasting),
        "LAG": Text(_lag(line)),
        "TREND": Text(_trend(line)),
        "TIME LAG": Text(words.time_lag(line.time_lag_s, line.time_lag_bound)),
        "READS": Text("" if line.consumed_per_s is None else f"{rate(line.consumed_per_s)}/s"),
        "CATCHES UP": Text(_catches_up(line)),
        "CAUSE": Text(_cause(line)),
        "STATE": Text(line.state, style="dim"),
        "MEMBERS": Text(words.number(line.members)),
    }


_NEVER: Final = frozenset({"not_moving", "falling_behind", "too_slow"})
"""`CatchUpReason` of a group that will not catch up as it goes now."""


def _catches_up(line: Line) -> str:
    if line.catch_up_reason in {"", "caught_up", "keeps_up"} or line.lag == 0:
        return ""
    if line.catch_up_s is not None:
        return duration(line.catch_up_s)
    return "never" if line.catch_up_reason in _NEVER else "unknown"


def _trend(line: Line) -> str:
    """How fast the lag grows or falls; "" where it stays about the same.

    The lag of a group that is OK wobbles: less than a hundredth of what it reads is no trend.
    """
    per_s = line.lag_trend_per_s
    wobble = (line.consumed_per_s or 0) / 100 if line.status == "OK" else 0
    if per_s is None or abs(per_s) < wobble:
        return ""
    said = rate(abs(per_s))
    return "" if said == "0" else f"{'+' if per_s > 0 else '-'}{said}/s"


def shortened(name: Text, width: int) -> Text:
    """A name without its middle, if it takes more cells than `width`."""
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
