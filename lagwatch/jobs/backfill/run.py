"""`lagwatch backfill`: fill the time that was not recorded."""

from collections.abc import Iterator
from typing import Final

from pyspark.sql import SparkSession

from lagwatch.core.record import Kind
from lagwatch.errors import JobError
from lagwatch.jobs.backfill.copies import Copies
from lagwatch.jobs.backfill.filling import Filling
from lagwatch.jobs.backfill.inputs import Input, KafkaInput
from lagwatch.jobs.backfill.request import (
    BackfillRequest,
    BackfillResult,
    ClusterBackfill,
    From,
    ProgressDisplay,
    SilentProgress,
    wanted_of,
)
from lagwatch.jobs.backfill.telegraf_import import TelegrafImport
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.sources.registry import register
from lagwatch.jobs.tables import StoreRef

_ROWS: Final = frozenset(kind.value for kind in Kind)


def run_backfill(
    spark: SparkSession,
    ref: StoreRef,
    request: BackfillRequest,
    run: JobRun,
    *,
    now_ms: int,
    progress: ProgressDisplay | None = None,
) -> BackfillResult:
    """Fill the gaps of all clusters that are asked for.

    Raises:
        JobError: the input cannot be used.
        SourceError: Kafka refuses or does not answer.
        HistoryError: the store refuses or does not answer.
        PySparkException: a task failed; `lagwatch.jobs.faults` reads it.
    """
    register(spark)
    progress = progress or SilentProgress()
    filled: Iterator[ClusterBackfill]
    if request.source is From.TELEGRAF:
        filled = TelegrafImport(
            spark=spark, ref=ref, request=request, run=run, progress=progress
        ).all_clusters()
    else:
        filling = Filling(spark, ref, request, run, now_ms=now_ms, progress=progress)
        filled = (
            result
            for cluster, past in _inputs(spark, request).items()
            for result in filling.fill(cluster, past)
        )
    return BackfillResult(clusters=tuple(_logged(filled, run)), dry_run=request.dry_run)


def _inputs(spark: SparkSession, request: BackfillRequest) -> dict[str, Input]:
    if request.source is From.KAFKA:
        names = wanted_of(tuple(request.clusters), request.only)
        return {name: KafkaInput(cluster=name, settings=request.clusters[name]) for name in names}
    copies = Copies(path=request.where)
    named = copies.clusters(spark)
    names = wanted_of(named, request.only) if named else request.only or (*request.clusters,)
    if not named and len(names) != 1:
        raise JobError(
            kind="input",
            message=f"{request.where} names no clusters: say whose past it is with --cluster NAME.",
            retryable=False,
        )
    return {name: copies.of(name, request.clusters.get(name)) for name in names}


def _logged(filled: Iterator[ClusterBackfill], run: JobRun) -> Iterator[ClusterBackfill]:
    """Count and log what was done, cluster by cluster."""
    for result in filled:
        for what in ("commits", "groups", "rounds"):
            run.count(what, getattr(result, what))
        for what, number in result.counts.items():
            run.count(f"{what}_written" if what in _ROWS else what, number)
        run.log_step("backfilled", cluster=result.cluster, **result.coverage())
        yield result
