"""`lagwatch deployment` notes one; `lagwatch deployments` lists, compares and plans."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Cluster, Url, ask, cluster_of, group_path
from lagwatch.cli.output import print_json
from lagwatch.cli.reporting import Exit, reported
from lagwatch.cli.words import instant
from lagwatch.core.words import counted, printable

_Json = Mapping[str, Any]

Group = Annotated[str, typer.Argument(help="The group's exact name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

EPILOG = """
The history remembers when, and the offsets the group had committed; `lagwatch deployments` shows
them. The nightly report compares the hours before and after. Call it at the end of a deployment.

**Examples**

`lagwatch deployment billing --version 4.2`

`lagwatch deployment billing --cluster prod --version $CI_COMMIT_TAG --note "new parser"`
"""


@reported(Exit.ERROR)
def deployment(
    group: Group,
    *,
    version: Annotated[str, typer.Option(help="What went live: a version, tag or commit.")],
    note: Annotated[str, typer.Option(help="A note on this deployment.")] = "",
    cluster: Cluster = "",
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Remember that a version of a group's consumers went live now."""
    name = cluster or cluster_of(url, group)
    body = {"version": version, "note": note}
    path = group_path(name, group, "deployments")
    made = ask(url, "POST", path, body, missing=("group", f"{group} on {name}"))
    if as_json:
        print_json([made], single=True)
        return
    at = instant(made["at_ms"])
    typer.echo(f"{group} on {name}: {version} at {at}, with the offsets of {_places(made)}")


deployments = typer.Typer(
    no_args_is_help=True, help="Deployments of a group: list, compare, plan to roll back."
)


@deployments.command(name="list")
@reported(Exit.ERROR)
def listed(
    group: Group, *, cluster: Cluster = "", url: Url = HERE, as_json: AsJson = False
) -> None:
    """List the deployments of a group, oldest first."""
    name = cluster or cluster_of(url, group)
    path = group_path(name, group, "deployments")
    noted = ask(url, "GET", path, missing=("group", f"{group} on {name}"))
    if as_json:
        print_json(noted, single=False)
    elif not noted:
        typer.echo(f"no deployment of {group} on {name} is recorded", err=True)
    for deployment in () if as_json else noted:
        words = (
            str(deployment["at_ms"]),
            instant(deployment["at_ms"]),
            deployment["version"],
            _places(deployment),
        )
        typer.echo(printable("  ".join((*words, deployment["note"])).rstrip()))


_DIFF_EPILOG = """
Each version is measured over the last part of the time in which it was live, by default an hour:
until the group's next deployment, or now. BEFORE and AFTER are IDs as `list` prints them, or
versions.

**Examples**

`lagwatch deployments diff billing 4.1 4.2`

`lagwatch deployments diff billing 1763726400000 4.2 --last 10m`
"""
_LINES: Final[tuple[tuple[str, str, str], ...]] = (
    ("live", "lived_s", "s"),
    ("recorded", "recorded_s", "s"),
    ("lag, average", "lag_avg", "messages"),
    ("lag, highest", "lag_max", "messages"),
    ("time lag, highest", "time_lag_max_s", "s"),
    ("rates over", "rates_over_s", "s"),
    ("produced", "produced_per_s", "per s"),
    ("consumed", "consumed_per_s", "per s"),
    ("time in OK", "ok_s", "s"),
    ("time in WARN", "warn_s", "s"),
    ("time in ERR", "err_s", "s"),
    ("rebalances", "rebalances", ""),
)


@deployments.command(epilog=_DIFF_EPILOG)
@reported(Exit.ERROR)
def diff(
    group: Group,
    before: Annotated[str, typer.Argument(help="ID or version of a deployment.")],
    after: Annotated[str, typer.Argument(help="ID or version of another.")],
    *,
    last: Annotated[
        str, typer.Option(help="How much of each is measured: 10m, 1h; at most 6h.")
    ] = "1h",
    cluster: Cluster = "",
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Compare lag, rates and verdicts under two versions."""
    name = cluster or cluster_of(url, group)
    path = group_path(name, group, "deployments", before, "diff", after) + f"?last={quote(last)}"
    found = ask(url, "GET", path, missing=_missing(name, group, f"{before} or {after}"))
    if as_json:
        print_json([found], single=True)
        return
    for line in _compared(found):
        typer.echo(printable(line))


def _compared(found: _Json) -> Iterator[str]:
    sides = (found["before"], found["after"])
    yield _row("", *(side["deployment"]["version"] for side in sides))
    yield _row("deployed", *(instant(side["deployment"]["at_ms"]) for side in sides))
    yield _row("measured from", *(instant(side["from_ms"]) for side in sides))
    yield _row("until", *(instant(side["to_ms"]) for side in sides))
    for title, name, unit in _LINES:
        yield _row(title, *(_value(side[name], unit) for side in sides))
    yield _row("committed between", "", _value(found["committed"], "messages"))


def _row(title: str, before: str, after: str) -> str:
    return f"{title:18} {before:>24} {after:>24}".rstrip()


def _value(value: float | None, unit: str) -> str:
    if value is None:
        return "unknown"
    number = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
    return f"{number} {unit}".rstrip()


_PLAN_EPILOG = """
The CSV goes to standard output, what it means to standard error. Nothing is reset: to do so, stop
the group's members and give the file to Kafka's own tool. For share groups, and for progress
that is kept outside of Kafka, there is no such file: the command says what to do instead.

**Examples**

`lagwatch deployments rollback-plan billing 4.1 > billing.csv`
"""
_WHY: Final[Mapping[str, str]] = {
    "deleted": "records from offset {recorded_offset} on were deleted; set to the log start",
    "beyond_end": "the log ends before offset {recorded_offset}; set to the log end",
    "recreated": "the topic was created anew since then; set to the log start",
    "not_committed_then": "no offset was committed then; left as it is",
    "not_visible": "the log's bounds are not known; left as it is",
}


@deployments.command(name="rollback-plan", epilog=_PLAN_EPILOG)
@reported(Exit.ERROR)
def rollback_plan(
    group: Group,
    deployment: Annotated[str, typer.Argument(help="ID or version of a deployment.")],
    *,
    cluster: Cluster = "",
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Print the offsets of a deployment as CSV that Kafka's own reset tool takes."""
    name = cluster or cluster_of(url, group)
    path = group_path(name, group, "deployments", deployment, "rollback-plan")
    plan = ask(url, "GET", path, missing=_missing(name, group, deployment))
    if as_json:
        print_json([plan], single=True)
        return
    for each in plan["partitions"]:
        if each["offset"] is not None:
            typer.echo(f"{each['topic']},{each['partition']},{each['offset']}")
    for line in _explained(plan):
        typer.echo(printable(line), err=True)


def _explained(plan: _Json) -> Iterator[str]:
    at = instant(plan["deployed_ms"])
    yield f"{plan['group']} on {plan['cluster']}, back to {plan['version']} of {at}"
    yield f"read again: {plan['read_again']:,} messages{_unknown(plan)}"
    if plan["skipped"]:
        yield f"never read: {plan['skipped']:,} messages, because the group is behind these offsets"
    if plan["deleted"]:
        yield f"deleted: {plan['deleted']:,} offsets no longer exist"
    for each in plan["partitions"]:
        if why := _WHY.get(each["state"]):
            yield f"{each['topic']} {each['partition']}: {why.format(**each)}"
    if plan["members"] != 0:
        members = plan["members"]
        count = "an unknown number of members" if members is None else counted(members, "member")
        yield f"the group has {count}; Kafka resets offsets only when all have stopped"


def _unknown(plan: _Json) -> str:
    unknown = plan["read_again_unknown"]
    return f"; of {unknown} partitions it is not known" if unknown else ""


def _places(deployment: _Json) -> str:
    known = sum(
        offset is not None for offsets in deployment["offsets"].values() for offset in offsets
    )
    return f"{known} partition{'' if known == 1 else 's'}"


def _missing(cluster: str, group: str, deployment: str) -> tuple[str, str]:
    return "group or deployment", f"{deployment} of {group} on {cluster}"
