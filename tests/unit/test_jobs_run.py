import itertools
import json
import os
import subprocess
import sys
import threading
import zipfile

import pytest
from pyspark.errors import PySparkException
from structlog.testing import capture_logs

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.core.model import EpochMs
from lagwatch.core.record import Kind
from lagwatch.errors import HistoryError, JobError, SourceError
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.folder import open_folder
from lagwatch.jobs.faults import translated
from lagwatch.jobs.last_run import LastRun, Outcome, write_textfile
from lagwatch.jobs.lock import only_run
from lagwatch.jobs.package import write_package
from lagwatch.jobs.run import job_run
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.parquet.state import FolderState
from lagwatch.jobs.stores.registry import open_state
from lagwatch.ports.history import HistoryRange
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # starts processes

CLOCK = SystemClock()
HOLDS = """
import sys
from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.jobs.lock import only_run
from lagwatch.jobs.stores.registry import open_state
settings = HistorySettings(url=sys.argv[1])
with only_run("rollup", open_state(settings), settings, SystemClock()):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def history(tmp_path) -> HistorySettings:
    return HistorySettings(url=str(tmp_path / "history"))


def is_free(state: JobState) -> bool:
    """Does the note say that the run has ended?"""
    return sorted(state.load("rollup.lock")) == ["ended", "token"]


@pytest.fixture
def holder(history):
    """Another process that holds the lock of the roll-up."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDS, history.url.get_secret_value()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    yield child
    child.kill()
    child.communicate()


def test_what_was_saved_is_loaded_and_what_was_not_is_empty(history) -> None:
    state = open_state(history)

    state.save("rollup/prod", {"until_ms": 5, "names": ["a"]})

    assert open_state(history).load("rollup/prod") == {"until_ms": 5, "names": ["a"]}
    assert state.load("rollup/other") == {}


def test_a_deleted_state_is_empty(history) -> None:
    state = open_state(history)
    state.save("x", {"a": 1})

    state.delete("x")
    state.delete("never there")

    assert state.load("x") == {}


def test_a_torn_state_says_which_file_to_delete(history, tmp_path) -> None:
    state = open_state(history)
    state.save("x", {"a": 1})
    (tmp_path / "history" / "_jobs" / "x.json").write_text("{")

    with pytest.raises(JobError, match=r"_jobs/x\.json.*Delete it"):
        state.load("x")


def test_no_store_is_said_with_the_remedy() -> None:
    with pytest.raises(Exception, match="or name a store"):
        open_state(HistorySettings(store="none"))


def test_a_second_run_is_refused_and_told_who_holds_the_lock(history, holder) -> None:
    with (
        pytest.raises(JobError, match=f"process {holder.pid} on") as refused,
        only_run("rollup", open_state(history), history, CLOCK),
    ):
        pass

    assert refused.value.kind == "locked"


def test_a_run_that_is_refused_leaves_the_metrics_of_the_one_that_goes_on(
    history, holder, tmp_path
) -> None:
    settings = JobsSettings(textfile=tmp_path / "metrics")

    with (
        pytest.raises(JobError, match=f"process {holder.pid} on"),
        job_run("rollup", history, settings, CLOCK),
    ):
        pass

    assert not (tmp_path / "metrics").exists()


def test_a_note_whose_answer_was_lost_is_ours_all_the_same(history) -> None:
    class Losing(FolderState):
        """Every second of the first eight answers is lost; what was asked for is done."""

        swaps = 0

        def swap(self, name, before, value) -> bool:
            done = super().swap(name, before, value)
            self.swaps += 1
            if self.swaps in {2, 4, 6, 8}:
                raise HistoryError(store="", kind="io", message="no answer", retryable=True)
            return done

    state = Losing(open_folder(history.url.get_secret_value()))
    run = only_run("rollup", state, history, CLOCK, renew_every_s=0.02)
    with capture_logs() as logs, run:
        eventually(lambda: state.swaps >= 8, "the note is renewed")
        held = state.load("rollup.lock")

    assert held["pid"] == os.getpid()
    assert {line["event"] for line in logs} == {"job_lock_not_renewed"}
    assert is_free(state)


def test_a_run_whose_place_was_taken_says_so_and_leaves_the_note(history) -> None:
    state, other = open_state(history), {"token": "x", "host": "elsewhere", "seen_ms": 0}

    run = only_run("rollup", state, history, CLOCK, renew_every_s=0.02)
    with capture_logs() as logs, run:
        state.save("rollup.lock", other)
        eventually(lambda: bool(logs), "it is noticed")

    assert [line["event"] for line in logs] == ["job_lock_lost"]
    assert state.load("rollup.lock") == other


def test_a_run_whose_place_was_taken_replaces_nothing_any_more(history) -> None:
    with only_run("rollup", open_state(history), history, CLOCK) as held:
        held.fence.check()
        state = open_state(history)
        later = {**state.load("rollup.lock"), "token": held.fence.token + 1, "run": "x"}
        state.save("rollup.lock", {**later, "host": "elsewhere"})

        with pytest.raises(JobError, match=r"lost its lock, to process \d+ on elsewhere") as lost:
            held.fence.check()

    assert lost.value.kind == "fenced"


def test_the_token_of_a_run_is_greater_than_that_of_every_run_before(history) -> None:
    class Still(SystemClock):
        """A clock that was set back."""

        def now_ms(self) -> EpochMs:
            return EpochMs(1)

    tokens = []
    for clock in (CLOCK, Still(), Still(), CLOCK):
        with only_run("rollup", open_state(history), history, clock) as held:
            tokens.append(held.fence.token)

    assert tokens == sorted(set(tokens))


def test_a_lock_is_not_free_as_long_as_a_guard_of_its_dead_driver_runs(history, holder) -> None:
    state = open_state(history)
    guard = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state.save("rollup.lock", {**state.load("rollup.lock"), "guard": guard.pid})
    holder.kill()
    holder.wait()
    taken = []

    def take() -> None:
        with only_run("rollup", open_state(history), history, CLOCK):
            taken.append(guard.poll())

    taking = threading.Thread(target=take)
    taking.start()
    taking.join(0.5)
    assert taking.is_alive()
    guard.communicate(b"end\n")
    taking.join(30)

    assert taken == [0]


def test_another_job_may_run_on_the_same_store(history, holder) -> None:
    with only_run("report", open_state(history), history, CLOCK):
        assert holder.poll() is None


def test_the_lock_of_a_killed_run_is_free_at_once(history, holder) -> None:
    holder.kill()
    holder.wait()

    with only_run("rollup", open_state(history), history, CLOCK):
        held = open_state(history).load("rollup.lock")

    assert held["pid"] == os.getpid()
    assert is_free(open_state(history))


@pytest.mark.parametrize(("ago_ms", "free"), [(0, False), (120_000, True)])
def test_a_run_elsewhere_holds_the_lock_as_long_as_it_says_so(history, ago_ms, free) -> None:
    state = open_state(history)
    seen_ms = CLOCK.now_ms() - ago_ms
    state.save("rollup.lock", {"token": "x", "host": "elsewhere", "pid": 1, "seen_ms": seen_ms})

    try:
        with only_run("rollup", state, history, CLOCK):
            taken = True
    except JobError as error:
        taken = "on elsewhere" not in str(error)

    assert taken is free


def dead_pid() -> int:
    """Of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_run_on_another_machine_of_the_same_name_is_not_taken_for_dead(history) -> None:
    # several containers may be called "localhost", or begin with the same process number
    state = open_state(history)
    with only_run("rollup", state, history, CLOCK):
        mine = state.load("rollup.lock")
    there = {**mine, "ended": False, "pid": dead_pid(), "seen_ms": CLOCK.now_ms()}
    state.save("rollup.lock", {**there, "system": "another boot"})

    with pytest.raises(JobError), only_run("rollup", state, history, CLOCK):
        pass

    state.save("rollup.lock", there)
    with only_run("rollup", state, history, CLOCK) as held:
        assert held.note.token > there["token"]


def test_a_run_with_our_own_process_number_is_dead(history) -> None:
    state = open_state(history)
    with only_run("rollup", state, history, CLOCK):
        mine = state.load("rollup.lock")
    state.save("rollup.lock", {**mine, "run": "before a restart", "seen_ms": CLOCK.now_ms()})

    with only_run("rollup", state, history, CLOCK) as held:
        assert held.note.token > mine["token"]


def test_a_note_from_the_future_counts_as_long_as_it_is_renewed(history) -> None:
    # the clock of the machine that wrote it, or ours, is an hour off: its time says nothing
    state = open_state(history)
    seen_ms = CLOCK.now_ms() + 3_600_000
    ahead = {"token": 1, "host": "elsewhere", "pid": 1}
    state.save("rollup.lock", {**ahead, "seen_ms": seen_ms})
    ended = threading.Event()

    def renew() -> None:
        renewals = itertools.count(seen_ms, 50)
        while not ended.wait(0.05):
            state.save("rollup.lock", {**ahead, "seen_ms": next(renewals)})

    renewing = threading.Thread(target=renew)
    renewing.start()
    try:
        with pytest.raises(JobError), only_run("rollup", state, history, CLOCK, renew_every_s=0.5):
            pass
    finally:
        ended.set()
        renewing.join()

    with only_run("rollup", state, history, CLOCK, renew_every_s=0.2) as held:
        assert held.note.token > 1


def test_a_run_leaves_an_event_and_metrics(history, tmp_path) -> None:
    settings = JobsSettings(textfile=tmp_path / "metrics")

    with job_run("rollup", history, settings, CLOCK) as run:
        run.clusters.add("prod")
        run.count("rows_written", 7)
        run.put_aside("samples/x.parquet: torn")

    (rows,) = open_store(history).read(HistoryRange(kind=Kind.EVENTS, from_ms=0, to_ms=2**62))
    (event,) = rows.rows()
    assert (event["event"], event["after"], event["cluster"]) == ("job", "set_aside", "prod")
    assert json.loads(str(event["detail"]))["rows_written"] == 7
    text = (tmp_path / "metrics" / "lagwatch_rollup.prom").read_text()
    assert 'lagwatch_job_succeeded{job_name="rollup"} 1.0' in text
    assert 'lagwatch_job_items{job_name="rollup",what="rows_written"} 7.0' in text


def test_a_run_that_fails_is_remembered_as_failed(history, tmp_path) -> None:
    settings = JobsSettings(textfile=tmp_path)

    with pytest.raises(ZeroDivisionError), job_run("rollup", history, settings, CLOCK):
        _ = 1 // 0

    assert (
        'lagwatch_job_succeeded{job_name="rollup"} 0.0'
        in (tmp_path / "lagwatch_rollup.prom").read_text()
    )
    assert is_free(open_state(history))


def test_a_dry_run_leaves_nothing_behind(history, tmp_path) -> None:
    with job_run("backfill", history, JobsSettings(), CLOCK, dry=True) as run:
        run.clusters.add("prod")

    assert not (tmp_path / "history").exists()


def test_the_last_success_outlives_a_failure(tmp_path) -> None:
    good = LastRun(job="report", outcome=Outcome.DONE, started_ms=1000, ended_ms=5000)
    bad = LastRun(job="report", outcome=Outcome.FAILED, started_ms=8000, ended_ms=9000)

    write_textfile(tmp_path, good)
    text = write_textfile(tmp_path, bad).read_text()

    assert 'last_success_timestamp_seconds{job_name="report"} 5.0' in text
    assert 'last_run_timestamp_seconds{job_name="report"} 9.0' in text


def test_an_error_of_ours_in_a_task_is_found_in_the_text_of_spark() -> None:
    text = "Job aborted\n  File x\nlagwatch.errors.SourceError: grant READ on TOPIC x\n\tat java"

    with pytest.raises(SourceError, match=r"^grant READ on TOPIC x$"), translated():
        raise PySparkException(text)


def test_any_other_error_is_the_innermost_of_python() -> None:
    text = "An error\nTraceback:\nValueError: first\n\nKeyError: 'lag'\n\tat java.base"

    with pytest.raises(JobError, match=r"^Spark: KeyError: 'lag'$"), translated():
        raise PySparkException(text)


def test_the_package_can_be_imported_from_the_zip(tmp_path) -> None:
    package = write_package(tmp_path / "deep" / "jobs.zip")

    asked = "import lagwatch.core.rules as r; print(r.__file__)"
    answer = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(package)!r}); {asked}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.startswith(str(package))


def test_the_same_sources_make_the_same_package(tmp_path) -> None:
    first, second = write_package(tmp_path / "a.zip"), write_package(tmp_path / "b.zip")

    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as package:
        assert not [name for name in package.namelist() if name.endswith(".pyc")]
