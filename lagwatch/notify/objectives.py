"""Objectives of a policy: limits of lag above which a group is bad whatever its verdict."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lagwatch.config.alerts import PolicySettings
from lagwatch.core.incident import Observation
from lagwatch.core.model import GroupStatus
from lagwatch.core.words import counted, duration

_JUDGED: Final = (GroupStatus.OK, GroupStatus.WARN)
"""Verdicts that an objective may make worse: of an unknown one nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """Limits; 0 is none. What is not known is above no limit."""

    max_time_lag_ms: int
    max_lag: int
    severity: GroupStatus

    def missed(self, seen: Observation) -> str:
        """What is above which limit, in words; "" when nothing is, or nothing is known."""
        if seen.status not in (*_JUDGED, GroupStatus.ERR):
            return ""
        if 0 < self.max_time_lag_ms < seen.time_lag_ms:
            behind, limit = (duration(ms / 1000) for ms in (seen.time_lag_ms, self.max_time_lag_ms))
            return f"{behind} behind in time, more than the {limit} allowed"
        if 0 < self.max_lag < seen.total_lag:
            return (
                f"{counted(seen.total_lag, 'message')} behind, more than {self.max_lag:,} allowed"
            )
        return ""

    def applied(self, seen: Observation) -> Observation:
        """What is seen, at least as bad as the objective makes it."""
        if seen.status not in _JUDGED or seen.status >= self.severity or not self.missed(seen):
            return seen
        return replace(seen, status=self.severity)


def objective(settings: PolicySettings) -> Objective | None:
    """That of a policy; None if it sets no limit, or decides as Burrow does."""
    if settings.burrow_compatible or not (settings.max_time_lag_s or settings.max_lag):
        return None
    return Objective(
        max_time_lag_ms=round(settings.max_time_lag_s * 1000),
        max_lag=settings.max_lag,
        severity=GroupStatus.ERR if settings.objective_severity == "error" else GroupStatus.WARN,
    )


def least(limits: Iterable[int]) -> int:
    """The lowest limit there is; 0 if there is none."""
    return min((one for one in limits if one > 0), default=0)
