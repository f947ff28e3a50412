"""Stores as Spark tables: rows of history read and written, whichever store keeps them."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final, Self, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.history.build import open_store, settings_of
from lagwatch.jobs.parquet_rows import Aside, parquet_rows, retried, spark_url
from lagwatch.jobs.schemas import column_names
from lagwatch.jobs.sources.options import batch_of
from lagwatch.jobs.sources.sink import Sink, Written, write_batches
from lagwatch.ports.history import HistoryRange, HistoryStore

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRef:
    """Which store; goes to the workers, secrets and all. Never log it."""

    settings: HistorySettings

    @classmethod
    def of(cls, where: str | None, settings: HistorySettings) -> Self:
        """A store as users name it: folder, URL, `elasticsearch`; None: the configured one."""
        return cls(settings=settings_of(where, settings))

    @property
    def is_parquet(self) -> bool:
        return self.settings.store == "parquet"

    @property
    def where(self) -> str:
        """Folder or URL of the Parquet files; a URL may hold secrets."""
        return self.settings.url.get_secret_value()

    def open(self) -> HistoryStore:
        """The store itself; the caller closes it.

        Raises:
            HistoryError: it cannot be understood, or its package is not installed.
        """
        return open_store(self.settings)


def read_rows(
    spark: SparkSession,
    ref: StoreRef,
    wanted: HistoryRange,
    *,
    aside: Aside | None = None,
    distinct: bool = False,
) -> DataFrame:
    """The rows of a range, each record once: of equal keys the better source, then the first.

    Columns are those of the kind, or `wanted.columns` and the key, in the order of the schema. With
    `distinct` the caller knows that no record is in two files, which saves the look.

    Parquet files that are torn, foreign or of a later release are set aside: `aside` is told.

    Raises:
        HistoryError: the store did not answer.
    """
    if not ref.is_parquet:
        ref.open().close()  # says so when its package is missing
        from lagwatch.jobs.sources.elastic import rows_frame  # noqa: PLC0415 an optional extra

        return rows_frame(spark, ref.settings.elasticsearch, wanted)
    return parquet_rows(spark, ref.where, wanted, aside=aside, distinct=distinct)


def on_sound_files(ref: StoreRef, act: Callable[[], Result]) -> Result:
    """What `act` gives, which reads rows of the store and may be called several times.

    A file may turn out to be torn only when its pages are read, or be compacted in between: then
    `act` is called again, and `read_rows` passes over what is torn.
    """
    if not ref.is_parquet:
        return act()
    return retried(ref.where, act)


def write_rows(rows: DataFrame, ref: StoreRef, kind: Kind, *, batch: str) -> Written:
    """Write rows as recorded (samples, group_samples, events) and say what became of them.

    Writing the same rows again, in part or whole, changes nothing, and no row of a worse source
    takes the place of a better one's. `batch` names what is written: letters, digits and `-`.

    This is no data source sink, because those cannot report to the caller what was rejected.

    Raises:
        PySparkException: a store refused, or was away for long; `lagwatch.jobs.faults` reads it.
    """
    sink = Sink(settings=ref.settings, kind=kind, batch=batch)
    return _write(rows.sortWithinPartitions(*kind.key), sink)


def replace_rows(rows: DataFrame, ref: StoreRef, kind: Kind) -> Written:
    """Put computed rows into Elasticsearch, in the place of those with the same keys.

    Raises:
        PySparkException: as `write_rows`; or the store is no Elasticsearch.
    """
    return _write(rows, Sink(settings=ref.settings, kind=kind, batch="replace", replace=True))


WRITTEN_TYPE: Final = T.StructType(
    [
        T.StructField("rows", T.LongType()),
        T.StructField("rejected", T.LongType()),
        T.StructField("retries", T.LongType()),
        T.StructField("rejected_in", T.StringType()),
    ]
)


def _write(rows: DataFrame, sink: Sink) -> Written:
    def task(batches: Iterator[Any]) -> Iterator[Any]:
        written = asdict(write_batches(sink, batches))
        yield batch_of(WRITTEN_TYPE, {name: [value] for name, value in written.items()})

    told = rows.select(*column_names(sink.kind)).mapInArrow(task, WRITTEN_TYPE).collect()
    return sum((Written(**row.asDict()) for row in told), Written())


__all__ = [
    "WRITTEN_TYPE",
    "Aside",
    "StoreRef",
    "Written",
    "on_sound_files",
    "read_rows",
    "replace_rows",
    "spark_url",
    "write_rows",
]
