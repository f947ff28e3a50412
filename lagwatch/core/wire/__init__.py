"""Bytes of `__consumer_offsets` → columns of commits; one decoder for the collector and for Spark.

`decode` turns a batch of records into a `Decoded`; a `CommitKeys` gives (group, topic, partition) a
dense id.
"""

from lagwatch.core.wire.batch import Decoded, Quarantined, decode, topic_id_text
from lagwatch.core.wire.faults import Fault
from lagwatch.core.wire.groups import GroupProtocol, GroupRecord
from lagwatch.core.wire.keys import DENIED, CommitKeys
from lagwatch.core.wire.offsets import TOMBSTONE

__all__ = [
    "DENIED",
    "TOMBSTONE",
    "CommitKeys",
    "Decoded",
    "Fault",
    "GroupProtocol",
    "GroupRecord",
    "Quarantined",
    "decode",
    "topic_id_text",
]
