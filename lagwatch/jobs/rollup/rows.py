"""Reads what a unit needs from whichever store keeps it, and rolls it up."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from lagwatch.core.record import RAW, Kind, Records, concat, from_rows
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.core.rollup import (
    EVENT_COLUMNS,
    ROUND_COLUMNS,
    SAMPLE_COLUMNS,
    BucketSpan,
    Raw,
    keep_fuller,
    lacks_rows,
    merge,
    roll_up,
)
from lagwatch.history.rows import (
    GroupRange,
    by_ranges,
    gathered,
    of_groups,
    parts_of,
    rows_by_group,
    sort_unique,
)
from lagwatch.jobs.stores.base import MakeRows
from lagwatch.jobs.tables import StoreRef
from lagwatch.jobs.units import Range, Ranges, Unit, common, units_of, widened
from lagwatch.ports.history import HistoryRange

FINER: Final = {Kind.ROLLUP_1H: Kind.ROLLUP_5M, Kind.ROLLUP_1D: Kind.ROLLUP_1H}
"""Source kind of each roll-up that is not made from samples."""
SAMPLES_AT_ONCE: Final = 130_000
ROLLUPS_AT_ONCE: Final = 30_000
"""At most this many rows are rolled up in one go.

Memory that a process touches for the first time costs more than the computation on it.
"""
_PART_ROWS: Final = 50_000
"""Parts read with fewer rows are joined: to split many small ones takes longer."""


def sources(kind: Kind) -> tuple[Kind, ...]:
    """The kinds that a roll-up is made from."""
    return (FINER[kind],) if kind in FINER else RAW


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """What a unit is made from; samples in parts, since they are many."""

    samples: Sequence[Records]
    rounds: Records
    events: Records


class Roller:
    """Rolls up units of one store, each in one go."""

    def __init__(
        self,
        ref: StoreRef,
        kind: Kind,
        *,
        kept_from_ms: int = 0,
        samples_at_once: int = SAMPLES_AT_ONCE,
        rollups_at_once: int = ROLLUPS_AT_ONCE,
    ) -> None:
        """`kept_from_ms`: some source rows of earlier buckets may be deleted."""
        history = ref.settings
        self._kind = kind
        self._kept_from_ms = kept_from_ms
        self._samples_at_once = samples_at_once
        self._rollups_at_once = rollups_at_once
        self._interval_ms = round(history.interval_s * 1000)
        self._back_ms = back_ms(self._interval_ms, round(history.full_s * 1000))
        self._store = ref.open()
        self._kept: list[str] = []

    def roll(self, unit: Unit) -> Records:
        """The rows of a unit, sorted by key.

        Where rows that they are made from are deleted or missing, or their files cannot be read,
        rows made earlier from more stay.
        """
        raw = None if self._kind in FINER else self._raw(unit)
        made = self._merged(unit) if raw is None else self._rolled_up(unit, raw)
        rows, _ = sort_unique(concat(list(made)))
        unreadable = self._unreadable(unit)
        for span in unreadable:
            rows, kept = self._with_earlier(rows, unit, span)
            if kept.size:
                self._kept.append(_sentence(kept, unit.cluster, "files", "cannot be read"))
        for span in self._buckets_of(unit, [(unit.from_ms, self._kept_from_ms)]):
            rows, _ = self._with_earlier(rows, unit, span)
        # of finer roll-ups fewer samples come than before only where some of them are gone
        if raw is None or lacks_rows(raw.samples, raw.rounds, unit.from_ms):
            span = (unit.from_ms, unit.to_ms)
            rows, kept = self._with_earlier(rows, unit, span, of_equal=False)
            if kept.size:
                self._kept.append(_sentence(kept, unit.cluster, "rows", "are missing"))
            elif raw is not None and not unreadable and unit.from_ms >= self._kept_from_ms:
                self._kept.append(_incomplete(unit, self._kind))
        return rows

    def _unreadable(self, unit: Unit) -> Ranges:
        """Buckets of a unit of which some source rows could not be read."""
        back = 0 if self._kind in FINER else self._back_ms
        damaged = (
            span for kind in sources(self._kind) for span in self._store.damaged(kind, unit.cluster)
        )
        return self._buckets_of(unit, ((begin, end + back) for begin, end in damaged))

    def _buckets_of(self, unit: Unit, spans: Iterable[Range]) -> Ranges:
        """The whole buckets of a unit that these times touch."""
        return common(widened(spans, ROLLUP_STEP_MS[self._kind]), [(unit.from_ms, unit.to_ms)])

    def _with_earlier(
        self, rows: Records, unit: Unit, span: Range, *, of_equal: bool = True
    ) -> tuple[Records, Records]:
        """Rows with those made earlier from more; the latter alone."""
        begin, end = span
        earlier = self._read(self._kind, replace(unit, to_ms=end), begin, ())
        at_ms = rows.at_ms()
        within = (at_ms >= begin) & (at_ms < end)
        chosen, kept = keep_fuller(rows.take(within), earlier, of_equal=of_equal)
        if kept.size:
            rows, _ = sort_unique(concat([rows.take(~within), chosen]))
        return rows, kept

    def _merged(self, unit: Unit) -> Iterator[Records]:
        """The rows of a unit from finer ones, for some groups at a time."""
        parts = self._parts(FINER[self._kind], unit, unit.from_ms, ())
        for rows in by_ranges(parts, _ranges(parts, self._rollups_at_once)):
            yield merge(concat(rows), self._kind)

    def _raw(self, unit: Unit) -> _Source:
        back = unit.from_ms - self._back_ms
        return _Source(
            samples=self._parts(Kind.SAMPLES, unit, back, SAMPLE_COLUMNS),
            rounds=self._read(Kind.GROUP_SAMPLES, unit, back, ROUND_COLUMNS),
            events=self._read(Kind.EVENTS, unit, unit.from_ms, EVENT_COLUMNS),
        )

    def _rolled_up(self, unit: Unit, source: _Source) -> Iterator[Records]:
        """The rows of a unit, for some groups at a time."""
        span = BucketSpan(kind=self._kind, from_ms=unit.from_ms, to_ms=unit.to_ms)
        ranges = _ranges(source.samples, self._samples_at_once)
        for samples, (low, high) in zip(by_ranges(source.samples, ranges), ranges, strict=True):
            part = Raw(
                samples=concat(samples),
                rounds=of_groups(source.rounds, low, high),
                events=of_groups(source.events, low, high),
            )
            yield roll_up(part, span, cluster=unit.cluster, interval_ms=self._interval_ms)

    def problems(self) -> Sequence[str]:
        """Files that could not be used, and what was therefore not made anew."""
        return [*self._store.set_aside, *self._kept]

    def close(self) -> None:
        self._store.close()

    def _read(self, kind: Kind, unit: Unit, from_ms: int, columns: tuple[str, ...]) -> Records:
        return concat(self._parts(kind, unit, from_ms, columns))

    def _parts(
        self, kind: Kind, unit: Unit, from_ms: int, columns: tuple[str, ...]
    ) -> Sequence[Records]:
        """The rows in one part or more."""
        wanted = HistoryRange(
            kind=kind, cluster=unit.cluster, from_ms=from_ms, to_ms=unit.to_ms, columns=columns
        )
        found = self._store.read_groups(wanted, unit.low, unit.high)
        parts = list(gathered(found, _PART_ROWS)) or [from_rows(kind, (), columns or None)]
        return [rows.select(columns) for rows in parts] if columns else parts


def _ranges(parts: Iterable[Records], most: int) -> list[GroupRange]:
    return parts_of(chain.from_iterable(map(rows_by_group, parts)), most)


def _sentence(kept: Records, cluster: str, what: str, how: str) -> str:
    at_ms = kept.at_ms()
    first, last = int(at_ms.min()), int(at_ms.max()) + ROLLUP_STEP_MS[kept.kind]
    remedy = ""
    if kept.kind in FINER:
        day = _utc(first)[:10]
        remedy = f". Where all samples are there, `lagwatch rollup --from {day}` makes them anew"
    return (
        f"new rows of {kept.kind} of cluster {cluster} from {_utc(first)} to {_utc(last)} UTC, "
        f"since {what} that they are made from {how}: "
        f"{kept.size:,} rows made earlier stay{remedy}"
    )


def _incomplete(unit: Unit, kind: Kind) -> str:
    return (
        f"missing rows: {kind} of cluster {unit.cluster} from {_utc(unit.from_ms)} to "
        f"{_utc(unit.to_ms)} UTC is made without them"
    )


def _utc(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def back_ms(interval_ms: int, full_ms: int) -> int:
    """Rows this long before a bucket may still affect it: two intervals of full rounds."""
    return 2 * full_ms + 2 * interval_ms


def rolled_up(ref: StoreRef, kind: Kind, *, kept_from_ms: int = 0) -> MakeRows:
    """Units to a kind of roll-up, sorted by key within each unit; `kept_from_ms` as in `Roller`.

    Tasks read the finer rows themselves, as columns: to hand every sample through Spark's rows
    takes several times as long as all the rest.
    """

    def make(batches: Iterator[Any], problems: list[str]) -> Iterator[Records]:
        roller = Roller(ref, kind, kept_from_ms=kept_from_ms)
        try:
            for batch in batches:
                for unit in units_of(batch):
                    yield roller.roll(unit)
            problems += roller.problems()
        finally:
            roller.close()

    return make
