"""What a group's records say; everything but commits. Rare, so each is an object.

`order` is the record's own offset in its partition of `__consumer_offsets`. All records of a group,
commits too, are in one partition, so within a group it says which came first.

Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/*Value.json.
"""

from dataclasses import dataclass
from typing import Final

from lagwatch.core.wire.kinds import KeyKind

Partitions = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic name or topic id, partitions) pairs, in the order written. Ids as Kafka prints them."""

_CONSUMER_PROTOCOL_TYPES: Final = ("consumer", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member of a classic group."""

    member_id: str
    instance_id: str | None
    """`group.instance.id`, set for static members."""
    client_id: str
    client_host: str
    """As Kafka writes it: `/10.0.0.7`."""
    rebalance_timeout_ms: int | None
    """None: not written by Kafka before 0.10.1."""
    session_timeout_ms: int
    subscription: tuple[str, ...] | None
    """Topics; None when the member does not write it in the consumer protocol."""
    assignment: Partitions | None
    """By topic name; None when the group is not of consumers, so that it cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A generation of a classic group (key version 2)."""

    group: str
    order: int
    protocol_type: str
    generation: int
    protocol: str | None
    """The assignor, for consumers."""
    leader: str | None
    state_ms: int | None
    """When the group came into its state; None: not written by Kafka before 2.1."""
    members: tuple[ClassicMember, ...]

    @property
    def is_consumer(self) -> bool:
        """Whether its members read topics; Connect workers and schema registries do not.

        A group that never had a member, only commits, has no protocol type yet.
        """
        return self.protocol_type in _CONSUMER_PROTOCOL_TYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTombstone:
    """A group's record was removed.

    The kinds GROUP_METADATA and CONSUMER_GROUP_METADATA mean that the group is gone or changes to
    the other protocol; a later record of either kind brings it back.
    """

    group: str
    order: int
    kind: KeyKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupEpoch:
    """A KIP-848 group exists; each epoch asks for a new assignment (key version 3)."""

    group: str
    order: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedTopic:
    """A topic as the group coordinator saw it."""

    topic_id: str
    name: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTopics:
    """The topics a KIP-848 group subscribes to (key version 4); Kafka 4.1 and later erase it."""

    group: str
    order: int
    topics: tuple[SubscribedTopic, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member of a KIP-848 group (key version 5)."""

    group: str
    order: int
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topics: tuple[str, ...]
    subscribed_regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    """Of the server; None: the group's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpoch:
    """The epoch of a KIP-848 group's target assignment (key version 6)."""

    group: str
    order: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignment:
    """What a member of a KIP-848 group shall hold (key version 7)."""

    group: str
    order: int
    member_id: str
    partitions: Partitions
    """By topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member of a KIP-848 group holds (key version 8)."""

    group: str
    order: int
    member_id: str
    epoch: int
    previous_epoch: int
    state: int
    """0 stable, 1 unrevoked partitions, 2 unreleased partitions, 127 unknown."""
    assigned: Partitions
    """By topic id."""
    revoking: Partitions
    """By topic id: to be given up before the member may go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberTombstone:
    """A record of a KIP-848 member was removed; CONSUMER_GROUP_MEMBER_METADATA: the member left."""

    group: str
    order: int
    member_id: str
    kind: KeyKind


GroupRecord = (
    ClassicGroup
    | GroupTombstone
    | ConsumerGroupEpoch
    | ConsumerGroupTopics
    | ConsumerMember
    | TargetEpoch
    | TargetAssignment
    | CurrentAssignment
    | MemberTombstone
)
