"""The stored queues of the channels: waiting notices, and messages that are being sent.

A channel's queue holds, for each incident, only the newest news that the channel has not received.
A message is sealed, with its contents, before it is first tried: every attempt, also after a
restart, has the same id and the same contents. When newer news of one of its groups comes in before
the message has been delivered, it is dissolved and packed anew: what a receiver reads last about a
group is what is true.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from lagwatch.core.incident import NoticeEvent, Reason
from lagwatch.errors import InputError
from lagwatch.notify.channels.base import ChannelLimits
from lagwatch.notify.database import Database
from lagwatch.notify.notice import URGENT, Earlier, Message, Notice, StillOpen, unpack
from lagwatch.notify.store import WAITING_AGAIN, about_of, drop_unused_payloads, level_of, new_id

_ROOM: Final = 0.8
"""Share of a message's bytes that is filled: frames and escapes come on top."""

_URGENT: Final = tuple(event.value for event in URGENT)

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class _News:
    """Waiting notices of a group: the newest, and the older ones that it replaces."""

    main: sqlite3.Row
    earlier: tuple[sqlite3.Row, ...]

    @property
    def rows(self) -> tuple[sqlite3.Row, ...]:
        return (*self.earlier, self.main)

    @property
    def closing(self) -> bool:
        return bool(self.main["event"] == NoticeEvent.CLOSE.value)

    @property
    def urgent(self) -> bool:
        """True for an opening or an escalation with severity error: it goes before others."""
        return self.main["severity"] == "error" and self.main["event"] in _URGENT

    @property
    def untrue(self) -> bool:
        """True for an end that would be the last word on a group that is bad again.

        It waits for newer news of the group, or until the new incident closes without a notice.
        """
        return self.closing and bool(self.main["reopened"])


_Subject = tuple[str, str, str]
"""What incidents are about: kind, cluster, name."""
_REOPENED: Final = (
    "SELECT h.about, h.cluster, h.name FROM incidents h WHERE h.closed_ms IS NULL"  # noqa: S608 fixed
    f" AND h.told IS NULL AND h.held_back = '{Reason.REOPENED_TOO_SOON.value}'"
)
"""Groups that are bad again, which is not sent yet: they may be only flapping."""
_WAITING: Final = (
    "SELECT n.*, i.id AS incident_id, i.about, i.cluster, i.name, i.opened_ms, i.closed_ms, p.size,"  # noqa: S608 fixed
    " coalesce(i.error_ms, i.since_ms) AS since_ms,"
    f" (i.about, i.cluster, i.name) IN ({_REOPENED}) OR EXISTS (SELECT 1 FROM incidents o"
    "  JOIN notices b ON b.incident = o.number AND b.channel = n.channel"
    "  WHERE o.closed_ms IS NULL AND o.number > i.number"
    "  AND o.cluster = i.cluster AND o.name = i.name AND o.about = i.about) AS reopened"
    " FROM notices n JOIN incidents i ON i.number = n.incident"
    " LEFT JOIN payloads p ON p.number = n.payload"
    " WHERE n.channel = ? AND n.state <> 'delivered' AND n.state = 'waiting' ORDER BY n.number"
)
_GIVEN_UP: Final = (
    "SELECT n.number FROM notices n JOIN incidents d ON d.number = n.incident"
    " WHERE n.channel = ?1 AND n.state <> 'delivered' AND n.state = 'dead'"
    " AND (d.about, d.cluster, d.name) IN ("
    "  SELECT i.about, i.cluster, i.name FROM notices w JOIN incidents i ON i.number = w.incident"
    "  WHERE w.channel = ?1 AND w.state <> 'delivered' AND w.state = 'waiting')"
)
"""What was given up of groups of which newer news waits."""
_OVERTAKEN: Final = (
    # what is new is listed once and looked up: a join by name would read all incidents each time
    "SELECT DISTINCT m.id FROM messages m JOIN contents c ON c.message = m.number"  # noqa: S608 fixed
    " JOIN notices sealed ON sealed.number = c.notice"
    " JOIN incidents was ON was.number = sealed.incident"
    " WHERE m.channel = ?1 AND (was.about, was.cluster, was.name) IN ("
    "  SELECT i.about, i.cluster, i.name FROM notices n JOIN incidents i ON i.number = n.incident"
    "  WHERE n.channel = ?1 AND n.state <> 'delivered' AND n.state = 'waiting'"
    f"  UNION ALL {_REOPENED})"
)
_OF_MESSAGE: Final = (
    "number IN (SELECT c.notice FROM messages m JOIN contents c ON c.message = m.number"
    " WHERE m.id = {id}) AND message = {id} AND state = 'queued'"
)
"""The notices that a message still covers."""
_MOST_EARLIER: Final = 50
"""Earlier incidents of a group that a notice holds; of others that were not heard it says how
many there are. A group may fail and heal all the time while a receiver is away for days."""
_BYTES_OF_EARLIER: Final = 250


class Outbox:
    """Notices that are to be delivered, by channel."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def waiting(self, channel: str) -> bool:
        """True if there are notices that are not in a message yet."""
        row = self._database.connection.execute(
            "SELECT EXISTS (SELECT 1 FROM notices WHERE channel = ? AND state <> 'delivered'"
            " AND state = 'waiting')",
            (channel,),
        ).fetchone()
        return bool(row[0])

    def urgent_waits(self, channel: str) -> bool:
        """True if there is an urgent notice among those that are not in a message yet."""
        row = self._database.connection.execute(
            "SELECT EXISTS (SELECT 1 FROM notices WHERE channel = ? AND state <> 'delivered'"
            " AND state = 'waiting' AND severity = 'error' AND event IN (?, ?))",
            (channel, *_URGENT),
        ).fetchone()
        return bool(row[0])

    def on_its_way(self, channel: str) -> list[str]:
        """Ids of the messages that are sealed and not delivered."""
        rows = self._database.connection.execute(
            "SELECT id FROM messages WHERE channel = ?", (channel,)
        )
        return [row["id"] for row in rows]

    def sealed(self, channel: str, skipped: Iterable[str] = ()) -> Message | None:
        """The message that was tried least, of these the oldest urgent one, else the oldest.

        None if all are `skipped`.

        Messages overtaken by newer news are dissolved.
        """
        self._dissolve_overtaken(channel)
        left_out = json.dumps([*skipped])
        while True:
            row = self._database.connection.execute(
                "SELECT * FROM messages WHERE channel = ?"
                " AND id NOT IN (SELECT value FROM json_each(?))"
                " ORDER BY attempts, NOT EXISTS (SELECT 1 FROM contents c"
                "  WHERE c.message = messages.number AND c.main AND c.severity = 'error'"
                "  AND c.event IN (?, ?)), number LIMIT 1",
                (channel, left_out, *_URGENT),
            ).fetchone()
            if row is None:
                return None
            message = self._message(row)
            if message is not None:
                return message

    def pack(
        self,
        channel: str,
        limits: ChannelLimits,
        now_ms: int,
        *,
        urgent_only: bool = False,
        failed: tuple[int, str] | None = None,
    ) -> bool:
        """Seal messages of all that waits; False if nothing does. Ends go in messages of their own.

        Each group appears once: news that later news has overtaken goes along as `earlier`. The
        end of an incident waits while the group is bad again and that is not sent yet: the last
        word would be a wrong one. `failed`: when the channel failed last, and why.
        """
        self._end_what_ended(channel)
        self._take_along(channel)
        rows = self._database.connection.execute(_WAITING, (channel,)).fetchall()
        news = [
            each for each in _by_group(rows) if not each.untrue and (each.urgent or not urgent_only)
        ]
        news.sort(key=lambda each: not each.urgent)
        batches = list(_batches(news, limits))
        if not batches:
            return False

        def work(connection: sqlite3.Connection) -> None:
            for batch in batches:
                _seal(connection, channel, new_id(), batch, now_ms)
                if failed is not None:
                    _note_failed(connection, batch, *failed)

        self._database.write(work)
        return True

    def delivered(self, message: Message, now_ms: int) -> None:
        """Mark its notices as delivered, except those that newer news has replaced meanwhile."""
        self._database.write(lambda connection: _end(connection, message, "delivered", "", now_ms))

    def dead(self, message: Message, error: str, now_ms: int) -> None:
        """Mark its notices as given up; they can be sent again on request."""
        self._database.write(lambda connection: _end(connection, message, "dead", error, now_ms))

    def failed(self, message: Message, error: str, tried_ms: int) -> None:
        """Note an attempt; `tried_ms` is the time since the one before."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE messages SET attempts = attempts + 1, last_error = ?,"
                " tried_ms = tried_ms + ? WHERE id = ?",
                (error, tried_ms, message.id),
            )
        )

    def split(self, message: Message) -> tuple[str, ...]:
        """Put its notices into two messages; returns their ids, () when it holds one only."""
        if len(message.notices) == 1:
            return ()
        return self._database.write(lambda connection: _split(connection, message))

    def pause(self, channel: str, until_ms: int) -> None:
        """Remember, also over a restart, that a receiver wants no request before an instant."""
        self._database.write(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO pauses VALUES (?, ?)", (channel, until_ms)
            )
        )

    def unpause(self, channel: str) -> None:
        self._database.write(
            lambda connection: connection.execute(
                "DELETE FROM pauses WHERE channel = ?", (channel,)
            )
        )

    def paused_until_ms(self, channel: str) -> int | None:
        row = self._database.connection.execute(
            "SELECT until_ms FROM pauses WHERE channel = ?", (channel,)
        ).fetchone()
        return None if row is None else int(row[0])

    def shorten(self, message: Message) -> None:
        """Send it without the partitions: it is too large although it holds one notice."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE messages SET brief = 1 WHERE id = ?", (message.id,)
            )
        )

    def standing(self, channel: str) -> tuple[Notice, ...]:
        """The newest notice of every open incident that the channel has received."""
        rows = self._database.connection.execute(
            "SELECT n.number, n.heard, p.body FROM incidents i"
            " JOIN notices n ON n.incident = i.number JOIN payloads p ON p.number = i.payload"
            " WHERE i.closed_ms IS NULL AND n.channel = ? AND n.heard IS NOT NULL",
            (channel,),
        )
        found = (self._unpacked(row) for row in rows.fetchall())
        return tuple(notice for notice in found if notice is not None)

    def depth(self, channel: str) -> tuple[int, int]:
        """(notices not delivered yet, notices given up)."""
        counted = dict(
            self._database.connection.execute(
                "SELECT state, count(*) FROM notices WHERE channel = ? AND state <> 'delivered'"
                " GROUP BY state",
                (channel,),
            ).fetchall()
        )
        return counted.get("waiting", 0) + counted.get("queued", 0), counted.get("dead", 0)

    def _end_what_ended(self, channel: str) -> None:
        """Send the end of incidents that ended without a notice, instead of their stale opening."""
        ended = (
            "channel = ? AND state <> 'delivered' AND state = 'waiting' AND event <> 'close'"
            " AND incident IN (SELECT number FROM incidents WHERE closed_ms IS NOT NULL)"
        )
        connection = self._database.connection
        if connection.execute(f"SELECT 1 FROM notices WHERE {ended}", (channel,)).fetchone():  # noqa: S608 fixed
            self._database.write(
                lambda writing: writing.execute(
                    f"UPDATE notices SET event = 'close' WHERE {ended}",  # noqa: S608 fixed words
                    (channel,),
                )
            )

    def _take_along(self, channel: str) -> None:
        """What was given up goes along with newer news: a receiver may still wait for an end."""
        found = self._database.connection.execute(_GIVEN_UP, (channel,)).fetchall()
        if found:
            self._database.write(
                lambda connection: connection.executemany(
                    f"UPDATE notices SET {WAITING_AGAIN} WHERE number = ?",  # noqa: S608 fixed
                    [(row["number"],) for row in found],
                )
            )

    def _dissolve_overtaken(self, channel: str) -> None:
        found = self._database.connection.execute(_OVERTAKEN, (channel,)).fetchall()
        if not found:
            return
        identities = [row["id"] for row in found]
        self._database.write(lambda connection: _dissolve(connection, identities))
        _log.debug("messages_packed_anew", channel=channel, messages=len(identities))

    def _message(self, row: sqlite3.Row) -> Message | None:
        """The message; dissolved, and None, if none of its notices can be read."""
        contents = self._database.connection.execute(
            "SELECT c.*, c.notice AS number, n.thread, n.heard, n.reason, n.channel,"
            " n.last_error,"
            " i.number AS incident,"
            " i.id AS incident_id, i.about, i.cluster, i.name, i.closed_ms, p.body,"
            " coalesce(i.error_ms, i.since_ms) AS since_ms"
            " FROM contents c JOIN notices n ON n.number = c.notice"
            " JOIN incidents i ON i.number = n.incident"
            " LEFT JOIN payloads p ON p.number = c.payload"
            " WHERE c.message = ? ORDER BY c.main DESC, c.notice",
            (row["number"],),
        ).fetchall()
        threads = {content["thread"] for content in contents}
        open_rows = self._open_by_thread(row["channel"], threads)
        still_open = {thread: len(rows) for thread, rows in open_rows.items()}
        earlier: dict[_Subject, list[Earlier]] = {}
        for content in contents:
            if not content["main"]:
                earlier.setdefault(_subject(content), []).append(_earlier(content, still_open))
        notices = []
        for content in contents:
            notice = self._unpacked(content) if content["main"] else None
            if notice is None:
                continue
            notices.append(
                replace(
                    notice,
                    key=f"{content['incident_id']}.{content['step']}.{row['channel']}",
                    event=NoticeEvent(content["event"]),
                    reason=_reason(content, notice),
                    thread=content["thread"] or "",
                    thread_open=still_open.get(content["thread"], 0),
                    heard_as=content["heard"],
                    failed="" if content["heard"] is not None else content["last_error"],
                    earlier=(kept := _newest(earlier.get(_subject(content), ()))),
                    earlier_left_out=len(earlier.get(_subject(content), ())) - len(kept),
                )
            )
        if not notices:
            self._database.write(lambda connection: _dissolve(connection, [row["id"]]))
            return None
        return Message(
            id=row["id"],
            channel=row["channel"],
            still_open={thread: tuple(_still_open(rows)) for thread, rows in open_rows.items()},
            at_ms=row["at_ms"],
            notices=tuple(notices),
            attempts=row["attempts"],
            tried_ms=row["tried_ms"],
            splits=row["splits"],
            brief=bool(row["brief"]),
            last_error=row["last_error"],
        )

    def _open_by_thread(
        self, channel: str, threads: Iterable[str | None]
    ) -> dict[str, list[sqlite3.Row]]:
        """The open incidents of each of these threads that has any."""
        rows = self._database.connection.execute(
            "SELECT n.thread, n.heard, i.id, i.about, i.cluster, i.name, i.severity"
            " FROM incidents i JOIN notices n"
            " ON n.incident = i.number AND n.channel = ?"
            " WHERE i.closed_ms IS NULL AND n.thread IN (SELECT value FROM json_each(?))"
            " ORDER BY i.number",
            (channel, json.dumps([thread for thread in threads if thread])),
        )
        found: dict[str, list[sqlite3.Row]] = {}
        for row in rows:
            found.setdefault(row["thread"], []).append(row)
        return found

    def _unpacked(self, row: sqlite3.Row) -> Notice | None:
        """The notice of a row; one that cannot be read is set aside and named in the log."""
        try:
            return unpack(row["body"])
        except InputError as error:
            _log.error("notice_not_readable", notice=row["number"], reason=str(error))
            reason = str(error)
            self._database.write(lambda connection: _set_aside(connection, row["number"], reason))
            return None


def _subject(row: sqlite3.Row) -> _Subject:
    return row["about"], row["cluster"], row["name"]


def _by_group(rows: Sequence[sqlite3.Row]) -> list[_News]:
    """Waiting notices by group, in the order in which the groups began to wait."""
    groups: dict[_Subject, list[sqlite3.Row]] = {}
    for row in rows:
        groups.setdefault(_subject(row), []).append(row)
    news = []
    for found in groups.values():
        found.sort(key=lambda row: int(row["incident"]))
        news.append(_News(main=found[-1], earlier=tuple(found[:-1])))
    return news


def _batches(news: Sequence[_News], limits: ChannelLimits) -> Iterator[list[_News]]:
    """Notices of each message: ends apart from the rest, as many as fit, in their order."""
    kinds: dict[tuple[bool, str], list[_News]] = {}
    for item in news:
        severity = item.main["severity"] if limits.one_severity else ""
        kinds.setdefault((item.closing, severity), []).append(item)
    for kind in kinds.values():
        batch: list[_News] = []
        size = 0
        for item in kind:
            most = min(len(item.earlier), _MOST_EARLIER)
            own = (item.main["size"] or 0) + _BYTES_OF_EARLIER * most
            size += own
            too_large = limits.most_bytes is not None and size > limits.most_bytes * _ROOM
            if batch and (too_large or len(batch) >= limits.most_notices):
                yield batch
                batch, size = [], own
            batch.append(item)
        yield batch


def _seal(
    connection: sqlite3.Connection, channel: str, identity: str, news: Sequence[_News], now_ms: int
) -> None:
    message = connection.execute(
        "INSERT INTO messages (id, channel, at_ms) VALUES (?, ?, ?)", (identity, channel, now_ms)
    ).lastrowid
    # the message is given up when its youngest news has been tried for long enough: news of a group
    # renews what waits with it, and no news is given up for the age of another
    tried_ms = min(item.main["tried_ms"] for item in news)
    for item in news:
        for row in item.rows:
            # of an older incident only its row is sent
            payload = row["payload"] if row is item.main else None
            connection.execute(
                "INSERT INTO contents VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(message, row["number"], int(row is item.main), row["step"], row["event"]),
                    *(row["severity"], row["at_ms"], payload),
                ),
            )
            # the thread is that of the first message in which the receiver may have seen it
            connection.execute(
                "UPDATE notices SET state = 'queued', message = ?1, thread = coalesce(thread, ?1),"
                " payload = ?3 WHERE number = ?2",
                (identity, row["number"], payload),
            )
    connection.execute("UPDATE messages SET tried_ms = ? WHERE number = ?", (tried_ms, message))


def _note_failed(
    connection: sqlite3.Connection, news: Sequence[_News], failed_ms: int, reason: str
) -> None:
    """Note of what the channel failed on since it opened, although nothing of it was tried."""
    connection.executemany(
        "UPDATE notices SET last_error = ? WHERE number = ? AND heard IS NULL AND last_error = ''",
        [
            (reason, item.main["number"])
            for item in news
            if item.main["opened_ms"] <= failed_ms and item.main["heard"] is None
        ],
    )


def _newest(earlier: Sequence[Earlier]) -> tuple[Earlier, ...]:
    """Those that the receiver has heard of, and the newest of the others, in their order."""
    first = len(earlier) - _MOST_EARLIER
    return tuple(each for number, each in enumerate(earlier) if number >= first or each.heard)


def _dissolve(connection: sqlite3.Connection, identities: Sequence[str]) -> None:
    """Let the notices wait again, except those that were replaced; keep the time tried so far."""
    for identity in identities:
        connection.execute(
            "UPDATE notices SET state = 'waiting', message = NULL, (attempts, tried_ms, last_error)"  # noqa: S608 fixed
            " = (SELECT attempts, tried_ms, coalesce(nullif(m.last_error, ''), notices.last_error)"
            "  FROM messages m WHERE id = ?1)"
            f" WHERE {_OF_MESSAGE.format(id='?1')}",
            (identity,),
        )
        connection.execute("DELETE FROM messages WHERE id = ?", (identity,))
    drop_unused_payloads(connection)


def _end(
    connection: sqlite3.Connection, message: Message, state: str, error: str, now_ms: int
) -> None:
    heard = "c.severity" if state == "delivered" else "notices.heard"
    connection.execute(
        f"UPDATE notices SET heard = {heard} FROM contents c JOIN messages m"  # noqa: S608 fixed
        " ON m.number = c.message WHERE m.id = ? AND c.notice = notices.number",
        (message.id,),
    )
    connection.execute(
        "UPDATE notices SET state = ?1, attempts = ?2, last_error = ?3, ended_ms = ?4,"  # noqa: S608 fixed
        " payload = CASE ?1 WHEN 'delivered' THEN NULL ELSE payload END,"
        # once delivered, the id of the first message is not kept twice
        " message = CASE ?1 WHEN 'delivered' THEN nullif(message, thread) ELSE message END"
        f" WHERE {_OF_MESSAGE.format(id='?5')}",
        (state, message.attempts + 1, error, now_ms, message.id),
    )
    connection.execute("DELETE FROM messages WHERE id = ?", (message.id,))
    drop_unused_payloads(connection)


def _split(connection: sqlite3.Connection, message: Message) -> tuple[str, ...]:
    """Two messages instead of one; all news of a group stays in one of them."""
    groups = {
        (notice.about.value, notice.cluster, notice.group): number
        for number, notice in enumerate(message.notices)
    }
    half = (len(groups) + 1) // 2
    (old,) = connection.execute(
        "SELECT number FROM messages WHERE id = ?", (message.id,)
    ).fetchone()
    contents = connection.execute(
        "SELECT c.notice, i.about, i.cluster, i.name FROM contents c"
        " JOIN notices n ON n.number = c.notice JOIN incidents i ON i.number = n.incident"
        " WHERE c.message = ?",
        (old,),
    ).fetchall()
    parts: tuple[list[int], list[int]] = ([], [])
    for row in contents:
        place = groups.get(_subject(row), 0)
        parts[int(place >= half)].append(row["notice"])
    identities = new_id(), new_id()
    for identity, part in zip(identities, parts, strict=True):
        new = connection.execute(
            "INSERT INTO messages (id, channel, at_ms, attempts, tried_ms, last_error, splits)"
            " SELECT ?, channel, at_ms, attempts, tried_ms, last_error, splits + 1"
            " FROM messages WHERE number = ?",
            (identity, old),
        ).lastrowid
        connection.executemany(
            "UPDATE contents SET message = ? WHERE message = ? AND notice = ?",
            [(new, old, notice) for notice in part],
        )
        connection.executemany(
            "UPDATE notices SET message = ? WHERE number = ? AND message = ?",
            [(identity, notice, message.id) for notice in part],
        )
    connection.execute("DELETE FROM messages WHERE number = ?", (old,))
    return identities


def _set_aside(connection: sqlite3.Connection, notice: int, error: str) -> None:
    connection.execute("DELETE FROM contents WHERE notice = ?", (notice,))
    connection.execute(
        "UPDATE notices SET state = 'unreadable', message = NULL, last_error = ?"
        " WHERE number = ? AND state <> 'delivered'",
        (error, notice),
    )


_FIRST_HEARD: Final = (Reason.HANDED_ON.value, Reason.NEW_CHANNEL.value)


def _reason(row: sqlite3.Row, notice: Notice) -> str:
    """Why it is sent: the first notice of a channel that is new to the incident says that.

    What a channel has not received yet it is not reminded of.
    """
    if row["heard"] is None and row["reason"] in _FIRST_HEARD:
        return str(row["reason"])
    opens = row["heard"] is None and row["event"] == NoticeEvent.OPEN.value
    return Reason.FIRST.value if opens and notice.reason == Reason.REMINDER_DUE else notice.reason


def _still_open(rows: Iterable[sqlite3.Row]) -> Iterator[StillOpen]:
    """Those of which the channel has received something."""
    for row in rows:
        if row["heard"] is not None:
            yield StillOpen(
                incident=row["id"],
                about=about_of(row),
                cluster=row["cluster"],
                group=row["name"],
                severity=level_of(row),
            )


def _earlier(row: sqlite3.Row, still_open: dict[str, int]) -> Earlier:
    return Earlier(
        incident=row["incident_id"],
        severity=row["severity"],
        since_ms=row["since_ms"],
        ended_ms=row["closed_ms"],
        heard_as=row["heard"],
        thread=row["thread"] or "",
        thread_open=still_open.get(row["thread"], 0),
    )
