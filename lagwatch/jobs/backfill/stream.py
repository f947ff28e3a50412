"""Commits and log ends as one stream for each shard of groups, in the order of time.

Shards share out the groups of a cluster; each has the log ends of the topics that its groups use.
Sorting is Spark's, which spills to disk, so that a shard is replayed in little memory however long
the time is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import Text
from lagwatch.jobs.backfill.rows import CommitRows, GoneRows, LogEndRows

_COMMIT, _GONE, _LOG_END = range(3)
"""In the order in which they come at the same instant."""

Int64 = NDArray[np.int64]


def sharded(shards: int) -> Callable[[DataFrame], DataFrame]:
    """Commits, removals and deletions of groups, each with the shard of its group."""

    def transform(offsets: DataFrame) -> DataFrame:
        what = F.when(F.col("what") == "gone", _GONE).otherwise(_COMMIT)
        return offsets.where(F.col("what").isin("commit", "removed", "gone")).select(
            shard_of(F.col("group"), shards).alias("shard"),
            F.col("commit_ms").alias("at_ms"),
            what.cast(T.ByteType()).alias("what"),
            "order",
            "offsets_partition",
            "group",
            "topic",
            "partition",
            "offset",
            F.lit(None).cast(T.LongType()).alias("log_start"),
            F.lit(None).cast(T.StringType()).alias("method"),
        )

    return transform


def shard_of(group: Any, shards: int) -> Any:  # noqa: ANN401 Columns
    """Which shard a group belongs to: always the same for a number of shards."""
    return F.pmod(F.xxhash64(group), F.lit(shards)).cast(T.IntegerType())


def for_shards(topics: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Log ends, once for each shard that uses their topic."""

    def transform(log_ends: DataFrame) -> DataFrame:
        return log_ends.join(F.broadcast(topics), on="topic", how="inner").select(
            "shard",
            "at_ms",
            F.lit(_LOG_END).cast(T.ByteType()).alias("what"),
            F.lit(None).cast(T.LongType()).alias("order"),
            F.lit(None).cast(T.IntegerType()).alias("offsets_partition"),
            F.lit(None).cast(T.StringType()).alias("group"),
            "topic",
            "partition",
            F.col("log_end").alias("offset"),
            "log_start",
            "method",
        )

    return transform


def in_time_order(shards: int) -> Callable[[DataFrame], DataFrame]:
    """One Spark partition for each shard, in the order in which a replay wants it."""

    def transform(stream: DataFrame) -> DataFrame:
        return stream.repartitionById(shards, F.col("shard")).sortWithinPartitions(
            "at_ms", "what", "order"
        )

    return transform


def commit_rows(batch: pa.RecordBatch) -> CommitRows:
    """The commits and removals of a batch of the stream."""
    some = _only(batch, _COMMIT)
    at_ms = _numbers(some, "at_ms")
    return CommitRows(
        at_ms=at_ms,
        group=_words(some, "group"),
        topic=_words(some, "topic"),
        partition=_numbers(some, "partition").astype(np.int32),
        offset=_numbers(some, "offset"),
        commit_ms=at_ms,
        order=_numbers(some, "order"),
        offsets_partition=_numbers(some, "offsets_partition").astype(np.int32),
    )


def log_end_rows(batch: pa.RecordBatch) -> LogEndRows:
    """The log ends of a batch of the stream."""
    some = _only(batch, _LOG_END)
    return LogEndRows(
        at_ms=_numbers(some, "at_ms"),
        topic=_words(some, "topic"),
        partition=_numbers(some, "partition").astype(np.int32),
        log_end=_numbers(some, "offset"),
        log_start=_numbers(some, "log_start"),
        method=_words(some, "method"),
    )


def gone_rows(batch: pa.RecordBatch) -> GoneRows:
    """The deletions of groups of a batch of the stream."""
    some = _only(batch, _GONE)
    return GoneRows(
        at_ms=_numbers(some, "at_ms"),
        group=_words(some, "group"),
        order=_numbers(some, "order"),
    )


def _only(batch: pa.RecordBatch, what: int) -> pa.RecordBatch:
    return batch.filter(pc.equal(batch.column("what"), pa.scalar(what, pa.int8())))


def _numbers(batch: pa.RecordBatch, name: str) -> Int64:
    column = batch.column(name)
    if column.null_count:
        column = pc.fill_null(column, UNKNOWN)
    values: Int64 = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _words(batch: pa.RecordBatch, name: str) -> Text:
    coded = batch.column(name).dictionary_encode()
    codes = coded.indices
    if codes.null_count:
        codes = pc.fill_null(codes, UNKNOWN)
    numbers = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Text(numbers, tuple(coded.dictionary.to_pylist()))
