"""The read side of the alerts' file: pages of incidents and notices, and the mutes."""

import base64
import binascii
import contextlib
import json
import sqlite3
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lagwatch.core.model import GroupStatus
from lagwatch.core.words import printable
from lagwatch.errors import AmbiguousError, InputError, NotFoundError
from lagwatch.notify.database import Database
from lagwatch.notify.notice import Notice, checked_ms, level, unpack
from lagwatch.notify.store import SUMMARY, WAITING_AGAIN, WAITING_ANEW, log_not_readable
from lagwatch.notify.words import behind, cause_then, cut, headline
from lagwatch.ports.alerts import (
    IncidentAsk,
    IncidentRecord,
    MessageState,
    Mute,
    NoticeAsk,
    NoticeRecord,
    Transition,
    TroubleSince,
)

_NOTICES = (
    "SELECT n.number, n.step, i.id AS incident, i.cluster, i.name, n.channel, n.event, n.severity,"
    " n.at_ms, n.state,"
    " CASE n.state WHEN 'delivered' THEN coalesce(n.message, n.thread) ELSE n.message END"
    " AS message, coalesce(m.attempts, n.attempts) AS attempts,"
    " coalesce(nullif(m.last_error, ''), n.last_error) AS last_error, n.ended_ms"
    " FROM notices n JOIN incidents i ON i.number = n.incident"
    " LEFT JOIN messages m ON m.id = n.message"
)
_NOT_OVERTAKEN = (
    "WITH later AS (SELECT i.about, i.cluster, i.name, max(i.number) AS number"
    "  FROM notices n JOIN incidents i ON i.number = n.incident"
    "  WHERE n.state <> 'dead' AND n.channel IN (:channel, :to) GROUP BY 1, 2, 3) "
    "SELECT n.number FROM notices n JOIN incidents i ON i.number = n.incident"
    " LEFT JOIN later l ON l.about = i.about AND l.cluster = i.cluster AND l.name = i.name"
    # a receiver may keep the incident whose opening it heard until it hears of its end
    " WHERE NOT ((n.heard IS NULL OR n.event <> 'close' OR :to <> '')"
    "  AND ifnull(l.number, 0) > i.number) AND "
)
"""Notices of a condition, but for those whose group has a later incident on its way, or there."""
_REMINDERS = (
    "state IN ('waiting', 'queued') AND event = 'remind' AND heard IS NOT NULL"
    " AND incident = (SELECT number FROM incidents WHERE id = ?1)"
)
"""Those of an incident (?1) that are not sent yet, to channels that have heard of it."""
_LARGEST: Final = 2**63 - 1
"""Integer that SQLite can hold."""
_INCIDENTS = (
    "SELECT i.*, p.body FROM incidents i LEFT JOIN payloads p"
    " ON p.number = i.payload AND i.closed_ms IS NULL"
)


_BY_START = {
    "incident": "SELECT id FROM incidents WHERE substr(id, 1, ?2) = ?1 LIMIT 3",
    "open incident": "SELECT id FROM incidents"
    " WHERE substr(id, 1, ?2) = ?1 AND closed_ms IS NULL LIMIT 3",
    "mute": "SELECT id FROM mutes WHERE substr(id, 1, ?2) = ?1 LIMIT 3",
    "dead message": "SELECT DISTINCT message FROM notices"
    " WHERE substr(message, 1, ?2) = ?1 AND state = 'dead' LIMIT 3",
}
"""By kind of id: those that begin with a text (?1) of a length (?2)."""
_OPEN_SINCE = """
SELECT name, MIN(coalesce(again_ms, since_ms)), again_ms IS NULL AND since_at_least IS 1
FROM incidents WHERE closed_ms IS NULL AND cluster = ? AND about = 'group' GROUP BY name
"""
"""The last column is of the row of the minimum, as SQLite promises of a bare column."""
_SHORTEST_START = 4
_LONGEST_REASON = 200
_NOT_READABLE = (ValueError, TypeError, KeyError)
"""What is raised for a row that another version wrote, or that is damaged."""


def _as_it_was(notice: Notice) -> Notice:
    return notice


class AlertRecords:
    """Answers for the HTTP layer."""

    def __init__(self, database: Database, as_now: Callable[[Notice], Notice] = _as_it_was) -> None:
        """`as_now`: a notice with the figures of its group that are known now."""
        self._database = database
        self._as_now = as_now
        self._named: set[str] = set()
        """Incidents that cannot be read, of which the log says so."""

    def whole_id(self, kind: str, start: str) -> str:
        """The only id of this kind that begins with `start`; `start` itself when no id does.

        Raises:
            AmbiguousError: several ids begin so.
        """
        if len(start) < _SHORTEST_START:
            return start
        rows = self._database.connection.execute(_BY_START[kind], (start, len(start))).fetchall()
        ids = [str(row[0]) for row in rows]
        if start in ids or not ids:
            return start
        if len(ids) > 1:
            raise AmbiguousError(kind=kind, start=start, ids=ids)
        return ids[0]

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        """Newest first."""
        where, values = ["1"], list[object]()
        if ask.state:
            where.append("closed_ms IS NULL" if ask.state == "open" else "closed_ms IS NOT NULL")
        for column, value in (("cluster", ask.cluster), ("name", ask.group)):
            if value:
                where.append(f"{column} = ?")
                values.append(value)
        if ask.cursor:
            opened_ms, _, number = _read_cursor(ask.cursor).partition(":")
            where.append("(i.opened_ms, i.number) < (?, ?)")
            values += [_number(opened_ms), _number(number)]
        rows = self._database.connection.execute(
            f"{_INCIDENTS} WHERE {' AND '.join(where)}"
            " ORDER BY i.opened_ms DESC, i.number DESC LIMIT ?",
            (*values, ask.limit + 1),
        ).fetchall()
        page = rows[: ask.limit]
        more = len(rows) > ask.limit
        cursor = _cursor(f"{page[-1]['opened_ms']}:{page[-1]['number']}") if more else ""
        found = (self._readable(row) for row in page)
        return [record for record in found if record is not None], cursor

    def in_trouble_since(self, cluster: str) -> Mapping[str, TroubleSince]:
        """Since when groups with an open incident have been in trouble without a break."""
        rows = self._database.connection.execute(_OPEN_SINCE, (cluster,))
        return {
            str(name): TroubleSince(since_ms=int(since_ms), at_least=bool(at_least))
            for name, since_ms, at_least in rows
        }

    def _readable(self, row: sqlite3.Row) -> IncidentRecord | None:
        """The record of a row; None, and its name in the log, if that cannot be read."""
        try:
            return self._incident(row, ())
        except _NOT_READABLE as error:
            if row["id"] not in self._named:
                self._named.add(row["id"])
                log_not_readable(
                    row, error, remedy="it is left out; `lagwatch alert incidents` lists the others"
                )
            return None

    def incident(self, incident: str) -> IncidentRecord:
        connection = self._database.connection
        row = connection.execute(f"{_INCIDENTS} WHERE i.id = ?", (incident,)).fetchone()
        if row is None:
            raise NotFoundError(kind="incident", name=incident)
        transitions = connection.execute(
            "SELECT * FROM transitions WHERE incident = ? ORDER BY number", (row["number"],)
        )
        try:
            return self._incident(row, tuple(_transition(step) for step in transitions))
        except _NOT_READABLE as error:
            raise NotFoundError(kind="readable incident", name=incident) from error

    def _incident(self, row: sqlite3.Row, transitions: tuple[Transition, ...]) -> IncidentRecord:
        notice, again_ms = _newest(row), row["again_ms"]
        if notice is not None:
            notice = self._as_now(notice)
            if again_ms is not None and row["closed_ms"] is None:
                notice = replace(notice, since_ms=max(notice.since_ms, checked_ms(again_ms)))
        # the whole verdict while the incident is open, its main figures afterwards
        summary = {**dict.fromkeys(SUMMARY), **_object(row["summary"])}
        return IncidentRecord(
            id=row["id"],
            about=row["about"],
            cluster=row["cluster"],
            group=row["name"],
            policy=row["policy"],
            severity=level(GroupStatus(row["severity"])),
            since_ms=checked_ms(row["since_ms"]),
            since_at_least=bool(row["since_at_least"]),
            again_ms=None if again_ms is None else checked_ms(again_ms),
            opened_ms=checked_ms(row["opened_ms"]),
            closed_ms=None if row["closed_ms"] is None else checked_ms(row["closed_ms"]),
            healed_ms=row["held_ms"] if row["closed_ms"] is None else summary["ended_ms"],
            notified_ms=row["told_ms"],
            acknowledged_ms=row["acknowledged_ms"],
            acknowledged_by=row["acknowledged_by"],
            verdict=summary if notice is None else notice.verdict,
            headline="" if notice is None else headline(notice),
            behind_now=_behind_now(notice),
            cause="" if notice is None else cause_then(notice),
            transitions=transitions,
        )

    def acknowledge(self, incident: str, author: str, now_ms: int) -> None:
        """Store who works on an open incident; reminders of it that still wait are not sent.

        Raises:
            NotFoundError: no open incident has this id.
        """

        def work(connection: sqlite3.Connection) -> int:
            noted = connection.execute(
                "UPDATE incidents SET acknowledged_ms = ?, acknowledged_by = ?"
                " WHERE id = ? AND closed_ms IS NULL",
                (now_ms, author, incident),
            ).rowcount
            connection.execute(
                "DELETE FROM contents"  # noqa: S608 fixed
                f" WHERE notice IN (SELECT number FROM notices WHERE {_REMINDERS})",
                (incident,),
            )
            connection.execute(
                "UPDATE notices SET state = 'delivered', payload = NULL, message = NULL,"  # noqa: S608 fixed
                f" ended_ms = ?2 WHERE {_REMINDERS}",
                (incident, now_ms),
            )
            return noted

        if not self._database.write(work):
            raise NotFoundError(kind="open incident", name=incident)

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]:
        """Newest first."""
        where, values = ["1"], list[object]()
        given = (
            ("n.state", ask.state),
            ("n.channel", ask.channel),
            ("i.id", ask.incident),
            ("i.cluster", ask.cluster),
            ("i.name", ask.group),
        )
        for column, value in given:
            if value:
                where.append(f"{column} = ?")
                values.append(value)
        if ask.cursor:
            where.append("n.number < ?")
            values.append(_number(_read_cursor(ask.cursor)))
        rows = self._database.connection.execute(
            f"{_NOTICES} WHERE {' AND '.join(where)} ORDER BY n.number DESC LIMIT ?",
            (*values, ask.limit + 1),
        ).fetchall()
        page = rows[: ask.limit]
        cursor = _cursor(str(page[-1]["number"])) if len(rows) > ask.limit else ""
        return [_notice(row) for row in page], cursor

    def retry(self, message: str, *, to: str = "") -> tuple[str, int]:
        """Queue the notices of a dead message again; returns its channel and how many they are.

        `to` names another channel. What later news has overtaken is forgotten.

        Raises:
            NotFoundError: no dead notice was in this message.
        """

        def work(connection: sqlite3.Connection) -> tuple[str, int]:
            row = connection.execute(
                "SELECT channel FROM notices WHERE message = ? AND state = 'dead'", (message,)
            ).fetchone()
            if row is None:
                raise NotFoundError(kind="dead message", name=message)
            found = "n.message = :message AND n.state = 'dead'"
            return row["channel"], _queue_again(connection, found, row["channel"], to, message)

        return self._database.write(work)

    def retry_channel(self, channel: str, *, to: str = "") -> int:
        """Queue again all that a channel has given up; with `to`, also what waits for it."""
        to = "" if to == channel else to
        states = "('dead', 'waiting', 'queued')" if to else "('dead')"

        def work(connection: sqlite3.Connection) -> int:
            if to:
                connection.execute("DELETE FROM messages WHERE channel = ?", (channel,))
            found = f"n.channel = :channel AND n.state IN {states}"
            return _queue_again(connection, found, channel, to)

        return self._database.write(work)

    def left_by_channel(self) -> dict[str, tuple[int, int]]:
        """Channel → (notices that wait, notices given up), also of channels not configured."""
        rows = self._database.connection.execute(
            "SELECT channel, sum(state IN ('waiting', 'queued')), sum(state = 'dead')"
            " FROM notices WHERE state <> 'delivered' GROUP BY channel"
        )
        return {row[0]: (int(row[1]), int(row[2])) for row in rows}

    def tried_since(self) -> dict[str, int]:
        """Channel → when the oldest message was made that was tried, and is not delivered."""
        rows = self._database.connection.execute(
            "SELECT channel, min(at_ms) FROM messages WHERE attempts > 0 GROUP BY channel"
        )
        return {row[0]: int(row[1]) for row in rows}

    def why_dead(self, channel: str) -> str:
        """The group of the newest notice that a channel has given up, and the reason."""
        row = self._database.connection.execute(
            "SELECT i.name, i.cluster, n.last_error FROM notices n"
            " JOIN incidents i ON i.number = n.incident WHERE n.channel = ?"
            " AND n.state <> 'delivered' AND n.state = 'dead'"
            " ORDER BY n.ended_ms DESC, n.number DESC LIMIT 1",
            (channel,),
        ).fetchone()
        if row is None:
            return ""
        name = " on ".join(filter(None, (row["name"], row["cluster"])))
        return f"{printable(name)}: {cut(row['last_error'], _LONGEST_REASON)}"

    def unreadable(self, since_ms: int) -> int:
        """How many notices made after an instant cannot be read."""
        (count,) = self._database.connection.execute(
            "SELECT count(*) FROM notices WHERE state <> 'delivered' AND state = 'unreadable'"
            " AND (at_ms > ?1 OR ended_ms > ?1)",
            (since_ms,),
        ).fetchone()
        return int(count)

    def mutes(self, now_ms: int) -> list[Mute]:
        """Mutes that are not over."""
        rows = self._database.connection.execute(
            "SELECT * FROM mutes WHERE ends_ms > ? ORDER BY starts_ms, id", (now_ms,)
        )
        return [_mute(row, now_ms) for row in rows]

    def mute(
        self,
        *,
        cluster: str,
        group: str,
        reason: str,
        author: str,
        starts_ms: int,
        ends_ms: int,
        now_ms: int,
    ) -> Mute:
        values = (uuid.uuid4().hex, cluster, group, reason, author, starts_ms, ends_ms)
        row = self._database.write(
            lambda connection: connection.execute(
                "INSERT INTO mutes VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING *", values
            ).fetchone()
        )
        return _mute(row, now_ms)

    def set_mutes_back(self, before_ms: int, now_ms: int) -> None:
        """The clock was set back: mutes that had begun begin now, and last as long as before."""
        self._database.write(
            lambda connection: connection.execute(
                "UPDATE mutes SET starts_ms = ?2, ends_ms = ends_ms - starts_ms + ?2"
                " WHERE starts_ms > ?2 AND starts_ms <= ?1",
                (before_ms, now_ms),
            )
        )

    def unmute(self, mute: str) -> None:
        gone = self._database.write(
            lambda connection: (
                connection.execute("DELETE FROM mutes WHERE id = ?", (mute,)).rowcount
            )
        )
        if not gone:
            raise NotFoundError(kind="mute", name=mute)


def _queue_again(
    connection: sqlite3.Connection, found: str, channel: str, to: str, message: str = ""
) -> int:
    """Queue again the notices of a condition, for their channel or `to`; returns how many.

    Deleted instead are those that later news has overtaken, or that `to` has already: nothing is
    left to deliver of them.
    """
    # nothing of it has failed at another channel
    moved = f"{WAITING_ANEW}, last_error = '', channel = ?1, heard = NULL, thread = NULL"
    waiting = moved if to else WAITING_AGAIN
    names = {"channel": channel, "to": to, "message": message}
    newest = connection.execute(f"{_NOT_OVERTAKEN}{found}", names).fetchall()
    count = sum(
        connection.execute(
            f"UPDATE OR IGNORE notices SET {waiting} WHERE number = ?2",  # noqa: S608 fixed
            (to, row["number"]),
        ).rowcount
        for row in newest
    )
    kept = [row["number"] for row in newest] if not to else []
    connection.execute(
        f"DELETE FROM notices AS n WHERE {found}"  # noqa: S608 fixed
        " AND number NOT IN (SELECT value FROM json_each(:kept))",
        {**names, "kept": json.dumps(kept)},
    )
    return count


def _behind_now(notice: Notice | None) -> str:
    """How far behind the group is by the newest figures; "" where they are not known."""
    if notice is None or notice.newest is None or notice.closing:
        return ""
    return ", ".join(behind({**notice.verdict, **notice.newest}))


def _newest(row: sqlite3.Row) -> Notice | None:
    """The newest notice of an open incident; None once it has ended, or if it is not readable."""
    if row["body"] is not None:
        with contextlib.suppress(InputError):
            return unpack(row["body"])
    return None


def _object(text: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        ValueError: the text is no JSON object.
    """
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{cut(text, 100)!r} is no JSON object")  # noqa: TRY004 as for no JSON
    return found


def _transition(row: sqlite3.Row) -> Transition:
    return Transition(
        at_ms=row["at_ms"],
        act=row["act"],
        event=row["tell"],
        severity=level(GroupStatus(row["severity"])),
        reason=row["reason"],
    )


def _notice(row: sqlite3.Row) -> NoticeRecord:
    state = MessageState(row["state"])
    return NoticeRecord(
        key=f"{row['incident']}.{row['step']}.{row['channel']}",
        incident=row["incident"],
        cluster=row["cluster"],
        group=row["name"],
        channel=row["channel"],
        event=row["event"],
        severity=row["severity"],
        at_ms=row["at_ms"],
        state=state,
        message=row["message"],
        attempts=row["attempts"],
        next_attempt_ms=None,
        last_error=row["last_error"],
        ended_ms=row["ended_ms"],
    )


def _mute(row: sqlite3.Row, now_ms: int) -> Mute:
    return Mute(
        id=row["id"],
        cluster=row["cluster"],
        group=row["name"],
        reason=row["reason"],
        author=row["author"],
        starts_ms=row["starts_ms"],
        ends_ms=row["ends_ms"],
        active=row["starts_ms"] <= now_ms < row["ends_ms"],
    )


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise _no_cursor() from error


def _number(text: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise _no_cursor() from error
    if not 0 <= number <= _LARGEST:
        raise _no_cursor()
    return number


def _no_cursor() -> InputError:
    return InputError(index=0, field="cursor", problem="was not returned by an earlier answer")
