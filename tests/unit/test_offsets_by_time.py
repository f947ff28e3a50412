"""What the answers to ListOffsets by time mean, without a broker."""

import numpy as np
import pytest

from lagwatch.kafka.log_end_grid import between_bounds
from lagwatch.kafka.offsets_at import OffsetsAt, is_answer
from lagwatch.kafka.ranges import UNUSABLE, Start, start_of
from lagwatch.ports.kafka import Span

LOG = Span(start=100, end=1000)


def test_minus_one_is_an_answer_and_only_the_client_librarys_own_value_is_silence() -> None:
    assert [is_answer(offset) for offset in (0, 7, -1, -1001)] == [True, True, True, False]


def test_no_record_of_a_time_is_believed_only_where_the_newest_is_known_to_be_older() -> None:
    found = OffsetsAt(
        offset=np.array([-1, -1, -1, -1, 40]),
        timestamp=np.array([-1, -1, -1, -1, 5000]),
        gone=np.array([False, False, False, True, False]),
    )
    at = np.full(5, 5000)
    newest_ms = np.array([4999, 5000, -1, 6000, 6000])

    assert found.none_since(at, newest_ms).tolist() == [True, False, False, False, False]
    assert found.unusable(at, newest_ms).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("offset", "sparse_until", "expected"),
    [
        # one record before the time shows whether records just before it are missing
        (500, -1, Start(first=499, sparse_until=499)),
        (100, -1, Start(first=100, sparse_until=100)),
        # no record is so young: only the last one is read
        (-1, -1, Start(first=999, sparse_until=999)),
        # written after the span was asked for
        (1200, -1, Start(first=999, sparse_until=999)),
        # nothing may be skipped where the index is unusable
        (UNUSABLE, 700, Start(first=100, sparse_until=700)),
        (UNUSABLE, -1, Start(first=100, sparse_until=100)),
        (UNUSABLE, 1200, Start(first=100, sparse_until=1000)),
    ],
)
def test_reading_begins_at_the_log_start_where_the_index_is_unusable(
    offset: int, sparse_until: int, expected: Start
) -> None:
    assert start_of(LOG, offset=offset, sparse_until=sparse_until) == expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([5, -3, -3, 5], [5, 5, 5, 5]),
        ([5, -3, 7, 7], [5, -1, 7, 7]),
        ([-3, -3, 7, 7], [-1, -1, 7, 7]),
        ([5, 6, -3, -3], [5, 6, -1, -1]),
        # log ends begin at 0
        ([-3, 0, 0, 4], [0, 0, 0, 4]),
        ([-3, -3, -3, -3], [-1, -1, -1, -1]),
    ],
)
def test_a_log_end_without_an_answer_is_known_only_between_equal_ones(
    ends: list[int], expected: list[int]
) -> None:
    assert between_bounds(np.array([ends])).tolist() == [expected]
