"""Counting rows of many series into buckets."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import SOURCE_RANK, Records, Text
from lagwatch.core.record.columns import BY_WORST
from lagwatch.core.rollup.rows import Span, coded
from lagwatch.core.rollup.sketch import sketch
from lagwatch.core.rollup.tally import STATUSES, Tally, greatest, least, nothing, sums, worst_owner
from lagwatch.core.rollup.timeline import Entries, Series, Timeline, cut

Int64 = NDArray[np.int64]
Index = NDArray[np.intp]

_LATE: Final = 1.5
"""Samples further apart than this many intervals have a gap between them."""
_SOURCES: Final = tuple(map(str, sorted(SOURCE_RANK, key=SOURCE_RANK.__getitem__)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What the rows of series say; all [rows]."""

    lag: Int64
    time_lag_ms: Int64
    status: Int64
    """Place in `BY_WORST`."""
    source: Int64
    """`SOURCE_RANK`"""

    @classmethod
    def of(cls, rows: Records, *, lag: str) -> "Values":
        """From rows of samples; `lag` is the column of the lag."""
        seconds = rows.reals("time_lag_s")
        known = ~np.isnan(seconds)
        time_lag_ms = np.full(rows.size, UNKNOWN, np.int64)
        time_lag_ms[known] = np.rint(seconds[known] * 1000)
        return cls(
            lag=rows.numbers(lag),
            time_lag_ms=time_lag_ms,
            status=coded(rows.text("status"), BY_WORST),
            source=coded(rows.text("source"), _SOURCES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Columns that only partitions have; all [rows]."""

    lag: Int64
    log_end_offset: Int64
    committed_offset: Int64
    commit_ms: Int64
    owner: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The buckets of many series in which something is known."""

    cell: Int64
    """Series and bucket, as `Span.cells` puts them; rising."""
    tally: Tally


def count(rows: Series, values: Values, line: Timeline, span: Span, *, series: int) -> Level:
    """Samples and time in each status of `series` series."""
    size = series * span.buckets
    seen = samples_in(line.entries, span)
    cell = span.cells(rows.series[seen.row], seen.at_ms)
    lag, time_lag = values.lag[seen.row], values.time_lag_ms[seen.row]
    held, worst, source = _held(rows, values, line, span, size)
    known, timed = lag >= 0, time_lag >= 0
    samples = np.bincount(cell, minlength=size)
    tally = replace(
        nothing(size),
        samples=samples,
        lag_known=np.bincount(cell[known], minlength=size),
        lag_sum=sums(lag, cell, size),
        lag_min=least(lag, cell, size),
        lag_max=greatest(lag, cell, size),
        time_lag_max_ms=greatest(time_lag, cell, size),
        worst=worst,
        held_ms=held,
        source=source,
        lag=sketch(cell[known], lag[known], size),
        time_lag=sketch(cell[timed], time_lag[timed], size),
    )
    return Level(cell=np.arange(size), tally=tally)


def samples_in(entries: Entries, span: Span) -> Entries:
    """The samples of rounds that are in the span."""
    wanted = entries.regular & span.within(entries.at_ms)
    if wanted.all():
        return entries
    return Entries(
        row=entries.row[wanted], at_ms=entries.at_ms[wanted], regular=entries.regular[wanted]
    )


def _held(
    rows: Series, values: Values, line: Timeline, span: Span, size: int
) -> tuple[Int64, Int64, Int64]:
    """Time in each status, the worst status and the least source, by cell."""
    begin = np.maximum(rows.at_ms, span.from_ms)
    end = np.minimum(line.end_ms, span.to_ms)
    row, bucket, length = cut(begin, end, span.step_ms)
    cell = span.cells(rows.series[row], bucket)
    status = values.status[row]
    known = status >= 0
    held = sums(length[known], cell[known] * STATUSES + status[known], size * STATUSES)
    held = held.reshape(size, STATUSES)
    some = (held >= 0).any(axis=1)
    held[some] = np.maximum(held[some], 0)
    return held, greatest(status, cell, size), greatest(values.source[row], cell, size)


def moved(level: Level, rows: Series, moves: Moves, line: Timeline, span: Span) -> Level:
    """The same with what was produced, consumed and committed, and the worst owner."""
    size = level.cell.size
    entries = line.entries
    cell = np.where(
        span.within(entries.at_ms), span.cells(rows.series[entries.row], entries.at_ms), UNKNOWN
    )
    steps = _Steps(rows, line, cell)
    commits = steps.of(moves.commit_ms)
    seen = samples_in(entries, span)
    owner_lag, owner = worst_owner(
        moves.lag[seen.row],
        moves.owner.take(seen.row),
        span.cells(rows.series[seen.row], seen.at_ms),
        size,
    )
    tally = replace(
        level.tally,
        produced=sums(*steps.of(moves.log_end_offset), size),
        consumed=sums(*steps.of(moves.committed_offset), size),
        commits=sums(np.minimum(commits[0], 1), commits[1], size),
        owner_lag=owner_lag,
        owner=owner,
    )
    return Level(cell=level.cell, tally=tally)


class _Steps:
    """How far values moved on from one entry of a series to the next."""

    def __init__(self, rows: Series, line: Timeline, cell: Int64) -> None:
        self._row, self._cell = line.entries.row, cell
        series, at_ms = rows.series[self._row], line.entries.at_ms
        late_ms = (line.interval_ms * _LATE).astype(np.int64)[self._row]
        self._linked = (
            (series[1:] == series[:-1]) & (at_ms[1:] - at_ms[:-1] <= late_ms[1:]) & (cell[1:] >= 0)
        )

    def of(self, values: Int64) -> tuple[Int64, Int64]:
        """Moves of a column, not back, and the cells of the later entries."""
        held = values[self._row]
        linked = self._linked & (held[1:] >= 0) & (held[:-1] >= 0)
        return np.maximum(held[1:] - held[:-1], 0)[linked], self._cell[1:][linked]
