"""Polls committed offsets: for clusters whose offsets topic may not be read.

Kafka does not tell when an offset was committed. So a row is told when its offset changed, or when
a living member holds the partition: a consumer that does not move is then seen to stall, one that
is absent to have stopped.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import structlog

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN
from lagwatch.pollers.facts import Facts
from lagwatch.pollers.filters import Filters
from lagwatch.pollers.groups import GroupPoller
from lagwatch.pollers.loop import Send
from lagwatch.pollers.topics import TopicPoller
from lagwatch.ports import Backlog, Commits, GroupsGone, SourceKind
from lagwatch.sources import CommittedOffsets, CommittedSource, GroupSource

_ROWS: Final = 20_000
"""Most rows of one report."""

_log = structlog.get_logger(__name__)


class CommittedPoller:
    """One round asks for the committed offsets of all groups."""

    source = SourceKind.COMMITTED

    def __init__(
        self,
        committed: CommittedSource,
        listing: GroupSource,
        *,
        filters: Filters,
        topics: TopicPoller,
        groups: GroupPoller,
        facts: Facts,
        clock: Clock,
        send: Send,
    ) -> None:
        self._committed = committed
        self._listing = listing
        self._filters = filters
        self._topics = topics
        self._groups = groups
        self._facts = facts
        self._clock = clock
        self._send = send
        self._rows = _Rows()
        self._order = 0
        self._rounds = 0

    async def poll_once(self) -> Sequence[str]:
        """Ask for all groups; tell as answers come, so that memory stays small."""
        listing = await self._listing.list_groups()
        names = sorted(each.name for each in listing.groups if self._filters.group(each.name))
        # grows from round to round, and from one process to the next
        self._order = max(self._order + 1, self._clock.now_ms())
        problems: list[str] = [listing.problem] if listing.problem else []
        refused: list[str] = []
        batch = _Batch(self._rows)
        async for answers in self._committed.committed(names):
            for answer in answers:
                problems += [answer.problem] if answer.problem else []
                refused += [answer.group] if answer.refused else []
                self._take(answer, batch)
                if len(batch) >= _ROWS:
                    await self._send_batch(batch)
        await self._send_batch(batch)
        if not listing.problem:
            await self._tell_gone(names)
        await self._tell_ready()
        return _few(problems)

    def _take(self, answer: CommittedOffsets, batch: "_Batch") -> None:
        if answer.problem or answer.refused:
            return
        owned = self._groups.owned(answer.group)
        before = self._rows.of(answer.group)
        seen = set()
        for topic, partition, offset in zip(
            answer.topics, answer.partitions, answer.offsets, strict=True
        ):
            if not self._filters.topic(topic):
                continue
            name = (topic, partition)
            seen.add(name)
            row = self._rows.id(answer.group, name)
            if self._rows.last[row] != offset or name in owned:
                batch.add(row, offset)
        for name in before.keys() - seen:
            row = before[name]
            if self._rows.last[row] != UNKNOWN:
                batch.add(row, UNKNOWN)

    async def _send_batch(self, batch: "_Batch") -> None:
        if not len(batch):
            return
        now_ms = self._clock.now_ms()
        groups, topics, partitions = self._rows.new()
        self._topics.mention(topics)
        key, offset = batch.take()
        await self._send(
            Commits(
                first_new_id=len(self._rows) - len(partitions),
                new_groups=groups,
                new_topics=topics,
                new_partitions=partitions,
                key=key,
                offset=offset,
                commit_ms=np.full(len(key), now_ms, np.int64),
                order=np.full(len(key), self._order, np.int64),
                observed_ms=now_ms,
                exact_times=False,
                only_changes=self._rounds == 0,
            )
        )

    async def _tell_gone(self, names: Sequence[str]) -> None:
        gone = self._rows.drop_all_but(names)
        if gone:
            orders = tuple(self._order for _ in gone)
            await self._send(GroupsGone(groups=gone, orders=orders))
            _log.info("groups_gone", groups=len(gone))

    async def _tell_ready(self) -> None:
        self._rounds += 1
        if self._rounds == 1:
            await self._send(Backlog(read=0, total=0, ready=True))
        await self._facts.tell()


class _Rows:
    """Dense ids for (group, topic, partition), and the offset last told of each."""

    def __init__(self) -> None:
        self._ids: dict[str, dict[tuple[str, int], int]] = {}
        self._announced = 0
        self._pending: list[tuple[str, str, int]] = []
        self._count = 0
        self.last = np.full(1024, UNKNOWN, np.int64)

    def __len__(self) -> int:
        return self._count

    def of(self, group: str) -> dict[tuple[str, int], int]:
        """Ids of the partitions this group has committed to."""
        return self._ids.get(group, {})

    def id(self, group: str, name: tuple[str, int]) -> int:
        ids = self._ids.setdefault(group, {})
        row = ids.get(name)
        if row is None:
            row = ids[name] = self._count
            self._count += 1
            self._pending.append((group, *name))
            if row >= len(self.last):
                more = np.full(len(self.last), UNKNOWN, np.int64)
                self.last = np.concatenate((self.last, more))
        return row

    def new(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
        """Groups, topics and partitions of the ids given since the last call."""
        pending, self._pending = self._pending, []
        if not pending:
            return (), (), ()
        groups, topics, partitions = zip(*pending, strict=True)
        return groups, topics, partitions

    def drop_all_but(self, names: Iterable[str]) -> tuple[str, ...]:
        """Forget the other groups; return them."""
        gone = tuple(sorted(self._ids.keys() - set(names)))
        for group in gone:
            del self._ids[group]
        return gone


class _Batch:
    """Rows to be told."""

    def __init__(self, rows: _Rows) -> None:
        self._rows = rows
        self._key: list[int] = []
        self._offset: list[int] = []

    def __len__(self) -> int:
        return len(self._key)

    def add(self, row: int, offset: int) -> None:
        self._key.append(row)
        self._offset.append(offset)
        self._rows.last[row] = offset

    def take(self) -> "tuple[np.ndarray[tuple[int], np.dtype[np.int32]], Int64]":
        key = np.array(self._key, np.int32)
        offset = np.array(self._offset, np.int64)
        self._key, self._offset = [], []
        return key, offset


Int64 = np.ndarray[tuple[int], np.dtype[np.int64]]


def _few(problems: Sequence[str]) -> Sequence[str]:
    """The first problem, and how many there are."""
    if len(problems) <= 1:
        return problems
    return [problems[0], f"and {len(problems) - 1} more like this"]
