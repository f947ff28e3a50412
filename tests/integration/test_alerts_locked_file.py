"""Another process locks the file of the alerts: nothing waits for it, and nothing is lost."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from lagwatch.notify.database import Database, _in_memory
from tests.support.fleet import CLUSTER, Fleet, ShiftedClock, alert_settings
from tests.support.receiver import receiving
from tests.support.running_alerts import running
from tests.support.waiting import eventually

_POLICY = "group_wait_s = 0.02\n[alerts.policies.all]\nclose_for_s = 0\nreopen_s = 0\n"
_LOCKED = "the file is locked by another process: incidents and notices are kept in memory only"


@contextmanager
def locking(file: Path) -> Iterator[sqlite3.Connection]:
    """Another connection that keeps the file for itself."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        try:
            yield other
        finally:
            if other.in_transaction:
                other.execute("ROLLBACK")


def seconds(work: Callable[[], object]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


def add_mute(database: Database, identity: str) -> None:
    database.write(
        lambda connection: connection.execute(
            "INSERT INTO mutes VALUES (?, 'c', 'g', 'r', 'a', 0, 1)", (identity,)
        )
    )


def mutes(file: Path) -> set[str]:
    """Those in the file, as another process reads them."""
    with closing(sqlite3.connect(file)) as reader:
        return {identity for (identity,) in reader.execute("SELECT id FROM mutes")}


def test_incidents_are_opened_and_mutes_are_taken_while_another_process_locks_the_file(
    tmp_path,
) -> None:
    clock = ShiftedClock()
    groups = [f"g{number:02}" for number in range(20)]
    with receiving() as receiver:
        hook = f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nper_minute = 6000\n'
        settings = alert_settings(tmp_path, _POLICY + hook)
        fleet = Fleet(groups, clock)
        with running(settings, clock) as alerts:
            alerts.sees(fleet)
            with locking(settings.alerts.file):
                fleet.fail(*groups)
                alerts.sees(fleet)
                waited_s = [
                    alerts.call(lambda: seconds(lambda: fleet.shown_to(alerts.alerts)))
                    for _ in range(10)
                ]
                eventually(lambda: len(receiver.notices) == 20 and alerts.idle(), "all openings")
                mute = alerts.call(
                    lambda: alerts.alerts.mute(
                        cluster=CLUSTER,
                        group="g00",
                        reason="works",
                        author="me",
                        starts_ms=clock.now_ms(),
                        ends_ms=clock.now_ms() + 3_600_000,
                    )
                )
                problem = alerts.alerts.problem
                in_file = mutes(settings.alerts.file)
            eventually(lambda: not alerts.alerts.problem, "the return to the file", timeout_s=60)
            in_file_later = mutes(settings.alerts.file)

        with running(settings, clock) as alerts:
            counts = alerts.call(alerts.alerts.counts)
            kept = alerts.call(alerts.alerts.mutes)

    assert problem == _LOCKED
    assert sum(waited_s) < 2.5, "half a second each before"
    assert (in_file, in_file_later) == (set(), {mute.id})
    assert [each.id for each in kept] == [mute.id]
    assert counts.open_incidents == {CLUSTER: 20}
    assert counts.undelivered.get("hook", 0) == 0
    assert len(receiver.notices) == 20, "each once"


def test_only_the_first_write_waits_for_the_lock(tmp_path) -> None:
    file = tmp_path / "alerts.sqlite"
    with Database(file, now_ms=1) as database:
        with locking(file):
            add_mute(database, "0")
            waited_s = 0.0
            for number in range(1, 50):
                waited_s += seconds(lambda: add_mute(database, f"{number}"))  # noqa: B023
                waited_s += seconds(database.return_to_disk)
            problem, still = database.problem, database.return_to_disk()
        back = database.return_to_disk()
        in_file = mutes(file)
        with locking(file):
            again_s = seconds(lambda: add_mute(database, "again"))

    assert waited_s < 5, "25 s before"
    assert (problem, still, back) == (_LOCKED, False, True)
    assert in_file == {str(number) for number in range(50)}
    assert again_s > 0.3, "a lock that is held for a moment is waited for"
    assert mutes(file) == in_file | {"again"}


def test_giving_room_back_does_not_wait_for_locks(tmp_path) -> None:
    file = tmp_path / "alerts.sqlite"
    with Database(file, now_ms=1) as database:
        add_mute(database, "before")
        database.tidy(1)
        with locking(file):
            waited_s = sum(seconds(lambda: database.tidy(2)) for _ in range(20))
        database.tidy(3)
        log_bytes = file.with_name(file.name + "-wal").stat().st_size

    assert waited_s < 4, "10 s before"
    assert log_bytes == 0


def test_a_file_that_cannot_even_be_read_is_an_error_and_no_endless_wait(tmp_path) -> None:
    file = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(file, timeout=0)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.commit()
        with (
            locking(file),  # without a write-ahead log readers are kept out as well
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            _in_memory(connection)


def test_what_is_lost_because_the_file_is_locked_at_the_end_is_said(tmp_path) -> None:
    file = tmp_path / "alerts.sqlite"
    database = Database(file, now_ms=1)
    with locking(file), capture_logs() as logs:
        add_mute(database, "lost")
        database.close()

    (lost,) = [log for log in logs if log["event"] == "alerts_lost"]
    assert lost["reason"] == "the file is locked by another process"
    with Database(file, now_ms=2):
        assert mutes(file) == set()


@pytest.mark.parametrize("changes", [True, False])
def test_it_is_said_when_what_another_process_wrote_is_overwritten(tmp_path, changes) -> None:
    file = tmp_path / "alerts.sqlite"
    with Database(file, now_ms=1) as database, capture_logs() as logs:
        with locking(file) as other:
            add_mute(database, "ours")
            if changes:
                other.execute("INSERT INTO mutes VALUES ('theirs', 'c', 'g', 'r', 'a', 0, 1)")
                other.execute("COMMIT")
        database.return_to_disk()

    assert mutes(file) == {"ours"}
    assert ("alerts_file_overwritten" in [log["event"] for log in logs]) is changes
