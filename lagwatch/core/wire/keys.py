"""Dense ids for (group, topic, partition): the interning table of a collector or a Spark task."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.wire.faults import DecodeFault, MalformedError, text
from lagwatch.core.wire.index import ABSENT, KeyIndex

DENIED: Final = -1
"""In an id column: a commit whose group or topic the filter denies."""
UNSEEN: Final = ABSENT
"""In an id column: not a commit, or one whose key was not met before."""

_CANONICAL: Final = b"\x00\x01"
_GROUP_SIZE_AT: Final = 2
_SIZE_BYTES: Final = 2
_PARTITION_BYTES: Final = 4
_SIGN_BIT: Final = 0x80
_DENIED_PAIR: Final = (-1, -1)


class _Names:
    """Strings and their dense numbers."""

    __slots__ = ("_numbers", "values")

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.values: list[str] = []

    def number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.values)
            self.values.append(name)
        return number

    def known(self, name: str) -> int | None:
        return self._numbers.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyColumns:
    """Keys as columns of equal length."""

    group: NDArray[np.int32]
    """Index into `groups`."""
    topic: NDArray[np.int32]
    partition: NDArray[np.int32]
    groups: Sequence[str]
    """Every group met so far; grows with the table."""
    topics: Sequence[str]


class CommitKeys:
    """Gives every (group, topic, partition) a dense id, in the order first seen.

    A known key costs one look-up of its hash in a `KeyIndex`. `keep(group, topic)` is asked when a
    key is new, and mostly once for all partitions; denied keys are remembered and get no id. Ids
    are never reused, so announcing each once to another process is enough. About 50 bytes per key.
    """

    def __init__(
        self, keep: Callable[[str, str], bool] | None = None, *, most_pairs: int = 10_000
    ) -> None:
        """`most_pairs`: pairs of group and topic that are remembered for further partitions."""
        self._keep = keep
        self._most_pairs = most_pairs
        self._ids = KeyIndex()
        self._groups, self._topics = _Names(), _Names()
        self._group, self._topic, self._partition = array("i"), array("i"), array("i")
        self._pairs: dict[bytes, tuple[int, int]] = {}
        # Keys without their partition, for those met last: a backlog begins with as many new keys
        # as the cluster has group-partitions, and parsing each would be what costs most.

    def __len__(self) -> int:
        """How many ids were given; the next one."""
        return len(self._partition)

    @property
    def groups(self) -> Sequence[str]:
        """Every group met so far; grows with the table."""
        return self._groups.values

    def __getitem__(self, key_id: int) -> tuple[str, str, int]:
        """Group, topic and partition of an id."""
        group = self._groups.values[self._group[key_id]]
        return group, self._topics.values[self._topic[key_id]], self._partition[key_id]

    def since(self, first_id: int) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
        """Groups, topics and partitions of the ids from `first_id` on."""
        return (
            tuple(map(self._groups.values.__getitem__, self._group[first_id:])),
            tuple(map(self._topics.values.__getitem__, self._topic[first_id:])),
            tuple(self._partition[first_id:]),
        )

    def columns(self, ids: NDArray[np.int32]) -> KeyColumns:
        """Groups, topics and partitions of these ids, as columns."""
        group, topic, partition = (
            np.frombuffer(column, np.int32)[ids] if column else np.zeros(0, np.int32)
            for column in (self._group, self._topic, self._partition)
        )
        return KeyColumns(
            group=group,
            topic=topic,
            partition=partition,
            groups=self._groups.values,
            topics=self._topics.values,
        )

    def by_group(self, groups: Iterable[str]) -> Mapping[str, Sequence[int]]:
        """Ids of these groups' keys, without groups that have none."""
        numbers = [(self._groups.known(group), group) for group in groups]
        wanted = {number: group for number, group in numbers if number is not None}
        if not wanted:
            return {}
        column = np.frombuffer(self._group, np.int32)
        ids: defaultdict[str, list[int]] = defaultdict(list)
        for row in np.flatnonzero(np.isin(column, list(wanted))).tolist():
            ids[wanted[self._group[row]]].append(row)
        return ids

    def id_of(self, group: str, topic: str, partition: int) -> int:
        """Id of a key known from elsewhere than a record; a new id if it is new, or `DENIED`."""
        key = _CANONICAL + _string(group) + _string(topic) + pack(">i", partition)
        known = self._ids.get(key)
        return self.intern(key) if known is None else known

    def find(self, keys: Sequence[bytes | None]) -> NDArray[np.int32]:
        """Ids of keys met before, `DENIED` or `UNSEEN` for the others."""
        return self._ids.find(keys)

    def intern(self, key: bytes) -> int:
        """Return the id of a commit's key that `find` did not find, or `DENIED`.

        The key's version must be 0 or 1.

        Raises:
            MalformedError: behind the version, it is no commit's key.
        """
        key_id = self._ids.fresh(key)
        if key_id is not None:  # met twice in one batch
            return key_id
        pair = self._pairs.get(key[:-_PARTITION_BYTES])
        if pair is None or key[-_PARTITION_BYTES] >= _SIGN_BIT:
            return self._intern_parsed(key)
        key_id = self._admit(pair, key)
        self._ids.put(key, key_id)
        return key_id

    def drop(self, ids: Sequence[int]) -> None:
        """Forget keys, for instance of deleted groups; should one come back, it gets a new id.

        The names of an id dropped can still be asked for.
        """
        self._ids.remove(ids)

    def _intern_parsed(self, key: bytes) -> int:
        canonical, group, topic = parse_offset_key(key)
        key_id = self._ids.get(canonical)
        if key_id is None:
            if len(self._pairs) >= self._most_pairs:
                self._pairs.clear()
            pair = self._pairs[canonical[:-_PARTITION_BYTES]] = self._pair(group, topic)
            key_id = self._admit(pair, canonical)
            self._ids.put(canonical, key_id)
        if len(key) == len(canonical):  # version 0 of the same; what has a tail is not remembered
            self._ids.put(key, key_id)
        return key_id

    def _pair(self, group: str, topic: str) -> tuple[int, int]:
        if self._keep is not None and not self._keep(group, topic):
            return _DENIED_PAIR
        return self._groups.number(group), self._topics.number(topic)

    def _admit(self, pair: tuple[int, int], key: bytes) -> int:
        if pair is _DENIED_PAIR:
            return DENIED
        group, topic = pair
        self._group.append(group)
        self._topic.append(topic)
        self._partition.append(int.from_bytes(key[-_PARTITION_BYTES:]))
        return len(self._partition) - 1


def parse_offset_key(key: bytes) -> tuple[bytes, str, str]:
    """Split the key of an offset commit into its version 1 form, group and topic.

    Written out by hand for speed: it runs for every group and topic at the start of a backlog.

    The version 1 form ends with the partition: version 0 names the same things, and bytes after the
    partition are dropped, as Kafka does.

    Raises:
        MalformedError: too short, or a length or the partition is negative.
    """
    topic_size_at = _string_end(key, _GROUP_SIZE_AT)
    partition_at = _string_end(key, topic_size_at)
    end = partition_at + _PARTITION_BYTES
    if len(key) < end:
        raise MalformedError(DecodeFault.KEY_UNDERFLOW)
    if key[partition_at] >= _SIGN_BIT:
        raise MalformedError(DecodeFault.NEGATIVE_PARTITION)
    group = text(key[_GROUP_SIZE_AT + _SIZE_BYTES : topic_size_at])
    topic = text(key[topic_size_at + _SIZE_BYTES : partition_at])
    return _CANONICAL + key[_GROUP_SIZE_AT:end], group, topic


def _string_end(key: bytes, size_at: int) -> int:
    start = size_at + _SIZE_BYTES
    if len(key) < start:
        raise MalformedError(DecodeFault.KEY_UNDERFLOW)
    size = key[size_at] << 8 | key[size_at + 1]
    if key[size_at] >= _SIGN_BIT:
        raise MalformedError(DecodeFault.KEY_BAD_LENGTH)
    return start + size


def _string(value: str) -> bytes:
    raw = value.encode()
    return pack(">h", len(raw)) + raw
