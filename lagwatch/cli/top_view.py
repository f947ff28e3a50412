"""What `top` shows: which groups, in which order, and how they look."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.group_table import Line, is_unknown, last_that_fit, or_less, table, trouble
from lagwatch.cli.views import BAD, Found, OpenIncident, in_trouble_since
from lagwatch.core.words import duration, printable

_FRAME_LINES: Final = 4
"""Head, titles and two lines at the bottom."""
_PAGE: Final = 10
HELP: Final = "type to filter · Esc clear · Tab sort · Shift-Tab reverse · ↑ ↓ scroll · Ctrl-C quit"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAnswer:
    """The last answer."""

    lines: tuple[Line, ...] = ()
    clusters: int = 0
    """Watched by the server, also those of which nothing is known."""
    unknown: tuple[str, ...] = ()
    """Clusters of which no group is known because they are not ready."""
    old: tuple[str, ...] = ()
    """A sentence for each cluster whose data are old or not complete."""
    problems: tuple[str, ...] = ()
    age_s: float | None = None
    """Age of the oldest cluster's data; None before the first answer."""
    failed: str = ""
    """Why the newest request failed; "" if it did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopView:
    """What the user chose."""

    wanted: str = ""
    """Words that must be in the name."""
    sort: str = "trouble"
    reverse: bool = False
    top: int = 0
    """Lines scrolled away."""
    done: bool = False


_FRESH_S: Final = 10.0
"""What a server said that does not answer is no longer so."""

Badness = Callable[[Line], tuple[float, ...]]
_SORTS: Final[Mapping[str, Badness]] = {
    "trouble": trouble,
    "lag": lambda line: (-or_less(line.lag),),
    "time lag": lambda line: (-or_less(line.time_lag_s),),
    "group": lambda _: (),
}
SORTS: Final = tuple(_SORTS)


def read(fleet: Mapping[str, Any]) -> LastAnswer:
    """The answer of `/api/v1/fleet`.

    Raises:
        KeyError, TypeError, ValueError: the answer has another form.
    """
    columns = fleet["columns"]
    lines = [
        _line(
            cluster["cluster"],
            dict(zip(columns, row, strict=True)),
            stale=cluster.get("stale") is True,
            at_ms=cluster.get("at_ms"),
        )
        for cluster in fleet["clusters"]
        for row in cluster["rows"]
    ]
    old = [sentence for cluster in fleet["clusters"] if (sentence := _old(cluster))]
    problems = [
        f"{cluster['cluster']}: {problem}"
        for cluster in fleet["clusters"]
        for problem in cluster["problems"]
    ]
    ages = [cluster["age_s"] for cluster in fleet["clusters"] if cluster["age_s"] is not None]
    return LastAnswer(
        lines=tuple(lines),
        clusters=len(fleet["clusters"]),
        unknown=tuple(
            cluster["cluster"]
            for cluster in fleet["clusters"]
            if not cluster["ready"] and not cluster["rows"]
        ),
        old=tuple(old),
        problems=tuple(problems),
        age_s=max(ages) if ages else None,
    )


def with_found(seen: LastAnswer, found: Mapping[tuple[str, str], Found]) -> LastAnswer:
    """The answer with speeds, and with the causes of groups that are still in trouble."""
    return replace(
        seen, lines=tuple(_with(line, found.get((line.cluster, line.group))) for line in seen.lines)
    )


def with_incidents(
    seen: LastAnswer, incidents: Mapping[tuple[str, str], OpenIncident]
) -> LastAnswer:
    """The answer with the open incidents of groups."""
    none = OpenIncident()
    found = (incidents.get((line.cluster, line.group), none) for line in seen.lines)
    return replace(seen, lines=tuple(map(_with_incident, seen.lines, found)))


def _with_incident(line: Line, its: OpenIncident) -> Line:
    since_ms, at_least = in_trouble_since(
        line.since_ms,
        its.since_ms,
        at_least=line.since_at_least,
        incident_at_least=its.since_at_least,
    )
    return replace(
        line,
        incident=its.severity,
        handled=its.handled,
        since_ms=since_ms,
        since_at_least=at_least,
    )


def _with(line: Line, found: Found | None) -> Line:
    if found is None:
        return line
    # a loss stays one, a cause the last one known, and what is unknown so, however old the data are
    line = replace(
        line,
        lost=found.lost,
        lost_at_most=found.lost_at_most,
        unknown_because=found.unknown_because if is_unknown(line) else "",
        cause=found.cause if line.status in BAD else "",
    )
    if line.stale:
        return line
    return replace(
        line,
        consumed_per_s=found.consumed_per_s,
        lag_trend_per_s=found.lag_trend_per_s,
        catch_up_s=found.catch_up_s,
        catch_up_reason=found.catch_up_reason,
        steady=found.steady,
        quiet=found.quiet if line.status == "OK" else "",
    )


def pressed(view: TopView, key: str) -> TopView:
    """The view after a key."""
    match key:
        case "quit":
            return replace(view, done=True)
        case "escape":
            return replace(view, wanted="", top=0)
        case "backspace":
            return replace(view, wanted=view.wanted[:-1], top=0)
        case "tab" | "back_tab":
            return _sorted(view, turn=key == "back_tab")
        case "up" | "down" | "page_up" | "page_down" | "home" | "end":
            return replace(view, top=_scrolled(view.top, key))
        case _:
            return replace(view, wanted=view.wanted + key, top=0)


def chosen(seen: LastAnswer, view: TopView) -> list[Line]:
    """The groups to show, sorted; equal groups by name."""
    wanted = view.wanted.lower().split()
    found = [line for line in seen.lines if all(word in line.group.lower() for word in wanted)]
    badness = _SORTS[view.sort]
    found.sort(key=lambda line: (*badness(line), line.group, line.cluster), reverse=view.reverse)
    return found


def screen(seen: LastAnswer, view: TopView, *, width: int, height: int) -> RenderableType:
    """The whole screen, `width` by `height` characters."""
    seen = _marked(seen)
    lines = chosen(seen, view)
    problem = seen.failed or "; ".join(seen.problems)
    room = max(1, height - _FRAME_LINES - len(seen.old) - (1 if problem else 0))
    last = last_that_fit(lines, width=width, room=room, clusters=seen.clusters)
    top = max(0, min(view.top, len(lines) - last))
    parts: list[RenderableType] = [_head(seen, lines)]
    parts += [_one_line(sentence, "bold red") for sentence in seen.old]
    if problem:
        parts.append(_one_line(problem, "yellow"))
    parts.append(table(lines[top : top + room], width=width, room=room, clusters=seen.clusters))
    order = f"{view.sort}{', reversed' if view.reverse else ''}"
    said = f"filter: {view.wanted}▏ {len(lines):,} of {len(seen.lines):,} groups · by {order}"
    parts += [_one_line(said, "bold"), _one_line(HELP, "dim")]
    return Group(*parts)


def _marked(seen: LastAnswer) -> LastAnswer:
    """What is shown while the server does not answer is not what is so now."""
    if not seen.failed or (seen.age_s or 0) <= _FRESH_S:
        return seen
    return replace(seen, lines=tuple(replace(line, stale=True) for line in seen.lines))


def _head(seen: LastAnswer, lines: Sequence[Line]) -> Text:
    """How many of these lines have each status, and how many of them old data."""
    counts = Counter(line.status for line in lines)
    old = Counter(line.status for line in lines if line.stale)
    head = Text("lagwatch top  ", style="bold", no_wrap=True, overflow="ellipsis")
    for status in dict.fromkeys(("ERR", "WARN", "UNKNOWN", "OK", *counts)):
        count, aged = counts[status], old[status]
        if count or (status == "OK" and not (seen.unknown and not lines)):
            of_them = f"{aged:,} old" if aged < count else "old"
            said = f"{count:,} {status}{f' ({of_them})' if aged else ''}  "
            head.append(said, style="dim" if aged else words.COLOURS.get(status, "dim"))
    if seen.unknown:
        head.append(printable(f"{', '.join(seen.unknown)}: unknown  "), style="dim")
    age = "nothing read yet" if seen.age_s is None else f"data {duration(seen.age_s)} old"
    return head.append(age, style="dim")


def _one_line(text: str, style: str) -> Text:
    return Text(printable(text), style=style, no_wrap=True, overflow="ellipsis")


def _old(cluster: Mapping[str, Any]) -> str:
    """Sentence on a cluster whose data are not fresh; "" when they are."""
    if cluster["ready"]:
        return ""
    if cluster.get("stale") and cluster["round"] is not None:
        age = duration(cluster.get("data_age_s") or 0)
        return f"data from cluster {cluster['cluster']} is {age} old: {cluster['reason']}"
    return f"cluster {cluster['cluster']} is not ready: {cluster.get('reason', '')}"


def _line(cluster: str, cells: Mapping[str, Any], *, stale: bool, at_ms: int | None) -> Line:
    return Line(
        cluster=cluster,
        group=str(cells["group"]),
        status=str(cells["status"]),
        worst=str(cells["worst"]),
        state=str(cells["state"]),
        lag=cells["lag"],
        readable_lag=cells.get("readable_lag"),
        unknown=int(cells["unknown"]),
        time_lag_s=cells["time_lag_s"],
        time_lag_bound=cells.get("time_lag_bound", ""),
        members=cells["members"],
        rule=str(cells.get("rule", "")),
        at_ms=at_ms,
        since_ms=cells.get("since_ms"),
        since_at_least=cells.get("since_at_least") is True,
        # older servers only mark clusters
        stale=cells.get("stale", stale),
    )


def _sorted(view: TopView, *, turn: bool) -> TopView:
    if turn:
        return replace(view, reverse=not view.reverse, top=0)
    following = SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)]
    return replace(view, sort=following, reverse=False, top=0)


def _scrolled(top: int, key: str) -> int:
    steps = {"up": -1, "down": 1, "page_up": -_PAGE, "page_down": _PAGE, "home": -top}
    return max(0, top + steps.get(key, 1_000_000))
