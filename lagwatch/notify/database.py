"""The SQLite file behind the alerts: opened by one process, set aside when it is corrupt."""

import contextlib
import fcntl
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import structlog

from lagwatch.errors import ConfigError, Fault

_VERSION: Final = 1
_BUSY_S: Final = 0.5
"""Longest wait for a lock that somebody else holds: the event loop waits, too."""
_SCHEMA: Final = """
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

_log = structlog.get_logger()


class Database:
    """One connection, in WAL mode; a transaction survives the death of the process."""

    def __init__(self, path: Path, *, now_ms: int) -> None:
        """Open or create the file.

        Raises:
            ConfigError: the file cannot be used, or another process uses it.
        """
        self.set_aside: Path | None = None
        """Where a corrupt file was moved to."""
        self._lock = _lock(path)
        try:
            self.connection = self._opened(path, now_ms)
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield self.connection
            self.connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self.connection.close()
        self._lock.close()

    def _opened(self, path: Path, now_ms: int) -> sqlite3.Connection:
        try:
            return _connect(path)
        except sqlite3.OperationalError as error:
            raise _unusable(path, str(error)) from error
        except sqlite3.DatabaseError as error:
            self.set_aside = _move_away(path, now_ms)
            _log.error(
                "alerts_file_set_aside",
                file=str(path),
                moved_to=str(self.set_aside),
                reason=str(error),
            )
            return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_S)
    try:
        _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {_VERSION};COMMIT;")
    elif version != _VERSION:
        raise sqlite3.OperationalError(f"it has version {version}, this program {_VERSION}")


def _move_away(path: Path, now_ms: int) -> Path:
    aside = path.with_name(f"{path.name}.corrupt-{now_ms}")
    for suffix in ("", "-wal", "-shm"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.rename(aside.with_name(aside.name + suffix))
    return aside


def _lock(path: Path) -> IO[bytes]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(path.name + ".lock").open("wb")
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise _unusable(path, "another lagwatch uses it") from error
    return lock


def _unusable(path: Path, problem: str) -> ConfigError:
    return ConfigError(
        [
            Fault(
                key="alerts.file",
                value=f'"{path}"',
                problem=f"cannot be used: {problem}",
                remedy="Give each lagwatch a file of its own in a folder it may write to.",
            )
        ]
    )
