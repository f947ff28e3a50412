"""The file with tokens of `[server.auth]`: one line `NAME SCOPE sha256:HASH` for each.

A token is random and long, so a fast hash without salt is enough: it cannot be guessed. Only
`lagwatch token` makes tokens; users cannot choose their own.
"""

import re
import secrets
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from lagwatch.errors import ConfigError, Fault
from lagwatch.named_files import require_file

SCOPES: Final = ("read", "operate", "admin")
"""Each includes those before it."""
NAME: Final = re.compile(r"[\w.@-]{1,64}")
_LINE: Final = re.compile(rf"({NAME.pattern})\s+({'|'.join(SCOPES)})\s+sha256:([0-9a-f]{{64}})")
_MAKE: Final = "Make one with `lagwatch token NAME --file FILE`."
_WRITE: Final = f"Write NAME SCOPE sha256:HASH, with SCOPE one of {', '.join(SCOPES)}."
_CLOSE: Final = "Take that right away: chmod o-w FILE."
_PREFIX: Final = "lagwatch_"
"""Lets scanners for leaked secrets find a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One line of the file."""

    name: str
    scope: str
    hash: bytes


def new_token() -> str:
    """A token with 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def hashed(token: bytes) -> bytes:
    """What the file holds of a token."""
    return sha256(token).digest()


def line(name: str, scope: str, token: str) -> str:
    """The line of the file for a token."""
    return f"{name} {scope} sha256:{hashed(token.encode()).hex()}\n"


def read_tokens(path: Path, *, may_be_none: bool = False) -> tuple[Token, ...]:
    """All tokens of the file; blank lines and those with `#` in front are skipped.

    Raises:
        ConfigError: the file cannot be read, or anybody may write it, or lines are wrong; their
            text is not shown. Or it holds no token, unless there `may_be_none`.
    """
    try:
        require_file(path)
        anybody = path.stat().st_mode & stat.S_IWOTH
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ConfigError([_fault(path, f"cannot be read: {reason}", _MAKE)]) from error
    if anybody:  # who may write it may make himself an admin
        raise ConfigError([_fault(path, "may be written by anybody", _CLOSE)])
    written = [(at, text.strip()) for at, text in enumerate(lines, 1)]
    found = {at: _LINE.fullmatch(text) for at, text in written if text and not text.startswith("#")}
    faults = [
        _fault(path, f"line {at} is not that of a token", _WRITE)
        for at, token in found.items()
        if token is None
    ]
    lines_of: dict[str, int] = {}
    for at, token in found.items():
        if token is not None and lines_of.setdefault(token[3], at) != at:
            problem = f"lines {lines_of[token[3]]} and {at} hold the same token"
            faults.append(_fault(path, problem, "Keep one of them: a token has one scope."))
    if faults or not (found or may_be_none):
        raise ConfigError(faults or [_fault(path, "holds no token", _MAKE)])
    return tuple(
        Token(name=token[1], scope=token[2], hash=bytes.fromhex(token[3]))
        for token in found.values()
        if token is not None
    )


def _fault(path: Path, problem: str, remedy: str) -> Fault:
    key = "server.auth.tokens_file"
    return Fault(key=key, value=str(path), problem=problem, remedy=remedy)
