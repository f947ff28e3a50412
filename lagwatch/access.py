"""Who may use the HTTP server: tokens of a file, users that a trusted proxy names, host names."""

import binascii
import re
import socket
from base64 import b64decode
from collections.abc import Mapping
from hmac import compare_digest
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.config.server import ProxySettings, ServerSettings
from lagwatch.config.tokens import Token, hashed, read_tokens
from lagwatch.errors import ConfigError
from lagwatch.log import AUDIT
from lagwatch.named_files import version
from lagwatch.ports.access import COOKIE, EVERYBODY, NOBODY, Caller, Scope

_LOOK_EVERY_S: Final = 1.0
_MOST_PEERS: Final = 1000
_MOST_HOSTS: Final = 1000
"""Known answers about `Host` headers; a client may send any number of different ones."""
_REFUSED_EVERY_S: Final = 60.0
_REFUSED: Final = 400
"""The least status of an answer that says no."""
_LONGEST_PATH: Final = 500
"""Characters of a path that are logged."""
_WRONG: Final = Caller(name=NOBODY.name, scope=NOBODY.scope)
"""The caller of a request with a wrong token."""
_HOST: Final = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*))(?::[0-9]*)?")
"""Name or address of a `Host` header, and maybe a port."""
_COOKIE: Final = COOKIE.encode()
_SENT_ONCE: Final = frozenset({b"host", b"authorization", b"origin", b"sec-fetch-site"})
"""Headers that decide who may do what: of two, a proxy may believe the other one."""

_log = structlog.get_logger(__name__)
_audit = structlog.get_logger(AUDIT)


class AccessControl:
    """Implements `lagwatch.ports.access.Access` by the options of `[server]`."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        """Read the tokens.

        Raises:
            ConfigError: their file cannot be used.
        """
        auth = settings.auth
        self._open = not settings.authenticates
        self._tokens = _Tokens(auth.tokens_file, clock) if auth.tokens_file else None
        self._proxy = _Proxy(auth.proxy) if auth.proxy.addresses else None
        self._refusals = _Refusals(clock)
        self._hosts = _Hosts(settings)
        self.is_host = self._hosts.is_host
        self.open_metrics = auth.open_metrics

    @property
    def problem(self) -> str:
        """What is wrong with the file of tokens; ""."""
        return "" if self._tokens is None else self._tokens.problem

    @property
    def takes_tokens(self) -> bool:
        return self._tokens is not None

    @property
    def sent_once(self) -> frozenset[bytes]:
        return _SENT_ONCE if self._proxy is None else _SENT_ONCE | {self._proxy.header}

    def caller(self, headers: Mapping[bytes, bytes], peer: str) -> Caller:
        """The caller; a wrong token is refused, even beside a valid cookie or proxy header.

        One in a cookie is not beside a proxy's header: who uses the page cannot remove it.
        """
        if self._open:
            return EVERYBODY
        given = headers.get(b"authorization")
        if given is not None:
            caller = self._authorized(given)
            if caller is NOBODY:
                self._refusals.note(peer)
                return _WRONG
            return caller
        token = _cookie(headers.get(b"cookie", b""))
        caller = self._holder(token) if token else NOBODY
        if caller is NOBODY and self._proxy is not None:
            # a browser keeps the cookie of a token that is not valid any more
            caller = self._proxy.caller(headers, peer)
        if token and caller is NOBODY:
            self._refusals.note(peer)
        return caller

    def holder(self, token: str) -> Caller:
        return self._holder(token.encode())

    def note(self, caller: Caller, peer: str, method: str, path: str, status: int) -> None:
        if caller.scope is Scope.NONE and status >= _REFUSED:
            if caller is NOBODY:  # a wrong token is noted already
                self._refusals.note(peer)
            return
        path = path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"
        _audit.info(
            "http_order", by=caller.name, peer=peer, method=method, path=path, status=status
        )

    def _authorized(self, header: bytes) -> Caller:
        kind, _, given = header.partition(b" ")
        match kind.lower():
            case b"bearer":
                return self._holder(given.strip())
            case b"basic":
                return self._by_password(given)
            case _:
                return NOBODY

    def _by_password(self, given: bytes) -> Caller:
        """The name of the token is the user, the token the password."""
        try:
            user, _, token = b64decode(given, validate=True).partition(b":")
        except binascii.Error:
            return NOBODY
        caller = self._holder(token)
        return caller if compare_digest(caller.name.encode(), user) else NOBODY

    def _holder(self, token: bytes) -> Caller:
        return self._tokens.holder(token) if self._tokens else NOBODY


class _Refusals:
    """Logs who sends wrong tokens and passwords: each address once a minute, with their number."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, tuple[float, int]] = {}
        """By address: when it was logged last, and refusals since."""

    def note(self, peer: str) -> None:
        now_s = self._clock.monotonic_s()
        logged_s, times = self._since.pop(peer, (-_REFUSED_EVERY_S, 0))
        times += 1
        if now_s - logged_s >= _REFUSED_EVERY_S:
            _audit.info("http_refused", peer=peer, times=times)
            logged_s, times = now_s, 0
        self._since[peer] = logged_s, times
        if len(self._since) > _MOST_PEERS:
            del self._since[next(iter(self._since))]


class _Tokens:
    """The tokens of a file, which is read again when it has changed."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._seen = self._unread = version(path)
        self.problem = ""
        """Why the file as it is now is not in use; ""."""
        self._tokens = _callers(read_tokens(path))
        self._look_s = clock.monotonic_s() + _LOOK_EVERY_S

    def holder(self, token: bytes) -> Caller:
        self._refresh()
        given, found = hashed(token), NOBODY
        for known, caller in self._tokens:  # compares all: timing must not reveal a near match
            if compare_digest(known, given):
                found = caller
        return found

    def _refresh(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s < self._look_s:
            return
        self._look_s = now_s + _LOOK_EVERY_S
        if (now := version(self._path)) == self._seen:
            self.problem = ""
            return
        try:
            # who deletes the last line revokes the last token
            self._tokens = _callers(read_tokens(self._path, may_be_none=True))
        except ConfigError as error:  # tokens that were read before stay valid
            if now != self._unread:
                _log.error("tokens_not_read", file=str(self._path), reason=str(error))
            self._unread, self.problem = now, f"the tokens that were read before count: {error}"
            return
        self._seen, self.problem = now, ""
        if not self._tokens:  # an editor, or a copy that failed, may have emptied it
            _log.warning("tokens_all_revoked", file=str(self._path))
            return
        _log.info("tokens_read", file=str(self._path), tokens=len(self._tokens))


def _callers(tokens: tuple[Token, ...]) -> tuple[tuple[bytes, Caller], ...]:
    return tuple(
        (token.hash, Caller(name=token.name, scope=_scope(token.scope))) for token in tokens
    )


def _scope(word: str) -> Scope:
    return Scope[word.upper()]


class _Proxy:
    """Users that a proxy names in a header; from other addresses the header means nothing."""

    def __init__(self, settings: ProxySettings) -> None:
        self._networks = tuple(map(ip_network, settings.addresses))
        self.header = settings.user_header.lower().encode()
        self._scope = _scope(settings.scope)
        self._scopes: Mapping[str, Scope] = dict.fromkeys(
            settings.operators, Scope.OPERATE
        ) | dict.fromkeys(settings.admins, Scope.ADMIN)

    def caller(self, headers: Mapping[bytes, bytes], peer: str) -> Caller:
        user = headers.get(self.header, b"").decode("utf-8", "replace").strip()
        if not user or not self._trusts(peer):
            return NOBODY
        return Caller(name=user, scope=max(self._scope, self._scopes.get(user, Scope.NONE)))

    def _trusts(self, peer: str) -> bool:
        try:
            address = ip_address(peer)
        except ValueError:
            return False
        if isinstance(address, IPv6Address):  # so IPv4 comes to a socket that listens on `[::]`
            address = address.ipv4_mapped or address
        return any(address in network for network in self._networks)


class _Hosts:
    """Names under which this server may be asked.

    A page of another site can make its own name lead to this address; the browser then sends
    that name as `Host`. An IP address cannot be turned like that.
    """

    def __init__(self, settings: ServerSettings) -> None:
        names = {"localhost", socket.gethostname(), settings.host, *settings.hosts}
        self._names = {name.lower().rstrip(".") for name in names}
        self._known: dict[bytes, bool] = {}

    def is_host(self, host: bytes) -> bool:
        known = self._known.get(host)
        if known is None:
            known = self._is_ours(host.decode("latin-1"))
            if len(self._known) < _MOST_HOSTS:
                self._known[host] = known
        return known

    def _is_ours(self, host: str) -> bool:
        if "*" in self._names:
            return True
        written = _HOST.fullmatch(host)
        if written is None:
            return False
        name = (written[1] or written[2] or "").lower().rstrip(".")
        if name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def _cookie(header: bytes) -> bytes:
    """The token of the cookie; b"" if there is none."""
    for part in header.split(b";"):
        name, _, value = part.strip().partition(b"=")
        if name == _COOKIE:
            return value
    return b""
