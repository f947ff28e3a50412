"""Groups as a table, one line each: what `top` and `status` show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import RenderableType
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.output import aligned, in_columns, plain
from lagwatch.core.advise import rate
from lagwatch.core.words import duration, spoken

_TROUBLE: Final = {"REWIND": 4, "STALL": 4, "STOP": 4, "ERR": 4, "WARN": 3, "UNKNOWN": 2, "OK": 1}
_OF_INCIDENT: Final[Mapping[str, float]] = {"error": 3.5, "warning": 2.5}
_COLUMNS: Final = (
    *("VERDICT", "GROUP", "CLUSTER", "FOR", "LAG", "READABLE", "LOST", "TREND", "TIME LAG"),
    *("READS", "CATCHES UP", "CAUSE", "STATE", "MEMBERS"),
)
_SPEEDS: Final = frozenset({"TREND", "READS", "CATCHES UP"})
_NUMBERS: Final = frozenset({"FOR", "LAG", "READABLE", "LOST", "TIME LAG", "MEMBERS"}) | _SPEEDS
_LEFT_OUT: Final[Sequence[str]] = (
    *("MEMBERS", "STATE", "READS", "TREND", "CATCHES UP", "CLUSTER", "READABLE", "LOST", "CAUSE"),
)
"""On a narrow screen, in this order. The cluster only where there is one."""
_GOING: Final = frozenset({"TREND", "CATCHES UP"})
"""In a line below each group in trouble, where they have no room."""
_BELOW: Final = frozenset({"CAUSE", "READABLE", "LOST"}) | _GOING
"""In a line below each group that has them, where one of the first three has no room."""
_INDENT: Final = "    "
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
    handled: str = ""
    """That the incident is muted, or who acknowledged it; ""."""
    since_ms: int | None = None
    """When the group's trouble began; None without trouble, or from an older server."""
    since_at_least: bool = False
    at_ms: int | None = None
    """When it was judged; None from a Burrow."""
    note: str = ""
    """Shown in place of the verdict; ""."""
    consumed_per_s: float | None = None
    """None also where it was not asked for; so the next two."""
    lag_trend_per_s: float | None = None
    """Messages per second by which the lag grows."""
    catch_up_s: float | None = None
    catch_up_reason: str = ""
    """A `CatchUpReason`; "" where it was not asked for."""
    steady: bool = False
    """The lag of a group that is OK changes by no more than chance explains."""
    quiet: str = ""
    """Why a silence longer than the group may pause is no trouble yet; ""."""
    readable_lag: int | None = None
    """What of its lag it can read; None: not known, or not given."""
    lost: int = 0
    """Messages that were deleted before the group read them."""
    lost_at_most: bool = False
    unknown_because: str = ""
    """Why verdicts or lags of its partitions are unknown; ""."""

    @property
    def since_s(self) -> float | None:
        """How long the group has been in trouble."""
        if self.since_ms is None or self.at_ms is None:
            return None
        return (self.at_ms - self.since_ms) / 1000


def table(
    lines: Sequence[Line], *, width: int | None, room: int = 0, clusters: int = 0
) -> RenderableType:
    """One line per group, in at most `width` characters; of `room` lines if that is given.

    Numbers are never cut: on a narrow screen columns are left out, then names lose their middle,
    because names of one team often differ in their ends. Where causes, readable lags or losses
    have no room as columns, they are in a line of their own below each group; so is the reason
    why partitions are unknown, at every width. With `width` None, for a file or pipe, nothing is
    left out. Where there are several `clusters`, each line has its own.
    """
    rows = [_cells(line) for line in lines]
    if width is None:
        shown = [title for title in _COLUMNS if title in (*_titles(lines), "GROUP")]
        return _piped(lines, rows, shown)
    widths, below = _layout(lines, rows, width, clusters=clusters)
    shown = [title for title in _COLUMNS if title in widths]
    drawn = [_row({each: Text(_named(each, lines)) for each in shown}, widths, style="bold")]
    for line, row in zip(lines, rows, strict=True):
        its = [_row(row, widths), *map(plain, _below(line, width, below))]
        if room and len(drawn) + len(its) > room + 1:
            break
        drawn += its
    drawn += [Text()] * (room + 1 - len(drawn) if room else 0)
    for each in drawn:
        each.truncate(width, overflow="ellipsis")
    return Text("\n", no_wrap=True).join(drawn)


def last_that_fit(lines: Sequence[Line], *, width: int, room: int, clusters: int) -> int:
    """How many of the last lines fit into `room`."""
    last = lines[-room:]
    _, below = _layout(last, [_cells(line) for line in last], width, clusters=clusters)
    further = (len(_below(line, width, below)) for line in reversed(last))
    heights = accumulate(1 + number for number in further)
    return max(1, sum(height <= room for height in heights))


def _titles(lines: Sequence[Line]) -> list[str]:
    """Columns that there is something to say in, beside the name."""
    titles = [title for title in _COLUMNS if title != "GROUP"]
    if not any(line.state for line in lines):  # Burrow reports neither
        titles = [title for title in titles if title not in {"STATE", "MEMBERS"}]
    if not any(line.catch_up_reason for line in lines):  # nor does a Burrow report speeds
        titles = [title for title in titles if title not in _SPEEDS]
    if not any(map(_readable, lines)):
        titles.remove("READABLE")
    if not any(line.lost for line in lines):
        titles.remove("LOST")
    return titles


def _layout(
    lines: Sequence[Line], rows: Sequence[Mapping[str, Text]], width: int, *, clusters: int
) -> tuple[dict[str, int], frozenset[str]]:
    """Characters of each column that is shown, and the columns that are below groups instead."""
    several = max(clusters, len({line.cluster for line in lines})) > 1
    titles = _titles(lines)
    widths = _widths(rows, titles, width, several=several)
    longest = max((row["CAUSE"].cell_len for row in rows), default=0)
    left_out = set(titles) - set(widths)
    below = _GOING & left_out
    if widths.get("CAUSE", 0) < longest or left_out & {"READABLE", "LOST"}:
        below = _BELOW
        titles = [title for title in titles if title not in _BELOW]
        widths = _widths(rows, titles, width, several=several)
    name = max(_SHORTEST_NAME, width - sum(widths.values()) - 2 * len(widths))
    longest = max((row["GROUP"].cell_len for row in rows), default=0)
    return widths | {"GROUP": min(name, max(longest, len("GROUP")))}, below


def _row(cells: Mapping[str, Text], widths: Mapping[str, int], style: str = "") -> Text:
    """One line of the table."""
    shown = [title for title in _COLUMNS if title in widths]
    drawn = [shortened(cells[title], widths[title]) for title in shown]
    right = [at for at, title in enumerate(shown) if title in _NUMBERS]
    return in_columns(drawn, [widths[title] for title in shown], right=right, style=style)


def _below(line: Line, width: int, below: frozenset[str]) -> Sequence[str]:
    """Lines below a group: what it lost, why it is in trouble, what of it is unknown and why.

    Only what has no column, or is one of the columns `below`.
    """
    said: list[str] = []
    cause = _cause(line)
    if "CAUSE" in below:
        said += losses(line)
        if cause:
            has_rule = line.rule and line.status != "OK"
            title = "cause: " if line.cause else "rule: " if has_rule else ""
            said += [title + cause]
    if cause and below & _GOING:
        said += outlook(line)
    if line.unknown_because:
        said.append(line.unknown_because)
    if line.quiet:
        said.append(line.quiet)
    return wrap("; ".join(said), width, initial_indent=_INDENT, subsequent_indent=_INDENT)


def losses(line: Line) -> Sequence[str]:
    """What it lost, and what of its lag it can read; what there is to say."""
    readable, lost = _readable(line), _lost(line)
    return (
        *([f"{lost} lost"] if lost else []),
        *([f"{readable} of the lag can be read"] if readable else []),
    )


def is_unknown(line: Line) -> bool:
    """Are verdicts or lags of some of its partitions unknown?"""
    return line.unknown > 0 or line.status == "UNKNOWN"


def outlook(line: Line) -> Sequence[str]:
    """Where its lag goes, and when it has caught up; what is known of it."""
    trend, until = _trend(line), _catches_up(line)
    if line.catch_up_s is not None:
        until = f"catches up in {until}" if until else ""
    elif until:
        until = "does not catch up" if until == "never" else f"catch-up: {until}"
    return (*([f"lag {trend}"] if trend else []), *([until] if until else []))


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
        if room_left < (little if title == "CAUSE" else enough) and not (
            title == "CLUSTER" and several
        ):
            del widths[title]
    if several:
        _make_room(widths, width)
    return widths


def _piped(lines: Sequence[Line], rows: Sequence[Mapping[str, Text]], shown: Sequence[str]) -> Text:
    cells = [
        [_whole(line) if title == "CAUSE" else row[title].plain for title in shown]
        for line, row in zip(lines, rows, strict=True)
    ]
    right = {at for at, title in enumerate(shown) if title in _NUMBERS}
    return Text("\n".join(aligned([[_named(each, lines) for each in shown], *cells], right=right)))


def _whole(line: Line) -> str:
    """The cause, and why it is unknown: there is room for both."""
    return "; ".join(filter(None, (_cause(line), line.unknown_because)))


def _named(title: str, lines: Sequence[Line]) -> str:
    """The title as it is shown: where causes were not looked for, their column has the rule."""
    rules = [line for line in lines if line.status != "OK"]
    return "RULE" if title == "CAUSE" and rules and not any(line.cause for line in rules) else title


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
    """Why it is in trouble; a group that misses a limit is, although its verdict is good.

    What was done about it comes behind: whether to act is the first question.
    """
    if line.status == "OK":
        why = "open incident" if line.incident else ""
    else:
        why = line.cause or spoken(line.rule)
    return ", ".join(filter(None, (why, line.handled)))


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
        "READABLE": Text(_readable(line)),
        "LOST": Text(_lost(line)),
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

_NOT_KNOWN: Final[Mapping[str, str]] = {
    "rates_unknown": "no rate yet",
    "lag_unknown": "no lag known",
    "waits_for_transaction": "held up",
}


def _catches_up(line: Line) -> str:
    if line.catch_up_reason in {"", "caught_up", "keeps_up"} or line.lag == 0:
        return ""
    if line.status == "OK" and line.steady and line.catch_up_reason in _NEVER:
        return ""
    if line.catch_up_s is not None:
        return duration(line.catch_up_s)
    return "never" if line.catch_up_reason in _NEVER else _NOT_KNOWN.get(line.catch_up_reason, "-")


def _trend(line: Line) -> str:
    """How fast the lag grows or falls; "" where it stays about the same.

    The lag of a group that is OK goes up and down: what chance explains, and less than a hundredth
    of what it reads, is no trend.
    """
    per_s, fine = line.lag_trend_per_s, line.status == "OK"
    if per_s is None or line.lag == 0 or (fine and line.steady):
        return ""
    if fine and abs(per_s) < (line.consumed_per_s or 0) / 100:
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


def _readable(line: Line) -> str:
    """What of the lag can be read, where that is less."""
    if line.lag is None or line.readable_lag is None or line.readable_lag >= line.lag:
        return ""
    return f"{'≥ ' if line.unknown else ''}{line.readable_lag:,}"


def _lost(line: Line) -> str:
    return f"{'≤ ' if line.lost_at_most else ''}{line.lost:,}" if line.lost else ""


def _lag(line: Line) -> str:
    """The known part of the lag is a lower bound; where that is 0, it says nothing."""
    if not line.unknown:
        return words.number(line.lag)
    return f"≥ {line.lag:,}" if line.lag else words.number(None)
