"""Tables that the report reads, and expressions that several transforms share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch.core.record import BY_WORST, Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.jobs.report.day import QUARTER_MS, Day, quarters
from lagwatch.jobs.tables import Aside, StoreRef, read_rows
from lagwatch.ports.history import HistoryRange

BUCKET_MS: Final = ROLLUP_STEP_MS[Kind.ROLLUP_5M]
BUCKET_S: Final = BUCKET_MS / 1000
GROUP: Final = ("cluster", "group")
TOPIC: Final = ("cluster", "group", "topic")
PARTITION: Final = ("cluster", "group", "topic", "partition")
BAD: Final = ("WARN", "ERR")
"""Status words of a group in trouble."""
UNKNOWN: Final = "UNKNOWN"
"""Status word of a group that cannot be judged: no recovery, and no trouble of its own."""

GROUP_BUCKETS: Final = (
    *("samples", "lag_known", "lag_sum", "lag_max", "time_lag_max_s", "status"),
    *("ok_s", "warn_s", "err_s", "unknown_s"),
    *("produced", "produced_s", "consumed", "consumed_s"),
    *("commits", "rebalances", "owner"),
)
PARTITION_BUCKETS: Final = (
    *("samples", "lag_known", "lag_sum", "lag_min"),
    *("produced", "produced_s", "produced_per_s"),
    *("consumed", "consumed_s", "consumed_per_s", "commits"),
    "owner",
)
GROUP_ROUNDS: Final = (
    *("status", "total_lag", "time_lag_s", "time_lag_reason", "members", "interval_ms", "reason"),
    *("cause", "cause_certainty", "catch_up_s", "catch_up_reason", "loss_in_s", "loss_reason"),
    *("since_ms", "partitions"),
)
OFFSETS: Final = ("committed_offset", "log_end_offset", "log_start_offset")
EVENT_COLUMNS: Final = (
    *("before", "after", "rule", "lag", "count", "detail", "cause", "cause_certainty"),
)
QUARTERS: Final = T.StructType(
    [
        T.StructField("quarter_ms", T.LongType()),
        T.StructField("days_ago", T.IntegerType()),
        T.StructField("hour", T.IntegerType()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTables:
    """The history as tables, of the clusters that are wanted."""

    spark: SparkSession
    ref: StoreRef
    clusters: Sequence[str]
    """() all."""
    aside: Aside

    def rows(
        self, kind: Kind, from_ms: int, to_ms: int, columns: Sequence[str], level: str | None = None
    ) -> DataFrame:
        """Rows of a range with these columns and their key."""
        wanted = HistoryRange(
            kind=kind,
            from_ms=from_ms,
            to_ms=to_ms,
            cluster=self.clusters[0] if len(self.clusters) == 1 else None,
            level=level,
            columns=tuple(columns),
        )
        rows = read_rows(self.spark, self.ref, wanted, aside=self.aside)
        return rows.where(F.col("cluster").isin(*self.clusters)) if self.clusters else rows

    def quarters(self, day: Day, days_before: int) -> DataFrame:
        """`day.quarters` as a table."""
        rows = [
            (quarter.quarter_ms, quarter.days_ago, quarter.hour)
            for quarter in quarters(day, days_before)
        ]
        return self.spark.createDataFrame(rows, QUARTERS)


def within(time: str, from_ms: int, to_ms: int) -> Column:
    """True if the instant is in the range."""
    instant = F.col(time)
    return instant.between(from_ms, to_ms - 1)


def badness(status: Column) -> Column:
    """Position of a status word among all, worst last; null for null."""
    words = F.array(*(F.lit(word) for word in BY_WORST))
    return F.when(status.isNotNull(), F.array_position(words, status))


def last_changes(events: DataFrame) -> DataFrame:
    """Events → the last change of status of each group: `changed_ms`, and `became`, its status."""
    return (
        events.where(F.col("event") == "group_status")
        .groupBy(*GROUP)
        .agg(F.max("at_ms").alias("changed_ms"), F.max_by("after", "at_ms").alias("became"))
        .select(*GROUP, "changed_ms", "became")
    )


def worst(status: str) -> Column:
    """Of a group of rows the worst status word."""
    return F.max_by(status, badness(F.col(status)))


def moved_per_s(name: str, where: Column | None = None) -> Column:
    """Of a group of buckets, `produced` or `consumed` in the time in which that was measured.

    Buckets of earlier releases do not say how long that was: it counts as all of their time.
    """
    known = F.col(name).isNotNull()
    counted = known if where is None else known & where
    measured_s = F.sum(F.when(counted, F.coalesce(F.col(f"{name}_s"), F.lit(BUCKET_S))))
    return F.try_divide(F.sum(F.when(counted, F.col(name))).cast("double"), measured_s)


def lag_average() -> Column:
    """Of a group of buckets, over the samples whose lag is known; null when there are none."""
    return F.try_divide(F.sum("lag_sum").cast("double"), F.sum("lag_known").cast("double"))


def quarter_of(time: str) -> Column:
    """The quarter of an hour that an instant is in."""
    return F.col(time) - F.col(time) % QUARTER_MS


def bucket_of(time: str) -> Column:
    """The bucket of five minutes that an instant is in."""
    return F.col(time) - F.col(time) % BUCKET_MS
