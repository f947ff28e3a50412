"""The read side of the alerts' file: pages of incidents and notices, and the mutes."""

import base64
import binascii
import json
import sqlite3
import uuid
from collections.abc import Sequence

from lagwatch.core.model import GroupStatus
from lagwatch.errors import InputError, NotFoundError
from lagwatch.notify.database import Database
from lagwatch.notify.notice import level
from lagwatch.ports import (
    IncidentAsk,
    IncidentRecord,
    MessageState,
    Mute,
    NoticeAsk,
    NoticeRecord,
    Transition,
)

_NOTICES = (
    "SELECT n.number, n.key, n.incident, i.cluster, i.name, n.channel, n.event, n.severity,"
    " n.at_ms, n.message, coalesce(m.state, 'waiting') AS state, coalesce(m.attempts, 0) AS"
    " attempts, m.next_ms, coalesce(m.last_error, '') AS last_error, m.ended_ms"
    " FROM notices n JOIN incidents i ON i.id = n.incident"
    " LEFT JOIN messages m ON m.id = n.message"
)


class Records:
    """Answers for the HTTP layer."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
            opened_ms, _, incident = _read_cursor(ask.cursor).partition(":")
            where.append("(opened_ms, id) < (?, ?)")
            values += [_number(opened_ms), incident]
        rows = self._database.connection.execute(
            f"SELECT * FROM incidents WHERE {' AND '.join(where)}"  # noqa: S608 fixed words only
            " ORDER BY opened_ms DESC, id DESC LIMIT ?",
            (*values, ask.limit + 1),
        ).fetchall()
        page = rows[: ask.limit]
        more = len(rows) > ask.limit
        cursor = _cursor(f"{page[-1]['opened_ms']}:{page[-1]['id']}") if more else ""
        return [_incident(row, ()) for row in page], cursor

    def incident(self, incident: str) -> IncidentRecord:
        connection = self._database.connection
        row = connection.execute("SELECT * FROM incidents WHERE id = ?", (incident,)).fetchone()
        if row is None:
            raise NotFoundError(kind="incident", name=incident)
        transitions = connection.execute(
            "SELECT * FROM transitions WHERE incident = ? ORDER BY number", (incident,)
        )
        return _incident(row, tuple(_transition(one) for one in transitions))

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]:
        """Newest first."""
        where, values = ["1"], list[object]()
        given = (
            ("coalesce(m.state, 'waiting')", ask.state),
            ("n.channel", ask.channel),
            ("n.incident", ask.incident),
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

    def retry(self, message: str, *, now_ms: int) -> tuple[str, int]:
        """Try a dead message for as long again; returns its channel and its number of notices."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "UPDATE messages SET state = 'queued', next_ms = ?1, ended_ms = NULL,"
                " deadline_ms = ?1 + (deadline_ms - at_ms) WHERE id = ?2 AND state = 'dead'"
                " RETURNING channel",
                (now_ms, message),
            ).fetchone()
            if row is None:
                raise NotFoundError(kind="dead message", name=message)
            (count,) = connection.execute(
                "SELECT count(*) FROM notices WHERE message = ?", (message,)
            ).fetchone()
        return row["channel"], count

    def mutes(self, now_ms: int) -> list[Mute]:
        """Those that are not over."""
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
        with self._database.transaction() as connection:
            row = connection.execute(
                "INSERT INTO mutes VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING *",
                (uuid.uuid4().hex, cluster, group, reason, author, starts_ms, ends_ms),
            ).fetchone()
        return _mute(row, now_ms)

    def unmute(self, mute: str) -> None:
        with self._database.transaction() as connection:
            gone = connection.execute("DELETE FROM mutes WHERE id = ?", (mute,)).rowcount
        if not gone:
            raise NotFoundError(kind="mute", name=mute)


def _incident(row: sqlite3.Row, transitions: tuple[Transition, ...]) -> IncidentRecord:
    return IncidentRecord(
        id=row["id"],
        cluster=row["cluster"],
        group=row["name"],
        policy=row["policy"],
        severity=level(GroupStatus(row["severity"])),
        since_ms=row["since_ms"],
        opened_ms=row["opened_ms"],
        closed_ms=row["closed_ms"],
        told_ms=row["told_ms"],
        verdict=json.loads(row["verdict"]),
        transitions=transitions,
    )


def _transition(row: sqlite3.Row) -> Transition:
    return Transition(
        at_ms=row["at_ms"],
        act=row["act"],
        tell=row["tell"],
        severity=level(GroupStatus(row["severity"])),
        reason=row["reason"],
    )


def _notice(row: sqlite3.Row) -> NoticeRecord:
    state = MessageState(row["state"])
    return NoticeRecord(
        key=row["key"],
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
        next_attempt_ms=row["next_ms"] if state is MessageState.QUEUED else None,
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
        return int(text)
    except ValueError as error:
        raise _no_cursor() from error


def _no_cursor() -> InputError:
    return InputError(index=0, field="cursor", problem="is none that was answered")
