"""Puts rows on a grid of instants, and restores rows that were left out because nothing changed."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import BY_WORST, Records, SampleReason, Text, Values, concat, is_word
from lagwatch.history.buckets import no_buckets, severity
from lagwatch.history.rows import in_time_order
from lagwatch.ports.history import Buckets

Int64 = NDArray[np.int64]

ROLLUP_COLUMNS: Final = ("samples", "lag_known", "lag_sum", "lag_max", "time_lag_max_s", "status")
"""What `rolled_up` needs."""


def rolled_up(parts: Iterable[Records], step_ms: int) -> Buckets:
    """Rows of a roll-up of one series into buckets that are as long, or some times as long."""
    found = list(parts)
    if not found:
        return no_buckets()
    rows = concat(found)
    bucket, place = np.unique(rows.at_ms() - rows.at_ms() % step_ms, return_inverse=True)
    size = bucket.size
    known = np.maximum(rows.numbers("lag_known"), 0)
    number = np.bincount(place, weights=known, minlength=size)
    total = np.bincount(place, weights=np.maximum(rows.numbers("lag_sum"), 0), minlength=size)
    lag_max = np.full(size, UNKNOWN, np.int64)
    np.maximum.at(lag_max, place, rows.numbers("lag_max"))
    time_max = np.full(size, np.nan)
    np.fmax.at(time_max, place, rows.reals("time_lag_max_s"))
    worst = np.full(size, UNKNOWN, np.int64)
    np.maximum.at(worst, place, severity(rows.text("status")))
    return Buckets(
        bucket_ms=bucket,
        samples=np.bincount(place, weights=rows.numbers("samples"), minlength=size).astype(
            np.int64
        ),
        lag_max=lag_max,
        lag_avg=np.where(number > 0, total / np.maximum(number, 1), np.nan),
        time_lag_max_s=time_max,
        status=Text(worst.astype(np.int32), BY_WORST),
    )


def joined(parts: Sequence[Buckets], *, before_ms: int | None = None) -> Buckets:
    """One after another, in order of time; only buckets that begin before an instant."""
    bucket = np.concatenate([part.bucket_ms for part in parts])
    chosen = np.flatnonzero(bucket < before_ms) if before_ms is not None else np.arange(bucket.size)
    worst = np.concatenate([severity(part.status) for part in parts])
    return Buckets(
        bucket_ms=bucket[chosen],
        samples=np.concatenate([part.samples for part in parts])[chosen],
        lag_max=np.concatenate([part.lag_max for part in parts])[chosen],
        lag_avg=np.concatenate([part.lag_avg for part in parts])[chosen],
        time_lag_max_s=np.concatenate([part.time_lag_max_s for part in parts])[chosen],
        status=Text(worst[chosen].astype(np.int32), BY_WORST),
    )


def on_grid(buckets: Buckets, grid: Int64) -> Mapping[str, Values]:
    """Every point of the grid; one without a bucket has no samples and only unknown values."""
    place = np.searchsorted(grid, buckets.bucket_ms)
    worst = _spread(severity(buckets.status), place, grid.size, UNKNOWN)
    return {
        "at_ms": grid,
        "samples": _spread(buckets.samples, place, grid.size, 0),
        "lag_max": _spread(buckets.lag_max, place, grid.size, UNKNOWN),
        "lag_avg": _spread_real(buckets.lag_avg, place, grid.size),
        "time_lag_max_s": _spread_real(buckets.time_lag_max_s, place, grid.size),
        "status": Text(worst.astype(np.int32), BY_WORST),
    }


def _spread(values: Int64, place: Int64, size: int, empty: int) -> Int64:
    column = np.full(size, empty, np.int64)
    column[place] = values
    return column


def _spread_real(values: NDArray[np.float64], place: Int64, size: int) -> NDArray[np.float64]:
    column = np.full(size, np.nan)
    column[place] = values
    return column


ROUND_COLUMNS = ("at_ms", "observed_ms", "time_lag_at_ms", "unchanged", "previous_ms", "reason")
"""What `expand` needs of `group_samples`."""


def expand(samples: Records, rounds: Records) -> Records:
    """Samples of partitions of one group, with those that were left out, by time.

    `rounds` are the group's own samples. Both must reach back to a round in which the group was
    written in full; rows that cannot be restored otherwise stay left out, that is, unknown.
    """
    regular = in_time_order(rounds.take(is_word(rounds.text("reason"), SampleReason.INTERVAL)))
    if samples.size == 0 or regular.size == 0:
        return in_time_order(samples) if samples.size else samples
    topic, partition = samples.text("topic").ranks(), samples.numbers("partition")
    order = np.lexsort((samples.at_ms(), partition, topic))
    ordered = samples.take(order)
    topic, partition = topic[order], partition[order]
    heads = np.flatnonzero(np.append(True, (np.diff(topic) != 0) | (np.diff(partition) != 0)))
    begin = _run_starts(regular)
    parts = [ordered]
    for first, last in zip(heads.tolist(), [*heads[1:].tolist(), ordered.size], strict=True):
        at_ms = ordered.at_ms()[first:last]
        row, number = _left_out(at_ms, regular, begin)
        if row.size:
            parts.append(_moved(ordered.take(first + row), regular.take(number)))
    return in_time_order(concat(parts))


def _run_starts(rounds: Records) -> Int64:
    """Per round the instant from which on rows still hold: that of the first of its run.

    A run begins with a round that is whole, or not linked to the one before.
    """
    at_ms = rounds.at_ms()
    previous = rounds.numbers("previous_ms")
    begins = rounds.numbers("unchanged") <= 0
    begins[0] = True
    begins[1:] |= previous[1:] != at_ms[:-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(at_ms.size), 0))
    starts: Int64 = at_ms[first]
    return starts


def _left_out(at_ms: Int64, rounds: Records, begin: Int64) -> tuple[Int64, Int64]:
    """For one partition: rounds without a row of it, and the row that holds in each."""
    instant = rounds.at_ms()
    row = np.searchsorted(at_ms, instant, side="right") - 1
    last = np.where(row >= 0, at_ms[row], UNKNOWN)
    holds = (last >= begin) & (last != instant) & (rounds.numbers("unchanged") > 0)
    return row[holds], np.flatnonzero(holds)


def _moved(rows: Records, rounds: Records) -> Records:
    """Copies of rows, with the instants of the rounds in which they were left out."""
    columns: dict[str, Values] = dict(rows.columns)
    columns["at_ms"] = rounds.at_ms()
    for name in ("observed_ms", "time_lag_at_ms"):
        if name in columns:
            columns[name] = rounds.numbers(name)
    if "reason" in columns:
        columns["reason"] = rounds.text("reason")
    return Records(kind=rows.kind, columns=columns)
