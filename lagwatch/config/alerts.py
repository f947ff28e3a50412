"""Section `[alerts]`: policies, mutes, channels and where incidents are kept."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lagwatch.config.alerts_channels import (
    AlertmanagerSettings,
    AnyChannelSettings,
    AppriseSettings,
    EmailSettings,
    PagerDutySettings,
    Seconds,
    SlackSettings,
    TeamsSettings,
    Texts,
    WebhookSettings,
)
from lagwatch.config.section import Regex, Section, fault

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KINDS: Final = ("webhook", "email", "alertmanager", "slack", "pagerduty", "teams", "apprise")
"""Tables of channels below `[alerts]`."""
_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise fault(
            "timezone", "is no time zone that is known here", "Write Europe/Berlin or UTC."
        ) from error
    return name


def _days(value: object) -> object:
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise fault("type", "is no list of days", 'Write ["sat", "sun"].')
    days = tuple(str(word).strip().lower()[:3] for word in words)
    for day in days:
        if day not in DAYS:
            raise fault("day", f"{day!r} is no day", f"Use {', '.join(DAYS)}.")
    return days


def _time_of_day(value: object) -> object:
    text = value if isinstance(value, str) else f"{value:%H:%M}"  # TOML has times of its own
    if text and not _TIME.fullmatch(text):
        raise fault("time", "is no time of day", 'Write "22:30".')
    return text


def _instant(value: object) -> object:
    text = value.isoformat() if isinstance(value, datetime) else value
    if not isinstance(text, str):
        raise fault("instant", "is no date and time", 'Write "2027-01-31T22:00".')
    if text:
        try:
            datetime.fromisoformat(text)
        except ValueError as error:
            raise fault("instant", "is no date and time", 'Write "2027-01-31T22:00".') from error
    return text


Instant = Annotated[str, BeforeValidator(_instant)]


class PolicySettings(Section):
    """When a group's verdict becomes an incident, and who is told how often."""

    cluster: Regex = Field(default="", description='clusters it is for; "" = all')
    group: Regex = Field(default="", description='groups it is for; "" = all')
    topic: Regex = Field(
        default="", description='topics it is for, of these groups; "" = all of them'
    )
    channels: Texts = Field(default=(), description="channels that are told; none named = all")
    threshold: Literal["warning", "error", "never"] = Field(
        default="error", description="the mildest verdict that opens an incident"
    )
    for_s: Seconds = Field(
        default=0.0, description="seconds a verdict must hold before it opens or escalates"
    )
    close_for_s: Seconds = Field(
        default=60.0, description="seconds a better verdict must hold before it closes or eases"
    )
    remind_s: Seconds = Field(
        default=14_400.0, description="seconds between two notices of an open incident; 0 = none"
    )
    reopen_s: Seconds = Field(
        default=300.0,
        description=(
            "an incident that opens within so many seconds of the last one's end is told only "
            "after them, if it is still open; a worse one is told at once"
        ),
    )
    send_once: bool = Field(
        default=False, description="no reminders and no easing; escalations and the end are told"
    )
    send_close: bool = Field(default=True, description="tell the end of an incident")
    minimum_complete: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)] = Field(
        default=0.0, description="share (0..1) of full windows below which nothing is decided"
    )
    minimum_lag: Annotated[int, Field(ge=0)] = Field(
        default=0, description="messages of lag below which nothing is bad"
    )
    minimum_time_lag_s: Seconds = Field(
        default=0.0, description="seconds of time lag below which nothing is bad"
    )
    burrow_compatible: bool = Field(
        default=False,
        description=(
            "decide as Burrow's notifier does, its defects included; `remind_s` is its "
            "send-interval"
        ),
    )


class MuteSettings(Section):
    """A maintenance window: once (`starts`, `ends`) or every week (`days`, `at`, `duration_s`)."""

    cluster: Regex = Field(default="", description='clusters that are muted; "" = all')
    group: Regex = Field(default="", description='groups that are muted; "" = all')
    reason: Annotated[str, Field(min_length=1)] = Field(description="why; shown with the mute")
    starts: Instant = Field(default="", description="begins once: `2027-01-31T22:00`")
    ends: Instant = Field(default="", description="ends once")
    days: Annotated[
        tuple[str, ...], BeforeValidator(_days), Field(json_schema_extra={"format": "texts"})
    ] = Field(default=(), description="begins weekly on these days: mon … sun")
    at: Annotated[str, BeforeValidator(_time_of_day)] = Field(
        default="", description="begins weekly at this time of day: `22:00`"
    )
    duration_s: Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)] = Field(
        default=0.0, description="seconds a weekly window lasts; it may pass midnight"
    )
    timezone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="time zone of `starts`, `ends`, `days` and `at`"
    )

    @model_validator(mode="after")
    def _once_or_weekly(self) -> Self:
        once, weekly = bool(self.starts or self.ends), bool(self.days or self.at)
        if once == weekly:
            raise fault(
                "mute",
                "is neither a window that comes once nor one that comes weekly",
                "Set starts and ends, or days, at and duration_s.",
            )
        if once and not (self.starts and self.ends and self.starts_at < self.ends_at):
            raise fault("mute", "has no end after its start", "Set starts, and ends after it.")
        if weekly and not (self.days and self.at and self.duration_s):
            raise fault("mute", "is not complete", "Set days, at and duration_s.")
        return self

    @property
    def starts_at(self) -> datetime:
        """Begin of a window that comes once, with its time zone."""
        return self._aware(self.starts)

    @property
    def ends_at(self) -> datetime:
        """End of a window that comes once, with its time zone."""
        return self._aware(self.ends)

    def _aware(self, text: str) -> datetime:
        instant = datetime.fromisoformat(text)
        return instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(self.timezone))


class AlertsSettings(Section):
    """Incidents and who is told of them; nothing is done unless a channel or policy is set."""

    file: Path = Field(
        default=Path("lagwatch-alerts.sqlite"),
        description="SQLite file that keeps incidents, notices and mutes",
    )
    group_wait_s: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = Field(
        default=1.0, description="seconds a notice waits for others to go with it"
    )
    keep_s: Seconds = Field(
        default=2_592_000.0, description="seconds closed incidents and old notices are kept"
    )
    page_url: str = Field(
        default="", description="root of this server as readers reach it, for links in notices"
    )
    policies: dict[str, PolicySettings] = Field(
        default={}, description="first match in the order of the file decides"
    )
    mutes: dict[str, MuteSettings] = Field(default={}, description="maintenance windows")
    webhook: dict[str, WebhookSettings] = Field(default={}, description="webhooks")
    email: dict[str, EmailSettings] = Field(default={}, description="e-mail")
    alertmanager: dict[str, AlertmanagerSettings] = Field(
        default={}, description="Prometheus Alertmanagers"
    )
    slack: dict[str, SlackSettings] = Field(default={}, description="Slack-compatible webhooks")
    pagerduty: dict[str, PagerDutySettings] = Field(default={}, description="PagerDuty services")
    teams: dict[str, TeamsSettings] = Field(default={}, description="Microsoft Teams webhooks")
    apprise: dict[str, AppriseSettings] = Field(default={}, description="Apprise services")

    @property
    def active(self) -> bool:
        """Is there anything to do?"""
        return bool(self.policies) or any(True for _ in self.channels())

    def channels(self) -> Iterator[tuple[str, AnyChannelSettings]]:
        """Every channel with its name."""
        for kind in KINDS:
            table: Mapping[str, AnyChannelSettings] = getattr(self, kind)
            yield from table.items()

    def policies_in_effect(self) -> Mapping[str, PolicySettings]:
        """As configured, or one for everything."""
        return self.policies or {"default": PolicySettings()}
