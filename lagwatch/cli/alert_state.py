"""`lagwatch alert incidents|acknowledge|notices|retry`: alerts of a running lagwatch, over HTTP."""

import getpass
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import typer

from lagwatch.cli.ask import HERE, Url, ask
from lagwatch.cli.output import console, plain, print_json
from lagwatch.cli.reporting import Exit, complain, reported

_ROOT: Final = "/api/v1/alerts"
_PARTS: Final = {"cluster": "cluster {cluster}", "channel": "channel {group}", "history": "history"}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="Entries at most, newest first.")]

_ACKNOWLEDGE = """
**Examples**

`lagwatch alert acknowledge 3f2a9c0d11e25b7a`
"""
_RETRY = """
**Examples**

`lagwatch alert retry 3f2a…`

`lagwatch alert retry --channel old-chat --to chat`
"""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(incidents)
    app.command(epilog=_ACKNOWLEDGE)(acknowledge)
    app.command()(notices)
    app.command(epilog=_RETRY)(retry)


@reported(Exit.ERROR)
def incidents(
    *,
    state: Annotated[str, typer.Option(help="open, closed or all.")] = "open",
    cluster: Annotated[str, typer.Option(help="Only this cluster.")] = "",
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    limit: Limit = 100,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Show incidents, newest first."""
    wanted = {
        "state": "" if state == "all" else state,
        "cluster": cluster,
        "group": group,
        "limit": limit,
    }
    answer = ask(url, "GET", f"{_ROOT}/incidents?{_query(wanted)}")
    found, zone = answer["incidents"], _zone(answer)
    if as_json:
        print_json(found, single=False)
        return
    rows = [
        (
            *(
                incident["id"],
                _name(incident),
                incident["severity"],
                _at(incident["since_ms"], zone),
            ),
            *(_at(incident["closed_ms"], zone), _acknowledged(incident), _rule(incident)),
        )
        for incident in found
    ]
    _print(("id", "what", "severity", "since", "ended", "acknowledged", "rule"), rows)


@reported(Exit.ERROR)
def acknowledge(
    incident: Annotated[str, typer.Argument(help="Id of an incident, as `incidents` shows it.")],
    *,
    author: Annotated[str, typer.Option(help="Who works on it; you, if not given.")] = "",
    url: Url = HERE,
) -> None:
    """Send no more reminders of an open incident. It escalates and ends as before."""
    path = f"{_ROOT}/incidents/{quote(incident, safe='')}/acknowledge"
    order = {"author": author or getpass.getuser()}
    done = ask(url, "POST", path, order, missing=("open incident", incident))
    typer.echo(f"{_name(done)}: acknowledged by {done['acknowledged_by']}")


@reported(Exit.ERROR)
def notices(
    *,
    state: Annotated[
        str, typer.Option(help="waiting, queued, delivered, dead or unreadable; all if not given.")
    ] = "",
    channel: Annotated[str, typer.Option(help="Only this channel.")] = "",
    limit: Limit = 100,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the newest notice of each incident and channel, and why it is not delivered."""
    wanted = {"state": state, "channel": channel, "limit": limit}
    answer = ask(url, "GET", f"{_ROOT}/notices?{_query(wanted)}")
    found, zone = answer["notices"], _zone(answer)
    if as_json:
        print_json(found, single=False)
        return
    rows = [
        (
            *(
                notice["channel"],
                notice["state"],
                notice["event"],
                f"{notice['cluster']}/{notice['group']}",
            ),
            *(
                _at(notice["at_ms"], zone),
                str(notice["attempts"]),
                notice["message"] or "-",
                notice["last_error"],
            ),
        )
        for notice in found
    ]
    _print(("channel", "state", "event", "group", "at", "tried", "message", "last answer"), rows)


@reported(Exit.ERROR)
def retry(
    message: Annotated[
        str, typer.Argument(help="Id of a dead message, as `notices` shows it.")
    ] = "",
    *,
    channel: Annotated[
        str, typer.Option(help="All messages this channel gave up; with --to also those that wait.")
    ] = "",
    to: Annotated[str, typer.Option(help="Another channel to send it to.")] = "",
    url: Url = HERE,
) -> None:
    """Send messages again that were given up, except those with newer notices of the same group."""
    if bool(message) == bool(channel):
        complain("Give the id of a message, or --channel.")
        raise typer.Exit(Exit.ERROR)
    kind, name = ("messages", message) if message else ("channels", channel)
    path = f"{_ROOT}/{kind}/{quote(name, safe='')}/retry?{_query({'to': to})}"
    known = (kind.removesuffix("s"), name)
    done = ask(url, "POST", path, missing=known, or_missing=("channel", to))
    typer.echo(f"{done['notices']} notices are sent again")


def _query(given: dict[str, object]) -> str:
    return urlencode({name: value for name, value in given.items() if value != ""})


def _name(incident: dict[str, Any]) -> str:
    part = _PARTS.get(incident["about"])
    return part.format(**incident) if part else f"{incident['cluster']}/{incident['group']}"


def _acknowledged(incident: dict[str, Any]) -> str:
    return "-" if incident["acknowledged_ms"] is None else incident["acknowledged_by"] or "yes"


def _rule(incident: dict[str, Any]) -> str:
    verdict = incident["verdict"]
    return str(verdict.get("rule") or verdict.get("problem") or "-").replace("_", " ")


def _zone(answer: dict[str, Any]) -> ZoneInfo:
    """The server's `alerts.time_zone`; UTC from servers that do not say it or if unknown here."""
    try:
        return ZoneInfo(answer.get("time_zone") or "UTC")
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def _at(at_ms: int | None, zone: ZoneInfo) -> str:
    if at_ms is None:
        return "-"
    return f"{datetime.fromtimestamp(at_ms / 1000, zone):%Y-%m-%d %H:%M:%S %Z}"


def _print(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in titles:
        table.add_column(title, no_wrap=title not in {"last answer", "rule"})
    for row in rows:
        table.add_row(*map(plain, row))
    console().print(table)
