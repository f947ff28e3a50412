"""`lagwatch alert mute`: mutes of a running lagwatch, over its API."""

import getpass
from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import quote

import typer

from lagwatch.cli.ask import HERE, Url, ask
from lagwatch.cli.output import console, plain, print_json
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
        str, typer.Argument(help="The group's name; * is any characters, '' means all.")
    ],
    *,
    cluster: Annotated[
        str, typer.Option(help="The cluster's name; * is any characters, all if not given.")
    ] = "",
    duration: Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d.")],
    reason: Annotated[str, typer.Option(help="Why; shown with the mute.")],
    author: Annotated[str, typer.Option(help="Who; you, if not given.")] = "",
    url: Url = HERE,
) -> None:
    """Mute groups now. Their incidents are recorded, and sent when the mute ends."""
    order = {
        "cluster": cluster,
        "group": group,
        "reason": reason,
        "author": author or getpass.getuser(),
        "duration_s": _seconds(duration),
    }
    made = ask(url, "POST", _PATH, order)
    typer.echo(f"{made['id']}  until {_shown(made['ends_ms'])}")
    if not made["matching"]:
        complain(
            "No group that is seen now has such a name: check it; the mute holds all the same."
        )
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
    mutes = ask(url, "GET", _PATH)["mutes"]
    if as_json:
        print_json(mutes, single=False)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("id", "active", "cluster", "group", "groups", "until", "by", "reason"):
        table.add_column(title, no_wrap=title != "reason")
    for entry in mutes:
        active = "yes" if entry["active"] else "no"
        names = (plain(entry["cluster"] or "all"), plain(entry["group"] or "all"))
        table.add_row(
            *(entry["id"], active, *names, str(entry["matching"]), _shown(entry["ends_ms"])),
            *(plain(entry["author"]), plain(entry["reason"])),
        )
    console().print(table)


@mute.command()
@reported(Exit.ERROR)
def remove(
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `mute list` shows it.")],
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
    return seconds


def _shown(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds")
