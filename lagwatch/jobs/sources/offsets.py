"""`lagwatch.offsets`: records of a time range that the offsets topic, or a copy, still has.

Options: `cluster`, `settings.secret` (its section as JSON), `from_ms`, `to_ms`, `columns` (a JSON
list), `records_per_task`; with `pushdown` = `true` also what Spark asks of `commit_ms`
(`pushdown.py` says when that is safe); `quarantine` = `true` gives, instead, the records that could
not be decoded, with their bytes.

Each record with content is a row; `what` is:

- `commit`: `offset` was committed at `commit_ms`
- `removed`: the commit of a partition was removed; `offset` is null, `commit_ms` the record's time
- `gone`: Kafka deleted the group; its commits with a greater `order` stay
- `malformed`: the record cannot be decoded; `fault` says why
- `end`: nothing more in this range; `order` is its end

`missing_before` counts record offsets between the row before and this one that hold no record any
more: compaction took them (or they are marks of transactions). Rows of a task come in order. Rows
may be a little outside the time that was asked for.
"""

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from lagwatch.config import ClusterSettings
from lagwatch.core.wire import TOMBSTONE, CommitKeys, Decoded, decode
from lagwatch.jobs.sources import pushdown
from lagwatch.jobs.sources.options import (
    Column,
    batch_of,
    cluster_of,
    known,
    number,
    unusable,
    words,
)
from lagwatch.jobs.sources.pushdown import Filtered
from lagwatch.kafka.ranges import OffsetRange, RangeBatch, plan_ranges, read_range
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.offsets_topic import Tombstones
from lagwatch.ports.history import EVER_MS

NAME: Final = "lagwatch.offsets"
SCHEMA: Final = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("offsets_partition", T.IntegerType()),
        T.StructField("order", T.LongType()),
        T.StructField("what", T.StringType()),
        T.StructField("group", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("commit_ms", T.LongType()),
        T.StructField("missing_before", T.LongType()),
        T.StructField("fault", T.StringType()),
    ]
)
QUARANTINE: Final = T.StructType(
    [
        T.StructField("cluster", T.StringType()),
        T.StructField("offsets_partition", T.IntegerType()),
        T.StructField("order", T.LongType()),
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("fault", T.StringType()),
    ]
)

_RECORDS_PER_TASK: Final = 1_000_000
_WHAT: Final = ("commit", "removed", "gone", "malformed", "end")
_COMMIT, _REMOVED, _GONE, _MALFORMED, _END = range(len(_WHAT))

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


class OffsetsSource(DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> T.StructType:
        whole = QUARANTINE if _quarantined(self.options) else SCHEMA
        asked = json.loads(self.options.get("columns", "[]"))
        if unknown := [name for name in asked if name not in whole.names]:
            raise unusable(f"option 'columns': there is no {', '.join(unknown)}")
        return T.StructType([field for field in whole if not asked or field.name in asked])

    def reader(self, schema: T.StructType) -> DataSourceReader:
        reader = FilteredOffsetsReader if pushdown.asked(self.options) else OffsetsReader
        return reader(self.options, schema)


def _quarantined(options: MutableMapping[str, str]) -> bool:
    return options.get("quarantine", "").lower() == "true"


@dataclass(frozen=True)
class _Part(InputPartition):
    range: OffsetRange


class OffsetsReader(DataSourceReader):
    """Reads a range of offsets in each task."""

    def __init__(self, options: MutableMapping[str, str], schema: T.StructType) -> None:
        self._cluster, self._settings = cluster_of(options)
        self._schema = schema
        self._quarantine = _quarantined(options)
        self._from_ms = number(options, "from_ms", 0)
        self._to_ms = number(options, "to_ms", EVER_MS)
        self._records_per_task = max(1, number(options, "records_per_task", _RECORDS_PER_TASK))

    def narrow(self, filters: list[Filter]) -> Iterable[Filter]:
        """Narrow the time; Spark still looks at every row, for ranges hold a little more."""
        for filter_ in filters:
            if getattr(filter_, "attribute", ()) == ("commit_ms",):
                self._narrow(filter_)
            yield filter_

    def _narrow(self, filter_: Filter) -> None:
        match filter_:
            case GreaterThan(value=at) | GreaterThanOrEqual(value=at):
                self._from_ms = max(self._from_ms, at)
            case LessThan(value=at) | LessThanOrEqual(value=at):
                self._to_ms = min(self._to_ms, at + 1)
            case EqualTo(value=at):
                self._from_ms, self._to_ms = max(self._from_ms, at), min(self._to_ms, at + 1)

    def partitions(self) -> Sequence[InputPartition]:
        if self._from_ms >= self._to_ms:
            return []
        ranges = plan_ranges(
            self._cluster,
            self._settings,
            from_ms=self._from_ms,
            to_ms=self._to_ms,
            records_per_range=self._records_per_task,
        )
        return [_Part(span) for span in ranges]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Part):
            return
        batches = quarantine_batches if self._quarantine else offset_batches
        yield from batches(self._cluster, self._settings, partition.range, self._schema)


class FilteredOffsetsReader(Filtered, OffsetsReader):
    """The same with Spark's filters on `commit_ms`."""


def offset_batches(
    cluster: str,
    settings: ClusterSettings,
    wanted: OffsetRange,
    schema: T.StructType = SCHEMA,
) -> Iterator[pa.RecordBatch]:
    """Read and decode one range, as batches of `SCHEMA` or of some of its columns.

    Raises:
        SourceError: the range cannot be read.
    """
    filters = Filters(settings)
    rows = RecordRows(cluster, wanted, filters, schema)
    for batch in read_range(cluster, settings, wanted):
        yield from rows.take(batch)
    yield rows.end()


def quarantine_batches(
    cluster: str,
    settings: ClusterSettings,
    wanted: OffsetRange,
    schema: T.StructType = QUARANTINE,
) -> Iterator[pa.RecordBatch]:
    """The records of one range that cannot be decoded, with their bytes.

    Raises:
        SourceError: the range cannot be read.
    """
    for batch in read_range(cluster, settings, wanted):
        yield from quarantine_batch(cluster, settings, wanted.partition, batch, schema)


def quarantine_batch(
    cluster: str,
    settings: ClusterSettings,
    partition: int,
    batch: RangeBatch,
    schema: T.StructType = QUARANTINE,
) -> Iterator[pa.RecordBatch]:
    """The records that cannot be decoded, as one batch; no batch when all can."""
    refused = _decoded(batch, CommitKeys(Filters(settings).commit)).quarantine
    if refused:
        yield batch_of(
            schema,
            {
                "cluster": [cluster] * len(refused),
                "offsets_partition": [partition] * len(refused),
                "order": [record.order for record in refused],
                "key": [record.key for record in refused],
                "value": [record.value for record in refused],
                "fault": [record.fault.value for record in refused],
            },
        )


def _decoded(batch: RangeBatch, table: CommitKeys) -> Decoded:
    return decode(batch.keys, batch.values, batch.orders, table, quarantine_per_fault=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rare:
    """A row that is not a commit."""

    order: int
    what: int
    at_ms: int = -1
    group: str | None = None
    fault: str | None = None


class RecordRows:
    """Makes rows out of the records of one range."""

    def __init__(
        self, cluster: str, wanted: OffsetRange, filters: Filters, schema: T.StructType
    ) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._filters = filters
        self._schema = schema
        self._keys = CommitKeys(filters.commit)
        self._next = wanted.start
        """The record offset that is expected."""
        self._missing = 0
        """Record offsets missing since the last row."""

    def take(self, batch: RangeBatch) -> Iterator[pa.RecordBatch]:
        """The rows of some records; no batch when they have no content."""
        decoded = _decoded(batch, self._keys)
        missing = self._missing_up_to(batch.orders)
        rare = self._rare(batch, decoded)
        if decoded.key.size == 0 and not rare:
            self._missing = int(missing[-1])
            return
        orders, columns = self._columns(batch, decoded, rare)
        up_to = missing[np.searchsorted(batch.orders, orders)]
        self._missing = int(missing[-1] - up_to[-1])
        yield self._batch(orders, columns, np.diff(up_to, prepend=0))

    def end(self) -> pa.RecordBatch:
        """The last row, which counts offsets missing after the last record."""
        end = max(self._wanted.end, self._next)
        missing = self._missing + end - self._next
        no_text: Column = pa.nulls(1, pa.string())
        unknown = np.array([-1], np.int64)
        columns = {
            "what": words(np.array([_END], np.int32), _WHAT),
            "group": no_text,
            "topic": no_text,
            "partition": pa.nulls(1, pa.int32()),
            "offset": known(unknown, unknown < 0),
            "commit_ms": known(unknown, unknown < 0),
            "fault": no_text,
        }
        return self._batch(np.array([end], np.int64), columns, np.array([missing], np.int64))

    def _missing_up_to(self, orders: Int64) -> Int64:
        """Per record, the number of offsets missing between the last row and it."""
        gaps = np.diff(orders, prepend=self._next - 1) - 1
        self._next = int(orders[-1]) + 1
        total: Int64 = np.cumsum(gaps) + self._missing
        return total

    def _rare(self, batch: RangeBatch, decoded: Decoded) -> list[_Rare]:
        found = [
            _Rare(order=record.order, what=_MALFORMED, fault=record.fault.value)
            for record in decoded.quarantine
        ]
        if decoded.group_records:
            # a group that only changes its protocol writes both records at once
            tombstones = Tombstones()
            tombstones.add(
                (record for record in decoded.group_records if self._filters.group(record.group)),
                now_s=0.0,
            )
            gone = tombstones.due(now_s=np.inf)
            if gone is not None:
                found += [
                    _Rare(
                        order=order,
                        what=_GONE,
                        group=group,
                        at_ms=batch.stamp(int(np.searchsorted(batch.orders, order))),
                    )
                    for group, order in zip(gone.groups, gone.orders, strict=True)
                ]
        return sorted(found, key=lambda event: event.order)

    def _columns(
        self, batch: RangeBatch, decoded: Decoded, rare: list[_Rare]
    ) -> tuple[Int64, dict[str, Column]]:
        keys = self._keys.columns(decoded.key)
        commit_ms, removed = decoded.commit_ms, decoded.offset == TOMBSTONE
        what = removed.astype(np.int32)
        if removed.any():
            commit_ms = commit_ms.copy()
            commit_ms[removed] = [batch.stamp(row) for row in decoded.row[removed].tolist()]
        if not rare:
            nothing = np.zeros(what.size, np.bool_)
            return decoded.order, {
                "what": words(what, _WHAT),
                "group": words(keys.group, keys.groups),
                "topic": words(keys.topic, keys.topics),
                "partition": keys.partition,
                "offset": known(decoded.offset, removed),
                "commit_ms": known(commit_ms, commit_ms < 0),
                "fault": pa.nulls(nothing.size, pa.string()),
            }
        orders = np.concatenate([decoded.order, [event.order for event in rare]])
        place = np.argsort(orders, kind="stable")
        size = len(rare)
        null = pa.nulls(size, pa.string())
        none = np.full(size, -1, np.int64)
        offset = np.concatenate([decoded.offset, none])[place]
        stamps = np.concatenate([commit_ms, [event.at_ms for event in rare]])[place]
        partition = np.concatenate([keys.partition, none]).astype(np.int32)[place]
        group = [
            words(keys.group, keys.groups),
            pa.array([event.group for event in rare], pa.string()),
        ]
        topic = [words(keys.topic, keys.topics), null]
        fault = [
            pa.nulls(what.size, pa.string()),
            pa.array([event.fault for event in rare], pa.string()),
        ]
        order_of = pa.array(place)
        return orders[place], {
            "what": words(np.concatenate([what, [event.what for event in rare]])[place], _WHAT),
            "group": pa.concat_arrays(group).take(order_of),
            "topic": pa.concat_arrays(topic).take(order_of),
            "partition": known(partition, partition < 0),
            "offset": known(offset, offset < 0),
            "commit_ms": known(stamps, stamps < 0),
            "fault": pa.concat_arrays(fault).take(order_of),
        }

    def _batch(
        self, orders: Int64, columns: dict[str, Column], missing_before: Int64
    ) -> pa.RecordBatch:
        return batch_of(
            self._schema,
            {
                "cluster": pa.repeat(pa.scalar(self._cluster), orders.size),
                "offsets_partition": np.full(orders.size, self._wanted.partition, np.int32),
                "order": orders,
                "missing_before": missing_before,
                **columns,
            },
        )
