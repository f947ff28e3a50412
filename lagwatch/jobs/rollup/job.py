"""The roll-up job: 5 minutes from samples, hours from 5 minutes, days from hours."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from lagwatch.core.record import RAW, Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.errors import JobError
from lagwatch.history.build import retention_days
from lagwatch.history.layout import DAY_MS, day_of, day_start_ms
from lagwatch.jobs.fence import Fence
from lagwatch.jobs.rollup.plan import ROLLUPS, buckets, due, end_of, units
from lagwatch.jobs.rollup.rows import back_ms, rolled_up, sources
from lagwatch.jobs.sources.sink import Written
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.base import Made, Making, Mark, RawRows, Rollups, StartSpark
from lagwatch.jobs.stores.registry import job_store
from lagwatch.jobs.tables import StoreRef
from lagwatch.jobs.units import Ranges, union
from lagwatch.ports.history import EVER_MS, Compacted, HistoryStore

STATE: Final = "rollup"


@dataclass(frozen=True, slots=True)
class _Counts:
    """By kind."""

    rows: dict[Kind, int] = field(default_factory=dict)
    buckets: dict[Kind, int] = field(default_factory=dict)
    replaced: dict[Kind, int] = field(default_factory=dict)


LogStep = Callable[[str, dict[str, Any]], None]
"""Log callback: event name and fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupRequest:
    """Clusters, time and housekeeping of a run."""

    from_ms: int | None = None
    """Set one of these to make all buckets of the time, changed or not."""
    to_ms: int | None = None
    clusters: tuple[str, ...] = ()
    """() all."""
    tidy: bool = True
    """Compact files and delete what is older than the retention."""

    @property
    def wanted(self) -> Ranges:
        """The requested time; () to roll up what is due."""
        if self.from_ms is None and self.to_ms is None:
            return ()
        from_ms = 0 if self.from_ms is None else self.from_ms
        return union([(from_ms, EVER_MS if self.to_ms is None else self.to_ms)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupResult:
    """Counts of a run."""

    rows: Mapping[Kind, int] = field(default_factory=dict)
    """Rows written, by kind."""
    buckets: Mapping[Kind, int] = field(default_factory=dict)
    """Instants whose buckets were made, by kind, over all clusters."""
    replaced: Mapping[Kind, int] = field(default_factory=dict)
    """Rows of earlier runs that were replaced, by kind."""
    rejected: int = 0
    compacted: Compacted = field(default_factory=Compacted)
    removed: Mapping[Kind, int] = field(default_factory=dict)
    """Rows deleted by the retention, by kind."""
    set_aside: tuple[str, ...] = ()
    """Files that could not be used, with the reason."""
    clusters: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """For logs and metrics."""
        return {
            "rows_written": sum(self.rows.values()),
            "rows_replaced": sum(self.replaced.values()),
            "rows_rejected": self.rejected,
            "files_merged": self.compacted.merged,
            "rows_removed": sum(self.removed.values()),
        }

    def lines(self) -> tuple[str, ...]:
        """For the terminal."""
        made = [
            f"{kind.value}: {rows:,} rows of {self.buckets[kind]:,} buckets"
            + (f", in the place of {old:,}" if (old := self.replaced.get(kind, 0)) else "")
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
    start_spark: StartSpark,
    ref: StoreRef,
    request: RollupRequest,
    *,
    now_ms: int,
    log_step: LogStep,
    fence: Fence | None = None,
) -> RollupResult:
    """Roll up what is due, compact, delete what is old.

    Spark is started only when there is something to roll up or to compact. Running it again changes
    nothing. One run at a time: the caller holds the lock, and `fence` says whether it still does.

    Raises:
        JobError: `fenced`: another run has the lock by now.
        HistoryError: the store refused or did not answer; what is written stays, and the next run
            does the rest.
        PySparkException: the same, in a task.
    """
    with closing(ref.open()) as store, closing(job_store(ref.settings).rollups()) as rollups:
        run = _Run(
            start_spark,
            ref,
            store,
            rollups,
            request,
            now_ms=now_ms,
            log_step=log_step,
            fence=fence,
        )
        return run.run()


class _Run:
    def __init__(
        self,
        start_spark: StartSpark,
        ref: StoreRef,
        store: HistoryStore,
        rollups: Rollups,
        request: RollupRequest,
        *,
        now_ms: int,
        log_step: LogStep,
        fence: Fence | None,
    ) -> None:
        self._start_spark = start_spark
        self._fence = fence
        self._ref = ref
        self._store = store
        self._rollups = rollups
        self._request = request
        self._now_ms = now_ms
        self._log_step = log_step
        self._state: JobState = job_store(ref.settings).state()
        self._problems: dict[str, None] = {}
        self._saved: Mapping[str, Any] = {}
        """The marks as they are in the store."""
        self._rejected = 0

    def run(self) -> RollupResult:
        """Raises as `run_rollup`."""
        asked = self._request.clusters
        clusters = tuple(
            cluster for cluster in self._rollups.clusters() if not asked or cluster in asked
        )
        marks: dict[str, Mark] = self._state.load(STATE)
        self._saved = dict(marks)
        seen = {
            cluster: self._rollups.look(cluster, marks.get(cluster, {})) for cluster in clusters
        }
        due_in = {cluster: self._due(seen[cluster], marks.get(cluster, {})) for cluster in clusters}
        self._intend(marks, due_in)
        made = self._roll(due_in)
        self._remember(marks, seen)
        compacted, removed = self._tidy(clusters, marks, _newest_ms(seen.values()))
        self._note_made(marks, clusters)
        self._problems |= dict.fromkeys([*self._store.set_aside, *self._rollups.set_aside])
        return RollupResult(
            rows=made.rows,
            buckets=made.buckets,
            replaced=made.replaced,
            rejected=self._rejected,
            compacted=compacted,
            removed=removed,
            set_aside=tuple(self._problems),
            clusters=clusters,
        )

    # what is due

    def _due(self, seen: RawRows, mark: Mark) -> Mapping[Kind, Ranges]:
        """The buckets to make, by kind."""
        now_ms = self._now_ms
        wanted = self._request.wanted or due(
            seen, int(mark.get("before_ms", 0)), now_ms, back_ms=self._back_ms()
        )
        wanted = union([*_intent(mark), *self._lost(seen), *wanted])
        return {kind: buckets(kind, wanted, seen.held, now_ms) for kind in ROLLUPS}

    def _lost(self, seen: RawRows) -> Ranges:
        """What is to be made anew; the service has deleted what is older than the retention."""
        days = self._first_kept_days()
        return union(
            (max(begin, day_start_ms(days[kind]) if kind in days else 0), end)
            for kind, (begin, end) in seen.lost
        )

    def _back_ms(self) -> int:
        history = self._ref.settings
        return back_ms(round(history.interval_s * 1000), round(history.full_s * 1000))

    def _kept_from_ms(self, kind: Kind) -> int:
        """From when on retention has deleted nothing of what a kind of roll-up is made from."""
        days = self._first_kept_days()
        begins = (day_start_ms(days[source]) for source in sources(kind) if source in days)
        from_ms = max(begins, default=0)
        # the first buckets of 5 minutes need earlier rows
        return from_ms + self._back_ms() if from_ms and kind is Kind.ROLLUP_5M else from_ms

    # rolling up

    def _roll(self, due_in: Mapping[str, Mapping[Kind, Ranges]]) -> _Counts:
        counts = _Counts()
        for kind in ROLLUPS:
            ranges = {cluster: found[kind] for cluster, found in due_in.items()}
            made = self._roll_kind(kind, ranges)
            counts.rows[kind], counts.replaced[kind] = made.written.rows, made.replaced
            counts.buckets[kind] = sum(
                (last - first) // ROLLUP_STEP_MS[kind]
                for found in ranges.values()
                for first, last in found
            )
            self._log_step(
                "rolled_up",
                {
                    "kind": kind.value,
                    "rows": counts.rows[kind],
                    "replaced": counts.replaced[kind],
                    "buckets": counts.buckets[kind],
                },
            )
        return counts

    def _roll_kind(self, kind: Kind, ranges: Mapping[str, Ranges]) -> Made:
        work = [
            unit
            for cluster, wanted in ranges.items()
            for unit in units(self._rollups, kind, cluster, wanted)
        ]
        if not work:
            return Made(written=Written())
        from lagwatch.jobs.unit_frames import units_frame  # noqa: PLC0415 needs pyspark

        spark = self._start_spark()
        made = self._rollups.replace(
            spark,
            Making(
                kind=kind,
                units=units_frame(spark, work),
                make=rolled_up(self._ref, kind, kept_from_ms=self._kept_from_ms(kind)),
                ranges=ranges,
                now_ms=self._now_ms,
                fence=self._fence,
            ),
        )
        self._problems |= dict.fromkeys(made.problems)
        self._rejected += made.written.rejected
        return made

    # what is remembered

    def _intend(self, marks: dict[str, Mark], due_in: Mapping[str, Mapping[Kind, Ranges]]) -> None:
        """Save the work ahead, so that the next run can finish it if this one is killed."""
        for cluster, ranges in due_in.items():
            intent = ranges[Kind.ROLLUP_5M]
            marks[cluster] = {**marks.get(cluster, {}), "intent": intent}
        self._save(marks)

    def _remember(self, marks: dict[str, Mark], seen: Mapping[str, RawRows]) -> None:
        for cluster, look in seen.items():
            if self._request.wanted:
                marks[cluster].pop("intent")
            else:
                marks[cluster] = {**look.mark, "before_ms": end_of(Kind.ROLLUP_5M, self._now_ms)}
        self._note_made(marks, seen)

    def _note_made(self, marks: dict[str, Mark], clusters: Iterable[str]) -> None:
        """Save which roll-ups are there, so that the next run makes those anew that are gone."""
        for cluster in clusters:
            marks[cluster] = {**marks[cluster], "made": self._rollups.made(cluster)}
        self._save(marks)

    def _save(self, marks: Mapping[str, Mark]) -> None:
        """Put marks in the place of those that this run knows, and of no others."""
        fresh = orjson.loads(orjson.dumps(marks))
        if not self._state.swap(STATE, self._saved, fresh):
            raise JobError(
                kind="fenced",
                message="another run has rolled up this store since this one began: nothing is "
                "marked as done. The next run does what is left.",
                retryable=True,
            )
        self._saved = fresh

    def _tidy(
        self, clusters: tuple[str, ...], marks: dict[str, Mark], newest_ms: int
    ) -> tuple[Compacted, Mapping[Kind, int]]:
        if not self._request.tidy:
            return Compacted(), {}
        removed = self._delete_old(marks, self._old_by_ms(newest_ms))
        before_ms = end_of(Kind.ROLLUP_5M, self._now_ms)
        return self._rollups.compact(self._start_spark, clusters, before_ms), removed

    def _old_by_ms(self, newest_ms: int) -> int:
        """The instant that ages count from: by a clock that is set wrong all rows would be old."""
        if self._now_ms - newest_ms <= DAY_MS:
            return self._now_ms
        self._log_step("ages_count_from", {"at_ms": newest_ms + DAY_MS, "now_ms": self._now_ms})
        return newest_ms + DAY_MS

    def _delete_old(self, marks: dict[str, Mark], now_ms: int) -> Mapping[Kind, int]:
        """Delete what is older than the retention; how many rows of each kind went.

        Rows that are not rolled up yet stay: those of other clusters or times, and those written
        since the run began. So do those whose roll-ups cannot be read any more.
        """
        gone = {}
        kept = self._first_kept_days(now_ms)
        unrolled = min(self._unrolled_day(marks), self._reopen_unreadable(marks, kept))
        for kind, day in kept.items():
            before = min(day, unrolled) if kind in RAW else day
            if before < day:
                self._log_step("kept_for_rollup", {"kind": kind.value, "from_day": unrolled})
            if self._fence is not None:
                self._fence.check()
            gone[kind] = self._store.delete_before(kind, before)
        return {kind: rows for kind, rows in gone.items() if rows}

    def _first_kept_days(self, now_ms: int | None = None) -> Mapping[Kind, str]:
        """The first day that the retention keeps, of the kinds that are not kept for ever."""
        now_ms = self._now_ms if now_ms is None else now_ms
        return {
            kind: day_of(now_ms - days * DAY_MS)
            for kind, days in retention_days(self._ref.settings).items()
            if days
        }

    def _unrolled_day(self, marks: Mapping[str, Mark]) -> str:
        """The first day of which some rows are not rolled up yet."""
        changed = [
            begin
            for cluster in self._rollups.clusters()
            for seen in (self._rollups.look(cluster, marks.get(cluster, {})),)
            for begin, _ in (*seen.changed, *self._lost(seen))
        ]
        return day_of(min(changed, default=self._now_ms))

    def _reopen_unreadable(self, marks: dict[str, Mark], kept: Mapping[Kind, str]) -> str:
        """Have the next run make roll-ups anew that cannot be read, while their raw rows are there.

        Returns the first day whose raw rows must stay for that.
        """
        raw_days = [day for kind, day in kept.items() if kind in RAW]
        if not raw_days:
            return day_of(self._now_ms)
        before_ms = day_start_ms(max(raw_days))
        found = {
            cluster: broken
            for cluster in self._rollups.clusters()
            if (broken := union(self._rollups.unreadable(cluster, before_ms)))
        }
        if not found:
            return day_of(self._now_ms)
        for cluster, broken in found.items():
            mark = marks.get(cluster, {})
            marks[cluster] = {**mark, "intent": union([*_intent(mark), *broken])}
        self._save(marks)
        first = day_of(min(broken[0][0] for broken in found.values()))
        self._problems[
            f"raw rows from {first} on are kept, because roll-ups made of them cannot be read. The "
            "next run makes them anew; delete the files that were set aside after that"
        ] = None
        return first


def _newest_ms(seen: Iterable[RawRows]) -> int:
    """Until when there are raw rows that are surely of their time; the end of time without any.

    The last ones after a gap of a day count only once they are of a whole day themselves, or others
    follow: the service may have recorded them by a clock that was wrong.
    """
    held = union(span for look in seen for span in look.held)
    if not held:
        return EVER_MS
    stretches = [held[0]]
    for begin, end in held[1:]:
        first, before = stretches[-1]
        if begin - before < DAY_MS:
            stretches[-1] = (first, end)
        else:
            stretches.append((begin, end))
    begin, end = stretches[-1]
    return end if len(stretches) == 1 or end - begin >= DAY_MS else stretches[-2][1]


def _intent(mark: Mark) -> Ranges:
    """Work that a killed run left unfinished."""
    return union((int(first), int(last)) for first, last in mark.get("intent", ()))
