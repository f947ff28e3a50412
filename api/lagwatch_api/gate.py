"""Checks before any route: `Host`, origin, body, and the scope of the sender."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagwatch.ports.access import Access, Caller
from lagwatch.ports.access import Scope as Right
from lagwatch_api.v3.reply import Reply

MAX_BODY_BYTES: Final = 64 * 1024
SESSION: Final = "/api/v1/session"
PROBES: Final = frozenset({"/healthz", "/readyz", "/burrow/admin", "/burrow/admin/ready"})
METRICS: Final = "/metrics"

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE: Final = frozenset({b"same-origin", b"none"})
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="lagwatch", Basic realm="lagwatch"'}
_CALLER: Final = "lagwatch.caller"
_NOW: Final = "lagwatch.caller.now"
Headers = Mapping[bytes, bytes]


class Gate:
    """Refuses what the application must not see; notes every order in the log."""

    def __init__(self, app: ASGIApp, access: Access, reply: Reply) -> None:
        self._app = app
        self._access = access
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = dict(scope["headers"])
        try:
            if len(headers) < len(scope["headers"]):
                self._check_once(scope["headers"])
            self._check_host(headers.get(b"host"), scope.get("http_version", ""))
            known = partial(self._access.caller, headers, _peer(scope))
            caller = scope[_CALLER] = known()
            scope[_NOW] = known
            if scope["method"] in _READS:
                if caller.scope is not Right.ADMIN:  # callers with every scope
                    self._check_right(scope, caller)
                await self._app(scope, receive, send)
            else:
                await self._order(scope, receive, send, headers)
        except _RefusedError as refused:
            response = self._reply.failed(Request(scope), refused.status, str(refused))
            response.headers.update(refused.headers)
            await response(scope, receive, send)

    async def _order(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """A request that changes something."""
        caller, method, path, status = scope[_CALLER], scope["method"], scope["path"], 500

        async def noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            _check_origin(headers)
            self._check_right(scope, caller)
            body = await _body(receive, headers)
            await self._app(scope, _replayed(body, receive), noting)
        except _RefusedError as refused:
            status = refused.status
            raise
        finally:
            self._access.note(caller, _peer(scope), method, path, status)

    def _check_once(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Refuse two headers of which different servers may believe different ones."""
        seen = Counter(name for name, _ in headers)
        for name in self._access.sent_once:
            if seen[name] > 1:
                raise _RefusedError(400, f"there are {seen[name]} headers {name.decode()}")

    def _check_host(self, host: bytes | None, http_version: str) -> None:
        if host is None:
            # HTTP/1.0 has no such header: HAProxy's checks send none
            if http_version != "1.0":
                raise _RefusedError(400, "a request needs a header Host")
        elif not self._access.is_host(host):
            raise _not_ours(host)

    def _check_right(self, scope: Scope, caller: Caller) -> None:
        needed = self._needed(scope["method"], scope["path"])
        if caller.scope >= needed:
            return
        if caller.scope is Right.NONE:
            raise _RefusedError(
                401, f"this needs a token with the scope {needed.word!r}", _CHALLENGE
            )
        has = f"{caller.name} has {caller.scope.word!r}"
        raise _RefusedError(403, f"this needs the scope {needed.word!r}; {has}")

    def _needed(self, method: str, path: str) -> Right:
        """The scope that a request needs; one rule covers all routes, also later ones."""
        if path == SESSION:
            return Right.NONE
        if method not in _READS:
            return Right.ADMIN if path.lower().startswith("/v3/admin") else Right.OPERATE
        if path in PROBES or path == "/" or path.startswith("/ui/"):
            return Right.NONE
        return Right.NONE if path == METRICS and self._access.open_metrics else Right.READ


class _RefusedError(Exception):
    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers or {}


def caller_of(request: Request) -> Caller | None:
    """Who sends the request; None where the application has no gate."""
    caller: Caller | None = request.scope.get(_CALLER)
    return caller


def may_still(request: Request, right: Right) -> bool:
    """Has the sender of a request that is being answered this scope now? It may be revoked."""
    known = request.scope.get(_NOW)
    return known is None or known().scope >= right


def may(request: Request, right: Right) -> bool:
    """True if the sender of the request has this scope."""
    caller = caller_of(request)
    return caller is None or caller.scope >= right


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _not_ours(host: bytes) -> _RefusedError:
    return _RefusedError(
        421,
        f"{host.decode('latin-1')!r} is not a name of this server; "
        "ask it by a name in server.hosts, or by its address",
    )


def _check_origin(headers: Headers) -> None:
    """Refuse what a browser sends for a page of another origin.

    Browsers set both headers themselves; other clients send neither.
    """
    origin, host = headers.get(b"origin"), headers.get(b"host", b"")
    try:
        own = origin is None or urlsplit(origin).netloc.lower() == host.lower() != b""
    except ValueError:
        own = False
    if not own or headers.get(b"sec-fetch-site", b"none") not in _OWN_SITE:
        raise _RefusedError(403, "a page of another site may not change anything here")


async def _body(receive: Receive, headers: Headers) -> bytes:
    """All of the body, which is JSON or empty."""
    length = headers.get(b"content-length", b"0")
    if not length.isdigit() or int(length) > MAX_BODY_BYTES:
        raise _too_large()
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _RefusedError(400, "the body breaks off")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            raise _too_large()
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if body and kind != b"application/json":
        raise _RefusedError(415, "the body must be JSON; send Content-Type: application/json")
    return body


def _too_large() -> _RefusedError:
    text = f"the body is larger than {MAX_BODY_BYTES // 1024} KiB"
    return _RefusedError(413, text, {"Connection": "close"})


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then what the server says."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again
