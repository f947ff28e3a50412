"""Maps group-partitions and collector keys to rows of the window store."""

import bisect
from collections import Counter
from collections.abc import Collection, Container, Iterable, Sequence
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

    def restore(self, names: Sequence[str], uses: Sequence[int]) -> None:
        """Begin with these names; ids are their places. Those without uses may be given anew."""
        self.names, self._uses = list(names), list(uses)
        self._ids = {name: number for number, name in enumerate(names) if uses[number]}
        self._free = [number for number, used in enumerate(uses) if not used]

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

    def hold_all(self, names: Sequence[str]) -> list[int]:
        """The id of each of these names, held once for each of them."""
        ids = {}
        for name, times in Counter(names).items():
            ids[name] = number = self.hold(name)
            self._uses[number] += times - 1
        return list(map(ids.__getitem__, names))

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
        self._made: list[tuple[int, str]] = []
        self.keys = 0
        """Keys that this collector has announced."""
        self.frees = 0
        """Rows given up so far."""
        self.changed = True
        """Rows came or went since this was last set to False."""

    def take_made(self) -> tuple[Rows, list[str]]:
        """Rows that came into being since the last call, and their groups."""
        made, self._made = self._made, []
        rows = np.array([row for row, _ in made], np.intp)
        return rows, [group for _, group in made]

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

    def of_rows(self, rows: Rows) -> RowIds:
        """The identities of these rows, which must be in use."""
        group, topic, partition, at = self._ids[:4, rows]
        return RowIds(
            group=group,
            topic=topic,
            partition=partition,
            at=at,
            group_names=self._groups.names,
            topic_names=self._topics.names,
        )

    def used(self, first: int, end: int) -> Rows:
        """Rows in use from `first` to before `end`."""
        return first + np.flatnonzero(self._ids[0, first:end] >= 0)

    def restore(self, ids: RowIds, topics: TopicColumns) -> None:
        """Make rows 0, 1, … with these identities, in an empty table; `ids.at` is ignored."""
        fresh = self._take_rows(ids.group.size)
        rows = slice(0, len(fresh))
        for place, names, number in (
            (0, self._groups, ids.group),
            (1, self._topics, ids.topic),
        ):
            known = ids.group_names if place == 0 else ids.topic_names
            names.restore(known, np.bincount(number, minlength=len(known)).tolist())
            self._ids[place, rows] = number
        self._ids[2, rows] = ids.partition
        self.locate(topics)

    def absent(self, groups: Iterable[str]) -> Rows:
        """Rows of groups of which this collector has not read any commit."""
        found = {identity[0] for identity in self._earlier}
        numbers = [self._groups.find(group) for group in groups if group in found]
        rows = np.flatnonzero(np.isin(self._ids[0, : self._windows.rows], numbers))
        keyed = np.unique(self._ids[0, rows][self._ids[4, rows] >= 0])
        return rows[~np.isin(self._ids[0, rows], keyed)]

    def unnamed(self, groups: Collection[str], topics: Container[str]) -> Rows:
        """Rows of these groups and topics that this collector has not named."""
        found = [
            row
            for (group, topic, _), row in self._earlier.items()
            if group in groups and topic in topics
        ]
        return np.array(found, np.intp)

    def named_groups(self) -> frozenset[str]:
        """Groups of which this collector has named an offset."""
        group = self._ids[0, : self._windows.rows]
        named = group[(group >= 0) & (self._ids[4, : self._windows.rows] >= 0)]
        return frozenset(self._groups.names[number] for number in np.unique(named).tolist())

    @property
    def at(self) -> Int32:
        """Position among all topic-partitions, by row."""
        at: Int32 = self._ids[3]
        return at

    def new_collector(self) -> None:
        """Keys mean nothing any more; rows are found again by their identity."""
        self._by_key = np.full(0, UNKNOWN, np.int32)
        self.keys = 0
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
        """Learn the group-partitions of the keys from `first_key` on."""
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
        self.keys = needed = first_key + number
        if needed > self._by_key.size:
            grown = np.full(max(needed, self._by_key.size * 5 // 4), UNKNOWN, np.int32)
            grown[: self._by_key.size] = self._by_key
            self._by_key = grown

    def rows(self, keys: Int32) -> Int32:
        """Row of each key; -1 for a key without one."""
        found: Int32 = self._by_key[keys]
        return found

    def find(self, keys: Int32) -> Int32:
        """Row of each key, those that an earlier collector filled included; -1 for none."""
        for key in keys[self._by_key[keys] < 0].tolist():
            (identity,) = self._identities([key])
            row = self._earlier.pop(identity, UNKNOWN)
            if row < 0:
                self._homeless[key] = identity
            else:
                self._by_key[key], self._ids[4, row] = row, key
        return self.rows(keys)

    def place(self, keys: Int32, topics: TopicColumns) -> Int32:
        """Row of each key, making rows where there are none."""
        rows = self.rows(keys)
        missing = keys[rows < 0]
        if not missing.size:
            return rows
        self._make_rows(np.unique(missing).tolist(), topics)
        return self.rows(keys)

    def _make_rows(self, keys: list[int], topics: TopicColumns) -> None:
        """Rows for keys, rising, that have none."""
        identities = self._identities(keys)
        known = [self._earlier.pop(identity, UNKNOWN) for identity in identities]
        rows = np.array(known, np.int64)
        fresh = np.flatnonzero(rows < 0)
        if fresh.size:
            rows[fresh] = self._take_rows(fresh.size)[::-1]
            self._occupy(rows[fresh], [identities[index] for index in fresh.tolist()], topics)
            self.changed = True
        self._by_key[keys] = rows
        self._ids[4, rows] = keys

    def _identities(self, keys: list[int]) -> list[Identity]:
        """Group-partitions of keys without a row; each is asked for once."""
        found: list[Identity] = []
        place = 0
        while place < len(keys):
            known = self._homeless.pop(keys[place], None)
            if known is not None:
                found.append(known)
                place += 1
            else:
                place += self._take_announced(keys, place, found)
        return found

    def _take_announced(self, keys: list[int], place: int, found: list[Identity]) -> int:
        """Identities of keys that were announced together; returns how many they are."""
        index = bisect.bisect_right(self._announced, keys[place], key=_first_key) - 1
        block = self._announced[index]
        end = bisect.bisect_left(keys, block.first_key + len(block.groups), place)
        for number, key in enumerate(keys[place:end]):
            if key in self._homeless:
                end = place + number
                break
            at = key - block.first_key
            found.append((block.groups[at], block.topics[at], block.partitions[at]))
        block.left -= end - place
        if not block.left:
            del self._announced[index]
        return end - place

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

    def _occupy(self, rows: Rows, identities: list[Identity], topics: TopicColumns) -> None:
        groups, names, partitions = zip(*identities, strict=True)
        index = [topics.index.get(name, UNKNOWN) for name in names]
        first, following = topics.first[index], topics.first[np.array(index) + 1]
        at = first + np.array(partitions)
        visible = (np.array(index) >= 0) & (at < following)
        self._ids[0, rows] = self._groups.hold_all(groups)
        self._ids[1, rows] = self._topics.hold_all(names)
        self._ids[2, rows] = partitions
        self._ids[3, rows] = np.where(visible, at, UNKNOWN)
        self._made += zip(rows.tolist(), groups, strict=True)

    def make(self, identity: Identity, topics: TopicColumns) -> int:
        """Make a row for a group-partition that has not committed yet; its key finds it later."""
        (row,) = self._take_rows(1)
        self._occupy(np.array([row]), [identity], topics)
        self._earlier[identity] = row
        self.changed = True
        return row

    def of_places(
        self, group: str, places: Sequence[tuple[str, int]], topics: TopicColumns
    ) -> Int32:
        """The row of each of these partitions of a group, making rows where there are none."""
        known = {
            (topic, int(self._ids[2, row])): row
            for topic in {topic for topic, _ in places}
            for row in self.of_group(group, topic).tolist()
        }
        rows = [
            known[place] if place in known else self.make((group, *place), topics)
            for place in places
        ]
        return np.array(rows, np.int32)

    def has(self, identity: Identity) -> bool:
        """True if this group-partition has a row."""
        return self.row_of(identity) is not None

    def row_of(self, identity: Identity) -> int | None:
        """The row of this group-partition; None if it has none."""
        group, topic, partition = identity
        rows = self.of_group(group, topic)
        found = rows[self._ids[2, rows] == partition]
        return int(found[0]) if found.size else None

    def identity(self, row: int) -> Identity:
        """Group, topic and partition of a row in use."""
        group, topic, partition = self._ids[:3, row].tolist()
        return self._groups.names[group], self._topics.names[topic], partition

    def is_of(self, row: int, identity: Identity) -> bool:
        """True if the row is in use for this group-partition."""
        return bool(self._ids[0, row] >= 0) and self.identity(row) == identity

    def free(self, rows: Rows | Int32) -> None:
        """Release these rows; their keys get new rows with their next commit."""
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
            self.frees += 1
            self.changed = True
        self._ids[:, rows] = UNKNOWN

    def recycle(self) -> Rows:
        """Rows freed so far are emptied and may be used again: no snapshot shows them any more."""
        freed = np.array(self._freed, np.intp)
        if freed.size:
            self._windows.clear(freed)
        self._free += self._freed
        self._freed.clear()
        return freed

    def of_group(self, group: str, topic: str | None = None) -> Rows:
        """Rows of a group, or of one topic of it."""
        number = self._groups.find(group)
        used = self._ids[:, : self._windows.rows]
        chosen = used[0] == number
        if topic is not None:
            chosen &= used[1] == self._topics.find(topic)
        return np.flatnonzero(chosen & (used[0] >= 0))

    def of_groups(self, groups: Iterable[str]) -> Rows:
        """Rows of any of these groups."""
        wanted = np.zeros(len(self._groups.names) + 1, np.bool_)
        wanted[[self._groups.find(group) for group in groups]] = True
        wanted[UNKNOWN] = False  # of rows that are not used, and of groups without any
        return np.flatnonzero(wanted[self._ids[0, : self._windows.rows]])

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
