"""Decodes a batch of records of `__consumer_offsets` into columns."""

from base64 import urlsafe_b64encode
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import pack

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.wire.faults import DecodeFault, MalformedError
from lagwatch.core.wire.groups import GROUP_KEY_VERSIONS, GroupRecord, decode_group_record
from lagwatch.core.wire.keys import UNSEEN, CommitKeys
from lagwatch.core.wire.offsets import FAULTS, SOUND, decode_offset_values

_VERSION_BYTES = 2
_HIGHEST_COMMIT_KEY = 1
"""Key versions 0 (before Kafka 0.9) and 1 are commits and name the same things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A record that was refused, and why."""

    row: int
    """Position in the batch."""
    order: int
    key: bytes | None
    value: bytes | None
    fault: DecodeFault


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded batch. The columns have one row per commit or tombstone kept, in record order.

    Records of other kinds (members, assignments, share and streams groups) are skipped, as are
    commits that the filter denies.
    """

    row: NDArray[np.int32]
    """Position in the batch."""
    key: NDArray[np.int32]
    """Id in the `CommitKeys`."""
    offset: NDArray[np.int64]
    """`TOMBSTONE` (-1): the commit was removed."""
    commit_ms: NDArray[np.int64]
    """0 for a tombstone."""
    order: NDArray[np.int64]
    """Offset of the record in its partition."""
    topic_id: NDArray[np.int64] | None
    """[rows, 2]: halves of the topic's id, 0 and 0 where a commit has none; None when no commit
    has one. `topic_id_text` prints one."""
    group_records: tuple[GroupRecord, ...]
    """In record order."""
    malformed: Mapping[DecodeFault, int]
    """Records refused."""
    quarantine: tuple[Quarantined, ...]
    """Of the records refused, those kept for a closer look, in record order."""


def decode(
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    orders: Sequence[int] | NDArray[np.int64],
    table: CommitKeys,
    *,
    quarantine_per_fault: int | None = 10,
) -> Decoded:
    """Decode records given as columns of equal length; it never raises, whatever the bytes.

    `orders` holds the records' own offsets. New keys are added to `table`. The quarantine keeps the
    first `quarantine_per_fault` records of each fault; None: all.
    """
    batch = _Batch(keys, values, np.fromiter(orders, np.int64, len(keys)), quarantine_per_fault)
    ids = table.find(keys)
    unseen = np.flatnonzero(ids == UNSEEN)
    ids[unseen] = [batch.decode_rare(row, table) for row in unseen.tolist()]
    return batch.finish(ids)


class _Batch:
    """A batch being decoded: what does not fit into columns is gathered here."""

    def __init__(
        self,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        orders: NDArray[np.int64],
        quarantine_per_fault: int | None,
    ) -> None:
        self._keys = keys
        self._values = values
        self._orders = orders
        self._quarantine_per_fault = quarantine_per_fault
        self._group_records: list[GroupRecord] = []
        self._malformed: Counter[DecodeFault] = Counter()
        self._quarantine: dict[DecodeFault, list[Quarantined]] = defaultdict(list)

    def decode_rare(self, row: int, table: CommitKeys) -> int:
        """Decode a record whose key is new, or not a commit's; return its id, if it has one."""
        try:
            key = _versioned(self._keys[row])
            version = key[0] << 8 | key[1]
            if version <= _HIGHEST_COMMIT_KEY:
                return table.intern(key)
            if version in GROUP_KEY_VERSIONS:
                order = int(self._orders[row])
                record = decode_group_record(key, self._values[row], order)
                self._group_records.append(record)
        except MalformedError as error:
            self._refuse(row, error.fault)
        return UNSEEN

    def finish(self, ids: NDArray[np.int32]) -> Decoded:
        """Decode the commits' values and put everything together."""
        rows = np.flatnonzero(ids >= 0)
        all_kept = rows.size == len(ids)
        values = self._values if all_kept else [self._values[row] for row in rows.tolist()]
        columns = decode_offset_values(values)
        sound = columns.fault == SOUND
        for index in np.flatnonzero(~sound).tolist():
            self._refuse(int(rows[index]), FAULTS[columns.fault[index]])
        rows = rows[sound]
        topic_id = columns.topic_id
        return Decoded(
            row=rows.astype(np.int32),
            key=ids[rows],
            offset=columns.offset[sound],
            commit_ms=columns.commit_ms[sound],
            order=self._orders[rows],
            topic_id=topic_id if topic_id is None else topic_id[sound],
            group_records=tuple(self._group_records),
            malformed=self._malformed,
            quarantine=self._sorted_quarantine(),
        )

    def _refuse(self, row: int, fault: DecodeFault) -> None:
        self._malformed[fault] += 1
        kept, limit = self._quarantine[fault], self._quarantine_per_fault
        if limit is None or len(kept) < limit:
            order, key, value = int(self._orders[row]), self._keys[row], self._values[row]
            kept.append(Quarantined(row=row, order=order, key=key, value=value, fault=fault))

    def _sorted_quarantine(self) -> tuple[Quarantined, ...]:
        kept = [record for records in self._quarantine.values() for record in records]
        return tuple(sorted(kept, key=lambda record: record.row))


def topic_id_text(high: int, low: int) -> str:
    """Print a topic id as Kafka does: base64url without padding."""
    return urlsafe_b64encode(pack(">qq", high, low)).rstrip(b"=").decode("ascii")


def _versioned(key: bytes | None) -> bytes:
    if key is None:
        raise MalformedError(DecodeFault.KEY_MISSING)
    if len(key) < _VERSION_BYTES:
        raise MalformedError(DecodeFault.KEY_TOO_SHORT)
    return key
