"""Numbers as people read them."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from lagwatch.core import words
from lagwatch.core.forecast import CatchUpReason
from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.insights import LossReason
from lagwatch.jobs.report.model import Report, ReportedIncident, Side

UNKNOWN: Final = "unknown"
_MANY: Final = 10_000
_FACTOR_DIGITS: Final = 10
_SCALES: Final = (("bn", 1e9), ("M", 1e6), ("k", 1e3))


def duration(seconds: float | None) -> str:
    """A duration in lagwatch's usual form (`3 min 12 s`); `unknown` for None."""
    return UNKNOWN if seconds is None else words.duration(seconds)


def time_lag(seconds: float | None, bound: str | None) -> str:
    """With the sign of its bound: `≥ 9 min 30 s`."""
    return UNKNOWN if seconds is None else words.bounded(seconds, bound or "")


def catch_up(seconds: float | None, reason: str | None, partitions: int | None = None) -> str:
    """When a group will have caught up, or why it will not; no verb: `in 2 h`.

    `partitions`: how many it has. What does not move is the one that waits longest.
    """
    if seconds is not None:
        return f"in {duration(seconds)}"
    if reason == CatchUpReason.NOT_MOVING and partitions == 1:
        return "never, nothing is read"
    return _NO_CATCH_UP.get(reason or "", UNKNOWN)


_NO_CATCH_UP: Final = {
    CatchUpReason.NOT_MOVING.value: "never, not all partitions are read",
    CatchUpReason.FALLING_BEHIND.value: "never, more is written than it reads",
    CatchUpReason.TOO_SLOW.value: "in more than a year",
    CatchUpReason.WAITS_FOR_TRANSACTION.value: "not before a transaction ends",
    CatchUpReason.KEEPS_UP.value: "it keeps up",
}


def lost(messages: int, at_most: bool) -> str:  # noqa: FBT001 also a filter of the page
    """`up to 1,234`; nothing for none."""
    return f"{'up to ' if at_most else ''}{number(messages)}" if messages else ""


def loss(seconds: float | None, reason: str | None, lost: str = "") -> str:
    """When a group loses messages: `in 5 h`, `not in sight`; and what it lost in the day."""
    already = f"{lost} lost already" if lost else ""
    if seconds is not None:
        ahead = f"in {duration(seconds)}"
    else:
        ahead = _NO_LOSS.get(reason or "", "" if lost else UNKNOWN)
    return ", ".join(part for part in (ahead, already) if part)


_NO_LOSS: Final = {
    LossReason.NOT_NEARING.value: "not in sight",
    LossReason.NOTHING_DELETED.value: "not in sight, fewer than two deletions were seen",
}


def number(value: float | None) -> str:
    """`1,234`; from ten thousand on `12.3 k`, `4.57 M`."""
    if value is None:
        return UNKNOWN
    if abs(value) >= _MANY:
        for unit, size in _SCALES:
            if abs(value) >= size:
                return f"{value / size:.3g} {unit}" if abs(value) < size * 1000 else f"{value:.3g}"
    if isinstance(value, int) or abs(value) >= 100:  # noqa: PLR2004 three figures
        return f"{value:,.0f}"
    return f"{value:.3g}"


def offset(value: int | None, unknown: str = UNKNOWN) -> str:
    """An offset with all its digits: it names a message, so it is never rounded."""
    return unknown if value is None else str(value)


def rate(value: float | None) -> str:
    """`1,850/s`."""
    return UNKNOWN if value is None else f"{number(value)}/s"


def share(value: float | None, digits: int = 1) -> str:
    """`99.3%`; a share below 1 is never rounded to `100%`, one above 0 never to `0%`."""
    if value is None:
        return UNKNOWN
    if 1 - 10**-digits / 200 <= value < 1:
        return f"> {100 - 10**-digits:.{digits}f}%"
    if 0 < value <= 10**-digits / 200:
        return f"< {10**-digits:.{digits}f}%"
    return f"{value * 100:.{digits}f}".removesuffix("." + "0" * digits) + "%"


def factor(value: float | None) -> str:
    """`2.6 x`, `14 x`."""
    if value is None:
        return "from 0"
    return f"{value:.2g} \u00d7" if value < _FACTOR_DIGITS else f"{value:,.0f} \u00d7"


def used(value: float | None) -> str:
    """A share that may be far above 1: `80%`, `14 x`."""
    if value is None or value <= 1:
        return share(value, 0)
    return factor(value) if value >= 2 else f"{value:.0%}"  # noqa: PLR2004 twice


def chance(value: float) -> str:
    """`0.004`, `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"  # noqa: PLR2004 three places


def clock(at_ms: int, zone: ZoneInfo) -> str:
    """`03:12`; `02:30 again` in the hour that comes twice when clocks are set back."""
    return wall_clock(datetime.fromtimestamp(at_ms / 1000, zone))


def wall_clock(wall: datetime) -> str:
    """The same of a local time."""
    return f"{wall:%H:%M}{' again' if wall.fold else ''}"


def at(at_ms: int, report: Report, zone: ZoneInfo) -> str:
    """The time, with the day when it is another one."""
    within = report.from_ms <= at_ms <= report.to_ms
    return clock(at_ms, zone) if within else moment(at_ms, zone)


def moment(at_ms: int, zone: ZoneInfo) -> str:
    """`18 Oct 22:00`."""
    wall = datetime.fromtimestamp(at_ms / 1000, zone)
    return f"{wall:%-d %b} {wall_clock(wall)}"


def as_of(sentence: str, at_ms: int, zone: ZoneInfo) -> str:
    """A recorded cause with the instant that it, and its numbers, are of."""
    return f"{sentence} (as of {moment(at_ms, zone)}, in the partition that decided then)"


def last_seen_open(incident: ReportedIncident, day_to_ms: int) -> int | None:
    """When an open incident was seen last, if recording ended well before the day did."""
    seen_ms = incident.last_seen_ms
    ended_early = seen_ms is not None and seen_ms < day_to_ms - ROLLUP_STEP_MS[Kind.ROLLUP_5M]
    return seen_ms if incident.to_ms is None and ended_early else None


ENOUGH_S: Final = 900.0
"""Recorded time that each side must have."""
CLEAR: Final = 1.5
"""Times more or less that is a difference."""
_SMALL: Final = {"not_ok_s": 60.0, "time_lag_max_s": 10.0, "lag_avg": 100.0}
"""Differences below this do not count, whatever their ratio."""


def verdict(before: Side, after: Side) -> str:
    """`better`, `worse`, `same`, or `unknown` where too little is recorded.

    The first of time not OK, time lag and lag that clearly differs decides.
    """
    if min(before.seconds, after.seconds) < ENOUGH_S:
        return "unknown"
    found = list(_differences(before, after))
    if not found:
        return "unknown"
    return next((word for word in found if word != "same"), "same")


def _differences(before: Side, after: Side) -> Iterator[str]:
    for name, small in _SMALL.items():
        old, new = getattr(before, name), getattr(after, name)
        if old is None or new is None:
            continue
        if new > old * CLEAR and new - old >= small:
            yield "worse"
        elif old > new * CLEAR and old - new >= small:
            yield "better"
        else:
            yield "same"
