"""Rows of the Parquet store, read by Spark from files that were checked first.

Files that are torn, foreign or of a later release are passed over, and named. Spark checks every
page against its checksum.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window as W

from lagwatch.core.record import SOURCE_RANK, ColumnType, Kind, schema
from lagwatch.history.layout import Slot, slot_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.parquet_file import Footer, read_rows, torn
from lagwatch.history.parquet_slots import may_repeat
from lagwatch.jobs.schemas import struct_type
from lagwatch.ports.history import HistoryRange

Aside = Callable[[str, str], None]
"""Called with a file that is set aside, and the reason."""
Result = TypeVar("Result")

_FOOTERS_AT_ONCE: Final = 8
_GLOB: Final = re.compile(r"([\\*?\[\]{}])")
_HADOOP_SCHEME: Final = {"s3": "s3a"}
"""Schemes that Spark names differently than Arrow."""

_CHECKED: Final = {"parquet.page.verify-checksum.enabled": "true"}
_PHYSICAL: Final = {
    ColumnType.TEXT: {"BYTE_ARRAY"},
    ColumnType.BINARY: {"BYTE_ARRAY"},
    ColumnType.INT32: {"INT32"},
    ColumnType.INT64: {"INT64", "INT32"},
    ColumnType.INSTANT: {"INT64"},
    ColumnType.FLOAT64: {"DOUBLE", "FLOAT"},
}
"""Parquet's types that Spark reads as the column's own type."""


_FAILED: Final = re.compile(
    r"\[FAILED_READ_FILE[.\w]*\] Encountered error while reading file (\S+)\."
)
_ATTEMPTS: Final = 100
"""At most this many torn or vanished files during one piece of work."""

_torn: dict[tuple[str, str], str] = {}
"""Files that were found torn while they were read, by store and path, with the reason."""
_lock = Lock()


def parquet_rows(
    spark: SparkSession,
    where: str,
    wanted: HistoryRange,
    *,
    aside: Aside | None = None,
    distinct: bool = False,
) -> DataFrame:
    """As `tables.read_rows`, of the Parquet store in this folder or at this URL.

    Raises:
        HistoryError: the store cannot be read.
    """
    store = ParquetStore(where)
    clusters = store.clusters_of(wanted.kind) if wanted.cluster is None else (wanted.cluster,)
    columns = wanted.chosen
    frames = [
        frame
        for cluster in clusters
        for frame in _cluster_frames(
            spark, store, wanted, cluster, _files(store, wanted, cluster, distinct=distinct)
        )
    ]
    if aside is not None:
        for file, reason in sorted(store.passed_over.items()):
            aside(file, reason)
    store.close()
    if not frames:
        fields = [struct_type(wanted.kind)[name] for name in columns]
        return spark.createDataFrame([], T.StructType(fields))
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    return rows.where(within(wanted)).select(*columns)


def within(wanted: HistoryRange) -> Column:
    """Condition for the wanted rows; names left out match all."""
    time = F.col(wanted.kind.time_column)
    condition = (time >= wanted.from_ms) & (time < wanted.to_ms)
    for name, value in wanted.names.items():
        condition &= F.col(name) == value
    return condition


def retried(where: str, act: Callable[[], Result]) -> Result:
    """Result of `act`, called again without a torn file, and when files have vanished."""
    for _ in range(_ATTEMPTS):
        try:
            return act()
        except (PySparkException, Py4JError) as error:
            if not _may_help(where, error):
                raise
    return act()


def _may_help(where: str, error: Exception) -> bool:
    """True if another attempt without the failed file may succeed."""
    found = _FAILED.search(str(error))
    root = f"{spark_url(where)}/"
    # Spark writes the path as a URL
    url = unquote(found.group(1)) if found is not None else ""
    if not url.startswith(root):
        return False
    path = url.removeprefix(root)
    slot = slot_of(path)
    if slot is None:
        return False
    store = ParquetStore(where)
    held = [footer for footer in store.footers(slot) if footer.file.path == path]
    if not held:
        return True  # the file was deleted, or its footer is torn meanwhile
    problem = _torn_pages(store, slot, held[0])
    if problem:
        with _lock:
            _torn[where, path] = problem
    return bool(problem)


def _torn_pages(store: ParquetStore, slot: Slot, footer: Footer) -> str:
    """The fault found when all of a file is read; "" when it is sound."""
    try:
        read_rows(store.folder, footer, slot, range(len(footer.groups)), tuple(footer.columns))
    except FileNotFoundError:
        return ""
    except (pa.ArrowException, OSError) as error:
        return torn(error, footer.file)
    return ""


@dataclass(slots=True)
class _Files:
    """Paths of one cluster's files below the store's folder."""

    single: list[str]
    """True if no record of these files is in another file as well."""
    repeated: list[str]


def _files(store: ParquetStore, wanted: HistoryRange, cluster: str, *, distinct: bool) -> _Files:
    found = _Files([], [])
    slots = sorted(store.slots(wanted, cluster))
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        for footers in pool.map(lambda slot: _usable(store, slot), slots):
            chosen = [held for held in footers if held.wanted_groups(wanted, None, None)]
            paths = [footer.file.path for footer in chosen]
            if not distinct and may_repeat(chosen):
                found.repeated += paths
            else:
                found.single += paths
    return found


def _usable(store: ParquetStore, slot: Slot) -> list[Footer]:
    """The files of a slot that Spark can read."""
    footers = []
    for footer in store.footers(slot):
        known = _torn.get((store.where, footer.file.path), "")
        problem = known or _foreign_types(footer, slot.kind)
        if problem:
            store.pass_over(footer.file, problem)
        else:
            footers.append(footer)
    return footers


def _foreign_types(footer: Footer, kind: Kind) -> str:
    known = schema(kind)
    parquet = footer.metadata.schema
    for index in range(len(parquet)):
        column = parquet.column(index)
        ours = known.get(column.path)
        if ours is not None and column.physical_type not in _PHYSICAL[ours.type]:
            return (
                f"{footer.file.path}: column {column.path} is {column.physical_type}, "
                f"not {ours.type}. lagwatch did not write it: move it out of the store."
            )
    return ""


def _cluster_frames(
    spark: SparkSession, store: ParquetStore, wanted: HistoryRange, cluster: str, files: _Files
) -> Iterator[DataFrame]:
    """One frame per file set, with the wanted columns.

    Spark pushes conditions down to the files.
    """
    columns = wanted.chosen
    if files.single:
        frame = _scan(spark, store.where, files.single, wanted.kind, columns)
        yield frame.withColumn("cluster", F.lit(cluster)).select(*columns)
    if files.repeated:
        with_source = tuple(dict.fromkeys([*columns, "source"]))
        frame = _scan(spark, store.where, files.repeated, wanted.kind, with_source)
        # what is not wanted is left out before it is sorted
        frame = frame.withColumn("cluster", F.lit(cluster)).where(within(wanted))
        yield frame.transform(_first_of_each(wanted.kind)).select(*columns)


def _scan(
    spark: SparkSession, where: str, paths: Sequence[str], kind: Kind, columns: Sequence[str]
) -> DataFrame:
    # `cluster` is not in the files; a column that an older file lacks is null
    fields = [struct_type(kind)[name] for name in columns if name != "cluster"]
    root = spark_url(where)
    reader = spark.read.schema(T.StructType(fields)).options(**_CHECKED)
    return reader.parquet(*(_GLOB.sub(r"\\\1", f"{root}/{path}") for path in paths))


def _first_of_each(kind: Kind) -> Callable[[DataFrame], DataFrame]:
    """Of rows with the same key the one of the better source, then of the file written first."""

    def transform(rows: DataFrame) -> DataFrame:
        order = W.partitionBy(*kind.key).orderBy(
            source_rank(F.col("source")),
            F.col("_metadata.file_name"),
            F.col("_metadata.row_index"),
        )
        names = rows.columns
        return (
            rows.select(*names, F.row_number().over(order).alias("_place"))
            .where(F.col("_place") == 1)
            .select(*names)
        )

    return transform


def source_rank(source: Column) -> Column:
    """Rank of a row's source among rows with the same key; the lowest is kept."""
    rank = F.lit(max(SOURCE_RANK.values()) + 1)
    for name, number in SOURCE_RANK.items():
        rank = F.when(source == name, number).otherwise(rank)
    return rank


def spark_url(where: str) -> str:
    """A folder of the store as Spark names it; it must be the same for all workers."""
    if "://" not in where:
        return f"file://{Path(where).absolute()}"
    scheme, rest = where.split("://", 1)
    # what follows a question mark are options of Arrow's file system
    return f"{_HADOOP_SCHEME.get(scheme, scheme)}://{rest.partition('?')[0].rstrip('/')}"
