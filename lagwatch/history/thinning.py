"""Leaves out rows that did not change, in a way that lets a reader restore them.

A regular round writes every partition whose values differ from its last row, and for every group
one row that says how many were looked at (`observed`), how many of them were left out
(`unchanged`) and which round came before (`previous_ms`, unknown when that one was not recorded).
From time to time a group is written in full. Reading it back (`lagwatch.history.grid`):

- A round of which nothing was left out is whole: a partition without a row is not there.
- A round linked to the one before carries on: a partition without a row is unchanged.
- A round that is not linked and not whole says nothing about partitions without a row.
"""

import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.record import (
    Capture,
    Records,
    SampleReason,
    group_samples,
    samples,
)
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.history.match import group_of_rows, group_positions, positions, same_rows
from lagwatch.history.unchanged import unchanged

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]

_ROWS_AT_ONCE: Final = 32_768
"""Columns of so many rows are small enough for the C library to use their memory again; what is
larger comes from the system, and each of its pages costs more than what is written to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The rows of one regular round."""

    capture: Capture
    at_ms: int
    written: NDArray[np.intp]
    """Rows of the snapshot of which there are samples, rising."""
    groups: Records
    unchanged: int
    """Rows left out."""

    @property
    def rows(self) -> int:
        """Samples of partitions and of groups."""
        return int(self.written.size) + self.groups.size

    @property
    def samples(self) -> Records:
        """All samples of partitions."""
        return self._samples(self.written)

    def parts(self) -> Iterator[Records]:
        """The same in parts, each made when it is taken, so that little memory is needed."""
        for first in range(0, self.written.size, _ROWS_AT_ONCE):
            yield self._samples(self.written[first : first + _ROWS_AT_ONCE])

    def _samples(self, rows: NDArray[np.intp]) -> Records:
        return samples(self.capture, rows, at_ms=self.at_ms, reason=SampleReason.INTERVAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Last:
    """The round before."""

    capture: Capture
    at_ms: int

    @property
    def snapshot(self) -> ClusterSnapshot:
        return self.capture.snapshot


class Thinner:
    """Thins the rounds of one cluster."""

    def __init__(self, *, interval_ms: int, full_every: int) -> None:
        """`full_every` rounds a group is written whole; 1 leaves nothing out."""
        self._interval_ms = interval_ms
        self._full_every = full_every
        self._last: _Last | None = None
        self._number = 0
        self._whole_next: set[str] = set()

    def reset(self) -> None:
        """Write the next round so that it refers to no earlier one, because rounds were lost."""
        self._last = None

    def write_whole(self, groups: Collection[str]) -> None:
        """Rows of these groups were written outside the rounds: write them whole next."""
        self._whole_next.update(groups)

    def round(self, capture: Capture, *, at_ms: int) -> Round:
        """The rows to write at `at_ms`. Takes them as written: `reset` when they were not."""
        snapshot = capture.snapshot
        group = group_of_rows(snapshot)
        left_out = self._unchanged(capture) & ~self._whole(snapshot)[group]
        self._number += 1
        count = np.bincount(group[left_out], minlength=len(snapshot.groups))
        groups = group_samples(
            capture,
            np.arange(len(snapshot.groups)),
            at_ms=at_ms,
            reason=SampleReason.INTERVAL,
            interval_ms=self._interval_ms,
            unchanged=count,
            previous_ms=self._links(snapshot),
        )
        self._last = _Last(capture=capture, at_ms=at_ms)
        self._whole_next.clear()
        return Round(
            capture=capture,
            at_ms=at_ms,
            written=np.flatnonzero(~left_out),
            groups=groups,
            unchanged=int(np.count_nonzero(left_out)),
        )

    def _unchanged(self, capture: Capture) -> Bools:
        last = self._last
        if last is None or self._full_every <= 1:
            return np.zeros(capture.snapshot.rows.partition.size, np.bool_)
        return unchanged(last.capture, capture)

    def _whole(self, snapshot: ClusterSnapshot) -> Bools:
        """Groups to be written whole: in turn, and those that lost or gained rows."""
        turn = self._number % self._full_every
        whole = np.array(
            [
                name in self._whole_next
                or zlib.crc32(name.encode("utf-8", "replace")) % self._full_every == turn
                for name in snapshot.groups
            ],
            np.bool_,
        )
        last = self._last
        if last is None:
            return np.ones(len(snapshot.groups), np.bool_)
        if not same_rows(last.snapshot, snapshot):
            before = group_positions(last.snapshot, snapshot)
            sizes = np.append(np.diff(last.snapshot.group.first), UNKNOWN)
            whole |= sizes[before] != np.diff(snapshot.group.first)
            changed = group_of_rows(snapshot)[positions(last.snapshot, snapshot) < 0]
            whole[changed] = True
        return whole

    def _links(self, snapshot: ClusterSnapshot) -> Int64:
        last = self._last
        if last is None:
            return np.full(len(snapshot.groups), UNKNOWN, np.int64)
        return np.where(group_positions(last.snapshot, snapshot) >= 0, last.at_ms, UNKNOWN)
