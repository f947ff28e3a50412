"""`lagwatch events`: what happened to a group."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Cluster, Url, ask, cluster_of
from lagwatch.cli.output import print_json
from lagwatch.cli.reporting import Exit, reported
from lagwatch.cli.words import instant
from lagwatch.core.words import client, counted, duration, printable

EPILOG = """
Prints the newest 200 events since lagwatch started, oldest first: members that came and went,
rebalances, offsets that were reset, topics that were made anew, lost messages, changes of the
verdict. What is older is in the history: `--from` reads it.

**Examples**

`lagwatch events billing`

`lagwatch events billing --cluster prod --from -7d --json`
"""

_Point = Mapping[str, Any]


@reported(Exit.ERROR)
def events(
    group: Annotated[str, typer.Argument(help="The group's exact name.")],
    *,
    begin: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Read the history from here on: -24h.")
    ] = "",
    cluster: Cluster = "",
    url: Url = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What happened to a group, in order."""
    name = cluster or cluster_of(url, group)
    query = f"from={quote(begin, safe='')}&limit=10000" if begin else "source=memory"
    path = f"/api/v1/clusters/{quote(name, safe='')}/groups/{quote(group, safe='')}/events?{query}"
    points = ask(url, "GET", path, missing=("group", f"{group} on {name}"))["points"]
    if as_json:
        print_json(points, single=False)
        return
    for point in points:
        typer.echo(line(point))
    if not points:
        typer.echo(f"{group} on {name}: nothing happened")


def line(point: _Point) -> str:
    """One event as a line: when, what, and where."""
    where = point["topic"] or ""
    if where and point["partition"] is not None:
        where += f"/{point['partition']}"
    return printable(" ".join(filter(None, (instant(point["at_ms"]), where, _said(point)))))


def _said(point: _Point) -> str:
    """The event in words; those that have none here by their name."""
    return _WORDS.get(point["event"], _change)(point)


def _change(point: _Point) -> str:
    name = str(point["event"]).replace("_", " ")
    before, after = point["before"], point["after"]
    change = f"{before} → {after}" if before and after else after or before or ""
    rule = f"({point['rule']})" if point["rule"] else ""
    return " ".join(filter(None, (f"{name}:" if change else name, change, rule)))


def _members(point: _Point) -> str:
    members = [_member(member) for member in _detail(point)]
    more = (point["count"] or 0) - len(members)
    return ", ".join([*members, *([f"and {more} more"] if more > 0 else [])])


def _member(member: Mapping[str, str]) -> str:
    instance = member.get("instance_id")
    who = client(member["client_id"], member["host"])
    return f"{who} (instance {instance})" if instance else who


def _reset(point: _Point) -> str:
    resets = [
        f"{change['partition']}: {change['before']:,} → {change['after']:,}"
        for change in _detail(point)
    ]
    more = (point["count"] or 0) - len(resets)
    return ", ".join([*resets, *([f"and {more} more"] if more > 0 else [])])


def _detail(point: _Point) -> Any:  # noqa: ANN401 JSON of the server
    return json.loads(point["detail"] or "null")


def _lost(point: _Point) -> str:
    exact = (_detail(point) or {}).get("exact", True)
    return "" if exact else "at most "


def _storm(point: _Point) -> str:
    number = f": {point['count']} within 5 min" if point["after"] == "began" else ""
    return f"rebalance storm {point['after']}{number}"


_WORDS: Final[Mapping[str, Callable[[_Point], str]]] = {
    "member_joined": lambda it: f"{counted(it['count'], 'member')} joined: {_members(it)}",
    "member_left": lambda it: f"{counted(it['count'], 'member')} left: {_members(it)}",
    "static_member_away": lambda it: (
        f"{counted(it['count'], 'static member')} away: {_members(it)}"
    ),
    "static_member_back": lambda it: (
        f"{counted(it['count'], 'static member')} back: {_members(it)}"
    ),
    "rebalance": lambda it: (
        counted(it["count"], "rebalance") + (", and then no members" if it["after"] else "")
    ),
    "rebalance_storm": _storm,
    "unassigned": lambda it: f"no member holds a partition (state {it['after']})",
    "assigned": lambda it: (
        f"partitions are assigned again after {duration(_detail(it)['unassigned_s'])}"
    ),
    "offsets_reset": lambda it: f"offsets were set while the group had no members: {_reset(it)}",
    "topic_recreated": lambda _: "the topic was deleted and made anew",
    "partitions_added": lambda it: f"{it['after']} partitions instead of {it['before']}",
    "records_lost": lambda it: (
        f"{_lost(it)}{counted(it['count'], 'message')} deleted before the group read them"
    ),
}
"""Event → its sentence."""
