"""What Telegraf recorded of Burrow, as rows of the history: nothing is judged, nothing is guessed.

Telegraf keeps the lag, the committed offset and the verdict; log ends, time lags, rules and the
windows behind them it does not, so these stay unknown.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.core.model import (
    STATUS_BY_RULE,
    GroupStatus,
    PartitionStatus,
    TimeLagReason,
)
from lagwatch.core.record import SCHEMA_VERSION, Kind, Reason, Source
from lagwatch.jobs.backfill.instants import Gap
from lagwatch.jobs.schemas import column_names, struct_type

METHOD: Final = "telegraf"
PATTERN: Final = "burrow-*"
"""Indices of Telegraf, by default."""

_PARTITION_STATUS: Final = tuple(status.name for status in PartitionStatus)
_GROUP_STATUS: Final = tuple(status.name for status in GroupStatus)
_ONE_RULE: Final = {
    status.name: [rule.word for rule, decided in STATUS_BY_RULE.items() if decided is status]
    for status in PartitionStatus
}
"""Rules that can have decided each status."""

Int64 = NDArray[np.int64]


def usual_step_ms(asked_ms: Int64, interval_ms: int) -> int:
    """Distance of the samples: that at which Telegraf asked, but not less than our own."""
    distances = np.diff(np.unique(asked_ms))
    usual = round(float(np.median(distances)) / 1000) * 1000 if distances.size else 0
    return max(interval_ms, usual)


def samples(step_ms: int, gaps: Sequence[Gap]) -> Callable[[DataFrame], DataFrame]:
    """Documents of one cluster to rows of kind `samples`."""

    def transform(documents: DataFrame) -> DataFrame:
        partitions = documents.transform(_rounds("burrow_partition", step_ms, gaps))
        groups = documents.transform(_rounds("burrow_group", step_ms, gaps)).select(
            "group", "round_ms", _word("status", _GROUP_STATUS).alias("group_status")
        )
        return _typed(
            Kind.SAMPLES,
            partitions.join(groups, on=["group", "round_ms"], how="left"),
            {
                "committed_offset": F.when(_committed(), F.col("offset")),
                "commit_ms": F.when(_committed(), F.col("timestamp")),
                "lag": _lag(),
                "time_lag_s": F.when(_lag() == 0, 0.0),
                "time_lag_reason": _time_lag_reason(_lag()),
                "status": _partition_status(),
                "rule": _rule(),
                "group_status": F.col("group_status"),
                "owner": F.col("owner"),
                "method": F.lit(METHOD),
            },
        )

    return transform


def group_samples(step_ms: int, gaps: Sequence[Gap]) -> Callable[[DataFrame], DataFrame]:
    """Documents of one cluster to rows of kind `group_samples`; each round is whole."""

    def transform(documents: DataFrame) -> DataFrame:
        not_ok = ~_partition_status().isin("OK", "UNKNOWN")
        partitions = (
            documents.transform(_rounds("burrow_partition", step_ms, gaps))
            .groupBy("group", "round_ms")
            .agg(
                F.count(F.lit(1)).alias("observed"),
                F.count(F.when(_lag().isNull(), 1)).alias("unknown_partitions"),
                F.count(F.when(not_ok, 1)).alias("not_ok"),
                F.max_by(F.struct("topic", "partition"), _lag()).alias("worst"),
            )
        )
        groups = documents.transform(_rounds("burrow_group", step_ms, gaps))
        worst = F.when(F.col("lag").isNotNull(), F.col("worst"))
        return _typed(
            Kind.GROUP_SAMPLES,
            groups.join(partitions, on=["group", "round_ms"], how="left"),
            {
                "status": _word("status", _GROUP_STATUS),
                "total_lag": F.col("total_lag"),
                "max_lag": F.col("lag"),
                "max_lag_topic": worst["topic"],
                "max_lag_partition": worst["partition"],
                "time_lag_s": F.when(F.col("total_lag") == 0, 0.0),
                "time_lag_reason": _time_lag_reason(F.col("total_lag")),
                "partitions": F.col("partition_count"),
                "unknown_partitions": F.col("unknown_partitions"),
                "not_ok": F.col("not_ok"),
                "observed": F.coalesce("observed", F.lit(0)),
                "unchanged": F.lit(0),
                "interval_ms": F.lit(step_ms),
            },
        )

    return transform


def _rounds(
    measurement: str, step_ms: int, gaps: Sequence[Gap]
) -> Callable[[DataFrame], DataFrame]:
    """The first document of each series in every interval of the gaps."""
    series = ["group"] if measurement == "burrow_group" else ["group", "topic", "partition"]
    round_ms = F.col("at_ms") - F.col("at_ms") % step_ms

    def transform(documents: DataFrame) -> DataFrame:
        named = [F.col(name).isNotNull() for name in series]
        order = W.partitionBy(*series, "round_ms").orderBy("at_ms", "index", "id")
        condition = F.col("measurement") == measurement
        for known in named:
            condition &= known
        return (
            documents.where(condition)
            .withColumn("round_ms", round_ms)
            .where(_within(F.col("round_ms"), gaps))
            .withColumn("_place", F.row_number().over(order))
            .where(F.col("_place") == 1)
            .drop("_place")
        )

    return transform


def _within(time: Column, gaps: Sequence[Gap]) -> Column:
    condition = F.lit(False)  # noqa: FBT003 Spark's own signature
    for gap in gaps:
        condition |= (time >= gap.from_ms) & (time < gap.to_ms)
    return condition


def _typed(kind: Kind, rows: DataFrame, columns: dict[str, Column]) -> DataFrame:
    """All columns of the kind in their order; those that nobody knows are null."""
    known = {
        "cluster": F.col("cluster"),
        "group": F.col("group"),
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "at_ms": F.col("round_ms"),
        "observed_ms": F.col("at_ms"),
        "reason": F.lit(Reason.INTERVAL.value),
        "source": F.lit(Source.TELEGRAF.value),
        "schema_version": F.lit(SCHEMA_VERSION),
        **columns,
    }
    types = struct_type(kind)
    return rows.select(
        *(
            known.get(name, F.lit(None)).cast(types[name].dataType).alias(name)
            for name in column_names(kind)
        )
    )


def _committed() -> Column:
    """Telegraf writes zeros for a partition without any commit."""
    return F.col("timestamp") > 0


def _lag() -> Column:
    return F.when(_committed(), F.col("lag"))


def _partition_status() -> Column:
    return _word("status", _PARTITION_STATUS)


def _word(name: str, known: Sequence[str]) -> Column:
    """A status as we write it; one that we do not have is unknown."""
    return F.when(F.col(name).isin(*known), F.col(name)).otherwise("UNKNOWN")


def _rule() -> Column:
    """The rule where only one leads to the status."""
    rule = F.lit(None).cast("string")
    for status, rules in _ONE_RULE.items():
        if len(rules) == 1 and status != PartitionStatus.UNKNOWN.name:
            rule = F.when(_partition_status() == status, rules[0]).otherwise(rule)
    return rule


def _time_lag_reason(lag: Column) -> Column:
    return F.when(lag == 0, TimeLagReason.CAUGHT_UP.word).otherwise(
        TimeLagReason.LOG_END_UNKNOWN.word
    )
