"""What the jobs may expect of every kind of store, beside what the service does."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Never

import pytest

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.drivers.registry import open_store
from lagwatch.jobs.stores.base import JobStore, Mark, Rollups
from lagwatch.jobs.stores.registry import job_store
from lagwatch.ports.history import Compacted, HistoryRange, HistoryStore
from tests.support.history import (
    NOON_MS,
    events,
    group_sample,
    group_samples,
    happening,
    sample,
    samples,
)
from tests.support.stores import KINDS_OF_STORES, history_of

HOUR_MS = 3_600_000
BUCKET_MS = 300_000


@pytest.fixture(params=KINDS_OF_STORES)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> HistorySettings:
    return history_of(request.param, request, tmp_path)


@pytest.fixture
def jobs(history: HistorySettings) -> JobStore:
    return job_store(history)


@pytest.fixture
def store(history: HistorySettings) -> Iterator[HistoryStore]:
    with closing(open_store(history)) as opened:
        yield opened


@pytest.fixture
def rollups(jobs: JobStore) -> Iterator[Rollups]:
    with closing(jobs.rollups()) as opened:
        yield opened


def test_an_empty_store_has_nothing_to_roll_up(rollups: Rollups) -> None:
    assert tuple(rollups.clusters()) == ()

    seen = rollups.look("here", {})

    assert (seen.held, seen.changed) == ((), ())


def test_what_was_written_is_seen_as_changed_until_its_mark_is_kept(
    store: HistoryStore, rollups: Rollups
) -> None:
    store.write([samples([sample(at_ms=NOON_MS)])], batch="b1")
    assert tuple(rollups.clusters()) == ("here",)

    first = rollups.look("here", {})
    again = rollups.look("here", first.mark)
    store.write([samples([sample(at_ms=NOON_MS + 7 * HOUR_MS)])], batch="b2")
    rollups.clusters()
    late = rollups.look("here", first.mark)

    assert any(begin <= NOON_MS < end for begin, end in first.changed)
    assert again.changed == ()
    assert [begin <= NOON_MS + 7 * HOUR_MS < end for begin, end in late.changed] == [True]
    assert again.held == first.held
    assert any(begin <= NOON_MS < end for begin, end in late.held)


def test_events_change_a_time_and_hold_no_samples(store: HistoryStore, rollups: Rollups) -> None:
    store.write([events([happening(at_ms=NOON_MS)])], batch="b1")
    rollups.clusters()

    seen = rollups.look("here", {})

    assert seen.held == ()
    assert any(begin <= NOON_MS < end for begin, end in seen.changed)


def test_a_mark_is_json(store: HistoryStore, jobs: JobStore, rollups: Rollups) -> None:
    store.write([group_samples([group_sample()])], batch="b1")
    rollups.clusters()
    mark = rollups.look("here", {}).mark

    jobs.state().save("rollup", {"here": mark})

    kept = job_store_mark(jobs)
    assert rollups.look("here", kept).changed == ()


def job_store_mark(jobs: JobStore) -> Mark:
    return jobs.state().load("rollup")["here"]


def test_rows_are_weighed_and_their_pieces_cover_what_was_asked_for(
    store: HistoryStore, rollups: Rollups
) -> None:
    rows = [
        sample(group=f"g{group}", at_ms=NOON_MS + number * BUCKET_MS)
        for group in range(4)
        for number in range(24)
    ]
    store.write([samples(rows)], batch="b1")
    rollups.clusters()
    whole = (NOON_MS, NOON_MS + 2 * HOUR_MS)

    few = list(rollups.weigh(Kind.SAMPLES, "here", [whole], step_ms=HOUR_MS, most=10_000))
    many = list(rollups.weigh(Kind.SAMPLES, "here", [whole], step_ms=HOUR_MS, most=10))

    assert [(first, last, list(weights)) for first, last, weights in few] == [(*whole, [])]
    assert (many[0][0], many[-1][1]) == whole
    assert {group for *_, weights in many for group, _ in weights} == {f"g{n}" for n in range(4)}


def test_groups_are_read_by_the_range_of_their_names(store: HistoryStore, rollups: Rollups) -> None:
    store.write([samples([sample(group=name) for name in "abcd"])], batch="b1")
    rollups.clusters()
    wanted = HistoryRange(
        kind=Kind.SAMPLES, cluster="here", from_ms=NOON_MS, to_ms=NOON_MS + 1, columns=("lag",)
    )

    def groups(low: str | None, high: str | None) -> list[str]:
        parts = store.read_groups(wanted, low, high)
        return sorted(str(row["group"]) for part in parts for row in part.rows())

    assert groups(None, None) == ["a", "b", "c", "d"]
    assert groups("b", "d") == ["b", "c"]
    assert groups(None, "b") == ["a"]
    assert groups("d", None) == ["d"]
    assert groups("x", None) == []


def test_what_the_store_holds_against_a_second_run_is_free_again_afterwards(
    jobs: JobStore,
) -> None:
    for _ in range(2):
        with jobs.exclusive("rollup") as mine:
            assert mine.free


def test_an_act_that_succeeds_is_done_once(jobs: JobStore) -> None:
    calls: list[None] = []

    def act() -> str:
        calls.append(None)
        return "done"

    assert jobs.steady(act) == "done"
    assert len(calls) == 1


def test_without_small_files_to_put_together_spark_is_not_started(
    store: HistoryStore, rollups: Rollups
) -> None:
    store.write([samples([sample(at_ms=NOON_MS)])], batch="b1")

    done = rollups.compact(no_spark, rollups.clusters(), NOON_MS + 24 * HOUR_MS)

    assert done == Compacted()


def no_spark() -> Never:
    pytest.fail("Spark is started")


def test_a_sound_store_sets_nothing_aside_and_compacting_it_loses_nothing(
    store: HistoryStore,
) -> None:
    for number in range(3):
        store.write([samples([sample(at_ms=NOON_MS + number * 30_000)])], batch=f"b{number}")

    done = store.compact()

    assert tuple(store.set_aside) == ()
    assert store.verify().rows[Kind.SAMPLES] == 3
    assert done is None or (done.merged, done.written, done.rows) == (3, 1, 3)
