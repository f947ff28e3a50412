"""When nothing was seen of a cluster: Kafka was away, or lagwatch did not run."""

from collections.abc import Iterable, Mapping
from typing import Final

from lagwatch.notify.budget import LONGEST_ROUND_MS
from lagwatch.notify.database import Database

Gap = tuple[int, int]
"""From when to when, in ms."""

_KEPT_MS: Final = 30 * 86_400_000
_GOES_ON_MS: Final = 600_000
"""What an earlier process saw counts if it ended less than this ago."""


class Unseen:
    """The gaps of one cluster, oldest first."""

    def __init__(self, gaps: Iterable[Gap] = (), seen_ms: int = 0) -> None:
        """`seen_ms`: the last round before the start, as far as it is known; 0: it is not."""
        self._gaps = [*gaps]
        self._seen_ms = seen_ms

    def note(self, now_ms: int) -> Gap | None:
        """Note a round; returns the gap that it ends, if there is one."""
        before_ms, self._seen_ms = self._seen_ms, now_ms
        if not before_ms or now_ms - before_ms <= LONGEST_ROUND_MS:
            return None
        self._gaps.append((before_ms, now_ms))
        return before_ms, now_ms

    def before_ms(self, seen_ms: int) -> int | None:
        """When was the last look before a first one, if nothing was seen in between; else None."""
        ends = (
            began_ms
            for began_ms, ended_ms in self._gaps
            if ended_ms <= seen_ms <= ended_ms + LONGEST_ROUND_MS
        )
        return max(ends, default=None)

    def within_ms(self, from_ms: int, until_ms: int) -> int:
        """How long nothing was seen between two instants."""
        return sum(
            max(0, min(until_ms, ended_ms) - max(from_ms, began_ms))
            for began_ms, ended_ms in self._gaps
        )


class UnseenStore:
    """Keeps them in the file of the alerts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kept(self, cluster: str) -> Unseen:
        gaps = self._database.connection.execute(
            "SELECT from_ms, until_ms FROM unseen WHERE cluster = ? ORDER BY from_ms", (cluster,)
        ).fetchall()
        measured_ms = self._database.measured_until_ms(cluster)
        return Unseen([(row[0], row[1]) for row in gaps], measured_ms)

    def keep(self, cluster: str, gap: Gap) -> None:
        """Write a gap, and forget old ones.

        Raises:
            sqlite3.Error: nothing has changed.
        """
        self._database.write(
            lambda connection: (
                connection.execute(
                    "INSERT OR REPLACE INTO unseen VALUES (?, ?, ?)", (cluster, *gap)
                ),
                connection.execute("DELETE FROM unseen WHERE until_ms < ?", (gap[1] - _KEPT_MS,)),
            )
        )


class UnreachableStore:
    """For how long no broker of a cluster has answered: what processes saw of it, added up.

    So a lagwatch that is restarted in an outage sends its incident no later than one that is not.
    The time in which none ran does not count.
    """

    def __init__(self, database: Database, now_ms: int) -> None:
        self._database = database
        rows = database.connection.execute("SELECT cluster, for_s, at_ms FROM unreachable")
        kept = rows.fetchall()
        self._kept: dict[str, float] = {cluster: for_s for cluster, for_s, _ in kept}
        self._before: dict[str, float] = {
            cluster: for_s for cluster, for_s, at_ms in kept if at_ms > now_ms - _GOES_ON_MS
        }

    def before_s(self, cluster: str) -> float:
        """What earlier processes saw of an outage that goes on."""
        return self._before.get(cluster, 0.0)

    def keep(self, held_s: Mapping[str, float], ready: Iterable[str], now_ms: int) -> None:
        """Write for how long clusters have been out of reach; those that are `ready` are not.

        Raises:
            sqlite3.Error: nothing has changed.
        """
        over = set(ready)
        found = {
            **{name: for_s for name, for_s in self._kept.items() if name not in over},
            **held_s,
        }
        if found == self._kept:
            return
        rows = [(cluster, for_s, now_ms) for cluster, for_s in held_s.items()]
        self._database.write(
            lambda connection: (
                connection.executemany("INSERT OR REPLACE INTO unreachable VALUES (?, ?, ?)", rows),
                connection.executemany(
                    "DELETE FROM unreachable WHERE cluster = ?", [(name,) for name in over]
                ),
            )
        )
        self._kept = found
        self._before = {name: for_s for name, for_s in self._before.items() if name not in over}
