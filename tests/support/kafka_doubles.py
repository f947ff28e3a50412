"""In memory, the Kafka sources that pollers read.

`tests/contract/test_kafka_ports.py` holds them to what the real ones do.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs
from lagwatch.errors import SourceError
from lagwatch.ports.kafka import (
    CommittedOffsets,
    ConsumedRecords,
    GroupDescriptions,
    GroupListing,
    HeldPartition,
    ListedGroup,
    LogEndRound,
    Span,
    Tail,
    TailAnswer,
    TopicIds,
    TopicListing,
    TransactionNames,
)
from tests.support.wire import encode_share_key, encode_share_value

ORDERS = "OzMcb6xdSee-xkidfuVdDQ"
"""Id of a topic."""
Record = tuple[int, int, bytes, bytes | None]
"""partition, offset, key, value"""


class InMemoryOffsetsTopic:
    """Partitions of records; `ends` may lie behind the last record, as after compaction."""

    def __init__(self, *records: Record, ends: Mapping[int, int]) -> None:
        self.records = list(records)
        self.ends = dict(ends)
        self.topic_id = ""
        self.positions: dict[int, int] = {}
        self.assigned: list[Mapping[int, int]] = []
        self.stuck = False
        """Nothing is read, until there is a new client."""

    async def spans(self) -> Mapping[int, Span]:
        return {each: Span(start=0, end=end) for each, end in self.ends.items()}

    async def assign(self, positions: Mapping[int, int]) -> None:
        self.positions = dict(positions)
        self.assigned.append(dict(positions))

    async def renew(self) -> None:
        self.stuck = False

    async def read(self) -> ConsumedRecords:
        if self.stuck:
            return ConsumedRecords(
                keys=[], values=[], orders=np.zeros(0, np.int64), positions=dict(self.positions)
            )
        batch = [each for each in self.records if each[1] >= self.positions.get(each[0], 1 << 60)]
        self.positions.update({each: self.ends[each] for each in self.positions})
        return ConsumedRecords(
            keys=[key for *_, key, _ in batch],
            values=[value for *_, value in batch],
            orders=np.array([offset for _, offset, *_ in batch], np.int64),
            positions=dict(self.positions),
        )


class InMemoryGroups:
    """Groups and their committed offsets: group → {(topic, partition): offset}."""

    def __init__(self, committed: dict[str, dict[tuple[str, int], int]]) -> None:
        self.offsets = committed
        self.problem = ""
        self.at_ms = 1_000
        self.others: tuple[str, ...] = ()
        self.unlisted: set[str] = set()
        self.hidden: set[str] = set()
        self.hidden_topics: frozenset[str] = frozenset()
        self.wait: Callable[[], Awaitable[None]] | None = None

    async def list_groups(self) -> GroupListing:
        names = [name for name in self.offsets if name not in self.unlisted]
        found = (ListedGroup(name=name, type="classic", state="Empty") for name in names)
        return GroupListing(groups=tuple(found), problem=self.problem, others=self.others)

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        return GroupDescriptions(infos=(), refused=(), missing=tuple(names), problems={})

    async def may_list_all(self) -> bool:
        return True

    async def not_surely_deleted(self, left_out: Mapping[str, tuple[str, int]]) -> frozenset[str]:
        return self.hidden_topics.intersection(left_out)

    async def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        if self.wait is not None:
            await self.wait()
        for group in groups:
            offsets = {} if group in self.hidden else self.offsets.get(group, {})
            yield [
                CommittedOffsets(
                    group=group,
                    topics=[topic for topic, _ in offsets],
                    partitions=[partition for _, partition in offsets],
                    offsets=list(offsets.values()),
                    asked_ms=EpochMs(self.at_ms),
                    answered_ms=EpochMs(self.at_ms + 1),
                    refused=group in self.hidden,
                )
            ]


class InMemoryLogEnds:
    """Answers the next round as the test says."""

    def __init__(self) -> None:
        self.ends: list[int] = []
        self.stale = False
        self.asked: list[tuple[bool, list[int] | None]] = []
        """Of each round: with log starts? Of which rows; None: of all."""
        self._before = np.zeros(0, np.int64)

    async def log_ends(
        self,
        topics: TopicListing,
        *,
        with_log_start: bool,
        wanted: NDArray[np.bool_] | None = None,
    ) -> LogEndRound:
        assert len(self.ends) == len(topics.leader)
        rows = None if wanted is None else np.flatnonzero(wanted).tolist()
        self.asked.append((with_log_start, rows))
        ends = np.array(self.ends, np.int64)
        if wanted is not None and len(self._before) == len(ends):
            ends = np.where(wanted, ends, self._before)
        self._before = ends
        return LogEndRound(
            log_start=np.zeros_like(ends) if with_log_start else None,
            log_end=ends,
            last_stable=ends,
            stale=self.stale,
            replaced=False,
            problems=("broker 1 is silent",) if (ends < 0).any() else (),
        )


class InMemoryTopics:
    """Topics as a test lays them out: name → (id, leaders)."""

    def __init__(self, topics: dict[str, tuple[str, list[int]]]) -> None:
        self.topics = topics
        self.hidden: set[str] = set()
        self.asked: list[Sequence[str]] = []

    async def list_topics(self) -> TopicListing:
        return listing({name: leaders for name, (_, leaders) in self.topics.items()})

    async def topic_ids(self, names: Sequence[str]) -> TopicIds:
        self.asked.append(names)
        known = [name for name in names if name in self.topics]
        return TopicIds(
            ids={name: self.topics[name][0] for name in known},
            refused=tuple(name for name in names if name in self.hidden),
            missing=tuple(set(names) - set(known) - self.hidden),
        )


def listing(leaders: dict[str, list[int]]) -> TopicListing:
    names = tuple(sorted(leaders))
    return TopicListing(
        names=names,
        partitions=np.array([len(leaders[name]) for name in names], np.int32),
        leader=np.array([each for name in names for each in leaders[name]], np.int32),
    )


class InMemoryTails:
    """Every range is empty from `empty_from` on."""

    def __init__(self) -> None:
        self.empty_from: int | None = 0
        self.asked: list[Tail] = []

    async def read(self, tails: Sequence[Tail]) -> Sequence[TailAnswer]:
        self.asked += tails
        return [TailAnswer(tail=each, empty_from=self.empty_from, refused=False) for each in tails]


class InMemoryTransactions:
    """Gives every transaction the same name."""

    def __init__(self) -> None:
        self.problem = ""
        self.asked: list[HeldPartition] = []

    async def names(
        self, held: Sequence[HeldPartition]
    ) -> Mapping[HeldPartition, TransactionNames]:
        self.asked += held
        names = TransactionNames(
            producer_id=7, transactional_id="tx", started_ms=None, problem=self.problem
        )
        return dict.fromkeys(held, names)


@dataclass
class InMemoryStateTopic:
    """One partition of records that are read once."""

    records: list[tuple[int, bytes, bytes | None]]
    refuses: bool = False
    topic_id: str = "state"
    read_to: int = 0
    stuck: bool = False
    """Nothing is read, until there is a new client."""

    async def spans(self) -> Mapping[int, Span]:
        return {0: Span(start=0, end=len(self.records))}

    async def assign(self, positions: Mapping[int, int]) -> None:
        self.read_to = positions[0]

    async def renew(self) -> None:
        self.stuck = False

    async def read(self) -> ConsumedRecords:
        if self.refuses:
            raise SourceError(
                cluster="c", kind="authorization", message="grant: Allow READ on TOPIC it"
            )
        end = self.read_to if self.stuck else len(self.records)
        batch = self.records[self.read_to : end]
        orders = np.arange(self.read_to, end)
        self.read_to = end
        return ConsumedRecords(
            keys=[key for _, key, _ in batch],
            values=[value for *_, value in batch],
            orders=orders,
            positions={0: self.read_to},
            times_ms=np.array([at_ms for at_ms, *_ in batch], np.int64),
        )

    def write(self, at_ms: int, start: int, completed: int, topic_id: str = ORDERS) -> None:
        self._write(at_ms, start, completed, topic_id, update=bool(self.records))

    def snapshot(self, at_ms: int, start: int, completed: int, topic_id: str = ORDERS) -> None:
        self._write(at_ms, start, completed, topic_id, update=False)

    def _write(
        self, at_ms: int, start: int, completed: int, topic_id: str, *, update: bool
    ) -> None:
        self.records.append(
            (
                at_ms,
                encode_share_key("g", topic_id, 0, update=update),
                encode_share_value(start, completed, update=update),
            )
        )

    def remove(self, at_ms: int, topic_id: str = ORDERS) -> None:
        self.records.append((at_ms, encode_share_key("g", topic_id, 0), None))
