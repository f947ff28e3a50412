"""Records when a version of a group's consumers went live, and the group's offsets then."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.record import EventName, Kind, Records, from_rows, is_word
from lagwatch.core.rollback import Place, RollbackPlan, Standing, no_plan, partitions
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.errors import NotFoundError, RollbackError
from lagwatch.history.build import History
from lagwatch.history.changes import Row, event
from lagwatch.history.runs import measured
from lagwatch.ports.deployments import Deployment, DeploymentDiff, Run
from lagwatch.ports.history import EVER_MS, HistoryRange, HistoryStore
from lagwatch.ports.queries import Queries

Int64 = NDArray[np.int64]
Offsets = Mapping[str, Sequence[int | None]]

_MOST_REMEMBERED: Final = 10_000


class RecordedDeployments:
    """Implements `ports.Deployments`: a deployment is an event of the history."""

    def __init__(self, queries: Queries, history: History, clock: Clock) -> None:
        self._queries = queries
        self._history = history
        self._clock = clock
        self.latest: dict[tuple[str, str], Deployment] = {}
        """By (cluster, group): the newest deployment since the start."""
        self._newest: dict[tuple[str, str, int], Deployment] = {}
        """Deployments of this process by cluster, group and instant; the store lacks the newest."""

    async def deployed(self, cluster: str, group: str, *, version: str, note: str) -> Deployment:
        offsets, log_start, log_end = _places(self._queries.snapshot(cluster), group)
        deployment = Deployment(
            cluster=cluster,
            group=group,
            at_ms=self._clock.now_ms(),
            version=version,
            note=note,
            offsets=offsets,
            log_start=log_start,
            log_end=log_end,
        )
        await self._history.record_rows(as_event(deployment))
        self.latest[cluster, group] = deployment
        if len(self._newest) >= _MOST_REMEMBERED:
            self._newest.pop(next(iter(self._newest)))
        self._newest[cluster, group, deployment.at_ms] = deployment
        return deployment

    async def noted(self, cluster: str, group: str) -> tuple[Deployment, ...]:
        wanted = _story(cluster, group, 0, "after", "detail")
        found = {
            each.at_ms: each
            for each in self._newest.values()
            if (each.cluster, each.group) == (cluster, group)
        }
        stored = await self._history.queries.using(lambda store: _deployments(store, wanted))
        found |= {each.at_ms: each for each in stored}
        return tuple(found[at_ms] for at_ms in sorted(found))

    async def diff(
        self, cluster: str, group: str, before: str, after: str, *, last_ms: int
    ) -> DeploymentDiff:
        noted = await self.noted(cluster, group)
        chosen = [_named(noted, name) for name in (before, after)]
        runs = [await self._run(each, noted, last_ms) for each in chosen]
        return DeploymentDiff(before=runs[0], after=runs[1], committed=_committed(*chosen))

    async def _run(self, deployment: Deployment, noted: Sequence[Deployment], last_ms: int) -> Run:
        following = [each.at_ms for each in noted if each.at_ms > deployment.at_ms]
        to_ms = min(following, default=self._clock.now_ms())
        from_ms = max(deployment.at_ms, to_ms - last_ms)
        reader = self._history.queries
        return await reader.using(
            lambda store: measured(store, deployment, from_ms, to_ms, reader.recording)
        )

    async def rollback_plan(self, cluster: str, group: str, deployment: str) -> RollbackPlan:
        chosen = _named(await self.noted(cluster, group), deployment)
        snapshot = self._queries.snapshot(cluster)
        info = self._queries.info(cluster, group)
        why = None if info is None else no_plan(group, info.type)
        if why is not None:
            raise RollbackError(why)
        recorded = dict(_flat(chosen.offsets))
        recreated = await self._recreated(cluster, group, chosen.at_ms)
        return RollbackPlan(
            cluster=cluster,
            group=group,
            deployed_ms=chosen.at_ms,
            version=chosen.version,
            at_ms=snapshot.at_ms,
            members=None if info is None else info.member_count,
            partitions=tuple(
                partitions(recorded, standing(snapshot, group, chosen.offsets), recreated=recreated)
            ),
        )

    async def _recreated(self, cluster: str, group: str, since_ms: int) -> frozenset[str]:
        """Topics that the group's story has as created anew since an instant."""
        wanted = _story(cluster, group, since_ms, "topic")
        return await self._history.queries.using(lambda store: _recreated(store, wanted))


def _story(cluster: str, group: str, from_ms: int, *columns: str) -> HistoryRange:
    """The events of a group since an instant."""
    return HistoryRange(
        kind=Kind.EVENTS,
        cluster=cluster,
        group=group,
        from_ms=from_ms,
        to_ms=EVER_MS,
        columns=columns,
    )


def _events(store: HistoryStore, wanted: HistoryRange, name: EventName) -> Iterator[Row]:
    """Those of a name."""
    for rows in store.read(wanted):
        yield from rows.take(is_word(rows.text("event"), name)).rows()


def _deployments(store: HistoryStore, wanted: HistoryRange) -> list[Deployment]:
    return [_as_deployment(row) for row in _events(store, wanted, EventName.DEPLOYMENT)]


def _recreated(store: HistoryStore, wanted: HistoryRange) -> frozenset[str]:
    found = _events(store, wanted, EventName.TOPIC_RECREATED)
    return frozenset(str(row["topic"]) for row in found)


def _as_deployment(row: Row) -> Deployment:
    """From the row that `as_event` made; an older version wrote committed offsets only."""
    detail = json.loads(str(row["detail"]))
    return Deployment(
        cluster=str(row["cluster"]),
        group=str(row["group"]),
        at_ms=int(str(row["at_ms"])),
        version=str(row["after"]),
        note=detail["note"],
        offsets=detail["offsets"],
        log_start=detail.get("log_start", {}),
        log_end=detail.get("log_end", {}),
    )


def _named(noted: Sequence[Deployment], name: str) -> Deployment:
    """The deployment with this ID, or the last one of this version."""
    for found in (
        [each for each in noted if str(each.at_ms) == name],
        [each for each in noted if each.version == name],
    ):
        if found:
            return found[-1]
    raise NotFoundError(kind="deployment", name=name)


def _committed(before: Deployment, after: Deployment) -> int | None:
    """Messages by which offsets advanced, over partitions known in both; None without any."""
    then, later = dict(_flat(before.offsets)), dict(_flat(after.offsets))
    moves = [
        offset - was
        for place, offset in later.items()
        if offset is not None and (was := then.get(place)) is not None
    ]
    return sum(moves) if moves else None


def _flat(offsets: Offsets) -> Iterator[tuple[Place, int | None]]:
    for topic, of_topic in offsets.items():
        yield from (((topic, number), offset) for number, offset in enumerate(of_topic))


def _places(snapshot: ClusterSnapshot, group: str) -> tuple[Offsets, Offsets, Offsets]:
    """Topic → committed, log start and log end offset by partition; None where there is none.

    All partitions of every topic that the group committed to.

    Raises:
        NotFoundError: the group is not known.
    """
    offsets = committed(snapshot, group)
    starts, ends = (
        {
            topic: bounds(snapshot, column, topic, len(of_topic))
            for topic, of_topic in offsets.items()
        }
        for column in (snapshot.topics.log_start, snapshot.topics.log_end)
    )
    return offsets, starts, ends


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
        name = snapshot.topic_names[topic]
        size = max(int(rows.partition[mine].max()) + 1, _partitions(snapshot, name))
        offsets: list[int | None] = [None] * size
        for row in mine.tolist():
            offset = int(rows.committed[row])
            offsets[int(rows.partition[row])] = None if offset < 0 else offset
        found[name] = offsets
    return found


def bounds(snapshot: ClusterSnapshot, column: Int64, topic: str, size: int) -> list[int | None]:
    """A column of the snapshot's topic-partitions, of one topic; None is unknown."""
    number = snapshot.topics.index.get(topic)
    if number is None:
        return [None] * size
    first = int(snapshot.topics.first[number])
    known = column[first : first + min(size, _partitions(snapshot, topic))].tolist()
    return [None if value < 0 else value for value in known] + [None] * (size - len(known))


def _partitions(snapshot: ClusterSnapshot, topic: str) -> int:
    """Number of partitions; 0 for a topic that is not visible."""
    number = snapshot.topics.index.get(topic)
    if number is None:
        return 0
    first, end = snapshot.topics.first[number : number + 2].tolist()
    return int(end - first)


def standing(snapshot: ClusterSnapshot, group: str, deployed: Offsets) -> Mapping[Place, Standing]:
    """Present offsets of the group and the logs, for its topics and those of a deployment.

    Raises:
        NotFoundError: the group is not known.
    """
    now = committed(snapshot, group)
    found: dict[Place, Standing] = {}
    for topic in {*now, *deployed}:
        mine = now.get(topic, [])
        size = max(len(mine), len(deployed.get(topic, ())))
        starts = bounds(snapshot, snapshot.topics.log_start, topic, size)
        ends = bounds(snapshot, snapshot.topics.log_end, topic, size)
        for number in range(size):
            found[topic, number] = Standing(
                committed=mine[number] if number < len(mine) else None,
                log_start=starts[number],
                log_end=ends[number],
            )
    return found


def as_event(deployment: Deployment) -> Records:
    """The row of kind `events`: `after` is the version, `detail` JSON with note and offsets."""
    detail = {
        "version": deployment.version,
        "note": deployment.note,
        "offsets": {topic: list(offsets) for topic, offsets in deployment.offsets.items()},
        "log_start": {topic: list(offsets) for topic, offsets in deployment.log_start.items()},
        "log_end": {topic: list(offsets) for topic, offsets in deployment.log_end.items()},
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
