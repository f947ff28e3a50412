"""Deployments: when a version of a group's consumers went live, and where the group stood."""

import json

import numpy as np

from lagwatch.clock import Clock
from lagwatch.core.record import EventName, Kind, Records, from_rows
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import NotFoundError
from lagwatch.history.build import History
from lagwatch.history.changes import event
from lagwatch.ports.history import Deployment
from lagwatch.ports.queries import Queries


class RecordedDeployments:
    """`ports.Deployments` into the history."""

    def __init__(self, queries: Queries, history: History, clock: Clock) -> None:
        self._queries = queries
        self._history = history
        self._clock = clock
        self.latest: dict[tuple[str, str], Deployment] = {}
        """By (cluster, group): the last one told since the start."""

    async def deployed(self, cluster: str, group: str, *, version: str, note: str) -> Deployment:
        offsets = committed(self._queries.snapshot(cluster), group)
        deployment = Deployment(
            cluster=cluster,
            group=group,
            at_ms=self._clock.now_ms(),
            version=version,
            note=note,
            offsets=offsets,
        )
        await self._history.tell(as_event(deployment))
        self.latest[cluster, group] = deployment
        return deployment


def committed(snapshot: ClusterSnapshot, group: str) -> dict[str, list[int | None]]:
    """Topic → committed offset of the group by partition; None where there is none.

    Raises:
        NotFoundError: the group is not known.
    """
    number = snapshot.group_index.get(group)
    if number is None:
        raise NotFoundError(kind="group", name=group)
    first, end = snapshot.group.first[number : number + 2].tolist()
    rows = snapshot.rows
    found: dict[str, list[int | None]] = {}
    for topic in np.unique(rows.topic[first:end]).tolist():
        mine = first + np.flatnonzero(rows.topic[first:end] == topic)
        offsets: list[int | None] = [None] * (int(rows.partition[mine].max()) + 1)
        for row in mine.tolist():
            offset = int(rows.committed[row])
            offsets[int(rows.partition[row])] = None if offset < 0 else offset
        found[snapshot.topic_names[topic]] = offsets
    return found


def as_event(deployment: Deployment) -> Records:
    """The row of kind `events`: `after` is the version, `detail` JSON with note and offsets."""
    detail = {
        "version": deployment.version,
        "note": deployment.note,
        "offsets": {topic: list(offsets) for topic, offsets in deployment.offsets.items()},
    }
    known = sum(offset is not None for offsets in deployment.offsets.values() for offset in offsets)
    row = event(
        deployment.cluster,
        deployment.at_ms,
        EventName.DEPLOYMENT,
        group=deployment.group,
        after=deployment.version,
        count=known,
        detail=json.dumps(detail, ensure_ascii=False, separators=(",", ":")),
    )
    return from_rows(Kind.EVENTS, [row])
