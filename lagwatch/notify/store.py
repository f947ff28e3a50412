"""Incidents and mutes, kept: a transition and the notices it causes are one transaction."""

import sqlite3
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from lagwatch.core.incident import Decision, Incident, Reason, State, Tell, told_to
from lagwatch.core.model import EpochMs, GroupStatus
from lagwatch.notify.database import Database
from lagwatch.notify.notice import Json, Notice, level


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A group's state that outlives the process, and the incident it belongs to."""

    cluster: str
    group: str
    incident: str
    """Id of the open incident; "" when only the pause after a close is left."""
    policy: str
    complete: float
    """Share of full windows when the group was last seen bad."""
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A channel as the store needs to know it."""

    channel: str
    threshold: GroupStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One decision that is not silent, and all that is to be kept of it."""

    incident: str
    cluster: str
    group: str
    policy: str
    before: State
    after: State
    decision: Decision
    complete: float
    verdict: Json
    notice: Notice | None
    """What is told; its key and event are filled in per channel."""
    listeners: tuple[Listener, ...]
    """Channels of the policy."""
    as_burrow: bool
    """Tell everybody everything, as Burrow does."""


def new_incident() -> str:
    """An id that nobody else has."""
    return uuid.uuid4().hex


class IncidentStore:
    """Writes what the watch decides."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kept(self, now_ms: int) -> Iterable[Kept]:
        """What a new process must know: open incidents, and pauses that are not over."""
        rows = self._database.connection.execute(
            "SELECT * FROM incidents WHERE closed_ms IS NULL OR quiet_until_ms > ?"
            " ORDER BY opened_ms, closed_ms IS NULL",
            (now_ms,),
        )
        return [_kept(row) for row in rows.fetchall()]

    def record(self, changes: Sequence[Change], now_ms: int) -> int:
        """Keep them all or none; returns how many notices were made."""
        with self._database.transaction() as connection:
            return sum(self._record(connection, change, now_ms) for change in changes)

    def prune(self, before_ms: int) -> None:
        """Forget incidents closed, and messages ended, before the instant."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM incidents WHERE closed_ms < ?1 AND NOT EXISTS (SELECT 1 FROM notices n"
                " LEFT JOIN messages m ON m.id = n.message WHERE n.incident = incidents.id"
                " AND (m.id IS NULL OR m.state = 'queued'))",
                (before_ms,),
            )
            connection.execute(
                "DELETE FROM messages WHERE ended_ms < ? AND NOT EXISTS"
                " (SELECT 1 FROM notices WHERE notices.message = messages.id)",
                (before_ms,),
            )
            connection.execute("DELETE FROM mutes WHERE ends_ms < ?", (before_ms,))

    def _record(self, connection: sqlite3.Connection, change: Change, now_ms: int) -> int:
        self._upsert(connection, change, now_ms)
        decision = change.decision
        severity = _severity(change)
        cursor = connection.execute(
            "INSERT INTO transitions (incident, at_ms, act, tell, severity, reason)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(change.incident, now_ms, decision.act.value, decision.tell.value),
                *(int(severity), decision.reason.value),
            ),
        )
        if change.notice is None or decision.tell is Tell.NOTHING:
            return 0
        return self._tell(connection, change, change.notice, severity, cursor.lastrowid or 0)

    def _upsert(self, connection: sqlite3.Connection, change: Change, now_ms: int) -> None:
        incident = change.after.incident or change.before.incident
        if incident is None:  # it opened and closed in one decision: that does not happen
            raise ValueError(change.incident)
        is_open = change.after.incident is not None
        connection.execute(
            "INSERT INTO incidents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET policy = excluded.policy,"
            " severity = excluded.severity, closed_ms = excluded.closed_ms, told = excluded.told,"
            " told_ms = excluded.told_ms, held_back = excluded.held_back,"
            " quiet_until_ms = excluded.quiet_until_ms, complete = excluded.complete,"
            " verdict = excluded.verdict",
            (
                *(change.incident, change.cluster, change.group, change.policy),
                *(int(incident.severity), incident.since_ms, incident.opened_ms),
                None if is_open else now_ms,
                None if incident.told is None else int(incident.told),
                incident.told_ms,
                None if change.after.held_back is None else change.after.held_back.value,
                *(
                    change.after.quiet_until_ms,
                    change.complete,
                    orjson.dumps(change.verdict).decode(),
                ),
            ),
        )

    def _tell(
        self,
        connection: sqlite3.Connection,
        change: Change,
        notice: Notice,
        severity: GroupStatus,
        number: int,
    ) -> int:
        """Put the notice into the queue of every channel that is to hear of it."""
        knowing = self._knowing(connection, change.incident)
        thresholds = {one.channel: one.threshold for one in change.listeners}
        if change.decision.tell is Tell.CLOSE:
            # those told under another policy are told of the end, too
            channels = [*thresholds, *(knowing - thresholds.keys())]
        else:
            channels = [*thresholds]
        made = 0
        for channel in channels:
            event = change.decision.tell
            if not change.as_burrow:
                event = told_to(
                    event,
                    severity,
                    thresholds.get(channel, GroupStatus.OK),
                    knows=channel in knowing,
                )
            if event is Tell.NOTHING:
                continue
            told = replace(notice, key=f"{change.incident}.{number}.{channel}", event=event)
            connection.execute(
                "INSERT INTO notices (key, incident, channel, event, severity, at_ms, payload)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    *(told.key, change.incident, channel, event.value, told.severity),
                    *(told.at_ms, payload(told)),
                ),
            )
            made += 1
        return made

    def _knowing(self, connection: sqlite3.Connection, incident: str) -> set[str]:
        """Channels told of the incident; those that refused to hear of it know nothing."""
        rows = connection.execute(
            "SELECT DISTINCT n.channel FROM notices n LEFT JOIN messages m ON m.id = n.message"
            " WHERE n.incident = ? AND n.event = 'open' AND coalesce(m.state, '') <> 'dead'",
            (incident,),
        )
        return {row[0] for row in rows}


def payload(notice: Notice) -> str:
    """The notice as it is kept."""
    document = notice.as_json() | {"curve": notice.curve, "curve_of": notice.curve_of}
    return orjson.dumps(document).decode()


def from_payload(text: str) -> Notice:
    """The notice that `payload` wrote."""
    document = orjson.loads(text)
    curve = tuple((int(at_ms), int(lag)) for at_ms, lag in document.pop("curve"))
    event = Tell(document.pop("event"))
    return Notice(**document, event=event, curve=curve)


def _severity(change: Change) -> GroupStatus:
    incident = change.after.incident or change.before.incident
    return incident.severity if incident is not None else GroupStatus.OK


def _kept(row: sqlite3.Row) -> Kept:
    if row["closed_ms"] is not None:
        state = State(
            quiet_until_ms=EpochMs(row["quiet_until_ms"]),
            quiet_told=None if row["told"] is None else GroupStatus(row["told"]),
        )
    else:
        incident = Incident(
            since_ms=EpochMs(row["since_ms"]),
            opened_ms=EpochMs(row["opened_ms"]),
            severity=GroupStatus(row["severity"]),
            told=None if row["told"] is None else GroupStatus(row["told"]),
            told_ms=None if row["told_ms"] is None else EpochMs(row["told_ms"]),
        )
        state = State(
            incident=incident,
            held_back=None if row["held_back"] is None else Reason(row["held_back"]),
            quiet_until_ms=_instant(row["quiet_until_ms"]),
        )
    return Kept(
        cluster=row["cluster"],
        group=row["name"],
        incident="" if row["closed_ms"] is not None else row["id"],
        policy=row["policy"],
        complete=row["complete"],
        state=state,
    )


def _instant(value: int | None) -> EpochMs | None:
    return None if value is None else EpochMs(value)


__all__ = [
    "Change",
    "IncidentStore",
    "Kept",
    "Listener",
    "from_payload",
    "level",
    "new_incident",
    "payload",
]
