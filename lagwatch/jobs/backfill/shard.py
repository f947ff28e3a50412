"""The task of one shard: replay its stream, write the rows, keep the ledger."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark.sql import types as T

from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.inputs import judged_instants
from lagwatch.jobs.backfill.plan import BackfillPlan, Ledger
from lagwatch.jobs.backfill.recording import Part
from lagwatch.jobs.backfill.replay import Replay, ReplaySettings
from lagwatch.jobs.backfill.stream import commit_rows, gone_rows, log_end_rows
from lagwatch.jobs.fence import Fence, FencedState
from lagwatch.jobs.sources.sink import persist
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.ports.history import HistoryStore

RECEIPTS: Final = T.StructType(
    [
        T.StructField("shard", T.IntegerType()),
        T.StructField("what", T.StringType()),
        T.StructField("number", T.LongType()),
    ]
)
"""One count of a shard: its name and number."""
COUNTED: Final = (Kind.SAMPLES, Kind.GROUP_SAMPLES, Kind.EVENTS)


def before(kind: Kind) -> str:
    """Counts rows that an earlier run, which was killed, has written."""
    return f"{kind.value}_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """Everything a task needs; goes to the workers, secrets of the store and all."""

    plan: BackfillPlan
    settings: ReplaySettings
    complete_from: Mapping[int, int]
    begins: Mapping[int, int]
    """Shard → its oldest commit."""
    ref: StoreRef
    fence: Fence | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Replay the stream of one shard; gives its receipts.

        Raises:
            HistoryError: the store refuses, or was away for too long; what it took stays.
            JobError: `fenced`: another run has the lock by now.
        """
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        shard = first.column("shard")[0].as_py()
        state = FencedState(open_state(self.ref.settings), self.fence)
        ledger = Ledger(state, self.plan, shard)
        store = self.ref.open(self.fence)
        try:
            counts = self._replay(chain([first], batches), ledger, store)
        finally:
            store.close()
        ledger.close(counts)
        yield _receipts(shard, counts)

    def _replay(
        self, batches: Iterator[pa.RecordBatch], ledger: Ledger, store: HistoryStore
    ) -> Counter[str]:
        # of a shard that only has deletions of groups nothing is judged
        begin_ms = self.begins.get(ledger.shard, self.plan.to_ms)
        run = Replay(
            self.plan.cluster,
            self.settings,
            sample_ms=judged_instants(self.plan.gaps, self.settings.interval_ms, begin_ms=begin_ms),
            complete_from=self.complete_from,
        )
        counts: Counter[str] = Counter()
        for part in chain(_fed(run, batches), run.finish()):
            known = ledger.has(part.from_ms, part.to_ms)
            counts.update(_counted(part, known=known))
            if not known:
                self._write(part, ledger, store)
        counts.update(stale=run.stale, rejected=store.rejected_rows)
        return counts

    def _write(self, part: Part, ledger: Ledger, store: HistoryStore) -> None:
        if part.records:
            # parts that were written but not yet in the ledger are written again under the same
            # names
            batch = f"{part.from_ms:013d}-backfill-{self.plan.id}-{ledger.shard:04d}"
            persist(partial(store.write, part.records, batch=batch))
        ledger.add(part.from_ms, part.to_ms)


def _fed(run: Replay, batches: Iterator[pa.RecordBatch]) -> Iterator[Part]:
    for batch in batches:
        yield from run.feed(
            commits=commit_rows(batch), log_ends=log_end_rows(batch), gone=gone_rows(batch)
        )


def _counted(part: Part, *, known: bool) -> dict[str, int]:
    return {
        **{before(kind) if known else kind.value: part.rows(kind) for kind in COUNTED},
        "unknown_lag": part.unknown_lag,
        "incomplete": part.suppressed,
    }


def _receipts(shard: int, counts: Mapping[str, int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "shard": pa.array([shard] * len(counts), pa.int32()),
            "what": pa.array(list(counts), pa.string()),
            "number": pa.array(list(counts.values()), pa.int64()),
        }
    )
