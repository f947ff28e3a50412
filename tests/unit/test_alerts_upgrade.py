"""A file of the first layout is taken over: incidents, mutes, and what was not delivered yet."""

import contextlib
import json
import sqlite3
import zlib
from pathlib import Path

import orjson
import pytest

from lagwatch.core.model import GroupStatus
from lagwatch.errors import ConfigError
from lagwatch.notify.channels.base import ChannelLimits
from lagwatch.notify.database import Database
from lagwatch.notify.notice import pack, unpack
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.records import AlertRecords
from lagwatch.notify.store import IncidentStore
from lagwatch.ports.alerts import IncidentAsk, NoticeAsk
from tests.support.alert_situations import situations
from tests.support.stepped_delivery import Unsteady, world

_FIRST_LAYOUT = """
CREATE TABLE incidents (
  id TEXT PRIMARY KEY, cluster TEXT NOT NULL, name TEXT NOT NULL, policy TEXT NOT NULL,
  severity INTEGER NOT NULL, since_ms INTEGER NOT NULL, opened_ms INTEGER NOT NULL,
  closed_ms INTEGER, told INTEGER, told_ms INTEGER, held_back TEXT, quiet_until_ms INTEGER,
  complete REAL NOT NULL, verdict TEXT NOT NULL
) STRICT;
CREATE INDEX incidents_open ON incidents (cluster, name) WHERE closed_ms IS NULL;
CREATE INDEX incidents_by_time ON incidents (opened_ms, id);
CREATE INDEX incidents_by_end ON incidents (closed_ms);

CREATE TABLE transitions (
  number INTEGER PRIMARY KEY, incident TEXT NOT NULL REFERENCES incidents ON DELETE CASCADE,
  at_ms INTEGER NOT NULL, act TEXT NOT NULL, tell TEXT NOT NULL, severity INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX transitions_of ON transitions (incident);

CREATE TABLE messages (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, channel TEXT NOT NULL,
  at_ms INTEGER NOT NULL, next_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'queued',
  last_error TEXT NOT NULL DEFAULT '', ended_ms INTEGER
) STRICT;
CREATE INDEX messages_queued ON messages (channel, next_ms) WHERE state = 'queued';

CREATE TABLE notices (
  number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
  incident TEXT NOT NULL REFERENCES incidents ON DELETE CASCADE, channel TEXT NOT NULL,
  event TEXT NOT NULL, severity TEXT NOT NULL, at_ms INTEGER NOT NULL,
  message TEXT REFERENCES messages (id), payload TEXT NOT NULL
) STRICT;
CREATE INDEX notices_of ON notices (incident, channel);
CREATE INDEX notices_in ON notices (message);
CREATE INDEX notices_waiting ON notices (channel, number) WHERE message IS NULL;

CREATE TABLE mutes (
  id TEXT PRIMARY KEY, cluster TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL,
  author TEXT NOT NULL, starts_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL
) STRICT;
"""


def payload(incident: str, event: str) -> str:
    """A notice as the first layout kept it."""
    document = {
        "key": f"{incident}.1.hook",
        "incident": incident,
        "event": event,
        "cluster": "prod",
        "group": incident,
        "severity": "error",
        "reason": "first",
        "policy": "all",
        "since_ms": 1,
        "opened_ms": 2,
        "at_ms": 3,
        "url": "",
        "verdict": {"rule": "stopped"},
        "thread": "",
        "thread_open": 0,
        "curve": [[1, 2]],
        "curve_of": "total lag",
    }
    return json.dumps(document)


def first_layout(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(_FIRST_LAYOUT + "PRAGMA user_version = 1;")
    for name, closed_ms in (("delivered", None), ("queued", None), ("waiting", None), ("old", 9)):
        connection.execute(
            "INSERT INTO incidents VALUES (?, 'prod', ?, 'all', 2, 1, 2, ?, 2, 3, NULL, NULL, 1.0,"
            " '{}')",
            (name, name, closed_ms),
        )
        connection.execute(
            "INSERT INTO transitions (incident, at_ms, act, tell, severity, reason)"
            " VALUES (?, 2, 'open', 'open', 2, 'first')",
            (name,),
        )
    for name in ("delivered", "queued"):
        connection.execute(
            "INSERT INTO messages (id, channel, at_ms, next_ms, deadline_ms, attempts, state)"
            " VALUES (?, 'hook', 3, 3, 99, 1, ?)",
            (f"m-{name}", name),
        )
    for name, message in (("delivered", "m-delivered"), ("queued", "m-queued"), ("waiting", None)):
        connection.execute(
            "INSERT INTO notices (key, incident, channel, event, severity, at_ms, message, payload)"
            " VALUES (?, ?, 'hook', 'open', 'error', 3, ?, ?)",
            (f"{name}.1.hook", name, message, payload(name, "open")),
        )
    connection.execute("INSERT INTO mutes VALUES ('m', 'prod', 'g', 'why', 'me', 1, 99)")
    connection.commit()
    connection.close()


def test_open_incidents_and_undelivered_notices_are_taken_over(tmp_path) -> None:
    path = tmp_path / "alerts.sqlite"
    first_layout(path)

    with Database(path, now_ms=10) as database:
        kept = {record.group for record in IncidentStore(database).kept(10)}
        states = {
            notice.group: notice.state for notice in AlertRecords(database).notices(NoticeAsk())[0]
        }
        outbox = Outbox(database)
        assert outbox.pack("hook", ChannelLimits(), 10)
        message = outbox.sealed("hook")
        standing = outbox.standing("hook")
        mutes = AlertRecords(database).mutes(10)
        broken = database.connection.execute("PRAGMA foreign_key_check").fetchall()

    assert database.set_aside is None
    assert kept == {"delivered", "queued", "waiting"}
    assert states == {"delivered": "delivered", "queued": "waiting", "waiting": "waiting"}
    assert message is not None
    assert {notice.group for notice in message.notices} == {"queued", "waiting"}
    assert [incident.group for incident in standing] == ["delivered"]
    assert [mute.id for mute in mutes] == ["m"]
    assert broken == []


def test_a_file_of_the_second_layout_keeps_its_incidents(tmp_path) -> None:
    path = tmp_path / "alerts.sqlite"
    first_layout(path)
    with Database(path, now_ms=10) as database:
        added = ["handed_on", "acknowledged_ms", "acknowledged_by", "named", "since_at_least"]
        added += ["commit_ms", "alive_ms"]
        for column in added:
            database.connection.execute(f"ALTER TABLE incidents DROP COLUMN {column}")
        database.connection.execute("PRAGMA user_version = 2")

    with Database(path, now_ms=10) as database:
        kept = list(IncidentStore(database).kept(10))
        AlertRecords(database).acknowledge("queued", "me", 11)
        acknowledged = AlertRecords(database).incident("queued")

    assert {each.group for each in kept} == {"delivered", "queued", "waiting"}
    assert not any(each.state.incident.handed_on for each in kept if each.state.incident)
    assert all(each.state.incident.named is None for each in kept if each.state.incident)
    assert not any(each.state.incident.since_at_least for each in kept if each.state.incident)
    assert (acknowledged.acknowledged_ms, acknowledged.acknowledged_by) == (11, "me")


def test_an_incident_that_began_unseen_did_so_after_a_restart_too(tmp_path) -> None:
    with world(tmp_path, Unsteady(lambda: None)) as here:
        here.bad("billing", GroupStatus.ERR, since_at_least=True)
        here.bad("mailer", GroupStatus.ERR)

        kept = {each.group: each.state.incident for each in here.store.kept(0)}
        records = AlertRecords(here.database)
        shown, _ = records.incidents(IncidentAsk())
        since = records.in_trouble_since(shown[0].cluster)

    found = {group: each is not None and each.since_at_least for group, each in kept.items()}
    assert found == {"billing": True, "mailer": False}
    assert {each.group: each.since_at_least for each in shown} == found
    assert {group: each.at_least for group, each in since.items()} == found


def test_what_a_later_version_wrote_into_a_notice_besides_is_ignored() -> None:
    notice = situations()["stopped"].notices[0]
    document = orjson.loads(zlib.decompress(pack(notice)[1]))
    stored = zlib.compress(orjson.dumps(document | {"invented_later": {"a": [1]}}))

    assert unpack(stored) == unpack(pack(notice)[1])


def test_a_file_of_a_later_version_is_refused_and_left_alone(tmp_path) -> None:
    path = tmp_path / "alerts.sqlite"
    with Database(path, now_ms=1) as database:
        database.connection.execute("PRAGMA user_version = 99")

    with pytest.raises(ConfigError, match="version 99"):
        Database(path, now_ms=1)


def test_a_file_of_a_newer_version_asks_for_that_version(tmp_path: Path) -> None:
    path = tmp_path / "alerts.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(ConfigError, match="Start the version of lagwatch that wrote it"):
        Database(path, now_ms=1)


def test_only_the_owner_may_read_the_file_and_its_log(tmp_path: Path) -> None:
    with Database(tmp_path / "alerts.sqlite", now_ms=0):
        files = {file.name: file.stat().st_mode & 0o077 for file in tmp_path.glob("*.sqlite*")}

    files.pop("alerts.sqlite.lock")  # is empty
    assert files.keys() > {"alerts.sqlite"}
    assert set(files.values()) == {0}
