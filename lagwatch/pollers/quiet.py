"""Which partitions rest: their log ends are asked for seldom.

Most of what a round of log ends costs is the client library's objects, a few for each partition,
and most partitions of a large cluster rest. One in which for long no message came, no transaction
was open and no group moved is left out of the rounds between two that ask for everything. So its
first new message is seen within the time between these, and within one round if a group commits.
Every round asks each leader for one partition at least, to hear whether it is there.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.loop import EndsRound, Int64
from lagwatch.pollers.renumber import rows_before
from lagwatch.ports.kafka import TopicListing

FEW_PARTITIONS: Final = 2_000
"""Up to here every round asks for everything: it costs little."""
_WHOLE_AT_LEAST_S: Final = 30.0
_WHOLE_AT_MOST_S: Final = 120.0
_ASKED_PER_S: Final = 150
"""Partitions that rest, on average: about half a per cent of a core."""
_STRETCHES: Final = 16
"""A stretch without samples counts until it is a sixteenth of its age (`LogEndHistory`): so each
partition has one such stretch at a time."""


def whole_every_s(partitions: int) -> float:
    """Seconds between two rounds that ask for everything in a cluster of so many partitions.

    Log starts included: these move by retention only, which Kafka looks after every few minutes.
    """
    return min(max(_WHOLE_AT_LEAST_S, partitions / _ASKED_PER_S), _WHOLE_AT_MOST_S)


def rests_after_s(partitions: int) -> float:
    """Seconds without message, commit or open transaction until one of so many rests."""
    return _STRETCHES * whole_every_s(partitions)


class QuietPartitions:
    """Follows the rounds of log ends and what groups commit."""

    def __init__(self, last: LastOffsets, rows: KeyRows, clock: Clock) -> None:
        """`rows` may be shared with pollers."""
        self._last = last
        self._rows = rows
        self._clock = clock
        self._listing: TopicListing | None = None
        self._heads: NDArray[np.intp] = np.zeros(0, np.intp)
        """One partition of each leader."""
        self._moved_s: NDArray[np.float64] = np.zeros(0)
        self._log_end: Int64 = np.zeros(0, np.int64)
        self._last_stable: Int64 = np.zeros(0, np.int64)

    def wanted(self) -> NDArray[np.bool_] | None:
        """Rows of the last round to ask for in the next one; None: all."""
        if self._log_end.size <= FEW_PARTITIONS:
            return None
        now_s = self._clock.monotonic_s()
        self._note_commits(now_s)
        is_open = (self._log_end < 0) | (self._last_stable < self._log_end)
        wanted: NDArray[np.bool_] = is_open | (
            now_s - self._moved_s < rests_after_s(self._log_end.size)
        )
        wanted[self._heads] = True
        return None if wanted.all() else wanted

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in."""
        now_s = self._clock.monotonic_s()
        self._rows.follow(seen)
        if self._listing is not seen.topics:
            source = rows_before(self._listing, seen.topics)
            self._listing = seen.topics
            self._heads = np.unique(seen.topics.leader, return_index=True)[1]
            self._moved_s = np.append(self._moved_s, now_s)[source]
            self._log_end = np.append(self._log_end, UNKNOWN)[source]
        ends = seen.ends
        self._moved_s[ends.log_end != self._log_end] = now_s
        self._log_end, self._last_stable = ends.log_end, ends.last_stable

    def _note_commits(self, now_s: float) -> None:
        """Ask for partitions of groups that commit: they may have read messages not seen here."""
        row = self._rows.row
        moved = row[self._last.take_moved(min(len(self._last), row.size))]
        self._moved_s[moved[moved >= 0]] = now_s
