"""Sends commands to a running lagwatch over `/api/v1`; the command `loss`."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from lagwatch.cli.reporting import OWN_CA, Exit, reported
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
        message = f"{shown} answered {response.status}: {text.decode(errors='replace')[:300]}"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False)
    try:
        return json.loads(text) if text else None
    except ValueError as error:
        message = f"{shown} did not answer as lagwatch does: --url must name its root"
        raise SourceError(cluster="", kind="protocol", message=message, retryable=False) from error


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


loss = typer.Typer(no_args_is_help=True, help="Lost messages of a group.")

_LOSS_EPILOG = """
The messages stay counted in the metrics and recorded in the history.

**Examples**

`lagwatch loss acknowledge billing --cluster prod`
"""


@loss.callback()
def _losses() -> None:
    """Keep `acknowledge` a subcommand, although it is the only one."""


@loss.command(epilog=_LOSS_EPILOG)
@reported(Exit.ERROR)
def acknowledge(
    group: Annotated[str, typer.Argument(help="The group's exact name.")],
    *,
    cluster: Cluster = "",
    url: Url = HERE,
) -> None:
    """Stop showing the lost messages of a group as an error."""
    name = cluster or cluster_of(url, group)
    answer = _post(url, name, group, "losses", "acknowledge")
    number = int(answer["partitions"])
    typer.echo(f"{group} on {name}: losses of {number} partition{'' if number == 1 else 's'}")


def group_path(cluster: str, group: str, *words: str) -> str:
    """The path of what belongs to a group."""
    names = "/".join(quote(word, safe="") for word in (group, *words))
    return f"/api/v1/clusters/{quote(cluster, safe='')}/groups/{names}"


def _post(url: str, cluster: str, group: str, *words: str) -> Any:  # noqa: ANN401 JSON of the server
    path = group_path(cluster, group, *words)
    return ask(url, "POST", path, missing=("group", f"{group} on {cluster}"))
