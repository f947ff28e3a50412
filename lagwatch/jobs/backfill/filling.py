"""Fills one cluster's gaps by replaying what Kafka, or a copy, still has of them."""

import contextlib
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import orjson
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lagwatch.core.record import SCHEMA_VERSION, EventName, Kind, Source, from_rows
from lagwatch.errors import HistoryError, JobError
from lagwatch.history.layout import HOUR_MS
from lagwatch.jobs.backfill.coverage import Read, committing, look_at, within
from lagwatch.jobs.backfill.inputs import (
    Input,
    gaps_before,
    judged_instants,
    log_end_instants,
    sample_instants,
)
from lagwatch.jobs.backfill.plan import BackfillPlan, Plans, basis_of, new_plan
from lagwatch.jobs.backfill.recorded import changes_after, gaps_of
from lagwatch.jobs.backfill.request import BackfillRequest, ClusterBackfill, ProgressDisplay
from lagwatch.jobs.backfill.shard import COUNTED, RECEIPTS, ShardWork, before
from lagwatch.jobs.backfill.stream import for_shards, in_time_order, sharded
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.sources.sink import persist
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports.history import EVER_MS

BACKFILLED: Final = "backfilled"
"""Column `after` of the event that lists the filled times and those left unfilled."""

_SHARDS_PER_CORE: Final = 2
_QUARANTINED: Final = 1_000
_LOOK_EVERY_S: Final = 1.0


class Filling:
    """Fills clusters one after the other."""

    def __init__(
        self,
        spark: SparkSession,
        ref: StoreRef,
        request: BackfillRequest,
        run: JobRun,
        *,
        now_ms: int,
        progress: ProgressDisplay,
    ) -> None:
        self._spark = spark
        self._ref = ref
        self._request = request
        self._run = run
        self._now_ms = now_ms
        self._progress = progress
        self._plans = Plans(run.state)

    def fill(self, cluster: str, past: Input) -> Iterator[ClusterBackfill]:
        """Finish the work of an earlier run, then fill the other gaps.

        Nothing is filled from an instant on at which an open transaction hides commits: rows that
        are missing can be filled later, wrong ones would stay.
        """
        request = self._request
        basis = basis_of(request.source, request.where, request.replay)
        if not request.dry_run:
            self._plans.tidy(cluster)
        begun = self._plans.under_way(cluster)
        goes_on = not request.dry_run and begun is not None and begun.basis == basis
        # where a transaction hides some of it by now, what is left is planned anew
        if begun is not None and goes_on and not _held_back(past, begun.to_ms):
            yield self._carry_out(begun, past, resumed=True)
            begun = None
        self._progress.step(f"{cluster}: looking for gaps")
        gaps = gaps_of(
            self._spark,
            self._ref,
            request,
            cluster,
            unfinished=begun.gaps if begun is not None else (),
            aside=lambda _, reason: self._run.put_aside(reason),
        )
        # asked before anything is read: what opens later is behind the end of the gaps
        held = _held_back(past, gaps[-1].to_ms) if gaps else {}
        if held:
            gaps = gaps_before(gaps, min(held.values()))
        if not sample_instants(gaps, request.replay.interval_ms).size:
            yield ClusterBackfill(cluster=cluster, gaps=(), rounds=0, held_back=held)
            return
        shards = request.shards or _SHARDS_PER_CORE * _parallelism(self._spark)
        plan = new_plan(cluster, basis, gaps, shards=shards, now_ms=self._now_ms)
        if request.dry_run:
            with self._read(plan, past) as (_, read):
                yield replace(self._found(plan, past, read, resumed=False), held_back=held)
            return
        if begun is not None:
            self._plans.end(begun)
        self._plans.begin(plan)
        yield replace(self._carry_out(plan, past, resumed=False), held_back=held)

    def _carry_out(self, plan: BackfillPlan, past: Input, *, resumed: bool) -> ClusterBackfill:
        with self._read(plan, past) as (offsets, read):
            done = self._found(plan, past, read, resumed=resumed)
            if read.malformed:
                self._quarantine(plan, past, read.malformed)
            if read.topics:
                done = self._replay(plan, past, offsets, read, done)
        self._record(done, plan, changed=bool(read.topics))
        self._run.clusters.add(plan.cluster)
        self._plans.end(plan)
        return done

    @contextlib.contextmanager
    def _read(self, plan: BackfillPlan, past: Input) -> Iterator[tuple[DataFrame, Read]]:
        """The offsets topic, read once and kept on the workers' disks."""
        self._progress.step(f"{plan.cluster}: reading commits")
        from_ms, to_ms = self._times(plan)
        kept = (
            past.offsets(self._spark, from_ms=from_ms, to_ms=to_ms)
            .transform(within(from_ms, to_ms))
            .persist(StorageLevel.DISK_ONLY)
        )
        try:
            yield kept, look_at(kept, plan.shards)
        finally:
            kept.unpersist()

    def _times(self, plan: BackfillPlan) -> tuple[int, int]:
        """Commits from the oldest that a group alive at the beginning of the gap can have made."""
        return max(0, plan.from_ms - self._request.replay.monitor.expire_ms), plan.to_ms

    def _swallowed(
        self, plan: BackfillPlan, past: Input, read: Read, places: Collection[int]
    ) -> tuple[str, ...]:
        """Groups on partitions that lack commits, with later commits and none left of the time.

        Compaction keeps the last commit of a key, so an active group may have left no trace.
        """
        if not places:
            return ()
        self._progress.step(f"{plan.cluster}: reading which groups committed later")
        later = past.offsets(self._spark, from_ms=plan.to_ms, to_ms=EVER_MS)
        found = {row["group"] for row in later.transform(committing(places)).collect()}
        return tuple(sorted(found - {group.group for group in read.partly}))

    def _found(
        self, plan: BackfillPlan, past: Input, read: Read, *, resumed: bool
    ) -> ClusterBackfill:
        # commits that are missing before the gap do not affect it
        lacking = {
            place: at_ms for place, at_ms in read.complete_from.items() if at_ms > plan.from_ms
        }
        return ClusterBackfill(
            cluster=plan.cluster,
            gaps=plan.gaps,
            rounds=sample_instants(plan.gaps, self._request.replay.interval_ms).size,
            resumed=resumed,
            commits=read.commits,
            groups=read.groups,
            malformed=read.malformed,
            first_commit_ms=read.first_ms,
            complete_from=lacking,
            partly=tuple(group for group in read.partly if group.from_ms > plan.from_ms),
            swallowed=self._swallowed(plan, past, read, lacking),
        )

    def _replay(
        self,
        plan: BackfillPlan,
        past: Input,
        offsets: DataFrame,
        read: Read,
        found: ClusterBackfill,
    ) -> ClusterBackfill:
        settings = self._request.replay
        topics = sorted({topic for _, topic in read.topics})
        at_ms = log_end_instants(
            plan.gaps,
            settings.interval_ms,
            history_ms=settings.monitor.history_ms,
            begin_ms=min(read.begins.values(), default=0),
        )
        used = self._spark.createDataFrame(sorted(read.topics), "shard int, topic string")
        log_ends = past.log_ends(self._spark, at_ms, topics).transform(for_shards(used))
        stream = offsets.transform(sharded(plan.shards)).unionByName(log_ends)
        counts: Counter[str] = Counter()
        for ledger in self._plans.ledgers(plan):
            if ledger.whole:
                counts.update(_before(ledger.counts))
                stream = stream.where(F.col("shard") != ledger.shard)
        work = ShardWork(
            plan=plan,
            settings=settings,
            complete_from=dict(read.complete_from),
            begins=dict(read.begins),
            ref=self._ref,
            fence=self._run.fence,
        )
        self._progress.step(f"{plan.cluster}: judging")
        with _watched(self._plans, plan, self._progress, total=self._parts(plan, read)):
            receipts = (
                stream.transform(in_time_order(plan.shards)).mapInArrow(work, RECEIPTS).collect()
            )
        for receipt in receipts:
            counts[receipt["what"]] += receipt["number"]
        return replace(found, counts=counts, unseen=tuple(past.unseen(topics)))

    def _parts(self, plan: BackfillPlan, read: Read) -> int:
        """How many parts there will be: one for each hour and shard, unless they are very large."""
        step_ms = self._request.replay.interval_ms
        return sum(
            np.unique(judged_instants(plan.gaps, step_ms, begin_ms=begin_ms) // HOUR_MS).size
            for begin_ms in read.begins.values()
        )

    def _quarantine(self, plan: BackfillPlan, past: Input, malformed: int) -> None:
        """Name the records that could not be decoded; keep them with their bytes."""
        from_ms, to_ms = self._times(plan)
        refused = past.refused(self._spark, from_ms=from_ms, to_ms=to_ms, most=_QUARANTINED)
        for record in refused:
            self._run.put_aside(f"{plan.cluster}: {record.sentence()}")
        self._run.count("set_aside", max(0, malformed - len(refused)))
        self._run.state.save(
            f"quarantine-backfill-{plan.id}",
            {"cluster": plan.cluster, "records": [record.plain() for record in refused]},
        )

    def _record(self, done: ClusterBackfill, plan: BackfillPlan, *, changed: bool) -> None:
        """Record which gaps were filled and which were not, and what changed at their ends."""
        row: dict[str, Any] = {
            "cluster": plan.cluster,
            "event": EventName.RECORDING.value,
            "at_ms": plan.from_ms,
            "after": BACKFILLED,
            "count": done.count(Kind.SAMPLES) + done.count(before(Kind.SAMPLES)),
            "detail": orjson.dumps(done.coverage()).decode(),
            "source": Source.BACKFILL.value,
            "schema_version": SCHEMA_VERSION,
        }
        step_ms = self._request.replay.interval_ms
        rows = [row]
        if changed:
            rows += changes_after(self._spark, self._ref, plan.cluster, plan.gaps, step_ms=step_ms)
        store = self._ref.open(self._run.fence)
        try:
            batch = f"{plan.from_ms:013d}-backfill-{plan.id}-said"
            persist(partial(store.write, [from_rows(Kind.EVENTS, rows)], batch=batch))
        finally:
            store.close()


def _held_back(past: Input, to_ms: int) -> dict[int, int]:
    """`Input.held_back`, of what is before an instant."""
    return {place: at_ms for place, at_ms in past.held_back().items() if at_ms < to_ms}


def _before(counts: Mapping[str, int]) -> Counter[str]:
    """Counts of a shard that an earlier run completed."""
    names = {kind.value: before(kind) for kind in COUNTED}
    found: Counter[str] = Counter()
    for what, number in counts.items():
        found[names.get(what, what)] += number
    return found


def _parallelism(spark: SparkSession) -> int:
    """Number of tasks that can run at once.

    A guess with Spark Connect, which does not report it.
    """
    try:
        return max(1, spark.sparkContext.defaultParallelism)
    except (PySparkException, AttributeError):
        return max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "8") or 8) // 2)


@contextlib.contextmanager
def _watched(
    plans: Plans, plan: BackfillPlan, progress: ProgressDisplay, *, total: int
) -> Iterator[None]:
    """Show how many parts the ledgers list while the block runs; `total` is an estimate."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_LOOK_EVERY_S):
            with contextlib.suppress(HistoryError, JobError):  # it only shows progress
                done = sum(ledger.parts for ledger in plans.ledgers(plan))
                progress.move(min(done, total), total)

    watcher = threading.Thread(target=look, name="backfill-progress", daemon=True)
    watcher.start()
    try:
        yield
        progress.move(total, total)
    finally:
        stop.set()
        watcher.join()
