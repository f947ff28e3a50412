"""Lags of the partitions that are behind, over the last ten minutes: how forecasts have fared.

A window of commits may be seconds long, and says nothing about pauses between windows. Here the lag
of a row at its newest commit is kept every ten seconds, for as long as it is behind; the memory is
bounded.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.sorting import place_in, stable_order

Int64 = NDArray[np.int64]
Float32 = NDArray[np.float32]
Rows = NDArray[np.integer]

POINTS: Final = 60
STEP_MS: Final = 10_000
_MOST: Final = 20_000
"""Rows that are followed: those with the greatest lag, when there are more."""
_NEVER: Final = -1
_DAY_MS: Final = 86_400_000
_OLDEST_MS: Final = np.iinfo(np.uint32).max
"""49 days; a commit that is older counts as so old."""


class PastLags(NamedTuple):
    """Lags of some rows at some of their commits, oldest first; [points, rows] each."""

    lag: Float32
    """Not a number: unknown, or it was not behind."""
    commit_ms: Int64
    """When the commit was made."""


class Lags:
    """One point every ten seconds. One owner writes."""

    def __init__(self) -> None:
        self._row: Int64 = np.zeros(0, np.int64)
        """Stored rows, rising."""
        self._slot: NDArray[np.intp] = np.zeros(0, np.intp)
        """Where each of them is in the tables. It stays there: copying all costs more than the
        rest of a round."""
        self._lag = np.full((0, POINTS), np.nan, np.float32)
        """Column `step % POINTS`."""
        self._age_ms = np.zeros((0, POINTS), np.uint32)
        """Of the commit at its step, plus a day: Kafka's clock may be ahead of ours."""
        self._step = _NEVER

    def take(
        self, row: Rows, lag: NDArray[np.signedinteger], commit_ms: Int64, now_ms: int
    ) -> None:
        """Take the rows that are behind with their lags at their newest commits, -1 unknown.

        Of all calls in ten seconds the first one counts.
        """
        step = now_ms // STEP_MS
        if step == self._step:
            return
        chosen = np.flatnonzero(lag >= 0)
        if chosen.size > _MOST:
            chosen = chosen[np.argpartition(lag[chosen], -_MOST)[-_MOST:]]
        chosen = chosen[stable_order(row[chosen])]
        self._follow(row[chosen].astype(np.int64))
        # a step without a round is a gap; a clock that was set back begins anew
        passed = min(step - self._step, POINTS) if 0 <= self._step < step else POINTS
        for gap in range(passed):
            self._lag[:, (step - gap) % POINTS] = np.nan
        self._lag[self._slot, step % POINTS] = lag[chosen]
        age_ms = step * STEP_MS - commit_ms[chosen] + _DAY_MS
        self._age_ms[self._slot, step % POINTS] = np.clip(age_ms, 0, _OLDEST_MS)
        self._step = step

    def due(self, now_ms: int) -> bool:
        """True if `take` would count."""
        return now_ms // STEP_MS != self._step

    def _follow(self, rows: Int64) -> None:
        """Give each of these stored rows a slot, and free those of all others."""
        if np.array_equal(rows, self._row):
            return
        known, slots = self._slots(rows)
        if self._lag.shape[0] < rows.size:
            self._make_room(min(rows.size + rows.size // 4, _MOST))
        free = np.ones(self._lag.shape[0], np.bool_)
        free[slots] = False
        slot = np.full(rows.size, _NEVER, np.intp)
        slot[known] = slots
        came = np.flatnonzero(slot == _NEVER)
        slot[came] = np.flatnonzero(free)[: came.size]
        self._lag[slot[came]] = np.nan
        self._row, self._slot = rows, slot

    def _make_room(self, slots: int) -> None:
        used = self._lag.shape[0]
        lag = np.full((slots, POINTS), np.nan, np.float32)
        age_ms = np.zeros((slots, POINTS), np.uint32)
        lag[:used], age_ms[:used] = self._lag, self._age_ms
        self._lag, self._age_ms = lag, age_ms

    def of(self, rows: Rows) -> PastLags:
        """Of these rows, up to the newest step."""
        found = no_lags(rows.size)
        known, slots = self._slots(rows)
        steps = (self._step + 1 - POINTS + np.arange(POINTS))[:, None]
        cells = slots, steps % POINTS
        found.lag[:, known] = self._lag[cells]
        found.commit_ms[:, known] = steps * STEP_MS + _DAY_MS - self._age_ms[cells]
        return found

    def _slots(self, rows: Rows) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Which of these rows have a slot, and their slots."""
        if not self._row.size:
            nothing = np.zeros(0, np.intp)
            return nothing, nothing
        place = place_in(self._row, rows)
        known = np.flatnonzero(self._row[place] == rows)
        return known, self._slot[place[known]]

    def clear(self, rows: Rows) -> None:
        """Forget these rows."""
        kept = ~np.isin(self._row, rows)
        if not kept.all():
            self._row, self._slot = self._row[kept], self._slot[kept]


def no_lags(rows: int) -> PastLags:
    """Of so many rows nothing is known."""
    return PastLags(np.full((POINTS, rows), np.nan, np.float32), np.zeros((POINTS, rows), np.int64))
