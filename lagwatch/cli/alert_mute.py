"""`lagwatch alert mute`: mutes of a running lagwatch, over its API."""

from typing import Annotated, Final
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Url, ask, check_named
from lagwatch.cli.options import user
from lagwatch.cli.output import local_time, print_json, short_name, zone_of
from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.errors import SourceError

mute = typer.Typer(no_args_is_help=True, help="Mute groups of a running lagwatch.")

_PATH: Final = "/api/v1/alerts/mutes"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

_ADD = """
**Examples**

`lagwatch alert mute add billing --cluster prod --for 2h --reason "deploying 4.2"`
"""


@mute.command(epilog=_ADD)
@reported(Exit.ERROR)
def add(
    group: Annotated[
        str, typer.Argument(help="The group's name; * is any characters, so '*' means all.")
    ],
    *,
    cluster: Annotated[
        str | None, typer.Option(help="The cluster's name; * is any characters, all if not given.")
    ] = None,
    duration: Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d.")],
    reason: Annotated[str, typer.Option(help="Why; shown with the mute.")],
    author: Annotated[str, typer.Option(help="Who; you, if not given.")] = "",
    url: Url = HERE,
) -> None:
    """Mute groups now. Their incidents are recorded, and sent when the mute ends."""
    check_named("GROUP", group)
    check_named("--cluster", cluster)
    order = {
        "cluster": cluster or "",
        "group": group,
        "reason": reason,
        "author": author or user(),
        "duration_s": _seconds(duration),
    }
    made = ask(url, "POST", _PATH, order)
    zone = zone_of(ask(url, "GET", _PATH))
    typer.echo(f"{made['id']}  until {local_time(made['ends_ms'], zone)}")
    if not made["matching"]:
        complain("No known group has this name now: check it. The mute is in force all the same.")
    elif made["matching"] > 1:
        typer.echo(f"{made['matching']:,} groups are muted")


@mute.command("list")
@reported(Exit.ERROR)
def list_(
    *,
    url: Url = HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the mutes that are open or still to come."""
    answer = ask(url, "GET", _PATH)
    mutes, zone = answer["mutes"], zone_of(answer)
    if as_json:
        print_json(mutes, single=False)
        return
    from lagwatch.cli.listing import print_listing

    rows = [
        (
            *(entry["id"], "yes" if entry["active"] else "no"),
            short_name(entry["cluster"] or "all"),
            short_name(entry["group"] or "all"),
            str(entry["matching"]),
            entry["weekly"] if entry["ends_ms"] is None else local_time(entry["ends_ms"], zone),
            *(entry["author"], entry["reason"]),
        )
        for entry in mutes
    ]
    titles = ("id", "active", "cluster", "group", "groups", "until", "by", "reason")
    print_listing(titles, rows, first=("id", "cluster", "group"))


@mute.command()
@reported(Exit.ERROR)
def remove(
    id_: Annotated[
        str,
        typer.Argument(
            metavar="ID", help="As `mute list` shows it, or at least its first 4 characters."
        ),
    ],
    *,
    url: Url = HERE,
) -> None:
    """End a mute now."""
    ask(url, "DELETE", f"{_PATH}/{quote(id_, safe='')}", missing=("mute", id_))


def _seconds(text: str) -> float:
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        message = f"--for {text}: is no duration. Write 90s, 30m, 2h or 1d."
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False) from None
    if not seconds > 0:
        message = f"--for {text}: a mute must last. Write 90s, 30m, 2h or 1d."
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    return seconds
