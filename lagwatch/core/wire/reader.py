"""Reads the fields of one record, one after the other.

Source: https://kafka.apache.org/protocol.html#protocol_types
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from lagwatch.core.wire.faults import DecodeFault, MalformedError, text

INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")
VERSION_BYTES: Final = 2
_VARINT_BYTES: Final = 5
_MORE: Final = 0x80


class FieldReader:
    """Reads the fields behind the version.

    Raises:
        MalformedError: from every method, when the bytes end too early or a length is impossible.
    """

    def __init__(
        self,
        data: bytes,
        *,
        underflow: DecodeFault = DecodeFault.VALUE_UNDERFLOW,
        bad_length: DecodeFault = DecodeFault.VALUE_BAD_LENGTH,
    ) -> None:
        self._data = data
        self._at = VERSION_BYTES
        self._underflow = underflow
        self._bad_length = bad_length

    def number(self, layout: Struct) -> int:
        value: int = layout.unpack(self.raw(layout.size))[0]
        return value

    def string(self, *, flexible: bool = False) -> str:
        """Flexible strings have an unsigned varint of size + 1 in front, the others an int16."""
        size = self.uvarint() - 1 if flexible else self.number(INT16)
        if size < 0:
            raise MalformedError(self._bad_length)
        return text(self.raw(size))

    def is_null(self, *, flexible: bool = False) -> bool:
        """Is the string that comes next null? What follows it cannot be read after this."""
        return not self.uvarint() if flexible else self.number(INT16) < 0

    def uvarint(self) -> int:
        """An unsigned varint: sizes and numbers of flexible versions."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.raw(1)[0]
            value |= (byte & ~_MORE) << (7 * index)
            if byte < _MORE:
                return value
        raise MalformedError(DecodeFault.VALUE_BAD_VARINT)

    def raw(self, size: int) -> bytes:
        """The next bytes as they are."""
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise MalformedError(self._underflow)
        return self._data[start : self._at]

    def tags(self) -> Mapping[int, bytes]:
        """Tagged fields at the end of a flexible struct, by tag."""
        found = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = self.raw(self.uvarint())
        return found
