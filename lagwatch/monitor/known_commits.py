"""Up to when all commits are known, by source and by row.

Sources are the partitions of the offsets topic and, behind them, the jobs whose progress is read
outside of Kafka.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, offsets_partition
from lagwatch.core.rows import ABSENCE, Absence, CommitFacts, note_absence
from lagwatch.monitor.partitions import shifted
from lagwatch.ports.reports import CommitsKnown, ProgressKnown

Int64 = NDArray[np.int64]


class KnownCommits:
    """What `CommitsKnown` and `ProgressKnown` reports say. One owner writes."""

    def __init__(self, *, away_after_ms: int) -> None:
        """Commits that were not known for longer than `away_after_ms` were away."""
        self._away_after_ms = away_after_ms
        self._partitions = 0
        """Partitions of the offsets topic; the first places of the columns."""
        self._jobs: dict[str, int] = {}
        """Job → its place behind the partitions."""
        self._until_ms = np.zeros(0, np.int64)
        self._absence = [np.zeros(0, np.int64) for _ in ABSENCE]
        self._polled: tuple[int, ...] = ()
        self._held_ms: dict[int, int] = {}
        """Partition held back by an open transaction → since when that was seen; -1 not known."""
        self._polls_ms = self._until_ms
        """`_until_ms` without polls whose offsets are not admitted yet."""
        self._place = np.zeros(0, np.int16)
        """Place in the columns, by row."""
        self._gap_ms = np.zeros(0, np.int64)
        """Of those that came back with the last report, how long they were away; else 0."""

    @property
    def until_ms(self) -> int:
        """The latest instant up to which any commits are known; -1 before the first report."""
        known_ms = self._until_ms[: self._partitions]
        return int(known_ms.max()) if known_ms.size else UNKNOWN

    @property
    def all_admitted(self) -> bool:
        """True if each partition of the offsets topic was read or polled, and that was admitted."""
        known_ms = self._until_ms.copy()
        if self._polls_ms.size == known_ms.size:
            polled = list(self._polled)
            known_ms[polled] = self._polls_ms[polled]
        return self._partitions > 0 and bool((known_ms[: self._partitions] >= 0).all())

    @property
    def knows_partitions(self) -> bool:
        """True once the partitions of the offsets topic are known, also by an earlier process."""
        return self._partitions > 0

    @property
    def absences(self) -> tuple[Int64, ...]:
        """`ABSENCE` by partition of the offsets topic; -1 never."""
        return tuple(column[: self._partitions] for column in self._absence)

    def restore(self, absences: Absence) -> None:
        """Remember the absences of an earlier process; the time since does not count as one."""
        self._partitions = absences[0].size
        self._until_ms = np.full(self._partitions, UNKNOWN, np.int64)
        self._absence = list(absences)

    def take(self, report: CommitsKnown) -> bool:
        """Take a report in; True when the number of partitions changed: place all rows anew."""
        until_ms = report.until_ms
        self._polled = report.polled
        seen = {place: self._held_ms.get(place, UNKNOWN) for place in report.polled}
        self._held_ms = {
            place: since_ms if since_ms >= 0 else int(until_ms[place])
            for place, since_ms in seen.items()
        }
        self._gap_ms = np.zeros(0, np.int64)
        if until_ms.size != self._partitions:
            jobs = slice(self._partitions, None)
            nothing = np.full(until_ms.size, UNKNOWN, np.int64)
            self._until_ms = np.append(until_ms, self._until_ms[jobs])
            self._absence = [np.append(nothing, column[jobs]) for column in self._absence]
            self._partitions = until_ms.size
            return True
        known = np.append(until_ms, self._until_ms[self._partitions :])
        self._advance(known, self._away_after_ms)
        return False

    def take_progress(self, report: ProgressKnown) -> bool:
        """Take in until when the progress of jobs is known; True when a job is new."""
        new = [job for job in report.until_ms if job not in self._jobs]
        self._jobs |= {job: len(self._jobs) + number for number, job in enumerate(new)}
        nothing = np.full(len(new), UNKNOWN, np.int64)
        self._until_ms = np.append(self._until_ms, nothing)
        self._absence = [np.append(column, nothing) for column in self._absence]
        known = self._until_ms.copy()
        for job, until_ms in report.until_ms.items():
            known[self._partitions + self._jobs[job]] = until_ms
        self._advance(known, report.away_after_ms)
        return bool(new)

    def _advance(self, until_ms: Int64, away_after_ms: int) -> None:
        gap_ms = until_ms - self._until_ms
        away = (self._until_ms >= 0) & (gap_ms > away_after_ms)
        self._gap_ms = np.where(away, gap_ms, 0)
        note_absence(self._absence, away, self._until_ms, until_ms)
        self._until_ms = np.maximum(until_ms, self._until_ms)

    def set_back(self, at_ms: int) -> None:
        """The clock was set back to this instant: no later one has been."""
        for column in (self._until_ms, *self._absence):
            np.minimum(column, at_ms, out=column)
        self._held_ms = {place: min(since_ms, at_ms) for place, since_ms in self._held_ms.items()}

    def away(self, rows: NDArray[np.integer], now_ms: int) -> NDArray[np.bool_]:
        """Mask of rows whose commits have not been known for long.

        Not of jobs, which are looked at more seldom.
        """
        size = self._until_ms.size
        if not self._partitions or not size:
            return np.zeros(rows.size, np.bool_)
        away = (self._until_ms >= 0) & (now_ms - self._until_ms > self._away_after_ms)
        away[self._partitions :] = False
        found: NDArray[np.bool_] = away[self._place[rows]]
        return found

    def returned(self, rows: int) -> tuple[NDArray[np.intp], Int64]:
        """Of the first `rows` rows those whose commits came back just now, and after how long."""
        if not self._gap_ms.any():
            return np.zeros(0, np.intp), np.zeros(0, np.int64)
        gap_ms = self._gap_ms[self._place[:rows]]
        found = np.flatnonzero(gap_ms)
        return found, gap_ms[found]

    def polls_admitted(self) -> None:
        """The offsets of all polls so far were admitted."""
        self._polls_ms = self._until_ms

    def place(self, rows: NDArray[np.intp], groups: list[str], capacity: int) -> None:
        """Learn which groups these rows belong to."""
        if self._place.size < capacity:
            grown = np.zeros(capacity, np.int16)
            grown[: self._place.size] = self._place
            self._place = grown
        if self._partitions:
            self._place[rows] = [self._place_of(group) for group in groups]

    def _place_of(self, group: str) -> int:
        job = self._jobs.get(group)
        return _partition(group, self._partitions) if job is None else self._partitions + job

    def facts(self, *, skew_ms: int, all_polled: bool) -> CommitFacts | None:
        """All of it with instants on Kafka's clock; None before the first report."""
        if not self._partitions:
            if not all_polled:
                return None
            unknown = np.full(1, UNKNOWN, np.int64)
            return CommitFacts(
                place=np.zeros_like(self._place),
                known_ms=unknown,
                **dict.fromkeys(ABSENCE, unknown),
                polled=np.ones(1, np.bool_),
            )
        size = self._until_ms.size
        # progress is as old as the look at it, as a poll is
        polled = np.ones(size, np.bool_)
        polled[: self._partitions] = all_polled
        polled[list(self._polled)] = True
        known_ms = self._until_ms
        if self._polls_ms.size == size:
            # an offset that waits to be admitted must not pass for one that did not change
            known_ms = np.where(polled, self._polls_ms, known_ms)
        return CommitFacts(
            place=self._place,
            known_ms=shifted(known_ms, skew_ms),
            **{
                name: shifted(column, skew_ms)
                for name, column in zip(ABSENCE, self._absence, strict=True)
            },
            polled=polled,
            held_ms=shifted(self._held(size), skew_ms) if self._held_ms else None,
        )

    def _held(self, size: int) -> Int64:
        held_ms = np.full(size, UNKNOWN, np.int64)
        held_ms[list(self._held_ms)] = list(self._held_ms.values())
        return held_ms


@lru_cache(maxsize=65_536)
def _partition(group: str, partitions: int) -> int:
    return offsets_partition(group, partitions)
