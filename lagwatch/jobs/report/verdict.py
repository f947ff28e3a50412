"""Did a deployment make things better? A cautious answer from the hours before and after."""

from collections.abc import Iterator
from typing import Final

from lagwatch.jobs.report.model import Side

ENOUGH_S: Final = 900.0
"""Recorded time that each side must have."""
CLEAR: Final = 1.5
"""Times more or less that is a difference."""
_SMALL: Final = {"not_ok_s": 60.0, "time_lag_max_s": 10.0, "lag_avg": 100.0}
"""Differences below this are none, however often the one goes into the other."""


def verdict(before: Side, after: Side) -> str:
    """`better`, `worse`, `same`, or `unknown` where too little is recorded.

    The first of time not OK, time lag and lag that clearly differs decides.
    """
    if min(before.seconds, after.seconds) < ENOUGH_S:
        return "unknown"
    found = list(_differences(before, after))
    if not found:
        return "unknown"
    return next((word for word in found if word != "same"), "same")


def _differences(before: Side, after: Side) -> Iterator[str]:
    for name, small in _SMALL.items():
        old, new = getattr(before, name), getattr(after, name)
        if old is None or new is None:
            continue
        if new > old * CLEAR and new - old >= small:
            yield "worse"
        elif old > new * CLEAR and old - new >= small:
            yield "better"
        else:
            yield "same"
