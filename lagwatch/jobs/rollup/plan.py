"""Which buckets are due, and how they are divided among tasks."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.layout import DAY_MS, HOUR_MS, day_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.rows import parts_of
from lagwatch.jobs.rollup.elastic import elastic, rows_by_group
from lagwatch.jobs.rollup.rows import FINER
from lagwatch.jobs.rollup.units import Range, Ranges, Unit, common, union, widened
from lagwatch.jobs.rollup.watermark import Seen
from lagwatch.ports.history import HistoryRange, HistoryStore

ROLLUPS: Final = (Kind.ROLLUP_5M, Kind.ROLLUP_1H, Kind.ROLLUP_1D)
"""Finest first: each is made of the one before."""
SETTLED_MS: Final = 300_000
"""A bucket is rolled up this long after its end: its rows have come by then, mostly."""

TASK_ROWS: Final[Mapping[Kind, int]] = {
    Kind.ROLLUP_5M: 1_300_000,
    Kind.ROLLUP_1H: 300_000,
    Kind.ROLLUP_1D: 60_000,
}
"""About how many finer rows one task takes."""
_BATCH_MS: Final[Mapping[Kind, int]] = {Kind.ROLLUP_5M: HOUR_MS}

_Sized = tuple[int, int, int]
"""From when to when, and how many rows the files have."""
_Weighed = tuple[int, int, Sequence[tuple[str, int]]]
"""From when to when, and how many rows are of which group; () one task takes them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makeable:
    """Of which times the rows are all there: retention may have taken a part of others."""

    from_ms: Mapping[Kind, int]
    """By roll-up, from when on retention has taken nothing that it is made of."""
    also: Mapping[Kind, Ranges]
    """Earlier times of which nothing has been made yet, or that were being made."""

    def of(self, kind: Kind, end_ms: int) -> Ranges:
        """Where buckets may be made anew."""
        step = ROLLUP_STEP_MS[kind]
        begin_ms = -(-self.from_ms[kind] // step) * step
        return common(union([(begin_ms, end_ms), *self.also[kind]]), [(0, end_ms)])


def makeable(
    store: HistoryStore, cluster: str, held: Ranges, cut: Mapping[Kind, int], intent: Ranges
) -> Makeable:
    """What may be made of a cluster; `cut` says from when on each kind is kept."""
    from_ms = {kind: cut[FINER.get(kind, Kind.SAMPLES)] for kind in ROLLUPS}
    also = {
        kind: union(
            [
                *widened(intent, ROLLUP_STEP_MS[kind]),
                *_unmade(store, kind, cluster, common(held, [(0, from_ms[kind])])),
            ]
        )
        for kind in ROLLUPS
    }
    return Makeable(from_ms=from_ms, also=also)


def _unmade(store: HistoryStore, kind: Kind, cluster: str, early: Ranges) -> Iterator[Range]:
    """Days, as far as there are rows, of which there is no roll-up at all."""
    if not early:
        return
    made = frozenset(store.days(kind, cluster))
    for one in early:
        for begin, end in pieces(one, DAY_MS):
            if day_of(begin) not in made:
                yield begin, end


def end_of(kind: Kind, now_ms: int) -> int:
    """Buckets before this are over."""
    settled = now_ms - SETTLED_MS
    return settled - settled % ROLLUP_STEP_MS[kind]


def due(seen: Seen, before_ms: int, now_ms: int, *, back_ms: int) -> Ranges:
    """Instants that are to be rolled up: what changed, and what was not over last time.

    A row matters for as long as it may be held, and so for buckets after its own.
    """
    begin = min((first for first, _ in seen.held), default=0)
    changed = [(first, last + back_ms) for first, last in seen.changed]
    return union([*changed, (max(before_ms, begin), now_ms)])


def buckets(kind: Kind, wanted: Ranges, held: Ranges, may: Makeable, now_ms: int) -> Ranges:
    """Of the instants that are wanted the whole buckets that are over and can be made."""
    step = ROLLUP_STEP_MS[kind]
    whole = common(widened(wanted, step), widened(held, step))
    return common(whole, may.of(kind, end_of(kind, now_ms)))


def units(
    store: HistoryStore,
    kind: Kind,
    cluster: str,
    wanted: Ranges,
    *,
    task_rows: Mapping[Kind, int] = TASK_ROWS,
) -> Iterator[Unit]:
    """Pieces of work of about `task_rows` finer rows each; together they cover `wanted`."""
    finer, most = FINER.get(kind, Kind.SAMPLES), task_rows[kind]
    found = [piece for one in wanted for piece in pieces(one, _piece_ms(kind))]
    if isinstance(store, ParquetStore):
        # samples are not cut within an hour: each part would read those before it again
        step = max(ROLLUP_STEP_MS[kind], HOUR_MS)
        sized = [part for one in found for part in _apart(store, finer, cluster, one, step)]
        weighed = _bundles(store, finer, cluster, sized, most)
    else:
        weighed = _weighed(store, finer, cluster, found, most)
    for first, last, weights in weighed:
        for low, high in parts_of(weights, most):
            yield Unit(cluster=cluster, from_ms=first, to_ms=last, low=low, high=high)


def _piece_ms(kind: Kind) -> int:
    """Pieces of about as many rows as one file has: hours of samples, days of roll-ups."""
    return _BATCH_MS.get(kind, DAY_MS)


def pieces(one: Range, step: int) -> Iterator[Range]:
    """A range cut where periods of a length begin."""
    begin, end = one
    while begin < end:
        until = min(end, begin - begin % step + step)
        yield begin, until
        begin = until


def _apart(
    store: ParquetStore, kind: Kind, cluster: str, one: Range, step: int
) -> Iterator[_Sized]:
    """A range cut where a step begins and no file goes on, and the rows of the files of each.

    So no file is read by two tasks, unless it alone has too many rows for one.
    """
    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=one[0], to_ms=one[1])
    files = [
        (*footer.between_ms, footer.rows)
        for slot in store.slots(wanted, cluster)
        for footer in store.footers(slot)
        if footer.wanted_groups(wanted, None, None)
    ]
    begin, end = one
    borders = [
        border
        for border in range(begin + step, end, step)
        if not any(first < border <= last for first, last, _ in files)
    ]
    for first_ms, until_ms in itertools.pairwise([begin, *borders, end]):
        yield (
            first_ms,
            until_ms,
            sum(rows for first, last, rows in files if first < until_ms and first_ms <= last),
        )


def _weighed(
    store: HistoryStore, kind: Kind, cluster: str, pieces: Sequence[Range], most: int
) -> Iterator[_Weighed]:
    """Pieces with the rows of their groups, where they have too many for one task."""
    for first, last in pieces:
        wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=first, to_ms=last)
        yield first, last, rows_by_group(elastic(store), wanted, above=most)


def _bundles(
    store: ParquetStore,
    kind: Kind,
    cluster: str,
    sized: Sequence[_Sized],
    most: int,
) -> Iterator[_Weighed]:
    """Pieces that follow one another, put together as long as they have few rows."""
    begun: Range | None = None
    held = 0
    for first, last, rows in sized:
        if begun is not None and begun[1] == first and held + rows <= most:
            begun = (begun[0], last)
            held += rows
            continue
        if begun is not None:
            yield _of_bundle(store, kind, cluster, begun, weigh=held > most)
        begun, held = (first, last), rows
    if begun is not None:
        yield _of_bundle(store, kind, cluster, begun, weigh=held > most)


def _of_bundle(
    store: ParquetStore, kind: Kind, cluster: str, one: Range, *, weigh: bool
) -> _Weighed:
    """With the rows of its groups, where there are too many for one task."""
    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=one[0], to_ms=one[1])
    slots = store.slots(wanted, cluster) if weigh else []
    return *one, [of_group for slot in slots for of_group in store.rows_by_group(slot, wanted)]
