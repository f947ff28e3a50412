"""The same roll-ups from either store, and what the API makes of them."""

import asyncio
import shutil
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lagwatch.config.history import HistorySettings, RetentionSettings
from lagwatch.core.record import Kind
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_start_ms
from lagwatch.history.reader import HistoryReader
from lagwatch.jobs.rollup import plan
from lagwatch.jobs.rollup.job import RollupRequest, RollupResult, run_rollup
from lagwatch.jobs.rollup.plan import ROLLUPS
from lagwatch.jobs.rollup.rows import Roller
from lagwatch.jobs.stores.registry import job_store
from lagwatch.jobs.tables import StoreRef
from lagwatch.jobs.units import Unit
from lagwatch.ports.history import HistoryAsk, HistoryPage
from tests.support.elastic_history import settings as elastic_settings
from tests.support.elastic_history import unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import FOREVER, NOON_MS, held, sample
from tests.support.rollups import INTERVAL_MS, Recording, going_on, recording
from tests.support.stores import KINDS_OF_STORES, history_of

FULL_MS = 600_000
SOON_MS = day_start_ms("2026-11-22") + HOUR_MS


def run(spark: SparkSession, ref: StoreRef, *, from_ms: int | None = None) -> RollupResult:
    return run_rollup(
        lambda: spark,
        ref,
        RollupRequest(from_ms=from_ms),
        now_ms=SOON_MS,
        log_step=lambda _event, _values: None,
    )


def record(ref: StoreRef, found: Recording, batch: str) -> None:
    store = ref.open()
    store.write(found.records(), batch=batch)
    store.close()


def test_elasticsearch_and_parquet_give_the_same_roll_ups(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    parquet = HistorySettings(url=str(tmp_path / "history"), retention=FOREVER)
    there = HistorySettings(
        store="elasticsearch",
        elasticsearch=elastic_settings(elasticsearch.url, unique_prefix()),
        spool=tmp_path / "spool",
        retention=FOREVER,
    )
    refs = [StoreRef(settings=settings) for settings in (parquet, there)]
    found = recording(21, rounds=300)
    late = Recording(
        samples=[sample(group="late", at_ms=NOON_MS + HOUR_MS, lag=77)], groups=[], events=[]
    )

    results = []
    for ref in refs:
        record(ref, found, "live")
        first = run(spark, ref)
        record(ref, late, "late")
        second, third = run(spark, ref), run(spark, ref)
        results.append([first, second, third])

    of_parquet, of_elastic = (ref.open() for ref in refs)
    for kind in ROLLUPS:
        rows = held(of_parquet, kind)
        assert rows == held(of_elastic, kind)
        assert any(row["group"] == "late" for row in rows)
    for ref_results in results:
        assert [sum(result.rows.values()) > 0 for result in ref_results] == [True, True, False]
        # a late row may be held for a while, and so matters to what follows
        assert ref_results[1].buckets[Kind.ROLLUP_5M] <= 6
    of_parquet.close()
    of_elastic.close()


def held_here(ref: StoreRef, kind: Kind) -> list[Any]:
    with closing(ref.open()) as store:
        return [row for row in held(store, kind) if row["cluster"] == "here"]


@pytest.mark.parametrize("first_deleted", [False, True])
@pytest.mark.parametrize("kind_of_store", KINDS_OF_STORES)
def test_late_rows_of_a_day_past_the_retention_are_rolled_up_before_they_are_deleted(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    kind_of_store: str,
    *,
    first_deleted: bool,
) -> None:
    history = history_of(kind_of_store, request, tmp_path)
    keeping = RetentionSettings(samples_days=1, group_samples_days=1, rollup_5m_days=2)
    forever, short = (
        StoreRef(settings=history.model_copy(update={"retention": retention}))
        for retention in (FOREVER, keeping)
    )
    long_ago_ms = NOON_MS - 5 * DAY_MS
    record(forever, recording(24, start_ms=long_ago_ms), "live")
    record(forever, going_on(SOON_MS + 3 * HOUR_MS), "goes-on")
    run(spark, forever)
    before = {kind: held_here(forever, kind) for kind in ROLLUPS}
    if first_deleted:
        run(spark, short)
    late = [sample(group="late", at_ms=long_ago_ms + 30_000 * n, lag=77) for n in range(3)]
    record(forever, Recording(samples=late, groups=[], events=[]), "late")

    result = run(spark, short)

    assert result.removed[Kind.SAMPLES] >= len(late)
    after = {kind: held_here(short, kind) for kind in ROLLUPS}
    assert held_here(short, Kind.SAMPLES) == held_here(short, Kind.ROLLUP_5M) == []
    for kind in (Kind.ROLLUP_1H, Kind.ROLLUP_1D):
        assert [row for row in after[kind] if row["group"] != "late"] == before[kind]
        of_late = [row for row in after[kind] if row["group"] == "late"]
        assert {row["level"]: row["lag_max"] for row in of_late} == {"partition": 77, "topic": 77}
        assert max(row["samples"] for row in of_late) >= len(late)


@pytest.mark.parametrize("kind_of_store", KINDS_OF_STORES)
def test_rows_that_are_gone_are_named_and_roll_ups_that_are_gone_made_anew(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, kind_of_store: str
) -> None:
    history = history_of(kind_of_store, request, tmp_path)
    ref = StoreRef(settings=history.model_copy(update={"retention": FOREVER}))
    record(ref, recording(25, rounds=100), "live")
    run(spark, ref)
    with closing(ref.open()) as store:
        before = {kind: held(store, kind) for kind in ROLLUPS}
        store.delete_before(Kind.ROLLUP_5M, "2099-01-01")
        store.delete_before(Kind.ROLLUP_1D, "2099-01-01")

    remade, idle = run(spark, ref), run(spark, ref)

    with closing(ref.open()) as store:
        again = {kind: held(store, kind) for kind in ROLLUPS}
        store.delete_before(Kind.SAMPLES, "2099-01-01")
        missing = store.verify().missing
    lossy = run(spark, ref, from_ms=NOON_MS)
    with closing(ref.open()) as store:
        after = {kind: held(store, kind) for kind in ROLLUPS}
    assert (remade.set_aside, idle.lines()) == ((), ("nothing is due",))
    assert again == before
    # as if retention had taken them
    assert missing == ()
    assert any("rows made earlier stay" in line for line in lossy.set_aside)
    assert after == before


def test_many_rows_in_elasticsearch_are_shared_out_by_groups(
    elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    there = HistorySettings(
        store="elasticsearch",
        elasticsearch=elastic_settings(elasticsearch.url, unique_prefix()),
        spool=tmp_path / "spool",
    )
    ref = StoreRef(settings=there)
    record(ref, recording(23, rounds=120, groups=6), "live")
    hour = NOON_MS, NOON_MS + HOUR_MS
    task_rows = {Kind.ROLLUP_5M: 400}
    rollups, roller = job_store(there).rollups(), Roller(ref, Kind.ROLLUP_5M)
    rollups.clusters()  # what was written is visible from now on

    shares = list(plan.units(rollups, Kind.ROLLUP_5M, "here", (hour,), task_rows=task_rows))

    apart = [row for unit in shares for row in roller.roll(unit).rows()]
    whole = roller.roll(Unit(cluster="here", from_ms=hour[0], to_ms=hour[1])).rows()
    assert len(shares) > 2
    assert Counter(map(repr, apart)) == Counter(map(repr, whole))
    assert {row["group"] for row in apart} == {f"group-{number}" for number in range(6)}
    rollups.close()
    roller.close()


def test_the_api_answers_from_roll_ups_what_it_answers_from_samples(
    spark: SparkSession, tmp_path: Path
) -> None:
    ref = StoreRef(settings=HistorySettings(url=str(tmp_path), retention=FOREVER))
    found = recording(22, rounds=500)
    regular = Recording(
        samples=[row for row in found.samples if row["reason"] == "interval"],
        groups=found.groups,
        events=[],
    )
    record(ref, regular, "live")
    store = ref.open()
    reader = HistoryReader(store, interval_ms=INTERVAL_MS, full_ms=FULL_MS)

    def answers(step_ms: int) -> list[HistoryPage]:
        ask = HistoryAsk(
            from_ms=NOON_MS - NOON_MS % DAY_MS, to_ms=NOON_MS + 12 * HOUR_MS, step_ms=step_ms
        )
        row = regular.samples[0]
        return [
            asyncio.run(reader.group("here", "group-0", ask)),
            asyncio.run(
                reader.partition("here", row["group"], row["topic"], row["partition"], ask)
            ),
        ]

    steps = (300_000, HOUR_MS, DAY_MS)
    from_samples = [answers(step_ms) for step_ms in steps]
    run(spark, ref)
    for kind in (Kind.SAMPLES, Kind.GROUP_SAMPLES):
        shutil.rmtree(tmp_path / kind.value)
    from_rollups = [answers(step_ms) for step_ms in steps]
    store.close()

    for before, after in zip(from_samples, from_rollups, strict=True):
        for raw, rolled in zip(before, after, strict=True):
            assert rolled.kind in ROLLUPS
            assert raw.kind in {Kind.SAMPLES, Kind.GROUP_SAMPLES}
            assert [list(map(str, plain(raw, name))) for name in raw.columns] == [
                list(map(str, plain(rolled, name))) for name in raw.columns
            ]


def plain(page: HistoryPage, name: str) -> list[object]:
    values = page.columns[name]
    found = values.tolist()
    return [round(value, 9) if isinstance(value, float) else value for value in found]
