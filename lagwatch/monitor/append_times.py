"""When the messages at committed offsets were appended, by brokers and by the stored history."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.core.rows import OffsetTimes, StoredTimes
from lagwatch.core.sorting import place_in
from lagwatch.monitor.rows import RowTable
from lagwatch.ports.reports import AppendTimes

Rows = NDArray[np.intp]
Column = NDArray[Any]

Committed = Callable[[NDArray[np.integer]], NDArray[np.int64]]
"""The newest committed offsets of stored rows that are known to the rules."""

_COLUMNS = ("offset", "low_ms", "high_ms", "by_broker")


class AppendTimeColumns:
    """Few rows have any: they are kept sorted, not by their place. One owner writes."""

    def __init__(self) -> None:
        self._times: OffsetTimes | None = None
        self._before: OffsetTimes | None = None
        """The newest answers that were replaced by one for an offset not admitted yet."""
        self._stored: StoredTimes | None = None

    @property
    def stored(self) -> StoredTimes | None:
        """What the stored history says; None: nothing. Never changed in place."""
        return self._stored

    def seed(self, stored: StoredTimes) -> None:
        """Take what the stored history says, in place of what it said before."""
        self._stored = stored if stored.row.size else None

    def at(self, committed: Committed) -> OffsetTimes | None:
        """The known times, of a row whose newest one is beyond its commits the one before.

        None without any; never changed in place.

        A commit waits for the log end of its time; the answer for its offset may come sooner.
        """
        times, before = self._times, self._before
        if times is None or before is None:
            return times
        place = place_in(times.row, before.row)
        early = (times.row[place] == before.row) & (times.offset[place] > committed(before.row))
        return _with(times, _chosen(before, np.flatnonzero(early)))

    def take(self, report: AppendTimes, table: RowTable, committed: Committed) -> None:
        """Take a report; keys without a row are skipped, because they are reported again."""
        announced = np.flatnonzero(report.key < table.keys)
        rows = table.find(report.key[announced])
        found = announced[rows >= 0]
        new = _times(
            rows[rows >= 0].astype(np.int32),
            {name: getattr(report, name)[found] for name in _COLUMNS},
        )
        times = self._times
        if times is not None and new.row.size:
            place = place_in(times.row, new.row)
            here = place[times.row[place] == new.row]
            reached = here[times.offset[here] <= committed(times.row[here])]
            self._before = _with(self._before, _chosen(times, reached))
        self._times = _with(times, new)

    def clear(self, rows: Rows) -> None:
        """Forget everything about these rows."""
        self._times, self._before = (_without(each, rows) for each in (self._times, self._before))
        if self._stored is not None:
            self.seed(_part(self._stored, ~np.isin(self._stored.row, rows)))

    # checkpoints

    def copied(self, rows: Rows) -> dict[str, Column]:
        """All columns of these rows, by name; offset -1 where nothing is known."""
        size = rows.size
        columns: dict[str, Column] = {
            name: np.full(size, UNKNOWN, np.int64) for name in _COLUMNS[:-1]
        }
        columns["by_broker"] = np.zeros(size, np.bool_)
        if self._times is not None and size:
            place = place_in(self._times.row, rows)
            known = self._times.row[place] == rows
            for name, column in columns.items():
                column[known] = getattr(self._times, name)[place[known]]
        return columns

    def put(self, first: int, columns: Mapping[str, Column]) -> None:
        """Take such copies for the rows from `first` on.

        Checkpoints of earlier versions have none.
        """
        if "offset" in columns:
            known = np.flatnonzero(columns["offset"] != UNKNOWN)
            rows = (first + known).astype(np.int32)
            found = {name: columns[name][known] for name in _COLUMNS}
            self._times = _with(self._times, _times(rows, found))


def _times(row: NDArray[np.int32], columns: Mapping[str, Column]) -> OffsetTimes:
    return OffsetTimes(
        row=row,
        offset=columns["offset"],
        low_ms=columns["low_ms"],
        high_ms=columns["high_ms"],
        by_broker=columns["by_broker"],
    )


def _chosen(times: OffsetTimes, chosen: Rows | NDArray[np.bool_]) -> OffsetTimes:
    return _times(times.row[chosen], {name: getattr(times, name)[chosen] for name in _COLUMNS})


def _without(times: OffsetTimes | None, rows: Rows) -> OffsetTimes | None:
    if times is None:
        return None
    kept = ~np.isin(times.row, rows)
    if kept.all():
        return times
    return _chosen(times, kept) if kept.any() else None


def _with(times: OffsetTimes | None, new: OffsetTimes) -> OffsetTimes | None:
    """These times with others, which replace those of the same rows; None without any."""
    if not new.row.size:
        return times
    new = _chosen(new, np.argsort(new.row, kind="stable"))
    if times is None:
        return new
    place = np.searchsorted(times.row, new.row)
    there = times.row[np.minimum(place, times.row.size - 1)] == new.row
    # most reports are a few new answers for many rows that have one
    columns = {name: getattr(times, name).copy() for name in _COLUMNS}
    for name, column in columns.items():
        column[place[there]] = getattr(new, name)[there]
    if there.all():
        return _times(times.row, columns)
    place, fresh = place[~there], _chosen(new, ~there)
    return _times(
        np.insert(times.row, place, fresh.row),
        {name: np.insert(column, place, getattr(fresh, name)) for name, column in columns.items()},
    )


def _part(stored: StoredTimes, kept: NDArray[np.bool_]) -> StoredTimes:
    return StoredTimes(**{name: getattr(stored, name)[kept] for name in stored.__slots__})
