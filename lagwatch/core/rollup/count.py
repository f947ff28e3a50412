"""Counting rows of many series into buckets."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import SOURCE_RANK, Records, Text
from lagwatch.core.record.columns import BY_WORST
from lagwatch.core.rollup.instants import OffsetInstants
from lagwatch.core.rollup.moves import Moved, nothing_moved
from lagwatch.core.rollup.rows import BucketSpan, coded
from lagwatch.core.rollup.sketch import sketch
from lagwatch.core.rollup.tally import STATUSES, Tally, greatest, least, nothing, sums, worst_owner
from lagwatch.core.rollup.timeline import Series, Timeline, TimelineEntries, cut, union

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

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
    log_end_ms: Int64
    committed_offset: Int64
    commit_ms: Int64
    log_start_offset: Int64
    owner: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The buckets of many series in which something is known."""

    cell: Int64
    """Series and bucket, as `Span.cells` puts them; rising."""
    tally: Tally
    produced: Moved
    """In buckets of five minutes, as `Span.finest` puts them."""
    consumed: Moved


def count(rows: Series, values: Values, line: Timeline, span: BucketSpan, *, series: int) -> Level:
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
    none = nothing_moved(series * span.finest.buckets)
    return Level(cell=np.arange(size), tally=tally, produced=none, consumed=none)


def held_by_worst(
    series: Int64, begin_ms: Int64, end_ms: Int64, status: Int64, span: BucketSpan, *, size: int
) -> Int64:
    """[cells, statuses]: for how long each status was the worst of all that a series is made of.

    Spans of the parts of a series may overlap; the cells are those of `size` series.
    """
    begin_ms, end_ms = np.maximum(begin_ms, span.from_ms), np.minimum(end_ms, span.to_ms)
    some = (status >= 0) & (begin_ms < end_ms)
    cells = size * span.buckets
    held = np.zeros((cells, STATUSES), np.int64)
    worse = np.zeros(cells, np.int64)
    # from the worst down: time with at least this status, less the time with a worse one
    for level in range(STATUSES - 1, -1, -1):
        if not (some & (status == level)).any():
            continue
        at_least = some & (status >= level)
        whose, begin, end = union(series[at_least], begin_ms[at_least], end_ms[at_least])
        row, bucket, length = cut(begin, end, span.step_ms)
        total = np.zeros(cells, np.int64)
        np.add.at(total, span.cells(whose[row], bucket), length)
        held[:, level] = total - worse
        worse = total
    # after the loop `worse` is all time with a known status
    held[worse == 0] = UNKNOWN
    return held


def with_moves(level: Level, produced: Moved, consumed: Moved, span: BucketSpan) -> Level:
    """The level with what was produced and consumed."""
    ratio = span.step_ms // span.finest.step_ms
    total, read = produced.in_longer(ratio), consumed.in_longer(ratio)
    tally = replace(
        level.tally,
        produced=total.count,
        produced_ms=total.measured_ms,
        consumed=read.count,
        consumed_ms=read.measured_ms,
    )
    return replace(level, tally=tally, produced=produced, consumed=consumed)


def samples_in(entries: TimelineEntries, span: BucketSpan) -> TimelineEntries:
    """The samples of rounds that are in the span."""
    wanted = entries.regular & span.within(entries.at_ms)
    if wanted.all():
        return entries
    return TimelineEntries(
        row=entries.row[wanted], at_ms=entries.at_ms[wanted], regular=entries.regular[wanted]
    )


def _held(
    rows: Series, values: Values, line: Timeline, span: BucketSpan, size: int
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


def moved(level: Level, rows: Series, moves: Moves, line: Timeline, span: BucketSpan) -> Level:
    """The level with what was produced, consumed and committed, and the worst owner."""
    size = level.cell.size
    entries = line.entries
    steps = _Steps(rows, line, span)
    seen = samples_in(entries, span)
    owner_lag, owner = worst_owner(
        moves.lag[seen.row],
        moves.owner.take(seen.row),
        span.cells(rows.series[seen.row], seen.at_ms),
        size,
    )
    tally = replace(
        level.tally,
        commits=steps.changes(moves.commit_ms, size),
        owner_lag=owner_lag,
        owner=owner,
    )
    series = size // span.buckets
    instants = OffsetInstants.of(rows, line, log_end_ms=moves.log_end_ms, commit_ms=moves.commit_ms)
    return with_moves(
        replace(level, tally=tally),
        steps.moved(
            moves.log_end_offset, instants.log_end_ms, series, newest=instants.log_end_newest
        ),
        steps.moved(
            moves.committed_offset,
            instants.committed_ms,
            series,
            newest=instants.committed_newest,
            deleted_to=moves.log_start_offset,
        ),
        span,
    )


class _Steps:
    """From one entry of a series to the next, where no round is missing between them.

    A step is in the bucket of its later entry.
    """

    def __init__(self, rows: Series, line: Timeline, span: BucketSpan) -> None:
        self._span = span
        self._row, self._at_ms = line.entries.row, line.entries.at_ms
        self._series = rows.series[self._row]
        late_ms = (line.interval_ms * _LATE).astype(np.int64)[self._row]
        self._linked = (
            (self._series[1:] == self._series[:-1])
            & (np.diff(self._at_ms) <= late_ms[1:])
            & span.within(self._at_ms[1:])
        )

    def moved(
        self,
        values: Int64,
        instant_ms: Int64,
        series: int,
        *,
        newest: Int64 | None,
        deleted_to: Int64 | None = None,
    ) -> Moved:
        """How far a column moved on, over the steps at both ends of which it is known.

        A step back says nothing: an offset that was reset, or a topic that was made anew. Nor does
        a lower value that is older than the one before: another instance of lagwatch read it.

        Args:
            values: the column, [rows].
            instant_ms: the instant that the value of each entry is of, [entries].
            series: how many there are.
            newest: the entry up to each one that `instant_ms` is of; None: each itself.
            deleted_to: log starts, [rows]. How much was read of a step over deleted messages is
                not known: a consumer that loses messages leaps from one log start to the next.
        """
        held = values[self._row]
        if newest is not None:
            held = np.where((held >= 0) & (held < held[newest]), held[newest], held)
        step, linked = self._steps(held)
        # what moved did so in some time, however equal the instants
        length_ms = np.maximum(np.diff(instant_ms), step > 0)
        linked &= (step >= 0) & (length_ms > 0)
        if deleted_to is not None:
            linked &= (step == 0) | (held[:-1] >= deleted_to[self._row][1:])
        finest = self._span.finest
        cell = finest.cells(self._series[1:][linked], self._at_ms[1:][linked])
        return Moved.of(step[linked], length_ms[linked], cell, series * finest.buckets)

    def changes(self, values: Int64, size: int) -> Int64:
        """[cells]: over how many steps a column rose."""
        step, linked = self._steps(values[self._row])
        cell = self._span.cells(self._series[1:][linked], self._at_ms[1:][linked])
        return sums(np.clip(step[linked], 0, 1), cell, size)

    def _steps(self, held: Int64) -> tuple[Int64, Bools]:
        return np.diff(held), self._linked & (held[1:] >= 0) & (held[:-1] >= 0)
