"""Records that Kafka 4.2 wrote or encoded, and what its own classes read in them.

`real_records.json` and `other_group_records.json` (of share and streams groups) come from a
broker's `__consumer_offsets`; `kafka_encoded_records.json` from Kafka's generated classes: every
version, metadata around each length of a varint, tagged fields.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from lagwatch.core.wire import TOMBSTONE, CommitKeys, GroupProtocol, GroupRecord, decode
from tests.support.wire import encode_group_key, encode_offset_key, encode_offset_value

Json = dict[str, Any]

ORDER = 41
_VECTORS = Path(__file__).parents[2] / "vectors"


def load(name: str) -> list[Json]:
    text = (_VECTORS / name).read_text(encoding="utf-8")
    records: list[Json] = json.loads(text)["records"]
    return records


REAL = load("real_records.json") + load("other_group_records.json")
ENCODED = load("kafka_encoded_records.json")


def kind_of(record: Json) -> str:
    kind: str = record["decoded"]["type"].lower()
    return kind


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


PROTOCOLS = {
    "group_metadata": GroupProtocol.CLASSIC,
    "consumer_group_metadata": GroupProtocol.CONSUMER,
    "share_group_metadata": GroupProtocol.SHARE,
    "streams_group_metadata": GroupProtocol.STREAMS,
}
COMMITS = [each for each in REAL + ENCODED if kind_of(each) == "offset_commit"]
GROUPS = [each for each in REAL + ENCODED if kind_of(each) in PROTOCOLS]
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
def test_records_of_other_kinds_are_skipped(record: Json) -> None:
    decoded = decode([key_of(record)], [value_of(record)], [ORDER], CommitKeys())

    assert (decoded.key.size, decoded.group_records, decoded.malformed) == (0, (), {})


def test_odd_bytes_in_an_assignment_do_not_lose_the_groups_record() -> None:
    assignment = b"\0\0\0\0\0\1\0\x09brw-owned\0\0\0\4"
    record = next(each for each in REAL if assignment in (value_of(each) or b""))
    value = value_of(record) or b""
    odd = value.replace(assignment, b"\xff" * len(assignment))

    decoded = decode([key_of(record)], [odd], [ORDER], CommitKeys())

    assert decoded.group_records == (as_kafka_reads(record),)
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
    assert whole.group_records == tuple(record for each in singly for record in each.group_records)


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


@pytest.mark.parametrize("record", GROUPS, ids=named)
def test_keys_of_groups_are_encoded_as_kafka_does(record: Json) -> None:
    version = PROTOCOLS[kind_of(record)]

    assert encode_group_key(as_kafka_reads(record).group, version=version) == key_of(record)


def with_members(record: Json) -> bool:
    """Whether the value names their assignor, which is always this one."""
    return b"range" in (value_of(record) or b"")


def as_kafka_reads(record: Json) -> GroupRecord:
    """Our object, made of what Kafka's classes read."""
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    generation = None
    if value is not None and value.get("protocolType", "") in ("consumer", ""):
        generation = value["epoch"] if "epoch" in value else value["generation"]
    return GroupRecord(
        group=key.get("groupId", key.get("group")),
        order=ORDER,
        protocol=PROTOCOLS[kind_of(record)],
        removed=value is None,
        generation=generation,
        emptied=generation is not None and "epoch" not in value and not with_members(record),
    )
