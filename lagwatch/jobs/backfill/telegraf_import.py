"""Converts Telegraf's records of Burrow into rows of the history, without judging or guessing.

Telegraf keeps the lag, the committed offset and the verdict of a partition, so its log end is their
sum; of a partition without a commit it is what Burrow said of the topic. Time lags, rules and the
windows behind them Telegraf does not keep, so these stay unknown. A verdict that differs from that
of the round before is an event; over a missing round nothing is said.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lagwatch.core.model import (
    GroupStatus,
    PartitionStatus,
    TimeLagReason,
)
from lagwatch.core.record import SCHEMA_VERSION, EventName, Kind, SampleReason, Source
from lagwatch.core.rules import BURROW
from lagwatch.history.recorder import series_of
from lagwatch.jobs.backfill.inputs import Gap, sample_instants
from lagwatch.jobs.backfill.recorded import gaps_of
from lagwatch.jobs.backfill.request import (
    BackfillRequest,
    ClusterBackfill,
    ProgressDisplay,
    wanted_of,
)
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.schemas import column_names, struct_type
from lagwatch.jobs.sources.elastic import NAME
from lagwatch.jobs.sources.options import elastic_options
from lagwatch.jobs.sources.telegraf import SERIES
from lagwatch.jobs.tables import StoreRef, write_rows

METHOD: Final = "telegraf"
PATTERN: Final = "burrow-*"
"""Indices of Telegraf, by default."""

_PARTITION_STATUS: Final = tuple(status.name for status in PartitionStatus)
_GROUP_STATUS: Final = tuple(status.name for status in GroupStatus)
_ONE_RULE: Final = {
    status.name: [row.rule.word for row in BURROW if row.status is status]
    for status in PartitionStatus
}
"""Rules of Burrow that can have decided each status."""

Int64 = NDArray[np.int64]


def usual_step_ms(asked_ms: Int64, interval_ms: int) -> int:
    """Interval of the samples: Telegraf's, but at least lagwatch's own."""
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
        topics = documents.transform(_rounds("burrow_topic", step_ms, gaps)).select(
            "topic", "partition", "round_ms", F.col("offset").alias("topic_log_end")
        )
        return _typed(
            Kind.SAMPLES,
            partitions.join(groups, on=["group", "round_ms"], how="left").join(
                topics, on=["topic", "partition", "round_ms"], how="left"
            ),
            {
                "committed_offset": F.when(_committed(), F.col("offset")),
                "commit_ms": F.when(_committed(), F.col("timestamp")),
                # of one answer of Burrow's, so that the lag is what is between them
                "log_end_offset": F.when(
                    _committed() & _lag().isNotNull(), F.col("offset") + _lag()
                ).otherwise(F.col("topic_log_end")),
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


def events(step_ms: int, gaps: Sequence[Gap]) -> Callable[[DataFrame], DataFrame]:
    """Documents of one cluster to rows of kind `events`: verdicts that changed between rounds."""

    def transform(documents: DataFrame) -> DataFrame:
        partitions = documents.transform(_rounds("burrow_partition", step_ms, gaps)).transform(
            _changed(_partition_status(), ("group", "topic", "partition"), step_ms)
        )
        groups = documents.transform(_rounds("burrow_group", step_ms, gaps)).transform(
            _changed(_word("status", _GROUP_STATUS), ("group",), step_ms)
        )
        before_and_after = {"at_ms": F.col("at_ms"), "before": F.col("was"), "after": F.col("now")}
        of_partitions = {
            **before_and_after,
            "event": F.lit(EventName.PARTITION_STATUS.value),
            "rule": _rule(),
            "lag": _lag(),
        }
        of_groups = {
            **before_and_after,
            "event": F.lit(EventName.GROUP_STATUS.value),
            "lag": F.col("total_lag"),
            "topic": F.lit(None),
            "partition": F.lit(None),
        }
        return _typed(Kind.EVENTS, partitions, of_partitions).unionByName(
            _typed(Kind.EVENTS, groups, of_groups)
        )

    return transform


def _changed(
    status: Column, series: Sequence[str], step_ms: int
) -> Callable[[DataFrame], DataFrame]:
    """Rows whose status, `now`, is not that of the round before, `was`."""

    def transform(rounds: DataFrame) -> DataFrame:
        earlier = W.partitionBy(*series).orderBy("round_ms")
        return (
            rounds.withColumn("now", status)
            .withColumn("was", F.lag("now").over(earlier))
            .withColumn("since_ms", F.col("round_ms") - F.lag("round_ms").over(earlier))
            .where((F.col("was") != F.col("now")) & (F.col("since_ms") <= step_ms))
        )

    return transform


def _rounds(
    measurement: str, step_ms: int, gaps: Sequence[Gap]
) -> Callable[[DataFrame], DataFrame]:
    """The first document of each series in every interval of the gaps."""
    series = SERIES[measurement]
    round_ms = F.col("at_ms") - F.col("at_ms") % step_ms

    def transform(documents: DataFrame) -> DataFrame:
        order = W.partitionBy(*series, "round_ms").orderBy("at_ms", "index", "id")
        return (
            documents.where(F.col("measurement") == measurement)
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
    """All columns of the kind in their order; unknown ones are null."""
    known = {
        "cluster": F.col("cluster"),
        "group": F.col("group"),
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "at_ms": F.col("round_ms"),
        "observed_ms": F.col("at_ms"),
        "reason": F.lit(SampleReason.INTERVAL.value),
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
    """A status in lagwatch's words; null for one that lagwatch does not have."""
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


_NAMED: Final = 1_000
"""At most this many unusable documents are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegrafImport:
    """One run of the import."""

    spark: SparkSession
    ref: StoreRef
    request: BackfillRequest
    run: JobRun
    progress: ProgressDisplay

    def all_clusters(self) -> Iterator[ClusterBackfill]:
        """Every cluster that the documents name."""
        self.progress.step("reading Telegraf's documents")
        documents = self._documents().persist(StorageLevel.DISK_ONLY)
        try:
            self._put_aside(documents)
            sound = documents.where(F.col("fault").isNull())
            named = [row["cluster"] for row in sound.select("cluster").distinct().collect()]
            for cluster in wanted_of(sorted(named), self.request.only):
                yield self._take(cluster, sound.where(F.col("cluster") == cluster))
        finally:
            documents.unpersist()

    def _documents(self) -> DataFrame:
        request = self.request
        return (
            self.spark.read.format(NAME)
            .options(**elastic_options(request.elasticsearch))
            .option("telegraf", request.where or PATTERN)
            .option("from_ms", str(request.since_ms))
            .option("to_ms", str(request.until_ms))
            .load()
        )

    def _put_aside(self, documents: DataFrame) -> None:
        faults = documents.where(F.col("fault").isNotNull()).select("index", "id", "fault")
        for row in faults.limit(_NAMED).collect():
            self.run.put_aside(f"document {row['id']} of {row['index']}: {row['fault']}")

    def _take(self, cluster: str, documents: DataFrame) -> ClusterBackfill:
        request = self.request
        self.progress.step(f"{cluster}: looking for gaps")
        gaps = gaps_of(
            self.spark,
            self.ref,
            request,
            cluster,
            unfinished=(),
            aside=lambda _, reason: self.run.put_aside(reason),
        )
        asked = documents.select("at_ms").distinct().toArrow().column("at_ms").to_numpy()
        step_ms = usual_step_ms(asked, request.replay.interval_ms)
        rounds = sample_instants(gaps, step_ms).size
        if not rounds:
            return ClusterBackfill(cluster=cluster, gaps=(), rounds=0)
        rows = {
            Kind.SAMPLES: documents.transform(samples(step_ms, gaps)),
            Kind.GROUP_SAMPLES: documents.transform(group_samples(step_ms, gaps)),
            Kind.EVENTS: documents.transform(events(step_ms, gaps)),
        }
        counts: dict[str, int] = {}
        for kind, some in rows.items():
            self.progress.step(f"{cluster}: writing {kind}")
            if request.dry_run:
                counts[kind] = some.count()
                continue
            batch = f"telegraf-{series_of(cluster)}"
            written = write_rows(some, self.ref, kind, batch=batch, fence=self.run.fence)
            counts[kind] = written.rows
            counts["rejected"] = counts.get("rejected", 0) + written.rejected
        if not request.dry_run:
            self.run.clusters.add(cluster)
        return ClusterBackfill(cluster=cluster, gaps=gaps, rounds=rounds, counts=counts)
