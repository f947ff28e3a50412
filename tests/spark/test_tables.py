"""History rows as Spark tables: what the stores themselves read, and what they pass over."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, Records, Source
from lagwatch.errors import HistoryError
from lagwatch.history.compact import compact
from lagwatch.history.layout import HOUR_MS
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.schemas import column_names, struct_type, to_batches
from lagwatch.jobs.tables import StoreRef, on_sound_files, read_rows, replace_rows, write_rows
from lagwatch.ports.history import HistoryRange
from tests.support.history import (
    EVER,
    NOON_MS,
    events,
    happening,
    held,
    in_order,
    sample,
    samples,
)


@pytest.fixture
def store(tmp_path: Path) -> ParquetStore:
    # a name full of what means something in a path of Spark's
    return ParquetStore(str(tmp_path / "a {b} [c]*?=1%2F"))


def ref(store: ParquetStore) -> StoreRef:
    return StoreRef.of(store.where, HistorySettings())


def frame_of(spark: SparkSession, records: Records) -> DataFrame:
    return spark.createDataFrame(
        pa.Table.from_batches(list(to_batches(records))), schema=struct_type(records.kind)
    )


def rows_of(frame: DataFrame, kind: Kind) -> list[dict[str, Any]]:
    return in_order([row.asDict() for row in frame.collect()], kind)


def ever(kind: Kind = Kind.SAMPLES, **changes: Any) -> HistoryRange:  # noqa: ANN401
    return HistoryRange(kind=kind, **EVER | changes)


def test_spark_reads_what_the_store_reads(spark: SparkSession, store: ParquetStore) -> None:
    store.write(
        [
            samples([sample(partition=number, cluster="a/b c%") for number in range(3)]),
            samples([sample(at_ms=NOON_MS + HOUR_MS, cluster="007", lag=None, owner=None)]),
            events([happening(), happening(group=None, topic=None, partition=None)]),
        ],
        batch="one",
    )

    read = {kind: read_rows(spark, ref(store), ever(kind)) for kind in (Kind.SAMPLES, Kind.EVENTS)}

    for kind, frame in read.items():
        assert tuple(frame.columns) == column_names(kind)
        assert rows_of(frame, kind) == held(store, kind)
    assert len(held(store)) == 4


def test_a_record_that_stands_in_two_files_comes_once_and_from_the_better_source(
    spark: SparkSession, store: ParquetStore
) -> None:
    store.write([samples([sample(lag=1, source=Source.BACKFILL.value)])], batch="a-backfill")
    store.write([samples([sample(lag=2)])], batch="b-live")
    store.write([samples([sample(lag=3)])], batch="c-live")
    twice = happening(group=None, topic=None, partition=None)
    for batch in ("one", "two"):
        store.write([events([twice])], batch=batch)

    frame = read_rows(spark, ref(store), ever(columns=("lag",)))
    of_events = read_rows(spark, ref(store), ever(Kind.EVENTS))

    assert [row["lag"] for row in frame.collect()] == [2]
    assert frame.columns == ["cluster", "group", "topic", "partition", "at_ms", "lag"]
    assert rows_of(of_events, Kind.EVENTS) == held(store, Kind.EVENTS) == [twice]


def test_files_whose_rows_stand_in_a_compacted_one_are_passed_over(
    spark: SparkSession, store: ParquetStore
) -> None:
    for number in range(3):
        store.write([samples([sample(partition=number)])], batch=f"b{number}")
    (replaced, *_) = Path(store.where).rglob("*.parquet")
    kept = replaced.read_bytes()
    compact(store, before_ms=NOON_MS + HOUR_MS)
    replaced.write_bytes(kept)  # as a compaction leaves it that is killed

    frame = read_rows(spark, ref(store), ever())

    assert rows_of(frame, Kind.SAMPLES) == held(store)
    assert frame.count() == 3


@pytest.mark.parametrize(
    "wanted",
    [
        {"from_ms": NOON_MS, "to_ms": NOON_MS + 1},
        {"group": "billing"},
        {"topic": "orders", "partition": 1},
        {"cluster": "there"},
        {"cluster": "nowhere"},
        {"from_ms": 5, "to_ms": 6},
    ],
)
def test_only_what_is_wanted_is_read(
    spark: SparkSession, store: ParquetStore, wanted: dict[str, Any]
) -> None:
    rows = [
        sample(cluster=cluster, group=group, partition=partition, at_ms=at_ms)
        for cluster in ("here", "there")
        for group in ("billing", "shipping")
        for partition in (0, 1)
        for at_ms in (NOON_MS, NOON_MS + 1, NOON_MS + HOUR_MS)
    ]
    store.write([samples(rows)], batch="all")

    frame = read_rows(spark, ref(store), ever(**wanted))

    assert tuple(frame.columns) == column_names(Kind.SAMPLES)
    assert rows_of(frame, Kind.SAMPLES) == held(store, **wanted)


def test_files_that_cannot_be_used_are_named_and_set_aside(
    spark: SparkSession, store: ParquetStore
) -> None:
    store.write([samples([sample()])], batch="sound")
    (sound,) = Path(store.where).rglob("*.parquet")
    table = pq.read_table(sound)
    (sound.parent / "part-torn.parquet").write_bytes(sound.read_bytes()[:-9])
    later = {**table.schema.metadata, b"lagwatch.schema_version": b"2"}
    pq.write_table(table.replace_schema_metadata(later), sound.parent / "part-later.parquet")
    pq.write_table(pa.table({"x": [1]}), sound.parent / "part-foreign.parquet")
    typed = table.set_column(table.schema.get_field_index("at_ms"), "at_ms", pa.array(["noon"]))
    pq.write_table(typed, sound.parent / "part-typed.parquet")
    aside: dict[str, str] = {}

    frame = read_rows(spark, ref(store), ever(), aside=aside.__setitem__)

    assert frame.count() == 1
    reasons = {Path(file).name: reason for file, reason in aside.items()}
    assert sorted(reasons) == [
        f"part-{name}.parquet" for name in ("foreign", "later", "torn", "typed")
    ]
    assert "lacks the columns" in reasons["part-foreign.parquet"]
    assert "Read it with the release that wrote it" in reasons["part-later.parquet"]
    assert "cannot be read" in reasons["part-torn.parquet"]
    assert "column at_ms is BYTE_ARRAY" in reasons["part-typed.parquet"]


def test_rows_written_by_tasks_are_there_once_however_often_they_are_written(
    spark: SparkSession, store: ParquetStore
) -> None:
    rows = [
        sample(partition=number, at_ms=NOON_MS + hour * HOUR_MS, lag=None)
        for number in range(10)
        for hour in range(2)
    ]
    frame = frame_of(spark, samples(rows)).repartition(3)

    first = write_rows(frame, ref(store), Kind.SAMPLES, batch="backfill-1")
    files = sorted(Path(store.where).rglob("*.parquet"))
    again = write_rows(frame.repartition(3, "partition"), ref(store), Kind.SAMPLES, batch="x")
    same = write_rows(frame, ref(store), Kind.SAMPLES, batch="backfill-1")

    assert first.rows == again.rows == same.rows == 20
    assert held(store) == in_order(rows, Kind.SAMPLES)
    assert {file for file in files if file.name.startswith("part-backfill-1-")} == {*files}
    assert set(files) < set(Path(store.where).rglob("*.parquet"))
    assert rows_of(read_rows(spark, ref(store), ever()), Kind.SAMPLES) == held(store)


def test_a_backfill_never_hides_what_was_recorded_live(
    spark: SparkSession, store: ParquetStore
) -> None:
    store.write([samples([sample(lag=1)])], batch="z-live")

    worse = samples([sample(lag=2, source=Source.BACKFILL.value), sample(partition=1, lag=3)])
    write_rows(frame_of(spark, worse), ref(store), Kind.SAMPLES, batch="a-backfill")

    assert [row["lag"] for row in held(store)] == [1, 3]
    found = read_rows(spark, ref(store), ever())
    assert sorted(row["lag"] for row in found.collect()) == [1, 3]


def test_rows_of_a_parquet_store_are_not_replaced_one_by_one(
    spark: SparkSession, store: ParquetStore
) -> None:
    with pytest.raises(HistoryError, match="replaces no single rows"):
        replace_rows(frame_of(spark, samples([sample()])), ref(store), Kind.SAMPLES)


def test_a_file_with_a_torn_page_is_named_and_passed_over_and_a_vanished_one_is_no_fault(
    spark: SparkSession, store: ParquetStore
) -> None:
    for number in range(3):
        rows = [sample(partition=place, at_ms=NOON_MS + number, lag=place) for place in range(2000)]
        store.write([samples(rows)], batch=f"b{number}")
    torn, vanishing, sound = sorted(Path(store.where).rglob("*.parquet"))
    data = bytearray(torn.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 100] = bytes(100)
    torn.write_bytes(data)
    aside: dict[str, str] = {}
    calls = []

    def everything() -> int:
        frame = read_rows(spark, ref(store), ever(), aside=aside.__setitem__)
        calls.append(frame)
        if len(calls) == 2:  # behind the look at the files
            vanishing.unlink()
        return len(frame.toArrow())

    rows_read = on_sound_files(ref(store), everything)

    assert rows_read == pq.read_metadata(sound).num_rows == 2000
    assert len(calls) == 3
    assert [Path(file) for file in aside] == [torn.relative_to(store.where)]
    assert "cannot be read" in "".join(aside.values())
