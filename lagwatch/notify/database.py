"""The SQLite file of the alerts: used by one process, upgraded, set aside when it is corrupt."""

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Self, TypeVar

import structlog

from lagwatch.errors import ConfigError, Fault
from lagwatch.lock_file import locked

T = TypeVar("T")
_VERSION: Final = 3
_BUSY_S: Final = 0.5
"""Longest wait for a lock that somebody else holds: the event loop waits, too."""
_LOG_PAGES: Final = 64
"""Pages (of 4 KiB) in the write-ahead log from which it is written into the file. SQLite's 1,000
fill a small disk before they are any use. One large transaction makes it longer for a while."""
_LOG_BYTES: Final = _LOG_PAGES * 4096
"""Size that the write-ahead log is cut to after a storm."""
_FULL: Final = ("disk is full", "disk I/O error")
"""What SQLite says when the file cannot grow."""
_LOCKED: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Its codes when another connection keeps the file."""
_SCHEMA: Final = """
CREATE TABLE payloads (number INTEGER PRIMARY KEY, size INTEGER NOT NULL, body BLOB NOT NULL)
STRICT;

CREATE TABLE incidents (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, about TEXT NOT NULL,
  cluster TEXT NOT NULL, name TEXT NOT NULL, policy TEXT NOT NULL, severity INTEGER NOT NULL,
  since_ms INTEGER NOT NULL, opened_ms INTEGER NOT NULL, closed_ms INTEGER,
  told INTEGER, told_ms INTEGER, held_back TEXT,
  quiet_until_ms INTEGER, complete REAL NOT NULL, summary TEXT NOT NULL,
  payload INTEGER, handed_on INTEGER NOT NULL DEFAULT 0,
  acknowledged_ms INTEGER, acknowledged_by TEXT NOT NULL DEFAULT '', named TEXT, held_ms INTEGER,
  since_at_least INTEGER, commit_ms INTEGER, alive_ms INTEGER, bad BLOB, lost INTEGER,
  error_ms INTEGER, worse_ms INTEGER
) STRICT;
CREATE INDEX incidents_open ON incidents (cluster, name) WHERE closed_ms IS NULL;
CREATE INDEX incidents_by_time ON incidents (opened_ms, number);
CREATE INDEX incidents_by_end ON incidents (closed_ms) WHERE closed_ms IS NOT NULL;

CREATE TABLE transitions (
  incident INTEGER NOT NULL REFERENCES incidents ON DELETE CASCADE, number INTEGER NOT NULL,
  at_ms INTEGER NOT NULL, act TEXT NOT NULL, tell TEXT NOT NULL, severity INTEGER NOT NULL,
  reason TEXT NOT NULL, PRIMARY KEY (incident, number)
) WITHOUT ROWID, STRICT;

CREATE TABLE notices (
  number INTEGER PRIMARY KEY,
  incident INTEGER NOT NULL REFERENCES incidents ON DELETE CASCADE, channel TEXT NOT NULL,
  step INTEGER NOT NULL, event TEXT NOT NULL, severity TEXT NOT NULL, reason TEXT NOT NULL,
  at_ms INTEGER NOT NULL, state TEXT NOT NULL, heard TEXT, thread TEXT, message TEXT,
  payload INTEGER, attempts INTEGER NOT NULL DEFAULT 0,
  tried_ms INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT '', ended_ms INTEGER,
  UNIQUE (incident, channel)
) STRICT;
CREATE INDEX notices_left ON notices (channel, state, number) WHERE state <> 'delivered';
CREATE INDEX notices_of_payload ON notices (payload) WHERE payload IS NOT NULL;

CREATE TABLE messages (
  number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, channel TEXT NOT NULL,
  at_ms INTEGER NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
  tried_ms INTEGER NOT NULL DEFAULT 0, last_error TEXT NOT NULL DEFAULT '',
  splits INTEGER NOT NULL DEFAULT 0, brief INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX messages_of ON messages (channel, number);

CREATE TABLE contents (
  message INTEGER NOT NULL REFERENCES messages ON DELETE CASCADE,
  notice INTEGER NOT NULL REFERENCES notices ON DELETE CASCADE, main INTEGER NOT NULL,
  step INTEGER NOT NULL, event TEXT NOT NULL, severity TEXT NOT NULL, at_ms INTEGER NOT NULL,
  payload INTEGER, PRIMARY KEY (message, notice)
) WITHOUT ROWID, STRICT;
CREATE INDEX contents_of ON contents (notice);
CREATE INDEX contents_of_payload ON contents (payload);

CREATE TABLE channels (name TEXT PRIMARY KEY, kind TEXT NOT NULL) WITHOUT ROWID, STRICT;

CREATE TABLE mutes (
  id TEXT PRIMARY KEY, cluster TEXT NOT NULL, name TEXT NOT NULL, reason TEXT NOT NULL,
  author TEXT NOT NULL, starts_ms INTEGER NOT NULL, ends_ms INTEGER NOT NULL
) STRICT;
"""
"""`told`, `told_ms`: severity and time of the last notice of an incident."""

_ADDED: Final = """
CREATE TABLE IF NOT EXISTS budgets (
  cluster TEXT NOT NULL, name TEXT NOT NULL, policy TEXT NOT NULL, last_ms INTEGER NOT NULL,
  body BLOB NOT NULL, PRIMARY KEY (cluster, name, policy)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS objectives (
  policy TEXT PRIMARY KEY, limits TEXT NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS measured (
  cluster TEXT PRIMARY KEY, until_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS unseen (
  cluster TEXT NOT NULL, from_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL,
  PRIMARY KEY (cluster, from_ms)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS unreachable (
  cluster TEXT PRIMARY KEY, for_s REAL NOT NULL, at_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS pauses (
  channel TEXT PRIMARY KEY, until_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
"""
"""Tables that files of this version may lack. An older program leaves them alone. `objectives`: the
limits under which budgets were spent; `measured`: up to when each cluster was seen; `unseen`: when
it was not; `unreachable`: for how long none of its brokers has answered."""
_ADDED_TO_INCIDENTS: Final = (
    ("named", "TEXT"),
    ("held_ms", "INTEGER"),
    ("since_at_least", "INTEGER"),
    ("commit_ms", "INTEGER"),
    ("alive_ms", "INTEGER"),
    ("bad", "BLOB"),
    ("lost", "INTEGER"),
    ("error_ms", "INTEGER"),
    ("worse_ms", "INTEGER"),
    ("again_ms", "INTEGER"),
    ("good_ms", "INTEGER"),
)
"""Columns that it leaves alone, too. `held_ms`: since when the end is held back by a mute;
`commit_ms`, `alive_ms`: the last signs of life of the group when the incident was written; `bad`:
when each of its partitions was last seen bad; `lost`: messages lost, as the last notice says;
`error_ms`, `worse_ms`: when it became an ERROR, and of a worse kind, if it was neither at first;
`again_ms`: when its trouble began again after a while without; `good_ms`: since when the group of
an open one is good."""

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
        self._lost_file = ""
        """Why the file, which was deleted or replaced, cannot be written anew; ""."""
        self._path = path
        self._on_disk: sqlite3.Connection | None = None
        """The file while everything is kept in memory, because it cannot be written."""
        self._why_in_memory = ""
        self._version_on_disk = 0
        """SQLite's `data_version` of the file when the copy in memory was made."""
        self._wrote = True
        """Since the last look of `tidy`."""
        self._lock = _lock(path)
        try:
            self.connection = self._opened(path, now_ms)
            self._file = _identity(path)
            self._empty_log()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do `work` in a transaction.

        While the disk is full or the file locked, it is done in memory.

        Raises:
            sqlite3.Error: nothing has changed.
        """
        self._wrote = True
        try:
            with self.transaction() as connection:
                return work(connection)
        except sqlite3.OperationalError as error:
            if self.in_memory or not _why(error):
                raise
            self._move_into_memory(error)
        with self.transaction() as connection:
            return work(connection)

    def measured_until_ms(self, cluster: str) -> int:
        """When a cluster was seen last, as far as it was written; 0: never."""
        row = self.connection.execute(
            "SELECT until_ms FROM measured WHERE cluster = ?", (cluster,)
        ).fetchone()
        return 0 if row is None else int(row["until_ms"])

    def tidy(self, now_ms: int) -> None:
        """Give the room of the write-ahead log back once nothing has been written for a while.

        Called from time to time: nothing was written between two calls. A file that was deleted or
        replaced meanwhile is written anew: what is decided would be lost with the process.
        """
        if not self.in_memory and _identity(self._path) != self._file:
            self._write_anew(now_ms)
        wrote, self._wrote = self._wrote, False
        if not wrote and not self.in_memory:
            self._empty_log()

    def _empty_log(self) -> None:
        """Write the log into the file and truncate it, if there is room and no reader."""
        with contextlib.suppress(sqlite3.Error), _without_waiting(self.connection):
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @property
    def problem(self) -> str:
        """Why all is kept in memory only, and would be lost by a crash; ""."""
        if self.in_memory:
            return f"{self._why_in_memory}: incidents and notices are kept in memory only"
        if self._lost_file:
            return (
                f"{self._path} was deleted and cannot be written anew: {self._lost_file}; "
                "incidents and notices are kept in memory only"
            )
        return ""

    @property
    def in_memory(self) -> bool:
        """True if everything is kept in memory, and would be lost by a crash."""
        return self._on_disk is not None

    def return_to_disk(self) -> bool:
        """Write what is kept in memory back to the file; False: it still cannot be written.

        The copy is one transaction, so the file is the old or the new one, never a mixture. Takes
        no time while the file is locked.
        """
        if self._on_disk is None:
            return True
        try:
            # SQLite looks for locks only after the work below
            self._on_disk.execute("BEGIN IMMEDIATE")
            self._on_disk.execute("ROLLBACK")
            changed = _data_version(self._on_disk) != self._version_on_disk
            # the copy takes the pages that storms have left empty along, and room is scarce
            self.connection.execute("VACUUM")
            _copy(self.connection, self._on_disk)
        except sqlite3.Error as error:
            self._why_in_memory = _why(error) or self._why_in_memory
            return False
        if changed:
            _log.warning("alerts_file_overwritten", file=str(self._path))
        _wait_for_locks(self._on_disk, _BUSY_S)
        self.connection.close()
        self.connection, self._on_disk = self._on_disk, None
        self._empty_log()
        _log.info("alerts_kept_on_disk_again", file=str(self._path))
        return True

    def close(self) -> None:
        if self._on_disk is not None:
            _wait_for_locks(self._on_disk, _BUSY_S)  # there is no next time
        if not self.return_to_disk() and self._on_disk is not None:
            _log.error("alerts_lost", file=str(self._path), reason=self._why_in_memory)
            self._on_disk.close()
        self.connection.close()
        self._lock.close()

    def _move_into_memory(self, error: sqlite3.Error) -> None:
        """Go on in memory with all that the file holds.

        Raises:
            sqlite3.Error: it cannot be read.
        """
        if self._on_disk is not None:
            return
        version = _data_version(self.connection)
        self._on_disk, self.connection = self.connection, _in_memory(self.connection)
        self._why_in_memory, self._version_on_disk = _why(error), version
        _wait_for_locks(self._on_disk, 0)
        _log.error("alerts_kept_in_memory", file=str(self._path), reason=str(error))

    def _write_anew(self, now_ms: int) -> None:
        """Write all to the path again; another file that is there now is moved aside."""
        try:
            memory = _in_memory(self.connection)
        except sqlite3.Error as error:  # the next look tries again
            _log.error("alerts_file_gone", file=str(self._path), reason=str(error))
            return
        # first: with its last connection SQLite deletes the log that has the name of this file's
        self.connection.close()
        self.connection = memory
        try:
            aside = _move_away(self._path, f"replaced-{now_ms}")
            fresh = _connect(self._path)
            _copy(memory, fresh)
        except (OSError, sqlite3.Error) as error:
            if str(error) != self._lost_file:
                _log.error("alerts_file_gone", file=str(self._path), reason=str(error))
            self._lost_file = str(error)
            return
        self._lost_file = ""
        memory.close()
        self.connection, self._file = fresh, _identity(self._path)
        _log.error("alerts_file_written_anew", file=str(self._path), moved_to=str(aside or ""))

    def _opened(self, path: Path, now_ms: int) -> sqlite3.Connection:
        try:
            return _connect(path)
        except sqlite3.OperationalError as error:
            remedy = _NEWER if isinstance(error, NewerFileError) else _OWN_FILE
            raise _unusable(path, str(error), remedy) from error
        except sqlite3.DatabaseError as error:
            self.set_aside = _move_away(path, f"corrupt-{now_ms}")
            _log.error(
                "alerts_file_set_aside",
                file=str(path),
                moved_to=str(self.set_aside),
                reason=str(error),
            )
            return _connect(path)


def _why(error: sqlite3.Error) -> str:
    """Why the file cannot be written for a while, in words; "" if that is not what is wrong."""
    if _is_full(error):
        return "the disk is full"
    # extended codes have the code in their last byte
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED:
        return "the file is locked by another process"
    return ""


def _is_full(error: sqlite3.Error) -> bool:
    """Could the file not grow?"""
    return any(words in str(error) for words in _FULL)


def _data_version(connection: sqlite3.Connection) -> int:
    """A number that changes with each change that others make to the file."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _wait_for_locks(connection: sqlite3.Connection, within_s: float) -> None:
    """Set how long each statement waits for others' locks."""
    connection.execute(f"PRAGMA busy_timeout = {round(within_s * 1000)}").fetchall()


@contextlib.contextmanager
def _without_waiting(connection: sqlite3.Connection) -> Iterator[None]:
    """Statements fail at once if others hold a lock."""
    _wait_for_locks(connection, 0)
    try:
        yield
    finally:
        _wait_for_locks(connection, _BUSY_S)


def _copy(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Copy all of a file into another one.

    Raises:
        sqlite3.Error: one of them cannot be used, or is locked.
    """

    def give_up_on_locks(status: int, _left: int, _pages: int) -> None:
        # `backup` alone would try again for ever, and the event loop would wait with it
        if status & 0xFF in _LOCKED:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = status
            raise error

    source.backup(target, progress=give_up_on_locks)


def _connect(path: Path) -> sqlite3.Connection:
    if path.parent.is_dir() and not path.exists():
        path.touch(mode=0o600)  # the files beside it get the same mode
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
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    connection.execute("PRAGMA foreign_keys = ON")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    try:
        # SQLite opens a file that it may not write, and says so only with the first change
        connection.execute(f"PRAGMA user_version = {version}")
    except sqlite3.OperationalError as error:
        if not _is_full(error):
            raise
    if version == 0:
        connection.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version = {_VERSION};COMMIT;")
    elif version == 1:
        _from_version_1(connection)
    elif version == 2:  # noqa: PLR2004 the layout before
        _from_version_2(connection)
    elif version != _VERSION:
        raise NewerFileError(f"it has version {version}, this program reads {_VERSION}")
    connection.executescript(_ADDED)
    columns = {row["name"] for row in connection.execute("PRAGMA table_info(incidents)")}
    for name, kind in _ADDED_TO_INCIDENTS:
        if name not in columns:
            connection.execute(f"ALTER TABLE incidents ADD COLUMN {name} {kind}")


def _from_version_1(connection: sqlite3.Connection) -> None:
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
            f"BEGIN IMMEDIATE;{without}{aside}{_SCHEMA}{_COPY}{drop}"
            f"PRAGMA user_version = {_VERSION};COMMIT;"
        )
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    finally:
        connection.execute("PRAGMA foreign_keys = ON")


def _from_version_2(connection: sqlite3.Connection) -> None:
    """Add what is kept about acknowledgement and escalation."""
    connection.executescript(
        "BEGIN IMMEDIATE;"
        "ALTER TABLE incidents ADD COLUMN handed_on INTEGER NOT NULL DEFAULT 0;"
        "ALTER TABLE incidents ADD COLUMN acknowledged_ms INTEGER;"
        "ALTER TABLE incidents ADD COLUMN acknowledged_by TEXT NOT NULL DEFAULT '';"
        f"PRAGMA user_version = {_VERSION};COMMIT;"
    )


def _in_memory(connection: sqlite3.Connection) -> sqlite3.Connection:
    """A copy of all that a file holds.

    Raises:
        sqlite3.Error: it cannot be read, or is locked.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        _copy(connection, memory)
    except sqlite3.Error:
        memory.close()
        raise
    memory.row_factory = sqlite3.Row
    memory.execute("PRAGMA foreign_keys = ON")
    memory.execute("PRAGMA temp_store = MEMORY")
    return memory


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _move_away(path: Path, suffix: str) -> Path | None:
    """Rename a file and its logs; None without a file."""
    aside = path.with_name(f"{path.name}.{suffix}")
    for part in ("-wal", "-shm", ""):
        source = path.with_name(path.name + part)
        if source.exists():
            source.rename(aside.with_name(aside.name + part))
    return aside if aside.exists() else None


class NewerFileError(sqlite3.OperationalError):
    """The file was written by a newer version of lagwatch."""


_OWN_FILE: Final = "Give each lagwatch a file of its own in a folder it may write to."
_NEWER: Final = (
    "Start the version of lagwatch that wrote it, or a newer one; or name another file, which "
    "begins without the open incidents."
)


def _lock(path: Path) -> IO[bytes]:
    try:
        return locked(path.with_name(path.name + ".lock"))
    except BlockingIOError as error:
        raise _unusable(path, "another lagwatch uses it") from error
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from error


def _unusable(path: Path, problem: str, remedy: str = _OWN_FILE) -> ConfigError:
    return ConfigError(
        [
            Fault(
                key="alerts.file",
                value=f'"{path}"',
                problem=f"cannot be used: {problem}",
                remedy=remedy,
            )
        ]
    )
