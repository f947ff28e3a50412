"""The job: what is due is rolled up, 5 minutes from samples, hours from these, days from hours."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.history.build import retention_days
from lagwatch.history.compact import Compacted
from lagwatch.history.layout import DAY_MS, day_of, day_start_ms
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.open_state import open_state
from lagwatch.jobs.rollup.elastic import elastic, refresh
from lagwatch.jobs.rollup.files import (
    FILE_TYPE,
    NOTHING,
    batch_name,
    compact,
    delete,
    delete_old,
    old_files,
    old_frame,
    other_rows,
    put,
)
from lagwatch.jobs.rollup.plan import ROLLUPS, Makeable, buckets, due, end_of, makeable, units
from lagwatch.jobs.rollup.rows import MakeRows, as_files, as_rows, back_ms, rolled_up
from lagwatch.jobs.rollup.units import UNIT_TYPE, Ranges, union, units_frame
from lagwatch.jobs.rollup.watermark import Mark, Seen, watch
from lagwatch.jobs.sources.sink import Sink, Written
from lagwatch.jobs.state import JobState
from lagwatch.jobs.tables import StoreRef, replace_rows
from lagwatch.ports.history import EVER_MS, HistoryStore

STATE: Final = "rollup"

_Made = tuple[dict[Kind, int], dict[Kind, int]]
"""Rows and buckets by kind."""

Told = Callable[[str, dict[str, Any]], None]
"""Called with the name of what happened, and its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupRequest:
    """What is asked for."""

    from_ms: int | None = None
    """With one of these all buckets of the time are made, changed or not."""
    to_ms: int | None = None
    clusters: tuple[str, ...] = ()
    """() all."""
    tidy: bool = True
    """Compact files and delete what is older than the retention."""

    @property
    def wanted(self) -> Ranges:
        """The time that is asked for; () for what is due."""
        if self.from_ms is None and self.to_ms is None:
            return ()
        from_ms = 0 if self.from_ms is None else self.from_ms
        return union([(from_ms, EVER_MS if self.to_ms is None else self.to_ms)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupResult:
    """What was done."""

    rows: Mapping[Kind, int] = field(default_factory=dict)
    """Rows written, by kind."""
    buckets: Mapping[Kind, int] = field(default_factory=dict)
    """Instants whose buckets were made, by kind, over all clusters."""
    rejected: int = 0
    compacted: Compacted = NOTHING
    removed: Mapping[Kind, int] = field(default_factory=dict)
    """Rows deleted by the retention, by kind."""
    set_aside: tuple[str, ...] = ()
    """Files that could not be used, with the reason."""
    clusters: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """For logs and metrics."""
        return {
            "rows_written": sum(self.rows.values()),
            "rows_rejected": self.rejected,
            "files_merged": self.compacted.merged,
            "rows_removed": sum(self.removed.values()),
        }

    def lines(self) -> tuple[str, ...]:
        """For the terminal."""
        made = [
            f"{kind.value}: {rows:,} rows of {self.buckets[kind]:,} buckets"
            for kind, rows in self.rows.items()
            if self.buckets[kind]
        ]
        lines = made or ["nothing is due"]
        if self.compacted.merged:
            done = self.compacted
            lines.append(f"compacted: {done.merged:,} files became {done.written:,}")
        lines += [f"removed: {rows:,} rows of {kind.value}" for kind, rows in self.removed.items()]
        if self.rejected:
            lines.append(f"rejected by the store: {self.rejected:,} rows")
        return (*lines, *(f"set aside: {problem}" for problem in self.set_aside))


def run_rollup(
    spark: SparkSession, ref: StoreRef, request: RollupRequest, *, now_ms: int, told: Told
) -> RollupResult:
    """Roll up what is due, compact, delete what is old.

    Running it again changes nothing. One run at a time: the caller holds the lock.

    Raises:
        HistoryError: the store refused or did not answer; what is written stays, and the next run
            does the rest.
        PySparkException: the same, in a task.
    """
    store = ref.open()
    try:
        return _Run(spark, ref, store, request, now_ms=now_ms, told=told).run()
    finally:
        store.close()


class _Run:
    def __init__(
        self,
        spark: SparkSession,
        ref: StoreRef,
        store: HistoryStore,
        request: RollupRequest,
        *,
        now_ms: int,
        told: Told,
    ) -> None:
        self._spark = spark
        self._ref = ref
        self._store = store
        self._request = request
        self._now_ms = now_ms
        self._told = told
        self._state: JobState = open_state(ref.settings)
        self._batch = batch_name(now_ms)
        self._problems: dict[str, None] = {}
        self._rejected = 0

    def run(self) -> RollupResult:
        """Raises as `run_rollup`."""
        watched = watch(self._store)
        asked = self._request.clusters
        clusters = tuple(one for one in watched.clusters() if not asked or one in asked)
        marks: dict[str, Mark] = self._state.load(STATE)
        seen = {one: watched.look(one, marks.get(one, {})) for one in clusters}
        due_in = {one: self._due(one, seen[one], marks.get(one, {})) for one in clusters}
        self._intend(marks, due_in)
        rows, made = self._roll(due_in)
        self._remember(marks, seen)
        compacted, removed = self._tidy(clusters)
        if isinstance(self._store, ParquetStore):
            self._problems |= dict.fromkeys(self._store.passed_over.values())
        return RollupResult(
            rows=rows,
            buckets=made,
            rejected=self._rejected,
            compacted=compacted,
            removed=removed,
            set_aside=tuple(self._problems),
            clusters=clusters,
        )

    # what is due

    def _due(self, cluster: str, seen: Seen, mark: Mark) -> Mapping[Kind, Ranges]:
        """The buckets to make, by kind."""
        now_ms = self._now_ms
        wanted = self._request.wanted or due(
            seen, int(mark.get("before_ms", 0)), now_ms, back_ms=self._back_ms()
        )
        wanted = union([*_intent(mark), *wanted])
        may = self._makeable(cluster, seen, mark)
        return {kind: buckets(kind, wanted, seen.held, may, now_ms) for kind in ROLLUPS}

    def _back_ms(self) -> int:
        history = self._ref.settings
        return back_ms(round(history.interval_s * 1000), round(history.full_s * 1000))

    def _makeable(self, cluster: str, seen: Seen, mark: Mark) -> Makeable:
        cut = {
            kind: day_start_ms(day_of(self._now_ms - days * DAY_MS)) if days else 0
            for kind, days in retention_days(self._ref.settings).items()
        }
        if cut[Kind.SAMPLES]:
            # its first buckets need the rows before them, and these are gone
            cut[Kind.SAMPLES] += self._back_ms()
        return makeable(self._store, cluster, seen.held, cut, _intent(mark))

    # rolling up

    def _roll(self, due_in: Mapping[str, Mapping[Kind, Ranges]]) -> _Made:
        rows, made = {}, {}
        for kind in ROLLUPS:
            ranges = {cluster: found[kind] for cluster, found in due_in.items()}
            rows[kind] = self._roll_kind(kind, ranges)
            made[kind] = sum(
                (last - first) // ROLLUP_STEP_MS[kind]
                for found in ranges.values()
                for first, last in found
            )
            self._told("rolled_up", {"kind": kind.value, "rows": rows[kind], "buckets": made[kind]})
        return rows, made

    def _roll_kind(self, kind: Kind, ranges: Mapping[str, Ranges]) -> int:
        work = [
            unit
            for cluster, wanted in ranges.items()
            for unit in units(self._store, kind, cluster, wanted)
        ]
        if not work:
            return 0
        due_units = units_frame(self._spark, work)
        make = rolled_up(self._ref, kind)
        if isinstance(self._store, ParquetStore):
            written = self._replace_files(self._store, kind, due_units, make, ranges)
        else:
            rows = due_units.transform(as_rows(make, UNIT_TYPE, kind))
            written = replace_rows(rows, self._ref, kind)
            refresh(elastic(self._store), kind)
        self._rejected += written.rejected
        return written.rows

    def _replace_files(
        self,
        store: ParquetStore,
        kind: Kind,
        due_units: DataFrame,
        make: MakeRows,
        ranges: Mapping[str, Ranges],
    ) -> Written:
        sink = Sink(settings=self._ref.settings, kind=kind, batch=self._batch)
        old = old_files(store, kind, ranges)
        told = due_units.transform(as_files(make, UNIT_TYPE, sink))
        if not all(one.whole for one in old):
            others = other_rows(self._ref, kind, ranges)
            left = old_frame(self._spark, old)
            told = told.unionByName(left.transform(as_files(others, FILE_TYPE, sink)))
        done = put(told)
        delete(store, old)
        self._problems |= dict.fromkeys(done.problems)
        return done.written

    # what is remembered

    def _intend(self, marks: dict[str, Mark], due_in: Mapping[str, Mapping[Kind, Ranges]]) -> None:
        """Remember what is about to be made, in case this run does not come to its end."""
        for cluster, ranges in due_in.items():
            intent = ranges[Kind.ROLLUP_5M]
            marks[cluster] = {**marks.get(cluster, {}), "intent": intent}
        self._state.save(STATE, marks)

    def _remember(self, marks: dict[str, Mark], seen: Mapping[str, Seen]) -> None:
        for cluster, one in seen.items():
            if self._request.wanted:
                marks[cluster].pop("intent")
            else:
                marks[cluster] = {**one.mark, "before_ms": end_of(Kind.ROLLUP_5M, self._now_ms)}
        self._state.save(STATE, marks)

    def _tidy(self, clusters: tuple[str, ...]) -> tuple[Compacted, Mapping[Kind, int]]:
        done = NOTHING
        if not self._request.tidy:
            return done, {}
        removed = delete_old(self._store, self._ref, self._now_ms)
        if isinstance(self._store, ParquetStore):
            done = compact(self._spark, self._ref, clusters, end_of(Kind.ROLLUP_5M, self._now_ms))
        return done, removed


def _intent(mark: Mark) -> Ranges:
    """What a run that was killed was about to make."""
    return union((int(first), int(last)) for first, last in mark.get("intent", ()))
