"""A run of a job: alone on its store, logged, counted, and remembered when it ends."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson
import structlog

from lagwatch.clock import Clock
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.core.record import SCHEMA_VERSION, EventName, Kind, Source, from_rows
from lagwatch.errors import HistoryError, JobError
from lagwatch.history.drivers.registry import open_store
from lagwatch.jobs.fence import Fence, FencedState
from lagwatch.jobs.last_run import LastRun, Outcome, write_textfile
from lagwatch.jobs.lock import Held, only_run
from lagwatch.jobs.state import JobState
from lagwatch.jobs.stores.registry import open_state

_SHOWN: Final = 20
"""At most this many things set aside are logged one by one; the rest are only counted."""

_log = structlog.get_logger()


class JobRun:
    """Counts, steps and problems of a running job."""

    def __init__(self, job: str, state: JobState) -> None:
        self.job = job
        self._state = state
        self.counts: Counter[str] = Counter()
        self.clusters: set[str] = set()
        """Clusters processed; each gets an event."""
        self.set_aside: list[str] = []
        """Files and records that could not be used, a sentence each."""
        self.lock: Held | None = None
        """None: a dry run."""
        self.fence: Fence | None = None
        """Of the lock; whatever writes for the run checks it."""

    @property
    def state(self) -> JobState:
        """What the job keeps from one run to the next; only a run that has its lock changes it."""
        return FencedState(self._state, self.fence)

    def count(self, what: str, number: int) -> None:
        """Add to what is counted: rows_read, rows_written and so on."""
        self.counts[what] += number

    def log_step(self, event: str, **values: Any) -> None:  # noqa: ANN401 what structlog takes
        """One line of the log: what step was done."""
        _log.info("job_step", job=self.job, name=event, **values)

    def put_aside(self, what: str) -> None:
        """Name a file or record that could not be used."""
        self.set_aside.append(what)
        self.counts["set_aside"] += 1
        if len(self.set_aside) <= _SHOWN:
            _log.warning("job_set_aside", job=self.job, what=what)

    @property
    def outcome(self) -> Outcome:
        return Outcome.SET_ASIDE if self.set_aside else Outcome.DONE


@contextmanager
def job_run(
    job: str, history: HistorySettings, settings: JobsSettings, clock: Clock, *, dry: bool = False
) -> Iterator[JobRun]:
    """Run a job alone on its store; whatever happens inside, it is logged and remembered.

    A dry run takes no lock and leaves nothing behind.

    Raises:
        JobError: another run of the job works on the store.
        HistoryError: the store cannot be reached.
    """
    state = open_state(history)
    run = JobRun(job, state)
    if dry:
        yield run
        return
    started_ms = clock.now_ms()
    outcome: Outcome | None = Outcome.FAILED
    try:
        with only_run(job, state, history, clock) as run.lock:
            run.fence = run.lock.fence
            run.log_step("job_started")
            yield run
            outcome = run.outcome
    except JobError as error:
        if error.kind == "locked":
            outcome = None  # the run that holds the lock records the outcome
        raise
    finally:
        if outcome is not None:
            ended = LastRun(
                job=job,
                outcome=outcome,
                started_ms=started_ms,
                ended_ms=clock.now_ms(),
                counts=dict(run.counts),
            )
            _remember(ended, run, history, settings)


def _remember(
    ended: LastRun, run: JobRun, history: HistorySettings, settings: JobsSettings
) -> None:
    """Record the outcome in the log, as metrics and in the history.

    A failure of these is only logged.
    """
    seconds = round((ended.ended_ms - ended.started_ms) / 1000, 1)
    say = _log.info if ended.outcome.succeeded else _log.error
    say("job_ended", job=ended.job, outcome=ended.outcome.value, seconds=seconds, **ended.counts)
    if settings.textfile is not None:
        try:
            write_textfile(settings.textfile, ended)
        except OSError as error:
            _log.warning("job_metrics_not_written", job=ended.job, reason=str(error))
    if not run.clusters:
        return
    try:
        _record(ended, run.clusters, history)
    except HistoryError as error:
        _log.warning("job_not_recorded", job=ended.job, reason=str(error))


def _record(ended: LastRun, clusters: set[str], history: HistorySettings) -> None:
    detail = {
        "job": ended.job,
        "seconds": round((ended.ended_ms - ended.started_ms) / 1000, 1),
        **ended.counts,
    }
    rows = [
        {
            "cluster": cluster,
            "event": EventName.JOB.value,
            "at_ms": ended.ended_ms,
            "after": ended.outcome.value,
            "detail": orjson.dumps(detail).decode(),
            "source": Source.LIVE.value,
            "schema_version": SCHEMA_VERSION,
        }
        for cluster in sorted(clusters)
    ]
    store = open_store(history)
    try:
        batch = f"job-{ended.job}-{ended.ended_ms}"
        store.write([from_rows(Kind.EVENTS, rows)], batch=batch)
    finally:
        store.close()
