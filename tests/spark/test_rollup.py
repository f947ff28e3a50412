"""The job `rollup` on Parquet: what it writes, what it does again, what it leaves behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.testing import assertDataFrameEqual

from lagwatch.config.history import HistorySettings, RetentionSettings
from lagwatch.core.record import Kind, Records, from_rows
from lagwatch.core.rollup import BucketSpan, merge, roll_up
from lagwatch.history.compact import compact
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.job import RollupRequest, RollupResult, run_rollup
from lagwatch.jobs.rollup.plan import ROLLUPS
from lagwatch.jobs.rollup.rows import FINER, rolled_up
from lagwatch.jobs.schemas import column_names, struct_type, to_batches
from lagwatch.jobs.stores.base import MakeRows
from lagwatch.jobs.stores.making import Transform
from lagwatch.jobs.stores.parquet.rollups import FILE_TYPE, other_rows
from lagwatch.jobs.stores.registry import job_store, open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.jobs.unit_frames import UNIT_TYPE, spread, units_frame
from lagwatch.jobs.units import Unit
from tests.support.history import NOON_MS, group_sample, held, rollup, sample
from tests.support.rollups import INTERVAL_MS, Recording, going_on, recording

DAY_START_MS = day_start_ms("2026-11-21")
SOON_MS = DAY_START_MS + DAY_MS + HOUR_MS
FOREVER = RetentionSettings(
    **{f"{kind.value}_days": 0 for kind in Kind},
)


def ref(folder: Path, **options: Any) -> StoreRef:  # noqa: ANN401
    settings = {"retention": FOREVER} | options
    return StoreRef(settings=HistorySettings(url=str(folder), **settings))


def run(
    spark: SparkSession,
    store: StoreRef,
    *,
    now_ms: int = SOON_MS,
    steps: list[str] | None = None,
    **request: Any,  # noqa: ANN401
) -> RollupResult:
    return run_rollup(
        lambda: spark,
        store,
        RollupRequest(**request),
        now_ms=now_ms,
        log_step=lambda event, _values: None if steps is None else steps.append(event),
    )


def record(folder: Path, found: Recording, batch: str = "live") -> None:
    ParquetStore(str(folder)).write(found.records(), batch=batch)


def stored(folder: Path) -> dict[Kind, list[Any]]:
    store = ParquetStore(str(folder))
    return {kind: held(store, kind) for kind in ROLLUPS}


def computed(found: Recording, *, from_ms: int = DAY_START_MS) -> dict[Kind, list[Any]]:
    """The same without Spark, store or watermark."""
    span = BucketSpan(kind=Kind.ROLLUP_5M, from_ms=from_ms, to_ms=DAY_START_MS + DAY_MS)
    five = roll_up(found.raw(), span, cluster="here", interval_ms=INTERVAL_MS)
    hours = merge(five, Kind.ROLLUP_1H)
    return {
        Kind.ROLLUP_5M: ordered(five),
        Kind.ROLLUP_1H: ordered(hours),
        Kind.ROLLUP_1D: ordered(merge(hours, Kind.ROLLUP_1D)),
    }


def ordered(rows: Records) -> list[Any]:
    return list(rows.rows())


def as_rows(make: MakeRows, source: T.StructType, kind: Kind) -> Transform:
    """Transform work items (columns `source`) into the rows of a kind."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        for rows in make(batches, []):
            yield from to_batches(rows)

    def transform(frame: DataFrame) -> DataFrame:
        target = struct_type(kind)
        return frame.select(*source.names).mapInArrow(task, target).select(*target.names)

    return transform


def by_key(rows: list[Any]) -> list[Any]:
    return sorted(
        rows,
        key=lambda row: [
            (
                row[name] is not None,
                row[name] or 0 if name in {"partition", "bucket_ms"} else row[name] or "",
            )
            for name in Kind.ROLLUP_5M.key
        ],
    )


def assert_same(found: dict[Kind, list[Any]], expected: dict[Kind, list[Any]]) -> None:
    for kind in ROLLUPS:
        assert by_key(found[kind]) == by_key(expected[kind]), kind


def test_units_become_rows_of_roll_ups(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    record(
        folder,
        Recording(
            samples=[sample(lag=lag, at_ms=NOON_MS + 30_000 * lag) for lag in (1, 2, 3)],
            groups=[group_sample(total_lag=lag, at_ms=NOON_MS + 30_000 * lag) for lag in (1, 2, 3)],
            events=[],
        ),
    )
    units = units_frame(spark, [Unit(cluster="here", from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)])
    names = ("level", "group", "topic", "partition", "bucket_ms", "samples", "lag_max", "ok_s")

    make = rolled_up(ref(folder), Kind.ROLLUP_5M)
    rows = units.transform(as_rows(make, UNIT_TYPE, Kind.ROLLUP_5M))

    fields = [struct_type(Kind.ROLLUP_5M)[name] for name in names]
    expected = spark.createDataFrame(
        [
            ("group", "billing", None, None, NOON_MS, 3, 3, 90.0),
            ("partition", "billing", "orders", 0, NOON_MS, 3, 3, 90.0),
            ("topic", "billing", "orders", None, NOON_MS, 3, 3, 90.0),
        ],
        type(struct_type(Kind.ROLLUP_5M))(fields),
    )
    assert tuple(rows.columns) == column_names(Kind.ROLLUP_5M)
    assertDataFrameEqual(rows.select(*names), expected)


def test_rows_of_other_buckets_are_kept_when_a_file_is_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    store = ParquetStore(str(tmp_path))
    rows = [rollup(Kind.ROLLUP_5M, bucket_ms=NOON_MS + 300_000 * number) for number in range(3)]
    store.write([from_rows(Kind.ROLLUP_5M, rows)], batch="old")
    (slot,) = store.stored_slots(Kind.ROLLUP_5M, "here")
    (footer,) = store.footers(slot)
    ranges = {"here": ((NOON_MS + 300_000, NOON_MS + 600_000),)}
    files = spread(spark, [("here", slot.from_ms, footer.file.name)], FILE_TYPE)

    make = other_rows(str(tmp_path), Kind.ROLLUP_5M, ranges)
    kept = files.transform(as_rows(make, FILE_TYPE, Kind.ROLLUP_5M))

    target = struct_type(Kind.ROLLUP_5M)
    expected = spark.createDataFrame(
        [tuple(row.get(name) for name in target.names) for row in (rows[0], rows[2])], target
    )
    assertDataFrameEqual(kept, expected)


def test_a_day_is_rolled_up_and_a_second_run_finds_nothing_due(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(7, rounds=300)
    record(tmp_path, found)

    first = run(spark, ref(tmp_path))
    second = run(spark, ref(tmp_path))

    assert_same(stored(tmp_path), computed(found))
    assert first.rows[Kind.ROLLUP_5M] == len(computed(found)[Kind.ROLLUP_5M])
    assert (sum(second.rows.values()), second.lines()) == (0, ("nothing is due",))
    assert ParquetStore(str(tmp_path)).verify().sound


def test_making_everything_again_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    found = recording(8, rounds=200)
    record(tmp_path, found)
    run(spark, ref(tmp_path))
    before = stored(tmp_path)

    again = run(spark, ref(tmp_path), from_ms=0)

    assert again.rows[Kind.ROLLUP_5M] == len(before[Kind.ROLLUP_5M])
    assert again.replaced == again.rows
    assert f"in the place of {len(before[Kind.ROLLUP_5M]):,}" in again.lines()[0]
    assert_same(stored(tmp_path), before)
    assert ParquetStore(str(tmp_path)).verify().duplicates == 0


def test_late_rows_open_their_own_buckets_again_and_no_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(9, rounds=900, groups=2, thin=False)
    late_ms = NOON_MS + 3 * HOUR_MS + 600_000
    is_late = {late_ms + INTERVAL_MS * number for number in range(6)}

    def some(*, late: bool) -> Recording:
        def chosen(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [row for row in rows if (row["at_ms"] in is_late) is late]

        return Recording(
            samples=chosen(found.samples), groups=chosen(found.groups), events=chosen(found.events)
        )

    record(tmp_path, some(late=False))
    run(spark, ref(tmp_path))
    compact(ParquetStore(str(tmp_path)), before_ms=2**62)  # it is no late data
    assert run(spark, ref(tmp_path)).lines() == ("nothing is due",)
    record(tmp_path, some(late=True), batch="spooled-for-long")

    result = run(spark, ref(tmp_path))

    assert_same(stored(tmp_path), computed(found))
    # rows of other buckets, which went into the new files, are neither written nor replaced
    rewritten = [
        row
        for row in stored(tmp_path)[Kind.ROLLUP_5M]
        if late_ms - late_ms % 300_000 <= row["bucket_ms"] < late_ms + 5 * 300_000
    ]
    assert result.rows[Kind.ROLLUP_5M] == result.replaced[Kind.ROLLUP_5M] == len(rewritten)
    # three minutes of rows, and the time for which rows may be held
    assert result.buckets[Kind.ROLLUP_5M] == 5
    assert (result.buckets[Kind.ROLLUP_1H], result.buckets[Kind.ROLLUP_1D]) == (1, 1)


def test_runs_in_the_course_of_a_day_make_what_one_run_makes_at_its_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(10, rounds=400)
    for number, seconds in enumerate((0, 3700, 3900, 8000)):
        end_ms = NOON_MS + seconds * 1000
        begin_ms = NOON_MS + (0, 0, 3700, 3900)[number] * 1000

        def then(rows: list[dict[str, Any]], first: int = begin_ms, last: int = end_ms) -> Any:  # noqa: ANN401
            return [row for row in rows if first <= row["at_ms"] < last]

        record(
            tmp_path,
            Recording(
                samples=then(found.samples), groups=then(found.groups), events=then(found.events)
            ),
            batch=f"b{number}",
        )
        result = run(spark, ref(tmp_path), now_ms=end_ms + 60_000)
        # of what is not over yet nothing is said
        last_ms = max((row["bucket_ms"] for row in stored(tmp_path)[Kind.ROLLUP_5M]), default=0)
        assert last_ms + 300_000 <= end_ms
        assert result.buckets[Kind.ROLLUP_1D] == 0
    rest = {
        name: [r for r in getattr(found, name) if r["at_ms"] >= end_ms]
        for name in ("samples", "groups", "events")
    }
    record(tmp_path, Recording(**rest), batch="rest")

    run(spark, ref(tmp_path))

    assert_same(stored(tmp_path), computed(found))


def test_what_a_killed_run_left_half_written_is_made_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(11, rounds=200)
    record(tmp_path, found)
    run(spark, ref(tmp_path))
    store = ParquetStore(str(tmp_path))
    wrong = [dict(row, lag_max=1) for row in held(store, Kind.ROLLUP_5M)[:20]]
    # of a later run, so its rows count; it wrote this much and did not come to its end
    store.write([from_rows(Kind.ROLLUP_5M, wrong)], batch="rollup-000000000000-half")
    state = open_state(ref(tmp_path).settings)
    marks = state.load("rollup")
    intent = [[NOON_MS, NOON_MS + HOUR_MS], [NOON_MS + HOUR_MS, SOON_MS]]
    state.save("rollup", {"here": {**marks["here"], "intent": intent}})

    run(spark, ref(tmp_path))

    assert_same(stored(tmp_path), computed(found))
    assert ParquetStore(str(tmp_path)).verify().duplicates == 0


def test_small_files_become_few_and_old_days_go(spark: SparkSession, tmp_path: Path) -> None:
    old = recording(12, rounds=30, start_ms=NOON_MS - 20 * DAY_MS)
    found = recording(13, rounds=60)
    record(tmp_path, old)
    for number in range(6):
        part = slice(number, None, 6)
        record(
            tmp_path,
            Recording(samples=found.samples[part], groups=found.groups[part], events=[]),
            batch=f"b{number}",
        )
    record(tmp_path, going_on(NOON_MS), batch="goes-on")
    keeping = ref(tmp_path, retention=RetentionSettings())

    result = run(spark, keeping)

    # 6 batches of two kinds in an hour, and 10 hours of two kinds in two days
    assert (result.compacted.merged, result.compacted.written) == (12 + 20, 2 + 4)
    assert result.removed == {Kind.SAMPLES: len(old.samples)}
    assert f"removed: {len(old.samples):,} rows of samples" in result.lines()
    # what retention took was rolled up before
    days = ParquetStore(str(tmp_path)).days(Kind.ROLLUP_5M, "here")
    assert days == ("2026-11-01", "2026-11-21")
    # and is not made again from what is left of it
    before = stored(tmp_path)
    record(tmp_path, recording(14, rounds=5, start_ms=NOON_MS - 20 * DAY_MS), batch="very-late")
    again = run(spark, keeping)
    assert_same(stored(tmp_path), before)
    assert again.set_aside == (), "nothing is missing that retention did not take"


def test_what_is_not_rolled_up_is_not_deleted(spark: SparkSession, tmp_path: Path) -> None:
    old_ms = NOON_MS - 20 * DAY_MS
    record(tmp_path, recording(12, rounds=30, start_ms=old_ms))
    record(tmp_path, recording(13, rounds=30, start_ms=old_ms, cluster="there"), batch="there")
    record(tmp_path, going_on(NOON_MS), batch="goes-on")
    keeping = ref(tmp_path, retention=RetentionSettings())

    of_one = run(spark, keeping, clusters=("here",))
    of_a_day = run(spark, keeping, from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)
    of_all = run(spark, keeping)

    assert of_one.removed == of_a_day.removed == {}
    assert of_all.removed[Kind.SAMPLES] > 0
    store = ParquetStore(str(tmp_path))
    for cluster in ("here", "there"):
        assert store.days(Kind.SAMPLES, cluster) == ()
        assert store.days(Kind.ROLLUP_5M, cluster) == ("2026-11-01",)


def test_days_that_were_never_rolled_up_are_made_whole_before_they_are_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Samples from before and after the instant up to which retention deletes."""
    cut_ms = DAY_START_MS
    found = recording(21, rounds=120, start_ms=cut_ms - 20 * 60_000 + 10_000)
    record(tmp_path, found)
    record(tmp_path, going_on(cut_ms + 7 * DAY_MS), batch="goes-on")

    keeping = ref(tmp_path, retention=RetentionSettings(samples_days=7))
    result = run(spark, keeping, now_ms=cut_ms + 7 * DAY_MS + HOUR_MS)

    assert 0 < result.removed[Kind.SAMPLES] < len(found.samples)
    made = {
        kind: [row for row in rows if row["cluster"] == "here"]
        for kind, rows in stored(tmp_path).items()
    }
    assert_same(made, computed(found, from_ms=cut_ms - DAY_MS))


def test_a_clock_that_is_far_ahead_deletes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """All rows would be old by it: ages count from a day after the newest of them."""
    record(tmp_path, recording(12, rounds=30, start_ms=NOON_MS - 9 * DAY_MS))
    record(tmp_path, going_on(NOON_MS), batch="goes-on")
    wrong_ms = NOON_MS + 40 * DAY_MS
    # what the service recorded by that clock is no proof of it
    record(tmp_path, recording(13, rounds=30, start_ms=wrong_ms - HOUR_MS), batch="wrong")
    keeping = ref(tmp_path, retention=RetentionSettings())
    steps: list[str] = []

    result = run(spark, keeping, now_ms=wrong_ms, steps=steps)

    store = ParquetStore(str(tmp_path))
    assert store.days(Kind.SAMPLES, "here") == ("2026-12-31",)
    assert store.days(Kind.SAMPLES, "goes on") == ("2026-11-20", "2026-11-21")
    assert set(result.removed) == {Kind.SAMPLES}
    assert "ages_count_from" in steps


def test_files_that_cannot_be_used_are_set_aside_and_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(15, rounds=20)
    record(tmp_path, found)
    record(tmp_path, recording(16, rounds=20, start_ms=NOON_MS + HOUR_MS), batch="torn")
    record(tmp_path, recording(17, rounds=20, start_ms=NOON_MS + 2 * HOUR_MS), batch="spoilt")
    (torn,) = tmp_path.glob("samples/**/part-torn.parquet")
    torn.write_bytes(torn.read_bytes()[:-100])
    (spoilt,) = tmp_path.glob("samples/**/part-spoilt.parquet")
    data = bytearray(spoilt.read_bytes())
    data[40:80] = bytes(40)  # its footer is whole
    spoilt.write_bytes(data)

    result = run(spark, ref(tmp_path))

    assert len(result.set_aside) == 2
    assert any("part-torn" in path for path in result.set_aside)
    assert any("part-spoilt" in path for path in result.set_aside)
    first_hour = [
        row
        for row in stored(tmp_path)[Kind.ROLLUP_5M]
        if row["bucket_ms"] < NOON_MS + HOUR_MS and row["level"] == "partition"
    ]
    assert first_hour


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_buckets_keep_their_roll_up_when_their_samples_cannot_be_read_any_more(
    spark: SparkSession, tmp_path: Path, damage: str
) -> None:
    record(tmp_path, recording(18, rounds=60))
    run(spark, ref(tmp_path))
    before = stored(tmp_path)
    (file,) = tmp_path.glob("samples/**/*.parquet")
    data = file.read_bytes()
    # one without its footer, and one whose footer is whole
    broken = {"cut": data[:3000], "flip": data[:40] + bytes(40) + data[80:]}
    file.write_bytes(broken[damage])
    record(tmp_path, recording(19, rounds=20, start_ms=NOON_MS + 1_800_000), batch="later")

    result = run(spark, ref(tmp_path), from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)

    five = stored(tmp_path)[Kind.ROLLUP_5M]
    new_ms = NOON_MS + 1_800_000
    assert [row for row in five if row["bucket_ms"] < new_ms] == before[Kind.ROLLUP_5M]
    assert {row["bucket_ms"] for row in five if row["bucket_ms"] >= new_ms} == {
        new_ms,
        new_ms + 300_000,
    }
    assert any(
        f"{len(before[Kind.ROLLUP_5M])} rows made earlier stay" in line and "12:00" in line
        for line in result.lines()
    )
    assert ParquetStore(str(tmp_path)).verify().duplicates == 0


@pytest.mark.parametrize("gone", ["samples", "group_samples"])
def test_buckets_keep_their_roll_up_when_the_file_of_their_samples_is_gone(
    spark: SparkSession, tmp_path: Path, gone: str
) -> None:
    record(tmp_path, recording(18, rounds=60))
    run(spark, ref(tmp_path))
    before = stored(tmp_path)
    (file,) = tmp_path.glob(f"{gone}/**/*.parquet")
    file.unlink()

    result = run(spark, ref(tmp_path), from_ms=NOON_MS, to_ms=NOON_MS + HOUR_MS)

    assert stored(tmp_path) == before
    number = len(before[Kind.ROLLUP_5M])
    assert any(
        f"rows that they are made from are missing: {number} rows made earlier stay" in line
        for line in result.lines()
    )


def test_hours_and_days_keep_their_roll_up_when_those_of_minutes_are_gone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Late rows have the hour remade, of which only their own buckets can be made."""
    whole = recording(22, rounds=100)
    late_ms = NOON_MS + 45 * 60_000
    early, late = (
        Recording(
            samples=[row for row in whole.samples if (row["at_ms"] < late_ms) is of_early],
            groups=[row for row in whole.groups if (row["at_ms"] < late_ms) is of_early],
            events=[],
        )
        for of_early in (True, False)
    )
    record(tmp_path, early)
    run(spark, ref(tmp_path))
    before = stored(tmp_path)
    for kind in ("rollup_5m", "samples", "group_samples"):
        (file,) = tmp_path.glob(f"{kind}/**/*.parquet")
        file.unlink()
    record(tmp_path, late, batch="late")

    result = run(spark, ref(tmp_path), from_ms=late_ms, to_ms=NOON_MS + HOUR_MS)

    kept = stored(tmp_path)
    assert [kept[kind] for kind in FINER] == [before[kind] for kind in FINER]
    assert any(
        f"{Kind.ROLLUP_1H} of cluster here" in line
        and "Where all samples are there, `lagwatch rollup --from 2026-11-21` makes them anew"
        in line
        for line in result.lines()
    )


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("kind", ROLLUPS)
def test_roll_ups_whose_file_is_gone_are_made_anew_once(
    spark: SparkSession, tmp_path: Path, kind: Kind, *, asked: bool
) -> None:
    """Else nothing would notice until the retention has deleted what they are made from."""
    found = recording(23, rounds=100)
    record(tmp_path, found)
    run(spark, ref(tmp_path))
    (file,) = tmp_path.glob(f"{kind.value}/**/*.parquet")
    file.unlink()

    elsewhere_ms = NOON_MS + 10 * HOUR_MS
    first = run(spark, ref(tmp_path), from_ms=elsewhere_ms) if asked else run(spark, ref(tmp_path))
    second = run(spark, ref(tmp_path))

    assert first.rows[kind] == len(computed(found)[kind])
    assert first.set_aside == ()
    assert second.lines() == ("nothing is due",)
    assert_same(stored(tmp_path), computed(found))


def test_roll_ups_that_the_retention_deleted_are_not_made_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The service deletes them between two runs, while samples wait for the next."""
    record(tmp_path, recording(26, rounds=100))
    run(spark, ref(tmp_path))
    (file,) = tmp_path.glob("rollup_5m/**/*.parquet")
    file.unlink()
    keeping = FOREVER.model_copy(update={"rollup_5m_days": 1})

    again = run(spark, ref(tmp_path, retention=keeping), now_ms=SOON_MS + DAY_MS)

    assert again.lines() == ("nothing is due",)


def test_it_is_said_that_rows_are_missing_of_what_is_made_for_the_first_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = recording(24, rounds=100)
    record(tmp_path, Recording(samples=found.samples[:-1], groups=found.groups, events=[]))

    first, second = run(spark, ref(tmp_path)), run(spark, ref(tmp_path))

    (said,) = first.set_aside
    assert said.startswith("missing rows: rollup_5m of cluster here from 2026-11-21 12:00")
    assert "is made without them" in said
    assert ParquetStore(str(tmp_path)).verify().missing
    assert second.set_aside == ()


def test_what_was_recorded_since_counts_though_a_file_of_its_time_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    whole = recording(20, rounds=20)
    record(tmp_path, whole.part(0, 2))
    run(spark, ref(tmp_path))
    (file,) = tmp_path.glob("samples/**/*.parquet")
    file.with_name("part-rubbish.parquet").write_bytes(b"rubbish")
    record(tmp_path, whole.part(1, 2), batch="late")

    run(spark, ref(tmp_path))

    assert_same(stored(tmp_path), computed(whole))


@pytest.mark.parametrize("names", [(), ("nobody",)])
def test_nothing_recorded_gives_an_empty_result(
    spark: SparkSession, tmp_path: Path, names: tuple[str, ...]
) -> None:
    tmp_path.joinpath("history").mkdir()

    result = run(spark, ref(tmp_path / "history"), clusters=names)

    assert (result.lines(), result.clusters) == (("nothing is due",), ())


def test_many_small_slots_are_compacted_in_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    store = ParquetStore(str(tmp_path))
    hours = 40
    for hour in range(hours):
        for file in range(2):
            at_ms = DAY_START_MS + hour * HOUR_MS + file * INTERVAL_MS
            store.write([from_rows(Kind.SAMPLES, [sample(at_ms=at_ms)])], batch=f"b{hour}-{file}")
    rollups = job_store(ref(tmp_path).settings).rollups()
    spark.sparkContext.setJobGroup("compaction", "few tasks")

    done = rollups.compact(lambda: spark, ["here"], DAY_START_MS + 100 * HOUR_MS)

    assert (done.merged, done.written) == (2 * hours, hours)
    assert len(held(store, Kind.SAMPLES)) == 2 * hours
    assert 1 < max(_tasks_of_stages(spark, "compaction")) <= 16


def _tasks_of_stages(spark: SparkSession, group: str) -> list[int]:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return [stage.numTasks for stage in stages if stage]
