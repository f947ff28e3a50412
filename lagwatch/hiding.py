"""Hides the configuration's secrets in texts that others write: answers, errors, log lines.

A receiver may quote the path it was asked for, a library the URL that it could not reach.
"""

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable
from typing import Final

_HIDDEN: Final = "***"
_SHORTEST: Final = 6
"""Characters; a shorter secret would hide parts of ordinary words."""
_BASIC: Final = re.compile(r"(?i)(\bbasic(?:\s|%20|\+)+)([a-z0-9+/=]{8,})")
"""A user and password as HTTP carries them, and words that look like them."""


class _Secrets:
    """Those of the configuration that this process runs with."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None

    def remember(self, secrets: Iterable[str]) -> None:
        long = {text for text in secrets if len(text) >= _SHORTEST}
        # the longest first: one secret may be a part of another
        ordered = sorted(long, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def hide(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub(_HIDDEN, text)
        return _BASIC.sub(_without_password, text)


def _without_password(found: re.Match[str]) -> str:
    """`Basic ***` where a user and password follow, as a receiver quotes the request's headers."""
    whole = found[2].rstrip("=")
    try:  # what is cut off in its middle holds the user at least
        inside = b64decode(whole[: len(whole) // 4 * 4], validate=True)
    except binascii.Error:
        return found[0]
    return found[1] + _HIDDEN if b":" in inside else found[0]


_secrets: Final = _Secrets()
remember = _secrets.remember
"""Hide these from now on, and no others."""
hide = _secrets.hide
"""The text with each secret that is remembered replaced."""
