"""Section `[alerts]`: policies, mutes, channels, and the file that keeps incidents."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final, Literal, Protocol, Self, Unpack
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    model_validator,
)

from lagwatch.config.alerts_channels import HTTP, ChannelSettings, Seconds
from lagwatch.config.secret import ShownUrl, Url, without_user
from lagwatch.config.section import Regex, Section, Texts, fault
from lagwatch.core.words import duration

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


class _Kind(Protocol):
    """A kind of channel, as far as the configuration needs it."""

    about: str
    settings: type[ChannelSettings]


# channels are found by name, like plug-ins: `config` must not import `notify`, which is above it
_KINDS: Final[Mapping[str, _Kind]] = import_module("lagwatch.notify.channels.registry").KINDS
KINDS: Final = tuple(_KINDS)
"""Tables of channels below `[alerts]`."""


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
    text = f"{value:%H:%M}" if isinstance(value, time) else value  # TOML has times of its own
    if text != "" and not (isinstance(text, str) and _TIME.fullmatch(text)):
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


def _below_one(share: float) -> float:
    if share >= 1:
        percent = share if 1 < share < 100 else 99  # noqa: PLR2004 a share in percent
        remedy = f"Write {percent / 100:g} for {percent:g} %."
        raise fault("share", "is a share of time and less than 1", remedy)
    return share


Instant = Annotated[str, BeforeValidator(_instant)]


class PolicySettings(Section):
    """When a verdict opens an incident, which channels get notices, and how often."""

    cluster: Regex = Field(default="", description='clusters it applies to; "" = all')
    group: Regex = Field(default="", description='groups it applies to; "" = all')
    topic: Regex = Field(default="", description='topics of these groups it applies to; "" = all')
    channels: Texts = Field(default=(), description="channels that get the notices; empty = all")
    threshold: Literal["warning", "error", "never"] = Field(
        default="error", description="minimum severity that opens an incident"
    )
    for_s: Seconds = Field(
        default=0.0,
        description="seconds a verdict must last before it opens or escalates an incident",
    )
    close_for_s: Seconds = Field(
        default=60.0,
        description=(
            "seconds a better verdict must last before it closes or de-escalates an incident"
        ),
    )
    remind_s: Seconds = Field(
        default=14_400.0, description="seconds between two notices of an open incident; 0 = none"
    )
    reopen_s: Seconds = Field(
        default=300.0,
        description=(
            "flapping: when an incident opens within so many seconds of the end of the last one, "
            "its notice waits for the rest of them; a worse incident is sent at once"
        ),
    )
    runbook: Annotated[str, PlainSerializer(without_user)] = Field(
        default="",
        description="what to do, usually a URL; goes with each notice instead of first steps",
    )
    team: str = Field(
        default="", description="team responsible for the groups; goes with each notice"
    )
    send_once: bool = Field(
        default=False,
        description=(
            "send no reminders and no de-escalations, only opening, escalations and the end"
        ),
    )
    send_close: bool = Field(default=True, description="send a notice when an incident ends")
    minimum_complete: Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)] = Field(
        default=0.0, description="share (0 to 1) of full windows below which a verdict is ignored"
    )
    minimum_lag: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=(
            "lag in messages below which a group counts as OK, unless it misses lost_records"
        ),
    )
    minimum_time_lag_s: Seconds = Field(
        default=0.0, description="the same of the time lag, in seconds"
    )
    max_time_lag_s: Seconds = Field(
        default=0.0, description="seconds of time lag above which a group is bad; 0 = any is fine"
    )
    max_lag: Annotated[int, Field(ge=0)] = Field(
        default=0, description="messages of lag above which a group is bad; 0 = any is fine"
    )
    catch_up_within_s: Seconds = Field(
        default=0.0,
        description=(
            "seconds within which a group that is a minute behind must catch up at its present "
            "speed; 0 = any is fine"
        ),
    )
    lost_records: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description=(
            "messages deleted unread from which a group is bad, until the loss is acknowledged; "
            "0 = any is fine"
        ),
    )
    objective_severity: Literal["warning", "error"] = Field(
        default="error", description="how bad it is to miss one of these limits"
    )
    objective_share: Annotated[
        float, Field(ge=0, allow_inf_nan=False), AfterValidator(_below_one)
    ] = Field(
        default=0.0,
        description=(
            "share of time within these limits, such as 0.99: an incident opens only when the "
            "error budget of 30 days is spent too fast; 0 = whenever a limit is missed"
        ),
    )
    escalate_after_s: Seconds = Field(
        default=0.0,
        description="seconds after which an open incident is sent to `escalate_to`; 0 = never",
    )
    escalate_to: Texts = Field(
        default=(), description="channels that get the notices of an incident that stays open"
    )
    burrow_compatible: bool = Field(
        default=False,
        description=(
            "decide exactly as Burrow's notifier, with its defects; `remind_s` is its send-interval"
        ),
    )

    @model_validator(mode="after")
    def _escalates_wholly(self) -> Self:
        if bool(self.escalate_after_s) != bool(self.escalate_to):
            raise fault("policy", "escalates by halves", "Set escalate_after_s and escalate_to.")
        return self


class MuteSettings(Section):
    """A maintenance window: once (`starts`, `ends`) or every week (`days`, `at`, `duration_s`)."""

    cluster: Regex = Field(default="", description='clusters that are muted; "" = all')
    group: Regex = Field(default="", description='groups that are muted; "" = all')
    reason: Annotated[str, Field(min_length=1)] = Field(description="reason; shown with the mute")
    starts: Instant = Field(default="", description="start of a single window: `2027-01-31T22:00`")
    ends: Instant = Field(default="", description="end of a single window")
    days: Annotated[
        tuple[str, ...], BeforeValidator(_days), Field(json_schema_extra={"format": "texts"})
    ] = Field(default=(), description="days on which a weekly window starts: `mon` … `sun`")
    at: Annotated[str, BeforeValidator(_time_of_day)] = Field(
        default="", description="time of day at which a weekly window starts: `22:00`"
    )
    duration_s: Annotated[float, Field(ge=0, le=604_800, allow_inf_nan=False)] = Field(
        default=0.0, description="seconds a weekly window lasts; it may go past midnight"
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
    def weekly(self) -> str:
        """When a weekly window opens, in words; "" for a single window."""
        if not self.days:
            return ""
        days = ", ".join(self.days)
        return f"{days} at {self.at} {self.timezone} for {duration(self.duration_s)}"

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


class HeartbeatSettings(Section):
    """A dead man's switch: a request every so often while all is well; its absence is the alarm."""

    url: Url = Field(
        default="", validate_default=True, description='where it goes: http(s); "" = none is sent'
    )
    method: Literal["GET", "POST", "HEAD"] = Field(default="GET", description="HTTP method")
    interval_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = Field(
        default=60.0, description="seconds between two requests"
    )

    @model_validator(mode="after")
    def _is_http(self) -> Self:
        url = self.url.get_secret_value()
        if url and not url.startswith(HTTP):
            raise fault("url", "is no http(s) URL", "Write https://host/path.")
        return self


class _WithChannels(Section):
    """Gives a section a table for each kind of channel."""

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**options)
        for table, kind in _KINDS.items():
            cls.__annotations__[table] = dict[str, kind.settings]  # type: ignore[name-defined] # known only now
            setattr(cls, table, Field(default={}, description=kind.about))


class AlertsSettings(_WithChannels):
    """Incidents and notices. Alerting is off without a channel, a policy or a heartbeat."""

    file: Path = Field(
        default=Path("lagwatch-alerts.sqlite"),
        description=(
            "SQLite file with incidents, notices and mutes; each lagwatch needs a file of its own"
        ),
    )
    group_wait_s: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = Field(
        default=1.0, description="seconds a notice waits, so that several go into one message"
    )
    group_interval_s: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=30.0,
        description="in a storm, from the third message on: seconds that news waits to go together",
    )
    keep_s: Seconds = Field(
        default=2_592_000.0, description="seconds closed incidents and old notices are kept"
    )
    page_url: ShownUrl = Field(
        default="",
        validate_default=True,
        description="URL of this server as readers reach it, for links in notices",
    )
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="UTC", description="time zone of the instants in notices and on the page"
    )
    fallback: Texts = Field(
        default=(),
        description="channels that are notified when another cannot deliver; empty = all",
    )
    also_to: Texts = Field(
        default=(),
        description="channels that get the notices of every policy, beside its own `channels`",
    )
    undelivered_after_s: Seconds = Field(
        default=300.0, description="seconds a channel may fail before the fallback is used"
    )
    cluster_unseen_s: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = Field(
        default=60.0, description="seconds without fresh data of a cluster that make an incident"
    )
    heartbeat: HeartbeatSettings = Field(
        default=HeartbeatSettings(), description="dead man's switch"
    )
    policies: dict[str, PolicySettings] = Field(
        default={}, description="first match in the order of the file decides"
    )
    mutes: dict[str, MuteSettings] = Field(default={}, description="maintenance windows")

    @property
    def active(self) -> bool:
        """True if anything is configured."""
        beats = bool(self.heartbeat.url.get_secret_value())
        return beats or bool(self.policies) or any(True for _ in self.channels())

    def channels(self) -> Iterator[tuple[str, ChannelSettings]]:
        """Every channel with its name."""
        for kind in KINDS:
            table: Mapping[str, ChannelSettings] = getattr(self, kind)
            yield from table.items()

    def policies_in_effect(self) -> Mapping[str, PolicySettings]:
        """As configured, or one for everything."""
        return self.policies or {"default": PolicySettings()}
