"""Is a difference more than chance? Small exact tests without distributions' assumptions."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_PAIRS: Final = 50
"""Pairs that the exact test takes: 2**50 signs are counted in doubles without loss."""


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test: do differences of pairs lie around 0?

    Exact: every choice of signs of the ranks at hand is counted; ties have their mean rank.
    Differences of 0 say nothing and are left out; with none left p is 1.

    Raises:
        ValueError: there are more than `MOST_PAIRS`.

    Source: Wilcoxon, "Individual comparisons by ranking methods" (1945).
    """
    values = np.array([one for one in differences if one != 0], np.float64)
    if values.size == 0:
        return 1.0
    if values.size > MOST_PAIRS:
        raise ValueError(f"{values.size} pairs; the exact test takes {MOST_PAIRS}")
    ranks = doubled_ranks(np.abs(values))
    ways = _ways(ranks)
    positive = int(ranks[values > 0].sum())
    at_most, at_least = ways[: positive + 1].sum(), ways[positive:].sum()
    return float(min(1.0, 2 * min(at_most, at_least) / ways.sum()))


def doubled_ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Twice the rank of each value, from 2 on: whole even where ties share a mean rank."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    doubled: NDArray[np.int64] = (2 * last - count + 1)[place]
    return doubled


def _ways(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    """How many choices of signs give each sum of the positive ranks."""
    ways = np.zeros(int(ranks.sum()) + 1)
    ways[0] = 1
    for rank in ranks.tolist():
        ways[rank:] += ways[: ways.size - rank].copy()
    return ways


def adjusted(p_values: Sequence[float]) -> list[float]:
    """For many tests their p, so adjusted that of those below q at most a share of q is chance.

    Source: Benjamini and Hochberg, "Controlling the false discovery rate" (1995).
    """
    if not p_values:
        return []
    p = np.array(p_values, np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    scaled = p[order] * p.size / np.arange(p.size, 0, -1)
    result = np.empty_like(p)
    result[order] = np.minimum(1.0, np.minimum.accumulate(scaled))
    # p * n / n may be less than p by a rounding
    return [float(one) for one in np.maximum(p, result)]
