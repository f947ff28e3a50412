"""Answers history queries.

Chooses the kind to read, fills the grid, pages (`ports.HistoryQueries`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import numpy as np

from lagwatch.core.record import Kind, Records, Text, Values, concat, from_rows, schema
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.errors import HistoryError
from lagwatch.history.arrow import plain_stream
from lagwatch.history.buckets import aggregate, lag_column
from lagwatch.history.grid import ROLLUP_COLUMNS, ROUND_COLUMNS, expand, joined, on_grid, rolled_up
from lagwatch.history.layout import HOUR_MS
from lagwatch.history.rows import in_time_order
from lagwatch.history.runs import RecordingIntervals
from lagwatch.history.top import ranked
from lagwatch.ports.history import (
    Buckets,
    HistoryAsk,
    HistoryPage,
    HistoryRange,
    HistoryStore,
    TopBy,
)

T = TypeVar("T")

_POINTS: Final = 500
"""Approximate number of points in an answer when the query names no step."""
_STEPS_MS: Final = tuple(
    1000 * seconds
    for seconds in (
        *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
        *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 604_800),
    )
)
_AT_ONCE: Final = 4
_WITHIN_S: Final = 30.0
_TOP_INTERVALS: Final = 3
_ROLLUPS: Final = (Kind.ROLLUP_1D, Kind.ROLLUP_1H, Kind.ROLLUP_5M)
"""Coarsest first."""
_TOP_COLUMNS: Final = (
    *("cluster", "group", "at_ms", "status", "rule", "state", "total_lag", "max_lag"),
    *("max_lag_topic", "max_lag_partition", "time_lag_s", "partitions", "not_ok", "members"),
)


class HistoryReader:
    """Answers from a store, in threads, a few at a time."""

    def __init__(self, store: HistoryStore, *, interval_ms: int, full_ms: int) -> None:
        """`interval_ms` and `full_ms` as the recorder has them."""
        self._store = store
        self._interval_ms = interval_ms
        # two of them: a group may just have missed its turn
        self._back_ms = 2 * full_ms + 2 * interval_ms
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def group(self, cluster: str, group: str, ask: HistoryAsk) -> HistoryPage:
        wanted = HistoryRange(
            kind=Kind.GROUP_SAMPLES,
            cluster=cluster,
            group=group,
            from_ms=ask.from_ms,
            to_ms=ask.to_ms,
        )
        return await self._in_thread(lambda: self._series(wanted, ask))

    async def partition(
        self, cluster: str, group: str, topic: str, partition: int, ask: HistoryAsk
    ) -> HistoryPage:
        wanted = HistoryRange(
            kind=Kind.SAMPLES,
            cluster=cluster,
            group=group,
            topic=topic,
            partition=partition,
            from_ms=ask.from_ms,
            to_ms=ask.to_ms,
        )
        return await self._in_thread(lambda: self._series(wanted, ask))

    async def events(self, cluster: str, group: str | None, ask: HistoryAsk) -> HistoryPage:
        wanted = HistoryRange(
            kind=Kind.EVENTS, cluster=cluster, group=group, from_ms=ask.from_ms, to_ms=ask.to_ms
        )
        return await self._in_thread(
            lambda: _page(_first(self._store.read(wanted), ask.limit), wanted.kind, ask)
        )

    async def top(
        self, at_ms: int, *, by: TopBy, limit: int, cluster: str | None = None
    ) -> HistoryPage:
        return await self._in_thread(lambda: self._top(at_ms, by, limit, cluster))

    def arrow(self, page: HistoryPage) -> bytes:
        return plain_stream(page.columns)

    @property
    def recording(self) -> RecordingIntervals:
        """How the rows were recorded."""
        return RecordingIntervals(interval_ms=self._interval_ms, back_ms=self._back_ms)

    async def using(self, work: Callable[[HistoryStore], T]) -> T:
        """Let `work` read the store, in a thread.

        Raises:
            HistoryError: the store cannot be read, or not in time.
        """
        return await self._in_thread(lambda: work(self._store))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(_WITHIN_S), self._places:
                return await asyncio.to_thread(work)
        except TimeoutError:
            raise HistoryError(
                store="",
                kind="timeout",
                message=f"the history did not answer within {_WITHIN_S:.0f} s. "
                "Ask for a shorter time or a larger step.",
                retryable=True,
            ) from None

    # one series over time

    def _series(self, wanted: HistoryRange, ask: HistoryAsk) -> HistoryPage:
        step_ms = self._step(ask)
        if step_ms == 0:
            raw = replace(wanted, columns=ask.columns)
            return _page(self._recorded(raw, ask.limit), wanted.kind, ask)
        start_ms = ask.from_ms - ask.from_ms % step_ms
        end_ms = min(ask.to_ms, start_ms + ask.limit * step_ms)
        # the first point is whole as well, although the range begins within its step
        span = _between(wanted, start_ms, end_ms)
        rollups = [kind for kind in _ROLLUPS if step_ms % ROLLUP_STEP_MS[kind] == 0]
        buckets, kind = self._buckets(span, step_ms, rollups)
        grid = np.arange(start_ms, end_ms, step_ms, dtype=np.int64)
        columns = on_grid(buckets, grid)
        return HistoryPage(
            columns={name: columns[name] for name in ask.columns or columns},
            kind=kind,
            step_ms=step_ms,
            next_ms=end_ms if end_ms < ask.to_ms else None,
        )

    def _step(self, ask: HistoryAsk) -> int:
        if ask.step_ms is not None:
            return ask.step_ms
        least_ms = max((ask.to_ms - ask.from_ms) / min(_POINTS, ask.limit), self._interval_ms)
        return next((step for step in _STEPS_MS if step >= least_ms), _STEPS_MS[-1])

    def _buckets(
        self, wanted: HistoryRange, step_ms: int, rollups: Sequence[Kind]
    ) -> tuple[Buckets, Kind]:
        """From the coarsest roll-up that fits; what it does not reach, from the next finer."""
        if wanted.from_ms >= wanted.to_ms:
            return aggregate((), wanted.kind, step_ms), wanted.kind
        if not rollups:
            return self._raw(wanted, step_ms), wanted.kind
        kind, *finer = rollups
        # whole buckets only: the first of a range that begins within one is made from finer rows
        first_ms = -(-wanted.from_ms // step_ms) * step_ms
        found = rolled_up(self._store.read(_of_rollup(wanted, kind, first_ms)), step_ms)
        if found.bucket_ms.size == 0:
            return self._buckets(wanted, step_ms, finer)
        begin_ms, last_ms = int(found.bucket_ms[0]), int(found.bucket_ms[-1])
        before, _ = self._buckets(_between(wanted, wanted.from_ms, begin_ms), step_ms, finer)
        after, kind_after = self._buckets(_between(wanted, last_ms, wanted.to_ms), step_ms, finer)
        if last_ms in after.bucket_ms:
            # it was rolled up before it was over, or the range ends within it
            found = joined([found], before_ms=last_ms)
            kind = kind if found.bucket_ms.size else kind_after
        return joined([before, found, after]), kind

    def _raw(self, wanted: HistoryRange, step_ms: int) -> Buckets:
        if wanted.kind is Kind.GROUP_SAMPLES:
            return self._store.aggregate(wanted, step_ms)
        columns = (lag_column(wanted.kind), "time_lag_s", "status", "reason")
        rows = self._expanded(replace(wanted, columns=columns))
        return aggregate([rows], wanted.kind, step_ms)

    def _recorded(self, wanted: HistoryRange, limit: int) -> Records:
        """Rows as they were recorded; of partitions also those that were left out."""
        if wanted.kind is Kind.GROUP_SAMPLES:
            return _first(self._store.read(wanted), limit)
        end_ms = min(wanted.to_ms, wanted.from_ms + (limit + 2) * self._interval_ms)
        found = self._expanded(_between(wanted, wanted.from_ms, end_ms))
        while found.size <= limit and end_ms < wanted.to_ms:
            # it has gaps: look further back, twice as far each time
            start_ms, end_ms = end_ms, min(wanted.to_ms, end_ms + 2 * (end_ms - wanted.from_ms))
            found = concat([found, self._expanded(_between(wanted, start_ms, end_ms))])
        return found

    def _expanded(self, wanted: HistoryRange) -> Records:
        back = _between(wanted, wanted.from_ms - self._back_ms, wanted.to_ms)
        rounds = HistoryRange(
            kind=Kind.GROUP_SAMPLES,
            cluster=wanted.cluster,
            group=wanted.group,
            from_ms=back.from_ms,
            to_ms=back.to_ms,
            columns=ROUND_COLUMNS,
        )
        found = expand(self._all(back), self._all(rounds))
        return found.take(found.at_ms() >= wanted.from_ms)

    def _all(self, wanted: HistoryRange) -> Records:
        """All rows of a range; without any the same columns, empty."""
        found = list(self._store.read(wanted))
        return concat(found) if found else from_rows(wanted.kind, ()).select(wanted.chosen)

    # all groups at one instant

    def _top(self, at_ms: int, by: TopBy, limit: int, cluster: str | None) -> HistoryPage:
        within_ms = _TOP_INTERVALS * self._interval_ms
        rows = self._store.top(at_ms, within_ms=within_ms, by=by, limit=limit, cluster=cluster)
        kind = Kind.GROUP_SAMPLES
        for coarser in reversed(_ROLLUPS):
            if rows.size:
                break
            kind = coarser
            rows = ranked(self._rolled_top(at_ms, kind, cluster), by=by, limit=limit)
        return HistoryPage(
            columns={name: rows.columns[name] for name in _TOP_COLUMNS},
            kind=kind,
            step_ms=ROLLUP_STEP_MS.get(kind, 0),
            next_ms=None,
        )

    def _rolled_top(self, at_ms: int, kind: Kind, cluster: str | None) -> Records:
        """The groups in the bucket of an instant, as samples: the worst of the bucket."""
        start_ms = at_ms - at_ms % ROLLUP_STEP_MS[kind]
        wanted = HistoryRange(
            kind=kind,
            from_ms=start_ms,
            to_ms=start_ms + ROLLUP_STEP_MS[kind],
            cluster=cluster,
            level="group",
            columns=("status", "lag_max", "time_lag_max_s"),
        )
        rows = [
            {
                "cluster": row["cluster"],
                "group": row["group"],
                "at_ms": row["bucket_ms"],
                "status": row["status"],
                "total_lag": row["lag_max"],
                "time_lag_s": row["time_lag_max_s"],
            }
            for part in self._store.read(wanted)
            for row in part.rows()
            if row["level"] == "group"
        ]
        return from_rows(Kind.GROUP_SAMPLES, rows)


def _between(wanted: HistoryRange, from_ms: int, to_ms: int) -> HistoryRange:
    return replace(wanted, from_ms=from_ms, to_ms=to_ms)


def _of_rollup(wanted: HistoryRange, kind: Kind, from_ms: int) -> HistoryRange:
    return replace(
        wanted,
        kind=kind,
        from_ms=from_ms,
        level="group" if wanted.kind is Kind.GROUP_SAMPLES else "partition",
        columns=ROLLUP_COLUMNS,
    )


def _first(parts: Iterator[Records], limit: int) -> Records:
    """The first rows by time, a few more than `limit`; chunks come in the order of hours."""
    found: list[Records] = []
    size, last_hour = 0, 0
    kind = Kind.EVENTS
    for part in parts:
        kind = part.kind
        if size > limit and int(part.at_ms().min()) // HOUR_MS > last_hour:
            break
        found.append(part)
        size += part.size
        last_hour = max(last_hour, int(part.at_ms().max()) // HOUR_MS)
    return in_time_order(concat(found)) if found else from_rows(kind, ())


def _page(rows: Records, kind: Kind, ask: HistoryAsk) -> HistoryPage:
    """The first rows; those of one instant stay together, so that the next page begins after it."""
    names = ask.columns or tuple(schema(kind))
    next_ms = None
    if rows.size > ask.limit:
        at_ms = rows.at_ms()
        end = int(np.searchsorted(at_ms, at_ms[ask.limit - 1], side="right"))
        next_ms = int(at_ms[end]) if end < rows.size else int(at_ms[end - 1]) + 1
        rows = rows.take(np.arange(end))
    columns: dict[str, Values] = {
        name: rows.columns.get(name, Text.same(None, rows.size)) for name in names
    }
    return HistoryPage(columns=columns, kind=kind, step_ms=0, next_ms=next_ms)
