"""The history as one part of the service: builds, starts, stops and queries it."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Final

import structlog

from lagwatch.clock import Clock, Witness
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind, Records
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import HistoryError
from lagwatch.history.changes import as_events, as_rows
from lagwatch.history.drivers.registry import open_store
from lagwatch.history.insights import Explain
from lagwatch.history.reader import HistoryReader
from lagwatch.history.recorder import FULL, Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from lagwatch.ports.history import RecorderHealth
from lagwatch.ports.queries import GroupEvent, Loss

_AGAIN_AFTER_MS: Final = 30_000
_MB: Final = 1_000_000
_RECORD_WITHIN_S: Final = 10.0

_log = structlog.get_logger()


class History:
    """Records rows, delivers them and answers queries. `offer` never raises and never waits."""

    def __init__(
        self,
        settings: HistorySettings,
        clock: Clock,
        explain: Explain | None = None,
        *,
        witness: Witness = lambda: None,
    ) -> None:
        """Raises `HistoryError` when the store cannot be understood; nothing is opened yet.

        `explain` finds causes and forecasts; without it none are recorded. `witness`: nothing is
        deleted by a clock that may be wrong.
        """
        self._witness = witness
        self._settings = settings
        self._clock = clock
        self._explain = explain
        self.store = open_store(settings)
        self.queries = HistoryReader(
            self.store,
            interval_ms=_interval_ms(settings),
            full_ms=round(settings.full_s * 1000),
        )
        self._spool: Spool | None = None
        self._recorder: Recorder | None = None
        self._writer: Writer | None = None
        self._problem = ""
        self._tried_ms = -_AGAIN_AFTER_MS

    def start(self) -> None:
        """Open the spool and start; retries later on failure."""
        now_ms = self._clock.now_ms()
        if self._spool is not None or now_ms - self._tried_ms < _AGAIN_AFTER_MS:
            return
        self._tried_ms = now_ms
        try:
            spool = Spool(
                self._settings.spool,
                max_bytes=self._settings.spool_size_mb * _MB,
                spool_id=secrets.token_hex(4),
            )
        except HistoryError as error:
            self._problem = str(error)
            _log.warning("history_not_started", reason=str(error))
            return
        self._problem = ""
        writer = Writer(
            spool,
            self.store,
            _writer_settings(self._settings),
            self._clock,
            witness=self._witness,
        )
        recorder = Recorder(
            spool,
            recorder_settings(self._settings),
            self._clock,
            appended=writer.notify,
            explain=self._explain,
        )
        self._spool, self._writer, self._recorder = spool, writer, recorder
        writer.start()
        recorder.start()

    def offer(self, snapshot: ClusterSnapshot, rebalances: Mapping[str, int] | None) -> None:
        """Call after every round of judgement, in the thread that writes the windows."""
        self.start()
        if self._recorder is not None:
            self._recorder.offer(snapshot, rebalances)

    def pause(self, cluster: str, at_ms: int, reason: str) -> None:
        """Call instead of `offer` for a round whose data are stale."""
        self.start()
        if self._recorder is not None:
            self._recorder.pause(cluster, at_ms, reason)

    def lost(self, cluster: str, losses: Sequence[Loss]) -> None:
        """Record messages that were deleted before a group read them; never waits."""
        if not losses:
            return
        self.start()
        if self._recorder is None:
            _log.warning("losses_not_recorded", cluster=cluster, losses=len(losses))
            return
        kept = self._recorder.record_rows(as_events(cluster, losses))
        kept.add_done_callback(lambda done: _log_if_not_kept(done, cluster))

    def happened(self, cluster: str, events: Sequence[GroupEvent]) -> None:
        """Record events of groups; never waits."""
        if not events:
            return
        self.start()
        if self._recorder is None:
            _log.warning("events_not_recorded", cluster=cluster, events=len(events))
            return
        kept = self._recorder.record_rows(as_rows(cluster, events))
        kept.add_done_callback(lambda done: _log_if_not_kept(done, cluster))

    async def record_rows(self, records: Records) -> None:
        """Record rows other than samples; returns when they are safe on disk.

        Raises:
            HistoryError: they could not be written, or not in time.
        """
        self.start()
        if self._recorder is None:
            raise HistoryError(
                store="spool",
                kind="closed",
                message=f"nothing can be recorded now: {self._problem or 'the spool is not open'}",
                retryable=True,
            )
        try:
            async with asyncio.timeout(_RECORD_WITHIN_S):
                await asyncio.wrap_future(self._recorder.record_rows(records))
        except TimeoutError as error:
            raise HistoryError(
                store="spool",
                kind="timeout",
                message=f"the spool's disk did not answer within {_RECORD_WITHIN_S:g} s",
                retryable=True,
            ) from error

    def stop(self, within_s: float) -> None:
        """Write waiting rows into the spool and, if the store accepts them, into the store."""
        if self._recorder is not None:
            self._recorder.stop(within_s / 2)
        if self._writer is not None:
            self._writer.stop(within_s / 2)
        if self._spool is not None:
            self._spool.close()

    @property
    def remark(self) -> str:
        """What of the store could not be used, and what to do; "" when all can."""
        set_aside = self.store.set_aside
        if not set_aside:
            return ""
        more = f" (and {len(set_aside) - 1} more)" if len(set_aside) > 1 else ""
        return (
            f"{set_aside[0]}{more}. Its rows are missing in answers and reports: bring it back "
            "from a backup or remove it, then `lagwatch rollup --from DAY` makes roll-ups of that "
            "day anew; `lagwatch history verify` names every such part"
        )

    def health(self) -> RecorderHealth:
        """State of recording and delivery."""
        recorder, writer, spool = self._recorder, self._writer, self._spool
        if recorder is None or writer is None or spool is None:
            return RecorderHealth(enabled=True, problem=self._problem)
        fill = spool.fill()
        dropped = {**recorder.counts.dropped}
        if writer.corrupt:
            dropped["corrupt"] = writer.corrupt
        if rejected := self.store.rejected_rows:
            dropped["rejected"] = rejected
        return RecorderHealth(
            enabled=True,
            problem=_problem(recorder.problem, writer.problem),
            rounds=recorder.counts.rounds,
            rows=recorder.counts.rows,
            unchanged=recorder.counts.unchanged,
            dropped=dropped,
            spool_bytes=fill.size_bytes,
            spool_segments=fill.segments,
            oldest_ms=fill.oldest_ms,
            delivered=writer.delivered,
            retries=writer.retries,
        )


def _problem(recording: str, delivering: str) -> str:
    """The problem and its remedy. A full spool means that the store does not accept rows."""
    if recording != FULL:
        return recording or delivering
    why = delivering or "the store takes rows more slowly than they come"
    return (
        f"{FULL}: {why} Repair the store; until then a larger history.spool_size_mb keeps rows "
        "for longer."
    )


def _log_if_not_kept(done: Future[None], cluster: str) -> None:
    if error := done.exception():
        _log.warning("events_not_recorded", cluster=cluster, reason=str(error))


def _interval_ms(settings: HistorySettings) -> int:
    return round(settings.interval_s * 1000)


def recorder_settings(settings: HistorySettings) -> RecorderSettings:
    """How often samples are taken, as configured."""
    return RecorderSettings(
        interval_ms=_interval_ms(settings),
        full_every=max(1, round(settings.full_s / settings.interval_s)),
    )


def _writer_settings(settings: HistorySettings) -> WriterSettings:
    return WriterSettings(
        flush_ms=round(settings.flush_s * 1000),
        retention_days=retention_days(settings),
        rollups=settings.retention.rollups,
    )


def retention_days(settings: HistorySettings) -> Mapping[Kind, int]:
    """How many days each kind is kept; 0 = for ever."""
    keep = settings.retention
    return {
        Kind.SAMPLES: keep.samples_days,
        Kind.GROUP_SAMPLES: keep.group_samples_days,
        Kind.EVENTS: keep.events_days,
        Kind.ROLLUP_5M: keep.rollup_5m_days,
        Kind.ROLLUP_1H: keep.rollup_1h_days,
        Kind.ROLLUP_1D: keep.rollup_1d_days,
    }
