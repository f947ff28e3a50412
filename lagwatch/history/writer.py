"""Delivers batches from the spool to the store, in order, with retries.

No other part of the history retries.
"""

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from lagwatch.backoff import Backoff
from lagwatch.clock import Clock, Leaps, Witness
from lagwatch.core.record import RAW, Kind, Records, concat
from lagwatch.core.record.columns import ROLLUP_STEP_MS
from lagwatch.errors import HistoryError
from lagwatch.history.layout import DAY_MS, day_of
from lagwatch.history.spool import DeliveryPlan, Segment, Spool
from lagwatch.memory import give_back
from lagwatch.ports.history import HistoryStore

_LONGEST_DELAY_S: Final = 30.0
_TIDY_EVERY_S: Final = 600.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSettings:
    """Settings of a writer."""

    flush_ms: int
    """Rows may wait this long to make a larger batch."""
    retention_days: Mapping[Kind, int]
    """0 = for ever."""
    rollups: str = "auto"
    """on: only roll-ups delete the rows they are made from; auto: on once a roll-up exists; off."""
    max_rows: int = 500_000
    """About this many rows per batch."""


class Writer:
    """Delivers in a thread of its own; `start` and `stop` once each."""

    def __init__(
        self,
        spool: Spool,
        store: HistoryStore,
        settings: WriterSettings,
        clock: Clock,
        *,
        witness: Witness = lambda: None,
    ) -> None:
        self._spool = spool
        self._store = store
        self._settings = settings
        self._clock = clock
        self.delivered = 0
        """Rows acknowledged by the store."""
        self.corrupt = 0
        """Rows lost because their segment was damaged."""
        self.retries = 0
        self.problem = ""
        """The present problem; "" when there is none."""
        self._damaged: set[int] = set()
        self._backoff = Backoff(first_s=0.5, longest_s=_LONGEST_DELAY_S)
        self._delay_s = 0.0
        """Until the next attempt after a failure."""
        self._tidied_s = -math.inf
        self._leaps = Leaps(clock, witness)
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)

    def notify(self) -> None:
        """Wake the writer: the spool has new rows."""
        self._wake.set()

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Deliver waiting rows if the store accepts them, and end; other rows stay in the spool."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait(self._pause_s())
            self._wake.clear()
            if self._delay_s and self._stopping.wait(self._delay_s):
                break
            while self._due() and self.deliver():
                give_back()
            self._tidy()
        while self._delay_s == 0.0 and self.deliver():
            pass

    def _pause_s(self) -> float:
        """Until the oldest row has waited long enough; a long time when there is none."""
        oldest_ms = self._spool.fill().oldest_ms
        if oldest_ms is None:
            return _TIDY_EVERY_S
        return max(0.0, oldest_ms + self._settings.flush_ms - self._clock.now_ms()) / 1000

    def _due(self) -> bool:
        fill = self._spool.fill()
        if self._stopping.is_set() or fill.oldest_ms is None:
            return False
        waited_ms = self._clock.now_ms() - fill.oldest_ms
        return waited_ms >= self._settings.flush_ms or fill.rows >= self._settings.max_rows

    def deliver(self) -> bool:
        """Deliver one batch; False when there is none, or the store has not taken it."""
        try:
            plan = self._spool.plan(max_rows=self._settings.max_rows)
            if plan is None:
                return False
            rows = self._deliver(plan)
        except HistoryError as error:
            self._failed(error)
            return False
        except Exception as error:  # noqa: BLE001 an unexpected exception of a store must not end delivery
            _log.exception("history_delivery_failed")
            self._failed(HistoryError(store="", kind="io", message=f"{error!r}", retryable=False))
            return False
        self.delivered += rows
        self._backoff.reset()
        self._delay_s = 0.0
        if self.problem:
            self.problem = ""
            _log.info("history_delivering_again", batch=plan.batch)
        _log.debug("history_delivered", batch=plan.batch, rows=rows)
        return True

    def _deliver(self, plan: DeliveryPlan) -> int:
        by_kind: dict[Kind, list[Records]] = {}
        for segment in plan.segments:
            try:
                for part in self._spool.load(segment):
                    by_kind.setdefault(part.kind, []).append(part)
            except HistoryError as error:
                if error.kind != "corrupt":
                    raise
                self._say_damaged(segment, error)
        batch = [concat(parts) for parts in by_kind.values()]
        self._store.write(batch, batch=plan.batch)
        self._spool.acknowledge(plan)
        return sum(part.size for part in batch)

    def _say_damaged(self, segment: Segment, error: HistoryError) -> None:
        """Log a damaged segment once: its plan may be tried many times while the store is away."""
        if segment.number not in self._damaged:
            self._damaged.add(segment.number)
            self.corrupt += segment.rows
            _log.error("history_segment_damaged", reason=str(error))

    def _failed(self, error: HistoryError) -> None:
        self.retries += 1
        self._delay_s = self._backoff.next_s() if error.retryable else _LONGEST_DELAY_S
        self.problem = str(error)
        self._wake.set()
        _log.warning(
            "history_not_delivered",
            reason=str(error),
            retry_in_s=round(self._delay_s, 1),
            spool_bytes=self._spool.fill().size_bytes,
        )

    def _rolled_up(self) -> bool:
        """True if roll-ups exist, which then delete their source rows themselves."""
        rollups = self._settings.rollups
        # of any length: those of minutes may have been removed, and wait to be made anew
        return rollups == "on" or (
            rollups == "auto" and any(self._store.has(kind) for kind in ROLLUP_STEP_MS)
        )

    def _tidy(self) -> None:
        """Apply retention and routine maintenance, from time to time, when no rows wait."""
        now_s = self._clock.monotonic_s()
        if self._delay_s or now_s - self._tidied_s < _TIDY_EVERY_S:
            return
        self._tidied_s = now_s
        try:
            # nothing is old by a clock that may be wrong
            if (believed_ms := self._leaps.believed_ms()) is not None:
                self._delete_old(believed_ms)
            self._store.tidy(self._clock.now_ms())
        except HistoryError as error:
            _log.warning("history_not_tidied", reason=str(error))
        except Exception:  # noqa: BLE001 as above
            _log.exception("history_not_tidied")

    def _delete_old(self, now_ms: int) -> None:
        for kind, days in self._settings.retention_days.items():
            if days and not (kind in RAW and self._rolled_up()):
                rows = self._store.delete_before(kind, day_of(now_ms - days * DAY_MS))
                if rows:
                    _log.info("history_retention", kind=kind.value, days=days, rows=rows)
