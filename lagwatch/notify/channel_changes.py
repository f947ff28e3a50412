"""Channels that come, go and return with the configuration: which news they get, which not."""

import json
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from lagwatch.core.incident import Act, NoticeEvent
from lagwatch.core.model import GroupStatus
from lagwatch.notify.database import Database
from lagwatch.notify.notice import About, Notice, level, pack
from lagwatch.notify.store import WAITING_AGAIN, Listener
from lagwatch.notify.verdict import nothing_known

_UNHEARD_ENDS: Final = (
    "SELECT n.number AS notice, t.number AS step, t.reason, i.* FROM notices n"
    " JOIN incidents i ON i.number = n.incident"
    " JOIN transitions t ON t.incident = i.number AND t.act = ?2 AND t.tell = ?3"
    " WHERE n.channel = ?1 AND n.heard IS NOT NULL AND n.event <> ?3 AND n.state = 'delivered'"
    " AND i.closed_ms IS NOT NULL"
)
"""Incidents that a channel has received, and that ended while it was not configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelChanges:
    """What a new set of channels has changed."""

    opened: int
    """Notices made of open incidents, for channels that are new."""
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
        policies: Mapping[str, Sequence[str]],
        fallback: Collection[str],
        complete: Callable[[Notice], Notice],
    ) -> ChannelChanges:
        """Queue for new channels every open incident, and ends that they have missed.

        `policies` names the channels of each policy; those in `fallback` are notified when another
        channel does not deliver. `complete` adds to a notice what the configuration says.
        """

        def work(connection: sqlite3.Connection) -> ChannelChanges:
            known = {row["name"] for row in connection.execute("SELECT name FROM channels")}
            opened = ended = 0
            for name in listeners.keys() - known:
                chosen = [policy for policy, channels in policies.items() if name in channels]
                is_fallback = name in fallback
                opened += _greet(connection, listeners[name], chosen, is_fallback=is_fallback)
                ended += _tell_ends(connection, name, complete)
            removed = known - listeners.keys()
            connection.executemany(
                "INSERT OR IGNORE INTO channels VALUES (?, '')", [(name,) for name in listeners]
            )
            connection.executemany("DELETE FROM channels WHERE name = ?", [(n,) for n in removed])
            open_there = {name: _open_incidents(connection, name) for name in sorted(removed)}
            return ChannelChanges(opened=opened, ended=ended, removed=open_there)

        return self._database.write(work)


def _greet(
    connection: sqlite3.Connection,
    listener: Listener,
    policies: Sequence[str],
    *,
    is_fallback: bool,
) -> int:
    """Queue open incidents that other channels have received.

    That another channel does not deliver is news for the fallback alone.
    """
    return connection.execute(
        "INSERT OR IGNORE INTO notices (incident, channel, step, event, severity, reason, at_ms,"
        " state, payload) SELECT i.number, ?1, (SELECT max(t.number) FROM transitions t"
        "  WHERE t.incident = i.number), 'open', CASE i.severity WHEN ?2 THEN 'error' ELSE"
        "  'warning' END, 'new_channel', i.told_ms, 'waiting', i.payload FROM incidents i"
        " WHERE i.closed_ms IS NULL AND i.told IS NOT NULL AND i.payload IS NOT NULL"
        " AND i.severity >= ?3 AND i.policy IN (SELECT value FROM json_each(?4))"
        " AND (i.about <> ?5 OR ?6 AND i.name <> ?1)",
        (
            *(listener.channel, int(GroupStatus.ERR), int(listener.threshold)),
            *(orjson.dumps([*policies]).decode(), About.CHANNEL.value, is_fallback),
        ),
    ).rowcount


def _tell_ends(
    connection: sqlite3.Connection, channel: str, complete: Callable[[Notice], Notice]
) -> int:
    """Queue the ends of incidents that the channel has received before it was removed."""
    rows = connection.execute(
        _UNHEARD_ENDS, (channel, Act.CLOSE.value, NoticeEvent.CLOSE.value)
    ).fetchall()
    for row in rows:
        payload = connection.execute(
            "INSERT INTO payloads (size, body) VALUES (?, ?)", pack(complete(_end(row)))
        ).lastrowid
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
