"""Roll-ups whose run loses its lock replace nothing any more: in files, objects and indices."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, from_rows
from lagwatch.errors import HistoryError, LagwatchError
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.elastic import ElasticStore
from lagwatch.history.layout import HOUR_MS, day_start_ms
from lagwatch.jobs.faults import translated
from lagwatch.jobs.lock import Held, only_run
from lagwatch.jobs.rollup.job import RollupRequest, run_rollup
from lagwatch.jobs.rollup.plan import ROLLUPS
from lagwatch.jobs.sources.elastic import Replacing
from lagwatch.jobs.sources.sink import Sink
from lagwatch.jobs.stores.parquet.rollups import batch_name
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports.history import EVER_MS, HistoryRange
from tests.support.history import FOREVER, held, rollup
from tests.support.object_store import s3_bucket
from tests.support.rollups import recording
from tests.support.stores import KINDS_OF_STORES, history_of

NOW_MS = day_start_ms("2026-11-22") + HOUR_MS


@pytest.fixture(params=[*KINDS_OF_STORES, "s3"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HistorySettings]:
    if request.param != "s3":
        made = history_of(request.param, request, tmp_path)
        yield made.model_copy(update={"retention": FOREVER})
        return
    with s3_bucket() as url:
        yield HistorySettings(url=url, retention=FOREVER)


def record(history: HistorySettings, seed: int) -> None:
    with closing(open_store(history)) as store:
        store.write(recording(seed, rounds=100).records(), batch=f"b{seed}")


def stored(history: HistorySettings) -> dict[Kind, list[Any]]:
    with closing(open_store(history)) as store:
        return {kind: held(store, kind) for kind in ROLLUPS}


def roll(spark: SparkSession, history: HistorySettings, lock: Held) -> None:
    with translated():
        run_rollup(
            lambda: spark,
            StoreRef(settings=history),
            RollupRequest(),
            now_ms=NOW_MS,
            log_step=lambda _event, _values: None,
            fence=lock.fence,
        )


@contextmanager
def _lost(history: HistorySettings) -> Iterator[None]:
    """A run elsewhere has the lock, and has ended in the end."""
    state = open_state(history)
    mine = state.load("rollup.lock")
    later = {"token": mine["token"] + 1, "run": "other"}
    state.save("rollup.lock", {**mine, **later, "host": "elsewhere"})
    yield
    state.save("rollup.lock", {**later, "ended": True})


def test_a_run_that_lost_its_lock_replaces_no_row(
    history: HistorySettings, spark: SparkSession
) -> None:
    record(history, 1)
    with only_run("rollup", open_state(history), history, SystemClock()) as lock:
        roll(spark, history, lock)
    before = stored(history)
    marks = open_state(history).load("rollup")
    record(history, 2)

    with (
        only_run("rollup", open_state(history), history, SystemClock()) as lock,
        _lost(history),
        pytest.raises(LagwatchError, match="lost its lock"),
    ):
        roll(spark, history, lock)
    after = stored(history)
    with only_run("rollup", open_state(history), history, SystemClock()) as lock:
        roll(spark, history, lock)

    assert after == before
    assert open_state(history).load("rollup") != marks
    assert stored(history) != before


@dataclass(frozen=True, slots=True, kw_only=True)
class NotLooking:
    """The fence of a run that was checked just before it lost its lock."""

    token: int

    def check(self) -> None:
        pass


def row(lag_max: int) -> dict[str, Any]:
    return rollup(Kind.ROLLUP_5M, lag_max=lag_max)


def test_a_file_published_in_the_instant_after_the_check_replaces_no_row(tmp_path: Path) -> None:
    history = HistorySettings(url=str(tmp_path), retention=FOREVER)

    def write(token: int, lag_max: int) -> None:
        sink = Sink(
            settings=history,
            kind=Kind.ROLLUP_5M,
            batch=batch_name(token),
            fence=NotLooking(token=token),
        )
        store, put = sink.open()
        with closing(store):
            put(from_rows(Kind.ROLLUP_5M, [row(lag_max)]))

    write(SystemClock().now_ms() + 1, 2)
    write(SystemClock().now_ms() - 60_000, 1)

    assert [row["lag_max"] for row in stored(history)[Kind.ROLLUP_5M]] == [2]


def test_a_document_sent_in_the_instant_after_the_check_replaces_no_row(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    history = history_of("elasticsearch", request, tmp_path)

    def write(token: int, lag_max: int) -> None:
        fence = NotLooking(token=token)
        sink = Replacing(settings=history, kind=Kind.ROLLUP_5M, batch="replace", fence=fence)
        store, put = sink.open()
        with closing(store):
            put(from_rows(Kind.ROLLUP_5M, [row(lag_max)]))

    write(5, 1)
    write(7, 2)
    write(7, 3)
    with pytest.raises(HistoryError, match="later run of the job"):
        write(6, 4)

    with closing(open_store(history)) as store:
        assert isinstance(store, ElasticStore)
        store.see_all(HistoryRange(kind=Kind.ROLLUP_5M, from_ms=0, to_ms=EVER_MS))
        assert [row["lag_max"] for row in held(store, Kind.ROLLUP_5M)] == [3]
