"""The history of log end offsets: the log end at an instant, and the instant of an offset.

All partitions of a cluster are sampled in one round, so the history is a matrix: one row per
sample, one column per topic-partition, and one shared vector of instants. It is thinned with age:
the distance between samples may grow to a sixteenth of their age, so a day takes under 200
samples and an instant read from it is wrong by at most six per cent of its age.

Within a column the values never fall: a partition without a leader keeps its last value (nothing
can be appended then), and a log that was cut short or re-created loses its older samples.

Between the last sample before a restart and the first one after it is a *gap*: there no line is
drawn. What was appended in it is known to be as old as one of its ends, and no more.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, TimeLagReason

Int64 = NDArray[np.int64]
Index = NDArray[np.integer]

_SPACING = 16
"""Age divided by the distance between samples, at least."""
_THIN_EVERY = 16
"""Samples between two thinnings; thinning copies the matrix."""
_NEWEST = 16
"""Samples that are searched first."""
_SHORT_GAP_MS = 60_000
"""Across a gap of up to this long, log ends are interpolated as usual."""
_SET_BACK_MS = 60_000
"""A clock that goes back by less than this is corrected, not set."""
OUTAGE_MS = 30_000
"""Log ends that were not read for so long were away."""
_INSTANTS = ("_leap_first_ms", "_leap_last_ms", "_away_ms", "_away_first_ms", "_away_last_ms")
"""Columns by partition; -1 of one of which nothing is known."""


class Age(NamedTuple):
    """How old the oldest unread messages are; columns of equal length."""

    lag_ms: Int64
    """-1 unknown."""
    reason: NDArray[np.int8]
    """`TimeLagReason`"""
    after_ms: Int64
    """When the last sample before the message was read, at the earliest; -1 none."""
    before_ms: Int64
    """When the first sample that holds it was read, at the latest; -1 none."""


class LogEndHistory:
    """Log end offsets of all topic-partitions over time. One owner writes."""

    def __init__(self, *, horizon_ms: int) -> None:
        self.horizon_ms = horizon_ms
        self._count = 0
        self._at_ms = np.empty(_THIN_EVERY, np.int64)
        self._ends = np.empty((_THIN_EVERY, 0), np.int64)
        self._half_ms = np.zeros(_THIN_EVERY, np.int64)
        self._interrupted = False
        self.restored_ms = UNKNOWN
        """Newest sample of an earlier process; -1 when there is none."""
        self.revision = 0
        """Version of the stored samples; when it changes, instants read earlier may change, too."""
        self._gaps: list[tuple[int, int]] = []
        """Last sample before each gap, first one after it; both are samples still."""
        self._asked_ms: Int64 = np.zeros(0, np.int64)
        """The last sample for which each partition was asked; -1 none."""
        self._leap_first_ms: Int64 = np.zeros(0, np.int64)
        self._leap_last_ms: Int64 = np.zeros(0, np.int64)
        """The last samples between which each partition grew without being asked; -1 none."""
        self._away_ms: Int64 = np.zeros(0, np.int64)
        """The last sample before each partition that does not answer now; -1: it answers."""
        self._away_first_ms: Int64 = np.zeros(0, np.int64)
        self._away_last_ms: Int64 = np.zeros(0, np.int64)
        """The newest time of `OUTAGE_MS` or longer without answers of each partition; -1 none."""

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """Times without samples: (last sample before, first one after) each."""
        return tuple(self._gaps)

    def restore(
        self,
        at_ms: Int64,
        ends: Int64,
        gaps: Iterable[tuple[int, int]],
        half_ms: Int64 | None = None,
    ) -> None:
        """Take samples of an earlier process; before the next one there will be a gap."""
        self._count = at_ms.size
        self._at_ms = np.concatenate((at_ms, np.empty(_THIN_EVERY, np.int64)))
        self._ends = np.full((self._at_ms.size, ends.shape[1]), UNKNOWN, np.int64)
        self._ends[: self._count] = ends
        self._half_ms = np.zeros(self._at_ms.size, np.int64)
        self._half_ms[: self._count] = 0 if half_ms is None else half_ms
        self._gaps = [(first, last) for first, last in gaps]
        self._asked_ms = np.full(ends.shape[1], at_ms[-1] if self._count else UNKNOWN, np.int64)
        for name in _INSTANTS:
            setattr(self, name, np.full(ends.shape[1], UNKNOWN, np.int64))
        self._interrupted = self._count > 0
        self.restored_ms = int(at_ms[-1]) if self._count else UNKNOWN
        self.revision += 1

    @property
    def interrupted(self) -> bool:
        """True if all samples are of an earlier process: then nothing is known after the newest."""
        return self._interrupted

    @property
    def at_ms(self) -> Int64:
        """Instants of the samples, rising; shape [samples]."""
        return self._at_ms[: self._count]

    @property
    def ends(self) -> Int64:
        """Log end offsets, -1 before a partition was first known; [samples, partitions]."""
        return self._ends[: self._count]

    @property
    def half_ms(self) -> Int64:
        """How long before or after its instant each sample may have been read; [samples]."""
        return self._half_ms[: self._count]

    @property
    def partitions(self) -> int:
        return int(self._ends.shape[1])

    @property
    def spacing_ms(self) -> int:
        """Usual distance between the newest samples; 0 while there are fewer than two."""
        if self._count <= 1:
            return 0
        # asked for in each round: numpy's median takes ten times as long for so few
        apart = sorted(after - before for before, after in pairwise(self.at_ms[-_NEWEST:].tolist()))
        return int(apart[(len(apart) - 1) // 2] + apart[len(apart) // 2]) // 2

    def latest(self) -> Int64:
        """Newest known log end of each partition, -1 where there is none."""
        if self._count:
            newest: Int64 = self._ends[self._count - 1]
            return newest
        return np.full(self.partitions, UNKNOWN, np.int64)

    def remap(self, source: Index) -> None:
        """Renumber the partitions: new column i is old column `source[i]`, or a new one for -1."""
        ends = np.full((self._at_ms.size, source.size), UNKNOWN, np.int64)
        kept = np.flatnonzero(source >= 0)
        ends[: self._count, kept] = self.ends[:, source[kept]]
        self._ends = ends
        for name in ("_asked_ms", *_INSTANTS):
            setattr(self, name, np.append(getattr(self, name), UNKNOWN)[source])
        self.revision += 1

    def add(
        self,
        at_ms: int,
        log_end: Int64,
        asked: NDArray[np.bool_] | None = None,
        *,
        half_ms: int = 0,
    ) -> None:
        """Add one round of samples, -1 where unknown; `asked`: of which partitions, None: of all.

        Leaders answered at most `half_ms` before or after `at_ms`.

        The others are taken to rest. One that has grown when it is asked again did so on the line
        from the sample for which it was asked before (a *leap*): nothing between is known of it.

        A round that is a little older than the last (the clock was set back) takes its place. One
        that is much older drops the samples after it: their instants are those of a wrong clock.
        """
        if asked is not None:
            log_end = np.where(asked, log_end, UNKNOWN)
        before = self.latest()
        if self._count and self._at_ms[self._count - 1] - at_ms > _SET_BACK_MS:
            self._drop_after(at_ms)
        # a log end that fell is another log: old samples would give negative lags and wrong ages
        fell = np.flatnonzero((log_end >= 0) & (log_end < before))
        if fell.size:
            self._ends[: self._count, fell] = UNKNOWN
        again = self._count > 0 and at_ms <= self._at_ms[self._count - 1]
        if self._count == self._at_ms.size and not again:
            self._thin(at_ms)
        if self._interrupted:
            self._end_gap(at_ms)
        if self._count and not again:
            self._draw_leaps(at_ms, before, log_end)
            self._note_away(at_ms, before, log_end, asked)
        self._asked_ms[slice(None) if asked is None else asked] = at_ms
        place = self._count - 1 if again else self._count
        # a partition that was not asked, or has no leader, keeps its last value: as far as is known
        # nothing was appended to it
        self._ends[place] = np.where(log_end >= 0, log_end, before)
        self._half_ms[place] = half_ms
        if again:
            self.revision += 1
        else:
            self._at_ms[place] = at_ms
            self._count += 1

    def _drop_after(self, at_ms: int) -> None:
        """Drop the samples from an instant on: from the one before it on nothing is known."""
        self._count = int(np.searchsorted(self.at_ms, at_ms))
        last_ms = int(self._at_ms[self._count - 1]) if self._count else UNKNOWN
        self._gaps = [(first, last) for first, last in self._gaps if last <= last_ms]
        self._interrupted = self._count > 0
        np.minimum(self._asked_ms, last_ms, out=self._asked_ms)
        for first_ms, until_ms in (
            (self._leap_first_ms, self._leap_last_ms),
            (self._away_first_ms, self._away_last_ms),
        ):
            late = until_ms > last_ms
            first_ms[late] = until_ms[late] = UNKNOWN
        np.minimum(self._away_ms, last_ms, out=self._away_ms)
        self.revision += 1

    def set_ahead(self, until_ms: int, by_ms: int) -> None:
        """Put the samples up to an instant on the clock that was set ahead after it."""
        shifted = [self._at_ms[: self._count]]
        shifted += [self._asked_ms, *(getattr(self, name) for name in _INSTANTS)]
        for instants in shifted:
            instants[(instants >= 0) & (instants <= until_ms)] += by_ms
        self._gaps = [
            (first + by_ms * (first <= until_ms), last + by_ms * (last <= until_ms))
            for first, last in self._gaps
        ]
        if 0 <= self.restored_ms <= until_ms:
            self.restored_ms += by_ms
        self.revision += 1

    def _draw_leaps(self, at_ms: int, before: Int64, log_end: Int64) -> None:
        """Put the samples for which partitions that grew were not asked on their line."""
        newest_ms = self._at_ms[self._count - 1]
        asked_ms = self._asked_ms
        leap = np.flatnonzero(
            (log_end > before) & (before >= 0) & (asked_ms >= 0) & (asked_ms < newest_ms)
        )
        for since_ms in np.unique(asked_ms[leap]).tolist():
            grown = leap[asked_ms[leap] == since_ms]
            first = int(np.searchsorted(self.at_ms, since_ms, side="right"))
            share = (self.at_ms[first:] - since_ms) / (at_ms - since_ms)
            more = np.outer(share, log_end[grown] - before[grown])
            self._ends[first : self._count, grown] = before[grown] + np.floor(more).astype(np.int64)
        self._leap_first_ms[leap] = asked_ms[leap]
        self._leap_last_ms[leap] = at_ms

    def _note_away(
        self, at_ms: int, before: Int64, log_end: Int64, asked: NDArray[np.bool_] | None
    ) -> None:
        """Note which known partitions do not answer any more, and which do again."""
        silent = (log_end < 0) & (before >= 0)
        if asked is not None:
            silent &= asked
        away_ms = self._away_ms
        away_ms[silent & (away_ms < 0)] = self._at_ms[self._count - 1]
        back = np.flatnonzero((log_end >= 0) & (away_ms >= 0))
        long = back[at_ms - away_ms[back] >= OUTAGE_MS]
        self._away_first_ms[long] = away_ms[long]
        self._away_last_ms[long] = at_ms
        away_ms[back] = UNKNOWN

    def away(self, partition: Index) -> tuple[Int64, Int64]:
        """The newest time without answers of each: last sample before, first after; -1 none.

        While others answered: when none did there are no samples. It lasted `OUTAGE_MS` at least.
        """
        return self._away_first_ms[partition], self._away_last_ms[partition]

    def _end_gap(self, at_ms: int) -> None:
        last_ms = int(self._at_ms[self._count - 1])
        if at_ms - last_ms > _SHORT_GAP_MS:
            self._gaps.append((last_ms, at_ms))
        self._interrupted = False
        self.revision += 1

    def _open_gaps(self, now_ms: int) -> list[tuple[int, int]]:
        """Gaps longer than the sample distance of their age; thinning ends the others."""
        return [
            (first, last)
            for first, last in self._gaps
            if (now_ms - last) / _SPACING < last - first and self._at_ms[0] <= first
        ]

    def _thin(self, now_ms: int) -> None:
        """Drop samples that are closer than their age needs; the oldest one stays."""
        times = self.at_ms.tolist()
        kept = [len(times) - 1]
        for index in range(len(times) - 2, 0, -1):
            # dropping `index` joins its older neighbour to the last one kept
            if times[kept[-1]] - times[index - 1] > (now_ms - times[index]) / _SPACING:
                kept.append(index)
        kept.append(0)
        chosen = [index for index in reversed(kept) if now_ms - times[index] <= self.horizon_ms]
        capacity = len(chosen) + _THIN_EVERY
        ends = np.empty((capacity, self.partitions), np.int64)
        ends[: len(chosen)] = self._ends[chosen]
        at_ms = np.empty(capacity, np.int64)
        at_ms[: len(chosen)] = self._at_ms[chosen]
        half_ms = np.zeros(capacity, np.int64)
        half_ms[: len(chosen)] = self._half_ms[chosen]
        self._ends, self._at_ms, self._count = ends, at_ms, len(chosen)
        self._half_ms = half_ms
        self._gaps = self._open_gaps(now_ms)
        self.revision += 1

    def first_above(self, partition: Index, offset: Int64) -> Int64:
        """Per pair: the first sample whose log end is above the offset, or the sample count."""
        if not self.partitions:  # rows of topics that are not visible any more
            return np.full(partition.size, self._count, np.int64)
        near = self._count - _NEWEST
        if near < _NEWEST:
            return self._search(partition, offset, 0, self._count)
        # most groups are close behind the log end: look at the newest two samples first
        newest = self._ends[self._count - 1, partition] > offset
        found: Int64 = np.where(newest, self._count - 1, self._count)
        older = np.flatnonzero(self._ends[self._count - 2, partition] > offset)
        if older.size:
            found[older] = self._search_near(partition[older], offset[older], near)
        return found

    def _search_near(self, partition: Index, offset: Int64, near: int) -> Int64:
        """`first_above`, searching the samples after `near` first."""
        found = self._search(partition, offset, near + 1, self._count)
        far = np.flatnonzero(self._ends[near, partition] > offset)
        if far.size:
            found[far] = self._search(partition[far], offset[far], 0, near)
        return found

    def _search(self, partition: Index, offset: Int64, first: int, end: int) -> Int64:
        """`first_above` among the samples from `first` to before `end`; `end` if none is above."""
        low = np.full(partition.size, first, np.int64)
        high = np.full(partition.size, end, np.int64)
        for _ in range((end - first).bit_length()):
            # bisection of all pairs at once: each step gathers one value per pair, without a Python
            # loop
            middle = np.minimum((low + high) >> 1, max(self._count - 1, 0))
            above = self._ends[middle, partition] > offset
            high = np.where(above, np.minimum(high, middle), high)
            low = np.where(above, low, np.minimum(middle + 1, high))
        return low

    def at(self, partition: Index, at_ms: Int64) -> Int64:
        """Log end of each partition at each instant, on the line between two samples.

        Before the first known sample it is that sample, an upper bound; after the newest it is
        the newest. -1 where the partition was never known, and in a gap in which it grew.
        """
        if self._count == 0 or not self.partitions:
            return np.full(partition.size, UNKNOWN, np.int64)
        if (at_ms <= self._at_ms[0]).all():  # a backlog is older than all samples
            return self._known(partition, self._ends[0, partition])
        newest = self._count - 1
        after: Index | int = newest  # usually all of them are between the newest two samples
        if not newest or (at_ms <= self._at_ms[newest - 1]).any():
            after = np.minimum(np.searchsorted(self.at_ms, at_ms), newest)
        before = np.maximum(after - 1, 0)
        low, high = self._ends[before, partition], self._ends[after, partition]
        span_ms = np.maximum(self._at_ms[after] - self._at_ms[before], 1)
        # clipped, so that nothing is extrapolated beyond the oldest and the newest sample
        share = np.clip((at_ms - self._at_ms[before]) / span_ms, 0.0, 1.0)
        # rounded down: not one message more than the line says
        ends: Int64 = np.where(
            low >= 0, low + np.floor((high - low) * share).astype(np.int64), high
        )
        ends = self._known(partition, ends)
        for first, last in self._gaps:
            inside = (at_ms > first) & (at_ms < last) & (low >= 0) & (low < high)
            ends = np.where(inside, UNKNOWN, ends)
        return ends

    def _known(self, partition: Index, ends: Int64) -> Int64:
        """Log ends with the first known value in place of unknown ones before it."""
        unknown = np.flatnonzero(ends < 0)
        if unknown.size:
            ends[unknown] = self._first_known(partition[unknown])
        return ends

    def since(self, at_ms: int) -> Int64:
        """Lowest log end of each partition at or after an instant; -1 where never known."""
        if self._count == 0:
            return self.latest()
        for first, last in self._gaps:
            if first < at_ms < last:  # within a gap the log end was at least what it was before it
                at_ms = first
        sample = min(int(np.searchsorted(self.at_ms, at_ms)), self._count - 1)
        return self._known(np.arange(self.partitions), self._ends[sample].copy())

    def before(self, at_ms: int) -> Int64:
        """Log end of each partition in the newest sample up to an instant; -1 where not known."""
        sample = int(np.searchsorted(self.at_ms, at_ms, side="right")) - 1
        if sample < 0:
            return np.full(self.partitions, UNKNOWN, np.int64)
        return self._known(np.arange(self.partitions), self._ends[sample].copy())

    def _first_known(self, partition: Index) -> Int64:
        first = self.first_above(partition, np.full(partition.size, UNKNOWN, np.int64))
        known = first < self._count
        return np.where(known, self._ends[np.minimum(first, self._count - 1), partition], UNKNOWN)

    def waited(
        self, partition: Index, offset: Int64, until_ms: Int64
    ) -> tuple[Int64, NDArray[np.int8]]:
        """How old the message at each offset was at each instant, as `time_lag` says it."""
        newest_ms = int(until_ms.max())
        waited_ms, reason = self.time_lag(partition, offset, newest_ms)
        known = waited_ms >= 0
        return np.where(known, waited_ms - (newest_ms - until_ms), UNKNOWN), reason

    def time_lag(
        self, partition: Index, committed: Int64, now_ms: int
    ) -> tuple[Int64, NDArray[np.int8]]:
        """Age of the oldest message not yet read, in ms, and how it is known (`TimeLagReason`)."""
        age = self.age(partition, committed, now_ms)
        return age.lag_ms, age.reason

    def age(self, partition: Index, committed: Int64, now_ms: int) -> "Age":
        """Age of the oldest message not yet read, how it is known, and between which samples.

        That message was appended between two samples. Taken as one of m evenly spread arrivals,
        the i-th of them is expected at i / (m + 1) of the way. Never extrapolated: -1 when the
        log end had passed the offset before the first sample, or did so within a gap.
        """
        if self._count == 0:
            unknown = np.full(partition.size, UNKNOWN, np.int64)
            reason = np.full(partition.size, TimeLagReason.LOG_END_UNKNOWN, np.int8)
            return Age(unknown, reason, unknown, unknown)
        after = self.first_above(partition, committed)
        passed = after < self._count
        after = np.minimum(after, self._count - 1)
        before = np.maximum(after - 1, 0)
        low, high = self._ends[before, partition], self._ends[after, partition]
        known = passed & (after > 0) & (low >= 0)
        before_ms, after_ms = self._at_ms[before], self._at_ms[after]
        span_ms = after_ms - before_ms
        # of m = high - low messages the next unread one is number committed - low + 1
        share = (committed - low + 1) / np.maximum(high - low + 1, 1)
        at_ms = before_ms + (span_ms * np.clip(share, 0.0, 1.0)).astype(np.int64)
        # `now_ms` is before the newest sample where commits are known less far than log ends
        lag_ms = np.where(known, np.maximum(now_ms - at_ms, 0), UNKNOWN)
        lag_ms = np.where(passed, lag_ms, 0)
        reason = np.where(known, TimeLagReason.MEASURED, TimeLagReason.BEYOND_HISTORY)
        if self._gaps:
            unseen = known & self._in_gap(before_ms, after_ms)
            lag_ms = np.where(unseen, UNKNOWN, lag_ms)
            reason = np.where(unseen, TimeLagReason.NOT_SAMPLED, reason)
        reason = np.where(passed, reason, TimeLagReason.CAUGHT_UP)
        never = self.latest()[partition] < 0
        reason = np.where(never, TimeLagReason.LOG_END_UNKNOWN, reason)
        before_ms, after_ms = self._without_leaps(partition, before_ms, after_ms)
        return Age(
            np.where(never, UNKNOWN, lag_ms),
            reason.astype(np.int8),
            np.where(known, before_ms - self._half_ms[before], UNKNOWN),
            np.where(passed & ~never, after_ms + self._half_ms[after], UNKNOWN),
        )

    def _without_leaps(
        self, partition: Index, before_ms: Int64, after_ms: Int64
    ) -> tuple[Int64, Int64]:
        """Both instants; one inside a leap of the log end is moved out to the end of the leap."""
        first_ms, last_ms = self._leap_first_ms[partition], self._leap_last_ms[partition]
        return (
            np.where((first_ms < before_ms) & (before_ms < last_ms), first_ms, before_ms),
            np.where((first_ms < after_ms) & (after_ms < last_ms), last_ms, after_ms),
        )

    def _in_gap(self, before_ms: Int64, after_ms: Int64) -> NDArray[np.bool_]:
        inside = np.zeros(before_ms.size, np.bool_)
        for first, last in self._gaps:
            inside |= (before_ms <= first) & (last <= after_ms)
        return inside

    def appended_by(self, partition: Index, offset: Int64) -> Int64:
        """The first sample that holds the message at each offset; -1 while there is none."""
        after = self.first_above(partition, offset)
        known = after < self._count
        return np.where(known, self.at_ms[np.minimum(after, self._count - 1)], UNKNOWN)
