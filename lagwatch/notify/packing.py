"""How many notices go together in a message."""

from dataclasses import dataclass
from typing import Final

MOST_NOTICES: Final = 5000
"""Notices in one message, whatever the channel allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """What a channel's receiver accepts in one message."""

    most_notices: int = MOST_NOTICES
    most_bytes: int | None = None
    """Of the notices as JSON; None: any number."""
    one_severity: bool = False
    """Never a warning and an error in one message."""
