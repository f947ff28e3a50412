"""The Kafka client as pollers see it: one Protocol per role, and the values they return.

Every method may raise `SourceError`. Columns are numpy arrays of equal length; -1 is unknown.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedRecords:
    """A batch of the offsets topic, all partitions mixed, each partition in its own order."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    """None: a tombstone."""
    orders: NDArray[np.int64]
    """Offset of each record in its partition."""
    positions: Mapping[int, int]
    """Partition → next offset to read, for all partitions, after this batch."""
    times_ms: NDArray[np.int64] | None = None
    """When each record was written; None if times were not requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Offsets that a partition of the offsets topic holds: `start` <= offset < `end`."""

    start: int
    end: int
    """Last stable offset: records of open transactions, and what follows them, come later."""


class OffsetsTopicSource(Protocol):
    """Reads the offsets topic without being a member of any group."""

    async def spans(self) -> Mapping[int, Span]:
        """All partitions; empty as long as no group has ever committed (the topic does not exist).

        Raises:
            SourceError: `authorization` when the topic is not visible or not readable.
        """
        ...

    @property
    def topic_id(self) -> str:
        """Id (base64url) of the topic that `spans` last found; "" where the broker gives none."""
        ...

    async def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        ...

    async def renew(self) -> None:
        """Go on reading at the same positions with a new client."""
        ...

    async def read(self) -> ConsumedRecords:
        """Wait a moment for records; may be empty."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """All visible topics; partition p of topic t is row `sum(partitions[:t]) + p`."""

    names: tuple[str, ...]
    """Sorted."""
    partitions: NDArray[np.int32]
    """[topics]"""
    leader: NDArray[np.int32]
    """[all partitions] broker id; -1 none."""


class TopicSource(Protocol):
    """Names, partitions, leaders and ids of topics."""

    async def list_topics(self) -> TopicListing:
        """All topics that lagwatch may see; also refreshes the client's metadata of leaders."""
        ...

    async def topic_ids(self, names: Sequence[str]) -> "TopicIds":
        """Ids of the topics named."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIds:
    """Ids of the topics asked for."""

    ids: Mapping[str, str]
    """base64url, as Kafka prints them."""
    refused: tuple[str, ...]
    """No right to DESCRIBE them (they may not exist either)."""
    missing: tuple[str, ...]
    """They do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndRound:
    """Offsets of all partitions of a `TopicListing`, -1 where there was no answer."""

    log_start: NDArray[np.int64] | None
    """None if log starts were not requested."""
    log_end: NDArray[np.int64]
    last_stable: NDArray[np.int64]
    stale: bool
    """A leader or partition has moved since the listing: list the topics again."""
    replaced: bool
    """A topic of the listing is not there; perhaps another one has its name."""
    problems: tuple[str, ...]
    """Why partitions have no answer, one sentence for each broker or kind."""


class LogEndSource(Protocol):
    """Log start, log end and last stable offsets."""

    async def log_ends(
        self,
        topics: TopicListing,
        *,
        with_log_start: bool,
        wanted: NDArray[np.bool_] | None = None,
    ) -> LogEndRound:
        """Ask for all partitions, or for those `wanted`.

        The others have the log end and last stable offset of the round before.
        """
        ...


class OffsetsRetentionSource(Protocol):
    """For how long offsets of a group without members are kept."""

    async def shortest_ms(self) -> int | None:
        """The shortest `offsets.retention.minutes` of all brokers.

        None: a broker refuses to say it (it needs DESCRIBE_CONFIGS on the cluster).

        Raises:
            SourceError: a broker did not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTimes:
    """Records found by time, one per question; -1 where the leader named none."""

    offset: NDArray[np.int64]
    timestamp: NDArray[np.int64]
    answered: NDArray[np.bool_]
    """Did the leader answer?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicTimes:
    """Settings of a topic that decide what its record times mean."""

    by_broker: bool
    """Brokers give records their times (`message.timestamp.type=LogAppendTime`)."""
    compacted: bool
    """Compaction may have removed records."""


class RecordTimeSource(Protocol):
    """Offsets by time; needs no right but DESCRIBE on the topics."""

    async def first_at(
        self, places: Sequence[tuple[str, int]], at_ms: NDArray[np.int64]
    ) -> RecordTimes:
        """For each (topic, partition) the first record of an instant or later."""
        ...

    async def newest(self, places: Sequence[tuple[str, int]]) -> RecordTimes:
        """For each the first of the records with the greatest time."""
        ...

    async def topic_times(self, topics: Sequence[str]) -> Mapping[str, TopicTimes]:
        """By topic; without those whose configuration lagwatch may not read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as the list of groups names it."""

    name: str
    type: str
    """classic | consumer | streams | unknown."""
    state: str
    """Kafka's word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """Groups that we may see."""

    groups: tuple[ListedGroup, ...]
    problem: str
    """Why groups of some brokers are missing; "" when the list is complete."""
    others: tuple[str, ...] = ()
    """Groups that are neither classic nor KIP-848 groups. May be a minute old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescriptions:
    """Answer for the groups named."""

    infos: tuple[GroupInfo, ...]
    refused: tuple[str, ...]
    """lagwatch may not describe them."""
    missing: tuple[str, ...]
    """No classic or KIP-848 groups of these names."""
    problems: Mapping[str, str]
    """Groups whose description failed now, with the reason."""


class GroupSource(Protocol):
    """State and members of groups."""

    async def list_groups(self) -> GroupListing: ...

    async def describe(self, names: Sequence[str]) -> GroupDescriptions: ...

    async def may_list_all(self) -> bool:
        """True if lagwatch holds DESCRIBE on the cluster, and so sees all groups."""
        ...


class OtherGroupSource(Protocol):
    """State and members of share groups (KIP-932) and streams groups (KIP-1071)."""

    async def describe(self, names: Sequence[str]) -> GroupDescriptions:
        """Describe these groups; never raises: `problems` names those that failed, and why."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffsets:
    """Committed offsets of one group; the three lists are columns."""

    group: str
    topics: Sequence[str]
    partitions: Sequence[int]
    offsets: Sequence[int]
    asked_ms: EpochMs
    """When the request was sent."""
    answered_ms: EpochMs
    """When the group's coordinator answered."""
    refused: bool = False
    problem: str = ""
    """Why there is no answer now; "" when there is one."""


class CommittedSource(Protocol):
    """Committed offsets, asked from the coordinators."""

    def committed(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CommittedOffsets]]:
        """Committed offsets of all these groups, in chunks as the answers come.

        Offsets of topics that may not be described are left out.
        """
        ...

    async def not_surely_deleted(self, left_out: Mapping[str, tuple[str, int]]) -> frozenset[str]:
        """Those of these topics that may not be described, or of which that is not known.

        `left_out`: topic → a group and a partition of which the group had an offset before.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The last offsets of a partition, from the first of some committed offsets to the log end."""

    topic: str
    partition: int
    offsets: tuple[int, ...]
    """Committed offsets, ascending, all before `end`."""
    end: int
    """Log end offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailAnswer:
    """What a read_committed reader found in such a tail."""

    tail: Tail
    empty_from: int | None
    """From here to the end there is no record (exact for the committed offsets); None unknown."""
    refused: bool
    """lagwatch lacks READ on the topic."""


class TailSource(Protocol):
    """Reads ranges of offsets at the ends of partitions."""

    async def read(self, tails: Sequence[Tail]) -> Sequence[TailAnswer]:
        """Returns one answer per tail, in any order; a partition may appear once only."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldPartition:
    """A partition whose last stable offset waits for an open transaction."""

    topic: str
    partition: int
    last_stable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionNames:
    """The producer of an open transaction."""

    producer_id: int | None
    transactional_id: str
    """"" unknown."""
    started_ms: EpochMs | None
    problem: str
    """Why something is unknown; "" when everything is known."""


class TransactionSource(Protocol):
    """Names open transactions."""

    async def names(
        self, held: Sequence[HeldPartition]
    ) -> Mapping[HeldPartition, TransactionNames]: ...
