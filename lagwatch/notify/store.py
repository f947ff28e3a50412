"""Stores incidents: a transition and the notices it causes are one transaction."""

import sqlite3
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson
import structlog

from lagwatch.core.departure import LastSeen
from lagwatch.core.incident import (
    Act,
    Decision,
    Incident,
    NoticeEvent,
    Reason,
    State,
    channel_event,
)
from lagwatch.core.model import UNKNOWN, EpochMs, GroupStatus, PartitionStatus
from lagwatch.core.trouble import kind_words, kinds_of
from lagwatch.errors import InputError
from lagwatch.notify.database import Database
from lagwatch.notify.notice import (
    NOT_READABLE,
    About,
    Json,
    Level,
    Notice,
    checked_ms,
    level,
    pack,
    unpack,
)
from lagwatch.notify.observed import IS_BAD
from lagwatch.notify.verdict import nothing_known

SUMMARY: Final = (
    *("status", "rule", "total_lag", "time_lag_s", "partition_count", "unknown_partitions"),
    "ended_ms",
)

WAITING_ANEW: Final = (
    "state = 'waiting', message = NULL, attempts = 0, tried_ms = 0, ended_ms = NULL"
)
"""What makes a notice wait as if it had never been tried; `last_error` is set beside it."""
WAITING_AGAIN: Final = (
    f"{WAITING_ANEW}, last_error = coalesce(nullif((SELECT m.last_error FROM messages m"  # noqa: S608 fixed
    "  WHERE m.id = notices.message), ''), last_error)"
)
"""`WAITING_ANEW`, but keeps why it failed until something of its incident is delivered."""

_BAD: Final = {status.name for status in PartitionStatus if IS_BAD[status]}
_ABOUT: Final = {about.value: about for about in About}

_log = structlog.get_logger()


LastBad = Mapping[tuple[str, int], int]
"""When each partition of a group, by topic and number, was last seen bad, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What a notice says of a partition."""

    at_ms: int
    """When it was made."""
    log_end: int
    """-1 unknown."""
    bad: bool = True
    """False: a limit is missed, and nothing is wrong with the partition itself."""


class Marks(NamedTuple):
    """Instants of an open incident."""

    held_ms: int | None = None
    """Since when its group is good, if a mute holds its end back."""
    again_ms: int | None = None
    """When its trouble began again."""
    good_ms: int | None = None
    """Since when its group is good."""


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
    about: About = About.GROUP
    last: LastSeen | None = None
    """The last signs of life of the group that are kept."""
    bad: LastBad = field(default_factory=dict)
    named: Mapping[tuple[str, int], Named] = field(default_factory=dict)
    """Partitions that its last notice names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A channel and the severity from which it gets notices."""

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
    notice: Notice
    """The incident as it is now; its key and event are filled in for each channel."""
    listeners: tuple[Listener, ...]
    """Channels of the policy."""
    as_burrow: bool
    """Send everything to every channel, as Burrow does."""
    about: About = About.GROUP
    last: LastSeen | None = None
    """The last signs of life of the group."""


def new_id() -> str:
    """A random id of 64 bits: rows of incidents hold two of them, and there may be many."""
    return uuid.uuid4().hex[:16]


class IncidentStore:
    """Writes what the watch decides."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._not_readable: list[tuple[sqlite3.Row, str]] = []
        """Open incidents that `kept` could not read, and why."""

    def kept(self, now_ms: int) -> Iterable[Kept]:
        """State for a new process: open incidents, and pauses that are not over.

        A row that cannot be read is named in the log and left out; the others are used. Call
        `end_not_readable` afterwards: no other decision will end such an incident.
        """
        rows = self._database.connection.execute(
            "SELECT i.*, p.body AS body, EXISTS (SELECT 1 FROM transitions t"
            "  WHERE t.incident = i.number AND t.act = ?) AS eased"
            " FROM incidents i LEFT JOIN payloads p ON p.number = i.payload"
            " WHERE closed_ms IS NULL OR quiet_until_ms > ?"
            " ORDER BY opened_ms, closed_ms IS NULL",
            (Act.DE_ESCALATE.value, now_ms),
        )
        found = []
        for row in rows.fetchall():
            try:
                found.append(_kept(row))
            except (ValueError, TypeError, KeyError) as error:
                log_not_readable(row, error)
                if row["closed_ms"] is None:
                    self._not_readable.append((row, str(error)))
        return found

    def heard(self) -> Mapping[str, frozenset[str]]:
        """Channels that notices of each open incident were for."""
        rows = self._database.connection.execute(
            "SELECT i.id, n.channel FROM notices n JOIN incidents i ON i.number = n.incident"
            " WHERE i.closed_ms IS NULL"
        )
        found: dict[str, set[str]] = {}
        for row in rows:
            found.setdefault(row["id"], set()).add(row["channel"])
        return {incident: frozenset(channels) for incident, channels in found.items()}

    def end_not_readable(
        self, now_ms: int, complete: Callable[[Notice], Notice]
    ) -> tuple[tuple[str, str], ...]:
        """End the open incidents that could not be read; returns their clusters and groups.

        Channels that may have heard of one receive its end, or they would keep it open for ever. A
        group that is still in trouble opens another. `complete` adds to a notice what the
        configuration says.
        """
        ended, self._not_readable = self._not_readable, []

        def work(connection: sqlite3.Connection) -> None:
            for row, reason in ended:
                _end_not_readable(connection, row, reason, now_ms, complete)
            drop_unused_payloads(connection)

        if ended:
            self._database.write(work)
        return tuple((row["cluster"], row["name"]) for row, _ in ended)

    def last_owner(self, incident: str) -> str:
        """The last member of the group that notices of an open incident have named; ""."""
        row = self._database.connection.execute(
            "SELECT p.body FROM incidents i JOIN payloads p ON p.number = i.payload WHERE i.id = ?",
            (incident,),
        ).fetchone()
        try:
            return "" if row is None else str(unpack(row["body"]).verdict.get("last_owner") or "")
        except InputError:
            return ""

    def record(self, changes: Sequence[Change], now_ms: int) -> int:
        """Store all changes or none; returns the number of notices."""

        def work(connection: sqlite3.Connection) -> int:
            # payloads that this replaces go with the next delivery, or when old incidents do
            return sum(_Recording(connection, change, now_ms).made for change in changes)

        return self._database.write(work)

    def mark(self, marks: Mapping[str, Marks]) -> None:
        """Store the marks of open incidents, which no decision changes.

        Without them a restart would say that the group has only just recovered, and a group that
        was well in between would be in trouble since before.
        """
        self._database.write(
            lambda connection: connection.executemany(
                "UPDATE incidents SET held_ms = ?, again_ms = ?, good_ms = ?"
                " WHERE id = ? AND closed_ms IS NULL",
                [(*each, incident) for incident, each in marks.items()],
            )
        )

    def keep_bad(self, bad: Mapping[str, LastBad]) -> None:
        """Store by open incident when the partitions of its group were last seen bad."""
        rows = [(_packed_bad(each), incident) for incident, each in bad.items()]
        self._database.write(
            lambda connection: connection.executemany(
                "UPDATE incidents SET bad = ? WHERE id = ? AND closed_ms IS NULL", rows
            )
        )

    def prune(self, before_ms: int) -> None:
        """Forget incidents closed before the instant, unless a notice of them is not delivered."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "DELETE FROM incidents WHERE closed_ms IS NOT NULL AND closed_ms < ?1"
                " AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.incident = incidents.number"
                "  AND n.state IN ('waiting', 'queued'))",
                (before_ms,),
            )
            connection.execute("DELETE FROM mutes WHERE ends_ms < ?", (before_ms,))
            drop_unused_payloads(connection)

        self._database.write(work)


def add_payload(connection: sqlite3.Connection, notice: Notice) -> int | None:
    """Store what a notice says; returns its number."""
    return connection.execute(
        "INSERT INTO payloads (size, body) VALUES (?, ?)", pack(notice)
    ).lastrowid


def drop_unused_payloads(connection: sqlite3.Connection) -> None:
    """Delete payloads that neither an open incident nor an undelivered notice needs."""
    connection.execute(
        "DELETE FROM payloads WHERE number NOT IN ("
        " SELECT payload FROM notices WHERE payload IS NOT NULL"
        " UNION SELECT payload FROM contents WHERE payload IS NOT NULL"
        " UNION SELECT payload FROM incidents WHERE closed_ms IS NULL AND payload IS NOT NULL)"
    )


class _Recording:
    """One change being written: the incident, the transition, and a notice for each channel."""

    def __init__(self, connection: sqlite3.Connection, change: Change, now_ms: int) -> None:
        self._connection = connection
        self._change = change
        self._now_ms = now_ms
        self._severity = _severity(change)
        self._incident, payload = self._upsert()
        step = self._transition()
        self.made = 0
        if change.decision.event is not NoticeEvent.NOTHING:
            self.made = self._notices(step, payload)

    def _upsert(self) -> tuple[int, int]:
        """Write the incident and its payload; returns the number of each."""
        change = self._change
        incident = change.after.incident or change.before.incident
        if incident is None:  # no decision both opens and closes an incident
            raise ValueError(change.incident)
        is_open = change.after.incident is not None
        payload = add_payload(self._connection, change.notice)
        row = self._connection.execute(
            "INSERT INTO incidents"
            " (id, about, cluster, name, policy, severity, since_ms, opened_ms,"
            " closed_ms, told, told_ms, held_back, quiet_until_ms, complete, summary, payload,"
            " handed_on, named, since_at_least, commit_ms, alive_ms, lost, error_ms, worse_ms,"
            " again_ms)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET policy = excluded.policy,"
            # they change when the clock is set back
            " since_ms = excluded.since_ms, opened_ms = excluded.opened_ms,"
            " since_at_least = excluded.since_at_least,"
            " severity = excluded.severity, closed_ms = excluded.closed_ms, told = excluded.told,"
            " told_ms = excluded.told_ms, held_back = excluded.held_back,"
            " quiet_until_ms = excluded.quiet_until_ms, complete = excluded.complete,"
            " summary = excluded.summary, payload = excluded.payload,"
            " handed_on = excluded.handed_on, named = excluded.named,"
            " commit_ms = excluded.commit_ms, alive_ms = excluded.alive_ms, lost = excluded.lost,"
            " error_ms = excluded.error_ms, worse_ms = excluded.worse_ms,"
            " again_ms = excluded.again_ms,"
            " bad = CASE WHEN excluded.closed_ms IS NULL THEN bad END RETURNING number",
            (
                *(change.incident, change.about.value, change.cluster, change.group),
                change.policy,
                *(int(incident.severity), incident.since_ms, incident.opened_ms),
                None if is_open else self._now_ms,
                None if incident.notified is None else int(incident.notified),
                incident.notified_ms,
                None if change.after.held_back is None else change.after.held_back.value,
                *(change.after.quiet_until_ms, change.complete, _summary(change.notice.verdict)),
                payload if is_open else None,
                incident.handed_on,
                None if incident.named is None else " ".join(kind_words(incident.named)),
                incident.since_at_least,
                *(
                    (None, None)
                    if (last := change.last) is None
                    else (last.commit_ms, last.alive_ms)
                ),
                *(incident.lost, incident.error_ms, incident.worse_ms, incident.again_ms),
            ),
        ).fetchone()
        return int(row[0]), int(payload or 0)

    def _transition(self) -> int:
        """Write it; returns its number within the incident."""
        decision = self._change.decision
        row = self._connection.execute(
            "INSERT INTO transitions SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6"
            " FROM transitions WHERE incident = ?1 RETURNING number",
            (
                *(self._incident, self._now_ms, decision.act.value, decision.event.value),
                *(int(self._severity), decision.reason.value),
            ),
        ).fetchone()
        return int(row[0])

    def _notices(self, step: int, payload: int) -> int:
        """Put the news into the queue of every channel that is to receive it."""
        known = {
            row["channel"]: row
            for row in self._connection.execute(
                "SELECT channel, event, heard, state,"
                " EXISTS (SELECT 1 FROM channels c WHERE c.name = channel) AS configured"
                " FROM notices WHERE incident = ?",
                (self._incident,),
            )
        }
        event = self._change.decision.event
        thresholds = {listener.channel: listener.threshold for listener in self._change.listeners}
        # those that received it under another policy receive the end, too; a channel that is no
        # longer configured does only if older news waits for it
        others = [
            channel
            for channel, row in known.items()
            if event is NoticeEvent.CLOSE
            and channel not in thresholds
            and (row["configured"] or row["state"] != "delivered")
        ]
        made = 0
        for channel in (*thresholds, *others):
            event = self._event(thresholds.get(channel, GroupStatus.OK), known.get(channel))
            if event is not NoticeEvent.NOTHING:
                self._queue(channel, event, step, payload)
                made += 1
        return made

    def _event(self, threshold: GroupStatus, known: sqlite3.Row | None) -> NoticeEvent:
        """The event for a channel, which may have missed earlier ones."""
        event = self._change.decision.event
        if not self._change.as_burrow:
            event = channel_event(event, self._severity, threshold, knows=known is not None)
        overtaken = known is not None and known["heard"] is None and known["state"] != "queued"
        if overtaken and event not in (NoticeEvent.NOTHING, NoticeEvent.CLOSE):
            return NoticeEvent.OPEN  # the opening itself has not been received yet
        return event

    def _queue(self, channel: str, event: NoticeEvent, step: int, payload: int) -> None:
        """Newer news of an incident replaces older news that still waits."""
        notice = self._change.notice
        self._connection.execute(
            "INSERT INTO notices (incident, channel, step, event, severity, reason, at_ms, state,"  # noqa: S608 fixed
            " payload) VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)"
            " ON CONFLICT (incident, channel) DO UPDATE SET step = excluded.step,"
            " event = excluded.event, severity = excluded.severity, reason = CASE"
            # a channel that the incident is handed on to reads that first, whatever came since
            "  WHEN heard IS NULL AND reason = ? AND excluded.event <> 'close' THEN reason"
            "  ELSE excluded.reason END,"
            f" at_ms = excluded.at_ms, payload = excluded.payload, {WAITING_AGAIN}",
            (
                *(self._incident, channel, step, event.value, notice.severity, notice.reason),
                *(notice.at_ms, payload, Reason.HANDED_ON.value),
            ),
        )


def _summary(verdict: Json) -> str:
    """What a closed incident keeps of its verdict; what is not known is left out."""
    known = {name: verdict[name] for name in SUMMARY if verdict.get(name) is not None}
    return orjson.dumps(known).decode()


def _severity(change: Change) -> GroupStatus:
    incident = change.after.incident or change.before.incident
    return incident.severity if incident is not None else GroupStatus.OK


def log_not_readable(row: sqlite3.Row, error: Exception, **more: str) -> None:
    """Name an incident in the log whose row cannot be read."""
    _log.error(
        "incident_not_readable",
        incident=row["id"],
        cluster=row["cluster"],
        group=row["name"],
        reason=str(error),
        **more,
    )


def _end_not_readable(
    connection: sqlite3.Connection,
    row: sqlite3.Row,
    reason: str,
    now_ms: int,
    complete: Callable[[Notice], Notice],
) -> None:
    """Write what can be used of the incident, and its end; put the end into the queues."""
    notice = complete(_end_of(row, now_ms))
    number = row["number"]
    severity = int(GroupStatus.ERR if notice.severity == "error" else GroupStatus.WARN)
    payload = add_payload(connection, notice)
    connection.execute(
        "UPDATE incidents SET about = ?, severity = ?, since_ms = ?, since_at_least = 1,"
        " opened_ms = ?, closed_ms = ?, told = NULL, held_back = NULL, held_ms = NULL,"
        " quiet_until_ms = NULL, summary = '{}', payload = NULL, named = NULL, bad = NULL,"
        " error_ms = NULL, worse_ms = NULL, again_ms = NULL, good_ms = NULL"
        " WHERE number = ?",
        (
            *(notice.about.value, severity, notice.since_ms, notice.opened_ms, now_ms),
            number,
        ),
    )
    close = NoticeEvent.CLOSE.value
    (step,) = connection.execute(
        "INSERT INTO transitions SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6"
        " FROM transitions WHERE incident = ?1 RETURNING number",
        (number, now_ms, Act.CLOSE.value, close, severity, NOT_READABLE),
    ).fetchone()
    # of a channel that is not configured the end is made when it comes back
    connection.execute(
        "UPDATE notices SET step = ?, event = ?, severity = ?, reason = ?, at_ms = ?,"  # noqa: S608 fixed
        f" payload = ?, {WAITING_AGAIN} WHERE incident = ?"
        " AND (heard IS NOT NULL OR state = 'queued')"
        " AND (state <> 'delivered' OR channel IN (SELECT name FROM channels))",
        (step, close, notice.severity, NOT_READABLE, now_ms, payload, number),
    )
    connection.execute(
        "UPDATE notices SET state = 'unreadable', message = NULL, payload = NULL, last_error = ?,"
        " ended_ms = ? WHERE incident = ? AND event <> ? AND state IN ('waiting', 'dead')",
        (f"the incident cannot be read: {reason}", now_ms, number, close),
    )


def about_of(row: sqlite3.Row) -> About:
    """What an incident is about; of a row that does not say it, a group."""
    return _ABOUT.get(row["about"], About.GROUP)


def level_of(row: sqlite3.Row) -> Level:
    """Its severity; of a row that does not say it, error."""
    return "warning" if row["severity"] == GroupStatus.WARN else "error"


def _end_of(row: sqlite3.Row, now_ms: int) -> Notice:
    """The end of an incident of which not all can be read."""
    instants = [at_ms for at_ms in (row["since_ms"], row["opened_ms"]) if 0 <= at_ms <= now_ms]
    since_ms = instants[0] if instants else now_ms
    return Notice(
        key="",
        incident=row["id"],
        event=NoticeEvent.CLOSE,
        about=about_of(row),
        cluster=row["cluster"],
        group=row["name"],
        severity=level_of(row),
        reason=NOT_READABLE,
        policy=row["policy"],
        since_ms=since_ms,
        since_at_least=True,
        opened_ms=instants[-1] if instants else now_ms,
        at_ms=now_ms,
        url="",
        verdict=nothing_known(row["cluster"], row["name"], now_ms),
    )


def _kept(row: sqlite3.Row) -> Kept:
    """What is kept of an incident.

    Raises:
        ValueError, TypeError, KeyError: the row cannot be read.
    """
    if row["closed_ms"] is not None:
        state = State(
            quiet_until_ms=EpochMs(row["quiet_until_ms"]),
            last_severity=None if row["told"] is None else GroupStatus(row["told"]),
        )
    else:
        incident = Incident(
            since_ms=EpochMs(checked_ms(row["since_ms"])),
            since_at_least=bool(row["since_at_least"]),
            opened_ms=EpochMs(checked_ms(row["opened_ms"])),
            severity=_severity_of(row),
            error_ms=_instant(row["error_ms"]),
            worse_ms=_instant(row["worse_ms"]),
            again_ms=_instant(row["again_ms"]),
            notified=None if row["told"] is None else GroupStatus(row["told"]),
            notified_ms=_instant(row["told_ms"]),
            handed_on=bool(row["handed_on"]),
            acknowledged=row["acknowledged_ms"] is not None,
            named=None if row["named"] is None else kinds_of(row["named"].split()),
            eased=bool(row["eased"]),
            lost=row["lost"],
        )
        held_ms = _instant(row["held_ms"])
        held_back = None if row["held_back"] is None else Reason(row["held_back"])
        state = State(
            incident=incident,
            good_since_ms=_instant(row["good_ms"]) if held_ms is None else held_ms,
            held_back=held_back if held_ms is None else Reason.HELD_BY_MUTE,
            quiet_until_ms=_instant(row["quiet_until_ms"]),
        )
    named = {} if row["body"] is None else _named(row["body"])
    bad = dict(_bad(row))
    for place, seen in named.items():
        if seen.bad:
            bad[place] = max(seen.at_ms, bad.get(place, 0))
    return Kept(
        cluster=row["cluster"],
        group=row["name"],
        incident="" if row["closed_ms"] is not None else row["id"],
        policy=row["policy"],
        complete=row["complete"],
        state=state,
        about=About(row["about"]),
        last=None
        if row["commit_ms"] is None
        else LastSeen(commit_ms=row["commit_ms"], alive_ms=row["alive_ms"], at_least=True),
        bad=bad,
        named=named,
    )


def _named(body: bytes) -> Mapping[tuple[str, int], Named]:
    """The partitions that a notice names; none if it cannot be read."""
    try:
        notice = unpack(body)
    except InputError:
        return {}
    return {
        (str(each["topic"]), int(each["partition"])): Named(
            at_ms=notice.at_ms, log_end=_log_end(each), bad=each.get("status") in _BAD
        )
        for each in notice.verdict.get("partitions", ())
    }


def _log_end(partition: Json) -> int:
    lag, end = partition.get("current_lag"), partition.get("end")
    return UNKNOWN if lag is None or not end else int(end["offset"]) + int(lag)


def _packed_bad(bad: LastBad) -> bytes:
    rows = [[topic, partition, at_ms] for (topic, partition), at_ms in bad.items()]
    return zlib.compress(orjson.dumps(rows), 1)


def _unpacked_bad(body: bytes) -> LastBad:
    """What was packed.

    Raises:
        ValueError, TypeError: it is damaged.
    """
    try:
        rows = orjson.loads(zlib.decompress(body))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return {(str(topic), int(partition)): int(at_ms) for topic, partition, at_ms in rows}


def _bad(row: sqlite3.Row) -> LastBad:
    """When its partitions were bad; of a row of which that cannot be read nothing is known."""
    try:
        return {} if row["bad"] is None else _unpacked_bad(row["bad"])
    except (ValueError, TypeError) as error:
        log_not_readable(row, error, remedy="when its partitions were bad is not known any more")
        return {}


def _severity_of(row: sqlite3.Row) -> GroupStatus:
    severity = GroupStatus(row["severity"])
    level(severity)
    return severity


def _instant(value: int | None) -> EpochMs | None:
    return None if value is None else EpochMs(checked_ms(value))
