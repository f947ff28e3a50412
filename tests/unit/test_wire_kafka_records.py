"""Records that Kafka 4.2 wrote or encoded, and what its own classes read in them.

`real_records.json` comes from a broker's `__consumer_offsets`; `kafka_encoded_records.json` from
Kafka's generated classes: every version, metadata around each length of a varint, tagged fields.
"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lagwatch.core.wire import (
    TOMBSTONE,
    ClassicGroup,
    ClassicMember,
    CommitKeys,
    ConsumerGroupEpoch,
    ConsumerGroupTopics,
    ConsumerMember,
    CurrentAssignment,
    GroupRecord,
    GroupTombstone,
    KeyKind,
    MemberTombstone,
    Partitions,
    SubscribedTopic,
    TargetAssignment,
    TargetEpoch,
    decode,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from lagwatch.core.wire.groups import GROUP_KINDS

Json = dict[str, Any]

ORDER = 41
_VECTORS = Path(__file__).parents[1] / "vectors"


def load(name: str) -> list[Json]:
    text = (_VECTORS / name).read_text(encoding="utf-8")
    records: list[Json] = json.loads(text)["records"]
    return records


REAL = load("real_records.json")
ENCODED = load("kafka_encoded_records.json")


def kind_of(record: Json) -> KeyKind:
    return KeyKind(record["decoded"]["type"].lower())


def named(record: Json) -> str:
    return f"{kind_of(record)}-v{record['decoded']['value_version']}"


def key_of(record: Json) -> bytes:
    return bytes.fromhex(record["key_hex"])


def value_of(record: Json) -> bytes | None:
    return bytes.fromhex(record["value_hex"]) or None


def encodable(record: Json) -> bool:
    """Whether it has a value, and no tagged fields that only a later Kafka would write."""
    value = record["decoded"]["value"]
    return value is not None and "unknownTags" not in value


COMMITS = [each for each in REAL + ENCODED if kind_of(each) is KeyKind.OFFSET_COMMIT]
GROUPS = [each for each in REAL + ENCODED if kind_of(each) in GROUP_KINDS]
CLASSIC = [each for each in GROUPS if kind_of(each) is KeyKind.GROUP_METADATA and value_of(each)]
SKIPPED = [each for each in REAL + ENCODED if each not in COMMITS and each not in GROUPS]


@pytest.mark.parametrize("record", COMMITS, ids=named)
def test_a_commit_of_kafka_is_read_field_by_field(record: Json) -> None:
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    offset, commit_ms = (TOMBSTONE, 0)
    if value is not None:
        offset, commit_ms = value["offset"], value["commitTimestamp"]
    table = CommitKeys()

    decoded = decode([key_of(record)], [value_of(record)], [ORDER], table)

    assert decoded.malformed == {}
    assert table[int(decoded.key[0])] == (key["group"], key["topic"], key["partition"])
    assert decoded.offset.tolist() == [offset]
    assert decoded.commit_ms.tolist() == [commit_ms]
    assert decoded.order.tolist() == [ORDER]


@pytest.mark.parametrize("record", GROUPS, ids=named)
def test_a_groups_record_of_kafka_is_read_field_by_field(record: Json) -> None:
    decoded = decode([key_of(record)], [value_of(record)], [ORDER], CommitKeys())

    assert decoded.malformed == {}
    assert decoded.group_records == (as_kafka_reads(record),)


@pytest.mark.parametrize("record", SKIPPED, ids=named)
def test_records_of_share_and_streams_groups_are_counted_and_skipped(record: Json) -> None:
    decoded = decode([key_of(record)], [value_of(record)], [ORDER], CommitKeys())

    assert decoded.skipped == {kind_of(record): 1}
    assert decoded.malformed == {}


def test_a_whole_topic_is_read_at_once_as_record_by_record() -> None:
    records = REAL + ENCODED
    orders = range(1000, 1000 + len(records))
    table = CommitKeys()

    whole = decode([key_of(each) for each in records], list(map(value_of, records)), orders, table)

    singly = [
        decode([key_of(each)], [value_of(each)], [order], table)
        for each, order in zip(records, orders, strict=True)
    ]
    assert whole.key.tolist() == [key_id for each in singly for key_id in each.key.tolist()]
    assert whole.offset.tolist() == [offset for each in singly for offset in each.offset.tolist()]
    assert whole.order.tolist() == [order for each in singly for order in each.order.tolist()]
    assert whole.group_records == tuple(one for each in singly for one in each.group_records)
    assert sum(whole.skipped.values()) == len(SKIPPED)


@pytest.mark.parametrize("record", [each for each in COMMITS if encodable(each)], ids=named)
def test_commits_are_encoded_as_kafka_does(record: Json) -> None:
    key, value = record["decoded"]["key"], record["decoded"]["value"]

    encoded_key = encode_offset_key(key["group"], key["topic"], key["partition"])
    encoded_value = encode_offset_value(
        value["offset"],
        value["commitTimestamp"],
        metadata=value["metadata"],
        version=record["decoded"]["value_version"],
        leader_epoch=value["leaderEpoch"],
        expire_ms=value.get("expireTimestamp", -1),
        topic_id=value.get("topicId"),
    )

    assert encoded_key == key_of(record)
    assert encoded_value == value_of(record)


@pytest.mark.parametrize("record", CLASSIC, ids=named)
def test_an_encoded_classic_group_is_read_back(record: Json) -> None:
    group = as_kafka_reads(record)
    assert isinstance(group, ClassicGroup)
    version = record["decoded"]["value_version"]

    key, value = encode_group_key(group.group), encode_group_value(group, version=version)

    assert key == key_of(record)
    assert decode([key], [value], [ORDER], CommitKeys()).group_records == (group,)


def as_kafka_reads(record: Json) -> GroupRecord:  # noqa: PLR0911 - one for each kind
    """Our object, made of what Kafka's classes read."""
    kind, key, value = kind_of(record), record["decoded"]["key"], record["decoded"]["value"]
    group = key.get("groupId", key.get("group"))
    if value is None and "memberId" in key:
        return MemberTombstone(group=group, order=ORDER, member_id=key["memberId"], kind=kind)
    if value is None:
        return GroupTombstone(group=group, order=ORDER, kind=kind)
    match kind:
        case KeyKind.GROUP_METADATA:
            return classic_group(group, value, record["decoded"]["value_version"])
        case KeyKind.CONSUMER_GROUP_METADATA:
            return ConsumerGroupEpoch(group=group, order=ORDER, epoch=value["epoch"])
        case KeyKind.CONSUMER_GROUP_PARTITION_METADATA:
            topics = tuple(
                SubscribedTopic(
                    topic_id=topic["topicId"],
                    name=topic["topicName"],
                    partition_count=topic["numPartitions"],
                )
                for topic in value["topics"]
            )
            return ConsumerGroupTopics(group=group, order=ORDER, topics=topics)
        case KeyKind.CONSUMER_GROUP_MEMBER_METADATA:
            return consumer_member(group, key["memberId"], value)
        case KeyKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA:
            return TargetEpoch(group=group, order=ORDER, epoch=value["assignmentEpoch"])
        case KeyKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER:
            return TargetAssignment(
                group=group,
                order=ORDER,
                member_id=key["memberId"],
                partitions=by_topic_id(value["topicPartitions"]),
            )
        case KeyKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
            return CurrentAssignment(
                group=group,
                order=ORDER,
                member_id=key["memberId"],
                epoch=value["memberEpoch"],
                previous_epoch=value["previousMemberEpoch"],
                state=value["state"],
                assigned=by_topic_id(value["assignedPartitions"]),
                revoking=by_topic_id(value["partitionsPendingRevocation"]),
            )
        case _:
            pytest.fail(f"no such group record: {kind}")


def classic_group(group: str, value: Json, version: int) -> ClassicGroup:
    consumer = value["protocolType"] == "consumer"
    return ClassicGroup(
        group=group,
        order=ORDER,
        protocol_type=value["protocolType"],
        generation=value["generation"],
        protocol=value["protocol"],
        leader=value["leader"],
        state_ms=value["currentStateTimestamp"] if version >= 2 else None,
        members=tuple(
            ClassicMember(
                member_id=member["memberId"],
                instance_id=member["groupInstanceId"] if version >= 3 else None,
                client_id=member["clientId"],
                client_host=member["clientHost"],
                rebalance_timeout_ms=member["rebalanceTimeout"] if version >= 1 else None,
                session_timeout_ms=member["sessionTimeout"],
                subscription=SUBSCRIPTIONS[member["subscription"]] if consumer else None,
                assignment=ASSIGNMENTS[member["assignment"]] if consumer else None,
            )
            for member in value["members"]
        ),
    )


def consumer_member(group: str, member_id: str, value: Json) -> ConsumerMember:
    return ConsumerMember(
        group=group,
        order=ORDER,
        member_id=member_id,
        instance_id=value["instanceId"],
        rack_id=value["rackId"],
        client_id=value["clientId"],
        client_host=value["clientHost"],
        subscribed_topics=tuple(value["subscribedTopicNames"]),
        subscribed_regex=value["subscribedTopicRegex"],
        rebalance_timeout_ms=value["rebalanceTimeoutMs"],
        assignor=value["serverAssignor"],
    )


def by_topic_id(topics: list[Json]) -> Partitions:
    return tuple((topic["topicId"], tuple(topic["partitions"])) for topic in topics)


# Kafka leaves these two opaque; what they say is read off by hand.
SUBSCRIPTIONS: dict[str, tuple[str, ...]] = {
    "AAMAAAABAAlicnctb3duZWQAAAAAAAAAAP////8AAA==": ("brw-owned",),
    "AAMAAAABAAZicnctdHgAAAAAAAAAAP////8AAA==": ("brw-tx",),
}
ASSIGNMENTS: dict[str, Partitions] = {
    "AAAAAAABAAlicnctb3duZWQAAAAEAAAAAAAAAAEAAAACAAAAAwAAAAA=": (("brw-owned", (0, 1, 2, 3)),),
    "AAAAAAABAAZicnctdHgAAAABAAAAAAAAAAA=": (("brw-tx", (0,)),),
    "": (),
}


def test_the_topics_read_off_by_hand_stand_in_the_bytes() -> None:
    for encoded, topics in SUBSCRIPTIONS.items():
        assert all(topic.encode() in base64.b64decode(encoded) for topic in topics)
