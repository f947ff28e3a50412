"""Rules and numbers in words."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from lagwatch.core.words import Numbers, bounded

COLOURS: Final[Mapping[str, str]] = {
    "OK": "green",
    "WARN": "yellow",
    "ERR": "bold red",
    "STOP": "bold red",
    "STALL": "bold red",
    "REWIND": "bold red",
}
"""Style of a status; any other is dim."""


def number(value: float | None) -> str:
    """A number with separators; `unknown` for None."""
    return "unknown" if value is None else f"{value:,}"


def members(count: int | None) -> str:
    """`1 member`, `12 members`; `members unknown` for None."""
    if count is None:
        return "members unknown"
    return f"{count:,} member{'' if count == 1 else 's'}"


def quantity(name: str, value: float | str | None) -> str:
    """A value of the evidence with its unit, which its name says; durations in seconds."""
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    if name in {"last_commit_ms", "judged_from_ms"}:  # instants
        return f"{value} ms"
    if name.endswith("_ms"):
        return f"{value / 1000:,.3f} s"
    return f"{value:,}"


def meaning(rule: str) -> str:
    """When a rule holds, in one sentence; "" for a rule that is not known here."""
    from lagwatch.core.rules import BURROW, LAGWATCH  # numpy takes a while to import

    rows = (*LAGWATCH, *BURROW)
    return next((row.meaning for row in rows if row.rule.word == rule), "")


def sentence(rule: str, numbers: Numbers) -> str:
    """What a rule says of a partition with this evidence; "" where the evidence is not its own.

    Both rule sets have rules of the same name, with other evidence.
    """
    from lagwatch.core import rules  # numpy takes a while to import

    for row in (*rules.LAGWATCH, *rules.BURROW):
        if row.rule.word == rule and numbers.keys() >= set(row.evidence):
            return rules.sentence(row, numbers)
    return ""


def instant(at_ms: int) -> str:
    """`2027-01-31 22:00:00Z`."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"


def time_lag(seconds: float | None, bound: str = "") -> str:
    """A time lag with the sign of its bound; `-` when it is not known."""
    return "-" if seconds is None else bounded(seconds, bound)
