"""Writes records of `__consumer_offsets` as Kafka's coordinator does.

Source: the schema files that `lagwatch.core.wire` names.
"""

from base64 import urlsafe_b64decode
from struct import pack

_MORE = 0x80
_FLEXIBLE_FROM = 4
_NO_TAGS = b"\x00"


def encode_offset_key(group: str, topic: str, partition: int, *, version: int = 1) -> bytes:
    """Key of an offset commit: version 1, or 0 as before Kafka 0.9."""
    return pack(">h", version) + _string(group) + _string(topic) + pack(">i", partition)


def encode_offset_value(
    offset: int,
    commit_ms: int,
    *,
    metadata: str = "",
    version: int = 4,
    leader_epoch: int = -1,
    expire_ms: int = -1,
    topic_id: str | None = None,
) -> bytes:
    """Value of an offset commit, versions 0 to 4; fields a version does not have are left out."""
    flexible = version >= _FLEXIBLE_FROM
    parts = [pack(">hq", version, offset)]
    if version >= 3:
        parts.append(pack(">i", leader_epoch))
    parts += [_string(metadata, flexible=flexible), pack(">q", commit_ms)]
    if version == 1:
        parts.append(pack(">q", expire_ms))
    if flexible:
        topic = b"" if topic_id is None else urlsafe_b64decode(topic_id + "==")
        parts.append(b"\x01\x00\x10" + topic if topic else _NO_TAGS)
    return b"".join(parts)


def encode_group_key(group: str, *, version: int = 2) -> bytes:
    """Key of a group's record: version 2 for a classic group, 3 for one of KIP-848."""
    return pack(">h", version) + _string(group)


def encode_group_value(
    generation: int,
    *,
    protocol_type: str = "consumer",
    assignor: str | None = None,
    version: int = 3,
) -> bytes:
    """Value of a classic group's record, versions 0 to 4; its members are left out."""
    flexible = version >= _FLEXIBLE_FROM
    parts = [
        pack(">h", version),
        _string(protocol_type, flexible=flexible),
        pack(">i", generation),
        _string(assignor, flexible=flexible),
        _string(None, flexible=flexible),
    ]
    if version >= 2:
        parts.append(pack(">q", -1))
    no_members = b"\x01" + _NO_TAGS if flexible else pack(">i", 0)
    return b"".join([*parts, no_members])


def _string(value: str | None, *, flexible: bool = False) -> bytes:
    if value is None:
        return _uvarint(0) if flexible else pack(">h", -1)
    raw = value.encode()
    return (_uvarint(len(raw) + 1) if flexible else pack(">h", len(raw))) + raw


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value % _MORE | _MORE)
        value //= _MORE
    encoded.append(value)
    return bytes(encoded)


def encode_share_key(group: str, topic_id: str, partition: int, *, update: bool = False) -> bytes:
    """Key of a record of `__share_group_state`: a snapshot's, or an update's."""
    topic = urlsafe_b64decode(topic_id + "==")
    return pack(">h", update) + _string(group) + topic + pack(">i", partition)


def encode_share_value(start_offset: int, completed: int, *, update: bool = False) -> bytes:
    """Value of such a record, without batches, as Kafka 4.2 writes it."""
    epochs = pack(">ii", 0, 0) if update else pack(">iii", 0, 0, 0)
    written = b"" if update else pack(">qq", 0, 0)
    count = b"\x01\x00\x04" + pack(">i", completed)
    return pack(">h", 0) + epochs + pack(">q", start_offset) + written + b"\x01" + count
