"""Follows the groups that an autoscaler asks about, and advises how many consumers each needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lagwatch.clock import Clock
from lagwatch.core.scale import Goal, ScaleAdvice, Scaler, Seen
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.core.time_lags import NOT_READ
from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import Queries

_FORGOTTEN_MS: Final = 3_600_000
"""A group is no longer followed after this long without a question."""
_MOST: Final = 1000

_Key = tuple[str, str, Goal]


@dataclass(slots=True, kw_only=True)
class _Followed:
    scaler: Scaler
    asked_ms: int


class FollowedGroups:
    """`ports.Scaling`. Only groups that an autoscaler asks about cost anything."""

    def __init__(self, queries: Queries, clock: Clock) -> None:
        self._queries = queries
        self._clock = clock
        self._followed: dict[_Key, _Followed] = {}

    def advice(self, cluster: str, group: str, goal: Goal) -> ScaleAdvice:
        key = (cluster, group, goal)
        followed = self._followed.get(key)
        if followed is None:
            snapshot = self._queries.snapshot(cluster)
            if group not in snapshot.group_index:
                raise NotFoundError(kind="group", name=group)
            self._make_room()
            followed = _Followed(scaler=Scaler(goal), asked_ms=self._clock.now_ms())
            self._followed[key] = followed
            _observe(followed.scaler, snapshot, group)
        followed.asked_ms = self._clock.now_ms()
        return followed.scaler.advice

    def observe(self, snapshot: ClusterSnapshot) -> None:
        """Call after every round, stale or not."""
        oldest_ms = self._clock.now_ms() - _FORGOTTEN_MS
        for key, followed in list(self._followed.items()):
            if followed.asked_ms < oldest_ms:
                del self._followed[key]
            elif key[0] == snapshot.cluster:
                _observe(followed.scaler, snapshot, key[1])

    def kept(self, cluster: str) -> list[Mapping[str, Any]]:
        """What outlives a restart, as JSON."""
        return [
            {"group": group, "asked_ms": followed.asked_ms, **followed.scaler.kept()}
            for (of, group, _), followed in self._followed.items()
            if of == cluster
        ]

    def restore(self, cluster: str, kept: Sequence[Mapping[str, Any]]) -> None:
        """Follow again what was followed before a restart; before the first question."""
        for each in kept:
            scaler = Scaler.restored(each)
            self._followed[cluster, each["group"], scaler.goal] = _Followed(
                scaler=scaler, asked_ms=each["asked_ms"]
            )

    def _make_room(self) -> None:
        if len(self._followed) >= _MOST:
            del self._followed[min(self._followed, key=lambda key: self._followed[key].asked_ms)]


def _observe(scaler: Scaler, snapshot: ClusterSnapshot, group: str) -> None:
    number = snapshot.group_index.get(group)
    if number is None:
        scaler.hold("the group is not known now")
    elif snapshot.stale or snapshot.group_ages_ms(slice(number, number + 1))[0] > (
        snapshot.stale_after_ms
    ):
        scaler.hold("log ends or commits are too old to be trusted")
    else:
        scaler.observe(_seen(snapshot, group, number))


def _seen(snapshot: ClusterSnapshot, group: str, number: int) -> Seen:
    first, end = snapshot.group.first[number : number + 2].tolist()
    rows, topics = snapshot.rows, snapshot.topics
    committed, log_end, places = [], [], []
    for row in range(first, end):
        at, offset = int(rows.at[row]), int(rows.committed[row])
        log_start = int(topics.log_start[at]) if at >= 0 else -1
        newest = int(topics.log_end[at]) if at >= 0 else -1
        if offset < 0 <= newest == log_start or NOT_READ[rows.rule[row]]:
            continue  # nothing to read and nothing committed for that, or left behind
        committed.append(offset)
        log_end.append(newest)
        places.append((int(rows.topic[row]), int(rows.partition[row])))
    names = {topic: snapshot.topic_names[topic] for topic, _ in places}
    return Seen(
        at_ms=snapshot.at_ms,
        places=tuple((names[topic], partition) for topic, partition in places),
        committed=committed,
        log_end=log_end,
        consumers=_consumers(snapshot, group),
        partitions=int(snapshot.group.partition_count[number]),
        shared=_shared(snapshot, group),
    )


def _consumers(snapshot: ClusterSnapshot, group: str) -> int | None:
    """Members that hold partitions; all of them where it is not known what they hold.

    Of a share group all count: the owner that is shown of a partition is one of several.
    """
    info = snapshot.info.get(group)
    if info is None or info.state == "Unknown":
        return None
    if _shared(snapshot, group):
        return len(info.members)
    holding = {member.member_id for member in snapshot.owners.get(group, {}).values()}
    return len(holding) or len(info.members)


def _shared(snapshot: ClusterSnapshot, group: str) -> bool:
    info = snapshot.info.get(group)
    return info is not None and info.type == "share"
