"""Incidents, notices, mutes and policies, as readers see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class MessageState(StrEnum):
    """State of the delivery of a notice."""

    WAITING = "waiting"
    """Waiting for other notices of its message, or for the channel."""
    QUEUED = "queued"
    """In a message that the channel is sending, with retries."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """Given up: the receiver refused it, or did not take it in time."""
    UNREADABLE = "unreadable"
    """Set aside: the file holds something that this version cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What happened to an incident."""

    at_ms: int
    act: str
    """open, escalate, de_escalate, close, none."""
    event: str
    """The notice: open, remind, escalate, de_escalate, close, nothing."""
    severity: str
    """warning or error."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleSince:
    """Since when a group with an open incident has been in trouble without a break."""

    since_ms: int
    at_least: bool
    """It may have begun earlier, when lagwatch did not look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRecord:
    """An incident, open or past."""

    id: str
    about: str
    """group, cluster, channel or history: what it is about."""
    cluster: str
    group: str
    """The name of the channel when it is about one; "" of a cluster or the history."""
    policy: str
    severity: str
    """warning or error: now, or at the end."""
    since_ms: int
    """When the trouble began; if the verdict has no such instant, when the group was first seen
    bad.
    """
    again_ms: int | None
    """When it began again after a while without; None if it never ended."""
    opened_ms: int
    closed_ms: int | None
    notified_ms: int | None
    """When a notice was sent last; None: never."""
    acknowledged_ms: int | None
    """When it was acknowledged, so that no reminders are sent; None: it was not."""
    acknowledged_by: str
    verdict: Mapping[str, object]
    """At the last transition."""
    since_at_least: bool = False
    """It may have begun before `since_ms`, when lagwatch did not look."""
    healed_ms: int | None = None
    """Since when its group is good: of an open one while a mute holds the end back; None: it is
    not, or it is gone, or that is not known."""
    headline: str = ""
    """What was wrong at the last transition, in the words of its notices; "" once it has ended."""
    behind_now: str = ""
    """How far behind its group is now; "" once it has ended, or when that is not known."""
    cause: str = ""
    """Why, with its certainty, in the same words; "" when nothing is known, or it has ended."""
    muted: bool = False
    """Does a mute keep its notices back now? Only of an open one."""
    transitions: tuple[Transition, ...] = ()
    """Oldest first; () in lists, filled where one incident is read by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    """A notice to a channel and the state of its delivery."""

    key: str
    incident: str
    cluster: str
    group: str
    channel: str
    event: str
    severity: str
    at_ms: int
    state: MessageState
    message: str | None
    """Id of the message it goes in: the idempotency key; None as long as it waits."""
    attempts: int
    next_attempt_ms: int | None
    last_error: str
    """Why it was not delivered; "" when there is no problem."""
    ended_ms: int | None
    """When it was delivered or given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """A window in which no notice of a group is sent."""

    id: str
    """`config:NAME` for those of the configuration."""
    cluster: str
    """Name with `*` for any characters, "" = all; of the configuration: a regular expression."""
    group: str
    reason: str
    author: str
    starts_ms: int | None
    """None: weekly."""
    ends_ms: int | None
    """End of the mute, or of its open weekly window; None: weekly and not open now."""
    active: bool
    weekly: str = ""
    """When it comes every week: `sun at 02:00 UTC for 2 h`; "" for one that comes once."""
    matching: int = 0
    """Number of known groups that it applies to; 0 may mean a mistyped name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRecord:
    """A policy in effect."""

    name: str
    settings: Mapping[str, object]
    """The options of `[alerts.policies.NAME]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAsk:
    """Which incidents, newest first."""

    state: str = ""
    """open, closed; "" = both."""
    cluster: str = ""
    group: str = ""
    limit: int = 100
    cursor: str = ""
    """As answered with the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeAsk:
    """Which notices, newest first."""

    state: str = ""
    """A `MessageState`; "" = all."""
    channel: str = ""
    incident: str = ""
    cluster: str = ""
    group: str = ""
    limit: int = 100
    cursor: str = ""


class AlertsView(Protocol):
    """Incidents, notices, mutes and policies, for the HTTP layer.

    An id may be cut to its first characters, four at least, if no other begins so. Raises
    `NotFoundError` for an id that is not known, `AmbiguousError` if several begin so, and
    `InputError` for an invalid cursor.
    """

    @property
    def time_zone(self) -> str:
        """Time zone in which texts write instants."""
        ...

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        """A page and the cursor of the next; "" after the last."""
        ...

    def in_trouble_since(self, cluster: str) -> Mapping[str, TroubleSince]:
        """When the trouble of each group with an open incident began."""
        ...

    def incident(self, incident: str) -> IncidentRecord: ...

    def acknowledge(self, incident: str, *, author: str) -> IncidentRecord:
        """Send no more reminders of an open incident; the author works on it."""
        ...

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]: ...

    def retry(self, message: str, *, to: str = "") -> int:
        """Queue the notices of a dead message again; returns how many they are.

        `to` names another channel. Notices that later ones have made obsolete are left out.
        """
        ...

    def retry_channel(self, channel: str, *, to: str = "") -> int:
        """Queue again all that a channel has given up; with `to`, what waits for it as well."""
        ...

    def now_ms(self) -> int:
        """The instant by the clock that begins and ends mutes."""
        ...

    def mutes(self) -> Sequence[Mute]:
        """Those that are open or still to come."""
        ...

    def mute(
        self, *, cluster: str, group: str, reason: str, author: str, starts_ms: int, ends_ms: int
    ) -> Mute:
        """Mute groups (`*` is any characters; "" = all) from one instant to another."""
        ...

    def unmute(self, mute: str) -> None: ...

    def policies(self) -> Sequence[PolicyRecord]: ...

    def policy_of(self, cluster: str, group: str, topics: Sequence[str]) -> Mapping[str, str]:
        """Topic → name of its policy, "" for none; without topics, under the key ""."""
        ...
