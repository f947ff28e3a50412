"""Sends commands to a running lagwatch over `/api/v1`; the command `loss`."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from lagwatch.cli.reporting import OWN_CA, Exit, complain, reported
from lagwatch.core.words import counted
from lagwatch.errors import NotFoundError, SourceError

HERE: Final = "http://127.0.0.1:8000"
Url = Annotated[
    str, typer.Option(metavar="URL", envvar="LAGWATCH_URL", help="Root of the running lagwatch.")
]
Cluster = Annotated[
    str, typer.Option(metavar="NAME", help="Its cluster; needed only where several have it.")
]
_TIMEOUT_S: Final = 10.0


def ask(
    root: str,
    method: str,
    path: str,
    body: Mapping[str, object] | None = None,
    *,
    missing: tuple[str, str] = ("", ""),
    or_missing: tuple[str, str] = ("", ""),
) -> Any:  # noqa: ANN401 JSON of the server
    """The answer of the server; None without a body.

    Raises:
        NotFoundError: it does not know `missing` (kind, name), or `or_missing` if it names that.
        SourceError: it cannot be reached, refuses, or has no such route.
    """
    from lagwatch.cli.remote import authorization, refused, shown_url

    shown = shown_url(root)
    parts = urlsplit(root if "://" in root else f"http://{root}")
    secure = parts.scheme == "https"
    opened = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = opened(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"} | authorization(parts)
        connection.request(
            method, parts.path.rstrip("/") + path, json.dumps(body) if body else None, headers
        )
        response = connection.getresponse()
        text = response.read()
    except (OSError, http.client.HTTPException) as error:
        message = f"cannot ask {shown}: {error}. {_remedy(error)}"
        raise SourceError(cluster="", kind="connection", message=message) from error
    finally:
        connection.close()
    if response.status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
        raise refused(shown, response.status)
    if response.status == http.client.NOT_FOUND and missing[0] and b"is not known" in text:
        named = f"{or_missing[1]!r} is not known".encode() in text
        kind, name = or_missing if or_missing[1] and named else missing
        raise NotFoundError(kind=kind, name=name)
    if response.status == http.client.NOT_FOUND:
        message = f"{shown} has no {path}: it is another server, or that part is switched off there"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    if response.status >= http.client.BAD_REQUEST:
        message = f"{shown} answered {response.status}: {_message(text)}"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        message = f"{shown} did not answer as lagwatch does: --url must name its root"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False) from error


def _message(text: bytes) -> str:
    """The message of an error answer; the answer as it is where it is not one of lagwatch's."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    message = answer.get("message") if isinstance(answer, dict) else None
    return message if isinstance(message, str) else text.decode(errors="replace")[:300]


def _remedy(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return OWN_CA
    return "Check --url and that lagwatch runs."


def cluster_of(url: str, group: str) -> str:
    """The name of the cluster that has the group.

    Raises:
        NotFoundError: no cluster knows it.
        SourceError: several clusters have it.
    """
    clusters = [str(each) for each in ask(url, "GET", "/v3/kafka")["clusters"]]
    if len(clusters) == 1:
        return clusters[0]
    found = [each for each in clusters if _has(url, each, group)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFoundError(kind="group", name=f"{group} on {', '.join(clusters)}")
    message = f"{group} is on {', '.join(found)}: say which with --cluster"
    raise SourceError(cluster="", kind="protocol", message=message, retryable=False)


def _has(url: str, cluster: str, group: str) -> bool:
    try:
        ask(url, "GET", group_path(cluster, group), missing=("group", group))
    except NotFoundError:
        return False
    return True


def check_named(what: str, name: str | None) -> None:
    """Refuse an empty name: it may be a variable of a script that is not set."""
    if name is not None and not name.strip():
        complain(f"{what} is empty. Write '*' for all.")
        raise typer.Exit(Exit.ERROR)


loss = typer.Typer(no_args_is_help=True, help="Lost messages of groups.")

_LOSS_EPILOG = """
The messages stay counted in the metrics and recorded in the history.

**Examples**

`lagwatch loss acknowledge billing --cluster prod`

`lagwatch loss acknowledge 'billing-*' orders`
"""


@loss.callback()
def _losses() -> None:
    """Keep `acknowledge` a subcommand, although it is the only one."""


@loss.command(epilog=_LOSS_EPILOG)
@reported(Exit.ERROR)
def acknowledge(
    groups: Annotated[
        list[str],
        typer.Argument(
            metavar="GROUP", help="Names of groups; * is any characters, so '*' means all."
        ),
    ],
    *,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The cluster's name; * is any characters. If it is not given: all clusters for a "
            "name with *, else the only one that has the group.",
        ),
    ] = None,
    url: Url = HERE,
) -> None:
    """Stop showing the lost messages of groups as an error."""
    for name in groups:
        check_named("GROUP", name)
    check_named("--cluster", cluster)
    orders: dict[str, list[str]] = {}
    unmatched: list[str] = []
    for name in dict.fromkeys(groups):
        try:
            found = cluster or ("" if "*" in name else cluster_of(url, name))
        except NotFoundError:
            unmatched.append(name)
        else:
            orders.setdefault(found, []).append(name)
    answers = [
        ask(url, "POST", "/api/v1/losses/acknowledge", {"cluster": on, "groups": names})
        for on, names in orders.items()
    ]
    unmatched += (name for answer in answers for name in answer["unmatched"])
    matching = sum(answer["matching"] for answer in answers)
    if matching:
        acknowledged = [loss for answer in answers for loss in answer["acknowledged"]]
        typer.echo(_said(acknowledged, matching))
    for name in unmatched:
        on = f" on {cluster}" if cluster else ""
        complain(f"nothing matches: no known group{on} has the name {name!r}")
    if unmatched:
        raise typer.Exit(Exit.ERROR)


def _said(losses: Sequence[Mapping[str, Any]], matching: int) -> str:
    """How much was acknowledged, in words."""
    if not losses:
        shows = "the group shows" if matching == 1 else f"{matching:,} groups show"
        return f"nothing to acknowledge: {shows} no loss"
    names = [f"{loss['group']} on {loss['cluster']}" for loss in losses]
    of = names[0] if len(names) == 1 else f"{len(names):,} of {counted(matching, 'group')}"
    partitions, messages = (sum(loss[key] for loss in losses) for key in ("partitions", "lost"))
    bound = "up to " if any(loss["lost_is"] == "upper_bound" for loss in losses) else ""
    return (
        f"{of}: losses of {counted(partitions, 'partition')}, {bound}{counted(messages, 'message')}"
    )


def group_path(cluster: str, group: str, *words: str) -> str:
    """The path of what belongs to a group."""
    names = "/".join(quote(word, safe="") for word in (group, *words))
    return f"/api/v1/clusters/{quote(cluster, safe='')}/groups/{names}"
