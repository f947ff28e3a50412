"""Which buckets are to be made."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind
from lagwatch.core.record.columns import ROLLUP_STEP_MS

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Buckets of a kind of roll-up, from the begin of one to the begin of another."""

    kind: Kind
    from_ms: int
    to_ms: int

    @property
    def step_ms(self) -> int:
        """Length of a bucket."""
        return ROLLUP_STEP_MS[self.kind]

    @property
    def buckets(self) -> int:
        return (self.to_ms - self.from_ms) // self.step_ms

    def within(self, at_ms: Int64) -> NDArray[np.bool_]:
        """Which instants are in it?"""
        return (at_ms >= self.from_ms) & (at_ms < self.to_ms)

    def cells(self, series: Int64, at_ms: Int64) -> Int64:
        """One number for series and bucket; sorted as these are."""
        return series * self.buckets + (at_ms - self.from_ms) // self.step_ms

    def moved_cells(self, cell: Int64, series: Int64) -> Int64:
        """The cells of the same buckets in other series: `series[n]` in the place of n."""
        return series[cell // self.buckets] * self.buckets + cell % self.buckets
