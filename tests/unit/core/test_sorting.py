"""Sorting of columns."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.sorting import stable_order


@given(st.lists(st.integers(0, 5) | st.integers(0, 2**41), max_size=300))
def test_equal_keys_stay_in_their_order(keys: list[int]) -> None:
    column = np.array(keys, np.int64)

    assert stable_order(column).tolist() == np.argsort(column, kind="stable").tolist()
