"""`lagwatch.elastic`: rows of history in Elasticsearch, and what Telegraf left there.

Reading, by points in time: options `kind` (samples …) or `telegraf` (an index pattern, `burrow-*`),
`from_ms`, `to_ms`, `names` (a JSON object: column of the key → value), `columns` (a JSON list; the
key comes along), `rows_per_task`. With `pushdown` = `true` Elasticsearch answers Spark's conditions
on the instant and on the columns of the key, too; `pushdown.py` says when that is safe.

Writing: options `kind`, `mode` = `create` (rows as recorded; those that are there stay) or
`replace` (roll-ups), `spool`: a folder of the workers for rows that Elasticsearch rejects, with the
reason. Ids are made from keys, so what is written twice is there once.

The cluster: `urls` and `prefix`, or all of `[history.elasticsearch]` as JSON in `settings.secret`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
    WriterCommitMessage,
)

from lagwatch.config.elasticsearch import ElasticsearchSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import KINDS, SCHEMA_VERSION, Kind, Records, schema
from lagwatch.errors import HistoryError
from lagwatch.history.elastic import ElasticStore, RejectedRows
from lagwatch.history.elastic.documents import fields_of, rows_of
from lagwatch.history.elastic.faults import STORE
from lagwatch.history.elastic.search import Json, Share
from lagwatch.jobs.fence import allowed_by
from lagwatch.jobs.schemas import struct_type, to_batches
from lagwatch.jobs.sources import pushdown, telegraf
from lagwatch.jobs.sources.options import (
    elastic_of,
    elastic_options,
    number,
    required,
    unusable,
)
from lagwatch.jobs.sources.pushdown import Filtered
from lagwatch.jobs.sources.sink import Sink, Written, write_batches
from lagwatch.ports.history import EVER_MS, HistoryRange, HistoryStore

NAME: Final = "lagwatch.elastic"
_ROWS_PER_TASK: Final = 200_000
_MOST_TASKS: Final = 64

_COMPARED: Final[Mapping[type[Filter], str]] = {
    GreaterThan: "gt",
    GreaterThanOrEqual: "gte",
    LessThan: "lt",
    LessThanOrEqual: "lte",
}


def register(spark: SparkSession) -> None:
    """Make a session know the data source; again does no harm."""
    # without it Spark refuses sources that take filters
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(ElasticSource)


def rows_frame(
    spark: SparkSession, settings: ElasticsearchSettings, wanted: HistoryRange
) -> DataFrame:
    """The rows of a range as a DataFrame."""
    register(spark)
    options = {
        "kind": wanted.kind.value,
        "from_ms": str(wanted.from_ms),
        "to_ms": str(wanted.to_ms),
        "columns": json.dumps(wanted.columns),
        "names": json.dumps(wanted.names),
    }
    return spark.read.format(NAME).options(**elastic_options(settings), **options).load()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacing(Sink):
    """Puts rows in the place of those with the same keys; rows of a later run stay."""

    def open(self) -> tuple[HistoryStore, Callable[[Records], None]]:
        rejected = RejectedRows(self.settings.spool / "rejected")
        allowed = allowed_by(self.fence)
        store = ElasticStore(self.settings.elasticsearch, rejected, allowed=allowed)
        token = None if self.fence is None else self.fence.token
        return store, lambda rows: store.replace([rows], token=token)


class ElasticSource(DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = elastic_of(options)

    def schema(self) -> T.StructType:
        if "telegraf" in self.options:
            return telegraf.SCHEMA
        names, kind = _columns(self.options), kind_of(self.options)
        return T.StructType([struct_type(kind)[name] for name in names])

    def reader(self, schema: T.StructType) -> DataSourceReader:
        filtered = pushdown.asked(self.options)
        if "telegraf" in self.options:
            kind = FilteredTelegrafReader if filtered else TelegrafReader
            return kind(self._settings, self.options)
        reader = FilteredElasticReader if filtered else ElasticReader
        return reader(self._settings, self.options, tuple(schema.names))

    def writer(self, schema: T.StructType, overwrite: bool) -> "ElasticWriter":  # noqa: ARG002, FBT001 as Spark calls it
        if overwrite:
            raise unusable('Elasticsearch: nothing is overwritten as a whole; use .mode("append")')
        mode = self.options.get("mode", "create")
        if mode not in {"create", "replace"}:
            raise unusable(f"option 'mode' = {mode!r}; there are create and replace")
        spool = Path(self.options.get("spool", HistorySettings().spool))
        history = HistorySettings(store="elasticsearch", elasticsearch=self._settings, spool=spool)
        sink = Replacing if mode == "replace" else Sink
        return ElasticWriter(sink(settings=history, kind=kind_of(self.options), batch="elastic"))


def kind_of(options: Mapping[str, str]) -> Kind:
    """The kind of row that the options name.

    Raises:
        JobError: they name no kind.
    """
    word = required(options, "kind")
    if word not in {kind.value for kind in KINDS}:
        known = ", ".join(kind.value for kind in KINDS)
        raise unusable(f"option 'kind' = {word!r}; there are {known}")
    return Kind(word)


def _columns(options: Mapping[str, str]) -> tuple[str, ...]:
    kind = kind_of(options)
    asked = json.loads(options.get("columns", "[]"))
    unknown = [name for name in asked if name not in schema(kind)]
    if unknown:
        raise unusable(f"option 'columns': {kind} has no {', '.join(unknown)}")
    chosen = {*asked, *kind.key} if asked else set(schema(kind))
    return tuple(name for name in schema(kind) if name in chosen)


@dataclass(frozen=True)
class _Part(InputPartition):
    index: str
    query: Json
    share: Share


class _Reader(DataSourceReader):
    """What both kinds of documents have in common."""

    def __init__(
        self,
        settings: ElasticsearchSettings,
        options: Mapping[str, str],
        *,
        time: str,
        exact: Mapping[str, str],
    ) -> None:
        """`exact` has the field of every column on which conditions can be answered."""
        self._settings = settings
        self._time = time
        self._exact = exact
        self._rows_per_task = max(1, number(options, "rows_per_task", _ROWS_PER_TASK))
        self._from_ms = number(options, "from_ms", 0)
        self._to_ms = number(options, "to_ms", EVER_MS)
        self._conditions: list[Json] = []

    def narrow(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the filters that Elasticsearch can answer; return the others."""
        for filter_ in filters:
            condition = self._condition(filter_)
            if condition is None:
                yield filter_
            else:
                self._conditions.append(condition)

    def _condition(self, filter_: Filter) -> Json | None:
        """A filter as a query; None when only Spark can answer it."""
        path: tuple[str, ...] = getattr(filter_, "attribute", ())
        field = self._exact.get(path[0]) if len(path) == 1 else None
        if field is None:
            return None
        match filter_:
            case EqualTo(value=value) if value is not None:
                return {"term": {field: value}}
            case In(value=values) if None not in values:
                return {"terms": {field: list(values)}}
            case StringStartsWith(value=value):
                return {"prefix": {field: value}}
            case GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual() if (
                isinstance(filter_.value, int)
            ):
                return {"range": {field: {_COMPARED[type(filter_)]: filter_.value}}}
        return None

    def _query(self) -> Json:
        time = {self._time: {"gte": self._from_ms, "lt": self._to_ms, "format": "epoch_millis"}}
        return {"bool": {"filter": [{"range": time}, *self._conditions]}}

    def _parts(self, store: ElasticStore, indices: str, query: Json) -> Sequence[InputPartition]:
        found = store.searcher.count(indices, query)
        of = min(_MOST_TASKS, max(1, -(-found // self._rows_per_task)))
        return [_Part(indices, query, Share(number=part, of=of)) for part in range(of)]

    def _open(self) -> ElasticStore:
        return ElasticStore(self._settings, RejectedRows(HistorySettings().spool / "rejected"))


class ElasticReader(_Reader):
    """Reads rows of one kind."""

    def __init__(
        self,
        settings: ElasticsearchSettings,
        options: Mapping[str, str],
        columns: tuple[str, ...],
    ) -> None:
        self._kind = kind_of(options)
        self._columns = columns
        super().__init__(
            settings,
            options,
            time=self._kind.time_column,
            exact={name: name for name in self._kind.key},
        )
        names = json.loads(options.get("names", "{}"))
        self._conditions += [{"term": {name: value}} for name, value in names.items()]

    def partitions(self) -> Sequence[InputPartition]:
        store = self._open()
        try:
            wanted = HistoryRange(kind=self._kind, from_ms=self._from_ms, to_ms=self._to_ms)
            indices, query = store.see_all(wanted), self._query()
            self._demand_known(store, indices, query)
            return self._parts(store, indices, query)
        finally:
            store.close()

    def _demand_known(self, store: ElasticStore, indices: str, query: Json) -> None:
        """Refuse rows of a later release: its columns may mean something else."""
        later = {"range": {"schema_version": {"gt": SCHEMA_VERSION}}}
        if found := store.searcher.count(indices, {"bool": {"filter": [query, later]}}):
            raise HistoryError(
                store=STORE,
                kind="schema",
                message=f"{found} of the {self._kind} are of a schema version above "
                f"{SCHEMA_VERSION}, the last that this release knows. Read them with the release "
                "that wrote them, or a later one.",
                retryable=False,
            )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Part):
            return
        store = self._open()
        try:
            for hits in store.searcher.scan(
                partition.index,
                partition.query,
                sort=self._time,
                columns=fields_of(self._kind, self._columns),
                share=partition.share,
            ):
                rows = rows_of(self._kind, [hit["_source"] for hit in hits], self._columns)
                yield from to_batches(rows)
        finally:
            store.close()


class TelegrafReader(_Reader):
    """Reads what Telegraf's `inputs.burrow` wrote."""

    def __init__(self, settings: ElasticsearchSettings, options: Mapping[str, str]) -> None:
        self._pattern = options["telegraf"]
        super().__init__(settings, options, time="@timestamp", exact={"at_ms": "@timestamp"})

    def _condition(self, filter_: Filter) -> Json | None:
        condition = super()._condition(filter_)
        if condition is None or "range" not in condition:
            return None
        (bounds,) = condition["range"].values()
        return {"range": {self._time: {**bounds, "format": "epoch_millis"}}}

    def partitions(self) -> Sequence[InputPartition]:
        store = self._open()
        try:
            return self._parts(store, self._pattern, self._query())
        finally:
            store.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if not isinstance(partition, _Part):
            return
        store = self._open()
        try:
            for hits in store.searcher.scan(
                partition.index, partition.query, sort=self._time, share=partition.share, ids=True
            ):
                yield telegraf.batch(hits)
        finally:
            store.close()


class FilteredElasticReader(Filtered, ElasticReader):
    """The same with Spark's filters."""


class FilteredTelegrafReader(Filtered, TelegrafReader):
    """The same with Spark's filters."""


@dataclass
class _Message(WriterCommitMessage):
    written: Written


class ElasticWriter(DataSourceArrowWriter):
    """Writes rows of one kind; a task that is tried again changes nothing."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Message(write_batches(self._sink, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Fail if Elasticsearch rejected rows; all other rows are written.

        Raises:
            HistoryError: rows were rejected.
        """
        refused = [
            message.written
            for message in messages
            if isinstance(message, _Message) and message.written.rejected
        ]
        if refused:
            rows = sum(written.rejected for written in refused)
            raise HistoryError(
                store=STORE,
                kind="rejected",
                message=f"Elasticsearch rejected {rows} rows because of their content. All "
                "others are written. The rejected rows and reasons are on the workers in "
                f"{refused[0].rejected_in}.",
                retryable=False,
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the rows that were written are correct, and the next run completes them."""


__all__ = ["NAME", "ElasticSource", "Replacing", "rows_frame"]
