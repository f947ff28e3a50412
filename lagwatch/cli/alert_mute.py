"""`lagwatch alert mute`: mutes of a running lagwatch, over its API."""

import getpass
import http.client
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from lagwatch.cli.output import console, print_json
from lagwatch.cli.reporting import Exit, reported
from lagwatch.errors import NotFoundError, SourceError

mute = typer.Typer(no_args_is_help=True, help="Mute groups of a running lagwatch.")

_PATH: Final = "/api/v1/alerts/mutes"
_TIMEOUT_S: Final = 10.0
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

Url = Annotated[
    str, typer.Option(metavar="URL", envvar="LAGWATCH_URL", help="Root of the running lagwatch.")
]
_HERE: Final = "http://127.0.0.1:8000"

_ADD = """
**Examples**

`lagwatch alert mute add billing --cluster prod --for 2h --reason "deploying 4.2"`
"""


@mute.command(epilog=_ADD)
@reported(Exit.ERROR)
def add(
    group: Annotated[str, typer.Argument(help="The group's exact name; '' means all.")],
    *,
    cluster: Annotated[str, typer.Option(help="The cluster's exact name; all if not given.")] = "",
    duration: Annotated[str, typer.Option("--for", help="How long: 90s, 30m, 2h, 1d.")],
    reason: Annotated[str, typer.Option(help="Why; shown with the mute.")],
    author: Annotated[str, typer.Option(help="Who; you, if not given.")] = "",
    url: Url = _HERE,
) -> None:
    """Mute a group now. Its incidents are recorded, and told when the mute ends."""
    order = {
        "cluster": cluster,
        "group": group,
        "reason": reason,
        "author": author or getpass.getuser(),
        "duration_s": _seconds(duration),
    }
    made = _ask(url, "POST", _PATH, order)
    typer.echo(f"{made['id']}  until {_shown(made['ends_ms'])}")


@mute.command("list")
@reported(Exit.ERROR)
def list_(
    *,
    url: Url = _HERE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the mutes that are open or still to come."""
    mutes = _ask(url, "GET", _PATH)["mutes"]
    if as_json:
        print_json(mutes, single=False)
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("id", "active", "cluster", "group", "until", "by", "reason"):
        table.add_column(title, no_wrap=title != "reason")
    for one in mutes:
        active = "yes" if one["active"] else "no"
        names = (one["cluster"] or "all", one["group"] or "all")
        table.add_row(
            one["id"], active, *names, _shown(one["ends_ms"]), one["author"], one["reason"]
        )
    console().print(table)


@mute.command()
@reported(Exit.ERROR)
def remove(
    id_: Annotated[str, typer.Argument(metavar="ID", help="As `mute list` shows it.")],
    *,
    url: Url = _HERE,
) -> None:
    """End a mute now."""
    _ask(url, "DELETE", f"{_PATH}/{quote(id_, safe='')}")


def _ask(root: str, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:  # noqa: ANN401 JSON of the server
    parts = urlsplit(root if "://" in root else f"http://{root}")
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(
            method, parts.path.rstrip("/") + path, json.dumps(body) if body else None, headers
        )
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        message = f"cannot ask {root}: {error}. Check --url and that lagwatch runs."
        raise SourceError(cluster="", kind="connection", message=message) from error
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND:
        raise NotFoundError(kind="mute", name=path.rpartition("/")[2])
    if response.status >= http.client.BAD_REQUEST:
        message = f"{root} answered {response.status}: {text.decode(errors='replace')[:300]}"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    return json.loads(text) if text else None


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
