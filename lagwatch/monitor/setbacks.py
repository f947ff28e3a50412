"""Rows that went back or lost messages, and the log starts that show the loss."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN

Int64 = NDArray[np.int64]
Rows = NDArray[np.integer]


class Setbacks:
    """Columns by row; there are none until the first of their kind happens. One owner writes."""

    def __init__(self) -> None:
        self._capacity = 0
        self._columns: dict[str, Int64] = {}

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

    def clear(self, rows: Rows) -> None:
        """Forget these rows."""
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
        # a row that went back twice is compared with where it was first
        first = fell[marked[rows[fell]] < 0][::-1]
        marked[rows[first]] = before[first]
        marked_ms[rows[first]] = at_ms[first]
        again_ms[rows[fell]] = at_ms[fell]
        last = np.append(rows[1:] != rows[:-1], True)
        back = rows[last & (offset >= marked[rows])]
        marked[back] = marked_ms[back] = again_ms[back] = UNKNOWN

    # messages deleted unread

    def lost(self, rows: Rows) -> Int64:
        """Messages lost so far."""
        column = self._columns.get("lost")
        return np.zeros(rows.size, np.int64) if column is None else column[rows]

    def counted_until(self, rows: Rows) -> Int64:
        """Offset up to which losses are counted; -1."""
        column = self._columns.get("lost_until")
        return np.full(rows.size, UNKNOWN, np.int64) if column is None else column[rows]

    def lose(self, row: int, *, messages: int, until: int, now_ms: int) -> None:
        """Count messages of one row that were deleted unread."""
        self._column("lost")[row] += messages
        self._column("lost_ms")[row] = now_ms
        self._column("lost_until")[row] = until

    def acknowledge(self, rows: Rows) -> int:
        """Stop showing the losses of these rows; returns how many were shown."""
        shown = self._columns.get("lost_ms")
        if shown is None:
            return 0
        number = int(np.count_nonzero(shown[rows] >= 0))
        shown[rows] = UNKNOWN
        return number


_EMPTY: Final = {
    "lost": 0,
    "lost_ms": UNKNOWN,
    "lost_until": UNKNOWN,
    "rewound_from": UNKNOWN,
    "rewound_ms": UNKNOWN,
    "rewound_again_ms": UNKNOWN,
}


Index = NDArray[np.integer]

_MOST: Final = 8


@dataclass(slots=True, kw_only=True)
class _Span:
    """Rounds in a row that found the same log starts."""

    since_ms: int
    """End of the first of them."""
    until_ms: int
    """End of the last of them."""
    start: Int64
    """By topic-partition; -1 unknown."""


class LogStarts:
    """Log starts by topic-partition over the last rounds. One owner writes.

    Commits of a round become known a round or two after its log starts: so these are kept.
    """

    def __init__(self) -> None:
        self._spans: list[_Span] = []

    @property
    def since_ms(self) -> int:
        """End of the first round of the newest log starts; -1 when there is none."""
        return self._spans[-1].since_ms if self._spans else UNKNOWN

    @property
    def until_ms(self) -> int:
        """End of the last round; -1 when there was none."""
        return self._spans[-1].until_ms if self._spans else UNKNOWN

    @property
    def newest(self) -> Int64:
        """Log starts of the newest round."""
        return self._spans[-1].start if self._spans else np.zeros(0, np.int64)

    def add(self, start: Int64, finished_ms: int) -> None:
        """Take in the log starts of a round that ended at `finished_ms`."""
        if self._spans and np.array_equal(self._spans[-1].start, start):
            self._spans[-1].until_ms = finished_ms
            return
        self._spans.append(_Span(since_ms=finished_ms, until_ms=finished_ms, start=start))
        if len(self._spans) > _MOST:
            # the oldest may be the only one up to which commits are known
            del self._spans[_MOST // 2]

    def remap(self, source: Int64) -> None:
        """Renumber: new column i is old column `source[i]`, or a new one for -1."""
        for span in self._spans:
            span.start = np.append(span.start, UNKNOWN)[source]

    def known_at(self, at: Index, known_ms: Int64) -> Int64:
        """Log start of each partition in the newest round that ended by `known_ms`; -1 unknown."""
        found = np.full(at.size, UNKNOWN, np.int64)
        for span in self._spans:
            found = np.where(span.since_ms <= known_ms, np.append(span.start, UNKNOWN)[at], found)
        return found

    def gone_since_ms(self, at: int, offset: int) -> int:
        """End of the first round that found the message at `offset` of a partition deleted.

        -1 when none did.
        """
        found = UNKNOWN
        for span in reversed(self._spans):
            if span.start[at] <= offset:
                break
            found = span.since_ms
        return found

    def there_until_ms(self, at: int, offset: int) -> int:
        """End of the last round that found the message at `offset` of a partition not deleted.

        If none did, the end of the first round; -1 when there was no round.
        """
        for span in reversed(self._spans):
            if 0 <= span.start[at] <= offset:
                return span.until_ms
        return self._spans[0].since_ms if self._spans else UNKNOWN
