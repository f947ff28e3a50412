"""Takes samples of the live state, regularly and on every change, and puts them into the spool.

`offer` is called after every round of judgement, where the live state is written. It copies what is
needed and returns; a thread of the recorder does the rest. A disk that hangs or is full costs
samples, which are counted, never a round.
"""

import hashlib
import threading
import zlib
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Protocol

import structlog

from lagwatch.clock import Clock
from lagwatch.core.record import Capture, EventName, Insight, Kind, Records, from_rows
from lagwatch.core.record.build import floor_ms
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import HistoryError
from lagwatch.history.changes import changed_status, changes, differ, event
from lagwatch.history.insights import Explain, insights
from lagwatch.history.pauses import Pause, Pauses, ended
from lagwatch.history.pauses import events as events_of_pauses
from lagwatch.history.spool import Spool
from lagwatch.history.thinning import Thinner
from lagwatch.history.unchanged import resting_groups
from lagwatch.memory import give_back

_NOTHING_FOUND: Final[Mapping[str, Insight]] = {}


FULL: Final = "the spool is full, so the oldest samples are dropped"
_MOST_WAITING: Final = 8
"""Captures that may wait for the thread; each holds a snapshot."""
_SET_BACK_INTERVALS: Final = 2
_MANY_ROWS: Final = 32_768
"""Rows that need so much memory while they are made that it is given back afterwards."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderSettings:
    """Settings of the recorder."""

    interval_ms: int
    full_every: int
    """Rounds after which an unchanged partition is written all the same; 1 = every round."""


class RowListener(Protocol):
    """Notified when new rows are in the spool."""

    def __call__(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    capture: Capture
    round_ms: int | None
    """Instant of a regular round; None if only changes are written."""
    gaps: tuple[Pause, ...] = ()
    """Gaps that end with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handed:
    """Rows handed in by a caller that waits for them."""

    records: Records
    kept: Future[None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """What was found out about a group in trouble."""

    at_ms: int
    insight: Insight


@dataclass(slots=True)
class _Cluster:
    """One cluster, as the thread knows it."""

    thinner: Thinner
    series: str
    before: Capture | None = None
    """The last capture whose changes are written."""
    gaps: list[Pause] = field(default_factory=list)
    """Gaps that ended and whose events are not written yet."""
    failed: Pause | None = None
    """Rounds that could not be written, up to now."""


@dataclass(slots=True, kw_only=True)
class RecorderCounts:
    """Totals since the start."""

    rounds: int = 0
    rows: int = 0
    unchanged: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class Recorder:
    """Records all clusters. `offer` from one thread; `start` and `stop` once each."""

    def __init__(
        self,
        spool: Spool,
        settings: RecorderSettings,
        clock: Clock,
        *,
        appended: RowListener,
        explain: Explain | None = None,
    ) -> None:
        """`explain` finds causes and forecasts; without it none are recorded."""
        self._spool = spool
        self._settings = settings
        self._clock = clock
        self._appended = appended
        self._explain = explain
        self.counts = RecorderCounts()
        self.problem = ""
        """The present problem; "" when there is none."""
        self._offered: dict[str, Capture] = {}
        self._explained: dict[str, dict[str, _Explained]] = {}
        """By cluster and group, as of what was last offered."""
        self._rounds: dict[str, int] = {}
        self._clusters: dict[str, _Cluster] = {}
        self._gaps = Pauses(spool)
        self._paused: dict[str, tuple[Pause, ...]] = {}
        """Gaps whose events the next capture of the cluster brings."""
        for gap in self._gaps.all():
            self._paused[gap.cluster] = (*self._paused.get(gap.cluster, ()), gap)
        self._began: deque[Pause] = deque()
        self._waiting: deque[_Job] = deque()
        self._handed: deque[_Handed] = deque()
        self._lost: set[str] = set()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="history-recorder", daemon=True)

    # the side of the live state

    def offer(self, snapshot: ClusterSnapshot, rebalances: Mapping[str, int] | None) -> None:
        """Record this snapshot if it is time, or if something changed. Never waits.

        A snapshot of stale data is passed over; `pause` says why.
        """
        if snapshot.stale:
            return
        cluster = snapshot.cluster
        round_ms = floor_ms(snapshot.at_ms, self._settings.interval_ms)
        due = self._due(cluster, round_ms)
        before = self._offered.get(cluster)
        gaps = tuple(
            gap if gap.to_ms is not None else ended(gap, snapshot.at_ms)
            for gap in self._paused.pop(cluster, ())
        )
        news = due or bool(gaps) or before is None or differ(before, snapshot, rebalances)
        if not news:
            return
        old = None if before is None else before.snapshot
        found = self._insights(old, snapshot, None if due else changed_status(old, snapshot))
        now = Capture(
            snapshot=snapshot,
            rebalances=None if rebalances is None else dict(rebalances),
            insights=found,
        )
        self._offered[cluster] = now
        if due:
            self._rounds[cluster] = round_ms
        self._enqueue(_Job(capture=now, round_ms=round_ms if due else None, gaps=gaps))

    def _insights(
        self, old: ClusterSnapshot | None, new: ClusterSnapshot, only: Collection[str] | None
    ) -> Mapping[str, Insight]:
        """Causes and forecasts, here and not in the thread: they come from the live windows.

        Those of a group that rests stay until its turn comes, as rows of unchanged partitions do:
        not all are found anew in one round.
        """
        if self._explain is None:
            return _NOTHING_FOUND
        resting = frozenset[str]() if old is None else resting_groups(old, new)
        stale = new.stale_groups()
        known = {
            group: entry
            for group, entry in self._explained.get(new.cluster, {}).items()
            if group in resting
            and self._turns(group, entry.at_ms) == self._turns(group, new.at_ms)
            and not stale[new.group_index[group]]
        }
        if only is None or only:
            found = insights(new, self._explain(new, only, known))
            known |= {
                group: _Explained(at_ms=new.at_ms, insight=each) for group, each in found.items()
            }
        self._explained[new.cluster] = known
        return {group: entry.insight for group, entry in known.items()}

    def _turns(self, group: str, at_ms: int) -> int:
        """How many turns of a group there have been; one in `full_every` rounds."""
        first = zlib.crc32(group.encode("utf-8", "replace"))
        every = self._settings.full_every
        return (at_ms // self._settings.interval_ms - first % every) // every

    def pause(self, cluster: str, at_ms: int, reason: str) -> None:
        """Leave this round out, because its data are stale. Never waits.

        The gap becomes events at the next `offer`. One that never was recorded has no gap.
        """
        lasts = any(gap.to_ms is None for gap in self._paused.get(cluster, ()))
        if lasts or (cluster not in self._offered and self._last_round(cluster) < 0):
            return
        gap = Pause(cluster=cluster, from_ms=at_ms, reason=reason)
        self._paused[cluster] = (*self._paused.get(cluster, ()), gap)
        with self._wake:
            self._began.append(gap)
            self._wake.notify()

    def record_rows(self, records: Records) -> Future[None]:
        """Record rows other than samples; the future is done when they are in the spool.

        It raises `HistoryError` if they could not be written. For any thread; never waits.
        """
        handed = _Handed(records=records, kept=Future())
        with self._wake:
            if self._stopping:
                handed.kept.set_exception(_stopped())
            else:
                self._handed.append(handed)
                self._wake.notify()
        return handed.kept

    def _due(self, cluster: str, round_ms: int) -> bool:
        """True for the first snapshot of an interval, and again after the clock was set back."""
        ahead_ms = self._last_round(cluster) - round_ms
        return ahead_ms < 0 or ahead_ms > _SET_BACK_INTERVALS * self._settings.interval_ms

    def _last_round(self, cluster: str) -> int:
        """A service that was restarted within an interval must not record it again."""
        if cluster not in self._rounds:
            self._rounds[cluster] = self._spool.last_round(series_of(cluster)) or -1
        return self._rounds[cluster]

    def _enqueue(self, job: _Job) -> None:
        with self._wake:
            if len(self._waiting) >= _MOST_WAITING:
                late = self._waiting.popleft()
                self._lost.add(late.capture.snapshot.cluster)
                self._drop("behind", _rows(late))
                if late.gaps:
                    job = self._with_gaps(late, job)
            self._waiting.append(job)
            self._wake.notify()

    def _with_gaps(self, late: _Job, job: _Job) -> _Job:
        """The gaps of a job that is dropped go with the next one of its cluster."""
        cluster = late.capture.snapshot.cluster
        for place, other in enumerate(self._waiting):
            if other.capture.snapshot.cluster == cluster:
                self._waiting[place] = replace(other, gaps=(*late.gaps, *other.gaps))
                return job
        if job.capture.snapshot.cluster == cluster:
            return replace(job, gaps=(*late.gaps, *job.gaps))
        self._paused[cluster] = (*late.gaps, *self._paused.get(cluster, ()))
        return job

    # the thread

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Write waiting rows, record that recording stops, and end; give up after `within_s`."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._waiting or self._handed or self._began or self._stopping):
                    self._wake.wait()
                if not (self._waiting or self._handed or self._began):
                    break
                began = self._began.popleft() if self._began else None
                handed = self._handed.popleft() if self._handed else None
                job = self._waiting.popleft() if self._waiting else None
            if began is not None:
                self._gaps.keep(began)
            if handed is not None:
                self._keep(handed)
            if job is not None:
                before = self.counts.rows
                self._guarded(job)
                # looking for free pages takes longer than to record a round of few changes
                if self.counts.rows - before >= _MANY_ROWS:
                    give_back()
        self._say_stopped()

    def work(self) -> None:
        """Write waiting rows in this thread; for callers that do not `start`."""
        while self._began:
            self._gaps.keep(self._began.popleft())
        while self._handed:
            self._keep(self._handed.popleft())
        while self._waiting:
            self._guarded(self._waiting.popleft())

    def _keep(self, handed: _Handed) -> None:
        if not handed.kept.set_running_or_notify_cancel():
            return
        try:
            self._spool.append([handed.records])
        except HistoryError as error:
            handed.kept.set_exception(error)
            return
        except Exception as error:  # noqa: BLE001 who waits must not wait for ever
            _log.exception("history_event_failed")
            handed.kept.set_exception(_not_kept(error))
            return
        self.counts.rows += handed.records.size
        handed.kept.set_result(None)
        self._appended()

    def _guarded(self, job: _Job) -> None:
        try:
            self._record(job)
        except Exception:  # noqa: BLE001 whatever it was, the next round is recorded
            self._lost.add(job.capture.snapshot.cluster)
            self._drop("error", _rows(job))
            self.problem = "recording failed; the log says more"
            _log.exception("history_round_failed", cluster=job.capture.snapshot.cluster)

    def _record(self, job: _Job) -> None:
        snapshot = job.capture.snapshot
        state = self._cluster(snapshot.cluster)
        self._end_gaps(state, job)
        gaps = [*state.gaps, *_over(state, job)]
        found = [*events_of_pauses(gaps), *self._changes(state, job)]
        records: Iterable[Records] = (part for part in found if part.size)
        rows, unchanged = sum(part.size for part in found), 0
        if job.round_ms is not None:
            taken = state.thinner.round(job.capture, at_ms=job.round_ms)
            groups = [taken.groups] if taken.groups.size else []
            records = chain(records, taken.parts(), groups)
            rows, unchanged = rows + taken.rows, taken.unchanged
        series = state.series if job.round_ms is not None else ""
        if rows and not self._append(records, rows, series=series):
            state.thinner.reset()
            if state.failed is None and job.round_ms is not None:
                state.failed = Pause(
                    cluster=snapshot.cluster,
                    from_ms=job.round_ms,
                    reason=self.problem,
                    word="failed",
                )
            return
        if job.round_ms is not None:
            state.failed = None
        if state.gaps:
            self._gaps.drop(state.gaps)
            state.gaps = []
        state.before = job.capture
        self.counts.unchanged += unchanged
        self.counts.rounds += job.round_ms is not None

    def _end_gaps(self, state: _Cluster, job: _Job) -> None:
        """Save the ends before the events, so that a kill in between repeats the same events."""
        for gap in job.gaps:
            self._gaps.keep(gap)
        state.gaps += job.gaps

    def _cluster(self, name: str) -> _Cluster:
        state = self._clusters.get(name)
        if state is None:
            settings = self._settings
            thinner = Thinner(interval_ms=settings.interval_ms, full_every=settings.full_every)
            state = self._clusters[name] = _Cluster(thinner=thinner, series=series_of(name))
        if name in self._lost:
            self._lost.discard(name)
            state.thinner.reset()
        return state

    def _changes(self, state: _Cluster, job: _Job) -> list[Records]:
        """Rows for what changed; in a regular round only the events, it has the samples."""
        after = job.capture.snapshot
        if state.before is None:
            # `resumed` says it already, and has the same key
            return [] if state.gaps else [self._said(after, "started")]
        found = changes(state.before, job.capture, interval_ms=self._settings.interval_ms)
        # an instant on the grid belongs to the regular rounds
        if job.round_ms is not None or after.at_ms % self._settings.interval_ms == 0:
            return [found.events]
        state.thinner.write_whole(found.changed_groups)
        return found.records

    def _said(self, snapshot: ClusterSnapshot, word: str) -> Records:
        row = event(snapshot.cluster, snapshot.at_ms, EventName.RECORDING, after=word)
        return from_rows(Kind.EVENTS, [row])

    def _append(self, records: Iterable[Records], rows: int, *, series: str) -> bool:
        try:
            dropped = self._spool.append(records, series=series)
        except HistoryError as error:
            self._drop(error.kind, rows)
            self.problem = str(error)
            _log.warning("history_not_recorded", reason=str(error), rows=rows)
            return False
        self.counts.rows += rows
        if dropped:
            self._drop("spool_full", dropped)
            # later rounds refer to rows that were dropped: write the next one in full
            for state in self._clusters.values():
                state.thinner.reset()
            self.problem = FULL
            _log.warning("history_spool_full", dropped=dropped)
        elif self.problem:
            self.problem = ""
            _log.info("history_recording_again")
        self._appended()
        return True

    def _drop(self, reason: str, rows: int) -> None:
        self.counts.dropped[reason] += rows

    def _say_stopped(self) -> None:
        for state in self._clusters.values():
            if state.before is not None:
                snapshot = state.before.snapshot
                row = event(
                    snapshot.cluster, self._clock.now_ms(), EventName.RECORDING, after="stopped"
                )
                self._append([from_rows(Kind.EVENTS, [row])], 1, series="")


def _stopped() -> HistoryError:
    return HistoryError(
        store="spool", kind="closed", message="lagwatch is stopping: try again", retryable=True
    )


def _not_kept(error: Exception) -> HistoryError:
    return HistoryError(
        store="spool", kind="io", message=f"it was not recorded: {error}", retryable=True
    )


def series_of(cluster: str) -> str:
    """The name of a cluster's rounds in the names of files."""
    return hashlib.blake2b(cluster.encode("utf-8", "replace"), digest_size=6).hexdigest()


def _over(state: _Cluster, job: _Job) -> list[Pause]:
    """The rounds that could not be written, if this one can be."""
    if state.failed is None or job.round_ms is None:
        return []
    return [ended(state.failed, job.round_ms)]


def _rows(job: _Job) -> int:
    """Rows that go with a job: all of a round, one at least for changes."""
    return int(job.capture.snapshot.rows.lag.size) if job.round_ms is not None else 1
