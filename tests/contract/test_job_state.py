"""What jobs remember, and the lock made of it, in either store."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.errors import JobError
from lagwatch.jobs.lock import only_run
from lagwatch.jobs.stores.registry import open_state
from tests.support.stores import KINDS_OF_STORES, history_of

RUNS = 6


@pytest.fixture(params=KINDS_OF_STORES)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> HistorySettings:
    return history_of(request.param, request, tmp_path)


def test_what_was_saved_is_loaded_by_the_next_run(history: HistorySettings) -> None:
    state = open_state(history)
    assert state.load("marks") == {}

    state.save("marks", {"until_ms": 5})
    state.save("marks", {"until_ms": 6, "names": ["ä"]})

    assert open_state(history).load("marks") == {"until_ms": 6, "names": ["ä"]}
    state.delete("marks")
    state.delete("marks")
    assert open_state(history).load("marks") == {}


def test_a_swap_takes_the_place_of_what_it_names_only(history: HistorySettings) -> None:
    state = open_state(history)

    assert not state.swap("note", {"of": "another"}, {"of": "mine"})
    assert state.swap("note", {}, {"of": "mine"})
    assert not state.swap("note", {}, {"of": "another"})
    assert state.swap("note", {"of": "mine"}, {"of": "mine", "again": 1})
    assert state.load("note") == {"of": "mine", "again": 1}


def test_of_runs_that_begin_at_once_one_goes_on(history: HistorySettings) -> None:
    begin, end = threading.Barrier(RUNS, timeout=60), threading.Barrier(RUNS, timeout=60)

    def run(_: int) -> str:
        """How it ended; it goes on until all others have begun."""
        state = open_state(history)
        begin.wait()
        try:
            with only_run("rollup", state, history, SystemClock()):
                end.wait()
        except JobError as error:
            end.wait()
            return error.kind
        return "done"

    for _ in range(5):
        with ThreadPoolExecutor(RUNS) as pool:
            assert sorted(pool.map(run, range(RUNS))) == ["done", *["locked"] * (RUNS - 1)]
        assert open_state(history).load("rollup.lock") == {}
