"""When groups were known to hold no partitions: in that time they cannot have read."""

from dataclasses import dataclass
from typing import Final

from lagwatch.core.model import UNKNOWN, GroupInfo
from lagwatch.ports.reports import GroupsSeen

_TOLD_MS: Final = 5_000
"""A member that came is known after this time at most: its record is read, then Kafka asked."""
_REVOKED_MS: Final = 10_000
"""Members give their partitions back so long after a rebalance began, at most: it is said in the
answer to a heartbeat, one every three seconds."""
_EAGER: Final = frozenset({"range", "roundrobin", "sticky"})
"""Assignors with which all members give all partitions back before a rebalance."""
_REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance"})


@dataclass(slots=True, kw_only=True)
class Vacancy:
    """The last time in which a group held no partitions, on lagwatch's clock."""

    since_ms: int
    """When that was known first."""
    seen_ms: int
    """When it was last seen so."""
    rebalancing: bool = False
    """The group had members, which had given their partitions back."""
    recorded: bool
    """True if the offsets topic is read and has a record of each member that comes."""
    until_ms: int = UNKNOWN
    """Up to when it surely lasted; -1: it has not ended, as far as is known."""

    def lasted_until_ms(self, known_ms: int = UNKNOWN) -> int:
        """Up to when it surely lasted so far, if the offsets topic is read up to an instant."""
        if self.until_ms >= 0:
            return self.until_ms
        return max(self.seen_ms, known_ms - _TOLD_MS if self.recorded else UNKNOWN)


class Vacancies:
    """The last vacancy of each group. One owner writes.

    Only of groups that are described as empty or rebalancing: while Kafka is away, or a coordinator
    does not know a group yet, nothing is learned. In a rebalance members go on reading, unless the
    assignor of their last assignment has them give all partitions back first.
    """

    def __init__(self) -> None:
        self._of: dict[str, Vacancy] = {}
        self._eager: set[str] = set()
        """Groups with such an assignor."""

    def of(self, group: str) -> Vacancy | None:
        """The last vacancy of a group; None if it was not seen without members."""
        return self._of.get(group)

    def take(self, report: GroupsSeen, now_ms: int) -> None:
        """Take in which groups hold partitions now, and to which of them members came meanwhile."""
        recorded = report.rebalances is not None
        came = set(report.rebalances or ()).difference(report.emptied)
        for info in report.groups:
            self._note_assignor(info)
            known = self._of.get(info.group)
            rebalancing = info.state in _REBALANCING and info.group in self._eager
            vacant = info.empty or rebalancing
            if known is not None and known.until_ms < 0 and (not vacant or info.group in came):
                # records are read at once; without records only looks show a new member
                known.recorded &= recorded
                known.until_ms = known.lasted_until_ms(now_ms)
            if not vacant:
                continue
            if known is None or known.until_ms >= 0:
                self._of[info.group] = Vacancy(
                    since_ms=now_ms + (_REVOKED_MS if rebalancing else 0),
                    seen_ms=now_ms,
                    rebalancing=rebalancing,
                    recorded=recorded,
                )
            else:
                known.seen_ms, known.recorded = now_ms, recorded
        if report.complete:
            names = {info.group for info in report.groups}.union(report.refused)
            for gone in self._of.keys() - names:
                del self._of[gone]
            self._eager &= names

    def _note_assignor(self, info: GroupInfo) -> None:
        if info.state != "Stable":
            return  # Kafka names the assignor of stable groups only
        if info.type == "classic" and info.assignor in _EAGER:
            self._eager.add(info.group)
        else:
            self._eager.discard(info.group)
