"""Copies of the past in Parquet files.

`PATH/offsets/` holds records of the offsets topic as Spark's Kafka source gives them:

    partition int, offset long, timestamp timestamp|long (epoch ms), key binary, value binary

and `PATH/log_ends/` log ends over time; rows of one instant are one round:

    topic string, partition int, at_ms long (epoch ms)|timestamp, log_end long,
    log_start long (may be missing), method string (may be missing: "copied")

Both may have a column, or folders, `cluster`. Other columns are passed over.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.config import ClusterSettings
from lagwatch.errors import JobError
from lagwatch.jobs.backfill.inputs import Refused, refused_of
from lagwatch.jobs.sources.offsets import QUARANTINE, SCHEMA, RecordRows, quarantine_batch
from lagwatch.jobs.stores.parquet.rows import spark_url
from lagwatch.kafka.ranges import OffsetRange, RangeBatch
from lagwatch.pollers.filters import Filters

OFFSETS: Final = "offsets"
LOG_ENDS: Final = "log_ends"
COPIED: Final = "copied"
"""`method` of log ends that do not say how they are known."""

_RECORD: Final = ("partition", "offset", "timestamp", "key", "value")
_LOG_END: Final = ("topic", "partition", "at_ms", "log_end")
_NO_BROKER: Final = ClusterSettings(bootstrap=("copy:9092",))

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """A folder or URL of Parquet files with the past of some clusters."""

    path: str

    def clusters(self, spark: SparkSession) -> tuple[str, ...]:
        """Clusters that the files name, sorted; () when they name no cluster.

        Raises:
            JobError: there are no such files, or they lack columns.
        """
        records = self._read(spark, OFFSETS, _RECORD)
        if "cluster" not in records.columns:
            return ()
        named = records.select("cluster").distinct().collect()
        return tuple(sorted(str(row["cluster"]) for row in named))

    def of(self, cluster: str, settings: ClusterSettings | None) -> "CopiedInput":
        """The past of one cluster, filtered as its section of the configuration says, if any."""
        return CopiedInput(copies=self, cluster=cluster, settings=settings or _NO_BROKER)

    def records(self, spark: SparkSession, cluster: str) -> DataFrame:
        """The records of the offsets topic of one cluster."""
        records = self._read(spark, OFFSETS, _RECORD)
        return records.transform(_of_cluster(cluster)).select(
            F.col("partition").cast(T.IntegerType()).alias("partition"),
            F.col("offset").cast(T.LongType()).alias("offset"),
            _epoch_ms(records, "timestamp").alias("timestamp"),
            "key",
            "value",
        )

    def log_ends(self, spark: SparkSession, cluster: str) -> DataFrame:
        """The log ends of one cluster."""
        rows = self._read(spark, LOG_ENDS, _LOG_END)
        absent = F.lit(None).cast(T.LongType())
        method = F.col("method") if "method" in rows.columns else F.lit(COPIED)
        return rows.transform(_of_cluster(cluster)).select(
            F.lit(cluster).alias("cluster"),
            "topic",
            F.col("partition").cast(T.IntegerType()).alias("partition"),
            _epoch_ms(rows, "at_ms").alias("at_ms"),
            F.col("log_end").cast(T.LongType()).alias("log_end"),
            (
                F.col("log_start").cast(T.LongType()) if "log_start" in rows.columns else absent
            ).alias("log_start"),
            F.coalesce(method, F.lit(COPIED)).alias("method"),
        )

    def _read(self, spark: SparkSession, folder: str, columns: Sequence[str]) -> DataFrame:
        where = f"{spark_url(self.path)}/{folder}"
        try:
            found = spark.read.option("recursiveFileLookup", "false").parquet(where)
        except AnalysisException as error:
            raise JobError(
                kind="input",
                message=f"{where}: no Parquet files can be read there ({_first_line(error)}). "
                f"--from parquet:PATH wants PATH/{OFFSETS} and PATH/{LOG_ENDS}.",
                retryable=False,
            ) from error
        missing = [name for name in columns if name not in found.columns]
        if missing:
            raise JobError(
                kind="input",
                message=f"{where}: lacks the columns {', '.join(missing)}; "
                f"wanted are {', '.join(columns)}.",
                retryable=False,
            )
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedInput:
    """One cluster's past, as an `Input`."""

    copies: Copies
    cluster: str
    settings: ClusterSettings

    def offsets(self, spark: SparkSession, *, from_ms: int, to_ms: int) -> DataFrame:
        decode = _Decode(
            cluster=self.cluster, settings=self.settings, starts=self._starts(spark, from_ms)
        )
        return self._ordered(spark, from_ms, to_ms).mapInArrow(decode, SCHEMA)

    def refused(
        self, spark: SparkSession, *, from_ms: int, to_ms: int, most: int
    ) -> Sequence[Refused]:
        sift = _Sift(cluster=self.cluster, settings=self.settings)
        found = self._ordered(spark, from_ms, to_ms).mapInArrow(sift, QUARANTINE)
        return refused_of(found, most)

    def log_ends(self, spark: SparkSession, at_ms: Int64, topics: Sequence[str]) -> DataFrame:
        time = F.col("at_ms")
        return self.copies.log_ends(spark, self.cluster).where(
            (time >= int(at_ms[0])) & (time <= int(at_ms[-1])) & F.col("topic").isin(*topics)
        )

    def held_back(self) -> Mapping[int, int]:
        """None: a copy has what it has."""
        return {}

    def unseen(self, topics: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 nothing can be asked
        return ()

    def _starts(self, spark: SparkSession, from_ms: int) -> Mapping[int, int]:
        """Offset behind the last record before a time, by partition.

        A partition without one has to begin with its first offset: else something is missing.
        """
        before = self.copies.records(spark, self.cluster).where(F.col("timestamp") < from_ms)
        last = before.groupBy("partition").agg(F.max("offset").alias("offset"))
        return {row["partition"]: row["offset"] + 1 for row in last.collect()}

    def _ordered(self, spark: SparkSession, from_ms: int, to_ms: int) -> DataFrame:
        records = self.copies.records(spark, self.cluster)
        time = F.col("timestamp")
        return (
            records.where((time >= from_ms) & (time < to_ms))
            .repartition("partition")
            .sortWithinPartitions("partition", "offset")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decode:
    """Records of some partitions, each in order, to rows of `lagwatch.offsets`."""

    cluster: str
    settings: ClusterSettings
    starts: Mapping[int, int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: RecordRows | None = None
        place = -1
        for records in _runs(batches):
            if rows is None or records.partition != place:
                if rows is not None:
                    yield rows.end()
                place = records.partition
                first = self.starts.get(place, 0)
                whole = OffsetRange(partition=place, start=first, end=first)
                rows = RecordRows(self.cluster, whole, Filters(self.settings), SCHEMA)
            yield from rows.take(records.batch)
        if rows is not None:
            yield rows.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sift:
    """Records to those that cannot be decoded."""

    cluster: str
    settings: ClusterSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for records in _runs(batches):
            yield from quarantine_batch(
                self.cluster, self.settings, records.partition, records.batch
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Records of one partition."""

    partition: int
    batch: RangeBatch


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[_Run]:
    for batch in batches:
        partition = batch.column("partition").to_numpy(zero_copy_only=False)
        if not partition.size:
            continue
        heads = np.flatnonzero(np.diff(partition, prepend=partition[0] - 1))
        for start, stop in zip(heads.tolist(), [*heads[1:].tolist(), partition.size], strict=True):
            some = batch.slice(start, stop - start)
            yield _Run(partition=int(partition[start]), batch=_records(some))


def _records(batch: pa.RecordBatch) -> RangeBatch:
    times = batch.column("timestamp").to_numpy(zero_copy_only=False)
    return RangeBatch(
        keys=batch.column("key").to_pylist(),
        values=batch.column("value").to_pylist(),
        orders=batch.column("offset").to_numpy(zero_copy_only=False),
        stamp=lambda row: int(times[row]),
    )


def _of_cluster(cluster: str) -> Callable[[DataFrame], DataFrame]:
    def transform(rows: DataFrame) -> DataFrame:
        return rows.where(F.col("cluster") == cluster) if "cluster" in rows.columns else rows

    return transform


def _epoch_ms(rows: DataFrame, name: str) -> Column:
    stamp = isinstance(rows.schema[name].dataType, T.TimestampType)
    return F.unix_millis(F.col(name)) if stamp else F.col(name).cast(T.LongType())


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
