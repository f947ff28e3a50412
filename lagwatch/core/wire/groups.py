"""Decodes the records of groups that lagwatch uses: generations, epochs and removals.

Members and assignments are not read here: they come from the Admin API, so that odd bytes in one
of them cannot lose the record.

Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/GroupMetadataValue.json,
ConsumerGroupMetadataValue.json, ShareGroupMetadataValue.json and StreamsGroupMetadataValue.json:
the three latter begin with the epoch; flexible versions: KIP-482.
"""

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import Final

from lagwatch.core.wire.faults import DecodeFault, MalformedError
from lagwatch.core.wire.reader import INT16, INT32, VERSION_BYTES, FieldReader

_CONSUMER_PROTOCOL_TYPES: Final = ("consumer", "")
"""A group that only has commits and never had a member has no protocol type yet."""
_HIGHEST_CLASSIC: Final = 4
_CLASSIC_IS_FLEXIBLE: Final = 4


@unique
class GroupProtocol(IntEnum):
    """The protocol of a group; the value is the key version of the group's record."""

    CLASSIC = 2
    CONSUMER = 3
    """KIP-848."""
    SHARE = 11
    """KIP-932."""
    STREAMS = 17
    """KIP-1071."""


GROUP_KEY_VERSIONS: Final = frozenset(GroupProtocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A group was written or removed."""

    group: str
    order: int
    """Offset of the record. All records of a group are in one partition of `__consumer_offsets`,
    so within a group it says which came first."""
    protocol: GroupProtocol
    removed: bool
    """The group is gone or changes to the other protocol, whose record then follows."""
    generation: int | None
    """Generation, or epoch of a group that is not classic: a new one is a rebalance. None: the
    record is a removal, or the members are not consumers (Connect workers, schema registries)."""
    emptied: bool = False
    """The last member left; False where the record does not say it (only classic ones do)."""


def decode_group_record(key: bytes, value: bytes | None, order: int) -> GroupRecord:
    """Decode a record whose key version is in `GROUP_KEY_VERSIONS`.

    Raises:
        MalformedError: the key or the value is not what Kafka writes.
    """
    protocol = GroupProtocol(INT16.unpack_from(key)[0])
    name = FieldReader(
        key, underflow=DecodeFault.KEY_UNDERFLOW, bad_length=DecodeFault.KEY_BAD_LENGTH
    )
    group = name.string()
    generation, emptied = (None, False) if value is None else _generation(value, protocol)
    return GroupRecord(
        group=group,
        order=order,
        protocol=protocol,
        removed=value is None,
        generation=generation,
        emptied=emptied,
    )


def _generation(value: bytes, protocol: GroupProtocol) -> tuple[int | None, bool]:
    """The generation, and whether it is one without members."""
    if len(value) < VERSION_BYTES:
        raise MalformedError(DecodeFault.VALUE_TOO_SHORT)
    version = INT16.unpack_from(value)[0]
    classic = protocol is GroupProtocol.CLASSIC
    if not 0 <= version <= (_HIGHEST_CLASSIC if classic else 0):
        raise MalformedError(DecodeFault.UNSUPPORTED_VALUE_VERSION)
    reader = FieldReader(value)
    if not classic:
        return reader.number(INT32), False
    flexible = version >= _CLASSIC_IS_FLEXIBLE
    protocol_type = reader.string(flexible=flexible)
    generation = reader.number(INT32)
    if protocol_type not in _CONSUMER_PROTOCOL_TYPES:
        return None, False
    return generation, _has_no_assignor(reader, flexible=flexible)


def _has_no_assignor(reader: FieldReader, *, flexible: bool) -> bool:
    """True of a group without members: they choose it. What is broken behind is not looked at."""
    try:
        return reader.is_null(flexible=flexible)
    except MalformedError:
        return False
