"""Reads what Telegraf's `inputs.burrow` wrote to Elasticsearch, as rows of one flat table.

Documents are read from their `_source`: their numbers are indexed as floats, whose least digits are
wrong. Ids are given by Elasticsearch, so a document that Telegraf sent twice is there twice.

Source: Telegraf, plugins/inputs/burrow/burrow.go and plugins/outputs/elasticsearch.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from lagwatch.jobs.sources.options import batch_of

SERIES: Final[Mapping[str, tuple[str, ...]]] = {
    "burrow_group": ("group",),
    "burrow_partition": ("group", "topic", "partition"),
    "burrow_topic": ("topic", "partition"),
}
"""Measurements, with the tags that name a series of one cluster."""

SCHEMA: Final = T.StructType(
    [
        T.StructField("measurement", T.StringType()),
        T.StructField("at_ms", T.LongType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("group", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("host", T.StringType()),
        T.StructField("owner", T.StringType()),
        T.StructField("status", T.StringType()),
        T.StructField("status_code", T.LongType()),
        T.StructField("lag", T.LongType()),
        T.StructField("total_lag", T.LongType()),
        T.StructField("partition_count", T.LongType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.LongType()),
        T.StructField("index", T.StringType()),
        T.StructField("id", T.StringType()),
        T.StructField("fault", T.StringType()),
    ]
)
"""`at_ms`: when Telegraf asked. `offset`: committed (partition, group) or log end (topic).
`timestamp`: of the newest commit in Burrow's window. `host`: Telegraf's own. `fault`: why a
document cannot be used; such a row has nothing else but `index`, `id` and mostly `at_ms`."""

_TAGS: Final = ("cluster", "group", "topic", "host", "owner")
_NUMBERS: Final = ("status_code", "lag", "total_lag", "partition_count", "offset", "timestamp")
_MOST: Final = 2**63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _FaultError(Exception):
    """A document that Telegraf's `inputs.burrow` did not write."""


def batch(hits: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Documents as one batch of `SCHEMA`; a hit has `_source`, `_index` and `_id`."""
    rows = [_row(hit) for hit in hits]
    return batch_of(SCHEMA, {name: [row.get(name) for row in rows] for name in SCHEMA.names})


def _row(hit: Mapping[str, Any]) -> dict[str, Any]:
    source = hit.get("_source") or {}
    row: dict[str, Any] = {"index": hit["_index"], "id": hit["_id"]}
    try:
        row["at_ms"] = _instant(source.get("@timestamp"))
        return {**row, **_read(source)}
    except _FaultError as error:
        return {**row, "fault": str(error)}


def _read(source: Mapping[str, Any]) -> dict[str, Any]:
    measurement = source.get("measurement_name")
    fields, tags = source.get(str(measurement)), source.get("tag")
    if not isinstance(measurement, str) or measurement not in SERIES:
        raise _FaultError(f"measurement_name is {measurement!r}")
    if not isinstance(fields, Mapping) or not isinstance(tags, Mapping):
        raise _FaultError(f"{measurement} or tag is no object")
    row: dict[str, Any] = {"measurement": measurement}
    for name in _TAGS:
        value = tags.get(name)
        row[name] = None if value in (None, "") else str(value)
    row["partition"] = _partition(tags.get("partition"))
    for name in ("cluster", *SERIES[measurement]):
        if row[name] is None:
            raise _FaultError(f"tag.{name} is missing")
    status = fields.get("status")
    row["status"] = None if status is None else str(status)
    row |= {name: _number(name, fields.get(name)) for name in _NUMBERS}
    return row


def _instant(value: object) -> int:
    try:
        instant = datetime.fromisoformat(str(value))
    except ValueError:
        raise _FaultError(f"@timestamp is {value!r}") from None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return round((instant - _EPOCH).total_seconds() * 1000)


def _partition(value: object) -> int | None:
    if value in (None, ""):
        return None
    text = str(value)
    if not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise _FaultError(f"tag.partition is {value!r}")
    return int(text)


def _number(name: str, value: object) -> int | None:
    """The value as a whole number, whatever its JSON type."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _FaultError(f"{name} is {value!r}")
    if not math.isfinite(value) or abs(value) >= _MOST:
        raise _FaultError(f"{name} is {value!r}")
    return round(value)
