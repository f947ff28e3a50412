"""When the messages at committed offsets were appended, by brokers and by the stored history."""

from collections.abc import Mapping
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

_COLUMNS = ("offset", "low_ms", "high_ms", "by_broker")


class AppendTimeColumns:
    """Few rows have any: they are kept sorted, not by their place. One owner writes."""

    def __init__(self) -> None:
        self._times: OffsetTimes | None = None
        self._stored: StoredTimes | None = None

    @property
    def times(self) -> OffsetTimes | None:
        """The known times; None without any. Never changed in place."""
        return self._times

    @property
    def stored(self) -> StoredTimes | None:
        """What the stored history says; None: nothing. Never changed in place."""
        return self._stored

    def seed(self, stored: StoredTimes) -> None:
        """Take what the stored history says, in place of what it said before."""
        self._stored = stored if stored.row.size else None

    def take(self, report: AppendTimes, table: RowTable) -> None:
        """Take a report; keys without a row are skipped, because they are reported again."""
        announced = np.flatnonzero(report.key < table.keys)
        rows = table.find(report.key[announced])
        found = announced[rows >= 0]
        self._put(
            rows[rows >= 0].astype(np.int32),
            {name: getattr(report, name)[found] for name in _COLUMNS},
        )

    def _put(self, rows: NDArray[np.int32], columns: Mapping[str, Column]) -> None:
        if not rows.size:
            return
        if self._times is not None:
            kept = ~np.isin(self._times.row, rows)
            rows = np.concatenate((self._times.row[kept], rows))
            columns = {
                name: np.concatenate((getattr(self._times, name)[kept], columns[name]))
                for name in _COLUMNS
            }
        order = np.argsort(rows, kind="stable")
        self._times = _times(rows[order], {name: columns[name][order] for name in _COLUMNS})

    def clear(self, rows: Rows) -> None:
        """Forget everything about these rows."""
        if self._times is not None:
            self._keep(~np.isin(self._times.row, rows))
        if self._stored is not None:
            self.seed(_part(self._stored, ~np.isin(self._stored.row, rows)))

    def _keep(self, kept: NDArray[np.bool_]) -> None:
        times = self._times
        if times is None or kept.all():
            return
        self._times = None
        if kept.any():
            columns = {name: getattr(times, name)[kept] for name in _COLUMNS}
            self._times = _times(times.row[kept], columns)

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
            self._put(rows, {name: columns[name][known] for name in _COLUMNS})


def _times(row: NDArray[np.int32], columns: Mapping[str, Column]) -> OffsetTimes:
    return OffsetTimes(
        row=row,
        offset=columns["offset"],
        low_ms=columns["low_ms"],
        high_ms=columns["high_ms"],
        by_broker=columns["by_broker"],
    )


def _part(stored: StoredTimes, kept: NDArray[np.bool_]) -> StoredTimes:
    return StoredTimes(**{name: getattr(stored, name)[kept] for name in stored.__slots__})
