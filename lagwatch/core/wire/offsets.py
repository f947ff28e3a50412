"""Decodes the values of offset commits, all of a batch at once.

The values are laid end to end; every field is then gathered for all records with one numpy call per
field, at positions that depend on each record's version and on the length of its metadata.

Source: Kafka 4.2, group-coordinator/src/main/resources/common/message/OffsetCommitValue.json.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.wire.faults import DecodeFault

TOMBSTONE: Final = -1
"""In the offset column: the commit was removed."""

FAULTS: Final = (
    DecodeFault.VALUE_TOO_SHORT,
    DecodeFault.UNSUPPORTED_VALUE_VERSION,
    DecodeFault.VALUE_BAD_VARINT,
    DecodeFault.VALUE_BAD_LENGTH,
    DecodeFault.VALUE_UNDERFLOW,
    DecodeFault.NEGATIVE_OFFSET,
    DecodeFault.NEGATIVE_COMMIT_TIME,
)
"""What the numbers in `OffsetValues.fault` mean; the first that holds is named."""

SOUND: Final = -1

_HIGHEST_VERSION: Final = 4
_HAS_LEADER_EPOCH: Final = 3
_OFFSET_AT: Final = 2
_LEADER_EPOCH_AT: Final = 10
_MORE: Final = 0x80
_UUID_BYTES: Final = 16
_TOPIC_ID_BYTES: Final = 3 + _UUID_BYTES
"""Number of tagged fields, tag, size, and the id."""
_VARINT_SHIFTS: Final = (7, 14, 21, 28)
_BAD_VARINT: Final = -(2**31)
"""In place of a length; no length of two bytes is as low."""
_PADDING: Final = bytes(8)
"""So that there is a byte to gather for a record that ends too early, and is refused for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValues:
    """Columns of equal length, one row per value."""

    offset: NDArray[np.int64]
    """`TOMBSTONE` where there was no value."""
    commit_ms: NDArray[np.int64]
    """0 for a tombstone."""
    topic_id: NDArray[np.int64] | None
    """[rows, 2]: halves of the id, 0 and 0 where a commit names none; None when none does."""
    fault: NDArray[np.int8]
    """Index into `FAULTS`, or `SOUND`; the other columns mean nothing where there is a fault."""


def decode_offset_values(values: Sequence[bytes | None]) -> OffsetValues:
    """Decode values of versions 0 to 4; None is a tombstone.

    Behind the commit time only the tagged field `topicId` of version 4 is looked at: neither the
    expiry of version 1 nor what later Kafkas may add.
    """
    try:
        return _decode_present(cast("Sequence[bytes]", values))
    except TypeError:  # there is a None: rare, and looking for one costs more than this
        return _decode_with_tombstones(values)


def _decode_with_tombstones(values: Sequence[bytes | None]) -> OffsetValues:
    decoded = _decode_present([b"" if value is None else value for value in values])
    removed = np.fromiter((value is None for value in values), np.bool_, len(values))
    decoded.offset[removed] = TOMBSTONE
    decoded.commit_ms[removed] = 0
    if decoded.topic_id is not None:
        decoded.topic_id[removed] = 0
    decoded.fault[removed] = SOUND
    return decoded


def _decode_present(values: Sequence[bytes]) -> OffsetValues:
    size = np.fromiter(map(len, values), np.int64, len(values))
    field = _Fields(b"".join([*values, _PADDING]))
    end = np.cumsum(size)
    start = end - size
    version = field.int16(start)
    offset = field.int64(start + _OFFSET_AT)
    length_at = start + np.where(version >= _HAS_LEADER_EPOCH, _LEADER_EPOCH_AT + 4, 10)
    length, length_bytes = field.lengths(length_at, flexible=version == _HIGHEST_VERSION)
    commit_at = length_at + length_bytes + np.maximum(length, 0)
    commit_ms = field.int64(commit_at)
    fault = _first_fault(
        size < _OFFSET_AT,
        (version < 0) | (version > _HIGHEST_VERSION),
        (length_at + length_bytes <= end) & (length == _BAD_VARINT),
        (length_at + length_bytes <= end) & (length < -1),
        commit_at + 8 > end,
        offset < 0,
        commit_ms < 0,
    )
    tags_at = commit_at + 8
    # without tagged fields a value ends with their number, 0: no byte need be looked at
    tagged = np.flatnonzero((end - tags_at >= _TOPIC_ID_BYTES) & (version == _HIGHEST_VERSION))
    topic_id = field.topic_ids(tags_at, tagged) if tagged.size else None
    return OffsetValues(offset=offset, commit_ms=commit_ms, topic_id=topic_id, fault=fault)


def _first_fault(*found: NDArray[np.bool_]) -> NDArray[np.int8]:
    fault = np.full(found[0].shape, SOUND, np.int8)
    for index in reversed(range(len(found))):
        fault[found[index]] = index
    return fault


class _Fields:
    """Big-endian fields of a blob at given positions; a position too far reads what is last."""

    def __init__(self, blob: bytes) -> None:
        self._bytes = np.frombuffer(blob, np.uint8)
        self._int16 = np.ndarray((len(blob) - 1,), ">i2", blob, strides=(1,))
        self._int64 = np.ndarray((len(blob) - 7,), ">i8", blob, strides=(1,))

    def int16(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._take(self._int16, at)

    def int64(self, at: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._take(self._int64, at)

    def topic_ids(
        self, tags_at: NDArray[np.int64], tagged: NDArray[np.int64]
    ) -> NDArray[np.int64] | None:
        """Halves of the topic ids of all rows; `tagged` rows have room for one. None: no ids.

        Tagged fields are in the order of their tags, so that tag 0, the id, can only come first:
        number of fields, tag, size, value.
        """
        at = tags_at[tagged]
        count, tag, size = (self._take(self._bytes, at + each) for each in range(3))
        # more than 127 fields: there are not so many
        named = (count > 0) & (count < _MORE) & (tag == 0) & (size == _UUID_BYTES)
        if not named.any():
            return None
        rows, at = tagged[named], at[named] + 3
        ids = np.zeros((tags_at.size, 2), np.int64)
        ids[rows, 0], ids[rows, 1] = self.int64(at), self.int64(at + 8)
        return ids

    def lengths(
        self, at: NDArray[np.int64], *, flexible: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Lengths of strings, -1 for null, and how many bytes say so."""
        length, length_bytes = self.int16(at), np.full(at.shape, 2, np.int64)
        rows = np.flatnonzero(flexible)
        value, length_bytes[rows] = self._uvarints(at[rows])
        length[rows] = value - 1
        return length, length_bytes

    def _uvarints(self, at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        byte = self._take(self._bytes, at)
        value, width = byte & ~_MORE, np.ones(at.shape, np.int64)
        unfinished = np.flatnonzero(byte >= _MORE)
        for shift in _VARINT_SHIFTS:
            byte = self._take(self._bytes, at[unfinished] + width[unfinished])
            value[unfinished] |= (byte & ~_MORE) << shift
            width[unfinished] += 1
            unfinished = unfinished[byte >= _MORE]
        value[unfinished] = _BAD_VARINT + 1
        return value, width

    @staticmethod
    def _take(view: NDArray[np.generic], at: NDArray[np.int64]) -> NDArray[np.int64]:
        return view[np.minimum(at, len(view) - 1)].astype(np.int64)
