"""Rows to be judged with arbitrary columns: few different values each, so that rules overlap."""

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN, Membership
from lagwatch.core.pace import Pace, Usual
from lagwatch.core.rows import (
    ABSENCE,
    Around,
    CommitFacts,
    Limits,
    PartitionColumns,
    RowFacts,
    Rows,
    Turns,
    WindowColumns,
)
from lagwatch.core.watching import Unwatched

NOW_MS = 2_000_000_000
_SLOTS = 4
_FIRST_OFFSET = 10_000

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]


def any_rows(
    seed: int, size: int, *, by_offset: int = 0, by_s: int = 0, beginning: bool = False
) -> Rows:
    """So many rows; the same seed gives the same, with all offsets and instants shifted.

    At the `beginning` lagwatch was started again half a minute ago, and once before; else it has
    watched for long, and windows filled less than half are not judged.
    """
    return _Drawn(seed, size, by_offset, by_s * 1000).rows(beginning=beginning)


class _Drawn:
    def __init__(self, seed: int, size: int, by_offset: int, by_ms: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._size = size
        self._by_offset = by_offset
        self._by_ms = by_ms

    def _of(self, *values: int, shape: tuple[int, ...] = ()) -> Int64:
        return self._rng.choice(np.array(values, np.int64), (*shape, self._size))

    def _yes(self, share: float) -> NDArray[np.bool_]:
        return self._rng.random(self._size) < share

    def _instant(self, *ages_s: int) -> Int64:
        """So long ago; unknown for -1."""
        age_s = self._of(*ages_s)
        return np.where(age_s < 0, UNKNOWN, NOW_MS + self._by_ms - age_s * 1000)

    def _windows(self) -> WindowColumns:
        """The newest entry is in slot `count - 1`."""
        steps = self._of(0, 0, 10, -15, 40, shape=(_SLOTS,))
        gaps_ms = self._of(1, 10, 60, 400, shape=(_SLOTS,)) * 1000
        count = self._of(*range(_SLOTS + 1))
        commit_ms = np.cumsum(gaps_ms, axis=0)
        last_ms = commit_ms[count - 1, np.arange(self._size)]
        return WindowColumns(
            offset=_FIRST_OFFSET + self._by_offset + np.cumsum(steps, axis=0),
            commit_ms=commit_ms - last_ms + self._instant(0, 5, 20, 100, 400, 2000),
            lag=self._of(UNKNOWN, 0, 5, 100, shape=(_SLOTS,)),
            count=count,
            oldest=np.zeros(self._size, np.int8),
            newest=count - 1,
        )

    def rows(self, *, beginning: bool) -> Rows:
        windows = self._windows()
        committed = windows.offset[windows.newest, np.arange(self._size)]
        # -50: the committed offset is beyond the log end
        ahead = self._of(UNKNOWN, -50, 0, 5, 100, 100)
        log_end = np.where(ahead == UNKNOWN, UNKNOWN, committed + ahead)
        lag = np.where(log_end < 0, UNKNOWN, np.maximum(ahead, 0))
        lag[windows.count == 0] = UNKNOWN
        return Rows(
            Around(
                pace=self._pace(),
                facts=self._facts(committed),
                partitions=self._partitions(committed, log_end),
                limits=Limits(allowed_lag=5, minimum_complete=0.0 if beginning else 0.5),
                complete_ms=NOW_MS + self._by_ms - (30_000 if beginning else 900_000),
                first_ms=NOW_MS + self._by_ms - (2_500_000 if beginning else 900_000),
                unwatched=self._unwatched() if beginning else Unwatched(),
                asked_ms=NOW_MS + self._by_ms,
            ),
            windows,
            row=np.arange(self._size),
            at=np.arange(self._size, dtype=np.int32),
            now_ms=np.full(self._size, NOW_MS + self._by_ms),
            lag=lag,
            readable_lag=np.where(self._yes(0.3), np.minimum(lag, 0), lag),
            time_lag_ms=np.where(lag < 0, UNKNOWN, self._of(UNKNOWN, 1_000, 90_000, 2_000_000)),
            allowed_lag=5,
        )

    def _unwatched(self) -> Unwatched:
        ages_s = ((1000, 700), (130, 30))
        now_ms = NOW_MS + self._by_ms
        return Unwatched.of(
            (now_ms - 1000 * since, now_ms - 1000 * until) for since, until in ages_s
        )

    def _pace(self) -> Pace:
        pace = Pace()
        pace.make_room(self._size)
        pace.moved_ms = self._instant(0, 20, 100, 400, 2000, 20_000)
        pace.since_s = (self._instant(60, 400, 5000) // 1000).astype(np.uint32)
        pace.moves = self._of(1, 5).astype(np.uint8)
        pace.down = self._yes(0.1)
        pace.down_since_ms = self._instant(UNKNOWN, 400, 2000)
        pace.stalled = pace.down & self._yes(0.5)
        pace.pauses = Usual(self._units(0, 3, 40), self._units(0))
        pace.past = Usual(self._units(0, 0, 60), self._units(0))
        pace.periods = Usual(self._units(0, 0, 60, 360), self._units(0))
        pace.run_s = (self._instant(20, 400, 3000) // 1000).astype(np.uint32)
        pace.may_be_job = self._yes(0.2)
        unread_s = self._instant(100, 5000, 90_000) // 1000
        pace.unread_s = np.where(self._yes(0.5), 0, unread_s).astype(np.uint32)
        if self._rng.random() < 0.5:
            pace.waited_ms = self._instant(UNKNOWN, UNKNOWN, 100, 2000)
        ages_s = self._instant(100, 5000, 5000) // 1000
        pace.held_s = np.where(self._yes(0.3), 0, ages_s).astype(np.uint32)
        pace.left_s = np.where(self._yes(0.5), 0, self._instant(10, 100, 5000) // 1000).astype(
            np.uint32
        )
        pace.rises = Usual(self._units(0, 6), self._units(0))
        pace.rising = self._units(0, 4, 12)
        pace.level = self._units(0, 3)
        return pace

    def _units(self, *values: int) -> NDArray[np.uint16]:
        return self._of(*values).astype(np.uint16)

    def _facts(self, committed: Int64) -> RowFacts:
        back = self._yes(0.5)
        return RowFacts(
            membership=self._of(*Membership).astype(np.int8),
            left_ms=self._instant(UNKNOWN, UNKNOWN, 30, 100),
            visited_ms=np.where(self._yes(0.1), self._instant(30, 400), UNKNOWN),
            mirrored=self._yes(0.2),
            read_committed=self._yes(0.3),
            rewound_from=np.where(back, committed + self._of(20, -20), UNKNOWN),
            rewound_ms=np.where(back, self._instant(10, 100, 2000), UNKNOWN),
            rewound_again_ms=np.where(back, self._instant(5, 700), UNKNOWN),
            lost=self._of(0, 7),
            lost_acknowledged=self._of(0, 3),
            lost_bound=self._of(0, 1),
            lost_doubt_ms=self._instant(UNKNOWN, UNKNOWN, 60, 5000),
            lost_ms=self._instant(UNKNOWN, UNKNOWN, 60, 5000),
            lost_since_ms=self._instant(UNKNOWN, 70, 6000),
            commits=self._commits(),
            turns=self._turns(),
        )

    def _turns(self) -> Turns:
        row = np.flatnonzero(self._yes(0.3))
        return Turns(row.astype(np.int32), self._instant(10, 100, 500)[row])

    def _commits(self) -> CommitFacts:
        """The offsets topic has four partitions."""
        away = self._rng.random(4) < 0.3
        now_ms = NOW_MS + self._by_ms
        return CommitFacts(
            place=self._of(*range(4)).astype(np.int16),
            known_ms=np.full(4, now_ms),
            **self._absences(away, np.full(4, now_ms)),
            polled=self._rng.random(4) < 0.3,
        )

    def _partitions(self, committed: Int64, log_end: Int64) -> PartitionColumns:
        waits = self._of(0, 1, 2)
        stable = np.choose(waits, (log_end, committed, committed - 3))
        empty = self._yes(0.2)
        away = self._yes(0.2)
        return PartitionColumns.of(
            log_end,
            log_start=np.full(self._size, self._by_offset),
            last_stable=np.where(log_end < 0, UNKNOWN, np.minimum(stable, log_end)),
            held_ms=self._instant(UNKNOWN, 60, 2000),
            empty_first=np.where(empty, committed, UNKNOWN),
            empty_end=np.where(empty, committed + self._of(5, 100), UNKNOWN),
            recent_end=np.where(log_end < 0, UNKNOWN, log_end - self._of(0, 100)),
            known_ms=self._instant(0),
            **self._absences(away, self._instant(0)),
        )

    def _absences(self, away: Bools, now_ms: Int64) -> dict[str, Int64]:
        """`ABSENCE`: one, and before it up to three more."""
        columns, at_s = {}, (600, 90, 700, 660, 900, 800, 1500)
        for name, ago_s in zip(ABSENCE, at_s, strict=True):
            if name in {"away_2_ms", "away_3_ms", "clear_ms"}:
                away = away & (self._rng.random(away.size) < 0.5)
            columns[name] = np.where(away, now_ms - ago_s * 1000, UNKNOWN)
        return columns
