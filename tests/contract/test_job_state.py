"""What jobs remember, and the lock made of it, in either store."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.errors import JobError
from lagwatch.jobs.lock import Held, only_run
from lagwatch.jobs.stores.registry import open_state
from tests.support.object_store import s3_bucket
from tests.support.stores import KINDS_OF_STORES, history_of

RUNS = 6


@pytest.fixture(params=[*KINDS_OF_STORES, pytest.param("s3", marks=pytest.mark.slow)])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistorySettings]:
    if request.param != "s3":
        yield history_of(request.param, request, tmp_path)
        return
    with s3_bucket() as url:
        yield HistorySettings(url=url)


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


def test_of_swaps_at_once_one_succeeds(history: HistorySettings) -> None:
    begin = threading.Barrier(RUNS, timeout=60)

    def swap(number: int, turn: int, before: dict[str, int]) -> bool:
        state = open_state(history)
        begin.wait()
        return state.swap("note", before, {"turn": turn, "of": number})

    before: dict[str, int] = {}
    for turn in range(10):
        with ThreadPoolExecutor(RUNS) as pool:
            done = list(pool.map(partial(swap, turn=turn, before=before), range(RUNS)))
        assert sum(done) == 1
        before = open_state(history).load("note")
        assert before == {"turn": turn, "of": done.index(True)}


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
        assert open_state(history).load("rollup.lock")["ended"]


def again(history: HistorySettings) -> AbstractContextManager[Held]:
    return only_run("rollup", open_state(history), history, SystemClock())


def test_a_run_whose_machine_slept_learns_that_another_has_its_lock(
    history: HistorySettings,
) -> None:
    state = open_state(history)
    with only_run("rollup", state, history, SystemClock()) as asleep:
        asleep.fence.check()
        held = state.load("rollup.lock")
        # nothing was heard of it for an hour, from elsewhere
        state.save("rollup.lock", {**held, "host": "elsewhere", "seen_ms": 1})
        if asleep.descriptors:  # the kernel knows that it is only asleep
            with pytest.raises(JobError, match="works on this store already"), again(history):
                pass
            return
        with again(history) as other:
            assert other.fence.token > asleep.fence.token
            other.fence.check()
            with pytest.raises(JobError, match="lost its lock") as lost:
                asleep.fence.check()

    assert lost.value.kind == "fenced"
    assert state.load("rollup.lock") == {"token": other.fence.token, "ended": True}
