"""Spent error budgets: when a group missed its limits, and how that survives a restart."""

import sqlite3
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, Self

import orjson
import structlog

from lagwatch.notify.database import Database

Key = tuple[str, str]
"""Group (with its cluster where there are several) and policy."""

LONGEST_MS: Final = 6 * 3_600_000
"""Time of which is remembered when limits were missed."""
_STEP_MS: Final = 10_000
"""How exactly it is remembered when time was spent."""
_EXACT_MS: Final = 3_600_000
"""Longest window, or last part of one, that needs this; before it, minutes do."""
_COARSE_MS: Final = 60_000
LONGEST_ROUND_MS: Final = 120_000
"""More between two rounds is time in which nothing was seen."""

_log = structlog.get_logger()


@dataclass(slots=True)
class Spent:
    """When a group missed its limits: instants, and the time missed up to each of them."""

    at_ms: list[int] = field(default_factory=list)
    missed_ms: list[int] = field(default_factory=list)
    seen_ms: int = 0
    """The round before."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """From when to when nothing was seen, oldest first: it counts neither as missed nor as kept."""
    burns: bool = field(default=False, compare=False)
    """True while it is spent too fast."""
    ended_ms: int | None = field(default=None, compare=False)
    """When that ended last; None: not since lagwatch started."""

    @property
    def last_ms(self) -> int:
        """When limits were missed last."""
        return self.at_ms[-1] if self.at_ms else self.seen_ms

    @property
    def changed_ms(self) -> int:
        """When anything was added last."""
        return max(self.last_ms, self.gaps[-1][1] if self.gaps else 0)

    @property
    def counts_ms(self) -> int:
        """`last_ms` plus the gaps since then, by which a window reaches it for longer."""
        return self.last_ms + sum(
            until_ms - from_ms for from_ms, until_ms in self.gaps if until_ms > self.last_ms
        )

    def note(self, now_ms: int, *, missed: bool, round_ms: int = LONGEST_ROUND_MS) -> None:
        """Note a round.

        `round_ms`: after a longer pause, up to two minutes, time counts as missed only if the limit
        was missed before it, too; else, and after more, nothing is known of it.
        """
        before_ms, past_ms = self.seen_ms, now_ms - self.seen_ms
        still = missed and bool(self.at_ms) and self.at_ms[-1] >= before_ms
        self.seen_ms = now_ms
        if past_ms < 0:  # the clock was set back: what is remembered was as long ago as before
            self.at_ms = [at_ms + past_ms for at_ms in self.at_ms]
            self.gaps = [(from_ms + past_ms, until_ms + past_ms) for from_ms, until_ms in self.gaps]
            self.ended_ms = None if self.ended_ms is None else self.ended_ms + past_ms
        if past_ms > (LONGEST_ROUND_MS if still else round_ms):
            self.gaps.append((before_ms, now_ms))
        elif missed and past_ms > 0:
            total_ms = (self.missed_ms[-1] if self.missed_ms else 0) + past_ms
            if len(self.at_ms) > 1 and now_ms // _STEP_MS == self.at_ms[-1] // _STEP_MS:
                self.at_ms.pop()
                self.missed_ms.pop()
            self.at_ms.append(now_ms)
            self.missed_ms.append(total_ms)

    def within(self, now_ms: int, window_ms: int) -> int:
        """Time missed in the window that ends now."""
        if not self.at_ms:
            return 0
        before = bisect_right(self.at_ms, self.from_ms(now_ms, window_ms))
        return self.missed_ms[-1] - (self.missed_ms[before - 1] if before else 0)

    def began_ms(self, now_ms: int, window_ms: int) -> int:
        """When limits were first missed in the window that ends now, after it was burnt before.

        Now if they were not.
        """
        from_ms = max(self.from_ms(now_ms, window_ms), self.ended_ms or 0)
        first = bisect_right(self.at_ms, from_ms)
        if first == len(self.at_ms):
            return now_ms
        before_ms = self.missed_ms[first - 1] if first else 0
        return max(from_ms, self.at_ms[first] - (self.missed_ms[first] - before_ms))

    def is_after_gap(self, at_ms: int) -> bool:
        """True if nothing was seen right before an instant: what began then may have before."""
        return any(
            from_ms < at_ms and abs(at_ms - until_ms) <= _STEP_MS for from_ms, until_ms in self.gaps
        )

    def from_ms(self, now_ms: int, window_ms: int) -> int:
        """When the window begins that ends now and holds so much time that was seen."""
        left_ms = window_ms
        for from_ms, until_ms in reversed(self.gaps):
            if now_ms - until_ms >= left_ms:
                break
            left_ms -= max(0, now_ms - until_ms)
            now_ms = from_ms
        return now_ms - left_ms

    def forget(self, until_ms: int) -> None:
        """Drop what no window reaches any more; the newest of it stays as the base."""
        self.gaps = [gap for gap in self.gaps if gap[1] > until_ms]
        before = bisect_right(self.at_ms, until_ms)
        if before > 1:
            del self.at_ms[: before - 1], self.missed_ms[: before - 1]

    def thin(self) -> None:
        """Keep of each minute before the last hour only its end: some 700 instants are left."""
        old = bisect_right(self.at_ms, self.seen_ms - _EXACT_MS)
        if old < 1:
            return
        last_of = {at_ms // _COARSE_MS: place for place, at_ms in enumerate(self.at_ms[:old])}
        chosen = [*sorted({0, *last_of.values()}), *range(old, len(self.at_ms))]
        self.at_ms = [self.at_ms[place] for place in chosen]
        self.missed_ms = [self.missed_ms[place] for place in chosen]

    def packed(self) -> bytes:
        """All of it; differences are small and much alike, so they take little room."""
        steps = [[after - before for before, after in pairwise(column)] for column in self._columns]
        first = [column[:1] for column in self._columns]
        gaps = [self.gaps] if self.gaps else []  # versions before know none
        return zlib.compress(orjson.dumps([self.seen_ms, first, steps, *gaps]), level=1)

    @classmethod
    def unpacked(cls, body: bytes) -> Self:
        """What was packed.

        Raises:
            ValueError, TypeError: it is damaged.
        """
        try:
            seen_ms, first, steps, *gaps = orjson.loads(zlib.decompress(body))
        except zlib.error as error:
            raise ValueError(str(error)) from error
        at_ms, missed_ms = (
            list(accumulate([*start, *column])) for start, column in zip(first, steps, strict=True)
        )
        if len(at_ms) != len(missed_ms):
            raise ValueError("its columns differ in length")
        known = [(int(from_ms), int(until_ms)) for each in gaps for from_ms, until_ms in each]
        return cls(at_ms, missed_ms, int(seen_ms), known)

    @property
    def _columns(self) -> tuple[list[int], list[int]]:
        return self.at_ms, self.missed_ms


class BudgetStore:
    """Keeps spent budgets in the file of the alerts, one row per group and policy."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kept(self, cluster: str) -> dict[Key, Spent]:
        """What is kept of a cluster; a row that cannot be read is named in the log."""
        found = {}
        measured_ms = self._database.measured_until_ms(cluster)
        for row in self._database.connection.execute(
            "SELECT name, policy, body FROM budgets WHERE cluster = ?", (cluster,)
        ).fetchall():
            try:
                spent = Spent.unpacked(row["body"])
                # of a group that has missed nothing since, nothing was written since
                spent.seen_ms = max(spent.seen_ms, measured_ms)
                found[row["name"], row["policy"]] = spent
            except (ValueError, TypeError) as error:
                _log.error(
                    "budget_not_readable",
                    cluster=cluster,
                    group=row["name"],
                    policy=row["policy"],
                    reason=str(error),
                )
        return found

    def begin_anew(self, limits: Mapping[str, str]) -> list[str]:
        """Delete what was spent under other limits; returns the policies of which there was any.

        `limits`: those of each policy, in words that are equal only if they are.
        """

        def work(connection: sqlite3.Connection) -> list[str]:
            known = dict(connection.execute("SELECT policy, limits FROM objectives").fetchall())
            changed = [name for name, now in limits.items() if known.get(name, now) != now]
            marks = [(name,) for name in changed]
            connection.executemany("DELETE FROM budgets WHERE policy = ?", marks)
            connection.executemany(
                "INSERT OR REPLACE INTO objectives VALUES (?, ?)", [*limits.items()]
            )
            return changed

        return self._database.write(work)

    def keep(self, cluster: str, changed: Mapping[Key, Spent], now_ms: int) -> None:
        """Write what has changed until this round, and delete what no window reaches any more.

        Raises:
            sqlite3.Error: nothing has changed.
        """
        rows = list(_rows(cluster, changed))

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR REPLACE INTO budgets VALUES (?, ?, ?, ?, ?)", rows)
            connection.execute(
                "DELETE FROM budgets WHERE cluster = ? AND last_ms < ?",
                (cluster, now_ms - LONGEST_MS),
            )
            connection.execute("INSERT OR REPLACE INTO measured VALUES (?, ?)", (cluster, now_ms))

        self._database.write(work)


def _rows(cluster: str, changed: Mapping[Key, Spent]) -> Iterable[tuple[str, str, str, int, bytes]]:
    for (group, policy), spent in changed.items():
        spent.thin()
        yield cluster, group, policy, spent.counts_ms, spent.packed()
