"""Does a day differ from the days before it by more than chance, and by enough to matter?

Hour is compared with hour: load has a daily shape. A change is reported when two things hold:

1. Over the hours of the day, the differences from the median of the same hour on the days before do
   not scatter around 0: Wilcoxon's signed-rank test, corrected for the number of comparisons.
2. The mean of the day is beyond the range of the days before, by a fifth. Neighbouring hours
   resemble each other, so the first condition alone would believe too easily; and a quiet Sunday is
   measured against the Sunday before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

import numpy as np
from numpy.typing import NDArray

MOST_PAIRS: Final = 50
"""Pairs that the exact test takes: 2**50 signs are counted in doubles without loss."""


def signed_rank_p(differences: Sequence[float]) -> float:
    """Two-sided p of Wilcoxon's signed-rank test: do differences of pairs scatter around 0?

    Exact: every choice of signs of the ranks at hand is counted; ties have their mean rank.
    Differences of 0 say nothing and are left out; with none left p is 1.

    Raises:
        ValueError: there are more than `MOST_PAIRS`.

    Source: Wilcoxon, "Individual comparisons by ranking methods" (1945).
    """
    values = np.array([difference for difference in differences if difference != 0], np.float64)
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
    return [float(value) for value in np.maximum(p, result)]


FALSE_SHARE: Final = 0.01
"""Share of false finds among the changes reported."""
LEAST_CHANGE: Final = 0.2
"""Share of the range's edge that a change must be beyond it."""
FEWEST_DAYS: Final = 3
FEWEST_HOURS: Final = 12
TEST: Final = (
    "A change is reported when the hours of the day differ from the median of the same hours on "
    "the days before (Wilcoxon's signed-rank test, exact, two-sided, p corrected after Benjamini "
    f"and Hochberg, at most {FALSE_SHARE:g}), and when the day's mean is at least "
    f"{LEAST_CHANGE:.0%} beyond the range of those days. It takes {FEWEST_DAYS} days before and "
    f"{FEWEST_HOURS} hours in common."
)
"""The method in words."""

Hours = Mapping[int, float]
"""Hour of the day → value; hours that are not known are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A day against the days before it."""

    now: float
    """Mean over the hours of the day."""
    before: float
    """Mean of the days before, each the mean over its hours."""
    lowest: float
    """Of the days before."""
    highest: float
    p: float
    """Probability of such differences by chance; not corrected."""
    hours: int
    """Pairs that were compared."""

    @property
    def matters(self) -> bool:
        """True if it is outside the range of all days before, by enough."""
        above = self.now > self.highest * (1 + LEAST_CHANGE)
        return above or self.now < self.lowest * (1 - LEAST_CHANGE)


def compare(day: Hours, before: Sequence[Hours]) -> Comparison | None:
    """A day against days before it; None when too little is known."""
    days = [hours for hours in before if hours]
    if len(days) < FEWEST_DAYS:
        return None
    differences = [
        value - median(same)
        for hour, value in day.items()
        if len(same := [hours[hour] for hours in days if hour in hours]) >= FEWEST_DAYS
    ]
    if len(differences) < FEWEST_HOURS:
        return None
    means = [fmean(hours.values()) for hours in days]
    return Comparison(
        now=fmean(day.values()),
        before=fmean(means),
        lowest=min(means),
        highest=max(means),
        p=signed_rank_p(differences),
        hours=len(differences),
    )


def significant(comparisons: Sequence[Comparison]) -> list[tuple[int, float]]:
    """Position and corrected p of the comparisons that are changes worth reporting."""
    corrected = adjusted([comparison.p for comparison in comparisons])
    return [
        (position, p)
        for position, (comparison, p) in enumerate(zip(comparisons, corrected, strict=True))
        if p <= FALSE_SHARE and comparison.matters
    ]
