"""Takes over what Telegraf recorded of Burrow, where nothing of our own is."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lagwatch.core.record import Kind
from lagwatch.history.recorder import series_of
from lagwatch.jobs.backfill import telegraf
from lagwatch.jobs.backfill.instants import sample_instants
from lagwatch.jobs.backfill.recorded import gaps_of
from lagwatch.jobs.backfill.request import BackfillRequest, ClusterBackfill, Progress, wanted_of
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.sources.elastic import NAME
from lagwatch.jobs.sources.options import elastic_options
from lagwatch.jobs.tables import StoreRef, write_rows

_NAMED: Final = 1_000
"""Documents that cannot be used and are named, at the most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """One run."""

    spark: SparkSession
    ref: StoreRef
    request: BackfillRequest
    run: JobRun
    progress: Progress

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
            .option("telegraf", request.where or telegraf.PATTERN)
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
        step_ms = telegraf.usual_step_ms(asked, request.replay.interval_ms)
        rounds = sample_instants(gaps, step_ms).size
        if not rounds:
            return ClusterBackfill(cluster=cluster, gaps=(), rounds=0)
        rows = {
            Kind.SAMPLES: documents.transform(telegraf.samples(step_ms, gaps)),
            Kind.GROUP_SAMPLES: documents.transform(telegraf.group_samples(step_ms, gaps)),
        }
        counts: dict[str, int] = {}
        for kind, some in rows.items():
            self.progress.step(f"{cluster}: writing {kind}")
            if request.dry_run:
                counts[kind] = some.count()
                continue
            written = write_rows(some, self.ref, kind, batch=f"telegraf-{series_of(cluster)}")
            counts[kind] = written.rows
            counts["rejected"] = counts.get("rejected", 0) + written.rejected
        if not request.dry_run:
            self.run.clusters.add(cluster)
        return ClusterBackfill(cluster=cluster, gaps=gaps, rounds=rounds, counts=counts)
