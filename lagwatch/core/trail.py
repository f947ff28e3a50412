"""The lag of every group of a cluster over the last hour, for small curves beside its name.

The history keeps more, but on disk and behind a query per group; this is a few bytes per group in
memory, so that a list of groups can show the trend of each.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.snapshot import ClusterSnapshot

POINTS: Final = 60
STEP_MS: Final = 60_000
_NEVER: Final = -1


class Trail:
    """One point a minute. One owner writes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self._groups: tuple[str, ...] = ()
        self._index: dict[str, int] = {}
        self._lag = np.full((POINTS, 0), np.nan, np.float32)
        """Row `step % POINTS`; not a number: unknown."""
        self._step = _NEVER
        self.at_ms: int = _NEVER
        """The instant of the newest point; -1 before the first."""

    @property
    def end_ms(self) -> int:
        """Begin of the newest point's minute; -1 before the first."""
        return self._step * STEP_MS if self._step != _NEVER else _NEVER

    def take(self, snapshot: ClusterSnapshot) -> None:
        """Keep the total lag of every group; of the rounds of a minute the last one counts."""
        if snapshot.groups is not self._groups:
            self._rearrange(snapshot.groups)
        step = snapshot.at_ms // STEP_MS
        # minutes without a round are gaps; a clock that was set back overwrites what it meets
        passed = POINTS if self._step == _NEVER else min(max(step - self._step, 0), POINTS)
        for gap in range(passed):
            self._lag[(step - gap) % POINTS] = np.nan
        columns = snapshot.group
        # a sum that lacks partitions would look like a lag that fell
        known = (columns.max_lag_row >= 0) & (columns.unknown == 0)
        self._lag[step % POINTS] = np.where(known, columns.total_lag, np.nan)
        self._step, self.at_ms = step, int(snapshot.at_ms)

    def of(self, group: str) -> list[int | None]:
        """Lags by minute, oldest first; None is unknown. `[]` for a group that was never taken."""
        number = self._index.get(group)
        if number is None:
            return []
        newest = self._step % POINTS
        lags = np.roll(self._lag[:, number], POINTS - 1 - newest)
        return [None if np.isnan(lag) else int(lag) for lag in lags]

    def kept(self) -> tuple[tuple[str, ...], NDArray[np.float32], int, int]:
        """All that `restore` takes: groups, lags, number of the newest minute, its instant."""
        return self._groups, self._lag.copy(), self._step, self.at_ms

    def restore(
        self, groups: Sequence[str], lag: NDArray[np.float32], step: int, at_ms: int
    ) -> None:
        """Go on from the trail of an earlier process; minutes since then are gaps."""
        self._rearrange(tuple(groups))
        self._lag, self._step, self.at_ms = lag, step, at_ms

    def _rearrange(self, groups: tuple[str, ...]) -> None:
        """Columns follow the groups of the snapshot; those that went are forgotten."""
        if groups != self._groups:
            lag = np.full((POINTS, len(groups)), np.nan, np.float32)
            old = np.array([self._index.get(group, _NEVER) for group in groups], np.int64)
            stay = np.flatnonzero(old >= 0)
            lag[:, stay] = self._lag[:, old[stay]]
            self._lag = lag
            self._index = {group: number for number, group in enumerate(groups)}
        self._groups = groups
