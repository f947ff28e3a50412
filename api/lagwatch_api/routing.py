"""Finding the endpoint of a path, by the rules of Burrow's router.

Segments are split before they are decoded, so a name may hold any character, `%2F` included. The
usual frameworks match the decoded path; there `a%2Fb` would be two segments.

Source: github.com/julienschmidt/httprouter, `Router.ServeHTTP`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from lagwatch_api.answers import text_error

Handler = Callable[[Request], Awaitable[Response]]

UNKNOWN_PATH: Final = '{"error":true,"message":"invalid request type","result":{}}\n'
METHOD_NOT_ALLOWED: Final = "Method Not Allowed\n"

_IN_LOCATION: Final = "%/!$&'()*+,;:=@~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One documented answer of an endpoint."""

    description: str
    model: type[object] | None = None
    """The type of the JSON document; None for an answer that is not JSON."""
    media_type: str = "text/plain"
    """Content type of an answer without `model`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method on one path: who answers, and what the documentation says about it."""

    method: str
    path: str
    """Names are in braces: `/v3/kafka/{cluster}/topic`. They reach the handler decoded."""
    handler: Handler
    summary: str
    tag: str
    answers: Mapping[int, Answer]
    """By status code."""
    body: type[object] | None = None
    """The type of the JSON document that is sent; None when nothing is read."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameters that may be given, by name, with what each means."""


_DOTS = frozenset({b".;", b"..;"})
"""How browsers can ask for names that are dots.

Without `;`, even if encoded, they are steps of a path, which browsers take before they ask. A name
that has a `;` is sent with `%3B`.
"""


@dataclass(slots=True)
class _Node:
    words: dict[bytes, "_Node"] = field(default_factory=dict)
    name: "_Node | None" = None
    """The node for any other segment, which is a name."""
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    """By method."""
    names: tuple[str, ...] = ()
    """Names of the parameters in the path up to here."""


class RouteTable(BaseRoute):
    """All endpoints of the application, as one route of Starlette's router.

    Finding an endpoint is one dictionary look-up per segment, however many endpoints there are.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.endpoints = tuple(endpoints)
        self._root = _Node()
        for endpoint in self.endpoints:
            self._add(endpoint)
        # Splits once more than the longest path needs: enough to see that a path is too long, and a
        # hostile one costs no more.
        self._splits = max((route.path.count("/") for route in self.endpoints), default=0) + 1

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Is this exact path, with this method, one of ours?"""
        if scope["type"] != "http":
            return Match.NONE, {}
        node, values = self._find(raw_path(scope))
        endpoint = None if node is None else node.endpoints.get(scope["method"])
        if node is None or endpoint is None:
            return Match.NONE, {}
        names = dict(zip(node.names, map(_decoded, values), strict=True))
        return Match.FULL, {"endpoint": endpoint.handler, "path_params": names, "route": endpoint}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request that `matches` has taken."""
        response: Response = await scope["endpoint"](Request(scope, receive))
        await response(scope, receive, send)

    def refuse(self, scope: Scope) -> Response:
        """The answer to a request that `matches` did not take.

        A path that only differs in case or slashes is redirected; otherwise a known path with
        another method is refused with `Allow`, and an unknown path with 404.
        """
        method, path = scope["method"], raw_path(scope)
        right = self._repaired(method, path)
        if right is not None:
            return _redirect(method, right, scope["query_string"])
        node, _ = self._find(path)
        if node is None or not node.endpoints:
            return text_error(UNKNOWN_PATH, 404)
        allow = {"Allow": ", ".join(sorted({*node.endpoints, "OPTIONS"}))}
        if method == "OPTIONS":
            return Response(status_code=200, headers=allow)
        return text_error(METHOD_NOT_ALLOWED, 405, allow)

    def _add(self, endpoint: Endpoint) -> None:
        node, names = self._root, []
        for segment in endpoint.path.split("/")[1:]:
            if segment.startswith("{"):
                names.append(segment[1:-1])
                node.name = node = node.name or _Node()
            else:
                node = node.words.setdefault(segment.encode(), _Node())
        node.endpoints[endpoint.method] = endpoint
        node.names = tuple(names)

    def _find(self, path: bytes) -> tuple[_Node | None, list[bytes]]:
        """The node of exactly this path, and the segments that are names."""
        segments = path.split(b"/", self._splits)
        values: list[bytes] = []
        if not segments[-1]:
            # A name may be empty (`/v3/kafka//topic`), but at the end it is a slash too many.
            return None, values
        node = self._root
        for segment in segments[1:]:
            following = node.words.get(segment)
            if following is None:
                following = node.name
                if following is None:
                    return None, values
                values.append(segment)
            node = following
        return node, values

    def _repaired(self, method: str, path: bytes) -> str | None:
        """The right spelling of the path, if it has one that answers to this method."""
        node, right = self._root, b""
        for segment in filter(None, path.split(b"/", self._splits * 4)):
            word = unquote_to_bytes(segment).lower()
            following = node.words.get(word)
            if following is None:
                word, following = segment, node.name
            if following is None:
                return None
            node, right = following, right + b"/" + word
        return quote(right, safe=_IN_LOCATION) if method in node.endpoints else None


class SegmentRoute(APIRoute):
    """A route of FastAPI that splits the path before it decodes it, as `RouteTable` does.

    Otherwise a group called `x/topics/t/partitions/0` would be asked for the history of `x`.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        names = self._names(raw_path(scope)) if scope["type"] == "http" else None
        if names is None:
            return Match.NONE, {}
        match = Match.FULL if scope["method"] in (self.methods or ()) else Match.PARTIAL
        return match, {"endpoint": self.endpoint, "path_params": names, "route": self}

    def _names(self, path: bytes) -> dict[str, str] | None:
        wanted, given = self.path.split("/"), path.split(b"/")
        if len(wanted) != len(given):
            return None
        names = {}
        for word, segment in zip(wanted, given, strict=True):
            if word.startswith("{"):
                names[word[1:-1]] = _decoded(segment)
            elif word.encode() != segment:
                return None
        return names


def raw_path(scope: Scope) -> bytes:
    """The path as it was sent, still encoded, without the query."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"]).encode() if raw is None else raw


def _decoded(segment: bytes) -> str:
    if segment in _DOTS:
        return segment.decode()[:-1]
    plain = unquote_to_bytes(segment) if b"%" in segment else segment
    return plain.decode("utf-8", "replace")


def _redirect(method: str, path: str, query: bytes) -> Response:
    location = f"{path}?{quote(query, safe=_IN_LOCATION + '?')}" if query else path
    headers = {"Location": location}
    if method != "GET":
        return Response(status_code=307, headers=headers)
    body = f'<a href="{escape(location)}">Moved Permanently</a>.\n\n'
    return Response(body, 301, headers, "text/html")
