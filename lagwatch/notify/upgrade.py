"""Take over a file that an earlier version of lagwatch wrote."""

import sqlite3
import zlib
from typing import Final

_OLD_TABLES: Final = ("incidents", "transitions", "messages", "notices", "mutes")

_COPY: Final = """
INSERT INTO payloads (number, size, body) SELECT number, length(payload), squeeze(payload)
  FROM old_notices WHERE number IN (SELECT max(number) FROM old_notices GROUP BY incident, channel);
INSERT INTO incidents (id, about, cluster, name, policy, severity, since_ms, opened_ms, closed_ms,
    told, told_ms, held_back, quiet_until_ms, complete, summary, payload)
  SELECT id, 'group', cluster, name, policy, severity, since_ms, opened_ms, closed_ms, told,
    told_ms, held_back, quiet_until_ms, complete, '{}',
    (SELECT max(n.number) FROM old_notices n WHERE n.incident = i.id AND i.closed_ms IS NULL)
  FROM old_incidents i ORDER BY opened_ms;
INSERT INTO transitions SELECT i.number, t.number, t.at_ms, t.act, t.tell, t.severity, t.reason
  FROM old_transitions t JOIN incidents i ON i.id = t.incident;
INSERT INTO notices (incident, channel, step, event, severity, reason, at_ms, state, heard, thread,
    message, payload, attempts, last_error, ended_ms)
  SELECT i.number, n.channel, n.number, n.event, n.severity, '', n.at_ms,
    CASE coalesce(m.state, 'waiting') WHEN 'queued' THEN 'waiting' ELSE coalesce(m.state, 'waiting')
      END,
    (SELECT h.severity FROM old_notices h JOIN old_messages d ON d.id = h.message
      WHERE h.incident = n.incident AND h.channel = n.channel AND d.state = 'delivered'
      ORDER BY h.number DESC LIMIT 1),
    (SELECT f.message FROM old_notices f WHERE f.incident = n.incident AND f.channel = n.channel
      AND f.event = 'open' AND f.message IS NOT NULL ORDER BY f.number LIMIT 1),
    n.message, CASE coalesce(m.state, '') WHEN 'delivered' THEN NULL ELSE n.number END,
    coalesce(m.attempts, 0), coalesce(m.last_error, ''), m.ended_ms
  FROM old_notices n JOIN incidents i ON i.id = n.incident
    LEFT JOIN old_messages m ON m.id = n.message
  WHERE n.number IN (SELECT max(number) FROM old_notices GROUP BY incident, channel)
  ORDER BY n.number;
INSERT INTO mutes SELECT * FROM old_mutes;
DELETE FROM payloads WHERE number NOT IN
  (SELECT payload FROM notices WHERE payload IS NOT NULL
   UNION SELECT payload FROM incidents WHERE payload IS NOT NULL);
"""


def from_version_1(connection: sqlite3.Connection, schema: str, version: int) -> None:
    """Copy incidents, their newest notice for each channel, and mutes; all or nothing."""
    connection.create_function("squeeze", 1, lambda text: zlib.compress(text.encode()))
    connection.execute("PRAGMA foreign_keys = OFF")
    aside = "".join(f"ALTER TABLE {table} RENAME TO old_{table};" for table in _OLD_TABLES)
    indices = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
    )
    without = "".join(f"DROP INDEX {row[0]};" for row in indices.fetchall())
    drop = "".join(f"DROP TABLE old_{table};" for table in reversed(_OLD_TABLES))
    try:
        connection.executescript(
            f"BEGIN IMMEDIATE;{without}{aside}{schema}{_COPY}{drop}"
            f"PRAGMA user_version = {version};COMMIT;"
        )
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def from_version_2(connection: sqlite3.Connection, version: int) -> None:
    """Add what is kept about acknowledgement and escalation."""
    connection.executescript(
        "BEGIN IMMEDIATE;"
        "ALTER TABLE incidents ADD COLUMN handed_on INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE incidents ADD COLUMN acknowledged_ms INTEGER;"
        "ALTER TABLE incidents ADD COLUMN acknowledged_by TEXT NOT NULL DEFAULT '';"
        f"PRAGMA user_version = {version};COMMIT;"
    )
