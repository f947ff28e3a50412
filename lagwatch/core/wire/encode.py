"""Writes records of `__consumer_offsets` as Kafka's coordinator does: for tests and benchmarks.

Source: the same schema files as the decoders.
"""

from base64 import urlsafe_b64decode
from struct import pack

from lagwatch.core.wire.records import ClassicGroup, ClassicMember, Partitions

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
    if version >= 3:  # noqa: PLR2004
        parts.append(pack(">i", leader_epoch))
    parts += [_string(metadata, flexible=flexible), pack(">q", commit_ms)]
    if version == 1:
        parts.append(pack(">q", expire_ms))
    if flexible:
        parts.append(_NO_TAGS if topic_id is None else b"\x01\x00\x10" + _uuid(topic_id))
    return b"".join(parts)


def encode_group_key(group: str) -> bytes:
    """Key of a classic group's record."""
    return pack(">h", 2) + _string(group)


def encode_group_value(group: ClassicGroup, *, version: int = 3) -> bytes:
    """Value of a classic group's record, versions 0 to 4; fields a version lacks are left out.

    Members are written in the consumer protocol, version 0.
    """
    flexible = version >= _FLEXIBLE_FROM
    parts = [
        pack(">h", version),
        _string(group.protocol_type, flexible=flexible),
        pack(">i", group.generation),
        _string(group.protocol, flexible=flexible),
        _string(group.leader, flexible=flexible),
    ]
    if version >= 2:  # noqa: PLR2004
        parts.append(pack(">q", -1 if group.state_ms is None else group.state_ms))
    parts.append(_count(len(group.members), flexible=flexible))
    parts += [_member(member, version) for member in group.members]
    return b"".join([*parts, _NO_TAGS if flexible else b""])


def _member(member: ClassicMember, version: int) -> bytes:
    flexible = version >= _FLEXIBLE_FROM
    parts = [_string(member.member_id, flexible=flexible)]
    if version >= 3:  # noqa: PLR2004
        parts.append(_string(member.instance_id, flexible=flexible))
    parts += [_string(name, flexible=flexible) for name in (member.client_id, member.client_host)]
    if version >= 1:
        timeout_ms = member.rebalance_timeout_ms
        parts.append(pack(">i", -1 if timeout_ms is None else timeout_ms))
    parts.append(pack(">i", member.session_timeout_ms))
    for data in (_subscription(member.subscription), _assignment(member.assignment)):
        parts += [_count(len(data), flexible=flexible), data]
    return b"".join([*parts, _NO_TAGS if flexible else b""])


def _subscription(topics: tuple[str, ...] | None) -> bytes:
    if topics is None:
        return b""
    no_user_data = pack(">i", -1)
    return pack(">hi", 0, len(topics)) + b"".join(map(_string, topics)) + no_user_data


def _assignment(assignment: Partitions | None) -> bytes:
    if assignment is None:
        return b""
    parts = [pack(">hi", 0, len(assignment))]
    for topic, partitions in assignment:
        parts.append(_string(topic))
        parts.append(pack(f">i{len(partitions)}i", len(partitions), *partitions))
    no_user_data = pack(">i", -1)
    return b"".join([*parts, no_user_data])


def _string(value: str | None, *, flexible: bool = False) -> bytes:
    if value is None:
        return _uvarint(0) if flexible else pack(">h", -1)
    raw = value.encode()
    return (_uvarint(len(raw) + 1) if flexible else pack(">h", len(raw))) + raw


def _count(count: int, *, flexible: bool) -> bytes:
    return _uvarint(count + 1) if flexible else pack(">i", count)


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value % _MORE | _MORE)
        value //= _MORE
    encoded.append(value)
    return bytes(encoded)


def _uuid(printed: str) -> bytes:
    return urlsafe_b64decode(printed + "==")
