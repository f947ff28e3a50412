"""Times in which a cluster was not recorded, from the instants of its rounds."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.record import Kind, Reason, Records
from lagwatch.history.rows import is_word
from lagwatch.ports import HistoryGap

Int64 = NDArray[np.int64]

_LATE = 1.5
"""Rounds further apart than this many intervals have a gap between them."""


class RoundTimes:
    """The instants at which there were regular rounds, gathered from rows in any order."""

    def __init__(self) -> None:
        self._interval_of: dict[int, int] = {}
        self._samples = np.zeros(0, np.int64)

    def add(self, records: Records) -> None:
        """Take the instants of regular samples; rows of other kinds say nothing."""
        if records.kind not in {Kind.GROUP_SAMPLES, Kind.SAMPLES}:
            return
        regular = records.take(is_word(records.text("reason"), Reason.INTERVAL))
        instants, first = np.unique(regular.at_ms(), return_index=True)
        if records.kind is Kind.GROUP_SAMPLES:
            intervals = regular.numbers("interval_ms")[first]
            self._interval_of.update(zip(instants.tolist(), intervals.tolist(), strict=True))
        else:
            self._samples = np.union1d(self._samples, instants)

    def sorted(self) -> tuple[Int64, Int64]:
        """Instants, rising, and the interval in force at each, in ms.

        Without samples of groups those of partitions must do, and their commonest distance.
        """
        if self._interval_of:
            rounds = sorted(self._interval_of.items())
            return (
                np.array([at_ms for at_ms, _ in rounds], np.int64),
                np.array([interval_ms for _, interval_ms in rounds], np.int64),
            )
        usual = np.median(np.diff(self._samples)) if self._samples.size > 1 else 0
        return self._samples, np.full(self._samples.size, usual, np.int64)


def gaps(cluster: str, rounds: RoundTimes) -> Iterator[HistoryGap]:
    """The times between rounds that lie too far apart, in order."""
    at_ms, interval_ms = rounds.sorted()
    for index in np.flatnonzero(np.diff(at_ms) > interval_ms[:-1] * _LATE).tolist():
        yield HistoryGap(cluster=cluster, from_ms=int(at_ms[index]), to_ms=int(at_ms[index + 1]))
