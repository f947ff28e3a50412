"""Columns of record times by row, against a dictionary."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.model import UNKNOWN
from lagwatch.monitor.append_times import AppendTimeColumns

ROWS = 12
OFFSETS = st.lists(st.integers(UNKNOWN, 5), min_size=1, max_size=6)


@given(
    st.lists(st.tuples(st.integers(0, ROWS - 6), OFFSETS), max_size=8),
    st.sets(st.integers(0, ROWS - 1)),
)
def test_the_newest_answer_of_each_row_is_kept(parts, cleared) -> None:
    columns = AppendTimeColumns()
    expected: dict[int, tuple[int, int, int, bool]] = {}
    for low_ms, (first, offsets) in enumerate(parts):
        size = len(offsets)
        columns.put(
            first,
            {
                "offset": np.array(offsets, np.int64),
                "low_ms": np.full(size, low_ms),
                "high_ms": np.full(size, low_ms + 1),
                "by_broker": np.full(size, low_ms % 2 == 0),
            },
        )
        expected |= {
            first + at: (offset, low_ms, low_ms + 1, low_ms % 2 == 0)
            for at, offset in enumerate(offsets)
            if offset != UNKNOWN
        }
    columns.clear(np.array(sorted(cleared), np.intp))

    found = columns.copied(np.arange(ROWS))

    assert {
        row: values
        for row, values in enumerate(zip(*(each.tolist() for each in found.values()), strict=True))
        if values[0] != UNKNOWN
    } == {row: values for row, values in expected.items() if row not in cleared}
