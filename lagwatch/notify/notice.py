"""What is sent: a notice about one incident, and a message of notices to one channel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any, Final, Literal

from lagwatch.core.incident import Tell
from lagwatch.core.model import GroupStatus, GroupVerdict, PartitionVerdict, WindowEntry
from lagwatch.core.rules import row_of, sentence

WORST_PARTITIONS: Final = 10
"""Partitions listed in a notice; the number left out is given with them."""
Json = Mapping[str, Any]
Level = Literal["ok", "warning", "error"]

_LEVELS: Final[Mapping[GroupStatus, Level]] = {
    GroupStatus.OK: "ok",
    GroupStatus.WARN: "warning",
    GroupStatus.ERR: "error",
}


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
    """An earlier incident of the same group, ended before the channel could be reached."""

    incident: str
    severity: Level
    since_ms: int
    ended_ms: int | None
    heard: bool
    """Whether the channel has received its opening."""
    thread: str
    thread_open: int
    """Incidents of its thread that are open still."""

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
    """One piece of news about one incident."""

    key: str
    """The same for every attempt to tell it, on one channel."""
    incident: str
    event: Tell
    cluster: str
    group: str
    severity: Level
    """Of the incident; of a close, the severity it had."""
    reason: str
    policy: str
    since_ms: int
    """When the group turned bad."""
    opened_ms: int
    at_ms: int
    url: str
    """The group's page; "" when `alerts.page_url` is not set."""
    verdict: Json
    """See `verdict_json`."""
    curve: Sequence[tuple[int, int]] = ()
    """(instant in ms, lag), oldest first: the group's total, or its worst partition's."""
    curve_of: str = ""
    """What the curve shows: `total lag`, `lag of topic/partition`."""
    thread: str = ""
    """Id of the message that told this channel of the incident first."""
    thread_open: int = 0
    """Incidents of that message that are open still."""
    about: About = About.GROUP
    runbook: str = ""
    """Of the policy: what to do, usually a URL; ""."""
    team: str = ""
    """Of the policy: who looks after the group; ""."""
    zone: str = "UTC"
    """Time zone in which instants are written."""
    heard: bool = False
    """Whether the channel has received anything of the incident before."""
    earlier: tuple[Earlier, ...] = ()
    """Incidents of the group that ended unnoticed by the channel, oldest first."""

    @property
    def closing(self) -> bool:
        return self.event is Tell.CLOSE

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
            "opened_ms": self.opened_ms,
            "at_ms": self.at_ms,
            "url": self.url,
            "runbook": self.runbook,
            "team": self.team,
            "verdict": self.verdict,
            "thread": self.thread,
            "thread_open": self.thread_open,
            "heard": self.heard,
            "earlier": [one.as_json() for one in self.earlier],
        }


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

    @property
    def closing(self) -> bool:
        """Does it tell of ends?"""
        return self.notices[0].closing

    @property
    def severity(self) -> Level:
        """The worst of its notices."""
        return "error" if any(one.severity == "error" for one in self.notices) else "warning"


def brief(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a notice without its partitions."""
    verdict = dict(document["verdict"])
    left_out = len(verdict.get("partitions", ())) + verdict.get("partitions_left_out", 0)
    return document | {
        "verdict": verdict | {"partitions": [], "partitions_left_out": left_out, "owners": []}
    }


def level(status: GroupStatus) -> Level:
    """The word for a severity."""
    return _LEVELS[status]


def verdict_json(verdict: GroupVerdict) -> dict[str, Any]:
    """The verdict as receivers and templates get it; what is not known is null."""
    worst = sorted(
        verdict.partitions,
        key=lambda one: (-one.status % 7, -(one.current_lag or 0), one.topic, one.partition),
    )
    shown = {(one.topic, one.partition): _partition(one) for one in worst[:WORST_PARTITIONS]}
    most = verdict.max_lag
    return {
        "cluster": verdict.cluster,
        "group": verdict.group,
        "at_ms": verdict.at_ms,
        "status": verdict.status.name,
        "rule": verdict.rule.word if verdict.rule is not None else None,
        "complete": round(verdict.complete, 4),
        "partition_count": verdict.partition_count,
        "total_lag": verdict.known_lag,
        "unknown_partitions": verdict.unknown_partitions,
        "time_lag_s": verdict.time_lag_s,
        "time_lag_reason": verdict.time_lag_reason.word,
        "owners": sorted({one.owner for one in verdict.partitions if one.owner}),
        "max_lag": None
        if most is None
        else shown.get((most.topic, most.partition)) or _partition(most),
        "partitions": list(shown.values()),
        "partitions_left_out": max(0, len(worst) - WORST_PARTITIONS),
    }


def nothing_known(cluster: str, group: str, at_ms: int, status: str = "") -> dict[str, Any]:
    """A verdict with all fields and nothing in them, for what is no group or no group any more."""
    return {
        "cluster": cluster,
        "group": group,
        "at_ms": at_ms,
        "status": status,
        **dict.fromkeys(("rule", "complete", "partition_count", "total_lag", "time_lag_s")),
        **dict.fromkeys(("unknown_partitions", "time_lag_reason", "max_lag")),
        "owners": [],
        "partitions": [],
        "partitions_left_out": 0,
    }


def _partition(verdict: PartitionVerdict) -> dict[str, Any]:
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "status": verdict.status.name,
        "rule": verdict.rule.word,
        "sentence": sentence(row_of(verdict.rules, verdict.rule), verdict.evidence),
        "evidence": dict(verdict.evidence),
        "current_lag": verdict.current_lag,
        "time_lag_s": verdict.time_lag_s,
        "complete": round(verdict.complete, 4),
        "owner": verdict.owner,
        "client_id": verdict.client_id,
        "instance_id": verdict.instance_id,
        "lost": verdict.lost,
        "start": _entry(verdict.start),
        "end": _entry(verdict.end),
    }


def _entry(entry: WindowEntry | None) -> dict[str, int | None] | None:
    if entry is None:
        return None
    return {"offset": entry.offset, "commit_ms": entry.commit_ms, "lag": entry.lag}
