"""Which buckets are due, and how they are divided among tasks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.layout import DAY_MS, day_of
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.parquet_file import Footer, group_rows
from lagwatch.history.rows import parts_of
from lagwatch.jobs.rollup.elastic import elastic, rows_by_group
from lagwatch.jobs.rollup.ranges import Range, Ranges, common, union, widened
from lagwatch.jobs.rollup.rows import FINER
from lagwatch.jobs.rollup.units import Unit
from lagwatch.jobs.rollup.watermark import Seen
from lagwatch.ports import HistoryRange, HistoryStore

ROLLUPS: Final = (Kind.ROLLUP_5M, Kind.ROLLUP_1H, Kind.ROLLUP_1D)
"""Finest first: each is made of the one before."""
SETTLED_MS: Final = 300_000
"""A bucket is rolled up this long after its end: its rows have come by then, mostly."""

_ROWS: Final[Mapping[Kind, int]] = {
    Kind.ROLLUP_5M: 1_300_000,
    Kind.ROLLUP_1H: 300_000,
    Kind.ROLLUP_1D: 60_000,
}
"""Finer rows of one task, about."""
_BATCH_MS: Final[Mapping[Kind, int]] = {Kind.ROLLUP_5M: 3_600_000}

_Weighed = tuple[int, int, Sequence[tuple[str, int]]]
"""From when to when, and how many rows begin with which group; () one task takes them all."""


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


def units(store: HistoryStore, kind: Kind, cluster: str, wanted: Ranges) -> Iterator[Unit]:
    """Pieces of work of about the same size; together they are all that is wanted."""
    finer, most = FINER.get(kind, Kind.SAMPLES), _ROWS[kind]
    found = [piece for one in wanted for piece in pieces(one, _piece_ms(kind))]
    weighed = (
        _bundles(store, finer, cluster, found, most)
        if isinstance(store, ParquetStore)
        else _weighed(store, finer, cluster, found, most)
    )
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


def _weighed(
    store: HistoryStore, kind: Kind, cluster: str, pieces: Sequence[Range], most: int
) -> Iterator[_Weighed]:
    """Pieces with the rows of their groups, where they have too many for one task."""
    for first, last in pieces:
        wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=first, to_ms=last)
        yield first, last, rows_by_group(elastic(store), wanted, above=most)


def _bundles(
    store: ParquetStore, kind: Kind, cluster: str, pieces: Sequence[Range], rows: int
) -> Iterator[_Weighed]:
    """Pieces that follow one another, put together as long as they have few rows."""
    begun: _Weighed | None = None
    held = 0
    for first, last in pieces:
        footers = _footers(store, kind, cluster, first, last)
        weights = [*group_rows(footers)]
        size = sum(footer.rows for footer in footers)
        if begun is not None and begun[1] == first and held + size <= rows:
            begun = (begun[0], last, [*begun[2], *weights])
            held += size
            continue
        if begun is not None:
            yield begun
        begun, held = (first, last, weights), size
    if begun is not None:
        yield begun


def _footers(
    store: ParquetStore, kind: Kind, cluster: str, from_ms: int, to_ms: int
) -> list[Footer]:
    wanted = HistoryRange(kind=kind, cluster=cluster, from_ms=from_ms, to_ms=to_ms)
    return [
        footer
        for slot in store.slots(wanted, cluster)
        for footer in store.footers(slot)
        if footer.wanted_groups(wanted, None, None)
    ]
