"""Tracks up to when all commits are known, topic ids in commits, and the last offset per key."""

from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.clock import Clock
from lagwatch.core.model import UNKNOWN
from lagwatch.core.wire import CommitKeys, Decoded, topic_id_text
from lagwatch.errors import SourceError
from lagwatch.pollers.loop import EndsRound, Int64, PartitionEnds
from lagwatch.ports.kafka import OffsetsTopicSource
from lagwatch.ports.reports import Commits, CommitsKnown

_ROUNDS: Final = 64
"""Rounds that wait for the reader; beyond that the oldest is dropped."""
_WAIT_S: Final = 1.0
"""A round waits at most this long for the reader to reach its log ends, then it is reported."""
STUCK_AFTER_S: Final = 30.0
"""A partition is stuck if nothing of it was read for so long although there was more."""
_ROUND_COUNTS_S: Final = 10.0
"""One round adds at most so much to that time: a broker that was away needs time to answer."""

_log = structlog.get_logger(__name__)


class StuckPartitions:
    """Finds partitions of which a reader reads nothing although there is more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unread: dict[int, tuple[int, float]] = {}
        """Partitions with more to read: the position, and how long it has been the same (s)."""
        self._looked_s = clock.monotonic_s()

    def look(self, positions: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Compare the reader's positions with the ends up to which it can read."""
        now_s = self._clock.monotonic_s()
        passed_s = min(now_s - self._looked_s, _ROUND_COUNTS_S)
        self._looked_s = now_s
        before, self._unread = self._unread, {}
        for number, end in ends.items():
            position = positions.get(number, end)
            if position < end:
                at, stuck_s = before.get(number, (UNKNOWN, 0.0))
                self._unread[number] = (position, stuck_s + passed_s if at == position else 0.0)

    def take(self) -> tuple[int, ...]:
        """Partitions that are stuck; each is returned once."""
        found = tuple(
            each for each, (_, stuck_s) in self._unread.items() if stuck_s >= STUCK_AFTER_S
        )
        for each in found:
            del self._unread[each]
        return found


async def renew(
    source: OffsetsTopicSource, stuck: Collection[int], *, cluster: str, topic: str
) -> None:
    """Read with a new client what the present one no longer reads.

    After a broker that hung was back, the client library was seen to ask for nothing any more.

    Raises:
        SourceError: always, to say so, unless nothing is stuck.
    """
    if not stuck:
        return
    _log.warning("reader_stuck", topic=topic, partitions=stuck)
    await source.renew()
    raise SourceError(
        cluster=cluster,
        kind="timeout",
        message=f"nothing was read of {len(stuck)} partitions of {topic} for "
        f"{STUCK_AFTER_S:.0f} s although there is more; reading goes on with a new client",
    )


class ReaderProgress:
    """Compares the reader's positions with the log ends of each round.

    The log end of a round was asked for after its start, so a reader that has come so far has read
    all commits made before. The last stable offset would not do: while a transaction is open,
    commits of other groups wait behind it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms: Int64 = np.zeros(0, np.int64)
        self._rounds: deque[PartitionEnds] = deque(maxlen=_ROUNDS)
        self._due_s: float | None = None
        self._polled: frozenset[int] = frozenset()
        self._stuck = StuckPartitions(clock)

    def note(self, seen: EndsRound) -> None:
        """Take a round of log ends in."""
        ends = seen.offsets_topic
        if ends is None:
            return
        if ends.log_end.size != self._until_ms.size:
            # groups move to other partitions when their number changes
            self._until_ms = np.full(ends.log_end.size, UNKNOWN, np.int64)
            self._rounds.clear()
        self._rounds.append(ends)
        self._due_s = self._clock.monotonic_s() + _WAIT_S

    def until_ms(self, partition: int) -> int:
        """All commits of this partition made before it were sent; -1 never."""
        return int(self._until_ms[partition]) if partition < self._until_ms.size else UNKNOWN

    def poll_instead(self, partitions: Iterable[int]) -> None:
        """These partitions are held back by an open transaction; their groups are polled."""
        self._polled = frozenset(partitions)

    def polled(self, partitions: Iterable[int], started_ms: int) -> CommitsKnown:
        """All groups of these partitions were polled, from `started_ms` on; send the report now."""
        rows = [each for each in partitions if each < self._until_ms.size]
        self._until_ms[rows] = np.maximum(self._until_ms[rows], started_ms)
        return self._report()

    def read(self, positions: Mapping[int, int]) -> CommitsKnown | None:
        """All records before these positions were sent; return a report once a round."""
        if self._due_s is None:
            return None
        reached = self._advance(positions)
        if not reached and self._clock.monotonic_s() < self._due_s:
            return None
        self._due_s = None
        self._stuck.look(positions, dict(enumerate(self._rounds[-1].last_stable.tolist())))
        return self._report()

    def stuck(self) -> tuple[int, ...]:
        """Partitions that are stuck; each is returned once."""
        return self._stuck.take()

    def _advance(self, positions: Mapping[int, int]) -> bool:
        """Return True if the reader has come to all log ends that it can reach now."""
        numbers = range(self._until_ms.size)
        position = np.fromiter((positions.get(each, UNKNOWN) for each in numbers), np.int64)
        for ends in self._rounds:
            passed = (ends.log_end >= 0) & (position >= ends.log_end)
            self._until_ms[passed] = np.maximum(self._until_ms[passed], ends.started_ms)
        newest = self._rounds[-1]
        reachable = (newest.log_end >= 0) & (newest.last_stable >= newest.log_end)
        if (self._until_ms >= newest.started_ms).all():
            self._rounds.clear()
            self._rounds.append(newest)
        return bool((self._until_ms[reachable] >= newest.started_ms).all())

    def _report(self) -> CommitsKnown:
        return CommitsKnown(until_ms=self._until_ms.copy(), polled=tuple(sorted(self._polled)))


class NamedIds:
    """Finds the commits that name another id than the last one of their key; 8 bytes per key."""

    def __init__(self, keys: CommitKeys) -> None:
        self._keys = keys
        self._last: Int64 = np.zeros(0, np.int64)

    def new_in(self, decoded: Decoded) -> Iterator[tuple[str, str, int]]:
        """Topic, id and the earliest commit of it (epoch ms); may name a pair again."""
        if decoded.topic_id is None:
            return
        # ids are random: both halves in one number identify them
        named = decoded.topic_id[:, 0] ^ decoded.topic_id[:, 1]
        self._make_room()
        new = np.flatnonzero((named != 0) & (self._last[decoded.key] != named))
        if not new.size:
            return
        self._last[decoded.key[new]] = named[new]
        columns = self._keys.columns(decoded.key[new])
        pairs, pair = np.unique(
            np.column_stack((columns.topic, decoded.topic_id[new])), axis=0, return_inverse=True
        )
        first_ms = np.full(len(pairs), np.iinfo(np.int64).max)
        np.minimum.at(first_ms, pair.ravel(), decoded.commit_ms[new])
        for (topic, high, low), at_ms in zip(pairs.tolist(), first_ms.tolist(), strict=True):
            yield columns.topics[topic], topic_id_text(high, low), at_ms

    def _make_room(self) -> None:
        more = len(self._keys) - self._last.size
        if more > 0:
            more = max(more, self._last.size)
            self._last = np.concatenate((self._last, np.zeros(more, np.int64)))


_SMALLEST: Final = 1024


class LastOffsets:
    """Follows the reports of commits; ids are those of `Commits.key`. About 20 bytes per key."""

    def __init__(self) -> None:
        self._offset: Int64 = np.full(_SMALLEST, UNKNOWN, np.int64)
        self._topic, self._partition = array("i"), array("i")
        self._numbers: dict[str, int] = {}
        self._moved = np.zeros(_SMALLEST, np.bool_)
        self.revision = 0
        """Changes whenever an offset may have."""

    def __len__(self) -> int:
        return len(self._topic)

    @property
    def offset(self) -> Int64:
        """[keys]; -1 for a commit that was removed. A view: do not keep it."""
        return self._offset[: len(self)]

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics by number."""
        return tuple(self._numbers)

    def places(self, first_id: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Topic numbers and partitions of the keys from `first_id` on."""
        # copies: an array cannot grow while a view of it is alive
        topic = np.array(self._topic[first_id:], np.int32)
        return topic, np.array(self._partition[first_id:], np.int32)

    def note(self, commits: Commits) -> None:
        """Take a report in; to be called in the order of the reports."""
        for name, partition in zip(commits.new_topics, commits.new_partitions, strict=True):
            self._topic.append(self._numbers.setdefault(name, len(self._numbers)))
            self._partition.append(partition)
        self._make_room()
        if not commits.key.size:
            return
        self.revision += 1
        self._moved[commits.key] |= self._offset[commits.key] != commits.offset
        # of a key that is named twice, the last offset stays
        self._offset[commits.key] = commits.offset

    def take_moved(self, size: int) -> Int64:
        """Of the first `size` keys those whose offsets changed since they were last taken."""
        moved = np.flatnonzero(self._moved[:size])
        self._moved[moved] = False
        return moved

    def _make_room(self) -> None:
        if len(self) > self._offset.size:
            more = max(len(self), self._offset.size * 5 // 4) - self._offset.size
            self._offset = np.concatenate((self._offset, np.full(more, UNKNOWN, np.int64)))
            self._moved = np.concatenate((self._moved, np.zeros(more, np.bool_)))


class KeyRows:
    """Row of each key in the listing of the topics, -1 where it is not listed."""

    def __init__(self, last: LastOffsets) -> None:
        self._last = last
        self._version = 0
        self._first_of: Mapping[str, int] = {}
        self._count_of: Mapping[str, int] = {}
        self._topics: tuple[str, ...] = ()
        self._first: Int64 = np.zeros(0, np.int64)
        self.row: Int64 = np.zeros(0, np.int64)
        self.revision = 0
        """Changes whenever a row may have."""

    def follow(self, seen: EndsRound) -> None:
        """Renew the rows of all keys when the listing is another one."""
        if seen.version != self._version:
            self._version = seen.version
            counts = seen.topics.partitions.astype(np.int64)
            self._topics = seen.topics.names
            self._first = np.cumsum(counts) - counts
            self._first_of = dict(zip(self._topics, self._first.tolist(), strict=True))
            self._count_of = dict(zip(self._topics, counts.tolist(), strict=True))
            self.row = np.zeros(0, np.int64)
            self.revision += 1
        if len(self._last) > self.row.size:
            self.revision += 1
            self.row = np.concatenate((self.row, self._rows_from(self.row.size)))

    def names(self, rows: Int64) -> list[tuple[str, int]]:
        """Topic and partition of rows."""
        topic = np.searchsorted(self._first, rows, side="right") - 1
        partition = rows - self._first[topic] if rows.size else rows
        return [
            (self._topics[each], number)
            for each, number in zip(topic.tolist(), partition.tolist(), strict=True)
        ]

    def keys_of(self, topic: str, partition: int) -> NDArray[np.int64]:
        first = self._first_of.get(topic)
        return np.flatnonzero(self.row == (-2 if first is None else first + partition))

    def _rows_from(self, first_id: int) -> Int64:
        topics = self._last.topics
        first = np.array([self._first_of.get(name, UNKNOWN) for name in topics], np.int64)
        count = np.array([self._count_of.get(name, 0) for name in topics], np.int64)
        topic, partition = self._last.places(first_id)
        row: Int64 = np.where(partition < count[topic], first[topic] + partition, UNKNOWN)
        return row
