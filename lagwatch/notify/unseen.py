"""When nothing was seen of a cluster: Kafka was away, or lagwatch did not run."""

from collections.abc import Iterable
from typing import Final

from lagwatch.notify.budget import LONGEST_ROUND_MS
from lagwatch.notify.database import Database

Gap = tuple[int, int]
"""From when to when, in ms."""

_KEPT_MS: Final = 30 * 86_400_000


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
