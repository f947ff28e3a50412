"""Distinguishes what has nothing to show from names that are watched and recorded nowhere."""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from lagwatch.core.record.records import plain_values
from lagwatch.errors import NotFoundError
from lagwatch.ports.history import HistoryAsk, HistoryPage, HistoryQueries
from lagwatch.ports.queries import Partitions, Queries

_DAY_MS: Final = 86_400_000


def wall_ms() -> int:
    """The time now."""
    return time.time_ns() // 1_000_000


class Known:
    """Raises for unknown names; ask only when an answer is empty: it reads the whole history."""

    def __init__(
        self,
        queries: Queries,
        history: HistoryQueries | None,
        now_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._queries = queries
        self._history = history
        self._now_ms = now_ms

    async def check_cluster(self, cluster: str) -> None:
        """Raise for an unknown cluster.

        Raises:
            NotFoundError: it is not configured, and no event of it was ever recorded.
        """
        if cluster in self._queries.clusters():
            return
        if self._history is None or not await self._has_events(self._history, cluster, None):
            raise NotFoundError(kind="cluster", name=cluster)

    async def check_group(self, cluster: str, group: str) -> None:
        """Raise for an unknown group.

        Raises:
            NotFoundError: it is not watched, and nothing was ever recorded of it.
        """
        if self._is_watched(cluster, group):
            return
        history = self._history
        if history is None or not (
            await self._has_rows(lambda ask: history.group(cluster, group, ask))
            or await self._has_events(history, cluster, group)
        ):
            raise NotFoundError(kind="group", name=f"{group} on {cluster}")

    async def check_partition(self, cluster: str, group: str, topic: str, partition: int) -> None:
        """Raise for a partition that the group never read.

        Raises:
            NotFoundError: the group is not known, or neither reads the partition now nor was
                anything of the partition ever recorded.
        """
        await self.check_group(cluster, group)
        if self._reads(cluster, group, topic, partition):
            return
        history = self._history
        if history is None or not await self._has_rows(
            lambda ask: history.partition(cluster, group, topic, partition, ask)
        ):
            name = f"{topic}/{partition} of {group} on {cluster}"
            raise NotFoundError(kind="partition", name=name)

    def _is_watched(self, cluster: str, group: str) -> bool:
        try:
            return group in self._queries.groups(cluster)
        except NotFoundError:
            return False

    def _reads(self, cluster: str, group: str, topic: str, partition: int) -> bool:
        try:
            verdict = self._queries.verdict(cluster, group, Partitions.ALL)
        except NotFoundError:
            return False
        return any(
            (each.topic, each.partition) == (topic, partition) for each in verdict.partitions
        )

    async def _has_rows(self, ask: Callable[[HistoryAsk], Awaitable[HistoryPage]]) -> bool:
        now_ms = self._now_ms()
        recorded = HistoryAsk(from_ms=0, to_ms=now_ms, step_ms=0, columns=("at_ms",), limit=1)
        if not is_empty(await ask(recorded)):
            return True
        # of what is older than the retention of samples, there are roll-ups
        by_day = HistoryAsk(
            from_ms=0,
            to_ms=now_ms,
            step_ms=_DAY_MS,
            columns=("at_ms", "samples"),
            limit=now_ms // _DAY_MS + 1,
        )
        return not is_empty(await ask(by_day))

    async def _has_events(self, history: HistoryQueries, cluster: str, group: str | None) -> bool:
        ever = HistoryAsk(from_ms=0, to_ms=self._now_ms(), step_ms=0, columns=("at_ms",), limit=1)
        return not is_empty(await history.events(cluster, group, ever))


def is_empty(page: HistoryPage) -> bool:
    """True if nothing was recorded; a grid has points all the same, without samples."""
    if page.step_ms == 0:
        return page.size == 0
    values = {name: plain_values(column) for name, column in page.columns.items()}
    values.pop("at_ms", None)
    samples = values.pop("samples", ())
    return not any(samples) and all(value is None for column in values.values() for value in column)
