"""Hides the configuration's secrets in texts that others write: answers, errors, log lines.

A receiver may quote the path it was asked for, a library the URL that it could not reach.
"""

import re
from collections.abc import Iterable
from typing import Final

_HIDDEN: Final = "***"
_SHORTEST: Final = 6
"""Characters; a shorter secret would hide parts of ordinary words."""


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
        return self._pattern.sub(_HIDDEN, text) if self._pattern is not None else text


_secrets: Final = _Secrets()
remember = _secrets.remember
"""Hide these from now on, and no others."""
hide = _secrets.hide
"""The text with each secret that is remembered replaced."""
