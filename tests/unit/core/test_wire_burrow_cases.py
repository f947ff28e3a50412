"""Burrow's own decoding tests, run through our decoder.

Where Burrow is wrong, `BURROW_IS_WRONG` has the right answer and why. Besides those, its vectors
contain no case for: version 4 metadata of 127 bytes and more, whose length Burrow reads as one byte
(see `test_wire_kafka_records`), and negative offsets, times and partitions, which it lets through.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lagwatch.core.wire import (
    TOMBSTONE,
    CommitKeys,
    Decoded,
    DecodeFault,
    GroupProtocol,
    GroupRecord,
    decode,
)
from lagwatch.core.wire.faults import MalformedError

Case = dict[str, Any]

_CASES = json.loads(
    (Path(__file__).parents[2] / "vectors" / "decode_cases.json").read_text(encoding="utf-8")
)
COMMIT_KEY = bytes.fromhex("000100097465737467726f7570000974657374746f7069630000000b")
GROUP_KEY = bytes.fromhex("000200097465737467726f7570")

BURROW_IS_WRONG: dict[tuple[str, str], tuple[object, str]] = {
    ("message 1", "000200000000000020b4000874657374646174610000000000000665"): (
        {
            "kind": "offset commit",
            "group": "testgroup",
            "topic": "testtopic",
            "partition": 11,
            "offset": 8372,
            "timestamp": 1637,
        },
        "value version 2 is what Kafka 2.0 writes: like version 1 without the expiry",
    ),
    ("message 1", ""): (
        {
            "kind": "offset commit",
            "group": "testgroup",
            "topic": "testtopic",
            "partition": 11,
            "offset": TOMBSTONE,
            "timestamp": 0,
        },
        "the commit expired or was deleted: Burrow shows that partition until it restarts",
    ),
    ("message 3", "000000000000000020b4000874657374646174610000000000000665"): (
        {"kind": "epoch", "group": "testgroup", "epoch": 0},
        "key version 3 is a KIP-848 group since Kafka 3.7; what follows its end is ignored",
    ),
}
"""("message" and the version of its key, bytes) → the right answer, and why."""

DROPPED: dict[tuple[str, str], DecodeFault] = {
    ("000100097465737467726f757000097465737474", "0000"): DecodeFault.KEY_UNDERFLOW,
    (COMMIT_KEY.hex(), "00"): DecodeFault.VALUE_TOO_SHORT,
    ("000200097465737467", "0001"): DecodeFault.KEY_UNDERFLOW,
    (GROUP_KEY.hex(), "00"): DecodeFault.VALUE_TOO_SHORT,
    (GROUP_KEY.hex(), "0001"): DecodeFault.VALUE_UNDERFLOW,
    ("00", "0000"): DecodeFault.KEY_TOO_SHORT,
}
"""Key and version of the value → why we refuse what Burrow drops as well."""


def commit(key: bytes, value: bytes) -> Case:
    table = CommitKeys()
    decoded = decode([key], [value], [0], table)
    for fault in decoded.malformed:
        raise MalformedError(fault)
    group_name, topic, partition = table[int(decoded.key[0])]
    return {
        "group": group_name,
        "topic": topic,
        "partition": partition,
        "offset": int(decoded.offset[0]),
        "timestamp": int(decoded.commit_ms[0]),
    }


def offset_key(data: bytes) -> Case:
    value = bytes.fromhex("0000000000000000000000000000000000000000")
    first, second = (commit(version + data, value) for version in (b"\0\0", b"\0\1"))
    assert first == second
    return first


def offset_value(*versions: int) -> Callable[[bytes], Case]:
    def value(data: bytes) -> Case:
        decoded = [commit(COMMIT_KEY, version.to_bytes(2) + data) for version in versions]
        assert all(each == decoded[0] for each in decoded)
        return decoded[0]

    return value


UNITS: dict[str, Callable[[bytes], Case]] = {
    "offset key (after version 0/1)": offset_key,
    "offset value 0 (after version; same for 1)": offset_value(0, 1),
    "offset value 3 (after version)": offset_value(3),
    "offset value 4 (after version)": offset_value(4),
}
"""Of Burrow's units those that we read: it also decodes members, which we ask of the Admin API."""
READ = [case for case in _CASES["units"] if case["unit"] in UNITS]


def named(case: Case) -> str:
    return f"{case['unit']}-{case.get('error_at', 'ok')}"


@pytest.mark.parametrize("case", [case for case in READ if case["ok"]], ids=named)
def test_what_burrow_reads_is_read(case: Case) -> None:
    expected = case["expect"]

    decoded = UNITS[case["unit"]](bytes.fromhex(case["hex"]))

    assert {name: decoded[name] for name in expected} == expected


@pytest.mark.parametrize("case", [case for case in READ if not case["ok"]], ids=named)
def test_what_burrow_refuses_is_refused(case: Case) -> None:
    read = UNITS[case["unit"]]

    with pytest.raises(MalformedError):
        read(bytes.fromhex(case["hex"]))


def decode_message(case: Case) -> tuple[Decoded, CommitKeys]:
    table = CommitKeys()
    key, value = bytes.fromhex(case["key_hex"]), bytes.fromhex(case["value_hex"]) or None
    return decode([key], [value], [5], table), table


def expected_of(case: Case) -> Case | None:
    version = int(case["key_hex"][:4], 16)
    answer, _why = BURROW_IS_WRONG.get(
        (f"message {version}", case["value_hex"]), (case["expect"], "")
    )
    assert answer is None or isinstance(answer, dict)
    return answer


def of_kind(*kinds: str) -> list[Case]:
    return [case for case in _CASES["messages"] if (expected_of(case) or {}).get("kind") in kinds]


@pytest.mark.parametrize("case", of_kind("offset commit"))
def test_messages_with_a_commit(case: Case) -> None:
    expected = expected_of(case)

    decoded, table = decode_message(case)

    assert expected is not None
    assert table[int(decoded.key[0])] == (
        expected["group"],
        expected["topic"],
        expected["partition"],
    )
    assert decoded.offset.tolist() == [expected["offset"]]
    assert decoded.commit_ms.tolist() == [expected["timestamp"]]
    assert decoded.malformed == {}


@pytest.mark.parametrize("case", of_kind("owner"))
def test_messages_with_an_owner(case: Case) -> None:
    expected = case["expect"]

    decoded, _ = decode_message(case)

    (record,) = decoded.group_records
    assert (record.group, record.order) == (expected["group"], 5)
    assert record.generation == 1


@pytest.mark.parametrize("case", of_kind("group deleted"))
def test_messages_that_delete_a_group(case: Case) -> None:
    decoded, _ = decode_message(case)

    (record,) = decoded.group_records
    assert (record.group, record.removed) == (case["expect"]["group"], True)


def test_a_message_of_a_newer_group_protocol() -> None:
    (case,) = of_kind("epoch")

    decoded, _ = decode_message(case)

    assert decoded.group_records == (
        GroupRecord(
            group="testgroup",
            order=5,
            protocol=GroupProtocol.CONSUMER,
            removed=False,
            generation=0,
        ),
    )


NOTHING = [case for case in _CASES["messages"] if expected_of(case) is None]
BEHIND_GENERATION = [
    case
    for case in NOTHING
    if case["key_hex"] == GROUP_KEY.hex() and len(case["value_hex"]) > len("0001000874657374")
]
"""Burrow drops these for what follows the generation, which we do not read."""


@pytest.mark.parametrize("case", [case for case in NOTHING if case not in BEHIND_GENERATION])
def test_messages_burrow_drops_are_refused_for_a_reason(case: Case) -> None:
    decoded, _ = decode_message(case)

    assert decoded.malformed == {DROPPED[case["key_hex"], case["value_hex"][:4]]: 1}
    assert decoded.key.size == 0
    assert decoded.group_records == ()


@pytest.mark.parametrize("case", BEHIND_GENERATION)
def test_groups_that_are_not_of_consumers_have_no_generation(case: Case) -> None:
    decoded, _ = decode_message(case)

    assert [record.generation for record in decoded.group_records] == [None]


def test_every_message_is_in_one_of_these_tests() -> None:
    seen = of_kind("offset commit", "owner", "group deleted", "epoch") + NOTHING

    assert len(seen) == len(_CASES["messages"])
