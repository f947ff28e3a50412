"""The times of a cluster that were not recorded."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lagwatch.core.record import Kind, SampleReason, Source
from lagwatch.jobs.backfill.inputs import Gap, find_gaps
from lagwatch.jobs.backfill.request import BackfillRequest, From
from lagwatch.jobs.tables import Aside, StoreRef, on_sound_files, read_rows
from lagwatch.ports.history import HistoryRange

_AROUND_MS: Final = 3_600_000
"""Rounds are read this far around the range, to see where outer gaps begin and end."""


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
    return find_gaps(
        np.array(at_ms, np.int64),
        np.array([known[instant] for instant in at_ms], np.int64),
        since_ms=request.since_ms,
        until_ms=request.until_ms,
        step_ms=interval_ms,
    )


def rounds(group_samples: DataFrame) -> DataFrame:
    """The instants of regular rounds, by source."""
    return (
        group_samples.where(F.col("reason") == SampleReason.INTERVAL.value)
        .groupBy("at_ms", "source")
        .agg(F.max("interval_ms").alias("interval_ms"))
        .select("at_ms", "source", "interval_ms")
    )


def _counts(source: str, at_ms: int, wanted: From, unfinished: Sequence[Gap]) -> bool:
    """True if a round of this source is always complete.

    A run that was killed has written some groups of a round and not the others.
    """
    if wanted is From.TELEGRAF:
        return source == Source.LIVE
    if source == Source.BACKFILL:
        return not any(gap.from_ms <= at_ms < gap.to_ms for gap in unfinished)
    return True
