"""Questions about the live state, and the commands that change it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Protocol

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import GroupOutlook
from lagwatch.core.model import EpochMs, GroupInfo, GroupVerdict, WindowEntry
from lagwatch.core.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Messages of one group-partition that were deleted before the group read them."""

    group: str
    topic: str
    partition: int
    at_ms: EpochMs
    """When it was noticed."""
    first: int
    """Offset of the first one lost."""
    end: int
    """Offset after the last one."""
    exact: bool
    """False: an upper bound, because the group may have read some of them in time."""

    @property
    def messages(self) -> int:
        return self.end - self.first

    @property
    def detail(self) -> str:
        """As JSON, as the event of the loss has it."""
        detail = {"first": self.first, "end": self.end, "exact": self.exact}
        return json.dumps(detail, separators=(",", ":"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgedLoss:
    """What a group lost and is no longer shown."""

    partitions: int
    messages: int
    at_most: bool
    """It lost so many messages or fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """Something that happened to a group; columns as in the history's kind `events`."""

    at_ms: EpochMs
    """When it was noticed."""
    group: str
    event: str
    """An `EventName`."""
    topic: str | None = None
    partition: int | None = None
    before: str | None = None
    after: str | None = None
    rule: str | None = None
    lag: int | None = None
    count: int | None = None
    detail: str | None = None
    """JSON."""
    to_record: bool = True
    """False if the recorder of the history detects such events by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """One cluster's line in `/readyz`."""

    cluster: str
    ready: bool
    """True after the first complete round, while data are fresh."""
    age_s: float | None
    """Seconds since the last good round of log ends; None before the first."""
    backlog_read: int
    backlog_total: int
    commits_mode: str
    collector_restarts: int
    problems: tuple[str, ...]
    """What is wrong now, one sentence each, with its remedy."""
    unseen: tuple[str, ...]
    stale: bool = False
    """The data are older than `ClusterSettings.stale_after_s`."""
    data_age_s: float = 0.0
    """Age of the older of log ends and commits; before the first, seconds since the start."""
    reason: str = ""
    """Why the cluster is not ready; "" when it is."""
    unreachable: bool = False
    """True if it is not ready because no broker answers."""
    since_ms: int | None = None
    """Up to when there were data, also of the process before a restart, else since the start; None
    while the cluster is ready."""
    began_ms: int | None = None
    """When lagwatch began to look, while it has read nothing since; None otherwise.

    From `since_ms` to then it did not run, or not all the time: not all of the gap is an outage.
    """
    clock_skew_s: float | None = None
    """How far lagwatch's clock is ahead of Kafka's; None: not known."""
    offsets_retention_ms: int | None = None
    """The shortest `offsets.retention.minutes` of all brokers; None: not known."""
    offsets_retention_refused: bool = False
    """Brokers refuse to say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetail:
    """The windows of a group, for `/v3/kafka/:cluster/consumer/:group`."""

    topics: Mapping[str, Sequence["PartitionDetail"]]
    """Topic → partitions by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDetail:
    """One partition's window, oldest first, with None in front where it is not full."""

    window: tuple[WindowEntry | None, ...]
    """`()` for a partition never committed."""
    owner: str
    client_id: str
    current_lag: int | None


@unique
class Partitions(StrEnum):
    """Which partitions a verdict lists."""

    BAD = "bad"
    """Those that are worse than OK."""
    COMMITTED = "committed"
    """All that the group has committed to. Many groups may read one partition each of a topic with
    thousands: who asks for all groups leaves the others out."""
    ALL = "all"
    """Also those of its topics that it never committed to."""


class Queries(Protocol):
    """The read side: answers from the snapshots; never asks Kafka.

    Every method raises `NotFoundError` (kind `cluster`, `group`, `topic`) for what is not known.
    """

    def clusters(self) -> tuple[str, ...]:
        """Configured clusters, sorted."""
        ...

    def topics(self, cluster: str) -> tuple[str, ...]: ...

    def log_ends(self, cluster: str, topic: str) -> tuple[int | None, ...]:
        """Log end offset by partition."""
        ...

    def groups(self, cluster: str) -> tuple[str, ...]: ...

    def groups_of_topic(self, cluster: str, topic: str) -> tuple[str, ...]:
        """Groups that committed to the topic; empty for an unknown topic."""
        ...

    def verdict(self, cluster: str, group: str, partitions: Partitions) -> GroupVerdict:
        """The group's verdict, with these of its partitions."""
        ...

    def outlook(self, cluster: str, group: str) -> GroupOutlook:
        """How fast the group reads, when it will have caught up, and when it will lose messages."""
        ...

    def outlooks(self, cluster: str, groups: Iterable[str]) -> Mapping[str, GroupOutlook]:
        """The same of several groups, by group, much faster; without those that are not known."""
        ...

    def cause(self, verdict: GroupVerdict, outlook: GroupOutlook) -> Cause | None:
        """Cause of this verdict, which must cover all partitions; None when nothing is wrong.

        Both must come from the same snapshot.
        """
        ...

    def detail(self, cluster: str, group: str) -> GroupDetail: ...

    def info(self, cluster: str, group: str) -> GroupInfo | None:
        """Its members and state; None when these are not known, or the group is not."""
        ...

    def snapshot(self, cluster: str) -> ClusterSnapshot: ...

    def health(self) -> tuple[ClusterHealth, ...]: ...


class EventQueries(Protocol):
    """Recent events of groups, kept in memory."""

    def events(self, cluster: str, group: str) -> tuple[GroupEvent, ...]:
        """The newest events of a group, oldest first; empty for a group that is not known.

        Raises:
            NotFoundError: the cluster is not known.
        """
        ...


class Commands(Protocol):
    """Commands of the HTTP layer. None of them changes anything in Kafka."""

    async def forget(self, cluster: str, group: str, topic: str | None) -> None:
        """Forget a group, or one topic of it, until its next commit; unknown names are ignored."""
        ...

    async def acknowledge_losses(
        self, cluster: str, groups: Sequence[str]
    ) -> Mapping[str, AcknowledgedLoss]:
        """Stop showing the lost messages of groups; return those that showed any.

        Raises:
            NotFoundError: the cluster or a group is not known; nothing is acknowledged then.
        """
        ...

    def log_level(self) -> str: ...

    def set_log_level(self, level: str) -> None: ...


class BurrowSettings(Protocol):
    """The configuration in the words of Burrow's `/v3/config` answers."""

    def main(self) -> Mapping[str, object]:
        """Keys general, logging, zookeeper, httpserver."""
        ...

    def modules(self, coordinator: str) -> tuple[str, ...]:
        """Module names of storage, evaluator, cluster, consumer or notifier."""
        ...

    def module(self, coordinator: str, name: str) -> Mapping[str, object] | None: ...
