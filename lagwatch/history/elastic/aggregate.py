"""Samples of one series into buckets of a step, by Elasticsearch."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, Text
from lagwatch.history.buckets import lag_column, no_buckets, severity
from lagwatch.history.elastic.search import Json, Searcher, in_range
from lagwatch.ports import Buckets, HistoryRange


def aggregate(searcher: Searcher, index: str, wanted: HistoryRange, step_ms: int) -> Buckets:
    """One series in buckets; only buckets that have rows come out, in order.

    Elasticsearch groups by bucket and status, and the statuses of a bucket are put together here:
    a second level of buckets inside the first took ten times as long.
    """
    time, lag = wanted.kind.time_column, lag_column(wanted.kind)
    found = list(
        searcher.composite(
            index,
            in_range(wanted),
            by={
                "at": {"date_histogram": {"field": time, "fixed_interval": f"{step_ms}ms"}},
                "status": {"terms": {"field": "status", "missing_bucket": True}},
            },
            aggregations={
                "lag": {"stats": {"field": lag}},
                "time_lag_s": {"max": {"field": "time_lag_s"}},
            },
        )
    )
    return _merged(found) if found else no_buckets()


def _merged(found: Sequence[Json]) -> Buckets:
    """The statuses of each bucket put together; they come one after another."""
    keys = np.array([bucket["key"]["at"] for bucket in found], np.int64)
    bucket_ms, first = np.unique(keys, return_index=True)
    lags = [bucket["lag"] for bucket in found]
    known = np.add.reduceat(np.array([one["count"] for one in lags], np.int64), first)
    total = np.add.reduceat(np.array([one["sum"] or 0.0 for one in lags], np.float64), first)
    most = np.array([UNKNOWN if one["max"] is None else int(one["max"]) for one in lags], np.int64)
    samples = np.array([bucket["doc_count"] for bucket in found], np.int64)
    status = Text.of(bucket["key"]["status"] for bucket in found)
    worst = np.maximum.reduceat(severity(status), first)
    return Buckets(
        bucket_ms=bucket_ms,
        samples=np.add.reduceat(samples, first),
        lag_max=np.maximum.reduceat(most, first),
        lag_avg=np.where(known > 0, total / np.maximum(known, 1), np.nan),
        time_lag_max_s=np.fmax.reduceat(_values(found, "time_lag_s"), first),
        status=Text(worst.astype(np.int32), BY_WORST),
    )


def _values(buckets: Sequence[Json], name: str) -> NDArray[np.float64]:
    values = (bucket[name]["value"] for bucket in buckets)
    return np.array([np.nan if value is None else value for value in values], np.float64)
