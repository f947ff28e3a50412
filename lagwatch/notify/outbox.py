"""The queues of the channels, kept: notices waiting, and the messages they go in.

A message is made, with its notices, before it is first tried: after a restart it is the same
message with the same id, so a receiver can tell that it had it already.
"""

import sqlite3
import uuid
from dataclasses import dataclass, replace
from typing import Final

from lagwatch.core.incident import Tell
from lagwatch.notify.database import Database
from lagwatch.notify.notice import Message, Notice
from lagwatch.notify.store import from_payload

LARGEST_MESSAGE: Final = 5000
"""Notices in one message at most."""
_HELD_BACK_MS: Final = 10_000
"""While a message fails, notices that came after it wait for so long before they are tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """How a channel wants its notices put into messages."""

    batch: bool
    wait_ms: int
    """How long a notice waits for others."""
    give_up_after_ms: int


class Outbox:
    """Notices that are to be delivered, by channel."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def next(self, channel: str, packing: Packing, now_ms: int) -> Message | None:
        """The message to try now; makes one of the notices that have waited enough."""
        queued = self._due(channel, now_ms)
        if queued is not None:
            return self._message(queued)
        if self._pack(channel, packing, now_ms):
            queued = self._due(channel, now_ms)
        return None if queued is None else self._message(queued)

    def wait_ms(self, channel: str, packing: Packing, now_ms: int) -> int | None:
        """How long there is nothing to do; None: until somebody puts something in."""
        connection = self._database.connection
        (message_ms,) = connection.execute(
            "SELECT min(next_ms) FROM messages WHERE channel = ? AND state = 'queued'", (channel,)
        ).fetchone()
        (notice_ms,) = connection.execute(
            "SELECT min(at_ms) FROM notices WHERE channel = ? AND message IS NULL", (channel,)
        ).fetchone()
        ready_ms = None if notice_ms is None else notice_ms + self._hold_ms(channel, packing)
        instants = [at_ms for at_ms in (message_ms, ready_ms) if at_ms is not None]
        return max(0, min(instants) - now_ms) if instants else None

    def delivered(self, message: Message, now_ms: int) -> None:
        self._end(message, "delivered", "", now_ms)

    def dead(self, message: Message, error: str, now_ms: int) -> None:
        self._end(message, "dead", error, now_ms)

    def failed(self, message: Message, error: str, next_ms: int) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE messages SET attempts = attempts + 1, last_error = ?, next_ms = ?"
                " WHERE id = ?",
                (error, next_ms, message.id),
            )

    def standing(self, channel: str) -> tuple[Notice, ...]:
        """The last notice of every open incident that the channel was told of."""
        rows = self._database.connection.execute(
            "SELECT max(n.number), n.payload FROM notices n JOIN incidents i ON i.id = n.incident"
            " WHERE n.channel = ? AND i.closed_ms IS NULL AND n.message IS NOT NULL"
            " GROUP BY n.incident",
            (channel,),
        )
        return tuple(from_payload(row["payload"]) for row in rows)

    def depth(self, channel: str) -> tuple[int, int]:
        """(notices not delivered yet, dead messages)."""
        connection = self._database.connection
        (waiting,) = connection.execute(
            "SELECT count(*) FROM notices n LEFT JOIN messages m ON m.id = n.message"
            " WHERE n.channel = ? AND (m.id IS NULL OR m.state = 'queued')",
            (channel,),
        ).fetchone()
        (dead,) = connection.execute(
            "SELECT count(*) FROM messages WHERE channel = ? AND state = 'dead'", (channel,)
        ).fetchone()
        return waiting, dead

    def _hold_ms(self, channel: str, packing: Packing) -> int:
        (failing,) = self._database.connection.execute(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE channel = ? AND state = 'queued'"
            " AND attempts > 0)",
            (channel,),
        ).fetchone()
        return max(packing.wait_ms, _HELD_BACK_MS) if failing else packing.wait_ms

    def _due(self, channel: str, now_ms: int) -> sqlite3.Row | None:
        """The message that waits longest, unless one before it tells of the same incident."""
        row: sqlite3.Row | None = self._database.connection.execute(
            "SELECT m.* FROM messages m WHERE m.channel = ?1 AND m.state = 'queued'"
            " AND m.next_ms <= ?2 AND NOT EXISTS ("
            "  SELECT 1 FROM notices mine JOIN notices other ON other.incident = mine.incident"
            "   AND other.channel = mine.channel"
            "  JOIN messages earlier ON earlier.id = other.message"
            "  WHERE mine.message = m.id AND earlier.state = 'queued'"
            "   AND earlier.number < m.number)"
            " ORDER BY m.next_ms, m.number LIMIT 1",
            (channel, now_ms),
        ).fetchone()
        return row

    def _pack(self, channel: str, packing: Packing, now_ms: int) -> bool:
        """Make one message of what has waited enough; closes go by themselves."""
        hold_ms = self._hold_ms(channel, packing)
        rows = self._database.connection.execute(
            "SELECT number, event, at_ms FROM notices WHERE channel = ? AND message IS NULL"
            " ORDER BY number LIMIT ?",
            (channel, LARGEST_MESSAGE if packing.batch else 1),
        ).fetchall()
        if not rows or rows[0]["at_ms"] + hold_ms > now_ms:
            return False
        closing = rows[0]["event"] == Tell.CLOSE.value
        numbers = []
        for row in rows:
            if (row["event"] == Tell.CLOSE.value) is not closing:
                break  # in their order: what opened again after a close is told after it
            numbers.append(row["number"])
        message = uuid.uuid4().hex
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO messages (id, channel, at_ms, next_ms, deadline_ms)"
                " VALUES (?, ?, ?, ?, ?)",
                (message, channel, now_ms, now_ms, now_ms + packing.give_up_after_ms),
            )
            connection.executemany(
                "UPDATE notices SET message = ? WHERE number = ?",
                [(message, number) for number in numbers],
            )
        return True

    def _message(self, row: sqlite3.Row) -> Message:
        connection = self._database.connection
        notices = connection.execute(
            "SELECT payload FROM notices WHERE message = ? ORDER BY number", (row["id"],)
        )
        found = tuple(from_payload(notice["payload"]) for notice in notices)
        return Message(
            id=row["id"],
            channel=row["channel"],
            at_ms=row["at_ms"],
            notices=self._threaded(row["channel"], found),
            attempts=row["attempts"],
            deadline_ms=row["deadline_ms"],
            last_error=row["last_error"],
        )

    def _threaded(self, channel: str, notices: tuple[Notice, ...]) -> tuple[Notice, ...]:
        """With the message in which the channel heard of the incident first."""
        connection = self._database.connection
        still_open: dict[str, int] = {}
        threaded = []
        for notice in notices:
            row = connection.execute(
                "SELECT message FROM notices WHERE incident = ? AND channel = ?"
                " AND event = 'open' AND message IS NOT NULL ORDER BY number LIMIT 1",
                (notice.incident, channel),
            ).fetchone()
            thread = row["message"] if row is not None else ""
            if thread not in still_open:
                (still_open[thread],) = connection.execute(
                    "SELECT count(DISTINCT i.id) FROM notices n JOIN incidents i"
                    " ON i.id = n.incident WHERE n.message = ? AND i.closed_ms IS NULL",
                    (thread,),
                ).fetchone()
            threaded.append(replace(notice, thread=thread, thread_open=still_open[thread]))
        return tuple(threaded)

    def _end(self, message: Message, state: str, error: str, now_ms: int) -> None:
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE messages SET state = ?, last_error = ?, ended_ms = ?,"
                " attempts = attempts + 1 WHERE id = ?",
                (state, error, now_ms, message.id),
            )
