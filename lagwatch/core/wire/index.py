"""Which number a key of bytes has: a hash table in two numpy columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

ABSENT: Final = -2
"""In place of a number: this key has none."""

_SMALLEST: Final = 1024


class KeyIndex:
    """Hash of a key → number; open addressing, 18 to 36 bytes a key whatever its length.

    Looks a batch up with a few gathers, where a dictionary would wait for memory at every key, and
    does not keep the keys. The hash is Python's own of `bytes`: SipHash, 64 bits, keyed anew in
    each process (unless PYTHONHASHSEED is set). Two of a million keys share a hash, and would be
    taken for one another, once in 37 million processes.
    """

    def __init__(self) -> None:
        self._hashes, self._numbers = _empty(_SMALLEST)
        self._used = 0
        self._fresh: dict[int, int] = {}
        # What `put` brought since the last `find`: numpy is slow at one at a time.

    def find(self, keys: Sequence[bytes | None]) -> NDArray[np.int32]:
        """Numbers of many keys, `ABSENT` for those not there."""
        self._settle()
        wanted = np.fromiter(map(hash, keys), np.int64, len(keys))
        # the size is a power of two, so the mask replaces a division; SipHash spreads the low bits
        # well
        slot = wanted & self._mask
        numbers: NDArray[np.int32] = self._numbers[slot]
        astray = np.flatnonzero((self._hashes[slot] != wanted) & (numbers != ABSENT))
        while astray.size:
            slot[astray] = (slot[astray] + 1) & self._mask
            here = slot[astray]
            numbers[astray] = self._numbers[here]
            astray = astray[(self._hashes[here] != wanted[astray]) & (numbers[astray] != ABSENT)]
        return numbers

    def fresh(self, key: bytes) -> int | None:
        """Number of a key `put` since the last `find`; None if it was not."""
        return self._fresh.get(hash(key))

    def get(self, key: bytes) -> int | None:
        """Number of one key."""
        wanted = hash(key)
        if wanted in self._fresh:
            return self._fresh[wanted]
        slot = wanted & self._mask
        while (number := self._numbers.item(slot)) != ABSENT:
            if self._hashes.item(slot) == wanted:
                return int(number)
            slot = (slot + 1) & self._mask
        return None

    def put(self, key: bytes, number: int) -> None:
        self._fresh[hash(key)] = number

    def remove(self, numbers: Sequence[int]) -> None:
        """Forget all keys of these numbers."""
        self._settle()
        kept = (self._numbers != ABSENT) & ~np.isin(self._numbers, np.asarray(numbers, np.int32))
        self._rebuild(self._hashes[kept], self._numbers[kept], room_for=0)

    @property
    def _mask(self) -> int:
        return len(self._hashes) - 1

    def _settle(self) -> None:
        fresh = len(self._fresh)
        if not fresh:
            return
        if 3 * (self._used + fresh) > 2 * len(self._hashes):
            there = self._numbers != ABSENT
            self._rebuild(self._hashes[there], self._numbers[there], room_for=fresh)
        hashes = np.fromiter(self._fresh.keys(), np.int64, fresh)
        self._insert(hashes, np.fromiter(self._fresh.values(), np.int32, fresh))
        self._fresh = {}

    def _rebuild(
        self, hashes: NDArray[np.int64], numbers: NDArray[np.int32], *, room_for: int
    ) -> None:
        size = _SMALLEST
        while 3 * (hashes.size + room_for) > 2 * size:
            size *= 2
        self._hashes, self._numbers = _empty(size)
        self._used = 0
        self._insert(hashes, numbers)

    def _insert(self, hashes: NDArray[np.int64], numbers: NDArray[np.int32]) -> None:
        """Put hashes in that differ from each other and from those there."""
        self._used += hashes.size
        slot = hashes & self._mask
        while hashes.size:
            free = self._numbers[slot] == ABSENT
            self._hashes[slot[free]] = hashes[free]  # several may want one slot: one gets it
            placed = free & (self._hashes[slot] == hashes)
            self._numbers[slot[placed]] = numbers[placed]
            hashes, numbers = hashes[~placed], numbers[~placed]
            slot = (slot[~placed] + 1) & self._mask


def _empty(size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    return np.zeros(size, np.int64), np.full(size, ABSENT, np.int32)
