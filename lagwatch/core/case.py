"""Facts about a group from which the cause of its verdict is found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

from lagwatch.core.forecast import CatchUpReason, GroupOutlook, Outlook
from lagwatch.core.model import (
    GroupInfo,
    GroupStatus,
    GroupVerdict,
    Member,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    UnknownReason,
)
from lagwatch.core.record import EventName

Place = tuple[str, int]
"""Topic and partition."""

_OF_KAFKA: Final = frozenset({"", "unknown", "classic", "consumer", "share", "streams"})
"""Kinds of groups that Kafka knows, and words for one that is not known."""
_MUCH_SLOWER: Final = 2
"""Over a window of commits what is read differs by less from what is written."""
_NEARLY: Final = 0.9
"""Whose lag grows although it reads this share of what is written may only be a little late."""
_AS_FAR_BEHIND: Final = 2
"""A partition with a rising lag, of this part of the worst one's or more, does not keep up."""
_EXPLAIN_LAG: Final = frozenset(
    {Rule.NOT_SUBSCRIBED, Rule.WAITS_FOR_TRANSACTION, Rule.CONTROL_RECORDS_ONLY}
)
"""Rules with status OK despite lag: their cause is shown as well."""


class Event(Protocol):
    """An event of a group's story; see `EventName`."""

    @property
    def at_ms(self) -> int: ...
    @property
    def event(self) -> str: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def after(self) -> str | None: ...
    @property
    def count(self) -> int | None: ...
    @property
    def detail(self) -> str | None: ...


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is known of a group and its partitions."""

    verdict: GroupVerdict
    """With all its partitions."""
    outlook: GroupOutlook
    info: GroupInfo | None = None
    events: Sequence[Event] = ()
    """Its events, oldest first."""
    leaderless: frozenset[Place] = frozenset()
    """Partitions without a leader."""
    produced_before_per_s: float | None = None
    """Rate produced to the partitions in trouble, before the trouble began; None when unknown."""
    produced_since_per_s: float | None = None
    after_outage: bool = False
    """Was Kafka away right before the trouble began, or the leader of a partition in trouble?

    Then that rate is since it went away.
    """
    read_committed: bool = False
    """Is it configured that the group reads with `read_committed`? Kafka does not say it."""
    went_back: Mapping[Place, int] = field(default_factory=dict)
    """Partitions that went back in the last ten minutes: the offset to return to."""
    offsets_held: tuple[int, int] | None = None
    """The partition of the offsets topic that has the group's commits, and since when, by Kafka's
    clock, an open transaction holds it back; None: none does."""
    skew_ms: int = 0
    """lagwatch's clock less Kafka's."""
    watched_ms: int | None = None
    """Since when lagwatch has known the cluster, by Kafka's clock, over its restarts; None: not
    known. It has seen since whether a topic is another one."""

    @cached_property
    def worst(self) -> PartitionVerdict | None:
        """The partition to explain; None if nothing is wrong."""
        unknown = self.verdict.status is GroupStatus.UNKNOWN
        found = self.troubled or [
            each
            for each in self.verdict.partitions
            if (each.rule in _EXPLAIN_LAG and each.current_lag)
            or self.place(each) in self.leaderless
            or each.unknown_reason is UnknownReason.NO_LEADER
            or (each.status is PartitionStatus.UNKNOWN and unknown)
        ]
        if not found and self.verdict.stale:
            found = list(self.verdict.partitions)
        return max(found, key=lambda each: (_severity(each), each.current_lag or 0), default=None)

    @cached_property
    def troubled(self) -> list[PartitionVerdict]:
        """Partitions that are worse than OK."""
        return [each for each in self.verdict.partitions if _severity(each) > PartitionStatus.OK]

    @cached_property
    def moving(self) -> list[PartitionVerdict]:
        """Partitions without trouble that the group reads from."""
        return [
            each
            for each in self.verdict.partitions
            if each.status is PartitionStatus.OK and (self._consumed(each) or 0.0) > 0
        ]

    @cached_property
    def keeping_up(self) -> list[PartitionVerdict]:
        """Those of them of which about as much is read as is written.

        Partitions that are judged a little later may be as slow as those in trouble.
        """
        return [
            each
            for each in self.moving
            if not self._much_slower(each) and not self._falls_behind_too(each)
        ]

    def _falls_behind_too(self, partition: PartitionVerdict) -> bool:
        """Is it about as far behind as the worst one, and does its lag rise in its window?"""
        start, end = partition.start, partition.end
        if start is None or end is None or end.lag is None:
            return False
        rises = start.lag is not None and end.lag > start.lag
        return rises and self._as_far_behind(end.lag)

    def _as_far_behind(self, lag: int) -> bool:
        return self.worst is not None and lag * _AS_FAR_BEHIND > (self.worst.current_lag or 0)

    def _much_slower(self, partition: PartitionVerdict) -> bool:
        """Is much less read of it than is written, or does its lag grow by more than chance?

        Where its rates are not known: is it about as far behind as the worst one?
        """
        found = self.outlook_of(partition)
        if found is None or found.produced_per_s is None or found.consumed_per_s is None:
            known = self.worst is not None and bool(self.worst.current_lag)
            return known and self._as_far_behind(partition.current_lag or 0)
        grows = found.catch_up_reason is CatchUpReason.FALLING_BEHIND and not found.steady
        much = found.consumed_per_s * _MUCH_SLOWER < found.produced_per_s
        return much or (grows and found.consumed_per_s < _NEARLY * found.produced_per_s)

    def committed_within(self, age_ms: int) -> list[PartitionVerdict]:
        """Partitions without trouble whose newest commit is at most so old."""
        return [
            each
            for each in self.verdict.partitions
            if each.status is PartitionStatus.OK
            and each.end is not None
            and self.verdict.at_ms - each.end.commit_ms <= age_ms
        ]

    @cached_property
    def committed_ms(self) -> int | None:
        """When the newest commit of all its partitions was made, on lagwatch's clock.

        Not later than lagwatch saw it, whatever the clocks say.
        """
        return max(
            (
                min(each.end.commit_ms + self.skew_ms, each.end.observed_ms + 1000)
                for each in self.verdict.partitions
                if each.end is not None
            ),
            default=None,
        )

    @cached_property
    def holders(self) -> dict[Place, Member]:
        """The member that holds each partition."""
        return {
            (topic, partition): member
            for member in (self.info.members if self.info else ())
            for topic, partitions in member.assignment
            for partition in partitions
        }

    @property
    def members_known(self) -> bool:
        """True if the group could be described."""
        return self.info is not None and self.info.state != "Unknown"

    @property
    def kept_elsewhere(self) -> bool:
        """Is the progress kept outside of Kafka, which then knows no members?"""
        return self.info is not None and self.info.type not in _OF_KAFKA

    @property
    def empty(self) -> bool:
        """True if the group is known to have no members."""
        info = self.info
        return info is not None and info.state in {"Empty", "Dead"} and not info.members

    @staticmethod
    def place(partition: PartitionVerdict) -> Place:
        return partition.topic, partition.partition

    def holder(self, partition: PartitionVerdict) -> Member | None:
        return self.holders.get(self.place(partition))

    def outlook_of(self, partition: PartitionVerdict) -> Outlook | None:
        return self.outlook.partitions.get(self.place(partition))

    def _consumed(self, partition: PartitionVerdict) -> float | None:
        found = self.outlook_of(partition)
        return None if found is None else found.consumed_per_s

    def last(self, *names: EventName, topic: str | None = None) -> Event | None:
        """The newest event of these names, and of a topic if one is given."""
        return next(
            (
                each
                for each in reversed(self.events)
                if each.event in names and topic in (None, each.topic)
            ),
            None,
        )

    def age_ms(self, event: Event) -> int:
        """Time since the event was noticed."""
        return max(0, self.verdict.at_ms - event.at_ms)


def _severity(partition: PartitionVerdict) -> int:
    return 0 if partition.status is PartitionStatus.UNKNOWN else int(partition.status)
