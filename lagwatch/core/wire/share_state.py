"""Decodes `__share_group_state`: positions of share groups (KIP-932) in each partition.

A share group commits no offsets. The share coordinator writes a snapshot of each share-partition
now and then, and an update for each change between. Both hold the start offset, before which
everything is done, and the delivery states of the records behind it.

Source: Kafka 4.2, share-coordinator/src/main/resources/common/message/ShareSnapshotKey.json,
ShareSnapshotValue.json, ShareUpdateKey.json and ShareUpdateValue.json; delivery states:
org.apache.kafka.server.share.fetch.RecordState; completed records: KIP-1226.
"""

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from struct import Struct
from typing import Final

from lagwatch.core.model import UNKNOWN
from lagwatch.core.wire.faults import DecodeFault, MalformedError
from lagwatch.core.wire.reader import INT16, INT32, INT64, VERSION_BYTES, FieldReader

_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_UUID_BYTES: Final = 16
_BATCH: Final = Struct(">qqbh")
_COMPLETE_COUNT_TAG: Final = 0


@unique
class DeliveryState(IntEnum):
    """Delivery state of a record; records in flight (acquired) are stored as available."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4
    """Given up: rejected by a consumer, or delivered too often."""


COMPLETED: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """Offsets from `first` up to and including `last`, all in the same state."""

    first: int
    last: int
    state: int
    """A `DeliveryState`; other numbers are of a later Kafka."""
    deliveries: int
    """How often they were delivered."""

    @property
    def records(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareStateRecord:
    """A snapshot or an update of one share-partition, or its removal."""

    group: str
    topic_id: str
    """base64url, as Kafka prints it."""
    partition: int
    order: int
    """Offset of the record; all records of a share-partition are in one partition."""
    removed: bool
    snapshot: bool
    """True: it replaces the state; False: it changes it."""
    start_offset: int = UNKNOWN
    """All records before it are done; -1: nothing was delivered yet (or unchanged by an update)."""
    completed: int = UNKNOWN
    """Records done behind the start offset; -1: written by a Kafka before 4.2, which did not count.
    """
    batches: tuple[StateBatch, ...] = ()
    """Ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedShareState:
    """A decoded batch, in record order."""

    rows: tuple[int, ...]
    """Position of each record in the batch."""
    records: tuple[ShareStateRecord, ...]
    malformed: Mapping[DecodeFault, int]
    """Records refused."""


def decode_share_state(
    keys: Sequence[bytes | None], values: Sequence[bytes | None], orders: Sequence[int]
) -> DecodedShareState:
    """Decode records given as columns of equal length; it never raises, whatever the bytes.

    Records of kinds that a later Kafka may add are skipped.
    """
    rows, records, malformed = [], [], Counter[DecodeFault]()
    for row, (key, value, order) in enumerate(zip(keys, values, orders, strict=True)):
        try:
            record = _decode(key, value, int(order))
        except MalformedError as error:
            malformed[error.fault] += 1
            continue
        if record is not None:
            rows.append(row)
            records.append(record)
    return DecodedShareState(rows=tuple(rows), records=tuple(records), malformed=malformed)


def _decode(key: bytes | None, value: bytes | None, order: int) -> ShareStateRecord | None:
    if key is None:
        raise MalformedError(DecodeFault.KEY_MISSING)
    if len(key) < VERSION_BYTES:
        raise MalformedError(DecodeFault.KEY_TOO_SHORT)
    kind = INT16.unpack_from(key)[0]
    if kind not in (_SNAPSHOT, _UPDATE):
        return None
    name = FieldReader(
        key, underflow=DecodeFault.KEY_UNDERFLOW, bad_length=DecodeFault.KEY_BAD_LENGTH
    )
    group = name.string()
    topic_id = urlsafe_b64encode(name.raw(_UUID_BYTES)).rstrip(b"=").decode("ascii")
    partition = name.number(INT32)
    if partition < 0:
        raise MalformedError(DecodeFault.NEGATIVE_PARTITION)
    snapshot = kind == _SNAPSHOT
    start_offset, completed, batches = (
        (UNKNOWN, UNKNOWN, ()) if value is None else _state(value, snapshot=snapshot)
    )
    return ShareStateRecord(
        group=group,
        topic_id=topic_id,
        partition=partition,
        order=order,
        removed=value is None,
        snapshot=snapshot,
        start_offset=start_offset,
        completed=completed,
        batches=batches,
    )


def _state(value: bytes, *, snapshot: bool) -> tuple[int, int, tuple[StateBatch, ...]]:
    if len(value) < VERSION_BYTES:
        raise MalformedError(DecodeFault.VALUE_TOO_SHORT)
    if INT16.unpack_from(value)[0] != 0:
        raise MalformedError(DecodeFault.UNSUPPORTED_VALUE_VERSION)
    fields = FieldReader(value)
    # epochs: of the snapshot, of the state (only in snapshots), of the leader
    fields.raw((3 if snapshot else 2) * INT32.size)
    start_offset = fields.number(INT64)
    if snapshot:  # when the first and when this snapshot was written
        fields.raw(2 * INT64.size)
    batches = tuple(_batches(fields))
    completed = fields.tags().get(_COMPLETE_COUNT_TAG)
    if completed is not None and len(completed) != INT32.size:
        raise MalformedError(DecodeFault.VALUE_BAD_LENGTH)
    count = UNKNOWN if completed is None else int(INT32.unpack(completed)[0])
    return max(start_offset, UNKNOWN), count, batches


def _batches(fields: FieldReader) -> Iterator[StateBatch]:
    for _ in range(fields.uvarint() - 1):
        first, last, state, deliveries = _BATCH.unpack(fields.raw(_BATCH.size))
        fields.tags()
        if not 0 <= first <= last:
            raise MalformedError(DecodeFault.NEGATIVE_OFFSET)
        yield StateBatch(first=first, last=last, state=state, deliveries=deliveries)
