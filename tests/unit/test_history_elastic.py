"""Elasticsearch without Elasticsearch: names, sizes, settings, dead letters, words."""

import json
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.core.record import ColumnType, Kind, from_rows, schema
from lagwatch.errors import HistoryError
from lagwatch.history.elastic.bulk import RejectedRow, RejectedRows, chunks
from lagwatch.history.elastic.documents import Document, documents, fields_of, rows_of
from lagwatch.history.elastic.faults import reason_of
from lagwatch.history.elastic.indices import (
    AGES,
    AGES_FIELD,
    NOT_MAPPED,
    all_indices,
    index_name,
    indices_between,
    last_day,
    mappings,
    templates,
)
from lagwatch.history.layout import DAY_MS, day_of
from tests.support.history import NOON_MS, sample


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.SAMPLES, "lagwatch-samples-2026.11.21"),
        (Kind.GROUP_SAMPLES, "lagwatch-group_samples-2026.11.21"),
        (Kind.EVENTS, "lagwatch-events-2026.11.21"),
        (Kind.ROLLUP_5M, "lagwatch-rollup_5m-2026.11.21"),
        (Kind.ROLLUP_1H, "lagwatch-rollup_1h-2026.11"),
        (Kind.ROLLUP_1D, "lagwatch-rollup_1d-2026"),
    ],
)
def test_an_index_is_named_by_kind_and_period(kind: Kind, name: str) -> None:
    assert index_name("lagwatch", kind, NOON_MS) == name


@given(kind=st.sampled_from(Kind), at_ms=st.integers(0, 4_102_444_799_999))
def test_an_index_never_ends_before_the_last_of_its_rows(kind: Kind, at_ms: int) -> None:
    index = index_name("p", kind, at_ms)
    last = last_day("p", kind, index)

    assert last is not None
    assert last >= day_of(at_ms)
    assert index_name("p", kind, at_ms - at_ms % DAY_MS) == index


@pytest.mark.parametrize(
    ("kind", "index"),
    [
        (Kind.SAMPLES, "lagwatch-samples-2026.11.31"),
        (Kind.SAMPLES, "lagwatch-samples-2026.1.2"),
        (Kind.SAMPLES, "lagwatch-samples-2026.11"),
        (Kind.SAMPLES, "lagwatch-samples-copy"),
        (Kind.SAMPLES, "lagwatch-events-2026.11.21"),
        (Kind.ROLLUP_1H, "lagwatch-rollup_1h-2026.11.21"),
        (Kind.ROLLUP_1D, "lagwatch-rollup_1d-2026.11"),
    ],
)
def test_an_index_that_is_not_named_by_us_is_not_ours(kind: Kind, index: str) -> None:
    assert last_day("lagwatch", kind, index) is None


@pytest.mark.parametrize(
    ("kind", "index", "day"),
    [
        (Kind.SAMPLES, "lagwatch-samples-2026.11.21", "2026-11-21"),
        (Kind.ROLLUP_1H, "lagwatch-rollup_1h-2026.02", "2026-02-28"),
        (Kind.ROLLUP_1H, "lagwatch-rollup_1h-2024.02", "2024-02-29"),
        (Kind.ROLLUP_1H, "lagwatch-rollup_1h-2026.12", "2026-12-31"),
        (Kind.ROLLUP_1D, "lagwatch-rollup_1d-2024", "2024-12-31"),
    ],
)
def test_the_last_day_of_an_index(kind: Kind, index: str, day: str) -> None:
    assert last_day("lagwatch", kind, index) == day


@pytest.mark.parametrize("kind", list(Kind))
@given(start_ms=st.integers(0, 4 * 10**12), length_ms=st.integers(1, 60 * DAY_MS))
def test_the_indices_of_a_time_hold_every_instant_of_it(
    kind: Kind, start_ms: int, length_ms: int
) -> None:
    names = indices_between("lagwatch", kind, start_ms, start_ms + length_ms)

    for at_ms in (start_ms, start_ms + length_ms // 2, start_ms + length_ms - 1):
        assert any(fnmatchcase(index_name("lagwatch", kind, at_ms), name) for name in names)
    assert len(",".join(names)) < 3000


def test_a_short_time_names_its_own_indices_only() -> None:
    names = indices_between("lagwatch", Kind.SAMPLES, NOON_MS, NOON_MS + DAY_MS)

    assert names == ("lagwatch-samples-2026.11.21", "lagwatch-samples-2026.11.22")
    assert indices_between("lagwatch", Kind.SAMPLES, NOON_MS, NOON_MS) == names[:1]


_NUMBER = st.none() | st.integers(0, 5) | st.integers(0, 2**62)
_SAMPLE = st.fixed_dictionaries(
    {
        "at_ms": st.integers(0, 2**62),
        "observed_ms": st.integers(0, 2**62),
        **dict.fromkeys(
            ("committed_offset", "lag", "log_end_offset", "log_end_ms", "time_lag_at_ms"), _NUMBER
        ),
        "schema_version": st.sampled_from([1, 2]),
    }
)


@given(rows=st.lists(_SAMPLE, min_size=1, max_size=5), data=st.data())
def test_a_row_comes_back_from_its_document_whole_or_in_part(
    rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    wanted = list(from_rows(Kind.SAMPLES, [sample(**row) for row in rows]).rows())
    columns = data.draw(st.sets(st.sampled_from(list(schema(Kind.SAMPLES))), min_size=1))

    found = [orjson.loads(each.body) for each in documents(from_rows(Kind.SAMPLES, wanted))]
    asked = fields_of(Kind.SAMPLES, tuple(columns))
    part = [{name: each[name] for name in asked if name in each} for each in found]

    assert list(rows_of(Kind.SAMPLES, found, tuple(schema(Kind.SAMPLES))).rows()) == wanted
    assert list(rows_of(Kind.SAMPLES, part, tuple(columns)).rows()) == [
        {name: row[name] for name in columns} for row in wanted
    ]


def test_a_document_leaves_out_what_follows_from_the_rest() -> None:
    row = sample(observed_ms=NOON_MS + 7, time_lag_at_ms=None, log_end_ms=NOON_MS - 4_000)
    ahead = row | {"log_end_offset": 70, "lag": 0}

    first, second = documents(from_rows(Kind.SAMPLES, [row, ahead]))

    fields = orjson.loads(first.body)
    assert fields[AGES_FIELD] == [-7, None, 4_007]
    assert not fields.keys() & {*NOT_MAPPED[Kind.SAMPLES], "schema_version"}
    assert orjson.loads(second.body)["log_end_offset"] == 70


@pytest.mark.parametrize("log_end", [None, 70, 100])
def test_documents_of_earlier_releases_are_read(log_end: int | None) -> None:
    row = sample(log_end_offset=log_end)
    known = {name: value for name, value in row.items() if value is not None}

    (found,) = rows_of(Kind.SAMPLES, [known], tuple(schema(Kind.SAMPLES))).rows()
    part = rows_of(Kind.SAMPLES, [known], ("log_end_offset",)).rows()

    assert found == row
    assert list(part) == [{"log_end_offset": log_end}]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_column_has_the_mapping_of_its_type(kind: Kind) -> None:
    fields = dict(mappings(kind)["properties"])

    assert fields.pop("@timestamp") == {"type": "alias", "path": kind.time_column}
    if kind in AGES:
        assert fields.pop(AGES_FIELD) == {"type": "long", "index": False, "doc_values": False}
    types = {name: field["type"] for name, field in fields.items()}
    assert types == {
        name: "float" if column.unit == "s" else _MAPPED[column.type]
        for name, column in schema(kind).items()
        if name not in NOT_MAPPED.get(kind, ())
    }
    assert mappings(kind)["dynamic"] is False
    indexed = {name for name, field in fields.items() if field.get("index", True)}
    assert indexed >= set(kind.key)
    only_read = {name for name, field in fields.items() if not field.get("doc_values", True)}
    assert not only_read & {*kind.key, "status", "lag", "time_lag_s", "commit_ms"}


_MAPPED = {
    ColumnType.TEXT: "keyword",
    ColumnType.INT32: "integer",
    ColumnType.INT64: "long",
    ColumnType.INSTANT: "date",
    ColumnType.FLOAT64: "double",
    ColumnType.BINARY: "binary",
}


def test_the_pattern_of_one_kind_never_takes_the_indices_of_another() -> None:
    names = {kind: index_name("lagwatch", kind, NOON_MS) for kind in Kind}

    for kind in Kind:
        start = all_indices("lagwatch", kind).removesuffix("*")
        assert [other for other, name in names.items() if name.startswith(start)] == [kind]


@given(
    sizes=st.lists(st.integers(1, 300), max_size=50),
    max_bytes=st.integers(50, 400),
)
def test_chunks_hold_all_documents_in_order_and_only_a_single_one_is_too_large(
    sizes: list[int], max_bytes: int
) -> None:
    documents = [Document(str(number), b"x" * size, 0) for number, size in enumerate(sizes)]

    made = list(chunks(documents, max_bytes))

    assert [document for chunk in made for document in chunk] == documents
    assert all(made)
    assert all(
        len(chunk) == 1 or sum(len(document.body) for document in chunk) <= max_bytes
        for chunk in made
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"type": "a", "reason": "b"}}, "a: b"),
        (
            {"error": {"type": "a", "reason": "b", "caused_by": {"type": "c", "reason": "d"}}},
            "a: b: c: d",
        ),
        (
            {"error": {"type": "a", "reason": "b", "root_cause": [{"type": "a", "reason": "b"}]}},
            "a: b",
        ),
        (
            {
                "error": {
                    "type": "search_phase_execution_exception",
                    "reason": "all shards failed",
                    "failed_shards": [{"shard": 0, "reason": {"type": "x", "reason": "y"}}],
                }
            },
            "search_phase_execution_exception: all shards failed: x: y",
        ),
        ({"error": "text"}, "text"),
        ("<html>", "<html>"),
        (None, ""),
        ({"error": {}}, ""),
    ],
)
def test_the_reason_is_reported_down_to_the_innermost_cause(body: object, reason: str) -> None:
    assert reason_of(body) == reason


def test_rejected_rows_are_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    kept = RejectedRows(tmp_path / "rejected", max_bytes=4000)

    for number in range(100):
        kept.add([_rejected(number)])

    lines = [line for file in tmp_path.rglob("*.jsonl") for line in file.read_bytes().splitlines()]
    numbers = sorted(orjson.loads(line)["document"]["partition"] for line in lines)
    assert numbers == list(range(numbers[0], 100))
    assert numbers[0] > 0
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.jsonl")) <= 4000
    assert kept.rows == 100


def test_rejected_rows_that_cannot_be_kept_are_an_error(tmp_path: Path) -> None:
    in_the_way = tmp_path / "rejected"
    in_the_way.write_bytes(b"")

    with pytest.raises(HistoryError, match="rejected") as caught:
        RejectedRows(in_the_way).add([_rejected(1)])

    assert (caught.value.kind, caught.value.retryable) == ("io", True)


def _rejected(number: int) -> RejectedRow:
    body = json.dumps({"partition": number}).encode()
    return RejectedRow(index="i", id=str(number), status=400, reason="no", body=body)


@pytest.mark.parametrize(
    ("given_", "fault"),
    [
        ({"urls": ["elastic:9200"]}, "urls"),
        ({"urls": []}, "urls"),
        ({"prefix": "Lagwatch"}, "prefix"),
        ({"prefix": "_hidden"}, "prefix"),
        ({"prefix": "a b"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"fingerprint": "12:34"}, "fingerprint"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"bulk_bytes": 1}, "bulk_bytes"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_settings_that_cannot_work_are_refused(given_: Mapping[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault):
        ElasticsearchSettings(**given_)


def test_a_fingerprint_may_be_written_with_colons() -> None:
    pairs = ":".join(["AB"] * 32)

    assert ElasticsearchSettings(fingerprint=pairs).fingerprint == "ab" * 32


def test_secrets_are_not_shown() -> None:
    settings = ElasticsearchSettings(api_key="k3y", password="s3cret", username="me")  # noqa: S106 as read from a file

    shown = f"{settings!r} {settings.model_dump_json()}"

    assert "k3y" not in shown
    assert "s3cret" not in shown


def test_every_template_names_its_own_custom_part() -> None:
    found = templates("lw")

    assert [template["composed_of"] for template in found.values()] == [
        [f"{name}@custom"] for name in found
    ]
