"""Killed at any moment, alerts lose nothing and send nothing twice."""

import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from shutil import copy2

import pytest
from structlog.testing import capture_logs

from lagwatch.config.load import load
from lagwatch.config.settings import Settings
from lagwatch.core.model import Rule, RuleSet
from lagwatch.errors import ConfigError
from lagwatch.notify.database import Database
from tests.support.fleet import Fleet, ShiftedClock, alert_settings
from tests.support.receiver import Receiver, Reply, Request, receiving
from tests.support.running_alerts import Running, running
from tests.support.thorough import rounds
from tests.support.waiting import eventually

_ROOT = Path(__file__).parents[2]
_CHILD = _ROOT / "tests" / "support" / "alerts_child.py"
_ROUNDS = rounds(50, quick=12)
_RENAMES = rounds(30, quick=8)


def _lasting(request: Request) -> dict[str, object]:
    """What a message says at every attempt: not what is known only then."""
    notices = [{**notice, "newest": None} for notice in request.json["notices"]]
    return {**request.json, "notices": notices, "open_groups": None, "subject": ""}


@pytest.mark.timeout(560)
def test_kills_between_transition_and_delivery_lose_and_double_nothing(
    tmp_path: Path,
) -> None:
    chance = random.Random(6)  # noqa: S311
    with receiving() as receiver:
        config = _configured(tmp_path, receiver)

        for number in range(1, _ROUNDS + 1):
            # some die before the first attempt, some after it, and every fourth during it
            during, known = number % 4 == 0, len(receiver.requests)
            late_s = 60 if during else chance.choice([0, 0.05, 0.2])
            receiver.replies[:] = [Reply(after_s=late_s)]
            with _child(config, failing=number) as child:
                _line(child, "kept")
                if during:
                    eventually(lambda: len(receiver.requests) > known, "an attempt")  # noqa: B023 asked at once
                else:
                    _pause(chance.choice([0, 0, 0.01, 0.05, 0.1, 0.3]))
                child.kill()
        receiver.replies[:] = []
        with _child(config, failing=_ROUNDS) as child:
            _line(child, "kept")
            _line(child, "empty")
            child.kill()

        assert len(receiver.requests) > len({request.key for request in receiver.requests}), (
            "no kill fell between an attempt and its record: the test would prove nothing"
        )
        # every attempt of a message carries the same key and the same notices …
        sent = {request.key: _lasting(request) for request in receiver.requests}
        for request in receiver.requests:
            assert _lasting(request) == sent[request.key]
        # … so a receiver that knows the keys has heard of each transition exactly once
        by_key = {request.key: request.json["notices"] for request in receiver.requests}
        heard = Counter(
            (notice["group"], notice["event"]) for notices in by_key.values() for notice in notices
        )
        expected = {(f"g{number:03}", "open"): 1 for number in range(_ROUNDS)}
        assert heard == expected
        assert len({n["key"] for notices in by_key.values() for n in notices}) == _ROUNDS


@pytest.mark.timeout(560)
@pytest.mark.thorough  # the other kills here keep the names
def test_kills_with_a_channel_that_is_renamed_each_time_lose_nothing(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)  # noqa: S311
    with receiving() as receiver:
        for number in range(1, _RENAMES + 1):
            receiver.replies[:] = [Reply(status=503), Reply(after_s=chance.choice([0, 0.1]))]
            config = _configured(tmp_path, receiver, channel=f"hook-{number}")
            with _child(config, failing=number) as child:
                _line(child, "kept")
                _pause(chance.choice([0, 0.02, 0.1, 0.3]))
                child.kill()
        receiver.replies[:] = []
        config = _configured(tmp_path, receiver, channel="last")
        settings = load(config, {})
        clock = ShiftedClock()
        everyone = {f"g{number:03}" for number in range(_RENAMES)}
        fleet = Fleet(sorted(everyone), clock)
        fleet.fail(*everyone)
        with running(settings, clock) as alerts:
            alerts.sees(fleet)
            eventually(lambda: everyone <= _groups(receiver, "last"), "all that is open")
            left = alerts.call(alerts.alerts.counts).undelivered
            old = [name for name, waiting in left.items() if waiting and name != "last"]
            moved = [alerts.call(partial(alerts.alerts.retry_channel, n, to="last")) for n in old]
            eventually(alerts.idle, "what was moved")
            eventually(lambda: not alerts.alerts.problem, "a look at itself")

    assert old, "no kill left a notice to a channel that is gone: the test would prove nothing"
    assert sum(moved) == 0, "the new channel has them all already"
    assert _groups(receiver, "last") == everyone


def _groups(receiver: Receiver, channel: str) -> set[str]:
    """Groups whose notices a channel has delivered."""
    messages = [request.json for request in receiver.taken]
    notices = [n for sent in messages if sent["channel"] == channel for n in sent["notices"]]
    return {notice["group"] for notice in notices if notice["about"] == "group"}


def test_an_incident_survives_a_restart_and_is_closed_after_it(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with receiving() as receiver:
        settings = _settings(tmp_path, receiver)
        fleet = Fleet(["billing", "orders"], clock)
        with running(settings, clock) as before:
            _opens(fleet, before, receiver)

        with running(settings, clock) as after:
            after.sees(fleet)
            fleet.heal("billing")
            after.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2, "the end")

    opened, closed = receiver.notices
    assert (opened["event"], closed["event"]) == ("open", "close")
    assert opened["incident"] == closed["incident"]


@pytest.mark.parametrize("again", [False, True], ids=["healed", "bad again"])
def test_an_end_held_back_by_a_mute_survives_a_restart(tmp_path: Path, again: bool) -> None:  # noqa: FBT001
    clock = ShiftedClock()
    with receiving() as receiver:
        settings = _settings(tmp_path, receiver)
        fleet = Fleet(["billing"], clock)
        with running(settings, clock) as before:
            _opens(fleet, before, receiver)
            mute = before.call(partial(_mute, before, clock.now_ms()))
            fleet.heal("billing")
            healed_ms = clock.now_ms()
            before.sees(fleet)
            if again:
                fleet.fail("billing")
                fleet.pass_time(60)  # its window spans the failure before
                before.sees(fleet)
        if again:
            fleet.heal("billing")

        with running(settings, clock) as after:
            fleet.pass_time(30)
            after.sees(fleet)
            fleet.pass_time(30)
            after.call(partial(after.alerts.unmute, mute))
            after.sees(fleet)
            eventually(lambda: len(receiver.notices) == 2, "the end, after the mute")

    closed = receiver.notices[-1]
    assert closed["event"] == "close"
    assert closed["reason"] == "ended_while_muted"
    if again:
        assert closed["verdict"]["ended_ms"] > healed_ms + 30_000
    else:
        assert abs(closed["verdict"]["ended_ms"] - healed_ms) < 5_000


def _mute(alerts: Running, now_ms: int) -> str:
    return alerts.alerts.mute(
        cluster="", group="*", reason="x", author="me", starts_ms=now_ms, ends_ms=now_ms + 10**8
    ).id


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_a_restart_in_the_middle_of_a_burn_delays_no_alert(tmp_path: Path, how: str) -> None:
    clock = ShiftedClock()
    after_it = tmp_path / "after" if how == "crash" else tmp_path
    with receiving() as receiver:
        fleet = Fleet(["billing"], clock)
        fleet.slow.add("billing")
        fleet.pass_time(60)  # from here on further behind than its objective allows
        with running(_budget(tmp_path, receiver), clock) as before:
            before.sees(fleet)  # time is spent from one round to the next
            whole_s = sum(1 for _ in _spending(fleet, before, until_s=290)) * 10
            if how == "crash":  # what is on the disk now is all that is left
                shutil.copytree(tmp_path, after_it)
        with running(_budget(after_it, receiver), clock) as after:
            whole_s += sum(1 for _ in _spending(fleet, after)) * 10
            eventually(lambda: len(receiver.notices) == 1, "the alert of the fast burn")

    assert whole_s == 520, "a fiftieth of the budget is 8 min 38 s"


def test_the_end_of_an_incident_says_for_how_long_of_it_nothing_was_seen(tmp_path: Path) -> None:
    """Killed while Kafka is away, and started again before it is back."""
    clock = ShiftedClock()
    later = tmp_path / "later"
    with receiving() as receiver:
        fleet = Fleet(["billing"], clock)
        with running(_settings(tmp_path, receiver), clock) as before:
            _opens(fleet, before, receiver)
            fleet.pass_time(70)
            before.sees(fleet)
            shutil.copytree(tmp_path, later)
        clock.ahead_ms += 1_800_000
        with running(_settings(later, receiver), clock) as after:
            fleet.heal("billing")
            while len(receiver.notices) < 2:
                fleet.pass_time(60)
                after.sees(fleet)

    ended = receiver.notices[-1]
    assert ended["event"] == "close"
    verdict = ended["verdict"]
    assert verdict["unseen_s"] == pytest.approx(1_800, abs=70)
    assert verdict["ended_ms"] - verdict["ended_after_ms"] == pytest.approx(1_800_000, abs=70_000)


def test_a_group_that_was_well_before_a_restart_was_so_since_then(tmp_path: Path) -> None:
    clock = ShiftedClock()
    later = tmp_path / "later"
    with receiving() as receiver:
        fleet = Fleet(["billing"], clock)
        with running(_patient(tmp_path, receiver), clock) as before:
            _opens(fleet, before, receiver)
            for _ in range(12):
                fleet.pass_time(10)
                before.sees(fleet)
            fleet.heal("billing")
            before.sees(fleet)
            healed_ms = clock.now_ms()
            shutil.copytree(tmp_path, later)
        clock.ahead_ms += 180_000
        with running(_patient(later, receiver), clock) as after:
            while len(receiver.notices) < 2:
                after.sees(fleet)
                fleet.pass_time(10)

    verdict = receiver.notices[-1]["verdict"]
    assert verdict["ended_ms"] == pytest.approx(healed_ms, abs=2_000)
    assert "ended_after_ms" not in verdict, "that was seen"


def _opens(fleet: Fleet, alerts: Running, receiver: Receiver) -> None:
    """`billing` fails, and its notice is delivered."""
    fleet.fail("billing")
    alerts.sees(fleet)
    eventually(lambda: len(receiver.notices) == 1 and alerts.idle(), "the opening")


def _patient(folder: Path, receiver: Receiver) -> Settings:
    text = (
        f'[alerts.policies.all]\nclose_for_s = 60\n[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
    )
    return alert_settings(folder, text)


def _budget(folder: Path, receiver: Receiver) -> Settings:
    text = (
        "[alerts.policies.all]\nmax_lag = 400\nobjective_share = 0.99\n"
        f'[alerts.webhook.hook]\nurl = "{receiver.url}/hook"\n'
    )
    return alert_settings(folder, text)


def _spending(fleet: Fleet, alerts: Running, until_s: int = 3600) -> Iterator[int]:
    """Rounds of 10 s each, until an incident opens."""
    for passed_s in range(10, until_s + 1, 10):
        fleet.pass_time(10)
        alerts.sees(fleet)
        yield passed_s
        if alerts.call(alerts.alerts.counts).open_incidents["here"]:
            return


def test_an_empty_window_after_a_restart_closes_nothing(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with receiving() as receiver:
        settings = _settings(tmp_path, receiver)
        fleet = Fleet(["billing", "orders"], clock)
        with running(settings, clock) as before:
            _opens(fleet, before, receiver)

        with running(settings, clock) as after:
            after.sees(Fleet(["orders"], clock))  # billing has not been read yet

            counts = after.call(after.alerts.counts)

    assert counts.open_incidents == {"here": 1}
    assert len(receiver.notices) == 1


@pytest.mark.parametrize("killed", [False, True])
def test_a_group_that_falls_silent_after_a_restart_has_not_healed(
    tmp_path: Path, *, killed: bool
) -> None:
    """It read well for a moment, and then no more: it may have died, which is not yet sure."""
    clock = ShiftedClock()
    text = (
        "group_wait_s = 0.05\n"
        '[alerts.policies.all]\nthreshold = "warning"\nclose_for_s = 60\nreopen_s = 0\n'
    )
    with receiving() as receiver:
        hook = f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nper_minute = 6000\n'
        settings = alert_settings(tmp_path, text + hook)
        fleet = Fleet(["billing"], clock, rules=RuleSet.LAGWATCH, intervals=40)
        fleet.slow.add("billing")
        fleet.pass_time(300)
        with running(settings, clock) as before:
            for _ in range(8):
                fleet.pass_time(10)
                before.sees(fleet)
            eventually(lambda: len(receiver.notices) == 1 and before.idle(), "the opening")
            kept = (tmp_path / "alerts.sqlite").read_bytes(), _log_of(tmp_path).read_bytes()
            fleet.slow.clear()
            fleet.pass_time(20)
            before.sees(fleet)
        if killed:  # what was written before it read well is all there is
            (tmp_path / "alerts.sqlite").write_bytes(kept[0])
            _log_of(tmp_path).write_bytes(kept[1])
        fleet.failing.add("billing")
        with running(settings, clock) as after:
            for _ in range(15):
                fleet.pass_time(10)
                after.sees(fleet)
            eventually(after.idle, "nothing waits")
            counts = after.call(after.alerts.counts)
            assert fleet.monitor.snapshot is not None
            rules = fleet.monitor.snapshot.rows.rule.tolist()

    assert rules == [Rule.PAUSED]
    assert counts.open_incidents == {"here": 1}
    assert [notice["event"] for notice in receiver.notices] == ["open"]


def _log_of(folder: Path) -> Path:
    """The write-ahead log of the alerts' file."""
    return folder / "alerts.sqlite-wal"


def test_a_corrupt_file_is_set_aside_and_said(tmp_path: Path) -> None:
    file = tmp_path / "alerts.sqlite"
    file.write_bytes(b"this is no database" * 100)

    with capture_logs() as logs, Database(file, now_ms=17) as database:
        assert database.connection.execute("SELECT count(*) FROM incidents").fetchone()[0] == 0

    aside = tmp_path / "alerts.sqlite.corrupt-17"
    assert aside.read_bytes().startswith(b"this is no database")
    assert [log["event"] for log in logs] == ["alerts_file_set_aside"]
    assert logs[0]["moved_to"] == str(aside)


def test_a_page_overwritten_inside_the_file_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "alerts.sqlite"
    with Database(file, now_ms=1) as database, database.transaction() as connection:
        connection.executemany(
            "INSERT INTO mutes VALUES (?, 'c', 'g', 'r', 'a', 0, 1)",
            [(f"mute-{number}",) for number in range(2000)],
        )
    content = bytearray(file.read_bytes())
    content[4096 * 3 :] = b"\xff" * (len(content) - 4096 * 3)
    file.write_bytes(content)

    with Database(file, now_ms=17) as database:
        assert database.set_aside is not None


@pytest.mark.parametrize("kept", ["-wal -shm", "", "another"])
def test_a_file_that_is_deleted_or_replaced_while_it_is_used_is_written_anew(
    tmp_path: Path, kept: str
) -> None:
    file, other = tmp_path / "alerts.sqlite", tmp_path / "other.sqlite"
    with Database(other, now_ms=1):
        pass
    with Database(file, now_ms=1) as database:
        _add_mute(database, "before")
        database.tidy(5)
        file.unlink()
        if not kept:
            for suffix in ("-wal", "-shm"):
                file.with_name(file.name + suffix).unlink()
        if kept == "another":
            other.rename(file)
        _add_mute(database, "meanwhile")
        database.tidy(17)
        _add_mute(database, "after")
        database.tidy(18)
        problem = database.problem
        crashed = tmp_path / "crashed.sqlite"  # what a process that is killed now would leave
        for suffix in ("", "-wal"):
            copy2(file.with_name(file.name + suffix), crashed.with_name(crashed.name + suffix))

    for left in (file, crashed):
        with Database(left, now_ms=20) as database:
            found = database.connection.execute("SELECT id FROM mutes ORDER BY id").fetchall()
        assert [row["id"] for row in found] == ["after", "before", "meanwhile"]
    assert problem == ""
    assert (tmp_path / "alerts.sqlite.replaced-17").exists() == (kept == "another")


def test_it_is_said_that_a_deleted_file_cannot_be_written_anew(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    with Database(folder / "alerts.sqlite", now_ms=1) as database:
        _add_mute(database, "before")
        folder.rename(tmp_path / "moved")
        database.tidy(17)
        problem = database.problem
        _add_mute(database, "meanwhile")
        folder.mkdir()
        database.tidy(18)
        later = database.problem

    assert "was deleted and cannot be written anew" in problem
    assert later == ""
    with Database(folder / "alerts.sqlite", now_ms=20) as database:
        found = database.connection.execute("SELECT id FROM mutes ORDER BY id").fetchall()
    assert [row["id"] for row in found] == ["before", "meanwhile"]


def _add_mute(database: Database, identity: str) -> None:
    database.write(
        lambda connection: connection.execute(
            "INSERT INTO mutes VALUES (?, 'c', 'g', 'r', 'a', 0, 1)", (identity,)
        )
    )


def test_one_file_serves_one_process(tmp_path: Path) -> None:
    file = tmp_path / "alerts.sqlite"

    with Database(file, now_ms=1), pytest.raises(ConfigError, match="another lagwatch"):
        Database(file, now_ms=1)


def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with receiving() as receiver:
        settings = _settings(tmp_path, receiver)
        fleet = Fleet(["billing"], clock)
        with running(settings, clock) as alerts:
            fleet.fail("billing")
            with closing(sqlite3.connect(settings.alerts.file, isolation_level=None)) as other:
                other.execute(
                    "CREATE TRIGGER refuse BEFORE INSERT ON notices"
                    " BEGIN SELECT RAISE(ABORT, 'refused here'); END"
                )

                alerts.sees(fleet)  # cannot be kept: nothing is decided
                problem = alerts.alerts.problem
                kept = other.execute("SELECT count(*) FROM incidents").fetchone()
                other.execute("DROP TRIGGER refuse")
            alerts.sees(fleet)

            eventually(lambda: len(receiver.notices) == 1, "the opening, decided again")
            assert "refused here" in problem
            assert kept == (0,)
            assert alerts.alerts.problem == ""


def _configured(folder: Path, receiver: Receiver, channel: str = "hook") -> Path:
    _settings(folder, receiver, channel)
    return folder / "lagwatch.toml"


def _settings(folder: Path, receiver: Receiver, channel: str = "hook"):
    return alert_settings(
        folder,
        "group_wait_s = 0.02\n"
        "[alerts.policies.all]\nclose_for_s = 0\n"
        f'[alerts.webhook.{channel}]\nurl = "{receiver.url}"\nper_minute = 6000\n',
    )


def _child(config: Path, *, failing: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(_CHILD), str(config), str(failing), str(_ROUNDS + 1)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=_ROOT,
        env={"PYTHONPATH": str(_ROOT), "PATH": ""},
    )


def _line(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None
    for line in child.stdout:
        if line.strip() == word:
            return
    raise AssertionError(f"the child ended without saying {word}")


def _pause(seconds: float) -> None:

    threading.Event().wait(seconds)
