"""Which buckets are due, and how they are divided among tasks."""

from collections.abc import Iterator, Mapping
from typing import Final

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.layout import DAY_MS, HOUR_MS
from lagwatch.history.rows import parts_of
from lagwatch.jobs.rollup.rows import FINER
from lagwatch.jobs.stores.base import RawRows, Rollups
from lagwatch.jobs.units import Range, Ranges, Unit, common, union, widened

ROLLUPS: Final = (Kind.ROLLUP_5M, Kind.ROLLUP_1H, Kind.ROLLUP_1D)
"""Finest first: each is made of the one before."""
SETTLED_MS: Final = 300_000
"""A bucket is rolled up this long after its end: by then nearly all its rows have arrived."""

TASK_ROWS: Final[Mapping[Kind, int]] = {
    Kind.ROLLUP_5M: 1_300_000,
    Kind.ROLLUP_1H: 300_000,
    Kind.ROLLUP_1D: 60_000,
}
"""About how many finer rows one task takes."""
_BATCH_MS: Final[Mapping[Kind, int]] = {Kind.ROLLUP_5M: HOUR_MS}


def end_of(kind: Kind, now_ms: int) -> int:
    """End of the last complete bucket."""
    settled = now_ms - SETTLED_MS
    return settled - settled % ROLLUP_STEP_MS[kind]


def due(seen: RawRows, before_ms: int, now_ms: int, *, back_ms: int) -> Ranges:
    """Instants to roll up: those with changes, and those that were incomplete last time.

    A row matters for as long as it may be held, and so for buckets after its own.
    """
    begin = min((first for first, _ in seen.held), default=0)
    changed = [(first, last + back_ms) for first, last in seen.changed]
    return union([*changed, (max(before_ms, begin), now_ms)])


def buckets(kind: Kind, wanted: Ranges, held: Ranges, now_ms: int) -> Ranges:
    """Buckets of the wanted instants that are over and of which there are raw rows."""
    step = ROLLUP_STEP_MS[kind]
    whole = common(widened(wanted, step), widened(held, step))
    return common(whole, [(0, end_of(kind, now_ms))])


def units(
    rollups: Rollups,
    kind: Kind,
    cluster: str,
    wanted: Ranges,
    *,
    task_rows: Mapping[Kind, int] = TASK_ROWS,
) -> Iterator[Unit]:
    """Pieces of work of about `task_rows` finer rows each; together they cover `wanted`.

    Raises:
        ValueError: a range does not begin and end with a bucket: rows would be counted in others.
    """
    step = ROLLUP_STEP_MS[kind]
    if cut := [span for span in wanted if span[0] % step or span[1] % step]:
        raise ValueError(f"{kind.value}: {cut[0]} is not made of whole buckets of {step} ms")
    finer, most = FINER.get(kind, Kind.SAMPLES), task_rows[kind]
    found = [piece for span in wanted for piece in pieces(span, _piece_ms(kind))]
    # samples are not cut within an hour: each part would read those before it again
    step_ms = max(ROLLUP_STEP_MS[kind], HOUR_MS)
    for first, last, weights in rollups.weigh(finer, cluster, found, step_ms=step_ms, most=most):
        for low, high in parts_of(weights, most):
            yield Unit(cluster=cluster, from_ms=first, to_ms=last, low=low, high=high)


def _piece_ms(kind: Kind) -> int:
    """Pieces of about as many rows as one file has: hours of samples, days of roll-ups."""
    return _BATCH_MS.get(kind, DAY_MS)


def pieces(whole: Range, step: int) -> Iterator[Range]:
    """A range, cut at multiples of `step`."""
    begin, end = whole
    while begin < end:
        until = min(end, begin - begin % step + step)
        yield begin, until
        begin = until
