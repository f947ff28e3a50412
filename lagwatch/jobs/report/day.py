"""A day of a time zone: where it begins and ends, and its hours. It may have 23 or 25 of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from lagwatch.jobs.report.words import wall_clock

HOUR_MS: Final = 3_600_000
QUARTER_MS: Final = 900_000
"""Every zone's offset from UTC is a multiple of this: a quarter of an hour has one local hour."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """An hour of a day, counted from its beginning; the last may be shorter."""

    from_ms: int
    to_ms: int
    label: str
    """Local time when it begins: `02:00`; on the day that clocks go back, twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """From one midnight to the next; where midnight is skipped, from the first instant there is."""

    date: date
    zone: ZoneInfo

    @property
    def from_ms(self) -> int:
        return _midnight_ms(self.date, self.zone)

    @property
    def to_ms(self) -> int:
        return _midnight_ms(self.date + timedelta(days=1), self.zone)

    @property
    def seconds(self) -> float:
        """82,800, 86,400 or 90,000; some zones turn the clock by half an hour."""
        return (self.to_ms - self.from_ms) / 1000

    @property
    def hours(self) -> tuple[Hour, ...]:
        return tuple(
            Hour(
                from_ms=at_ms,
                to_ms=min(at_ms + HOUR_MS, self.to_ms),
                label=wall_clock(self.wall(at_ms)),
            )
            for at_ms in range(self.from_ms, self.to_ms, HOUR_MS)
        )

    def before(self, days: int) -> "Day":
        """The day this many days earlier."""
        return Day(date=self.date - timedelta(days=days), zone=self.zone)

    def wall(self, at_ms: int) -> datetime:
        """An instant as the clocks of the zone show it."""
        return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(self.zone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarter:
    """A quarter of an hour and where it belongs."""

    quarter_ms: int
    days_ago: int
    """0 for the day itself."""
    hour: int
    """Hour on the wall, 0..23."""


def quarters(day: Day, days_before: int) -> Iterator[Quarter]:
    """All quarters of an hour of the day and so many before it."""
    for days_ago in range(days_before + 1):
        earlier = day.before(days_ago)
        for at_ms in range(earlier.from_ms, earlier.to_ms, QUARTER_MS):
            yield Quarter(quarter_ms=at_ms, days_ago=days_ago, hour=earlier.wall(at_ms).hour)


def yesterday(now_ms: int, zone: ZoneInfo) -> Day:
    """The last complete day."""
    now = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone)
    return Day(date=now.date() - timedelta(days=1), zone=zone)


def _midnight_ms(day: date, zone: ZoneInfo) -> int:
    """The first instant of a day.

    Where clocks are put forward at midnight, 00:00 does not exist; `fold=0` reads it with the
    offset from before the change, which is the very instant of the change.
    """
    local = datetime(day.year, day.month, day.day, tzinfo=zone)
    return (local.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
