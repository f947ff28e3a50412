"""Verdicts and instants in words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from lagwatch.core import rules
from lagwatch.core.model import PartitionStatus, PartitionVerdict, Rule, UnknownReason

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_UP_TO: Final = 100_000_000_000
"""A bare number below this is seconds (until the year 5138), from it on milliseconds."""
_LAST_MS: Final = 253_402_300_799_999
_UNIT_MS: Final = {
    "": 1000,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DURATION: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|[smhdw]?)")
_NUMBER: Final = re.compile(r"\d{1,18}(?:\.\d{1,9})?")
_MICROSECONDS: Final = re.compile(r"(\.\d{6})\d+")


def instant_ms(text: str, now_ms: int) -> int:
    """An instant in epoch ms: ISO-8601, epoch s or ms, `now`, `-24h` or `now-24h`.

    A time without an offset is UTC.

    Raises:
        ValueError: it has none of these forms, or is not between 1970 and 9999; the text says
        what to write.
    """
    # a plus sign that was not escaped has become a space
    plain = text.strip().replace(" ", "+") if "T" in text else text.strip()
    if plain == "now":
        return now_ms
    if plain.removeprefix("now").startswith("-"):
        return _within(now_ms - duration_ms(plain.removeprefix("now")[1:]), text)
    if _NUMBER.fullmatch(plain):
        number = float(plain)
        return _within(int(number if number >= _SECONDS_UP_TO else number * 1000), text)
    try:
        instant = datetime.fromisoformat(_MICROSECONDS.sub(r"\1", plain))
    except ValueError:
        raise ValueError(
            f"{text!r} is no instant. Write 2026-11-21T03:10:00Z, epoch seconds or milliseconds, "
            "now, or -24h."
        ) from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return _within((instant - _EPOCH) // timedelta(milliseconds=1), text)


def _within(at_ms: int, text: str) -> int:
    if not 0 <= at_ms <= _LAST_MS:
        raise ValueError(f"{text!r} is before 1970 or after 9999")
    return at_ms


def duration_ms(text: str) -> int:
    """A duration in ms: `30s`, `5m`, `1h`, `1d`, `500ms`, or bare seconds.

    Raises:
        ValueError: it is no duration; the text says what to write.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration. Write 30s, 5m, 1h, 1d or seconds.")
    return round(float(match[1]) * _UNIT_MS[match[2]])


HEADLINES: Final[Mapping[PartitionStatus, str]] = {
    PartitionStatus.OK: "OK",
    PartitionStatus.WARN: "WARNING",
    PartitionStatus.ERR: "ERROR",
    PartitionStatus.STOP: "STOPPED",
    PartitionStatus.STALL: "STALLED",
    PartitionStatus.REWIND: "REWOUND",
    PartitionStatus.UNKNOWN: "UNKNOWN",
}
"""Of rules without a headline of their own; `words.js` has the same words for groups."""
_UNKNOWN_BECAUSE: Final[Mapping[UnknownReason | None, str]] = {
    None: "the log end offset is not known",
    UnknownReason.TOPIC_NOT_VISIBLE: "the topic was deleted, or lagwatch may not describe it",
    UnknownReason.NO_LEADER: "the partition has no leader",
    UnknownReason.NOT_POLLED_YET: "the log end offset has not been read yet",
    UnknownReason.REFUSED: "the broker refused to give the log end offset",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """`headline` [since `since_ms`]: `text`."""

    headline: str
    since_ms: int | None
    at_least: bool
    """It may have begun earlier."""
    text: str


def sentence(verdict: PartitionVerdict) -> Sentence:
    """What is said about a partition, in words."""
    row = rules.row_of(verdict.rules, verdict.rule)
    return Sentence(
        headline=row.headline or HEADLINES[verdict.status],
        since_ms=verdict.since_ms,
        at_least=row.since_at_least,
        text=rules.sentence(
            row,
            verdict.evidence,
            unknown_because=_UNKNOWN_BECAUSE[verdict.unknown_reason],
        ),
    )


def is_unknown(verdict: PartitionVerdict) -> bool:
    """Is the verdict, or the lag of a partition that was committed to, not known?"""
    if verdict.status is PartitionStatus.UNKNOWN:
        return True
    return verdict.current_lag is None and verdict.rule is not Rule.NEVER_COMMITTED
