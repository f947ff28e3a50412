"""Asks a running lagwatch, or a Burrow, over its `/v3`.

Source: the shapes of Burrow, core/internal/httpserver/structs.go; our additions may be absent.
"""

import http.client
import json
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from lagwatch.cli.reporting import OWN_CA
from lagwatch.cli.views import (
    BAD,
    NO_STATE,
    Found,
    GroupView,
    OpenIncident,
    PartitionView,
    ReadinessView,
    readiness,
    worst_of,
)
from lagwatch.core.words import printable, spoken
from lagwatch.errors import NotFoundError, SourceError

_SCHEMES: Final = ("http", "https")
_WHO: Final = "the server"
_ASKED_AT_ONCE: Final = 50
"""Groups, so that the address of a question stays short."""
_AT_MOST: Final = "upper_bound"
_FEW: Final = 500
"""Of a cluster with more groups only those in trouble are asked for speeds."""
_INCIDENTS: Final = "/api/v1/alerts/incidents?state=open&limit=1000"
_MOST_PAGES: Final = 50

# JSON of others: its values are of any type; a wrong one is a SourceError of kind `protocol`.
_Json = Mapping[str, Any]


class RemoteSource:
    """A `StatusSource` over HTTP, on a single connection.

    Every method may raise `SourceError`.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """`url` is the server's root, with a path if it is behind a proxy.

        Raises:
            SourceError: this is not such a URL.
        """
        self._root = shown_url(url)
        self._connection, self._prefix, self._headers = _connection(url, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        self._connection.close()

    def clusters(self) -> tuple[str, ...]:
        return self._read(self._found("/v3/kafka", "server", self._root), lambda it: it["clusters"])

    def readiness(self, cluster: str) -> ReadinessView:
        status, answer = self._get("/readyz")
        if isinstance(answer, dict) and isinstance(answer.get("clusters"), dict):
            return _readiness(answer["clusters"].get(cluster, {}))
        status, _ = self._get("/burrow/admin/ready")
        ready = status != http.client.SERVICE_UNAVAILABLE
        return ReadinessView(ready=ready, problems=() if ready else (f"{_WHO} is still starting",))

    def groups(self, cluster: str) -> tuple[str, ...]:
        path = f"/v3/kafka/{quote(cluster, safe='')}/consumer"
        return self._read(self._found(path, "cluster", cluster), lambda it: it["consumers"])

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        path = f"/v3/kafka/{quote(cluster, safe='')}/consumer/{quote(group, safe='')}"
        answer = self._found(f"{path}/{'lag' if show_all else 'status'}", "group", group)
        try:
            view = _group(answer["status"])
            beyond = self._beyond(cluster, group, alone=show_all)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._strange() from error
        return replace(view, **beyond)

    def _beyond(self, cluster: str, group: str, *, alone: bool) -> _Json:
        """Fields of `GroupView` that `/v3` lacks; {} from a Burrow."""
        try:
            if not alone:
                return self._beyond_of_all.get((cluster, group), {"state": NO_STATE})
            path = f"/api/v1/clusters/{quote(cluster, safe='')}/groups/{quote(group, safe='')}"
            answer = self.document(path)
        except NotFoundError:
            return {}
        info, worst = answer["info"] or {}, answer["worst"] or {}
        cause = answer.get("cause") or {}
        found = _speeds(answer, spoken(cause.get("name") or ""), cause.get("sentence", ""))
        return {
            "state": info.get("state", NO_STATE),
            "members": info.get("members"),
            "since_at_least": worst.get("at_least") is True,
            **asdict(found),
            "trouble_since_ms": answer.get("trouble_since_ms"),
            "trouble_since_at_least": answer.get("trouble_since_at_least") is True,
            "lost": answer.get("lost", 0),
            "lost_at_most": answer.get("lost_is") == _AT_MOST,
            "handled": _handled_of(self.open_incidents(cluster, group), cluster, group),
        }

    @cached_property
    def _beyond_of_all(self) -> Mapping[tuple[str, str], _Json]:
        """The same for every group, in a few requests."""
        fleet, incidents = self.document("/api/v1/fleet"), self.open_incidents()
        wanted = ("state", "members", "since_at_least")
        found: dict[tuple[str, str], _Json] = {}
        for cluster in fleet["clusters"]:
            rows = [dict(zip(fleet["columns"], row, strict=True)) for row in cluster["rows"]]
            few = len(rows) <= _FEW
            asked = [cells["group"] for cells in rows if few or cells["status"] in BAD]
            beside = self.found(cluster["cluster"], asked)
            for cells in rows:
                group = cells["group"]
                found[cluster["cluster"], group] = {
                    **{name: cells.get(name) for name in wanted},
                    **(asdict(beside[group]) if group in beside else {}),
                    "handled": _handled_of(incidents, cluster["cluster"], group),
                }
        return found

    def found(self, cluster: str, groups: Sequence[str]) -> Mapping[str, Found]:
        """Causes and speeds of these groups; none from an older server."""
        found: dict[str, Found] = {}
        for first in range(0, len(groups), _ASKED_AT_ONCE):
            asked = [("group", group) for group in groups[first : first + _ASKED_AT_ONCE]]
            path = f"/api/v1/clusters/{quote(cluster, safe='')}/trends?{urlencode(asked)}"
            try:
                answer = self.document(path)
            except NotFoundError:
                break
            causes = answer.get("causes", {})
            lost, lost_is = answer.get("lost", {}), answer.get("lost_is", {})
            unknown, quiet = answer.get("unknown", {}), answer.get("quiet", {})
            since = answer.get("trouble_since", {})
            at_least = answer.get("trouble_since_at_least", ())
            for group, speed in answer.get("speeds", {}).items():
                cause = causes.get(group, {})
                found[group] = replace(
                    _speeds(speed, cause.get("words", ""), cause.get("sentence", "")),
                    lost=lost.get(group, 0),
                    lost_at_most=lost_is.get(group) == _AT_MOST,
                    unknown_because=unknown.get(group, ""),
                    quiet=quiet.get(group, {}).get("sentence", ""),
                    trouble_since_ms=since.get(group),
                    trouble_since_at_least=group in at_least,
                )
        return found

    def open_incidents(
        self, cluster: str = "", group: str = ""
    ) -> Mapping[tuple[str, str], OpenIncident]:
        """By cluster and group, of all or of these; none where the server has no alerts.

        Raises:
            KeyError, TypeError: the answer has another form.
        """
        found: dict[tuple[str, str], OpenIncident] = {}
        cursor = ""
        with suppress(NotFoundError):
            for _ in range(_MOST_PAGES):  # in a storm the oldest are those that somebody works on
                wanted = urlencode({"cluster": cluster, "group": group, "cursor": cursor})
                answer = self.document(f"{_INCIDENTS}&{wanted}")
                found |= _incidents(answer)
                cursor = answer.get("next") or ""
                if not cursor:
                    break
        return found

    def document(self, path: str) -> _Json:
        """The JSON object at a path of a lagwatch.

        Raises:
            NotFoundError: the server has no such route; a Burrow has only `/v3`.
        """
        return self._found(path, "document", path)

    def _found(self, path: str, kind: str, name: str) -> _Json:
        status, answer = self._get(path)
        if status in {http.client.UNAUTHORIZED, http.client.FORBIDDEN}:
            raise refused(self._root, status)
        if status == http.client.NOT_FOUND:
            raise NotFoundError(kind=kind, name=name)
        if status != http.client.OK or not isinstance(answer, dict):
            raise self._strange(f"{status} for {path}")
        return answer

    def _read(self, answer: _Json, pick: Callable[[_Json], object]) -> tuple[str, ...]:
        names = pick(answer) if answer else ()
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self._strange()
        return tuple(sorted(names))

    def _get(self, path: str) -> tuple[int, object]:
        """Status and JSON, None for what is not JSON; once more if the connection had gone."""
        try:
            return self._ask(path)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self._connection.close()
        return self._ask(path)

    def _ask(self, path: str) -> tuple[int, object]:
        """Raises what says that an open connection had gone; every other fault closes it."""
        try:
            return self._answered(path)
        except SourceError:
            # else it stays in the middle of a request, and refuses the next one
            self._connection.close()
            raise

    def _answered(self, path: str) -> tuple[int, object]:
        try:
            self._connection.request("GET", self._prefix + path, headers=self._headers)
            response = self._connection.getresponse()
            body = response.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise
        except TimeoutError as error:
            raise self._failed("timeout", "it did not answer in time") from error
        except ssl.SSLCertVerificationError as error:
            raise self._failed("tls", error.verify_message, remedy=OWN_CA) from error
        except ssl.SSLError as error:
            raise self._failed("tls", str(error.reason or error)) from error
        except socket.gaierror as error:
            raise self._failed("connection", "there is no such host") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(
                "connection", getattr(error, "strerror", None) or repr(error)
            ) from error
        try:
            return response.status, json.loads(body)
        except ValueError:
            return response.status, None

    def _failed(
        self, kind: str, reason: str, remedy: str = "Check --url and that the server runs."
    ) -> SourceError:
        message = f"cannot ask {self._root}: {reason}. {remedy}"
        return SourceError(cluster="", kind=kind, message=message)

    def _strange(self, what: str = "") -> SourceError:
        detail = f" ({what})" if what else ""
        message = (
            f"{self._root} did not answer as lagwatch or Burrow does{detail}. "
            "--url must name the root of one, without /v3."
        )
        return SourceError(cluster="", kind="protocol", message=message, retryable=False)


def _incidents(answer: Mapping[str, Any]) -> Mapping[tuple[str, str], OpenIncident]:
    """Those of groups, by cluster and group."""
    return {
        (each["cluster"], each["group"]): OpenIncident(
            severity=each["severity"],
            handled=", ".join(_handled(each)),
            since_ms=each.get("again_ms") or each.get("since_ms"),
            since_at_least=not each.get("again_ms") and each.get("since_at_least") is True,
        )
        for each in answer["incidents"]
        if each["about"] == "group"
    }


def _handled_of(incidents: Mapping[tuple[str, str], OpenIncident], cluster: str, group: str) -> str:
    return incidents.get((cluster, group), OpenIncident()).handled


def _handled(incident: Mapping[str, Any]) -> Iterator[str]:
    """What was done about an incident."""
    if incident.get("muted"):  # an older server does not say
        yield "muted"
    if incident["acknowledged_ms"] is not None:
        by = printable(incident["acknowledged_by"])
        yield f"acknowledged by {by}" if by else "acknowledged"


def _speeds(answer: _Json, cause: str, sentence: str) -> Found:
    """Of an answer with the speeds of a group; older servers have none."""
    return Found(
        cause=cause,
        cause_sentence=sentence,
        consumed_per_s=answer.get("consumed_per_s"),
        lag_trend_per_s=answer.get("lag_trend_per_s"),
        catch_up_s=answer.get("catch_up_s"),
        catch_up_reason=answer.get("catch_up_reason", ""),
        steady=answer.get("steady") is True,
    )


def _connection(
    url: str, timeout_s: float
) -> tuple[http.client.HTTPConnection, str, dict[str, str]]:
    """The connection, the path in front of every path, and headers for every request."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in _SCHEMES:
        message = f"{shown_url(url)!r} is no URL of a server. Write http://host:port."
        raise SourceError(cluster="", kind="connection", message=message, retryable=False)
    headers = {"Accept": "application/json"} | authorization(parts)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(host, port, timeout=timeout_s), parts.path.rstrip("/"), headers


def refused(root: str, status: int) -> SourceError:
    """The error for a caller without rights, with the server's text."""
    message = (
        f"{root} refused: {status}. Set LAGWATCH_TOKEN, or --token-file before the command, "
        "to a token with enough rights."
    )
    return SourceError(cluster="", kind="authorization", message=message, retryable=False)


def authorization(url: SplitResult) -> dict[str, str]:
    """The user of the URL, or the token of the environment.

    Raises:
        SourceError: the file with the token cannot be read.
    """
    if url.username is not None:
        user = f"{unquote(url.username)}:{unquote(url.password or '')}"
        return {"Authorization": f"Basic {b64encode(user.encode()).decode()}"}
    file = os.environ.get("LAGWATCH_TOKEN_FILE")
    try:
        token = Path(file).read_text("utf-8") if file else os.environ.get("LAGWATCH_TOKEN", "")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        message = f"the token file {file} cannot be read: {reason}"
        raise SourceError(
            cluster="", kind="connection", message=message, retryable=False
        ) from error
    return {"Authorization": f"Bearer {token.strip()}"} if token.strip() else {}


def shown_url(url: str) -> str:
    """The URL as it may be shown: it can contain a password."""
    scheme, separator, rest = url.rpartition("://")
    return scheme + separator + rest.rpartition("@")[2]


def _readiness(cluster: _Json) -> ReadinessView:
    backlog = cluster.get("backlog") or {}
    return readiness(
        ready=cluster.get("ready") is True,
        stale=cluster.get("stale") is True,
        data_age_s=float(cluster.get("data_age_s") or 0),
        reason=str(cluster.get("reason") or ""),
        problems=map(str, (*cluster.get("problems", ()), *cluster.get("unseen", ()))),
        backlog=(backlog.get("read"), backlog.get("total")),
    )


def _group(status: _Json) -> GroupView:
    max_lag = status["maxlag"]
    unknown = int(status.get("unknown_partitions") or 0)
    partitions = tuple(_partition(partition) for partition in status["partitions"] or ())
    nothing_known = max_lag is None or max_lag["current_lag"] is None
    return GroupView(
        cluster=str(status["cluster"]),
        group=str(status["group"]),
        status=str(status["status"]),
        rule=status.get("rule"),
        total_lag=None if nothing_known else int(status["totallag"]),
        unknown_partitions=unknown,
        since_ms=status.get("since_ms"),
        readable_lag=None if nothing_known else status.get("readable_lag"),
        left_behind_lag=None if nothing_known else status.get("left_behind_lag"),
        time_lag_s=status.get("time_lag_s"),
        time_lag_bound=status.get("time_lag_bound", ""),
        complete=float(status["complete"]),
        partition_count=int(status["partition_count"]),
        max_lag=None if max_lag is None else _partition(max_lag),
        partitions=partitions,
        worst=worst_of(str(status["status"]), partitions),
        at_ms=status.get("at_ms"),
        data_age_s=float(status.get("data_age_s") or 0),
        stale=status.get("stale") is True,
    )


def _partition(partition: _Json) -> PartitionView:
    end = partition["end"]
    return PartitionView(
        topic=str(partition["topic"]),
        partition=int(partition["partition"]),
        status=str(partition["status"]),
        rule=partition.get("rule"),
        current_lag=partition["current_lag"],
        time_lag_s=partition.get("time_lag_s"),
        time_lag_bound=partition.get("time_lag_bound", ""),
        committed_offset=None if end is None else int(end["offset"]),
        complete=float(partition["complete"]),
        owner=str(partition["owner"]),
        client_id=str(partition["client_id"]),
        unknown_reason=partition.get("unknown_reason"),
        evidence=partition.get("evidence") or {},
        readable_lag=partition.get("readable_lag"),
        lost=int(partition.get("lost") or 0),
    )
