"""Who may do what over HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final, Protocol


@unique
class Scope(IntEnum):
    """What a caller may do; each scope includes those below it."""

    NONE = 0
    READ = 1
    """Read verdicts, history, alerts and metrics."""
    OPERATE = 2
    """Mute, acknowledge, forget, retry, note deployments."""
    ADMIN = 3
    """Change the log level."""

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request."""

    name: str
    """Of the token or user; "" when unknown."""
    scope: Scope


NOBODY: Final = Caller(name="", scope=Scope.NONE)
EVERYBODY: Final = Caller(name="anyone", scope=Scope.ADMIN)
"""The caller where no authorization is configured."""
MOST_STREAMS: Final = "most_streams"
"""Of the server in the state of each request: how many answers may go on for long."""
COOKIE: Final = "lagwatch_token"
"""Holds the token of a browser that is logged in."""


class Access(Protocol):
    """Decides who a caller is; the HTTP layer decides what a route needs."""

    @property
    def takes_tokens(self) -> bool:
        """True if a browser can log in with a token."""
        ...

    @property
    def open_metrics(self) -> bool:
        """True if `/metrics` needs no scope."""
        ...

    @property
    def sent_once(self) -> frozenset[bytes]:
        """Headers, in lower case, of which a request has one at most: they say who may do what."""
        ...

    def is_host(self, host: bytes) -> bool:
        """True if a `Host` header names this server."""
        ...

    def caller(self, headers: Mapping[bytes, bytes], peer: str) -> Caller:
        """Who sends a request with these headers from this address; names in lower case."""
        ...

    def holder(self, token: str) -> Caller:
        """Who holds this token."""
        ...

    def note(self, caller: Caller, peer: str, method: str, path: str, status: int) -> None:
        """Log who changed what, and of those without any scope who was refused."""
        ...
