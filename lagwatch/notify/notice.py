"""What is sent: notices of incidents, messages of notices to one channel, and report_messages.

`pack` and `unpack` turn a notice into what the file keeps and back.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum, unique
from typing import Any, Final, Literal, NamedTuple

import orjson

from lagwatch.core.incident import NoticeEvent
from lagwatch.core.model import GroupStatus
from lagwatch.core.words import LAST_MS
from lagwatch.errors import InputError

Json = Mapping[str, Any]
Level = Literal["ok", "warning", "error"]

_LEVELS: Final[Mapping[GroupStatus, Level]] = {
    GroupStatus.OK: "ok",
    GroupStatus.WARN: "warning",
    GroupStatus.ERR: "error",
}
_OLD_MS: Final = 60_000
"""Figures that are older when they are sent say of when they are."""
NOT_READABLE: Final = "not_readable"
"""Why an incident ends whose row in the file cannot be read."""
URGENT: Final = frozenset({NoticeEvent.OPEN, NoticeEvent.ESCALATE})
"""Events that go before others when they are errors."""
_LEVEL_BY_NAME: Final[Mapping[str, Level]] = {level: level for level in _LEVELS.values()}


@unique
class About(StrEnum):
    """What an incident is about."""

    GROUP = "group"
    CLUSTER = "cluster"
    """lagwatch does not see the cluster."""
    CHANNEL = "channel"
    """An alert channel does not deliver; `group` is its name."""
    HISTORY = "history"
    """lagwatch does not record history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """An earlier incident of the group that ended while the channel could not be reached."""

    incident: str
    severity: Level
    since_ms: int
    ended_ms: int | None
    heard_as: Level | None
    """Its severity in the newest notice that the channel received of it; None: of none."""
    thread: str
    thread_open: int
    """Incidents of its thread that are open still."""

    @property
    def heard(self) -> bool:
        """True if the channel received anything of it."""
        return self.heard_as is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "incident": self.incident,
            "severity": self.severity,
            "since_ms": self.since_ms,
            "ended_ms": self.ended_ms,
            "heard": self.heard,
            "thread": self.thread,
            "thread_open": self.thread_open,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """News about an incident."""

    key: str
    """The same for every attempt to send it on a channel."""
    incident: str
    event: NoticeEvent
    cluster: str
    group: str
    severity: Level
    """Of the incident; of a close, the severity it had."""
    reason: str
    policy: str
    since_ms: int
    """When the trouble began that the notice names; of an end, since when it was as severe."""
    opened_ms: int
    at_ms: int
    url: str
    """The group's page; "" when `alerts.page_url` is not set."""
    verdict: Json
    """See `lagwatch.notify.verdict`."""
    since_at_least: bool = False
    """It turned bad at `since_ms` or before, when lagwatch did not look."""
    trouble_ms: int = 0
    """When the group turned bad: before `since_ms` if it was less bad at first."""
    curve: Sequence[tuple[int, int]] = ()
    """(instant in ms, lag), oldest first: the group's total, or its worst partition's."""
    curve_of: str = ""
    """What the curve shows: `total lag`, `lag of topic/partition`."""
    thread: str = ""
    """Id of the first message about the incident on this channel."""
    thread_open: int = 0
    """Incidents of that message that are open still."""
    kinds: tuple[str, ...] = ()
    """The rules by which the group is bad, the worst first."""
    kinds_before: tuple[str, ...] = ()
    """Those that earlier notices of the incident have named."""
    cause: Json | None = None
    """Why the group is bad: `name` (None: not known), `certainty`, `text`, `refuted_by`,
    `sentence`, `to_do`; None where there is nothing to explain."""
    about: About = About.GROUP
    runbook: str = ""
    """Of the policy: what to do, usually a URL; ""."""
    team: str = ""
    """Of the policy: the team responsible for the group; ""."""
    zone: str = "UTC"
    """Time zone in which instants are written."""
    heard_as: Level | None = None
    """The severity of the newest notice that the channel received of the incident before this one;
    None: of none."""
    failed: str = ""
    """Why the channel could not be reached since the incident opened, if nothing of it was received
    before; "" if it could."""
    test: str = ""
    """Who asked for it, if it is a made-up notice that tries a channel; ""."""
    earlier: tuple[Earlier, ...] = ()
    """Incidents of the group that ended before the channel received their end, oldest first."""
    earlier_left_out: int = 0
    """How many more of them there are."""
    sent_ms: int = field(default=0, compare=False)
    """When it is sent; 0: not yet."""
    newest: Json | None = field(default=None, compare=False)
    """Of a notice that is sent late: how far behind the group is then, with `at_ms` and the names
    of the verdict; None where that is not known."""

    @property
    def closing(self) -> bool:
        return self.event is NoticeEvent.CLOSE

    @property
    def urgent(self) -> bool:
        """True for an opening or an escalation with severity error: it goes before others."""
        return self.severity == "error" and self.event in URGENT

    @property
    def heard(self) -> bool:
        """True if the channel received an earlier notice of the incident."""
        return self.heard_as is not None

    @property
    def was_milder(self) -> bool:
        """True if the group was less bad before `since_ms`."""
        return 0 < self.trouble_ms < self.since_ms

    def as_json(self) -> dict[str, Any]:
        """The body of a webhook; plain JSON."""
        return {
            "key": self.key,
            "about": self.about.value,
            "incident": self.incident,
            "event": self.event.value,
            "cluster": self.cluster,
            "group": self.group,
            "severity": self.severity,
            "reason": self.reason,
            "policy": self.policy,
            "since_ms": self.since_ms,
            "since_at_least": self.since_at_least,
            "trouble_ms": self.trouble_ms or self.since_ms,
            "opened_ms": self.opened_ms,
            "at_ms": self.at_ms,
            "url": self.url,
            "runbook": self.runbook,
            "team": self.team,
            "kinds": list(self.kinds),
            "kinds_before": list(self.kinds_before),
            "cause": self.cause,
            "verdict": self.verdict,
            "thread": self.thread,
            "thread_open": self.thread_open,
            "heard": self.heard,
            "earlier": [incident.as_json() for incident in self.earlier],
            "earlier_left_out": self.earlier_left_out,
            **({} if self.newest is None else {"newest": self.newest}),
            **({"test": self.test} if self.test else {}),
        }

    @property
    def late(self) -> bool:
        """True if its figures are old when it is sent."""
        return self.sent_ms - self.at_ms > _OLD_MS

    def sent_at(self, now_ms: int, newest: "Newest") -> "Notice":
        """The notice as it is sent now."""
        sent = replace(self, sent_ms=now_ms)
        return replace(sent, newest=newest(sent)) if sent.late else sent


@dataclass(frozen=True, slots=True, kw_only=True)
class StillOpen:
    """An open incident of a thread, of which the channel has received something."""

    incident: str
    about: About
    cluster: str
    group: str
    severity: Level


Newest = Callable[[Notice], Json | None]
"""How far behind the group of a notice is now; None: not known."""


def _not_known(notice: Notice) -> None:  # noqa: ARG001 of any notice
    return None


class OpenGroups(NamedTuple):
    """How many groups of a cluster have an open incident of which notices were sent."""

    errors: int
    warnings: int


OpenOf = Callable[[str], OpenGroups | None]
"""Those of a cluster now; None: not known."""


def _none_known(cluster: str) -> None:  # noqa: ARG001 of any cluster
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Notices that go to one channel together: either all of them closes, or none."""

    id: str
    """The same for every attempt: the idempotency key that the receiver is given."""
    channel: str
    at_ms: int
    notices: tuple[Notice, ...]
    attempts: int = 0
    """Attempts made before."""
    tried_ms: int = 0
    """For how long it has been tried, while lagwatch ran."""
    splits: int = 0
    """How often its notices were split into smaller messages."""
    brief: bool = False
    """Without partitions: it is too large with them."""
    last_error: str = field(default="", compare=False)
    open_groups: Mapping[str, OpenGroups] = field(default_factory=dict, compare=False)
    """As it is sent, by cluster of its notices."""
    still_open: Mapping[str, tuple[StillOpen, ...]] = field(default_factory=dict, compare=False)
    """By thread of its notices and of their earlier incidents."""

    @property
    def closing(self) -> bool:
        """True if its notices are about the ends of incidents."""
        return self.notices[0].closing

    @property
    def size_bytes(self) -> int:
        """Of its notices as JSON."""
        return sum(len(_packed(notice)) for notice in self.notices)

    @property
    def severity(self) -> Level:
        """The worst of its notices."""
        return "error" if any(notice.severity == "error" for notice in self.notices) else "warning"

    def sent_at(
        self, now_ms: int, newest: Newest = _not_known, open_of: OpenOf = _none_known
    ) -> "Message":
        """The message as it is sent now: figures that are old by then say so."""
        clusters = dict.fromkeys(notice.cluster for notice in self.notices)
        found = {cluster: open_of(cluster) for cluster in clusters}
        return replace(
            self,
            notices=tuple(notice.sent_at(now_ms, newest) for notice in self.notices),
            open_groups={name: count for name, count in found.items() if count is not None},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMessage:
    """What is sent."""

    id: str
    """The same for every attempt: the idempotency key that the receiver is given."""
    at_ms: int
    subject: str
    """One line."""
    text: str
    """A few lines, without markup."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """Goes into a webhook's body as `report`."""
    page: bytes | None = None
    """A page in HTML; goes with an e-mail as a file."""
    page_name: str = "report.html"

    def as_json(self, channel: str) -> dict[str, Any]:
        """The documented body of a webhook."""
        return {
            "version": 1,
            "id": self.id,
            "channel": channel,
            "event": "report",
            "at_ms": self.at_ms,
            "subject": self.subject,
            "text": self.text,
            "report": self.document,
        }


def brief(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a notice without its partitions."""
    verdict = dict(document["verdict"])
    left_out = len(verdict.get("partitions", ())) + verdict.get("partitions_left_out", 0)
    return document | {
        "verdict": verdict | {"partitions": [], "partitions_left_out": left_out, "owners": []}
    }


def pack(notice: Notice) -> tuple[int, bytes]:
    """(size in bytes as JSON, compressed JSON)."""
    text = _packed(notice)
    return len(text), zlib.compress(text, 1)


def _packed(notice: Notice) -> bytes:
    curve = {"curve": notice.curve, "curve_of": notice.curve_of}
    return orjson.dumps(notice.as_json() | curve | {"zone": notice.zone})


def unpack(body: bytes) -> Notice:
    """The notice that `pack` was given; what other versions wrote besides is ignored.

    Raises:
        InputError: it is not a notice, or lacks a field.
    """
    try:
        document = orjson.loads(zlib.decompress(body))
        return Notice(
            key="",
            incident=str(document["incident"]),
            event=NoticeEvent(document["event"]),
            about=About(document.get("about", "group")),
            runbook=str(document.get("runbook", "")),
            team=str(document.get("team", "")),
            zone=str(document.get("zone", "UTC")),
            cluster=str(document["cluster"]),
            group=str(document["group"]),
            severity=_LEVEL_BY_NAME[document["severity"]],
            reason=str(document["reason"]),
            policy=str(document["policy"]),
            since_ms=checked_ms(document["since_ms"]),
            since_at_least=bool(document.get("since_at_least")),
            trouble_ms=checked_ms(document.get("trouble_ms", 0)),
            opened_ms=checked_ms(document["opened_ms"]),
            at_ms=checked_ms(document["at_ms"]),
            url=str(document["url"]),
            verdict=dict(document["verdict"]),
            curve=tuple((checked_ms(at_ms), int(lag)) for at_ms, lag in document.get("curve", ())),
            curve_of=str(document.get("curve_of", "")),
            kinds=tuple(map(str, document.get("kinds", ()))),
            kinds_before=tuple(map(str, document.get("kinds_before", ()))),
            cause=document.get("cause"),
        )
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        problem = f"is not readable: {type(error).__name__}: {error}"
        raise InputError(index=0, field="payload", problem=problem) from error


def checked_ms(value: object) -> int:
    """An instant that was stored.

    Raises:
        ValueError, TypeError: the value is no instant, or not within the years 1970 to 9999.
    """
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no instant")
    if not 0 <= value <= LAST_MS:
        raise ValueError(f"{value} ms is not within the years 1970 to 9999")
    return value


def level(status: GroupStatus) -> Level:
    """The word for a severity."""
    return _LEVELS[status]
