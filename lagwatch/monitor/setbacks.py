"""Rows that went back or lost messages."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Rows = NDArray[np.integer]


class Setbacks:
    """Columns by row; there are none until the first of their kind happens. One owner writes."""

    def __init__(self, *, loss_shown_ms: int) -> None:
        """Losses are shown for `loss_shown_ms` after the last of them."""
        self._shown_ms = loss_shown_ms
        self._capacity = 0
        self._columns: dict[str, Int64] = {}
        self._touched: list[Rows] = []
        self.losses = 0
        """Losses counted so far, of all rows."""
        self.acknowledged = 0
        """Rows whose losses were acknowledged so far."""

    def take_touched(self) -> Rows:
        """Rows whose losses changed since the last call; those of commits are not among them."""
        touched = [np.zeros(0, np.intp), *self._touched]
        self._touched.clear()
        return np.concatenate(touched)

    def column(self, name: str) -> Int64 | None:
        """One of the columns named in `_EMPTY`; None as long as it is of no row."""
        return self._columns.get(name)

    def make_room(self, capacity: int) -> None:
        """Grow to this number of rows."""
        self._capacity = capacity
        for name, column in self._columns.items():
            grown = np.full(capacity, _EMPTY[name], np.int64)
            grown[: column.size] = column
            self._columns[name] = grown

    def copied(self, rows: Rows) -> dict[str, Int64]:
        """The columns that there are, of these rows; copies."""
        return {name: column[rows] for name, column in self._columns.items()}

    def put(self, first: int, columns: Mapping[str, Int64]) -> None:
        """Write such copies into the rows from `first` on, for which there must be room."""
        for name, column in columns.items():
            self._column(name)[first : first + column.size] = column
        if "lost_ms" in columns:
            self._take_up_acknowledged(first, columns["lost_ms"], columns["lost"])

    def _take_up_acknowledged(self, first: int, lost_ms: Int64, lost: Int64) -> None:
        """Of earlier versions: losses that are not shown were acknowledged, all of them."""
        rows = first + np.flatnonzero((lost_ms < 0) & (lost > 0))
        if rows.size:
            self._column("lost_acknowledged")[rows] = self._column("lost")[rows]
            self._column("lost_bound")[rows] = 0

    def clear(self, rows: Rows) -> None:
        """Forget these rows."""
        self._touched.append(rows)
        for name, column in self._columns.items():
            column[rows] = _EMPTY[name]

    def _column(self, name: str) -> Int64:
        if name not in self._columns:
            self._columns[name] = np.full(self._capacity, _EMPTY[name], np.int64)
        return self._columns[name]

    # offsets that went back

    def follow(self, rows: Rows, before: Int64, offset: Int64, at_ms: Int64) -> None:
        """Commits sorted by row and then time, with the offset before each; -1 for none."""
        fell = np.flatnonzero(offset < before)
        marked = self._columns.get("rewound_from")
        if marked is None and not fell.size:
            return
        marked, marked_ms = self._column("rewound_from"), self._column("rewound_ms")
        again_ms = self._column("rewound_again_ms")
        known = marked[rows]
        returned = rows[(known >= 0) & (offset >= known)]
        twice, times = np.unique(rows[fell], return_counts=True)
        mixed = np.union1d(np.intersect1d(twice, returned), twice[times > 1])
        if mixed.size:
            chosen = np.isin(rows, mixed)
            for row, *commit in zip(
                *(column[chosen].tolist() for column in (rows, before, offset, at_ms)), strict=True
            ):
                self._follow_one(row, *commit)
            rows = rows[~chosen]
            before, offset, at_ms = (column[~chosen] for column in (before, offset, at_ms))
            fell = np.flatnonzero(offset < before)
        # a row that went back twice is compared with where it was first
        first = fell[marked[rows[fell]] < 0][::-1]
        marked[rows[first]] = before[first]
        marked_ms[rows[first]] = at_ms[first]
        again_ms[rows[fell]] = at_ms[fell]
        last = np.append(rows[1:] != rows[:-1], True)
        back = rows[last & (offset >= marked[rows])]
        marked[back] = marked_ms[back] = again_ms[back] = UNKNOWN

    def _follow_one(self, row: int, before: int, offset: int, at_ms: int) -> None:
        """A commit of a row that went back, and returned or went back again, in the same batch."""
        marked, marked_ms = self._columns["rewound_from"], self._columns["rewound_ms"]
        again_ms = self._columns["rewound_again_ms"]
        if offset < before:
            if marked[row] < 0:
                marked[row], marked_ms[row] = before, at_ms
            again_ms[row] = at_ms
        elif offset >= marked[row]:
            marked[row] = marked_ms[row] = again_ms[row] = UNKNOWN

    # messages deleted unread

    def lost(self, rows: Rows) -> Int64:
        """Messages lost so far."""
        column = self._columns.get("lost")
        return np.zeros(rows.size, np.int64) if column is None else column[rows]

    def counted_until(self, rows: Rows) -> Int64:
        """Offset up to which losses are counted; -1."""
        column = self._columns.get("lost_until")
        return np.full(rows.size, UNKNOWN, np.int64) if column is None else column[rows]

    def doubt(self, row: int, now_ms: int) -> None:
        """The row's group passed deleted messages, and may have read them."""
        self._column("lost_doubt_ms")[row] = now_ms
        self._touched.append(np.array([row]))

    def lose(self, row: int, *, messages: int, until: int, now_ms: int, exact: bool) -> None:
        """Count messages of one row that were deleted unread; not `exact`: at most so many."""
        self._column("lost")[row] += messages
        if not exact:
            self._column("lost_bound")[row] = 1
        self.losses += 1
        noticed_ms = self._column("lost_ms")
        if noticed_ms[row] < 0 or now_ms - noticed_ms[row] > self._shown_ms:
            self._column("lost_since_ms")[row] = now_ms
        noticed_ms[row] = now_ms
        self._column("lost_until")[row] = until
        self._touched.append(np.array([row]))

    def acknowledge(self, rows: Rows) -> int:
        """Stop showing the losses of these rows; returns how many were shown.

        What is lost after it is shown without them; they stay counted.
        """
        shown = self._columns.get("lost_ms")
        if shown is None:
            return 0
        number = int(np.count_nonzero(shown[rows] >= 0))
        self.acknowledged += number
        shown[rows] = UNKNOWN
        if number:
            self._column("lost_acknowledged")[rows] = self._column("lost")[rows]
            # that of what comes after it
            self._column("lost_bound")[rows] = 0
        self._touched.append(rows)
        return number


_EMPTY: Final = {
    "lost": 0,
    "lost_acknowledged": 0,
    "lost_bound": 0,
    "lost_doubt_ms": UNKNOWN,
    "lost_ms": UNKNOWN,
    "lost_since_ms": UNKNOWN,
    "lost_until": UNKNOWN,
    "rewound_from": UNKNOWN,
    "rewound_ms": UNKNOWN,
    "rewound_again_ms": UNKNOWN,
}
