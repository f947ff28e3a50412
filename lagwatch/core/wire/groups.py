"""Decodes the records of groups: classic (key version 2) and KIP-848 (key versions 3 to 8).

Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/*Value.json; inside classic
members: clients/src/main/resources/common/message/ConsumerProtocol{Subscription,Assignment}.json.
"""

from collections.abc import Callable, Mapping
from typing import Final

from lagwatch.core.wire.kinds import Fault, KeyKind, MalformedError
from lagwatch.core.wire.reader import KeyReader, Reader
from lagwatch.core.wire.records import (
    ClassicGroup,
    ClassicMember,
    ConsumerGroupEpoch,
    ConsumerGroupTopics,
    ConsumerMember,
    CurrentAssignment,
    GroupRecord,
    GroupTombstone,
    MemberTombstone,
    Partitions,
    SubscribedTopic,
    TargetAssignment,
    TargetEpoch,
)

_CONSUMER: Final = "consumer"
_VERSION_BYTES: Final = 2
_HIGHEST_CLASSIC: Final = 4
_CLASSIC_HAS_REBALANCE_TIMEOUT: Final = 1
_CLASSIC_HAS_STATE_TIME: Final = 2
_CLASSIC_HAS_INSTANCE_ID: Final = 3
_CLASSIC_IS_FLEXIBLE: Final = 4


def decode_group_record(kind: KeyKind, key: bytes, value: bytes | None, order: int) -> GroupRecord:
    """Decode one record whose kind is in `GROUP_KINDS`.

    Raises:
        MalformedError: neither key nor value may be trusted.
    """
    reader = KeyReader(key, at=_VERSION_BYTES)
    if kind in _BY_GROUP:
        group = reader.string()
        if value is None:
            return GroupTombstone(group=group, order=order, kind=kind)
        return _BY_GROUP[kind](value, group, order)
    group, member_id = reader.string(), reader.string()
    if value is None:
        return MemberTombstone(group=group, order=order, member_id=member_id, kind=kind)
    return _BY_MEMBER[kind](value, group, order, member_id)


def read_assignment(data: bytes, protocol_type: str) -> Partitions | None:
    """Read what a classic consumer holds; no bytes: nothing. User data is not looked at.

    None: the group is not of consumers.

    Raises:
        MalformedError: it is, but these bytes are not an assignment.
    """
    if protocol_type != _CONSUMER:
        return None
    if not data:
        return ()
    reader = Reader(data)
    if reader.int16() < 0:
        raise MalformedError(Fault.BAD_ASSIGNMENT_VERSION)
    return reader.array(lambda: (reader.string(), reader.int32s()))


def read_subscription(data: bytes, protocol_type: str) -> tuple[str, ...] | None:
    """Read the topics a classic consumer subscribes to; None: not written as consumers do.

    A subscription is the member's own business, so one that cannot be read spoils nothing else.
    """
    if protocol_type != _CONSUMER:
        return None
    reader = Reader(data)
    try:
        return reader.array(reader.string) if reader.int16() >= 0 else None
    except MalformedError:
        return None


def _open(value: bytes, *, highest: int, flexible_from: int) -> tuple[int, Reader]:
    if len(value) < _VERSION_BYTES:
        raise MalformedError(Fault.VALUE_TOO_SHORT)
    version = Reader(value).int16()
    if not 0 <= version <= highest:
        raise MalformedError(Fault.UNSUPPORTED_VALUE_VERSION)
    return version, Reader(value, at=_VERSION_BYTES, flexible=version >= flexible_from)


def _open_flexible(value: bytes) -> Reader:
    """Open a value of KIP-848: all of them know version 0 only, which is flexible."""
    return _open(value, highest=0, flexible_from=0)[1]


def _classic_group(value: bytes, group: str, order: int) -> ClassicGroup:
    version, reader = _open(value, highest=_HIGHEST_CLASSIC, flexible_from=_CLASSIC_IS_FLEXIBLE)
    protocol_type = reader.string()
    decoded = ClassicGroup(
        group=group,
        order=order,
        protocol_type=protocol_type,
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_ms=_state_ms(reader) if version >= _CLASSIC_HAS_STATE_TIME else None,
        members=reader.array(lambda: _classic_member(reader, version, protocol_type)),
    )
    reader.skip_tags()
    return decoded


def _state_ms(reader: Reader) -> int | None:
    state_ms = reader.int64()
    return state_ms if state_ms >= 0 else None


def _classic_member(reader: Reader, version: int, protocol_type: str) -> ClassicMember:
    member = ClassicMember(
        member_id=reader.string(),
        instance_id=reader.nullable_string() if version >= _CLASSIC_HAS_INSTANCE_ID else None,
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.int32() if version >= _CLASSIC_HAS_REBALANCE_TIMEOUT else None,
        session_timeout_ms=reader.int32(),
        subscription=read_subscription(reader.bytes(), protocol_type),
        assignment=read_assignment(reader.bytes(), protocol_type),
    )
    reader.skip_tags()
    return member


def _group_epoch(value: bytes, group: str, order: int) -> ConsumerGroupEpoch:
    reader = _open_flexible(value)
    decoded = ConsumerGroupEpoch(group=group, order=order, epoch=reader.int32())
    reader.skip_tags()
    return decoded


def _group_topics(value: bytes, group: str, order: int) -> ConsumerGroupTopics:
    reader = _open_flexible(value)
    topics = reader.array(lambda: _subscribed_topic(reader))
    reader.skip_tags()
    return ConsumerGroupTopics(group=group, order=order, topics=topics)


def _subscribed_topic(reader: Reader) -> SubscribedTopic:
    topic = SubscribedTopic(
        topic_id=reader.uuid(), name=reader.string(), partition_count=reader.int32()
    )
    reader.array(lambda: _skip_racks(reader))
    reader.skip_tags()
    return topic


def _skip_racks(reader: Reader) -> None:
    reader.int32()
    reader.array(reader.string)
    reader.skip_tags()


def _target_epoch(value: bytes, group: str, order: int) -> TargetEpoch:
    reader = _open_flexible(value)
    decoded = TargetEpoch(group=group, order=order, epoch=reader.int32())
    reader.skip_tags()
    return decoded


def _member(value: bytes, group: str, order: int, member_id: str) -> ConsumerMember:
    reader = _open_flexible(value)
    decoded = ConsumerMember(
        group=group,
        order=order,
        member_id=member_id,
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        subscribed_topics=reader.array(reader.string),
        subscribed_regex=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_string(),
    )
    reader.skip_tags()
    return decoded


def _target_assignment(value: bytes, group: str, order: int, member_id: str) -> TargetAssignment:
    reader = _open_flexible(value)
    partitions = _by_topic_id(reader)
    reader.skip_tags()
    return TargetAssignment(group=group, order=order, member_id=member_id, partitions=partitions)


def _current_assignment(value: bytes, group: str, order: int, member_id: str) -> CurrentAssignment:
    reader = _open_flexible(value)
    decoded = CurrentAssignment(
        group=group,
        order=order,
        member_id=member_id,
        epoch=reader.int32(),
        previous_epoch=reader.int32(),
        state=reader.int8(),
        assigned=_by_topic_id(reader),
        revoking=_by_topic_id(reader),
    )
    reader.skip_tags()
    return decoded


def _by_topic_id(reader: Reader) -> Partitions:
    return reader.array(lambda: _topic_partitions(reader))


def _topic_partitions(reader: Reader) -> tuple[str, tuple[int, ...]]:
    topic_id, partitions = reader.uuid(), reader.int32s()
    reader.skip_tags()
    return topic_id, partitions


_BY_GROUP: Final[Mapping[KeyKind, Callable[[bytes, str, int], GroupRecord]]] = {
    KeyKind.GROUP_METADATA: _classic_group,
    KeyKind.CONSUMER_GROUP_METADATA: _group_epoch,
    KeyKind.CONSUMER_GROUP_PARTITION_METADATA: _group_topics,
    KeyKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _target_epoch,
}
_BY_MEMBER: Final[Mapping[KeyKind, Callable[[bytes, str, int, str], GroupRecord]]] = {
    KeyKind.CONSUMER_GROUP_MEMBER_METADATA: _member,
    KeyKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _target_assignment,
    KeyKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _current_assignment,
}
GROUP_KINDS: Final = frozenset(_BY_GROUP) | frozenset(_BY_MEMBER)
"""The kinds that become a `GroupRecord`; other kinds are skipped."""
