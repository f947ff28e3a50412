"""Maintenance windows: when no notices of a group are wanted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from lagwatch.config.alerts import DAYS, MuteSettings
from lagwatch.core.words import named
from lagwatch.ports.alerts import Mute

_LONGEST_DAYS: Final = 7


class Window(Protocol):
    """The end, in ms, of the window that holds an instant; None: no window does."""

    def ends_ms(self, now_ms: int) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """From one instant up to, not including, another."""

    starts_ms: int
    until_ms: int

    def ends_ms(self, now_ms: int) -> int | None:
        return self.until_ms if self.starts_ms <= now_ms < self.until_ms else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Weekly:
    """Begins on days of the week at a time of day in a time zone, and lasts a while.

    A start that is skipped when clocks go forward comes an hour later; a start that occurs twice
    counts the first time.
    """

    days: frozenset[int]
    """Monday is 0."""
    at: time
    duration_ms: int
    zone: ZoneInfo

    def ends_ms(self, now_ms: int) -> int | None:
        today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(self.zone).date()
        for back in range(-1, _LONGEST_DAYS + 1):
            day = today - timedelta(days=back)
            if day.weekday() not in self.days:
                continue
            begins = datetime.combine(day, self.at, tzinfo=self.zone)
            starts_ms = round(begins.timestamp() * 1000)
            if starts_ms <= now_ms < starts_ms + self.duration_ms:
                return starts_ms + self.duration_ms
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MuteRule:
    """Groups and when they are muted."""

    id: str
    """`config:NAME` for those of the configuration."""
    cluster: re.Pattern[str]
    group: re.Pattern[str]
    window: Window
    reason: str

    def covers(self, cluster: str, group: str) -> bool:
        return bool(self.cluster.search(cluster) and self.group.search(group))


def from_settings(name: str, settings: MuteSettings) -> MuteRule:
    """A mute from the configuration."""
    return MuteRule(
        id=f"config:{name}",
        cluster=re.compile(settings.cluster),
        group=re.compile(settings.group),
        window=_window(settings),
        reason=settings.reason,
    )


def from_record(mute: Mute) -> MuteRule:
    """A mute made at run time; in its names `*` matches any characters."""
    return MuteRule(
        id=mute.id,
        cluster=named(mute.cluster),
        group=named(mute.group),
        window=Once(starts_ms=mute.starts_ms or 0, until_ms=mute.ends_ms or 0),
        reason=mute.reason,
    )


def active(rules: Sequence[MuteRule], now_ms: int) -> tuple[MuteRule, ...]:
    """Rules whose window is open now."""
    return tuple(rule for rule in rules if rule.window.ends_ms(now_ms) is not None)


def _window(settings: MuteSettings) -> Window:
    if settings.starts:
        return Once(
            starts_ms=round(settings.starts_at.timestamp() * 1000),
            until_ms=round(settings.ends_at.timestamp() * 1000),
        )
    return Weekly(
        days=frozenset(DAYS.index(day) for day in settings.days),
        at=time.fromisoformat(settings.at),
        duration_ms=round(settings.duration_s * 1000),
        zone=ZoneInfo(settings.timezone),
    )
