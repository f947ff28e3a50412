"""Why a record of `__consumer_offsets` is refused, and how its texts are read."""

from enum import StrEnum, unique


@unique
class DecodeFault(StrEnum):
    """Why a record was refused; stable words for counters and logs."""

    KEY_MISSING = "key_missing"
    KEY_TOO_SHORT = "key_too_short"
    """Not even a version."""
    KEY_UNDERFLOW = "key_underflow"
    """The key ends inside a field."""
    KEY_BAD_LENGTH = "key_bad_length"
    """A length below zero, or null where a name must be."""
    NEGATIVE_PARTITION = "negative_partition"
    VALUE_TOO_SHORT = "value_too_short"
    VALUE_UNDERFLOW = "value_underflow"
    VALUE_BAD_LENGTH = "value_bad_length"
    VALUE_BAD_VARINT = "value_bad_varint"
    """More than five bytes."""
    UNSUPPORTED_VALUE_VERSION = "unsupported_value_version"
    """Kafka refuses those as well: a new version may have moved every field."""
    NEGATIVE_OFFSET = "negative_offset"
    NEGATIVE_COMMIT_TIME = "negative_commit_time"


class MalformedError(Exception):
    """These bytes are not what Kafka writes. Never leaves `lagwatch.core.wire`: it is counted."""

    def __init__(self, fault: DecodeFault) -> None:
        super().__init__(fault)
        self.fault = fault


def text(raw: bytes) -> str:
    """Decode UTF-8 as Java does: bytes that are not UTF-8 become U+FFFD, nothing is refused."""
    return raw.decode("utf-8", errors="replace")
