"""Bytes of `__consumer_offsets` ⇄ columns of commits; one decoder for the collector and for Spark.

`decode` turns a batch of records into a `Decoded`; a `CommitKeys` gives (group, topic, partition) a
dense id. `encode_*` go the other way.
"""

from lagwatch.core.wire.batch import Decoded, Quarantined, decode, topic_id_text
from lagwatch.core.wire.encode import (
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from lagwatch.core.wire.keys import DENIED, CommitKeys, KeyColumns
from lagwatch.core.wire.kinds import Fault, KeyKind
from lagwatch.core.wire.offsets import TOMBSTONE
from lagwatch.core.wire.records import (
    ClassicGroup,
    ClassicMember,
    ConsumerGroupEpoch,
    ConsumerGroupTopics,
    ConsumerMember,
    CurrentAssignment,
    GroupRecord,
    GroupTombstone,
    MemberTombstone,
    Partitions,
    SubscribedTopic,
    TargetAssignment,
    TargetEpoch,
)

__all__ = [
    "DENIED",
    "TOMBSTONE",
    "ClassicGroup",
    "ClassicMember",
    "CommitKeys",
    "ConsumerGroupEpoch",
    "ConsumerGroupTopics",
    "ConsumerMember",
    "CurrentAssignment",
    "Decoded",
    "Fault",
    "GroupRecord",
    "GroupTombstone",
    "KeyColumns",
    "KeyKind",
    "MemberTombstone",
    "Partitions",
    "Quarantined",
    "SubscribedTopic",
    "TargetAssignment",
    "TargetEpoch",
    "decode",
    "encode_group_key",
    "encode_group_value",
    "encode_offset_key",
    "encode_offset_value",
    "topic_id_text",
]
