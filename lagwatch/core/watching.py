"""When lagwatch watched a cluster, through its restarts.

What one process saw of a silence counts for the next one, too. The time in which no process ran is
left out of it at first: groups may have been restarted together with lagwatch. Once lagwatch has
watched for long enough it counts as well, for all commits of that time have been read by then.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Unwatched:
    """The stretches in which no process watched, oldest first; they do not overlap."""

    from_ms: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The last round of a process."""
    until_ms: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))
    """The first complete round of the next one."""

    @classmethod
    def of(cls, stretches: Iterable[tuple[int, int]], *, skew_ms: int = 0) -> "Unwatched":
        """Stretches on lagwatch's clock, which is `skew_ms` ahead of the one asked for."""
        table = np.array([*stretches], np.int64).reshape(-1, 2) - skew_ms
        return cls(table[:, 0], table[:, 1])

    def watched_less(self, than_ms: int) -> "Unwatched":
        """The stretches after which a process watched for less than this; the last one, too."""
        less = self.from_ms[1:] - self.until_ms[:-1] < than_ms
        kept = np.append(less, True)[: self.until_ms.size]
        return Unwatched(self.from_ms[kept], self.until_ms[kept])

    def after_ms(self, since_ms: Int64) -> Int64:
        """How long no process watched, from each instant until now."""
        if not self.until_ms.size:
            return np.zeros(since_ms.shape, np.int64)
        length_ms = np.append(self.until_ms - self.from_ms, 0)
        # those that end after the instant; the first of them may have begun before it
        first = np.searchsorted(self.until_ms, since_ms, side="right")
        left_ms = np.cumsum(length_ms[::-1])[::-1][first]
        begun_ms = np.append(self.from_ms, np.iinfo(np.int64).max)[first]
        after_ms: Int64 = left_ms - np.maximum(since_ms - begun_ms, 0)
        return after_ms
