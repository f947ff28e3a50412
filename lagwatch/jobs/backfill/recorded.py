"""The times of a cluster that were not recorded, and what was recorded right after them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lagwatch.core.record import SCHEMA_VERSION, EventName, Kind, SampleReason, Source
from lagwatch.jobs.backfill.inputs import Gap, find_gaps, gaps_without, outages, sample_instants
from lagwatch.jobs.backfill.request import BackfillRequest, From
from lagwatch.jobs.tables import Aside, StoreRef, on_sound_files, read_rows
from lagwatch.ports.history import HistoryRange

_AROUND_MS: Final = 3_600_000
"""Rounds are read this far around the range, to see where outer gaps begin and end."""
_BEGUN_MS: Final = 86_400_000
"""Outages of Kafka are looked for that began at most so long before the first gap."""


def gaps_of(
    spark: SparkSession,
    ref: StoreRef,
    request: BackfillRequest,
    cluster: str,
    *,
    unfinished: Sequence[Gap],
    aside: Aside,
) -> tuple[Gap, ...]:
    """Times of the range without any round, and those whose filling was interrupted.

    Not those in which a service ran and Kafka did not answer it, where Kafka is the source: while a
    broker is frozen, producers go on to give their records times, and ListOffsets then names log
    ends that the log reached only afterwards.

    Raises:
        HistoryError: the store did not answer.
    """
    interval_ms = request.replay.interval_ms
    wanted = HistoryRange(
        kind=Kind.GROUP_SAMPLES,
        from_ms=request.since_ms - _AROUND_MS,
        to_ms=request.until_ms + _AROUND_MS,
        cluster=cluster,
        columns=("interval_ms", "reason", "source"),
    )
    found = on_sound_files(
        ref,
        lambda: (
            read_rows(spark, ref, wanted, aside=aside, distinct=True).transform(rounds).collect()
        ),
    )
    known = {
        row["at_ms"]: row["interval_ms"] or interval_ms
        for row in found
        if _counts(row["source"], row["at_ms"], request.source, unfinished)
    }
    at_ms = sorted(known)
    gaps = find_gaps(
        np.array(at_ms, np.int64),
        np.array([known[instant] for instant in at_ms], np.int64),
        since_ms=request.since_ms,
        until_ms=request.until_ms,
        step_ms=interval_ms,
    )
    if request.source is not From.KAFKA or not gaps:
        return gaps
    left_out = outages(_words(spark, ref, cluster, gaps, aside=aside))
    return gaps_without(gaps, left_out, step_ms=interval_ms)


def _words(
    spark: SparkSession, ref: StoreRef, cluster: str, gaps: Sequence[Gap], *, aside: Aside
) -> list[tuple[int, str]]:
    """Instants and words of the events `recording` around gaps."""
    wanted = HistoryRange(
        kind=Kind.EVENTS,
        from_ms=gaps[0].from_ms - _BEGUN_MS,
        to_ms=gaps[-1].to_ms + _AROUND_MS,
        cluster=cluster,
        columns=("after",),
    )
    of_recording = F.col("event") == EventName.RECORDING.value

    def read() -> list[tuple[int, str]]:
        rows = read_rows(spark, ref, wanted, aside=aside, distinct=True).where(of_recording)
        return [
            (row["at_ms"], row["after"] or "") for row in rows.select("at_ms", "after").collect()
        ]

    return on_sound_files(ref, read)


def rounds(group_samples: DataFrame) -> DataFrame:
    """The instants of regular rounds, by source."""
    return (
        group_samples.where(F.col("reason") == SampleReason.INTERVAL.value)
        .groupBy("at_ms", "source")
        .agg(F.max("interval_ms").alias("interval_ms"))
        .select("at_ms", "source", "interval_ms")
    )


def changes_after(
    spark: SparkSession, ref: StoreRef, cluster: str, gaps: Sequence[Gap], *, step_ms: int
) -> list[dict[str, Any]]:
    """Rows of kind `events`: groups whose verdict changed from filled gaps to the rounds after.

    Raises:
        HistoryError: the store did not answer.
    """
    wanted = HistoryRange(
        kind=Kind.GROUP_SAMPLES,
        from_ms=gaps[0].from_ms,
        to_ms=gaps[-1].to_ms + 1,
        cluster=cluster,
        columns=("status", "rule", "total_lag", "reason"),
    )
    transform = verdicts_changed(gaps, step_ms)
    found = on_sound_files(
        ref, lambda: read_rows(spark, ref, wanted).transform(transform).collect()
    )
    return [
        {
            "cluster": cluster,
            "event": EventName.GROUP_STATUS.value,
            "source": Source.BACKFILL.value,
            "schema_version": SCHEMA_VERSION,
            **{name: value for name, value in row.asDict().items() if value is not None},
        }
        for row in found
    ]


def verdicts_changed(gaps: Sequence[Gap], step_ms: int) -> Callable[[DataFrame], DataFrame]:
    """Rows of groups → those whose last round in a gap has another verdict than the round after."""
    ends = {
        gap.to_ms: int(at_ms[-1]) for gap in gaps if (at_ms := sample_instants([gap], step_ms)).size
    }
    end_of = F.create_map(
        *(F.lit(each) for end, last in ends.items() for each in (end, end, last, end))
    )

    def transform(group_samples: DataFrame) -> DataFrame:
        after = F.col("at_ms") == F.col("end_ms")
        return (
            group_samples.where(F.col("reason") == SampleReason.INTERVAL.value)
            .withColumn("end_ms", end_of[F.col("at_ms")])
            .where(F.col("end_ms").isNotNull())
            .groupBy("group", "end_ms")
            .agg(
                F.max(F.when(~after, F.col("status"))).alias("before"),
                F.max(F.when(after, F.struct("status", "rule", "total_lag"))).alias("next"),
            )
            .where(F.col("before") != F.col("next.status"))
            .select(
                "group",
                F.col("end_ms").alias("at_ms"),
                "before",
                F.col("next.status").alias("after"),
                "next.rule",
                F.col("next.total_lag").alias("lag"),
            )
        )

    return transform


def _counts(source: str, at_ms: int, wanted: From, unfinished: Sequence[Gap]) -> bool:
    """True if a round of this source is always complete.

    A run that was killed has written some groups of a round and not the others.
    """
    if wanted is From.TELEGRAF:
        return source == Source.LIVE
    if source == Source.BACKFILL:
        return not any(gap.from_ms <= at_ms < gap.to_ms for gap in unfinished)
    return True
