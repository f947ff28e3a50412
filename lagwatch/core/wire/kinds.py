"""Closed sets of words: what a record of `__consumer_offsets` is, and what can be wrong with it."""

from collections.abc import Mapping
from enum import StrEnum, unique
from typing import Final


@unique
class KeyKind(StrEnum):
    """What a record is about; the two bytes every key starts with (its key version) tell.

    Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/*Key.json (`apiKey`).
    """

    OFFSET_COMMIT = "offset_commit"
    GROUP_METADATA = "group_metadata"
    CONSUMER_GROUP_METADATA = "consumer_group_metadata"
    CONSUMER_GROUP_PARTITION_METADATA = "consumer_group_partition_metadata"
    CONSUMER_GROUP_MEMBER_METADATA = "consumer_group_member_metadata"
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = "consumer_group_target_assignment_metadata"
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = "consumer_group_target_assignment_member"
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = "consumer_group_current_member_assignment"
    SHARE_GROUP_PARTITION_METADATA = "share_group_partition_metadata"
    """Only in early-access builds of Kafka."""
    SHARE_GROUP_MEMBER_METADATA = "share_group_member_metadata"
    SHARE_GROUP_METADATA = "share_group_metadata"
    SHARE_GROUP_TARGET_ASSIGNMENT_METADATA = "share_group_target_assignment_metadata"
    SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER = "share_group_target_assignment_member"
    SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT = "share_group_current_member_assignment"
    SHARE_GROUP_STATE_PARTITION_METADATA = "share_group_state_partition_metadata"
    CONSUMER_GROUP_REGULAR_EXPRESSION = "consumer_group_regular_expression"
    STREAMS_GROUP_METADATA = "streams_group_metadata"
    STREAMS_GROUP_PARTITION_METADATA = "streams_group_partition_metadata"
    """Only in early-access builds of Kafka."""
    STREAMS_GROUP_MEMBER_METADATA = "streams_group_member_metadata"
    STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA = "streams_group_target_assignment_metadata"
    STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER = "streams_group_target_assignment_member"
    STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT = "streams_group_current_member_assignment"
    STREAMS_GROUP_TOPOLOGY = "streams_group_topology"
    STREAMS_GROUP_TARGET_ASSIGNMENT_RESOLVED_TOPIC_IDS = (
        "streams_group_target_assignment_resolved_topic_ids"
    )
    """Newer than Kafka 4.2."""
    UNKNOWN = "unknown"
    """A kind of a Kafka newer than this table. Kafka itself steps over such records, too."""


HIGHEST_COMMIT_KEY: Final = 1
"""Key versions 0 (before Kafka 0.9) and 1 are commits and name the same things."""

_FROM_TWO_ON = [kind for kind in KeyKind if kind not in (KeyKind.OFFSET_COMMIT, KeyKind.UNKNOWN)]

KIND_BY_KEY_VERSION: Final[Mapping[int, KeyKind]] = {
    0: KeyKind.OFFSET_COMMIT,
    1: KeyKind.OFFSET_COMMIT,
    **dict(enumerate(_FROM_TWO_ON, start=2)),
}
"""The kinds are listed above in the order of their key versions, 2 to 24 without a gap."""


@unique
class Fault(StrEnum):
    """Why a record was refused; stable words for counters and logs."""

    KEY_MISSING = "key_missing"
    KEY_TOO_SHORT = "key_too_short"
    """Not even a version."""
    KEY_UNDERFLOW = "key_underflow"
    """It ends inside a field."""
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
    BAD_ASSIGNMENT_VERSION = "bad_assignment_version"
    NEGATIVE_OFFSET = "negative_offset"
    NEGATIVE_COMMIT_TIME = "negative_commit_time"


class MalformedError(Exception):
    """These bytes are not what Kafka writes. Never leaves `lagwatch.core.wire`: it is counted."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault
