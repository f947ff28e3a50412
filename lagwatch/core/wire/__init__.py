"""Bytes of Kafka's internal topics → values; one decoder for the collector and for Spark.

`decode` turns a batch of records of `__consumer_offsets` into a `Decoded`, columns of commits; a
`CommitKeys` gives (group, topic, partition) a dense id. `decode_share_state` reads
`__share_group_state`.
"""

from lagwatch.core.wire.batch import Decoded, Quarantined, decode, topic_id_text
from lagwatch.core.wire.faults import DecodeFault
from lagwatch.core.wire.groups import GroupProtocol, GroupRecord
from lagwatch.core.wire.keys import DENIED, CommitKeys
from lagwatch.core.wire.offsets import TOMBSTONE
from lagwatch.core.wire.share_state import (
    COMPLETED,
    DecodedShareState,
    DeliveryState,
    ShareStateRecord,
    StateBatch,
    decode_share_state,
)

__all__ = [
    "COMPLETED",
    "DENIED",
    "TOMBSTONE",
    "CommitKeys",
    "DecodeFault",
    "Decoded",
    "DecodedShareState",
    "DeliveryState",
    "GroupProtocol",
    "GroupRecord",
    "Quarantined",
    "ShareStateRecord",
    "StateBatch",
    "decode",
    "decode_share_state",
    "topic_id_text",
]
