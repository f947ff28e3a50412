"""Facts about topic-partitions beside their log ends: absences, open transactions, tails."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, OpenTransaction
from lagwatch.core.rows import ABSENCE, PartitionColumns, note_absence
from lagwatch.core.snapshot import TopicColumns
from lagwatch.monitor.rows import position
from lagwatch.ports.reports import EmptyTails, LogEnds

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_COLUMNS: Final = ("known_ms", *ABSENCE, "held_ms", "empty_first", "empty_end")


class PartitionStates:
    """Columns by topic-partition, as in the topics of the last report. One owner writes."""

    def __init__(self, *, away_after_ms: int) -> None:
        """A partition that was not read for longer than `away_after_ms` was away."""
        self._away_after_ms = away_after_ms
        self._columns = {name: np.zeros(0, np.int64) for name in _COLUMNS}
        self.answered_ms: Int64 = np.zeros(0, np.int64)
        """The last round for which each partition was asked and answered; -1 none."""
        self._before_ms: Int64 = np.zeros(0, np.int64)
        """When an earlier process last knew the log end of each partition; -1."""

    def copied(self) -> dict[str, Int64]:
        """All columns by name, copied."""
        return {name: column.copy() for name, column in self._columns.items()}

    def restore(self, columns: Mapping[str, Int64], until_ms: int) -> None:
        """Take the columns of an earlier process.

        The time since is not held for an absence, unless a partition was away already at
        `until_ms`, when that process saw it last, or is asked in vain at first: what was written to
        it came at some time since its last answer, not since the last question.
        """
        unknown = np.full_like(columns["known_ms"], UNKNOWN)
        # checkpoints of earlier versions have fewer absences
        self._columns = {name: columns.get(name, unknown).copy() for name in _COLUMNS}
        self._before_ms = self._columns["known_ms"].copy()
        was_away = until_ms - self._before_ms > self._away_after_ms
        self._columns["known_ms"][~was_away] = UNKNOWN
        self.answered_ms = self._columns["known_ms"].copy()

    def remap(self, source: Int64) -> None:
        """Renumber: new column i is old column `source[i]`, or a new one for -1."""
        self._columns = {
            name: np.append(column, UNKNOWN)[source] for name, column in self._columns.items()
        }
        self.answered_ms = np.append(self.answered_ms, UNKNOWN)[source]
        self._before_ms = np.append(self._before_ms, UNKNOWN)[source]

    def round(self, report: LogEnds, before: TopicColumns) -> Bools:
        """Take in a round of log ends; `before` are the offsets known until then.

        One that was not asked is taken to rest; when it is asked in vain, that is known only up to
        its last answer.

        Returns the partitions that have come back after an absence.
        """
        at_ms = report.started_ms
        answered = report.log_end >= 0
        known_ms = self._columns["known_ms"]
        if report.asked is not None:
            known_ms[~report.asked & (known_ms >= 0)] = at_ms
            answered &= report.asked
        vain = report.log_end < 0
        known_ms[vain] = np.minimum(known_ms, self.answered_ms)[vain]
        since_before = vain & (self.answered_ms < 0)
        known_ms[since_before] = self._before_ms[since_before]
        self.answered_ms[answered] = at_ms
        away = answered & (known_ms >= 0) & (at_ms - known_ms > self._away_after_ms)
        if away.any():
            columns = [self._columns[name] for name in ABSENCE]
            note_absence(columns, away, known_ms, np.full(known_ms.size, at_ms, np.int64))
        known_ms[answered] = at_ms
        self._hold(report, before)
        return away

    def set_back(self, at_ms: int) -> None:
        """The clock was set back to this instant: no later one has been."""
        for name in (*ABSENCE, "held_ms"):
            np.minimum(self._columns[name], at_ms, out=self._columns[name])

    def away(self, now_ms: int) -> Bools:
        """Partitions that have not been read for long."""
        known_ms = self._columns["known_ms"]
        return (known_ms >= 0) & (now_ms - known_ms > self._away_after_ms)

    def there_since_ms(self, now_ms: int) -> Int64:
        """Since when each partition has been read without an absence; now while it is away."""
        return np.where(self.away(now_ms), now_ms, self._columns["back_ms"])

    def _hold(self, report: LogEnds, before: TopicColumns) -> None:
        """Note since when the last stable offset has not moved although the log grows."""
        held_ms, last_stable = self._columns["held_ms"], report.last_stable
        held = (last_stable >= 0) & (last_stable < report.log_end)
        if not held.any() and not (held_ms >= 0).any():
            return
        rests = held & (last_stable == before.last_stable) & (held_ms >= 0)
        known = (last_stable >= 0) & (report.log_end >= 0)
        self._columns["held_ms"] = np.where(
            known, np.where(held, np.where(rests, held_ms, report.started_ms), UNKNOWN), held_ms
        )

    def opened(
        self, transactions: Iterable[OpenTransaction], topics: TopicColumns, *, skew_ms: int
    ) -> None:
        """Coordinators say when transactions began: longer ago than lagwatch has seen them.

        Their clock is Kafka's, which lagwatch's is `skew_ms` ahead of.
        """
        held_ms = self._columns["held_ms"]
        for each in transactions:
            at = position(topics, each.topic, each.partition)
            if at < 0 or each.started_ms is None or topics.last_stable[at] != each.last_stable:
                continue
            if held_ms[at] >= 0:
                held_ms[at] = min(int(held_ms[at]), each.started_ms + skew_ms)

    def tails(self, report: EmptyTails, topics: TopicColumns) -> None:
        """Remember where a read_committed reader found nothing."""
        for topic, partition, first, end in zip(
            report.topic,
            report.partition.tolist(),
            report.first.tolist(),
            report.end.tolist(),
            strict=True,
        ):
            at = position(topics, topic, partition)
            if at < 0:
                continue
            empty_first, empty_end = self._columns["empty_first"], self._columns["empty_end"]
            joined = min(first, int(empty_first[at])) if empty_end[at] == end else first
            empty_first[at], empty_end[at] = joined, end

    def absences(self, at: NDArray[np.integer], *, skew_ms: int) -> tuple[Int64, ...]:
        """`ABSENCE` of these partitions, on Kafka's clock; -1 never."""
        return tuple(
            np.append(shifted(self._columns[name], skew_ms), UNKNOWN)[at] for name in ABSENCE
        )

    def columns(
        self, topics: TopicColumns, log_end: Int64, recent_end: Int64, *, skew_ms: int
    ) -> PartitionColumns:
        """All of it with instants on Kafka's clock, which lagwatch's is `skew_ms` ahead of."""
        own = self._columns
        return PartitionColumns.of(
            log_end,
            recent_end=recent_end,
            log_start=topics.log_start,
            last_stable=topics.last_stable,
            known_ms=shifted(own["known_ms"], skew_ms),
            **{name: shifted(own[name], skew_ms) for name in ABSENCE},
            held_ms=shifted(own["held_ms"], skew_ms),
            empty_first=own["empty_first"],
            empty_end=own["empty_end"],
        )


def shifted(at_ms: Int64, skew_ms: int) -> Int64:
    """Instants on another clock; unknown ones stay unknown."""
    return at_ms if skew_ms == 0 else np.where(at_ms >= 0, at_ms - skew_ms, at_ms)
