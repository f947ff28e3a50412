"""Samples of one series into buckets of a step."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, Kind, Records, SampleReason, Text, concat, is_word
from lagwatch.ports.history import Buckets

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


def lag_column(kind: Kind) -> str:
    """The column that holds the lag of a series."""
    return "total_lag" if kind is Kind.GROUP_SAMPLES else "lag"


def aggregate(parts: Iterable[Records], kind: Kind, step_ms: int) -> Buckets:
    """Put the rows of one series into buckets; only buckets that have rows come out.

    Numbers are those of rounds, as in roll-ups: a row between them, written when the status
    changed, counts for the status; and for the numbers only of a bucket without a round.
    """
    found = list(parts)
    if not found:
        return no_buckets()
    rows = concat(found)
    return bucketed(
        rows.at_ms(),
        lag=rows.numbers(lag_column(kind)),
        time_lag_s=rows.reals("time_lag_s"),
        status=rows.text("status"),
        between=is_word(rows.text("reason"), SampleReason.CHANGE),
        step_ms=step_ms,
    )


def bucketed(
    at_ms: Int64,
    *,
    lag: Int64,
    time_lag_s: NDArray[np.float64],
    status: Text,
    between: Bools,
    step_ms: int,
) -> Buckets:
    """The same from columns, in any order."""
    bucket, place = np.unique(at_ms - at_ms % step_ms, return_inverse=True)
    size = bucket.size
    worst = np.full(size, UNKNOWN, np.int64)
    np.maximum.at(worst, place, severity(status))
    counts = ~between | (np.bincount(place[~between], minlength=size) == 0)[place]
    place, lag, time_lag_s = place[counts], lag[counts], time_lag_s[counts]
    known = lag >= 0
    number = np.bincount(place[known], minlength=size)
    total = np.bincount(place[known], weights=lag[known], minlength=size)
    lag_max = np.full(size, UNKNOWN, np.int64)
    np.maximum.at(lag_max, place, lag)
    time_max = np.full(size, np.nan)
    np.fmax.at(time_max, place, time_lag_s)
    return Buckets(
        bucket_ms=bucket,
        samples=np.bincount(place, minlength=size).astype(np.int64),
        lag_max=lag_max,
        lag_avg=np.where(number > 0, total / np.maximum(number, 1), np.nan),
        time_lag_max_s=time_max,
        status=Text(worst.astype(np.int32), BY_WORST),
    )


def severity(status: Text) -> Int64:
    """Position of every status in `BY_WORST`; -1 where there is no status or an unknown one."""
    rank = {word: index for index, word in enumerate(BY_WORST)}
    table = np.array([*(rank.get(word, UNKNOWN) for word in status.words), UNKNOWN], np.int64)
    return table[status.codes]


def no_buckets() -> Buckets:
    """Nothing was recorded."""
    none, real = np.zeros(0, np.int64), np.zeros(0)
    return Buckets(
        bucket_ms=none,
        samples=none,
        lag_max=none,
        lag_avg=real,
        time_lag_max_s=real,
        status=Text(np.zeros(0, np.int32), BY_WORST),
    )
