"""Sorting of columns."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

_DIGITS: Final = np.iinfo(np.uint16).max


def stable_order(keys: NDArray[np.integer]) -> NDArray[np.int64]:
    """Positions that sort whole numbers; equal numbers keep their order.

    As `argsort(kind="stable")`, ten times as fast for twenty thousand: numpy sorts values with
    vector instructions, but positions one by one. So each key carries its position in its low bits.
    Numbers of 16 bits are ten times as fast again: these numpy sorts digit by digit.

    Args:
        keys: at least 0; key and position must fit into 63 bits together.
    """
    if keys.size and keys.max() <= _DIGITS:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    bits = int(keys.size).bit_length()
    packed = keys.astype(np.int64) << bits
    packed |= np.arange(keys.size)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


def place_in(keys: NDArray[np.integer], wanted: NDArray[np.integer]) -> NDArray[np.intp]:
    """Where each of `wanted` is in sorted `keys`, if it is one of them; else some other place.

    0 where there are no keys.
    """
    return np.minimum(np.searchsorted(keys, wanted), max(keys.size - 1, 0))
