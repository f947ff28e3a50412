"""A cursor over one record: the primitives of Kafka's wire format.

Source: Kafka, https://kafka.apache.org/protocol.html#protocol_types; flexible versions and tagged
fields: KIP-482.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable
from struct import Struct
from typing import ClassVar, Final, TypeVar

from lagwatch.core.wire.kinds import Fault, MalformedError

T = TypeVar("T")

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_UUID_BYTES: Final = 16
_VARINT_BYTES: Final = 5
_MORE: Final = 0x80


def text(raw: bytes) -> str:
    """Decode UTF-8 as Java does: bytes that are not UTF-8 become U+FFFD, nothing is refused."""
    return raw.decode("utf-8", errors="replace")


class Reader:
    """Reads fields one after the other; big-endian integers.

    `flexible` records have compact strings, bytes and arrays (unsigned varint of size + 1, 0 is
    null) and tagged fields after each structure; the others have fixed-size lengths (-1 is null)
    and no tags.

    Raises:
        MalformedError: from every method, when the bytes end too early or a length is impossible.
    """

    underflow: ClassVar[Fault] = Fault.VALUE_UNDERFLOW
    bad_length: ClassVar[Fault] = Fault.VALUE_BAD_LENGTH

    __slots__ = ("_at", "_data", "_flexible")

    def __init__(self, data: bytes, *, at: int = 0, flexible: bool = False) -> None:
        self._data = data
        self._at = at
        self._flexible = flexible

    @property
    def remaining(self) -> int:
        return len(self._data) - self._at

    def raw(self, size: int) -> bytes:
        start = self._at
        if size > len(self._data) - start:
            raise MalformedError(self.underflow)
        self._at = start + size
        return self._data[start : self._at]

    def int8(self) -> int:
        return self._number(_INT8)

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def uvarint(self) -> int:
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.raw(1)[0]
            value |= (byte & ~_MORE) << (7 * index)
            if byte < _MORE:
                return value
        raise MalformedError(Fault.VALUE_BAD_VARINT)

    def uuid(self) -> str:
        """A topic id as Kafka prints it: base64url without padding."""
        return urlsafe_b64encode(self.raw(_UUID_BYTES)).rstrip(b"=").decode("ascii")

    def string(self) -> str:
        return self._present(self.nullable_string())

    def nullable_string(self) -> str | None:
        size = self._size(_INT16)
        return None if size is None else text(self.raw(size))

    def bytes(self) -> bytes:
        return self.raw(self._present(self._size(_INT32)))

    def array(self, item: Callable[[], T]) -> tuple[T, ...]:
        return tuple(item() for _ in range(self._count()))

    def int32s(self) -> tuple[int, ...]:
        count = self._count()
        return Struct(f">{count}i").unpack(self.raw(count * _INT32.size))

    def skip_tags(self) -> None:
        """Step over the tagged fields that end a structure of a flexible version, known or not."""
        if not self._flexible:
            return
        for _ in range(self.uvarint()):
            self.uvarint()
            self.raw(self.uvarint())

    def _number(self, layout: Struct) -> int:
        value: int = layout.unpack(self.raw(layout.size))[0]
        return value

    def _size(self, fixed: Struct) -> int | None:
        size = self.uvarint() - 1 if self._flexible else self._number(fixed)
        if size < -1:
            raise MalformedError(self.bad_length)
        return None if size < 0 else size

    def _count(self) -> int:
        count = self._present(self._size(_INT32))
        if count > self.remaining:  # every item has at least one byte
            raise MalformedError(self.underflow)
        return count

    def _present(self, value: T | None) -> T:
        if value is None:
            raise MalformedError(self.bad_length)
        return value


class KeyReader(Reader):
    """The same over a record's key; keys are never flexible."""

    underflow: ClassVar[Fault] = Fault.KEY_UNDERFLOW
    bad_length: ClassVar[Fault] = Fault.KEY_BAD_LENGTH

    __slots__ = ()
