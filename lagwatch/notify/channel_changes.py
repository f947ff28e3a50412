"""Channels that come, go and return with the configuration: which news they get, which not."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import orjson

from lagwatch.core.incident import Act, NoticeEvent, Policy, Reason, channel_event
from lagwatch.core.model import GroupStatus
from lagwatch.errors import InputError
from lagwatch.notify.database import Database
from lagwatch.notify.notice import About, Notice, level, unpack
from lagwatch.notify.policies import PolicyBook
from lagwatch.notify.store import WAITING_AGAIN, Listener, add_payload
from lagwatch.notify.verdict import nothing_known

_UNHEARD_ENDS: Final = (
    "SELECT n.number AS notice, t.number AS step, t.reason, i.* FROM notices n"
    " JOIN incidents i ON i.number = n.incident"
    " JOIN transitions t ON t.incident = i.number AND t.act = ?2 AND t.tell = ?3"
    " WHERE n.channel = ?1 AND n.heard IS NOT NULL AND n.event <> ?3 AND n.state = 'delivered'"
    " AND i.closed_ms IS NOT NULL"
)
"""Incidents that a channel has received, and that ended while it was not configured."""

_OPEN: Final = (
    "SELECT i.*, (SELECT max(t.number) FROM transitions t WHERE t.incident = i.number)"
    " AS step, (SELECT json_group_array(n.channel) FROM notices n WHERE n.incident = i.number)"
    " AS have FROM incidents i JOIN payloads p ON p.number = i.payload"
    " WHERE i.closed_ms IS NULL AND i.told IS NOT NULL AND i.about <> ?2"
    " AND EXISTS (SELECT 1 FROM json_each(?1) c WHERE c.value NOT IN"
    "  (SELECT n.channel FROM notices n WHERE n.incident = i.number))"
)
"""Open incidents that are not about a group, were sent, and not to every one of the channels."""

_CHANGED: Final = (
    "SELECT i.*, p.body, n.number AS notice, n.channel, n.heard, last.number AS step,"
    " last.reason AS why, i.severity < was.severity AS eased FROM notices n"
    " JOIN incidents i ON i.number = n.incident JOIN payloads p ON p.number = i.payload"
    # what the notice says, and the last change that was sent since then
    " JOIN transitions was ON was.incident = i.number AND was.number = n.step"
    " JOIN transitions last ON last.incident = i.number AND last.number = (SELECT max(t.number)"
    "  FROM transitions t WHERE t.incident = i.number AND t.tell IN (?2, ?3))"
    " WHERE n.channel IN (SELECT value FROM json_each(?1)) AND i.closed_ms IS NULL"
    # what is not sent yet comes to the channel with the others
    " AND i.told = i.severity AND last.number > n.step"
    " AND (i.severity <> was.severity OR last.reason NOT IN (?4, ?5))"
)
"""Open incidents of which channels have other news than that they are so bad now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelChanges:
    """What a new set of channels has changed."""

    opened: int
    """Notices made of open incidents, for channels that lack them or what they are now."""
    ended: int
    """Notices made of ends, for channels that have come back."""
    removed: Mapping[str, int]
    """Channel that is not configured any more → open incidents that it has received."""


class ConfiguredChannels:
    """Remembers which channels were configured before."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def use(
        self,
        listeners: Mapping[str, Listener],
        book: PolicyBook,
        fallback: Collection[str],
        complete: Callable[[Notice], Notice],
    ) -> ChannelChanges:
        """Queue open incidents for channels that are to have them now, and ends that were missed.

        New channels hear of groups at the next look at them, of what is true then. An incident
        belongs to the policy that its group has in `book`. Channels in `fallback` are notified
        when another channel does not deliver. `complete` adds to a notice what the configuration
        says.
        """
        greeting = _Greeting(listeners, book, fallback, complete)

        def work(connection: sqlite3.Connection) -> ChannelChanges:
            known = {row["name"] for row in connection.execute("SELECT name FROM channels")}
            opened = greeting.queue(connection)
            opened += greeting.renew(connection, listeners.keys() - known)
            ended = sum(_tell_ends(connection, name, complete) for name in listeners.keys() - known)
            removed = known - listeners.keys()
            connection.executemany(
                "INSERT OR IGNORE INTO channels VALUES (?, '')", [(name,) for name in listeners]
            )
            connection.executemany("DELETE FROM channels WHERE name = ?", [(n,) for n in removed])
            open_there = {name: _open_incidents(connection, name) for name in sorted(removed)}
            return ChannelChanges(opened=opened, ended=ended, removed=open_there)

        return self._database.write(work)


class _Greeting:
    """Open incidents for channels that lack them, or what they have become."""

    def __init__(
        self,
        listeners: Mapping[str, Listener],
        book: PolicyBook,
        fallback: Collection[str],
        complete: Callable[[Notice], Notice],
    ) -> None:
        self._listeners = listeners
        self._book = book
        self._fallback = fallback
        self._complete = complete

    def queue(self, connection: sqlite3.Connection) -> int:
        """Queue them; returns the number of notices."""
        rows = connection.execute(
            _OPEN, (orjson.dumps([*self._listeners]).decode(), About.GROUP.value)
        ).fetchall()
        return sum(self._greet(connection, row) for row in rows)

    def _greet(self, connection: sqlite3.Connection, row: sqlite3.Row) -> int:
        have = set(json.loads(row["have"]))
        missing = [
            listener.channel
            for listener in self._recipients(row, None)
            if listener.channel not in have and row["severity"] >= listener.threshold
        ]
        connection.executemany(
            "INSERT INTO notices (incident, channel, step, event, severity, reason, at_ms,"
            " state, payload) VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting', ?)",
            [
                (
                    *(row["number"], channel, row["step"], NoticeEvent.OPEN.value),
                    *(level(GroupStatus(row["severity"])), Reason.NEW_CHANNEL.value),
                    *(row["told_ms"], row["payload"]),
                )
                for channel in missing
            ],
        )
        return len(missing)

    def renew(self, connection: sqlite3.Connection, back: Collection[str]) -> int:
        """Queue what has become of incidents that channels have, for those that are `back`.

        They were not configured meanwhile. Returns the number of notices.
        """
        changes = (NoticeEvent.ESCALATE.value, NoticeEvent.DE_ESCALATE.value)
        severity_only = (Reason.ESCALATED.value, Reason.DE_ESCALATED.value)
        rows = connection.execute(
            _CHANGED, (orjson.dumps([*back]).decode(), *changes, *severity_only)
        ).fetchall()
        return sum(self._renew(connection, row) for row in rows)

    def _renew(self, connection: sqlite3.Connection, row: sqlite3.Row) -> int:
        notice = _unpacked(row["body"])
        policy = self._policy(row, notice)
        if row["channel"] not in (each.channel for each in self._recipients(row, policy)):
            return 0
        threshold = self._listeners[row["channel"]].threshold
        change = NoticeEvent.DE_ESCALATE if row["eased"] else NoticeEvent.ESCALATE
        event = channel_event(change, GroupStatus(row["severity"]), threshold, knows=True)
        if event is NoticeEvent.NOTHING:
            return 0
        payload = row["payload"]
        if notice is not None:
            # the payload may be a reminder's, which says nothing of a change
            notice = replace(
                notice, reason=row["why"], policy=policy.name if policy else notice.policy
            )
            payload = add_payload(connection, self._complete(notice))
        connection.execute(
            "UPDATE notices SET step = ?, event = ?, severity = ?, reason = ?, at_ms = ?,"  # noqa: S608 fixed
            f" payload = ?, {WAITING_AGAIN} WHERE number = ?",
            (
                *(row["step"], (event if row["heard"] else NoticeEvent.OPEN).value),
                *(level(GroupStatus(row["severity"])), row["why"], row["told_ms"]),
                *(payload, row["notice"]),
            ),
        )
        return 1

    def _policy(self, row: sqlite3.Row, notice: Notice | None) -> Policy | None:
        """The policy that its group has now.

        None: it has none, or one without limits where the incident is that of a limit, or it is not
        about a group.
        """
        if row["about"] != About.GROUP:
            return None
        partitions = () if notice is None else notice.verdict.get("partitions", ())
        topics = [str(partition["topic"]) for partition in partitions]
        policy = self._book.of_incident(row["cluster"], row["name"], topics, row["policy"])
        missed = notice is not None and notice.verdict.get("objective")
        return None if missed and policy and policy.name not in self._book.objectives else policy

    def _recipients(self, row: sqlite3.Row, policy: Policy | None) -> Iterator[Listener]:
        """Channels that would receive the incident if it opened now."""
        if row["about"] != About.GROUP:
            # that another channel does not deliver is news for the fallback alone
            of_channel = row["about"] == About.CHANNEL
            chosen = [
                channel
                for channel in self._listeners
                if not of_channel or (channel in self._fallback and channel != row["name"])
            ]
        elif policy is None or row["severity"] < policy.threshold:
            return
        else:
            further = policy.escalate_to if row["handed_on"] else ()
            chosen = [*dict.fromkeys([*policy.channels, *further])]
        yield from (self._listeners[channel] for channel in chosen if channel in self._listeners)


def _unpacked(body: bytes) -> Notice | None:
    try:
        return unpack(body)
    except InputError:  # its delivery names it
        return None


def _tell_ends(
    connection: sqlite3.Connection, channel: str, complete: Callable[[Notice], Notice]
) -> int:
    """Queue the ends of incidents that the channel has received before it was removed."""
    rows = connection.execute(
        _UNHEARD_ENDS, (channel, Act.CLOSE.value, NoticeEvent.CLOSE.value)
    ).fetchall()
    for row in rows:
        payload = add_payload(connection, complete(_end(row)))
        connection.execute(
            "UPDATE notices SET step = ?, event = ?, reason = ?, at_ms = ?, payload = ?,"  # noqa: S608 fixed
            f" {WAITING_AGAIN} WHERE number = ?",
            (
                *(row["step"], NoticeEvent.CLOSE.value, row["reason"], row["closed_ms"]),
                *(payload, row["notice"]),
            ),
        )
    return len(rows)


def _end(row: sqlite3.Row) -> Notice:
    """The end of an incident, of which only the main figures are kept."""
    kept = json.loads(row["summary"])
    return Notice(
        key="",
        incident=row["id"],
        event=NoticeEvent.CLOSE,
        about=About(row["about"]),
        cluster=row["cluster"],
        group=row["name"],
        severity=level(GroupStatus(row["severity"])),
        reason=row["reason"],
        policy=row["policy"],
        since_ms=row["error_ms"] or row["since_ms"],
        trouble_ms=row["since_ms"],
        since_at_least=bool(row["since_at_least"]) and not row["error_ms"],
        opened_ms=row["opened_ms"],
        at_ms=row["closed_ms"],
        url="",
        verdict=nothing_known(row["cluster"], row["name"], row["closed_ms"]) | kept,
    )


def _open_incidents(connection: sqlite3.Connection, channel: str) -> int:
    """How many incidents are open that a channel has received."""
    row = connection.execute(
        "SELECT count(*) FROM incidents i JOIN notices n ON n.incident = i.number"
        " WHERE i.closed_ms IS NULL AND n.channel = ? AND n.heard IS NOT NULL",
        (channel,),
    ).fetchone()
    return int(row[0])
