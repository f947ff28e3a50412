"""Between which stored samples records came: the newest span first, no wrong answer."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.stored_search import Enclosed, StoredSearch

Samples = list[tuple[int, int]]
"""(when it was read, log end) of one partition."""


def _searched(offsets: list[int], *spans: Samples) -> Enclosed:
    """One partition; the newest span first."""
    search = StoredSearch(np.zeros(len(offsets), np.int64), np.array(offsets, np.int64))
    for span in spans:
        read_ms, log_end = np.array(span, np.int64).reshape(-1, 2).T
        search.take(np.zeros(read_ms.size, np.int64), log_end, read_ms)
        search.end_span()
    return search.found()


def _pair(found: Enclosed, number: int = 0) -> tuple[int, int]:
    return int(found.low_ms[number]), int(found.high_ms[number])


def test_a_record_came_between_the_last_sample_without_it_and_the_first_with_it() -> None:
    found = _searched([120, 40], [(300, 200), (100, 50), (200, 121), (150, 120)])

    assert _pair(found) == (150, 200)
    assert _pair(found, 1) == (-1, 100)


def test_an_older_span_completes_what_the_newer_one_began() -> None:
    found = _searched([40], [(300, 200), (200, 50)], [(100, 40), (50, 10)], [(20, 400)])

    assert _pair(found) == (100, 200)


def test_a_log_that_was_cut_short_gives_no_bound_of_the_record_that_is_gone() -> None:
    # offset 90 was there at 100, was cut off, and came again after 200
    assert _pair(_searched([90], [(100, 100), (200, 80)])) == (200, -1)
    assert _pair(_searched([90], [(300, 95), (250, 91)], [(100, 100), (200, 80)])) == (200, 250)


def test_the_share_is_where_the_record_is_expected_between_evenly_spread_ones() -> None:
    found = _searched([100, 104, 108, 500], [(0, 100), (90, 109)])

    assert found.share.tolist() == pytest.approx([0.1, 0.5, 0.9, 0.5])


@given(
    steps=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5)), min_size=2, max_size=30),
    offset=st.integers(0, 60),
    cuts=st.lists(st.integers(0, 30), max_size=3),
    order=st.randoms(use_true_random=False),
)
def test_of_a_log_that_grows_the_two_neighbouring_samples_are_found(
    steps: Samples, offset: int, cuts: list[int], order
) -> None:
    at_ms, log_end = (np.cumsum(column) for column in zip(*steps, strict=True))
    samples = list(zip(at_ms.tolist(), log_end.tolist(), strict=True))
    bounds = sorted({0, len(samples), *(min(cut, len(samples)) for cut in cuts)})
    spans = [samples[low:high] for low, high in pairwise(bounds)][::-1]
    for span in spans:
        order.shuffle(span)

    found = _searched([offset], *spans)

    without = [at for at, end in samples if end <= offset]
    with_it = [at for at, end in samples if end > offset]
    assert _pair(found) == (max(without, default=-1), min(with_it, default=-1))


def test_offsets_of_several_partitions_do_not_meet() -> None:
    search = StoredSearch(np.array([0, 0, 2]), np.array([5, 50, 5]))
    search.take(np.array([2, 0, 1, 0]), np.array([9, 10, 3, 4]), np.array([70, 20, 30, 10]))
    search.end_span()

    found = search.found()

    assert [_pair(found, number) for number in range(3)] == [(10, 20), (20, -1), (-1, 70)]
    assert search.open.tolist() == [False, False, True]
