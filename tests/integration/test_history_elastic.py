"""The Elasticsearch store against the real server: what is stored how, and read back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from elasticsearch import BadRequestError, Elasticsearch

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, concat, from_rows, record_ids, schema
from lagwatch.errors import HistoryError
from lagwatch.history.elastic import ElasticStore
from lagwatch.history.elastic.indices import AGES_FIELD, NOT_MAPPED, put_template, templates
from lagwatch.jobs.stores.registry import job_store
from lagwatch.ports.history import HistoryRange
from tests.support.elastic_history import (
    DAY_MS,
    break_index,
    create_red,
    open_store,
    partitions,
    samples,
    settings,
    unique_prefix,
)
from tests.support.elasticsearch import EmbeddedElasticsearch
from tests.support.history import EVER, NOON_MS, held, in_order, sample


@pytest.fixture
def prefix() -> str:
    return unique_prefix()


@pytest.fixture
def store(
    elasticsearch: EmbeddedElasticsearch, prefix: str, tmp_path: Path
) -> Iterator[ElasticStore]:
    opened = open_store(elasticsearch.url, prefix, tmp_path, timeout_s=20.0)
    yield opened
    opened.close()


@pytest.fixture
def client(elasticsearch: EmbeddedElasticsearch) -> Iterator[Elasticsearch]:
    with elasticsearch.client() as connected:
        yield connected


def rejected(folder: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / "rejected.jsonl").read_bytes().splitlines()]


def test_rows_lie_in_the_index_of_their_day_behind_the_alias_of_their_kind(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    midnight_ms = NOON_MS + DAY_MS // 2

    store.write([samples(1, at_ms=midnight_ms - 1), samples(2, at_ms=midnight_ms)], batch="a")

    client.indices.refresh(index=f"{prefix}-*")
    counted = {
        name: client.count(index=name)["count"]
        for name in client.indices.get_alias(name=f"{prefix}-samples")
    }
    assert counted == {f"{prefix}-samples-2026.11.21": 1, f"{prefix}-samples-2026.11.22": 2}


def test_every_kind_has_a_template_with_an_explicit_mapping(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(1)], batch="a")

    held = client.indices.get_index_template(name=f"{prefix}-*")["index_templates"]
    mapping = client.indices.get_mapping(index=f"{prefix}-samples")
    (mapped,) = mapping.body.values()
    fields, not_mapped = mapped["mappings"]["properties"], set(NOT_MAPPED[Kind.SAMPLES])
    assert {template["name"] for template in held} == {f"{prefix}-{kind}" for kind in Kind}
    assert mapped["mappings"]["dynamic"] == "false"
    assert fields["group"] == {"type": "keyword"}
    assert fields["committed_offset"] == {"type": "long", "index": False}
    assert fields["at_ms"]["type"] == "date"
    assert set(fields) == {*samples(1).columns, "@timestamp", AGES_FIELD} - not_mapped


def test_a_row_comes_back_as_it_was_written(store: ElasticStore) -> None:
    rows = [
        sample(committed_offset=2**53 + 1, group='ünï "quoted"\n', owner=None, lag=None),
        sample(partition=1, time_lag_s=None, log_end_offset=None),
    ]

    store.write([from_rows(Kind.SAMPLES, rows)], batch="a")

    assert held(store) == in_order(rows, Kind.SAMPLES)


def test_binary_columns_come_back_as_they_were_written(store: ElasticStore) -> None:
    row: dict[str, Any] = {
        "cluster": "prod",
        "level": "group",
        "group": "orders",
        "bucket_ms": NOON_MS,
        "samples": 3,
        "lag_sketch": b"\x00\xff\x10",
        "source": "live",
        "schema_version": 1,
    }

    store.write([from_rows(Kind.ROLLUP_1H, [row])], batch="a")

    (found,) = held(store, Kind.ROLLUP_1H)
    assert {name: found[name] for name in row} == row
    assert found["time_lag_sketch"] is None


def test_the_id_of_a_document_is_that_of_the_record(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    rows = samples(3)

    store.write([rows], batch="a")

    client.indices.refresh(index=f"{prefix}-*")
    hits = client.search(index=f"{prefix}-samples")["hits"]["hits"]
    assert {hit["_id"] for hit in hits} == set(record_ids(rows))


def test_the_same_rows_in_one_batch_and_in_another_are_one_record(store: ElasticStore) -> None:
    rows = samples(50)

    store.write([rows, rows], batch="a")
    store.write([samples(60)], batch="b")

    assert partitions(store) == list(range(60))


def test_a_live_row_takes_the_place_of_a_backfilled_one_and_never_the_other_way_round(
    store: ElasticStore,
) -> None:
    store.write([samples(3, source="backfill", lag=1)], batch="a")

    store.write([samples(2, source="live", lag=2)], batch="b")
    store.write([samples(3, source="backfill", lag=3)], batch="c")
    store.write([samples(2, source="live", lag=4)], batch="d")

    kept = [(row["source"], row["lag"]) for row in held(store)]
    assert kept == [("live", 2), ("live", 2), ("backfill", 1)]


def test_rows_that_can_never_be_stored_are_set_aside_with_the_reason_and_the_others_are_kept(
    store: ElasticStore, prefix: str, client: Elasticsearch, tmp_path: Path
) -> None:
    store.write([], batch="templates")
    conflicting = {"properties": {"owner": {"type": "date"}}}
    client.indices.create(index=f"{prefix}-samples-2026.11.21", mappings=conflicting)
    fine, refused = samples(5, owner=None), samples(2, first=5, owner="/10.0.0.7")

    store.write([concat([fine, refused])], batch="a")

    client.indices.refresh(index=f"{prefix}-*")
    hits = client.search(index=f"{prefix}-samples-2026.11.21")["hits"]["hits"]
    lines = rejected(tmp_path)
    assert sorted(hit["_source"]["partition"] for hit in hits) == [0, 1, 2, 3, 4]
    assert {line["id"] for line in lines} == set(record_ids(refused))
    assert [line["status"] for line in lines] == [400, 400]
    assert all("failed to parse field [owner] of type [date]" in line["reason"] for line in lines)
    assert lines[0]["document"]["owner"] == "/10.0.0.7"
    assert store.rejected.rows == 2


def test_a_write_block_sets_nothing_aside_and_passes(
    store: ElasticStore, prefix: str, client: Elasticsearch, tmp_path: Path
) -> None:
    store.write([samples(1)], batch="a")
    index = f"{prefix}-samples-2026.11.21"
    client.indices.put_settings(index=index, settings={"index.blocks.write": True})

    with pytest.raises(HistoryError, match="blocked by") as caught:
        store.write([samples(3)], batch="b")
    client.indices.put_settings(index=index, settings={"index.blocks.write": False})
    store.write([samples(3)], batch="b")

    assert caught.value.retryable
    assert not list(tmp_path.iterdir())
    assert partitions(store) == [0, 1, 2]


def test_a_closed_index_sets_nothing_aside(
    store: ElasticStore, prefix: str, client: Elasticsearch, tmp_path: Path
) -> None:
    store.write([samples(1)], batch="a")
    client.indices.close(index=f"{prefix}-samples-2026.11.21")

    with pytest.raises(HistoryError, match="closed") as caught:
        store.write([samples(3)], batch="b")

    assert caught.value.retryable
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_with_its_remedy(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(1)], batch="a")
    block = {"index.blocks.read_only_allow_delete": True}
    client.indices.put_settings(index=f"{prefix}-samples-2026.11.21", settings=block)

    with pytest.raises(HistoryError, match="disk") as caught:
        store.write([samples(3)], batch="b")

    assert (caught.value.kind, caught.value.retryable) == ("disk_full", True)


def test_a_red_index_is_an_error_that_passes_for_the_writer(
    elasticsearch: EmbeddedElasticsearch, prefix: str, client: Elasticsearch, tmp_path: Path
) -> None:
    store = open_store(elasticsearch.url, prefix, tmp_path, timeout_s=3.0)
    index = f"{prefix}-samples-2026.11.21"
    store.write([], batch="templates")
    create_red(client, index)

    with pytest.raises(HistoryError, match="primary shard is not active") as caught:
        store.write([samples(3)], batch="a")
    client.indices.delete(index=index)
    store.write([samples(3)], batch="a")

    assert (caught.value.kind, caught.value.retryable) == ("overloaded", True)
    assert partitions(store) == [0, 1, 2]
    assert not list(tmp_path.iterdir())
    store.close()


def test_a_reader_never_takes_the_part_that_is_left_for_the_whole(
    elasticsearch: EmbeddedElasticsearch, store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3), samples(3, at_ms=NOON_MS + DAY_MS)], batch="a")
    assert len(held(store)) == 6
    break_index(elasticsearch, client, f"{prefix}-samples-2026.11.22")

    with pytest.raises(HistoryError) as read:
        held(store)
    with pytest.raises(HistoryError) as counted:
        store.stats()

    assert read.value.retryable
    assert counted.value.retryable


def test_a_red_index_spoils_only_what_is_asked_of_its_own_time(
    elasticsearch: EmbeddedElasticsearch, store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3), samples(3, at_ms=NOON_MS + DAY_MS)], batch="a")
    held(store)
    break_index(elasticsearch, client, f"{prefix}-samples-2026.11.22")

    rows = held(store, from_ms=NOON_MS, to_ms=NOON_MS + DAY_MS // 2)

    assert len(rows) == 3


def test_what_was_never_written_has_no_rows(store: ElasticStore) -> None:
    everything = HistoryRange(kind=Kind.GROUP_SAMPLES, cluster="here", group="billing", **EVER)

    assert list(store.read(everything)) == []
    assert store.aggregate(everything, 60_000).bucket_ms.size == 0
    assert store.clusters() == ()
    assert store.days(Kind.SAMPLES, "prod") == ()
    assert store.stats() == ()
    assert store.delete_before(Kind.SAMPLES, "2030-01-01") == 0


def test_more_rows_than_one_page_are_read_in_the_order_of_time(store: ElasticStore) -> None:
    days = [samples(4000, at_ms=NOON_MS + shift * DAY_MS) for shift in (1, 0, 2)]
    store.write(days, batch="a")

    parts = list(store.read(HistoryRange(kind=Kind.SAMPLES, columns=("lag",), **EVER)))

    instants = [at_ms for part in parts for at_ms in part.at_ms().tolist()]
    assert len(parts) > 1
    assert all(part.size for part in parts)
    assert instants == sorted(instants)
    assert len(instants) == 12_000
    assert set(parts[0].columns) == {*Kind.SAMPLES.key, "lag"}


def test_retention_deletes_whole_indices_and_none_that_only_look_like_ours(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3), samples(2, at_ms=NOON_MS + DAY_MS)], batch="a")
    client.indices.create(index=f"{prefix}-samples-copy")
    client.indices.create(index=f"{prefix}-samples-2026.9.1")

    gone = store.delete_before(Kind.SAMPLES, "2026-11-22")

    assert gone == 3
    assert set(client.indices.get(index=f"{prefix}-samples*")) == {
        f"{prefix}-samples-2026.11.22",
        f"{prefix}-samples-copy",
        f"{prefix}-samples-2026.9.1",
    }
    assert store.days(Kind.SAMPLES, "here") == ("2026-11-22",)


def test_roll_ups_of_hours_go_when_their_whole_month_is_over(store: ElasticStore) -> None:
    row: dict[str, Any] = {
        "cluster": "prod",
        "level": "group",
        "group": "orders",
        "samples": 1,
        "source": "live",
    }
    rows = [{**row, "bucket_ms": NOON_MS + day * DAY_MS} for day in (0, 5, 15)]
    store.write([from_rows(Kind.ROLLUP_1H, rows)], batch="a")

    assert store.delete_before(Kind.ROLLUP_1H, "2026-11-30") == 0
    assert store.delete_before(Kind.ROLLUP_1H, "2026-12-01") == 2
    assert store.days(Kind.ROLLUP_1H, "prod") == ("2026-12-06",)


def test_verify_counts_records_and_names_what_is_not_ours(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3)], batch="a")
    index = f"{prefix}-samples-2026.11.21"
    client.index(index=index, document=sample())
    client.index(index=f"{prefix}-samples-2026.11.20", document=sample(partition=7))
    client.index(index=index, document={"hello": "world"})
    client.index(index=index, document=sample(partition=8, schema_version=99))
    client.indices.refresh(index=f"{prefix}-*")

    found = store.verify()

    assert found.rows[Kind.SAMPLES] == 4
    assert found.duplicates == 1
    assert found.foreign == (
        f"{prefix}-samples-2026.11.20: 1 documents: of a time that belongs into another index",
        f"{index}: 1 documents: not a row of ours",
        f"{index}: 1 documents: schema version 99; this release knows up to 1",
        f"{index}: 1 documents: the id is not that of the row",
    )
    assert not found.sound


def test_verify_names_what_cannot_be_reached_and_reads_the_rest(
    elasticsearch: EmbeddedElasticsearch, store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3), samples(2, at_ms=NOON_MS + DAY_MS)], batch="a")
    held(store)
    break_index(elasticsearch, client, f"{prefix}-samples-2026.11.22")

    found = store.verify()

    assert found.torn == (f"{prefix}-samples-2026.11.22: a shard is not assigned to any node",)
    assert found.rows[Kind.SAMPLES] == 3


def test_kibana_and_grafana_find_their_time_field_and_every_column(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3)], batch="a")
    client.indices.refresh(index=f"{prefix}-*")
    day = {"range": {"@timestamp": {"gte": "2026-11-21", "lt": "2026-11-22"}}}
    per_day = {"date_histogram": {"field": "@timestamp", "fixed_interval": "1d"}}

    found = client.search(index=f"{prefix}-samples", query=day, aggs={"day": per_day})
    fields = client.field_caps(index=f"{prefix}-samples", fields="*")["fields"]

    assert found["hits"]["total"]["value"] == 3
    assert [entry["doc_count"] for entry in found["aggregations"]["day"]["buckets"]] == [3]
    assert fields["@timestamp"]["date"]["aggregatable"]
    for name in {*schema(Kind.SAMPLES), AGES_FIELD} - set(NOT_MAPPED[Kind.SAMPLES]):
        (field,) = fields[name].values()
        only_read = name in {AGES_FIELD, "topic_id"}
        assert field["searchable"] is not only_read, name
        assert field["aggregatable"] is not only_read, name


def test_what_is_not_mapped_is_empty_in_a_query_and_spoils_nothing_beside_it(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    day = f"{prefix}-samples-2026.11.20"
    client.indices.create(
        index=day,
        mappings={"properties": {n: {"type": "long"} for n in ("at_ms", "lag", "log_end_offset")}},
        aliases={f"{prefix}-samples": {}},
    )
    client.index(index=day, document=sample(at_ms=NOON_MS - DAY_MS, log_end_offset=70))
    store.write([samples(3)], batch="a")
    client.indices.refresh(index=f"{prefix}-*")

    found = client.search(
        index=f"{prefix}-samples",
        aggs={name: {"max": {"field": name}} for name in ("lag", "log_end_offset")},
    )

    assert found["_shards"]["failed"] == 0
    assert found["aggregations"]["lag"]["value"] == 10
    assert found["aggregations"]["log_end_offset"]["value"] == 70


def test_rows_of_a_partition_are_stored_beside_each_other(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    store.write([samples(3)], batch="a")

    (index,) = client.indices.get(index=f"{prefix}-samples").body.values()
    assert index["settings"]["index"]["sort"]["field"] == list(Kind.SAMPLES.key)
    assert index["settings"]["index"]["codec"] == "legacy_best_compression"


def test_a_server_that_does_not_know_a_newer_setting_gets_the_template_without_it(
    client: Elasticsearch, prefix: str
) -> None:
    template = dict(templates(prefix)[f"{prefix}-events"])
    held = template["template"]
    index = {**held["settings"]["index"], "of_tomorrow": "true", "later.still": "1"}
    template["template"] = {**held, "settings": {"index": index}}

    put_template(client, f"{prefix}-events", template, newer=("of_tomorrow", "later.still"))

    (found,) = client.indices.get_index_template(name=f"{prefix}-events")["index_templates"]
    kept = found["index_template"]["template"]["settings"]["index"]
    assert kept["codec"] == "legacy_best_compression"
    assert kept["seq_no"] == {"index_options": "doc_values_only"}
    assert not {"of_tomorrow", "later"} & kept.keys()
    with pytest.raises(BadRequestError, match="of_tomorrow"):
        put_template(client, f"{prefix}-events", template, newer=("later.still",))


def test_installations_can_add_settings_to_our_templates(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    custom = {"settings": {"index": {"number_of_replicas": 0, "refresh_interval": "7s"}}}
    client.cluster.put_component_template(name=f"{prefix}-samples@custom", template=custom)

    store.write([samples(1)], batch="a")

    (index,) = client.indices.get(index=f"{prefix}-samples").body.values()
    assert index["settings"]["index"]["refresh_interval"] == "7s"
    assert index["mappings"]["properties"]["lag"] == {"type": "long", "index": False}


@pytest.mark.parametrize("priority", [500, 1000])
def test_a_template_of_others_that_would_hide_ours_is_named(
    elasticsearch: EmbeddedElasticsearch,
    prefix: str,
    client: Elasticsearch,
    tmp_path: Path,
    priority: int,
) -> None:
    """Names would be analysed text: a group would be shown with rows of others."""
    store = open_store(elasticsearch.url, prefix, tmp_path)
    name = f"{prefix}-theirs"
    pattern = f"{prefix}-samples-2*"
    client.indices.put_index_template(name=name, index_patterns=[pattern], priority=priority)

    with pytest.raises(HistoryError, match=name) as caught:
        store.write([samples(1)], batch="a")

    client.indices.delete_index_template(name=name)
    store.write([samples(1)], batch="a")
    sound = store.verify()
    client.indices.delete_index_template(name=f"{prefix}-samples")
    theirs = f"{prefix}-samples-2020.01.01"
    client.indices.create(index=theirs, mappings={"properties": {"group": {"type": "text"}}})
    (torn,) = store.verify().torn
    assert sound.torn == ()
    assert torn.startswith(f"{theirs} was not made by lagwatch's index template")
    assert caught.value.kind == "schema"
    assert partitions(store) == [0]
    store.close()


def test_templates_and_indices_that_are_deleted_meanwhile_are_made_anew(
    store: ElasticStore, prefix: str, client: Elasticsearch
) -> None:
    """Elasticsearch would guess a mapping, in which names are analysed text."""
    store.write([samples(1)], batch="a")
    client.indices.delete_index_template(name=f"{prefix}-*")
    client.indices.delete(index=f"{prefix}-samples-2026.11.21")

    store.write([samples(2)], batch="b")

    (index,) = client.indices.get(index=f"{prefix}-samples").body.values()
    assert index["mappings"]["properties"]["group"] == {"type": "keyword"}
    assert store.verify().torn == ()


def test_rows_wait_while_their_index_has_a_mapping_that_was_guessed(
    elasticsearch: EmbeddedElasticsearch,
    store: ElasticStore,
    prefix: str,
    client: Elasticsearch,
    tmp_path: Path,
) -> None:
    """Deleted, and made anew by rows of another process before the templates were there again."""
    store.write([samples(1)], batch="a")
    index, aside = f"{prefix}-samples-2026.11.21", f"{prefix}kept"
    client.indices.delete_index_template(name=f"{prefix}-*")
    client.indices.delete(index=index)
    with closing(open_store(elasticsearch.url, prefix, tmp_path, manage_templates=False)) as other:
        other.write([samples(1, first=5)], batch="guessed")

    with pytest.raises(HistoryError, match=index) as caught:
        store.write([samples(2)], batch="b")
    store.write([samples(1, at_ms=NOON_MS + DAY_MS)], batch="writes the templates")
    for source, dest in ((index, aside), (aside, index)):
        # as _reindex, which this server has no module for
        client.indices.refresh(index=source)
        found = client.search(index=source, size=100)["hits"]["hits"]
        for hit in found:
            client.index(index=dest, id=hit["_id"], document=hit["_source"], refresh=True)
        client.indices.delete(index=source)
    store.write([samples(2)], batch="b")

    assert caught.value.retryable
    assert "_reindex" in str(caught.value)
    assert partitions(store) == [0, 0, 1, 5]
    assert store.verify().torn == ()


def test_without_templates_rows_wait_from_the_second_batch_on(
    elasticsearch: EmbeddedElasticsearch, prefix: str, tmp_path: Path
) -> None:
    """They were to be installed, as `manage_templates = false` leaves them to somebody else."""
    with closing(open_store(elasticsearch.url, prefix, tmp_path, manage_templates=False)) as store:
        store.write([samples(1)], batch="a")

        with pytest.raises(HistoryError, match="Install lagwatch's templates") as caught:
            store.write([samples(2)], batch="b")

    assert caught.value.retryable
    assert f"{prefix}-samples-2026.11.21" in str(caught.value)


def test_roll_ups_say_that_an_index_was_not_made_by_our_template(
    elasticsearch: EmbeddedElasticsearch, prefix: str, client: Elasticsearch
) -> None:
    document = {"cluster": "prod", "group": "billing", "at_ms": NOON_MS}
    client.index(index=f"{prefix}-samples-2026.11.21", document=document, refresh=True)
    history = HistorySettings(
        store="elasticsearch", elasticsearch=settings(elasticsearch.url, prefix)
    )

    with closing(job_store(history).rollups()) as rollups, pytest.raises(HistoryError) as caught:
        rollups.clusters()

    assert "`lagwatch history verify` names it" in str(caught.value)
