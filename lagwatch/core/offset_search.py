"""Finds the times of the records at many offsets, by requests for offsets by time.

A question is an instant; the answer is the first record of that time or later (ListOffsets by
timestamp). With t the time of a record, f(t) its offset: f rises with t, and the greatest time
among the records up to an offset o lies where f passes o. The search closes in on it from both
sides, all offsets at once, one question for each in a round: close to the line between the nearest
answers, and now and then in the middle.

Where brokers give records their times (`LogAppendTime`), times rise with offsets, and what is found
is the time of o. Where producers do (`CreateTime`), a record was appended not before any of these
times: what is found is a lower bound. It holds while producers' clocks are not ahead. A partition
that has a time in the future is not searched, because its other times may be wrong by as much.

Source: Kafka 4.2, UnifiedLog.fetchOffsetByTimestamp, LogSegment.findOffsetByTimestamp.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

MOST_ROUNDS: Final = 64
"""Enough to halve a year down to the precision; three or four are usual."""
_PRECISION: Final = 500
"""The search ends when the range is narrower than this part of the age."""
_TURNS: Final = 2
"""After this many answers on one side the next question is for the middle."""
_CLOSE_MS: Final = 250
_AHEAD_MS: Final = 60_000
"""Times later than now by more than this are of a clock that is ahead; lagwatch's own may be late
by less."""
_FIRST_MS: Final = 946_684_800_000
"""2000-01-01. There was no Kafka: a time before it is none, but 0 or a number in another unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """When the records at some offsets were written; columns, -1 unknown."""

    low_ms: Int64
    """The greatest time up to the offset is at least this."""
    high_ms: Int64
    """And at most this: the first record at the offset or after it, where the log is dense."""
    next_ms: Int64
    """Time of a record at the offset or after it: the bound where compaction has removed some."""
    removed: Bools
    """All records up to the offset are gone, it among them: the times are of the first one left."""


class OffsetSearch:
    """Searches for many offsets at once; each may be of another partition."""

    def __init__(self, offset: Int64, *, now_ms: int) -> None:
        self._offset = offset
        self._now_ms = now_ms
        unknown = np.full(offset.size, UNKNOWN, np.int64)
        self._low_at, self._low_ms = unknown.copy(), unknown.copy()
        self._most_ms = unknown.copy()
        self._next_at, self._next_ms = unknown.copy(), unknown.copy()
        self._open = np.zeros(offset.size, np.bool_)
        self._removed = np.zeros(offset.size, np.bool_)
        self._side = np.zeros(offset.size, np.int64)
        """Answers in a row on one side: n before the offset, -n after it."""
        self._rounds = 0

    def begin(
        self, first: tuple[Int64, Int64], newest: tuple[Int64, Int64], answered: Bools
    ) -> None:
        """Take offset and time of the first record, and of the first with the greatest time.

        Partitions that did not answer, empty logs, and those with a time in the future are not
        searched.
        """
        (first_at, first_ms), (newest_at, newest_ms) = first, newest
        usable = answered & (first_at >= 0) & (first_ms >= 0) & (newest_ms >= first_ms)
        usable &= newest_ms <= self._now_ms + _AHEAD_MS
        self._low_at[usable], self._low_ms[usable] = first_at[usable], first_ms[usable]
        self._most_ms[usable] = newest_ms[usable]
        self._next_at[usable], self._next_ms[usable] = newest_at[usable], newest_ms[usable]
        # all records before it are gone: the first one there is the next to be read
        self._settle(usable & (first_at >= self._offset), first_ms)
        self._removed = usable & (first_at > self._offset)
        # nothing after it is younger
        self._settle(usable & (newest_at <= self._offset), newest_ms)
        self._open = usable & (self._low_ms < self._most_ms)

    def _settle(self, rows: Bools, at_ms: Int64) -> None:
        for column in (self._low_ms, self._most_ms, self._next_ms):
            column[rows] = at_ms[rows]

    def questions(self) -> tuple[NDArray[np.intp], Int64]:
        """The next questions.

        Offsets (positions) and instants; empty when the search is complete.
        """
        width_ms = self._most_ms - self._low_ms
        enough_ms = np.maximum((self._now_ms - self._most_ms) // _PRECISION, _CLOSE_MS)
        self._open &= (width_ms > 0) & ((width_ms > enough_ms) | (self._rounds == 0))
        if self._rounds >= MOST_ROUNDS:
            self._open[:] = False
        rows = np.flatnonzero(self._open)
        low_at, low_ms = self._low_at[rows], self._low_ms[rows]
        most_ms = self._most_ms[rows]
        self._rounds += 1
        span = np.maximum(self._next_at[rows] - low_at, 1)
        share = np.clip((self._offset[rows] - low_at) / span, 0.0, 1.0)
        line_ms = low_ms + ((self._next_ms[rows] - low_ms) * share).astype(np.int64)
        # the line closes in from one side only: look beyond it, by more each time
        side = self._side[rows]
        beyond_ms = enough_ms[rows] // 2 * (1 << np.minimum(np.abs(side), _TURNS)) // 2
        guess_ms = line_ms + np.sign(side) * beyond_ms
        middle = np.abs(side) >= _TURNS
        guess_ms = np.where(middle, (low_ms + most_ms + 1) // 2, guess_ms)
        return rows, np.clip(guess_ms, low_ms + 1, most_ms)

    def answer(
        self, rows: NDArray[np.intp], asked_ms: Int64, found: tuple[Int64, Int64], answered: Bools
    ) -> None:
        """Take the answers: offset and time of the first record of each instant or later.

        -1: the leader found none although there is one, for the time index of a compacted log may
        be unusable (`OffsetsAt.unusable`). There the search ends with what it has.
        """
        at, at_ms = found
        self._open[rows[~answered | (at < 0)]] = False
        good = answered & (at >= 0)
        wanted = self._offset[rows]
        before = good & (at < wanted)
        self._low_at[rows[before]] = at[before]
        self._low_ms[rows[before]] = np.maximum(self._low_ms[rows[before]], at_ms[before])
        after = good & (at > wanted)
        self._most_ms[rows[after]] = asked_ms[after] - 1
        self._next_at[rows[after]], self._next_ms[rows[after]] = at[after], at_ms[after]
        same = rows[good & (at == wanted)]
        for column in (self._low_ms, self._most_ms, self._next_ms):
            column[same] = at_ms[good & (at == wanted)]
        # an answer that contradicts earlier ones: the log was changed meanwhile
        self._most_ms[rows] = np.maximum(self._most_ms[rows], self._low_ms[rows])
        side = self._side[rows]
        side = np.where(before, np.maximum(side, 0) + 1, np.minimum(side, 0) - 1)
        # of two questions that follow in the middle, the next is on the line again
        self._side[rows] = np.where(np.abs(side) > _TURNS + 1, np.sign(side), side)

    def found(self) -> Found:
        """The present bounds; unknown where records have no usable times."""
        return Found(
            low_ms=np.where(self._low_ms >= _FIRST_MS, self._low_ms, UNKNOWN),
            high_ms=self._most_ms.copy(),
            next_ms=np.maximum(self._next_ms, self._most_ms),
            removed=self._removed.copy(),
        )
