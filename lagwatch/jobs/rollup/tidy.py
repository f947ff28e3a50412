"""After the roll-ups: small Parquet files become large ones, and old days go."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from lagwatch.core.record import KINDS, Kind
from lagwatch.history.build import retention_days
from lagwatch.history.compact import Compacted, compact_slot
from lagwatch.history.layout import DAY_MS, Slot, day_of, is_data
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.rollup.units import spread
from lagwatch.jobs.sources.arrow import batch_of
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports import HistoryStore

_MANY_FILES: Final = 32
"""A slot that is not over is compacted when it has so many."""
_SMALL_BYTES: Final = 16_000_000
_SLOT: Final = T.StructType(
    [
        T.StructField("kind", T.StringType()),
        T.StructField("cluster", T.StringType()),
        T.StructField("from_ms", T.LongType()),
    ]
)
_DONE: Final = T.StructType(
    [T.StructField(name, T.LongType()) for name in ("merged", "written", "rows")]
)
NOTHING: Final = Compacted(merged=0, written=0, rows=0)


def compact(
    spark: SparkSession, ref: StoreRef, clusters: tuple[str, ...], now_ms: int
) -> Compacted:
    """Make few files of many, slot by slot, each in a task.

    Raises:
        PySparkException: a file could not be written; nothing is lost.
    """
    store = ParquetStore(ref.settings.url)
    wanted = [slot for cluster in clusters for slot in _crowded(store, cluster, now_ms)]
    store.close()
    if not wanted:
        return NOTHING

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        here = ParquetStore(ref.settings.url)
        for batch in batches:
            for row in batch.to_pylist():
                done = compact_slot(here, Slot(**{**row, "kind": Kind(row["kind"])}))
                yield batch_of(_DONE, {name: [value] for name, value in asdict(done).items()})
        here.close()

    rows = [(slot.kind.value, slot.cluster, slot.from_ms) for slot in wanted]
    told = spread(spark, rows, _SLOT).mapInArrow(task, _DONE).collect()
    return sum((Compacted(**row.asDict()) for row in told), NOTHING)


def _crowded(store: ParquetStore, cluster: str, now_ms: int) -> Iterator[Slot]:
    for kind in KINDS:
        for slot, files in store.stored_slots(kind, cluster).items():
            small = [one for one in files if is_data(one.name) and one.size_bytes < _SMALL_BYTES]
            if len(small) > 1 and (slot.to_ms <= now_ms or len(small) >= _MANY_FILES):
                yield slot


def delete_old(store: HistoryStore, ref: StoreRef, now_ms: int) -> Mapping[Kind, int]:
    """Delete what is older than the retention; how many rows of each kind went.

    Raises:
        HistoryError: the store refused.
    """
    gone = {
        kind: store.delete_before(kind, day_of(now_ms - days * DAY_MS))
        for kind, days in retention_days(ref.settings).items()
        if days
    }
    return {kind: rows for kind, rows in gone.items() if rows}
