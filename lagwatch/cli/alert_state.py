"""`lagwatch alert incidents|acknowledge|notices|retry`: alerts of a running lagwatch, over HTTP."""

import textwrap
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import typer

from lagwatch.cli.ask import HERE, Url, ask
from lagwatch.cli.options import user
from lagwatch.cli.output import local_time, print_json, short_name, zone_of
from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.core.words import counted
from lagwatch.ports.alerts import MessageState

_ROOT: Final = "/api/v1/alerts"
_PARTS: Final = {"cluster": "cluster {cluster}", "channel": "channel {group}", "history": "history"}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, help="Entries at most, newest first.")]
_PAGE: Final = 1000
"""Most entries that one request asks for."""
_COUNTED: Final = 10_000
"""Up to so many entries that are not shown are counted."""
_LONGEST_PROBLEM: Final = 160
"""A longer one is cut; `--json` has it whole."""

_ACKNOWLEDGE = """
**Examples**

`lagwatch alert acknowledge 3f2a9c0d11e25b7a`
"""
_RETRY = """
**Examples**

`lagwatch alert retry 3f2a…`

`lagwatch alert retry --channel old-chat --to chat`
"""


class IncidentState(StrEnum):
    """Which incidents to show."""

    OPEN = "open"
    CLOSED = "closed"
    ALL = "all"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(incidents)
    app.command(epilog=_ACKNOWLEDGE)(acknowledge)
    app.command()(notices)
    app.command(epilog=_RETRY)(retry)


@reported(Exit.ERROR)
def incidents(
    *,
    state: Annotated[IncidentState, typer.Option(help="Which ones.")] = IncidentState.OPEN,
    cluster: Annotated[str, typer.Option(help="Only this cluster.")] = "",
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    limit: Limit = 100,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Show incidents, newest first."""
    wanted = {
        "state": "" if state is IncidentState.ALL else state.value,
        "cluster": cluster,
        "group": group,
    }
    found, more, zone = _newest(url, "incidents", wanted, limit)
    if as_json:
        print_json(found, single=False)
        _say_more(more, limit, err=True)
        return
    rows = [
        (
            *(
                incident["id"],
                _name(incident),
                incident["severity"],
                _since(incident, zone),
            ),
            *(_ended(incident, zone), _acknowledged(incident), _rule(incident)),
            incident.get("behind_now") or "-",
        )
        for incident in found
    ]
    from lagwatch.cli.listing import print_listing

    titles = ("id", "what", "severity", "since", "ended", "acknowledged", "last said", "now")
    print_listing(titles, rows, first=("id", "what", "severity"))
    _say_more(more, limit)


@reported(Exit.ERROR)
def acknowledge(
    incident: Annotated[
        str,
        typer.Argument(
            help="Id of an incident, as `incidents` shows it, or at least its first 4 characters."
        ),
    ],
    *,
    author: Annotated[str, typer.Option(help="Who works on it; you, if not given.")] = "",
    url: Url = HERE,
) -> None:
    """Send no more reminders of an open incident. It escalates and ends as before."""
    path = f"{_ROOT}/incidents/{quote(incident, safe='')}/acknowledge"
    order = {"author": author or user()}
    done = ask(url, "POST", path, order, missing=("open incident", incident))
    typer.echo(f"{_name(done)}: acknowledged by {short_name(done['acknowledged_by'])}")


@reported(Exit.ERROR)
def notices(
    *,
    state: Annotated[
        MessageState | None, typer.Option(help="Only those in it; all if not given.")
    ] = None,
    channel: Annotated[str, typer.Option(help="Only this channel.")] = "",
    cluster: Annotated[str, typer.Option(help="Only this cluster.")] = "",
    group: Annotated[str, typer.Option(help="Only this group.")] = "",
    limit: Limit = 100,
    url: Url = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the newest notice of each incident and channel, and why it is not delivered."""
    wanted = {
        "state": "" if state is None else state.value,
        "channel": channel,
        "cluster": cluster,
        "group": group,
    }
    found, more, zone = _newest(url, "notices", wanted, limit)
    if as_json:
        print_json(found, single=False)
        _say_more(more, limit, err=True)
        return
    rows = [
        (
            *(
                notice["channel"],
                notice["state"],
                notice["event"],
                _place(notice),
            ),
            *(
                local_time(notice["at_ms"], zone),
                str(notice["attempts"]),
                notice["message"] or "-",
                notice["last_error"] or _to_be_sent(notice, zone),
            ),
        )
        for notice in found
    ]
    from lagwatch.cli.listing import print_listing

    titles = ("channel", "state", "event", "group", "at", "tried", "message", "last answer")
    print_listing(titles, rows, first=("message", "state", "channel", "group"))
    _say_more(more, limit)


@reported(Exit.ERROR)
def retry(
    message: Annotated[
        str,
        typer.Argument(
            help="Id of a dead message, as `notices` shows it, or at least its first 4 characters."
        ),
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
    said = f"{counted(done['notices'], 'notice')} queued again"
    typer.echo(f"{said}; what waits for {to or channel or 'its channel'} is tried at once")


def _newest(
    url: str, kind: str, wanted: Mapping[str, object], limit: int
) -> tuple[list[dict[str, Any]], int, ZoneInfo]:
    """(the newest entries, how many more there are, the server's time zone).

    Those that are left out are counted up to `_COUNTED`.
    """
    found: list[dict[str, Any]] = []
    cursor, more = "", 0
    while True:
        left = limit - len(found)
        page = {**wanted, "limit": min(left, _PAGE) if left else _PAGE, "cursor": cursor}
        answer = ask(url, "GET", f"{_ROOT}/{kind}?{_query(page)}")
        if left:
            found += answer[kind]
        else:
            more += len(answer[kind])
        cursor = answer.get("next", "")
        if not cursor or more >= _COUNTED:
            return found, more, zone_of(answer)


def _say_more(more: int, limit: int, *, err: bool = False) -> None:
    """Say how many entries are not shown, and how to see them."""
    if more:
        count = f"{more:,}" if more < _COUNTED else f"{_COUNTED:,} or"
        typer.echo(f"… and {count} more: --limit {limit + more}", err=err)


def _query(given: dict[str, object]) -> str:
    return urlencode({name: value for name, value in given.items() if value != ""})


def _name(incident: dict[str, Any]) -> str:
    part = _PARTS.get(incident["about"])
    return short_name(part.format(**incident)) if part else _place(incident)


def _place(record: Mapping[str, Any]) -> str:
    """`prod/billing`."""
    return short_name(f"{record['cluster']}/{record['group']}")


def _to_be_sent(notice: dict[str, Any], zone: ZoneInfo) -> str:
    at_ms = notice["next_attempt_ms"]
    return "" if at_ms is None else f"to be sent {local_time(at_ms, zone)}"


def _since(incident: Mapping[str, Any], zone: ZoneInfo) -> str:
    # an older server does not say whether it began earlier
    least = "at least " if incident.get("since_at_least") else ""
    return f"{least}{local_time(incident['since_ms'], zone)}"


def _ended(incident: dict[str, Any], zone: ZoneInfo) -> str:
    healed_ms, closed_ms = incident["healed_ms"], incident["closed_ms"]
    if closed_ms is not None:  # some time after the trouble was over
        return local_time(closed_ms if healed_ms is None else healed_ms, zone)
    if healed_ms is not None:
        return f"healed {local_time(healed_ms, zone)}, muted"
    return "no, muted" if incident.get("muted") else local_time(None, zone)


def _acknowledged(incident: dict[str, Any]) -> str:
    return "-" if incident["acknowledged_ms"] is None else incident["acknowledged_by"] or "yes"


def _rule(incident: dict[str, Any]) -> str:
    """What was wrong when it was last said: the rule of a verdict, and the limit that is missed."""
    verdict = incident["verdict"]
    if verdict.get("problem"):
        return textwrap.shorten(str(verdict["problem"]), _LONGEST_PROBLEM, placeholder=" …")
    bad = verdict.get("status") not in {"OK", "UNKNOWN", "NOTFOUND"}
    rule = str(verdict.get("rule") or "").replace("_", " ") if bad else ""
    return "; ".join(filter(None, (rule, verdict.get("objective")))) or "-"
