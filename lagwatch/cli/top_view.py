"""What `top` shows: which groups, in which order, and how they look."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from lagwatch.cli import words
from lagwatch.cli.group_table import Line, or_less, table, trouble
from lagwatch.cli.output import printable
from lagwatch.core.words import duration

_FRAME_LINES: Final = 4
"""Head, titles and two lines at the bottom."""
_PAGE: Final = 10
HELP: Final = "type to filter · Esc clear · Tab sort · Shift-Tab reverse · ↑ ↓ scroll · Ctrl-C quit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The last answer."""

    lines: tuple[Line, ...] = ()
    old: tuple[str, ...] = ()
    """A sentence for each cluster whose data are old or not complete."""
    problems: tuple[str, ...] = ()
    age_s: float | None = None
    """Of the data, of the cluster whose are oldest; None before the first."""
    failed: str = ""
    """Why the newest question got no answer; ""."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the user chose."""

    wanted: str = ""
    """Words that must be in the name."""
    sort: str = "trouble"
    reverse: bool = False
    top: int = 0
    """Lines scrolled away."""
    done: bool = False


Badness = Callable[[Line], tuple[float, ...]]
_SORTS: Final[Mapping[str, Badness]] = {
    "trouble": trouble,
    "lag": lambda line: (-or_less(line.lag),),
    "time lag": lambda line: (-or_less(line.time_lag_s),),
    "group": lambda _: (),
}
SORTS: Final = tuple(_SORTS)


def read(fleet: Mapping[str, Any]) -> Seen:
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
        if problem not in cluster.get("reason", "")
    ]
    ages = [cluster["age_s"] for cluster in fleet["clusters"] if cluster["age_s"] is not None]
    return Seen(
        lines=tuple(lines),
        old=tuple(old),
        problems=tuple(problems),
        age_s=max(ages) if ages else None,
    )


def pressed(view: View, key: str) -> View:
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


def chosen(seen: Seen, view: View) -> list[Line]:
    """The groups to show, in their order; equals go by name."""
    wanted = view.wanted.lower().split()
    found = [line for line in seen.lines if all(word in line.group.lower() for word in wanted)]
    badness = _SORTS[view.sort]
    found.sort(key=lambda line: (*badness(line), line.group, line.cluster), reverse=view.reverse)
    return found


def screen(seen: Seen, view: View, *, width: int, height: int) -> RenderableType:
    """Everything, in so many characters and lines."""
    lines = chosen(seen, view)
    problem = seen.failed or "; ".join(seen.problems)
    room = max(1, height - _FRAME_LINES - len(seen.old) - (1 if problem else 0))
    top = max(0, min(view.top, len(lines) - room))
    parts: list[RenderableType] = [_head(seen)]
    parts += [_one_line(sentence, "bold red") for sentence in seen.old]
    if problem:
        parts.append(_one_line(problem, "yellow"))
    parts.append(table(lines[top : top + room], width=width, room=room))
    order = f"{view.sort}{', reversed' if view.reverse else ''}"
    said = f"filter: {view.wanted}▏ {len(lines):,} of {len(seen.lines):,} groups · by {order}"
    parts += [_one_line(said, "bold"), _one_line(HELP, "dim")]
    return Group(*parts)


def _head(seen: Seen) -> Text:
    counts = dict.fromkeys(("ERR", "WARN", "UNKNOWN", "OK"), 0)
    for line in seen.lines:
        counts[line.status] = counts.get(line.status, 0) + 1
    head = Text("lagwatch top  ", style="bold", no_wrap=True, overflow="ellipsis")
    for status, count in counts.items():
        if count or status == "OK":
            head.append(f"{count:,} {status}  ", style=words.COLOURS.get(status, "dim"))
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
    since_ms = cells.get("since_ms")
    return Line(
        cluster=cluster,
        group=str(cells["group"]),
        status=str(cells["status"]),
        worst=str(cells["worst"]),
        state=str(cells["state"]),
        lag=cells["lag"],
        unknown=int(cells["unknown"]),
        time_lag_s=cells["time_lag_s"],
        time_lag_bound=cells.get("time_lag_bound", ""),
        members=cells["members"],
        rule=str(cells.get("rule", "")),
        since_s=None if since_ms is None or at_ms is None else (at_ms - since_ms) / 1000,
        since_at_least=cells.get("since_at_least") is True,
        # older servers only mark clusters
        stale=cells.get("stale", stale),
    )


def _sorted(view: View, *, turn: bool) -> View:
    if turn:
        return replace(view, reverse=not view.reverse, top=0)
    following = SORTS[(SORTS.index(view.sort) + 1) % len(SORTS)]
    return replace(view, sort=following, reverse=False, top=0)


def _scrolled(top: int, key: str) -> int:
    steps = {"up": -1, "down": 1, "page_up": -_PAGE, "page_down": _PAGE, "home": -top}
    return max(0, top + steps.get(key, 1_000_000))
