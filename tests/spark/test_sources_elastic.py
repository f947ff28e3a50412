"""Elasticsearch as a Spark table: rows of ours, Telegraf's documents, faults while writing."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from elasticsearch import Elasticsearch
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, IsNull

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import KINDS, Kind, Records, Source, from_rows
from lagwatch.errors import HistoryError
from lagwatch.jobs.faults import original_error
from lagwatch.jobs.schemas import column_names, struct_type, to_batches
from lagwatch.jobs.sources.elastic import ElasticReader
from lagwatch.jobs.sources.options import elastic_options
from lagwatch.jobs.sources.registry import register
from lagwatch.jobs.tables import StoreRef, read_rows, replace_rows, write_rows
from lagwatch.ports.history import HistoryRange
from tests.support.elastic_history import DAY_MS, settings, unique_prefix
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import (
    EVER,
    NOON_MS,
    happening,
    held,
    in_order,
    rollup,
    sample,
    samples,
)
from tests.support.waiting import eventually


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture
def client(elasticsearch: EmbeddedElasticsearch) -> Iterator[Elasticsearch]:
    with elasticsearch.client() as connected:
        yield connected


def ref_to(server: EmbeddedElasticsearch, folder: Path, **options: Any) -> StoreRef:  # noqa: ANN401
    there = settings(server.url, unique_prefix(), **options)
    return StoreRef(
        settings=HistorySettings(store="elasticsearch", elasticsearch=there, spool=folder)
    )


def frame_of(spark: SparkSession, records: Records) -> DataFrame:
    return spark.createDataFrame(
        pa.Table.from_batches(list(to_batches(records))), schema=struct_type(records.kind)
    )


def rows_of(frame: DataFrame, kind: Kind = Kind.SAMPLES) -> list[dict[str, Any]]:
    return in_order([row.asDict() for row in frame.collect()], kind)


def ever(kind: Kind = Kind.SAMPLES, **changes: Any) -> HistoryRange:  # noqa: ANN401
    return HistoryRange(kind=kind, **EVER | changes)


def held_in(ref: StoreRef, kind: Kind = Kind.SAMPLES, **wanted: Any) -> Sequence[Any]:  # noqa: ANN401
    store = ref.open()
    try:
        return held(store, kind, **wanted)
    finally:
        store.close()


def test_what_is_written_is_read_back_each_record_once(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    rows = samples(
        [
            sample(partition=number, at_ms=NOON_MS + day * DAY_MS, lag=None if number else 1)
            for number in range(3)
            for day in range(2)
        ]
    )
    named = from_rows(Kind.EVENTS, [happening(), happening(group=None, topic=None, lag=None)])

    first = write_rows(frame_of(spark, rows), ref, Kind.SAMPLES, batch="a")
    again = write_rows(frame_of(spark, rows), ref, Kind.SAMPLES, batch="b")
    write_rows(frame_of(spark, named), ref, Kind.EVENTS, batch="a")

    assert (first.rows, first.rejected, again.rows) == (6, 0, 6)
    found = read_rows(spark, ref, ever())
    assert tuple(found.columns) == column_names(Kind.SAMPLES)
    assert rows_of(found) == in_order(rows.rows(), Kind.SAMPLES) == held_in(ref)
    events = read_rows(spark, ref, ever(Kind.EVENTS))
    assert rows_of(events, Kind.EVENTS) == in_order(named.rows(), Kind.EVENTS)


def test_a_worse_source_never_takes_the_place_of_a_better_one(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)

    for lag, source in (
        (1, Source.TELEGRAF),
        (2, Source.BACKFILL),
        (3, Source.LIVE),
        (4, Source.BACKFILL),
    ):
        rows = samples([sample(lag=lag, source=source.value)])
        write_rows(frame_of(spark, rows), ref, Kind.SAMPLES, batch=f"b{lag}")

    found = read_rows(spark, ref, ever(columns=("lag", "source")))
    assert [(row["lag"], row["source"]) for row in found.collect()] == [(3, "live")]
    assert found.columns == ["cluster", "group", "topic", "partition", "at_ms", "lag", "source"]


def test_slices_are_read_by_several_tasks_and_share_out_every_row(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    rows = [sample(partition=n % 10, at_ms=NOON_MS + n // 10 * 1000) for n in range(6000)]
    write_rows(frame_of(spark, samples(rows)), ref, Kind.SAMPLES, batch="a")

    found = (
        spark.read.format("lagwatch.elastic")
        .options(**elastic_options(ref.settings.elasticsearch))
        .options(kind="samples", rows_per_task="1500", pushdown="true")
        .load()
    )

    assert found.rdd.getNumPartitions() == 4
    assert found.select("partition", "at_ms").distinct().count() == found.count() == 6000
    part = found.where(f"cluster = 'here' and partition in (3, 4) and at_ms >= {NOON_MS + 500_000}")
    assert part.count() == 200


def test_a_table_used_twice_in_a_query_keeps_the_conditions_of_each_use(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    rows = [sample(at_ms=NOON_MS + n * 1000) for n in range(10)]
    write_rows(frame_of(spark, samples(rows)), ref, Kind.SAMPLES, batch="a")
    found = read_rows(spark, ref, ever())

    late = (
        found.where(f"at_ms >= {NOON_MS + 7000}").groupBy("group").agg(F.count("*").alias("late"))
    )
    every = found.groupBy("group").agg(F.count("*").alias("every"))

    [row] = late.join(every, on="group").collect()
    assert (row["late"], row["every"]) == (3, 10)


def test_conditions_on_the_key_are_left_to_elasticsearch(
    elasticsearch: EmbeddedElasticsearch,
) -> None:
    reader = ElasticReader(settings(elasticsearch.url, "p"), {"kind": "samples"}, ("cluster",))
    answered: list[Filter] = [
        EqualTo(("cluster",), "here"),
        In(("group",), ("a", "b")),
        GreaterThanOrEqual(("at_ms",), NOON_MS),
    ]
    others: list[Filter] = [EqualTo(("owner",), "x"), IsNull(("lag",)), In(("group",), ("a", None))]

    left = list(reader.narrow([*answered, *others]))

    assert left == others


@pytest.mark.parametrize(
    "wanted", [{"cluster": "there"}, {"group": "billing", "partition": 1}, {"to_ms": 5}]
)
def test_only_what_is_wanted_is_read(
    spark: SparkSession,
    elasticsearch: EmbeddedElasticsearch,
    tmp_path: Path,
    wanted: dict[str, Any],
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    rows = [
        sample(cluster=cluster, group=group, partition=partition)
        for cluster in ("here", "there")
        for group in ("billing", "shipping")
        for partition in (0, 1)
    ]
    write_rows(frame_of(spark, samples(rows)), ref, Kind.SAMPLES, batch="a")

    found = read_rows(spark, ref, ever(**wanted))

    assert rows_of(found) == held_in(ref, **wanted)


def test_an_empty_store_is_an_empty_table_of_every_kind(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)

    for kind in KINDS:
        found = read_rows(spark, ref, ever(kind))

        assert found.schema == struct_type(kind)
        assert found.count() == 0
    nothing = frame_of(spark, samples([sample()])).limit(0)
    assert write_rows(nothing, ref, Kind.SAMPLES, batch="a").rows == 0


def test_rows_of_a_later_release_are_refused_with_the_remedy(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    rows = samples([sample(), sample(partition=1, schema_version=2)])
    write_rows(frame_of(spark, rows), ref, Kind.SAMPLES, batch="a")

    with pytest.raises(PySparkException) as failed:
        read_rows(spark, ref, ever()).count()

    error = original_error(failed.value)
    assert isinstance(error, HistoryError)
    assert str(error).startswith("1 of the samples are of a schema version above 1")
    assert "Read them with the release that wrote them" in str(error)


def test_computed_rows_are_replaced_binary_columns_and_all(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    kind = Kind.ROLLUP_5M
    for lag, sketch in ((1, b"\x00\xff"), (2, b"\x01")):
        rows = from_rows(kind, [rollup(kind, lag_max=lag, lag_sketch=sketch)])
        replace_rows(frame_of(spark, rows), ref, kind)

    found = rows_of(read_rows(spark, ref, ever(kind)), kind)

    assert [(row["lag_max"], row["lag_sketch"]) for row in found] == [(2, b"\x01")]


def test_rows_that_are_refused_are_counted_and_the_others_are_written(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(elasticsearch, tmp_path)
    # longer than a searchable word may be
    rows = samples([sample(), sample(group="x" * 40_000), sample(partition=1)])

    written = write_rows(frame_of(spark, rows), ref, Kind.SAMPLES, batch="a")
    sink = frame_of(spark, rows).write.format("lagwatch.elastic").mode("append")
    with pytest.raises(PySparkException) as failed:
        sink.options(
            **elastic_options(ref.settings.elasticsearch), kind="samples", spool=str(tmp_path)
        ).save()

    assert (written.rows, written.rejected) == (3, 1)
    assert written.rejected_in == str(tmp_path / "rejected")
    lines = (tmp_path / "rejected" / "rejected.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line)["document"]["group"] for line in lines] == ["x" * 40_000] * 2
    assert "Elasticsearch rejected 1 rows because of their content" in str(
        original_error(failed.value)
    )
    assert read_rows(spark, ref, ever()).count() == 2


def test_telegrafs_documents_are_read_from_their_source(
    spark: SparkSession, elasticsearch: EmbeddedElasticsearch, client: Elasticsearch
) -> None:
    pattern = unique_prefix()
    documents: list[dict[str, Any]] = [
        {
            "@timestamp": "2026-11-21T04:06:56Z",
            "measurement_name": "burrow_partition",
            "burrow_partition": {
                "lag": 7,
                "offset": 3,
                "status": "OK",
                "status_code": 1,
                "timestamp": 1795233697375,
            },
            "tag": {
                "cluster": "c1",
                "group": "plain",
                "host": "tg-host",
                "owner": "",
                "partition": "0",
                "topic": "t",
            },
        },
        {
            "@timestamp": "2026-11-21T04:07:56Z",
            "measurement_name": "burrow_group",
            "burrow_group": {"status": "ERR", "status_code": 4, "total_lag": 9007199254740993},
            "tag": {"cluster": "c1", "group": "plain"},
        },
        {
            "@timestamp": "2026-11-21T04:07:57Z",
            "measurement_name": "burrow_topic",
            "burrow_topic": {"offset": 10.0},
            "tag": {"cluster": "c1", "topic": "t", "partition": "12"},
        },
        {"@timestamp": "2026-11-21T04:08:56Z", "measurement_name": "cpu", "cpu": {}, "tag": {}},
        {
            "@timestamp": "2026-11-21T04:08:57Z",
            "measurement_name": "burrow_topic",
            "burrow_topic": {"offset": "ten"},
            "tag": {"cluster": "c1", "topic": "t", "partition": "12"},
        },
        {"@timestamp": "2026-11-22T00:00:00Z", "measurement_name": "burrow_group"},
    ]
    client.indices.create(
        index=f"{pattern}-2026.11.21",
        mappings={
            "dynamic_templates": [
                {"n": {"match_mapping_type": "long", "mapping": {"type": "float", "index": False}}}
            ],
            "properties": {"@timestamp": {"type": "date"}, "burrow_topic": {"enabled": False}},
        },
    )
    for document in documents:
        client.index(index=f"{pattern}-2026.11.21", document=document)
    client.indices.refresh(index=f"{pattern}-2026.11.21")

    found = (
        spark.read.format("lagwatch.elastic")
        .options(telegraf=f"{pattern}-*", urls=elasticsearch.url, pushdown="true")
        .load()
        .where("at_ms < 1795305600000")
    )

    rows = {row["fault"] or row["measurement"]: row.asDict() for row in found.collect()}
    assert set(rows) == {
        *("burrow_partition", "burrow_group", "burrow_topic"),
        *("measurement_name is 'cpu'", "offset is 'ten'"),
    }
    assert rows["burrow_partition"] | {"id": ""} == {
        "measurement": "burrow_partition",
        "at_ms": 1795234016000,
        "cluster": "c1",
        "group": "plain",
        "topic": "t",
        "partition": 0,
        "host": "tg-host",
        "owner": None,
        "status": "OK",
        "status_code": 1,
        "lag": 7,
        "total_lag": None,
        "partition_count": None,
        "offset": 3,
        "timestamp": 1795233697375,
        "index": f"{pattern}-2026.11.21",
        "id": "",
        "fault": None,
    }
    assert rows["burrow_group"]["total_lag"] == 9007199254740993
    assert (rows["burrow_topic"]["offset"], rows["burrow_topic"]["partition"]) == (10, 12)


@pytest.mark.thorough
def test_a_server_that_is_killed_in_mid_write_costs_a_wait_and_no_row(
    spark: SparkSession, own_elasticsearch: EmbeddedElasticsearch, tmp_path: Path
) -> None:
    ref = ref_to(own_elasticsearch, tmp_path, bulk_bytes=20_000, connections=1, timeout_s=5.0)
    killed = tmp_path / "killed"
    numbers = spark.range(12_000, numPartitions=2).select(F.col("id").cast("int").alias("number"))
    rows = (
        numbers.crossJoin(F.broadcast(frame_of(spark, samples([sample()]))))
        .withColumn("partition", F.col("number"))
        .select(*column_names(Kind.SAMPLES))
    )

    with own_elasticsearch.client() as client:
        killer = threading.Thread(
            target=_kill_in_mid_write, args=(own_elasticsearch, client, ref, killed)
        )
        killer.start()
        half_after = rows.mapInArrow(_second_half_after(killed), rows.schema)
        written = write_rows(half_after, ref, Kind.SAMPLES, batch="a")
        killer.join()
        # what workers wrote is not visible to others at once
        client.indices.refresh(index=f"{ref.settings.elasticsearch.prefix}-*")

    assert written.rows == 12_000
    assert written.retries > 0
    assert len(held_in(ref)) == 12_000
    store = ref.open()
    assert store.verify().sound
    store.close()


def _second_half_after(event: Path) -> Any:  # noqa: ANN401 what mapInArrow takes
    """Rows of the second task are handed on once there is this file."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.column("partition")[0].as_py() >= 6_000:
                eventually(event.exists, "the server to be killed", timeout_s=90)
            yield batch

    return task


def _kill_in_mid_write(
    server: EmbeddedElasticsearch, client: Elasticsearch, ref: StoreRef, killed: Path
) -> None:
    """Once some rows are there; and start it again."""
    index = f"{ref.settings.elasticsearch.prefix}-samples-*"
    # the index answers 503 until its shard is there
    patient = client.options(ignore_status=503)

    def begun() -> bool:
        patient.indices.refresh(index=index, ignore_unavailable=True)
        return bool(patient.count(index=index).get("count"))

    eventually(begun, "the first rows", timeout_s=60)
    server.kill()
    killed.touch()
    server.start()
