"""Decodes the records of groups that lagwatch uses: generations, epochs and removals.

Members and assignments are not read here: they come from the Admin API.

Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/GroupMetadataValue.json and
ConsumerGroupMetadataValue.json; flexible versions: KIP-482.
"""

from dataclasses import dataclass
from enum import IntEnum, unique
from struct import Struct
from typing import Final

from lagwatch.core.wire.faults import Fault, MalformedError, text

_CONSUMER_PROTOCOL_TYPES: Final = ("consumer", "")
"""A group that only has commits and never had a member has no protocol type yet."""
_VERSION_BYTES: Final = 2
_HIGHEST_CLASSIC: Final = 4
_CLASSIC_IS_FLEXIBLE: Final = 4
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_VARINT_BYTES: Final = 5
_MORE: Final = 0x80


@unique
class GroupProtocol(IntEnum):
    """The protocol of a group; the value is the key version of the group's record."""

    CLASSIC = 2
    CONSUMER = 3
    """KIP-848."""


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
    """Generation, or epoch with KIP-848: a new one is a rebalance. None: the record is a removal,
    or the group's members are not consumers (Connect workers, schema registries)."""


def decode_group_record(key: bytes, value: bytes | None, order: int) -> GroupRecord:
    """Decode a record whose key version is in `GROUP_KEY_VERSIONS`.

    Raises:
        MalformedError: the key or the value is not what Kafka writes.
    """
    protocol = GroupProtocol(_INT16.unpack_from(key)[0])
    name = _Reader(key, underflow=Fault.KEY_UNDERFLOW, bad_length=Fault.KEY_BAD_LENGTH)
    return GroupRecord(
        group=name.string(),
        order=order,
        protocol=protocol,
        removed=value is None,
        generation=None if value is None else _generation(value, protocol),
    )


def _generation(value: bytes, protocol: GroupProtocol) -> int | None:
    if len(value) < _VERSION_BYTES:
        raise MalformedError(Fault.VALUE_TOO_SHORT)
    version = _INT16.unpack_from(value)[0]
    classic = protocol is GroupProtocol.CLASSIC
    if not 0 <= version <= (_HIGHEST_CLASSIC if classic else 0):
        raise MalformedError(Fault.UNSUPPORTED_VALUE_VERSION)
    reader = _Reader(value)
    if not classic:
        return reader.number(_INT32)
    protocol_type = reader.string(flexible=version >= _CLASSIC_IS_FLEXIBLE)
    generation = reader.number(_INT32)
    return generation if protocol_type in _CONSUMER_PROTOCOL_TYPES else None


class _Reader:
    """Reads the fields behind the version, one after the other.

    Source: https://kafka.apache.org/protocol.html#protocol_types

    Raises:
        MalformedError: from every method, when the bytes end too early or a length is impossible.
    """

    def __init__(
        self,
        data: bytes,
        *,
        underflow: Fault = Fault.VALUE_UNDERFLOW,
        bad_length: Fault = Fault.VALUE_BAD_LENGTH,
    ) -> None:
        self._data = data
        self._at = _VERSION_BYTES
        self._underflow = underflow
        self._bad_length = bad_length

    def number(self, layout: Struct) -> int:
        value: int = layout.unpack(self._raw(layout.size))[0]
        return value

    def string(self, *, flexible: bool = False) -> str:
        """Flexible strings have an unsigned varint of size + 1 in front, the others an int16."""
        size = self._uvarint() - 1 if flexible else self.number(_INT16)
        if size < 0:
            raise MalformedError(self._bad_length)
        return text(self._raw(size))

    def _uvarint(self) -> int:
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self._raw(1)[0]
            value |= (byte & ~_MORE) << (7 * index)
            if byte < _MORE:
                return value
        raise MalformedError(Fault.VALUE_BAD_VARINT)

    def _raw(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise MalformedError(self._underflow)
        return self._data[start : self._at]
