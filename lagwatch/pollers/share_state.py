"""Follows `__share_group_state`, the positions of share groups (KIP-932).

The progress of a share group is sent as commits: `ShareState.position` takes the place of the
committed offset. A record that leaves the position as it was is no commit. Kafka writes most of
those without the group: a snapshot of a share-partition at rest every few minutes (with no member
left, too), a snapshot after so many updates, and records given back by a lock that timed out.
Records that a member releases look like the latter, and nothing is done with them either: a group
that does only that is as silent as one that does nothing.

Where committed offsets are polled, the poll gets the position through `CommittedWithShares`
instead.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN, EpochMs, SharePartition
from lagwatch.core.share import ShareState
from lagwatch.core.wire import CommitKeys, ShareStateRecord, decode_share_state
from lagwatch.errors import SourceError
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.known import StuckPartitions, renew
from lagwatch.pollers.surroundings import Surroundings
from lagwatch.ports.kafka import (
    CommittedOffsets,
    CommittedSource,
    ConsumedRecords,
    OffsetsTopicSource,
)
from lagwatch.ports.reports import Commits, SharesSeen, SourceKind

SHARE_STATE_TOPIC: Final = "__share_group_state"
"""Source: Kafka, org.apache.kafka.common.internals.Topic.SHARE_GROUP_STATE_TOPIC_NAME."""
_BATCHES: Final = 50
"""Batches read in one round; the next round goes on."""
_MOST_UNNAMED: Final = 10_000
_COMPARE_EVERY_S: Final = 10.0
"""Positions are compared with the ends of the partitions: two requests, while nothing is read."""

Key = tuple[str, str, int]
"""Group, topic id, partition."""
_Shown = dict[tuple[str, str, int], SharePartition | None]
"""By group, topic and partition; None: its state was removed."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Row:
    """A record as a commit."""

    key: Key
    position: int
    """-1: the state was removed."""
    at_ms: int
    order: int
    moved: bool
    """The position is another one than before."""


class ShareStatePoller:
    """Reads all of the topic at each start: Kafka deletes records that snapshots replace."""

    source = SourceKind.SHARE_STATE

    def __init__(
        self,
        open_source: Callable[[], OffsetsTopicSource],
        around: Surroundings,
        *,
        cluster: str,
        keys: CommitKeys,
        commits: Callable[[], bool],
    ) -> None:
        """`open_source` is called once there are share groups; `keys` and `last` are the reader's.

        Commits are sent while `commits` returns True.
        """
        self._around = around
        self._open = open_source
        self._cluster = cluster
        self._keys = keys
        self._commits = commits
        self._reader: OffsetsTopicSource | None = None
        self._positions: dict[int, int] = {}
        self._stuck = StuckPartitions(around.clock)
        self._compared_s = around.clock.monotonic_s()
        self._states: dict[Key, ShareState] = {}
        self._unnamed: dict[Key, _Row] = {}
        """Last changes in topics whose names are not known yet."""
        self._places: dict[Key, tuple[str, str, int]] = {}
        """What was sent of each state: group, topic, partition."""
        self._waiting: _Shown = {}
        """Where offsets are polled: what is to be shown together with the next poll."""
        self._polled: _Shown = {}
        """What belongs to the positions that `committed` gave to the poll under way."""

    async def poll_once(self) -> Sequence[str]:
        """Read what is new and send it."""
        try:
            await self._poll()
        except SourceError as error:
            self._say(str(error))
            if error.kind == "authorization":
                await self._forget()
            raise
        return ()

    def begin_poll(self) -> None:
        """Positions are taken by `committed`, now and without a wait between."""
        self._polled |= self._waiting
        self._waiting = {}

    async def polled(self) -> None:
        """Send what belongs to those positions: they are sent, and both are of one instant."""
        if self._polled:
            shown, self._polled = self._polled, {}
            await self._around.send(SharesSeen(partitions=shown))

    def committed(self, group: str) -> Mapping[tuple[str, int], int]:
        """Position of a group in each partition, by topic and partition."""
        return {
            (topic, partition): self._states[key].position
            for key, (name, topic, partition) in self._places.items()
            if name == group and self._states[key].position >= 0
        }

    async def _poll(self) -> None:
        count = self._around.topics.partitions_of(SHARE_STATE_TOPIC)
        if not count:
            self._say(
                f"{SHARE_STATE_TOPIC} does not exist or is hidden; grant: "
                f"Allow DESCRIBE and READ on TOPIC {SHARE_STATE_TOPIC}"
            )
            return
        if self._reader is None:
            self._reader = self._open()
        await self._assign(self._reader, count)
        for _ in range(_BATCHES):
            records = await self._reader.read()
            self._positions.update(records.positions)
            if not records.keys:
                break
            await self._take(records)
        await self._report(self._named(list(self._unnamed.values())))
        await self._renew_if_stuck(self._reader)
        self._say("")

    async def _renew_if_stuck(self, reader: OffsetsTopicSource) -> None:
        now_s = self._around.clock.monotonic_s()
        if now_s - self._compared_s < _COMPARE_EVERY_S:
            return
        self._compared_s = now_s
        spans = await reader.spans()
        self._stuck.look(self._positions, {each: span.end for each, span in spans.items()})
        await renew(reader, self._stuck.take(), cluster=self._cluster, topic=SHARE_STATE_TOPIC)

    async def _assign(self, reader: OffsetsTopicSource, count: int) -> None:
        if len(self._positions) >= count:
            return
        spans = await reader.spans()
        for number, span in spans.items():
            self._positions.setdefault(number, span.start)
        await reader.assign(self._positions)
        _log.info("share_state_assigned", partitions=len(self._positions))

    def _say(self, problem: str) -> None:
        number = len(self._around.groups.shares)
        about = f"{number} share group{'s' if number > 1 else ''}"
        hidden = [f"{about}: what they have done is not visible: {problem}"]
        self._around.facts.unseen("share groups", hidden if problem and number else ())

    async def _forget(self) -> None:
        """Drop all states, because the topic may not be read any more.

        Unknown must not look like silence.
        """
        now_ms = self._around.clock.now_ms()
        gone = [_Row(key, UNKNOWN, now_ms, 1 << 62, moved=True) for key in self._places]
        self._states.clear()
        self._unnamed.clear()
        self._positions.clear()
        await self._report(gone)

    async def _take(self, records: ConsumedRecords) -> None:
        decoded = decode_share_state(records.keys, records.values, records.orders.tolist())
        self._around.facts.count_malformed(decoded.malformed)
        now_ms = self._around.clock.now_ms()
        times_ms = [now_ms] * len(records.keys)
        if records.times_ms is not None:
            times_ms = records.times_ms.tolist()
        rows = [
            self._follow(record, times_ms[row])
            for row, record in zip(decoded.rows, decoded.records, strict=True)
            if self._around.filters.group(record.group)
        ]
        await self._report(self._named(rows))

    def _follow(self, record: ShareStateRecord, at_ms: int) -> _Row:
        key = (record.group, record.topic_id, record.partition)
        if record.removed:
            self._states.pop(key, None)
            return _Row(key, UNKNOWN, at_ms, record.order, moved=True)
        before = self._states.get(key, ShareState())
        state = self._states[key] = before.after(record)
        moved = state.position != before.position
        return _Row(key, state.position, at_ms, record.order, moved=moved)

    def _named(self, rows: Iterable[_Row]) -> list[_Row]:
        """Those whose topics are known; the others wait for their names, the newest of each."""
        named = []
        for row in rows:
            group, topic_id, partition = row.key
            topic = self._around.topics.name_of(topic_id)
            if topic is None and row.key not in self._places:
                if row.moved or row.key not in self._unnamed:
                    self._unnamed[row.key] = row
                continue
            waited = self._unnamed.pop(row.key, row)
            row = row if row.moved else waited  # noqa: PLW2901
            if topic is not None:
                self._places[row.key] = group, topic, partition
            named.append(row)
        while len(self._unnamed) > _MOST_UNNAMED:
            del self._unnamed[next(iter(self._unnamed))]
        return named

    async def _report(self, rows: Sequence[_Row]) -> None:
        """Send commits and the reports on share groups."""
        if not rows:
            return
        places = [self._places[row.key] for row in rows]
        shown: _Shown = {}
        for row, place in zip(rows, places, strict=True):
            state = self._states.get(row.key)
            shown[place] = None if state is None else state.shown()
            if state is None:
                self._places.pop(row.key, None)
        if not self._commits():
            self._waiting |= shown
            return
        await self._send_commits(rows, places)
        await self._around.send(SharesSeen(partitions=shown))

    async def _send_commits(
        self, rows: Sequence[_Row], places: Sequence[tuple[str, str, int]]
    ) -> None:
        """Without a wait since the first new id was given: ids are announced in their order."""
        first_new_id = len(self._keys)
        ids = [self._keys.id_of(*place) for place in places]
        # the state was only set up: no message was delivered yet
        kept = [
            (key, row)
            for key, row in zip(ids, rows, strict=True)
            if key >= 0 and row.moved and (row.position >= 0 or row.key not in self._states)
        ]
        groups, topics, partitions = self._keys.since(first_new_id)
        if not kept and not groups:
            return
        self._around.topics.mention(topics)
        commits = Commits(
            first_new_id=first_new_id,
            new_groups=groups,
            new_topics=topics,
            new_partitions=partitions,
            key=np.array([key for key, _ in kept], np.int32),
            offset=np.array([row.position for _, row in kept], np.int64),
            commit_ms=np.array([row.at_ms for _, row in kept], np.int64),
            order=np.array([row.order for _, row in kept], np.int64),
            observed_ms=self._around.clock.now_ms(),
            # a new collector begins with the last snapshot, which may be younger than the change
            only_changes=True,
            beside=True,
        )
        self._around.last.note(commits)
        await self._around.send(commits)


class CommittedWithShares:
    """Committed offsets of all groups, those of share groups made of their states."""

    def __init__(
        self,
        committed: CommittedSource,
        shares: ShareStatePoller,
        *,
        groups: GroupPoller,
        clock: Clock,
    ) -> None:
        self._committed = committed
        self._shares = shares
        self._groups = groups
        self._clock = clock

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """All groups named, in chunks as the answers come."""
        shares = self._groups.shares & set(groups)
        self._shares.begin_poll()
        yield [self._of_share(group) for group in sorted(shares)]
        async for answers in self._committed.committed(
            [each for each in groups if each not in shares]
        ):
            yield answers

    async def not_surely_deleted(self, left_out: Mapping[str, tuple[str, int]]) -> frozenset[str]:
        """Of share groups all is known: Kafka's own topic has their states."""
        of_others = {
            topic: place for topic, place in left_out.items() if place[0] not in self._groups.shares
        }
        return await self._committed.not_surely_deleted(of_others)

    def _of_share(self, group: str) -> CommittedOffsets:
        found = self._shares.committed(group)
        now_ms = EpochMs(self._clock.now_ms())
        return CommittedOffsets(
            group=group,
            topics=[topic for topic, _ in found],
            partitions=[partition for _, partition in found],
            offsets=list(found.values()),
            asked_ms=now_ms,
            answered_ms=now_ms,
        )
