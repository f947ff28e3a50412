"""Instants as they are given on the command line."""

from datetime import UTC, datetime, tzinfo
from typing import Final

import typer

INSTANT_HELP: Final = "as 2026-11-21, or an instant: 2026-11-21T03:10:00Z."


def instant(text: str, flag: str, zone: tzinfo = UTC) -> datetime:
    """An instant, or the first of a day, in this zone; where it names none it is of this zone.

    Raises:
        BadParameter: it is no day and no instant.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day and no instant", param_hint=flag) from None
    return found.replace(tzinfo=zone) if found.tzinfo is None else found.astimezone(zone)


def instant_ms(text: str, flag: str, zone: tzinfo = UTC) -> int:
    """The same in epoch milliseconds.

    Raises:
        BadParameter: it is no day and no instant.
    """
    return round(instant(text, flag, zone).timestamp() * 1000)
