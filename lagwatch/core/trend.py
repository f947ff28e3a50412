"""Does a day differ from the days before it by more than chance, and by enough to matter?

Hour is compared with hour: load has a daily shape. A change is told when two things hold:

1. Over the hours of the day, the differences from the median of the same hour on the days before do
   not lie around 0: Wilcoxon's signed-rank test, corrected for the number of comparisons.
2. The mean of the day lies beyond the range of the days before, by a fifth. Neighbouring hours
   resemble each other, so the first condition alone would believe too easily; and a quiet Sunday is
   measured against the Sunday before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from lagwatch.core.significance import adjusted, signed_rank_p

FALSE_SHARE: Final = 0.01
"""Share of false finds among the changes told."""
LEAST_CHANGE: Final = 0.2
"""Share of the range's edge that a change must lie beyond it."""
FEWEST_DAYS: Final = 3
FEWEST_HOURS: Final = 12
TEST: Final = (
    "A change is told when the hours of the day differ from the median of the same hours on the "
    "days before (Wilcoxon's signed-rank test, exact, two-sided, p corrected after Benjamini and "
    f"Hochberg, at most {FALSE_SHARE:g}), and when the day's mean lies at least "
    f"{LEAST_CHANGE:.0%} beyond the range of those days. It takes {FEWEST_DAYS} days before and "
    f"{FEWEST_HOURS} hours in common."
)
"""What is done, in words."""

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
    """That differences as large come by chance; not corrected."""
    hours: int
    """Pairs that were compared."""

    @property
    def matters(self) -> bool:
        """Is it beyond all that was, and by enough?"""
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
    """Position and corrected p of the comparisons that are changes worth telling."""
    corrected = adjusted([one.p for one in comparisons])
    return [
        (position, p)
        for position, (one, p) in enumerate(zip(comparisons, corrected, strict=True))
        if p <= FALSE_SHARE and one.matters
    ]
