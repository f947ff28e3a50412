"""Exact small tests: against counting every case."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagwatch.core.trend import MOST_PAIRS, adjusted, doubled_ranks, signed_rank_p

_DIFFERENCES = st.lists(st.integers(-8, 8).map(float), max_size=9)
_PS = st.lists(st.floats(0, 1), max_size=30)


def _counted_p(differences: list[float]) -> float:
    """The same by its definition: all choices of signs."""
    values = [difference for difference in differences if difference]
    if not values:
        return 1.0
    ranks = [
        sum(abs(other) < abs(value) for other in values)
        + (sum(abs(other) == abs(value) for other in values) + 1) / 2
        for value in values
    ]
    seen = sum(rank for rank, each in zip(ranks, values, strict=True) if each > 0)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((False, True), repeat=len(ranks))
    ]
    low = sum(total <= seen for total in sums) / len(sums)
    high = sum(total >= seen for total in sums) / len(sums)
    return min(1.0, 2 * min(low, high))


@given(_DIFFERENCES)
def test_p_is_what_counting_all_signs_gives(differences) -> None:
    assert signed_rank_p(differences) == pytest.approx(_counted_p(differences), abs=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), max_size=MOST_PAIRS))
def test_p_knows_no_direction_and_no_order(differences) -> None:
    p = signed_rank_p(differences)

    assert 0 < p <= 1
    assert signed_rank_p([-difference for difference in differences]) == pytest.approx(p, abs=1e-12)
    assert signed_rank_p(differences[::-1]) == pytest.approx(p, abs=1e-12)


def test_all_hours_of_a_day_moving_one_way_is_no_chance() -> None:
    assert signed_rank_p([1.0] * 24) == pytest.approx(2 / 2**24)
    assert signed_rank_p([1.0, -1.0] * 12) == pytest.approx(1.0)


def test_too_many_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="takes 50"):
        signed_rank_p([1.0] * (MOST_PAIRS + 1))


def test_ties_share_their_mean_rank() -> None:
    assert doubled_ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [5, 2, 5, 8]


def test_adjusting_is_what_benjamini_and_hochberg_say() -> None:
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert adjusted([]) == []


@given(_PS)
def test_adjusting_keeps_the_order_and_never_makes_smaller(p_values) -> None:
    result = adjusted(p_values)

    assert all(after >= before for before, after in zip(p_values, result, strict=True))
    assert all(entry <= 1 for entry in result)
    for (p, q), (other_p, other_q) in itertools.combinations(zip(p_values, result, strict=True), 2):
        assert p >= other_p or q <= other_q + 1e-12
