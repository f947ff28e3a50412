"""Asks the monitor in this process."""

from lagwatch.cli.views import GroupView, Readiness, group_view, reading
from lagwatch.ports import Queries


class LocalSource:
    """A `StatusSource` over the read side."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def clusters(self) -> tuple[str, ...]:
        return self._queries.clusters()

    def readiness(self, cluster: str) -> Readiness:
        health = next(one for one in self._queries.health() if one.cluster == cluster)
        told = (*health.problems, *health.unseen)
        if not health.ready and not told:
            told = (reading(health.backlog_read, health.backlog_total),)
        return Readiness(ready=health.ready, problems=told)

    def groups(self, cluster: str) -> tuple[str, ...]:
        return self._queries.groups(cluster)

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        return group_view(self._queries.verdict(cluster, group, show_all=show_all))
