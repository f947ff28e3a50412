"""Instants as they are given on the command line."""

from datetime import UTC, datetime
from typing import Final

import typer

INSTANT_HELP: Final = "as 2026-11-21, or an instant: 2026-11-21T03:10:00Z."


def instant_ms(text: str, flag: str) -> int:
    """Epoch milliseconds; without a zone it is UTC.

    Raises:
        BadParameter: it is no day and no instant.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day and no instant", param_hint=flag) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return round(instant.timestamp() * 1000)
