"""Where adapters meet: what a collector reports, and what a reader may ask.

A collector sends `Report`s over its pipe, in order. Columns are numpy arrays of equal length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo, GroupVerdict, WindowEntry
from lagwatch.core.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """Commits as read, in the order of their records.

    `key` holds ids that are dense per collector process: `new_*` announce the ids from
    `first_new_id` on, before their first use.
    """

    first_new_id: int
    new_groups: tuple[str, ...]
    new_topics: tuple[str, ...]
    new_partitions: tuple[int, ...]
    key: NDArray[np.int32]
    offset: NDArray[np.int64]
    """-1: the commit was removed (tombstone)."""
    commit_ms: NDArray[np.int64]
    order: NDArray[np.int64]
    """Offset of the record in its partition of the offsets topic; grows per group."""
    observed_ms: EpochMs
    positions: Mapping[int, int] = field(default_factory=dict)
    """Offsets topic partition → next offset to read; where a new collector resumes."""
    exact_times: bool = True
    """False in admin mode, where `commit_ms` is the time of the poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsGone:
    """Groups that Kafka deleted; commits newer than `order` stay."""

    groups: tuple[str, ...]
    orders: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """State and members of groups; `complete` when groups not named do not exist any more."""

    groups: tuple[GroupInfo, ...]
    complete: bool
    refused: tuple[str, ...] = ()
    """Groups that exist and whose DESCRIBE was refused."""
    rebalances: Mapping[str, int] = field(default_factory=dict)
    """Rebalances seen since the last report, per group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics:
    """All visible topics. Partition p of topic t is row `sum(partitions[:t]) + p` in `LogEnds`."""

    version: int
    """Grows with every change; `LogEnds.version` refers to it."""
    names: tuple[str, ...]
    """Sorted."""
    ids: tuple[str, ...]
    """Topic ids (base64url) as Kafka prints them; "" where the broker gives none."""
    partitions: NDArray[np.int32]
    """[topics]"""
    leader: NDArray[np.int32]
    """[all partitions]; -1 none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """One round of ListOffsets; rows as in the `Topics` of the same version, -1 unknown.

    `started_ms` is the instant before the first request was sent: every commit observed before it
    lies at or below these log ends.
    """

    version: int
    started_ms: EpochMs
    finished_ms: EpochMs
    log_start: NDArray[np.int64]
    log_end: NDArray[np.int64]
    last_stable: NDArray[np.int64]


class SourceKind(StrEnum):
    """What a collector reads."""

    OFFSETS_TOPIC = "offsets_topic"
    COMMITTED = "committed"
    GROUPS = "groups"
    TOPICS = "topics"
    LOG_ENDS = "log_ends"
    CONNECTION = "connection"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """How one source fares; sent on every change and at the end of every round."""

    source: SourceKind
    ok: bool
    at_ms: EpochMs
    error_kind: str = ""
    """As `SourceError.kind`."""
    message: str = ""
    """What went wrong and what to do; "" when ok."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How much of the offsets topic, as it stood at the start, has been read."""

    read: int
    total: int
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorFacts:
    """What a collector found out about itself and its rights."""

    commits_mode: str
    """offsets-topic | admin: what is in use now."""
    reason: str
    """Why, when `auto` fell back."""
    unseen: tuple[str, ...] = ()
    """What could not be seen and the ACL that would show it, one sentence each."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Records that are not ours, by kind of key; totals of this process."""
    malformed: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be decoded, by reason; totals of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorStarted:
    """A new collector process: the ids in `Commits.key` begin anew."""

    incarnation: int


Report = (
    CollectorStarted
    | Commits
    | GroupsGone
    | GroupsSeen
    | Topics
    | LogEnds
    | SourceHealth
    | Backlog
    | CollectorFacts
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHealth:
    """One cluster's line in `/readyz`."""

    cluster: str
    ready: bool
    age_s: float | None
    """Seconds since the last good round of log ends; None before the first."""
    backlog_read: int
    backlog_total: int
    commits_mode: str
    collector_restarts: int
    problems: tuple[str, ...]
    """What is wrong now, one sentence each, with its remedy."""
    unseen: tuple[str, ...]


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


class Queries(Protocol):
    """The read side: answers from the snapshots; never asks Kafka.

    Every method raises `NotFoundError` (kind `cluster`, `group`, `topic`) for what nobody knows.
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

    def verdict(self, cluster: str, group: str, *, show_all: bool) -> GroupVerdict:
        """The group's verdict; partitions worse than OK, or all of them.

        With `show_all` also partitions that were never committed.
        """
        ...

    def detail(self, cluster: str, group: str) -> GroupDetail: ...

    def info(self, cluster: str, group: str) -> GroupInfo | None: ...

    def snapshot(self, cluster: str) -> ClusterSnapshot: ...

    def health(self) -> tuple[ClusterHealth, ...]: ...


class Commands(Protocol):
    """What the HTTP layer may change: nothing in Kafka."""

    async def forget(self, cluster: str, group: str, topic: str | None) -> None:
        """Forget a group, or one topic of it, until its next commit; unknown names are ignored."""
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
