"""Backfills whose run loses its lock write nothing any more: in files, objects and indices."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.errors import JobError, LagwatchError
from lagwatch.history.drivers.registry import open_store
from lagwatch.jobs.backfill.inputs import Gap
from lagwatch.jobs.backfill.plan import Plans, new_plan
from lagwatch.jobs.backfill.request import BackfillResult
from lagwatch.jobs.faults import translated
from lagwatch.jobs.fence import Fence, FencedState
from lagwatch.jobs.lock import Held, only_run
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef, read_rows, write_rows
from lagwatch.ports.history import EVER_MS, HistoryRange
from tests.support.backfilled import HOUR_S, Store
from tests.support.copies import some_hours
from tests.support.history import NOON_MS, held, sample, samples
from tests.support.object_store import s3_bucket
from tests.support.stores import KINDS_OF_STORES, history_of

HOURS = 3
LOST = "lost its lock"


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> str:
    return some_hours(tmp_path_factory.mktemp("copies"), hours=HOURS).write()


@pytest.fixture(params=KINDS_OF_STORES)
def history(request: pytest.FixtureRequest, tmp_path: Path) -> HistorySettings:
    return history_of(request.param, request, tmp_path)


@pytest.fixture
def objects() -> Iterator[HistorySettings]:
    """Objects without rows: to read some, Spark would need a package of its own."""
    with s3_bucket() as url:
        yield HistorySettings(url=url)


def locked(history: HistorySettings) -> AbstractContextManager[Held]:
    return only_run("backfill", open_state(history), history, SystemClock())


def lose(history: HistorySettings) -> None:
    """A run elsewhere takes the lock."""
    state = open_state(history)
    mine = state.load("backfill.lock")
    taken = {**mine, "token": mine["token"] + 1, "run": "other", "host": "elsewhere"}
    state.save("backfill.lock", taken)


def stored(history: HistorySettings) -> dict[Kind, list[Any]]:
    with closing(open_store(history)) as store:
        return {kind: held(store, kind) for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)}


def fill(
    spark: SparkSession, history: HistorySettings, copies: str, fence: Fence
) -> BackfillResult:
    store = Store(spark, Path("unused"), history)
    with translated():
        return store.backfill(copies, fence=fence, until_ms=NOON_MS + HOURS * HOUR_S * 1000)


def test_a_run_that_lost_its_lock_writes_no_row_and_no_state(
    history: HistorySettings, copies: str, spark: SparkSession
) -> None:
    check_that_nothing_is_written(history, copies, spark)


def test_a_run_that_lost_its_lock_writes_no_object(
    objects: HistorySettings, copies: str, spark: SparkSession
) -> None:
    check_that_nothing_is_written(objects, copies, spark)


def check_that_nothing_is_written(
    history: HistorySettings, copies: str, spark: SparkSession
) -> None:
    """The plan that the other run has made by now stays as well."""
    with locked(history) as lock:
        lose(history)
        theirs = new_plan(
            "here", "other", [Gap(from_ms=NOON_MS, to_ms=NOON_MS + 1)], shards=1, now_ms=1
        )
        Plans(open_state(history)).begin(theirs)

        with pytest.raises(LagwatchError, match=LOST):
            fill(spark, history, copies, lock.fence)

    assert not any(stored(history).values())
    assert Plans(open_state(history)).under_way("here") == theirs


@dataclass(frozen=True, slots=True, kw_only=True)
class LosesLock:
    """The fence of a run whose lock is lost after some of its parts were written."""

    folder: Path
    token: int = 1
    parts: int = 10

    def check(self) -> None:
        (self.folder / str(len(list(self.folder.iterdir())))).touch()
        if len(list(self.folder.iterdir())) > self.parts:
            raise JobError(kind="fenced", message=LOST, retryable=True)


def test_a_run_that_loses_its_lock_between_two_parts_writes_no_further_part(
    history: HistorySettings,
    copies: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    checks = tmp_path / "checks"
    checks.mkdir()
    with pytest.raises(LagwatchError, match=LOST):
        fill(spark, history, copies, LosesLock(folder=checks))
    before = stored(history)

    with locked(history) as lock:
        fill(spark, history, copies, lock.fence)

    after = stored(history)
    assert len(before[Kind.SAMPLES]) < len(after[Kind.SAMPLES])
    assert not [row for row in before[Kind.EVENTS] if row["event"] == "recording"]
    with closing(open_store(history)) as store:
        checked = store.verify()
        assert (checked.duplicates, checked.torn, checked.foreign) == (0, (), ())


def test_rows_of_an_import_are_not_written_without_the_lock(
    history: HistorySettings, spark: SparkSession
) -> None:
    with locked(history) as lock:
        ref = StoreRef(settings=history)
        with closing(ref.open()) as store:
            store.write([samples([sample()])], batch="recorded")
        wanted = HistoryRange(kind=Kind.SAMPLES, from_ms=0, to_ms=EVER_MS)
        rows = read_rows(spark, ref, wanted).replace("here", "there", ["cluster"])
        lose(history)

        with pytest.raises(LagwatchError, match=LOST), translated():
            write_rows(rows, ref, Kind.SAMPLES, batch="telegraf", fence=lock.fence)

    assert [row["cluster"] for row in stored(history)[Kind.SAMPLES]] == ["here"]


def test_state_is_read_without_the_lock_and_changed_only_with_it(history: HistorySettings) -> None:
    with locked(history) as lock:
        state = FencedState(open_state(history), lock.fence)
        state.save("plan", {"a": 1})
        assert state.swap("plan", {"a": 1}, {"a": 2})
        lose(history)

        assert state.load("plan") == {"a": 2}
        for change in (
            lambda: state.save("plan", {}),
            lambda: state.swap("plan", {"a": 2}, {}),
            lambda: state.delete("plan"),
        ):
            with pytest.raises(JobError, match=LOST):
                change()
        assert state.load("plan") == {"a": 2}
