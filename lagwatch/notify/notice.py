"""What is told: a notice about one incident, and a message of notices to one channel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

from lagwatch.core.incident import Tell
from lagwatch.core.model import GroupStatus, GroupVerdict, PartitionVerdict, WindowEntry

WORST_PARTITIONS: Final = 10
"""Partitions told in a notice; the number left out is told with them."""
Json = Mapping[str, Any]
Level = Literal["ok", "warning", "error"]

_LEVELS: Final[Mapping[GroupStatus, Level]] = {
    GroupStatus.OK: "ok",
    GroupStatus.WARN: "warning",
    GroupStatus.ERR: "error",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One thing told about one incident."""

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

    @property
    def closing(self) -> bool:
        return self.event is Tell.CLOSE

    def as_json(self) -> dict[str, Any]:
        """What stands in a webhook's body; plain JSON."""
        return {
            "key": self.key,
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
            "verdict": self.verdict,
            "thread": self.thread,
            "thread_open": self.thread_open,
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
    deadline_ms: int = 0
    last_error: str = field(default="", compare=False)

    @property
    def closing(self) -> bool:
        """Does it tell of ends?"""
        return self.notices[0].closing

    @property
    def severity(self) -> Level:
        """The worst of its notices."""
        return "error" if any(one.severity == "error" for one in self.notices) else "warning"

    @property
    def subject(self) -> str:
        """One line: `ERROR billing on prod: stopped, 1,204 messages behind`."""
        if len(self.notices) == 1:
            return headline(self.notices[0])
        word = "OK again" if self.closing else self.severity.upper()
        clusters = sorted({one.cluster for one in self.notices})
        return f"{word}: {len(self.notices)} consumer groups on {', '.join(clusters)}"

    def as_json(self) -> dict[str, Any]:
        """The documented body of a webhook."""
        return {
            "version": 1,
            "id": self.id,
            "channel": self.channel,
            "event": "close" if self.closing else "open",
            "severity": self.severity,
            "at_ms": self.at_ms,
            "subject": self.subject,
            "notices": [one.as_json() for one in self.notices],
        }


def level(status: GroupStatus) -> Level:
    """The word for a severity."""
    return _LEVELS[status]


def headline(notice: Notice) -> str:
    """One line about one notice."""
    verdict = notice.verdict
    name = f"{notice.group} on {notice.cluster}"
    if notice.closing:
        return f"OK again: {name}, after {duration((notice.at_ms - notice.since_ms) / 1000)}"
    words = {Tell.REMIND: "still ", Tell.ESCALATE: "now ", Tell.DE_ESCALATE: "only "}
    rule = str(verdict.get("rule") or "").replace("_", " ")
    lag = verdict.get("total_lag")
    behind = f"{lag:,} messages behind" if isinstance(lag, int) else "lag unknown"
    parts = [part for part in (rule, behind) if part]
    return f"{words.get(notice.event, '')}{notice.severity.upper()}: {name}: {', '.join(parts)}"


def duration(seconds: float) -> str:
    """`1d 2h`, `3h 4m`, `5m 6s`, `7s`."""
    whole = max(0, round(seconds))
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    shown = []
    for unit, size in units:
        count, whole = divmod(whole, size)
        if count:
            shown.append(f"{count}{unit}")
    return " ".join(shown[:2]) or "0s"


def instant(at_ms: float) -> str:
    """`2027-01-31 22:00:00Z`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def verdict_json(verdict: GroupVerdict) -> dict[str, Any]:
    """The verdict as receivers and templates get it; what is not known is null."""
    worst = sorted(
        verdict.partitions,
        key=lambda one: (-one.status % 7, -(one.current_lag or 0), one.topic, one.partition),
    )
    nothing_known = verdict.unknown_partitions > 0 and verdict.max_lag is None
    return {
        "cluster": verdict.cluster,
        "group": verdict.group,
        "at_ms": verdict.at_ms,
        "status": verdict.status.name,
        "rule": verdict.rule.word if verdict.rule is not None else None,
        "complete": round(verdict.complete, 4),
        "partition_count": verdict.partition_count,
        "total_lag": None if nothing_known else verdict.total_lag,
        "unknown_partitions": verdict.unknown_partitions,
        "time_lag_s": verdict.time_lag_s,
        "time_lag_reason": verdict.time_lag_reason.word,
        "owners": sorted({one.owner for one in verdict.partitions if one.owner}),
        "max_lag": None if verdict.max_lag is None else _partition(verdict.max_lag),
        "partitions": [_partition(one) for one in worst[:WORST_PARTITIONS]],
        "partitions_left_out": max(0, len(worst) - WORST_PARTITIONS),
    }


def _partition(verdict: PartitionVerdict) -> dict[str, Any]:
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "status": verdict.status.name,
        "rule": verdict.rule.word,
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
