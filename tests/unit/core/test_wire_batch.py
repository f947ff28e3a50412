"""Laws of a decoded batch: record order, faults, and agreement with a decoder of one at a time."""

import json
from pathlib import Path
from struct import unpack_from

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lagwatch.core.wire import (
    TOMBSTONE,
    CommitKeys,
    DecodeFault,
    GroupProtocol,
    GroupRecord,
    decode,
    topic_id_text,
)
from tests.support.wire import (
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)

Row = tuple[tuple[str, str, int], int, int, int]

_VECTORS = Path(__file__).parents[2] / "vectors"
KAFKA_RECORDS: list[tuple[bytes, bytes]] = [
    (bytes.fromhex(record["key_hex"]), bytes.fromhex(record["value_hex"]))
    for file in ("real_records.json", "kafka_encoded_records.json")
    for record in json.loads((_VECTORS / file).read_text(encoding="utf-8"))["records"]
]

KEY = encode_offset_key("g", "t", 0)
VALUE = encode_offset_value(5, 6)

int32s = st.integers(min_value=0, max_value=2**31 - 1)
int64s = st.integers(min_value=0, max_value=2**63 - 1)
names = st.text(st.characters(codec="utf-8"), max_size=40)
metadata = st.one_of(
    st.just(""),
    st.text(st.characters(codec="utf-8"), max_size=200),
    st.builds("m".__mul__, st.integers(min_value=0, max_value=32_767)),
)
long_metadata = st.builds("m".__mul__, st.integers(min_value=0, max_value=40_000))


def rows(keys: list[bytes | None], values: list[bytes | None]) -> list[Row]:
    table = CommitKeys()
    decoded = decode(keys, values, range(len(keys)), table)
    columns = (decoded.key, decoded.offset, decoded.commit_ms, decoded.order)
    ids, *others = (column.tolist() for column in columns)
    return list(zip(map(table.__getitem__, ids), *others, strict=True))


def reference(key: bytes, value: bytes | None, order: int) -> Row:
    """Decode one sound commit, as Kafka's schema reads from top to bottom."""
    at, parts = 2, []
    for _ in range(2):
        (size,) = unpack_from(">h", key, at)
        parts.append(key[at + 2 : at + 2 + size].decode())
        at += 2 + size
    triple = (parts[0], parts[1], unpack_from(">i", key, at)[0])
    if value is None:
        return triple, -1, 0, order
    version, offset = unpack_from(">hq", value, 0)
    at = 14 if version >= 3 else 10
    if version < 4:
        (size,) = unpack_from(">h", value, at)
        at += 2
    else:
        size = shift = 0
        while value[at] & 128:
            size |= (value[at] & 127) << shift
            shift += 7
            at += 1
        size = (size | value[at] << shift) - 1
        at += 1
    return triple, offset, unpack_from(">q", value, at + size)[0], order


commit_values = st.builds(
    lambda version, offset, commit_ms, text: encode_offset_value(
        offset, commit_ms, version=version, metadata=text
    ),
    st.integers(min_value=0, max_value=4),
    int64s,
    int64s,
    metadata.filter(lambda text: len(text.encode()) < 2**15),
)
commits = st.tuples(
    st.builds(encode_offset_key, names, names, int32s), st.one_of(st.none(), commit_values)
)


@given(st.lists(commits, max_size=30))
def test_columns_say_what_reading_record_by_record_says(records: list[tuple[bytes, bytes]]) -> None:
    keys: list[bytes | None] = [key for key, _ in records]
    values: list[bytes | None] = [value for _, value in records]

    expected = [reference(key, value, order) for order, (key, value) in enumerate(records)]

    assert rows(keys, values) == expected


@given(
    triple=st.tuples(names, names, int32s),
    offset_and_time=st.tuples(int64s, int64s),
    text=long_metadata,
    key_version=st.sampled_from([0, 1]),
    topic_id=st.sampled_from([None, "m4DYeKQPTbucaw6r_k4FdA"]),
)
def test_encoding_and_decoding_a_commit_changes_nothing(
    triple: tuple[str, str, int],
    offset_and_time: tuple[int, int],
    text: str,
    key_version: int,
    topic_id: str | None,
) -> None:
    key = encode_offset_key(*triple, version=key_version)
    value = encode_offset_value(*offset_and_time, metadata=text, topic_id=topic_id)

    assert rows([key], [value]) == [(triple, *offset_and_time, 0)]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 128, 16_381, 16_382, 16_383, 40_000])
def test_metadata_of_any_length_leaves_the_commit_time_right(size: int) -> None:
    value = encode_offset_value(22, 1_795_235_715_112, metadata="m" * size)

    assert rows([KEY], [value]) == [(("g", "t", 0), 22, 1_795_235_715_112, 0)]


@pytest.mark.parametrize("version", range(5))
def test_null_metadata_is_as_good_as_none(version: int) -> None:
    empty = encode_offset_value(5, 6, version=version)
    at = 14 if version >= 3 else 10
    null = b"\0" if version == 4 else b"\xff\xff"

    value = empty[:at] + null + empty[at + len(null) :]

    assert rows([KEY], [value]) == [(("g", "t", 0), 5, 6, 0)]


@given(
    group=names,
    generation=int32s,
    version=st.integers(min_value=0, max_value=4),
    protocol_type=st.sampled_from(["consumer", ""]),
)
def test_the_generation_of_a_group_is_read_as_it_was_written(
    group: str, generation: int, version: int, protocol_type: str
) -> None:
    value = encode_group_value(generation, protocol_type=protocol_type, version=version)

    decoded = decode([encode_group_key(group)], [value], [7], CommitKeys())

    assert decoded.group_records == (
        GroupRecord(
            group=group,
            order=7,
            protocol=GroupProtocol.CLASSIC,
            removed=False,
            generation=generation,
            emptied=True,
        ),
    )


def test_tombstones_keep_their_place_between_commits() -> None:
    values: list[bytes | None] = [VALUE, None, VALUE, None]

    decoded = decode([KEY] * 4, values, [10, 11, 12, 13], CommitKeys())

    assert decoded.offset.tolist() == [5, TOMBSTONE, 5, TOMBSTONE]
    assert decoded.commit_ms.tolist() == [6, 0, 6, 0]
    assert decoded.order.tolist() == [10, 11, 12, 13]


def test_rows_say_where_in_the_batch_a_commit_stood() -> None:
    group = encode_group_key("g")

    decoded = decode([group, KEY, None, KEY], [None, VALUE, VALUE, None], range(4), CommitKeys())

    assert decoded.row.tolist() == [1, 3]
    assert decoded.order.tolist() == [1, 3]


def test_columns_have_their_types_even_when_nothing_is_read() -> None:
    decoded = decode([], [], [], CommitKeys())

    types = {name: getattr(decoded, name).dtype for name in ("row", "key", "offset", "order")}
    assert types == {"row": np.int32, "key": np.int32, "offset": np.int64, "order": np.int64}
    assert decoded.commit_ms.tolist() == []


FAULTY_KEYS: list[tuple[bytes | None, DecodeFault]] = [
    (None, DecodeFault.KEY_MISSING),
    (b"", DecodeFault.KEY_TOO_SHORT),
    (b"\0", DecodeFault.KEY_TOO_SHORT),
    (b"\0\1", DecodeFault.KEY_UNDERFLOW),
    (b"\0\1\0\1g", DecodeFault.KEY_UNDERFLOW),
    (KEY[:-1], DecodeFault.KEY_UNDERFLOW),
    (b"\0\1\xff\xff" + KEY[4:], DecodeFault.KEY_BAD_LENGTH),
    (b"\0\1\0\0\x80\0" + bytes(20), DecodeFault.KEY_BAD_LENGTH),
    (KEY[:-4] + b"\xff\xff\xff\xff", DecodeFault.NEGATIVE_PARTITION),
    (b"\0\2\xff\xff", DecodeFault.KEY_BAD_LENGTH),
    (b"\0\3\0\2g", DecodeFault.KEY_UNDERFLOW),
]
FAULTY_VALUES: list[tuple[bytes, DecodeFault]] = [
    (b"", DecodeFault.VALUE_TOO_SHORT),
    (b"\0", DecodeFault.VALUE_TOO_SHORT),
    (b"\0\5" + VALUE[2:], DecodeFault.UNSUPPORTED_VALUE_VERSION),
    (b"\xff\xff" + VALUE[2:], DecodeFault.UNSUPPORTED_VALUE_VERSION),
    (VALUE[:-2], DecodeFault.VALUE_UNDERFLOW),
    (VALUE[:14], DecodeFault.VALUE_UNDERFLOW),
    (VALUE[:14] + b"\xff" * 5 + bytes(9), DecodeFault.VALUE_BAD_VARINT),
    (VALUE[:14] + b"\xff" * 4 + b"\x7f" + bytes(9), DecodeFault.VALUE_UNDERFLOW),
    (VALUE[:14] + b"\xff", DecodeFault.VALUE_UNDERFLOW),
    (b"\0\1" + bytes(8) + b"\xff\xfe" + bytes(20), DecodeFault.VALUE_BAD_LENGTH),
    (encode_offset_value(-1, 6), DecodeFault.NEGATIVE_OFFSET),
    (encode_offset_value(5, -1), DecodeFault.NEGATIVE_COMMIT_TIME),
]
FAULTY = [(key, VALUE, fault) for key, fault in FAULTY_KEYS] + [
    (KEY, value, fault) for value, fault in FAULTY_VALUES
]


@pytest.mark.parametrize(("key", "value", "fault"), FAULTY)
def test_a_malformed_record_is_counted_by_its_fault_and_spoils_no_other(
    key: bytes | None, value: bytes, fault: DecodeFault
) -> None:
    decoded = decode([KEY, key, KEY], [VALUE, value, None], [7, 8, 9], CommitKeys())

    assert decoded.malformed == {fault: 1}
    assert decoded.order.tolist() == [7, 9]
    assert decoded.offset.tolist() == [5, TOMBSTONE]
    (kept,) = decoded.quarantine
    assert (kept.row, kept.order, kept.key, kept.value, kept.fault) == (1, 8, key, value, fault)


def test_versions_of_groups_newer_than_ours_are_refused() -> None:
    records = {
        encode_group_key("g"): b"\0\5",
        b"\0\3\0\1g": b"\0\1",
    }

    decoded = decode(list(records), list(records.values()), range(2), CommitKeys())

    assert decoded.malformed == {DecodeFault.UNSUPPORTED_VALUE_VERSION: 2}


def test_a_connect_worker_group_has_no_generation_of_consumers() -> None:
    connect = [value for key, value in KAFKA_RECORDS if key[:2] == b"\0\2" and b"connect" in value]

    decoded = decode([encode_group_key("g")] * 5, connect, range(5), CommitKeys())

    assert [record.generation for record in decoded.group_records] == [None] * 5


def test_records_of_other_kinds_are_skipped_without_noise() -> None:
    member, topology, later, unknown = (
        b"\0\5\0\1g\0\1m",
        b"\0\x17\0\1s",
        b"\0\x63\0\1g",
        b"\xff\xff",
    )

    decoded = decode(
        [member, topology, later, unknown], [b"", b"", b"", None], range(4), CommitKeys()
    )

    assert decoded.group_records == ()
    assert decoded.malformed == {}


@pytest.mark.parametrize(("limit", "kept"), [(2, [0, 1, 5]), (0, []), (None, [0, 1, 2, 3, 4, 5])])
def test_the_quarantine_is_bounded_for_each_fault_apart(limit: int | None, kept: list[int]) -> None:
    keys = [None, None, None, None, None, KEY]

    decoded = decode(keys, [b""] * 6, range(6), CommitKeys(), quarantine_per_fault=limit)

    assert [record.row for record in decoded.quarantine] == kept
    assert decoded.malformed == {DecodeFault.KEY_MISSING: 5, DecodeFault.VALUE_TOO_SHORT: 1}


def assert_every_record_is_accounted_for(
    keys: list[bytes | None], values: list[bytes | None]
) -> None:
    decoded = decode(keys, values, range(len(keys)), CommitKeys(), quarantine_per_fault=None)

    refused = [record.row for record in decoded.quarantine]
    left = set(range(len(keys))) - {*decoded.row.tolist(), *refused}
    left -= {record.order for record in decoded.group_records}
    skipped = {int.from_bytes((keys[row] or b"")[:2]) for row in left}
    assert not skipped & {0, 1, *GroupProtocol}
    assert len(refused) == sum(decoded.malformed.values())
    assert (decoded.offset >= TOMBSTONE).all()
    assert (decoded.commit_ms >= 0).all()


raw = st.one_of(st.none(), st.binary(max_size=120))
versioned = st.builds(
    lambda version, tail: version.to_bytes(2) + tail,
    st.integers(min_value=0, max_value=26),
    st.binary(max_size=120),
)


@given(st.lists(st.tuples(raw | versioned, raw | versioned), max_size=20))
def test_no_bytes_whatever_make_it_raise(records: list[tuple[bytes | None, bytes | None]]) -> None:
    keys = [key for key, _ in records]
    values = [value for _, value in records]

    assert_every_record_is_accounted_for(keys, values)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A record of Kafka, cut short or with some bytes overwritten."""
    parts = list(draw(st.sampled_from(KAFKA_RECORDS)))
    side = draw(st.integers(min_value=0, max_value=1))
    data = bytearray(parts[side])
    for _ in range(draw(st.integers(min_value=0, max_value=3))):
        if data:
            at = draw(st.integers(min_value=0, max_value=min(len(data), 200) - 1))
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    cut = draw(st.one_of(st.none(), st.integers(min_value=0, max_value=len(data))))
    parts[side] = bytes(data[:cut])
    return parts[0], parts[1]


@pytest.mark.slow
@settings(max_examples=300)
@given(st.lists(damaged(), max_size=10))
def test_damaged_records_of_kafka_never_make_it_raise(records: list[tuple[bytes, bytes]]) -> None:
    keys: list[bytes | None] = [key for key, _ in records]
    values: list[bytes | None] = [value for _, value in records]

    assert_every_record_is_accounted_for(keys, values)


@pytest.mark.parametrize("index", range(len(KAFKA_RECORDS)))
def test_a_record_cut_anywhere_is_refused_or_lacks_nothing_we_read(index: int) -> None:
    key, value = KAFKA_RECORDS[index]
    cuts = range(min(len(value), 400))
    whole = decode([key], [value], [0], CommitKeys())

    cut = decode([key] * len(cuts), [value[:size] for size in cuts], [0] * len(cuts), CommitKeys())

    assert set(cut.offset.tolist()) <= set(whole.offset.tolist())
    assert set(cut.commit_ms.tolist()) <= set(whole.commit_ms.tolist())
    generations = {record.generation for record in whole.group_records}
    assert {record.generation for record in cut.group_records} <= generations


IDS = ["m4DYeKQPTbucaw6r_k4FdA", "AAAAAAAAAAAAAAAAAAAAAQ", "_____________________w"]


def ids_of(values: list[bytes | None]) -> list[str | None] | None:
    decoded = decode([KEY] * len(values), values, range(len(values)), CommitKeys())
    if decoded.topic_id is None:
        return None
    return [topic_id_text(*pair) if any(pair) else None for pair in decoded.topic_id.tolist()]


def test_topic_ids_are_read_where_commits_name_them() -> None:
    values: list[bytes | None] = [
        encode_offset_value(1, 2, topic_id=IDS[0]),
        encode_offset_value(1, 2),
        None,
        encode_offset_value(1, 2, version=3),
        encode_offset_value(1, 2, metadata="m" * 200, topic_id=IDS[1]),
        encode_offset_value(1, 2, topic_id=IDS[2]),
    ]

    assert ids_of(values) == [IDS[0], None, None, None, IDS[1], IDS[2]]


def test_without_any_topic_id_there_is_no_column() -> None:
    assert ids_of([encode_offset_value(1, 2), encode_offset_value(1, 2, version=1), None]) is None


def test_a_tag_of_a_later_kafka_is_not_taken_for_a_topic_id() -> None:
    sixteen = bytes(range(16))
    plain = encode_offset_value(1, 2)[:-1]
    named = encode_offset_value(1, 2, topic_id=IDS[0])
    with_both = plain + b"\x02" + named[len(plain) + 1 :] + b"\x07\x10" + sixteen

    assert ids_of([plain + b"\x01\x07\x10" + sixteen]) is None
    assert ids_of([plain + b"\x01\x00\x11" + sixteen + b"?"]) is None
    assert ids_of([with_both]) == [IDS[0]]
    assert rows([KEY], [with_both]) == [(("g", "t", 0), 1, 2, 0)]


def test_the_topic_id_of_a_refused_record_is_dropped_with_it() -> None:
    sound = encode_offset_value(1, 2, topic_id=IDS[0])
    negative = encode_offset_value(-5, 2, topic_id=IDS[1])

    assert ids_of([negative, sound]) == [IDS[0]]
