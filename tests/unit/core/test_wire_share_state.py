"""Records of `__share_group_state`: as Kafka's own classes read them, and whatever else comes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.model import UNKNOWN
from lagwatch.core.wire import DecodeFault, ShareStateRecord, StateBatch, decode_share_state

Json = dict[str, Any]

ORDER = 41
_VECTORS = Path(__file__).parents[2] / "vectors"
RECORDS: list[Json] = json.loads(
    (_VECTORS / "share_state_records.json").read_text(encoding="utf-8")
)["records"]


def key_of(record: Json) -> bytes:
    return bytes.fromhex(record["key_hex"])


def value_of(record: Json) -> bytes | None:
    return bytes.fromhex(record["value_hex"]) or None


def as_kafka_reads(record: Json) -> ShareStateRecord:
    """Our object, made of what Kafka's classes read."""
    key, value = record["decoded"]["key"], record["decoded"]["value"]
    fields = value or {}
    return ShareStateRecord(
        group=key["groupId"],
        topic_id=key["topicId"],
        partition=key["partition"],
        order=ORDER,
        removed=value is None,
        snapshot=record["decoded"]["key_version"] == 0,
        start_offset=fields.get("startOffset", UNKNOWN),
        completed=fields.get("deliveryCompleteCount", UNKNOWN),
        batches=tuple(
            StateBatch(
                first=each["firstOffset"],
                last=each["lastOffset"],
                state=each["deliveryState"],
                deliveries=each["deliveryCount"],
            )
            for each in fields.get("stateBatches", ())
        ),
    )


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: str(each["decoded"]["type"]).lower())
def test_a_record_of_kafka_is_read_field_by_field(record: Json) -> None:
    decoded = decode_share_state([key_of(record)], [value_of(record)], [ORDER])

    assert decoded.records == (as_kafka_reads(record),)
    assert (decoded.rows, decoded.malformed) == ((0,), {})


def test_the_vectors_hold_every_kind_of_record() -> None:
    kinds = {
        (each["decoded"]["type"], each["decoded"]["value"] is None, bool(value_of(each)))
        for each in RECORDS
    }
    counts = {as_kafka_reads(each).completed for each in RECORDS}

    assert {kind for kind, *_ in kinds} == {"SHARE_SNAPSHOT", "SHARE_UPDATE"}
    assert any(removed for _, removed, _ in kinds)
    assert {UNKNOWN, 191} <= counts, "without and with the count of KIP-1226"


def test_one_refused_record_does_not_take_others_with_it() -> None:
    good = RECORDS[2]
    keys = [key_of(good), None, b"\x00", b"\x00\x07later", key_of(good)[:-1], key_of(good)]
    values = [b"\x00\x01later", value_of(good), None, None, value_of(good), value_of(good)]

    decoded = decode_share_state(keys, values, range(6))

    assert decoded.rows == (5,)
    assert decoded.malformed == {
        DecodeFault.UNSUPPORTED_VALUE_VERSION: 1,
        DecodeFault.KEY_MISSING: 1,
        DecodeFault.KEY_TOO_SHORT: 1,
        DecodeFault.KEY_UNDERFLOW: 1,
    }


def test_tagged_fields_of_a_later_kafka_are_skipped() -> None:
    good = RECORDS[2]
    value = value_of(good) or b""
    assert value[-7:-4] == b"\x01\x00\x04", "one tag, the count"

    decoded = decode_share_state(
        [key_of(good)], [value[:-7] + b"\x02" + value[-6:] + b"\x05\x03new"], [ORDER]
    )

    assert decoded.records == (as_kafka_reads(good),)


@given(st.sampled_from(RECORDS), st.data())
def test_a_value_cut_off_anywhere_is_counted_and_never_raises(
    record: Json, data: st.DataObject
) -> None:
    value = value_of(record) or b"\x00\x00"
    cut = value[: data.draw(st.integers(0, len(value) - 1))]

    decoded = decode_share_state([key_of(record)], [cut], [ORDER])

    assert decoded.records == ()
    assert sum(decoded.malformed.values()) == 1


@given(st.binary(max_size=80), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(key: bytes, value: bytes) -> None:
    decoded = decode_share_state([b"\x00\x00" + key], [b"\x00\x00" + value], [ORDER])

    assert len(decoded.records) + sum(decoded.malformed.values()) == 1
