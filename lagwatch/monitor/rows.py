"""Who stands in which row of the window store, and which collector key means which row."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.evaluate import RowIds
from lagwatch.core.model import UNKNOWN
from lagwatch.core.snapshot import TopicColumns
from lagwatch.core.window import Windows

Int32 = NDArray[np.int32]
Rows = NDArray[np.intp]
Identity = tuple[str, str, int]
"""(group, topic, partition)"""


class _Names:
    """Names with small stable ids; an id is used again once nothing refers to its name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._ids: dict[str, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def find(self, name: str) -> int:
        """Id of a name in use; -1."""
        return self._ids.get(name, UNKNOWN)

    def hold(self, name: str) -> int:
        known = self._ids.get(name)
        if known is None:
            if self._free:
                known = self._free.pop()
                self.names[known] = name
            else:
                known = len(self.names)
                self.names.append(name)
                self._uses.append(0)
            self._ids[name] = known
        self._uses[known] += 1
        return known

    def release(self, number: int) -> None:
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._ids[self.names[number]]
            self._free.append(number)


@dataclass(slots=True, kw_only=True)
class _Announced:
    """Keys that were announced together and have no row yet, all or some of them."""

    first_key: int
    groups: Sequence[str]
    topics: Sequence[str]
    partitions: Sequence[int]
    left: int


class RowTable:
    """Identities of the window store's rows.

    Rows that were freed are handed out again only after `recycle`: a snapshot may still show them.
    """

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._groups, self._topics = _Names(), _Names()
        self._free: list[int] = []
        self._freed: list[int] = []
        # group, topic, partition, position among topic-partitions, collector key
        self._ids = np.full((5, 0), UNKNOWN, np.int32)
        self._by_key = np.full(0, UNKNOWN, np.int32)
        self._announced: list[_Announced] = []
        self._homeless: dict[int, Identity] = {}
        self._earlier: dict[Identity, int] = {}
        self.changed = True
        """Rows came or went since this was last set to False."""

    def ids(self) -> RowIds:
        """The identities as they are now; `at` is a copy that later changes do not touch."""
        group, topic, partition, at, _ = self._ids[:, : self._windows.rows]
        return RowIds(
            group=group,
            topic=topic,
            partition=partition,
            at=at.copy(),
            group_names=self._groups.names,
            topic_names=self._topics.names,
        )

    @property
    def at(self) -> Int32:
        """Position among all topic-partitions, by row."""
        at: Int32 = self._ids[3]
        return at

    def new_collector(self) -> None:
        """Keys mean nothing any more; rows are found again by their identity."""
        self._by_key = np.full(0, UNKNOWN, np.int32)
        self._announced.clear()
        self._homeless.clear()
        self._ids[4] = UNKNOWN
        group, topic, partition = self._ids[:3, : self._windows.rows].tolist()
        groups, topics = self._groups.names, self._topics.names
        self._earlier = {
            (groups[g], topics[t], p): row
            for row, (g, t, p) in enumerate(zip(group, topic, partition, strict=True))
            if g >= 0
        }

    def announce(
        self,
        first_key: int,
        groups: Sequence[str],
        topics: Sequence[str],
        partitions: Sequence[int],
    ) -> None:
        """Learn who the keys from `first_key` on are."""
        number = len(groups)
        self._announced.append(
            _Announced(
                first_key=first_key,
                groups=groups,
                topics=topics,
                partitions=partitions,
                left=number,
            )
        )
        needed = first_key + number
        if needed > self._by_key.size:
            grown = np.full(max(needed, self._by_key.size * 5 // 4), UNKNOWN, np.int32)
            grown[: self._by_key.size] = self._by_key
            self._by_key = grown

    def rows(self, keys: Int32) -> Int32:
        """Row of each key; -1 for a key without one."""
        found: Int32 = self._by_key[keys]
        return found

    def place(self, keys: Int32, topics: TopicColumns) -> Int32:
        """Row of each key, making rows where there are none."""
        missing = np.unique(keys[self._by_key[keys] < 0])
        if missing.size:
            self._make_rows(missing.tolist(), topics)
        return self.rows(keys)

    def _make_rows(self, keys: list[int], topics: TopicColumns) -> None:
        identities = [self._identity(key) for key in keys]
        known = [self._earlier.pop(identity, UNKNOWN) for identity in identities]
        wanted = known.count(UNKNOWN)
        fresh = self._take_rows(wanted)
        for key, identity, earlier in zip(keys, identities, known, strict=True):
            row = earlier if earlier >= 0 else fresh.pop()
            if earlier < 0:
                self._occupy(row, identity, topics)
            self._by_key[key] = row
            self._ids[4, row] = key
        self.changed |= wanted > 0

    def _identity(self, key: int) -> Identity:
        """Who a key without a row is; asked once."""
        known = self._homeless.pop(key, None)
        if known is not None:
            return known
        index = bisect.bisect_right(self._announced, key, key=_first_key) - 1
        found = self._announced[index]
        place = key - found.first_key
        found.left -= 1
        if not found.left:
            del self._announced[index]
        return found.groups[place], found.topics[place], found.partitions[place]

    def _take_rows(self, number: int) -> list[int]:
        reused = [self._free.pop() for _ in range(min(number, len(self._free)))]
        more = number - len(reused)
        if not more:
            return reused
        first = self._windows.add_rows(more)
        capacity = self._windows.count.size
        if capacity > self._ids.shape[1]:
            grown = np.full((5, capacity), UNKNOWN, np.int32)
            grown[:, : self._ids.shape[1]] = self._ids
            self._ids = grown
        # popped from the end: rows are filled in rising order
        return [*reused, *range(first + more - 1, first - 1, -1)]

    def _occupy(self, row: int, identity: Identity, topics: TopicColumns) -> None:
        group, topic, partition = identity
        self._ids[:4, row] = (
            self._groups.hold(group),
            self._topics.hold(topic),
            partition,
            position(topics, topic, partition),
        )

    def free(self, rows: Rows | Int32) -> None:
        """Give these rows up; their keys get new ones with their next commit."""
        for row in rows.tolist():
            group, topic, partition, _, key = self._ids[:, row].tolist()
            if group < 0:
                continue
            identity = (self._groups.names[group], self._topics.names[topic], partition)
            if key >= 0:
                self._by_key[key] = UNKNOWN
                self._homeless[key] = identity
            self._earlier.pop(identity, None)
            self._groups.release(group)
            self._topics.release(topic)
            self._freed.append(row)
            self.changed = True
        self._ids[:, rows] = UNKNOWN

    def recycle(self) -> None:
        """Rows freed so far are emptied and may be used again: no snapshot shows them any more."""
        if self._freed:
            self._windows.clear(np.array(self._freed))
        self._free += self._freed
        self._freed.clear()

    def of_group(self, group: str, topic: str | None = None) -> Rows:
        """Rows of a group, or of one topic of it."""
        number = self._groups.find(group)
        used = self._ids[:, : self._windows.rows]
        chosen = used[0] == number
        if topic is not None:
            chosen &= used[1] == self._topics.find(topic)
        return np.flatnonzero(chosen & (used[0] >= 0))

    def of_topic(self, topic: str) -> Rows:
        """Rows of a topic, of whatever group."""
        number = self._topics.find(topic)
        return np.flatnonzero((self._ids[1, : self._windows.rows] == number) & (number >= 0))

    def locate(self, topics: TopicColumns) -> None:
        """Find every row's position again, after the topics changed."""
        names = self._topics.names
        index = np.array([topics.index.get(name, UNKNOWN) for name in names], np.int64)
        topic, partition = self._ids[1], self._ids[2]
        if index.size == 0:
            return
        first, following = topics.first[index], topics.first[index + 1]
        at = first[topic] + partition
        visible = (topic >= 0) & (index[topic] >= 0) & (at < following[topic])
        self._ids[3] = np.where(visible, at, UNKNOWN)
        self.changed = True


def _first_key(announced: _Announced) -> int:
    return announced.first_key


def position(topics: TopicColumns, topic: str, partition: int) -> int:
    """Position of a partition among all topic-partitions; -1 when it is not visible."""
    index = topics.index.get(topic, UNKNOWN)
    if index < 0:
        return UNKNOWN
    at = int(topics.first[index]) + partition
    return at if at < topics.first[index + 1] else UNKNOWN
