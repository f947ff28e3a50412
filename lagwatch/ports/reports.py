"""Reports that a collector sends through its pipe, in order.

Columns are numpy arrays of equal length; -1 is unknown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo, OpenTransaction, SharePartition


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
    """False for polled offsets, where `commit_ms` is the instant of the poll."""
    only_changes: bool = False
    """A row counts only where its offset differs from the newest one in the window.

    Set for polled offsets: a poll cannot see whether the same offset was committed again. Set for
    share groups: each collector reads their last snapshot anew.
    """
    after_ms: NDArray[np.int64] | None = None
    """Polled offsets: the poll before, -1 for the first; the commit came after it."""
    beside: bool = False
    """Read in another way than the cluster's other commits: states of share groups, and groups that
    are polled while an open transaction holds their partition of the offsets topic back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsKnown:
    """The instant up to which all commits are known, per partition of the offsets topic.

    A group's commits are all in partition `offsets_partition(group, until_ms.size)`. Sent once a
    round of log ends. One entry for all groups where offsets are polled.
    """

    until_ms: NDArray[np.int64]
    """All commits made before it were sent; -1 never. It stays where it is while a partition of
    the offsets topic has no leader, is not read to its end, or could not be polled."""
    polled: tuple[int, ...] = ()
    """Partitions held back by an open transaction: their groups are polled meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Positions of a job that keeps them outside Kafka."""

    group: str
    """The name that it is shown by."""
    kind: str
    """What keeps it: spark-checkpoint, flink, …"""
    topic: tuple[str, ...]
    partition: tuple[int, ...]
    offset: tuple[int, ...]
    """The next one to be read."""
    at_ms: EpochMs
    """When the job was at these positions, on lagwatch's clock; each instant counts once."""
    reads: tuple[str, ...] | None = None
    """All topics that it reads; None: these are some, and it may read others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressKnown:
    """Up to when the progress of jobs that is kept outside of Kafka was read, by job.

    Where it cannot be read the instant stays where it is: that silence is not the job's.
    """

    until_ms: Mapping[str, EpochMs]
    away_after_ms: int
    """Progress that was not read for longer than this was away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyTails:
    """Ranges of offsets in which a read_committed reader found no record; columns.

    What is there is control records and records of aborted transactions only.
    """

    topic: tuple[str, ...]
    partition: NDArray[np.int32]
    first: NDArray[np.int64]
    """Where the read began: a committed offset."""
    end: NDArray[np.int64]
    """Where it ended: the log end offset then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTimes:
    """When the records at committed offsets were appended, as brokers say; columns."""

    key: NDArray[np.int32]
    """As in `Commits`."""
    offset: NDArray[np.int64]
    """The key's committed offset when it was asked for."""
    low_ms: NDArray[np.int64]
    """Not appended before this."""
    high_ms: NDArray[np.int64]
    """Not appended after this; means nothing where times are producers' own."""
    by_broker: NDArray[np.bool_]
    """Did the broker give the records their times?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransactions:
    """All transactions that now hold a last stable offset back for more than a moment."""

    transactions: tuple[OpenTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsGone:
    """Groups that are not in Kafka any more, or `hidden`; commits newer than `order` stay."""

    groups: tuple[str, ...]
    orders: tuple[int, ...]
    hidden: frozenset[str] | None = None
    """All groups that were watched, and may not be described any more; None: as before."""
    answered: frozenset[str] = frozenset()
    """Groups of which all offsets have been named by now: those that were not are removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSeen:
    """State and members of groups; `complete` when groups not named do not exist any more."""

    groups: tuple[GroupInfo, ...]
    complete: bool
    refused: tuple[str, ...] = ()
    """Groups that exist and whose DESCRIBE was refused."""
    rebalances: Mapping[str, int] | None = field(default_factory=dict)
    """Rebalances seen since the last report, per group; 0: some before the start, not known how
    many. None: offsets are polled, which does not show them."""
    emptied: frozenset[str] = frozenset()
    """Those of `rebalances` to which no member came: the last one left."""

    @property
    def visited(self) -> frozenset[str]:
        """Groups to which members came since the last report, and which have none again."""
        counted = self.rebalances or {}
        came = {name for name, number in counted.items() if number} - self.emptied
        return frozenset(info.group for info in self.groups if info.group in came and info.empty)


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
    first_commit_ms: Mapping[str, EpochMs] = field(default_factory=dict)
    """Topic → earliest commit seen that names the topic's present id, where commits name it.

    A re-created topic: commits before it belong to the topic that was deleted.
    """
    replaced_after_ms: Mapping[str, EpochMs] = field(default_factory=dict)
    """Re-created topic → last instant at which the deleted one was seen under its name."""
    hidden: frozenset[str] = frozenset()
    """Topics that are not listed and may exist: the right to describe them is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """One round of ListOffsets; rows as in the `Topics` of the same version, -1 unknown.

    `started_ms` is the instant before the first request was sent: every commit observed before it
    is at or below these log ends.
    """

    version: int
    started_ms: EpochMs
    finished_ms: EpochMs
    log_start: NDArray[np.int64]
    log_end: NDArray[np.int64]
    last_stable: NDArray[np.int64]
    asked: NDArray[np.bool_] | None = None
    """Of which partitions the log end was asked for; None: of all.

    The others rested for long: they have the offsets of the round in which they were asked last.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SharesSeen:
    """Changed states of share groups; sent after the commits derived from them."""

    partitions: Mapping[tuple[str, str, int], SharePartition | None]
    """By (group, topic, partition); None: the group has no state there any more."""


class SourceKind(StrEnum):
    """What a collector reads."""

    OFFSETS_TOPIC = "offsets_topic"
    SHARE_STATE = "share_state"
    COMMITTED = "committed"
    GROUPS = "groups"
    TOPICS = "topics"
    LOG_ENDS = "log_ends"
    CONNECTION = "connection"
    PROGRESS = "progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceHealth:
    """Health of one source; sent on every change and at the end of every round."""

    source: SourceKind
    ok: bool
    at_ms: EpochMs
    error_kind: str = ""
    """As `SourceError.kind`."""
    message: str = ""
    """What went wrong and what to do; "" when ok."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Progress in reading what the offsets topic held at the start."""

    read: int
    total: int
    ready: bool
    topic_id: str = ""
    """Id of the offsets topic as Kafka prints it; "" where the broker gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorFacts:
    """Mode of a collector, and the rights it lacks."""

    commits_mode: str
    """offsets-topic | admin: what is in use now."""
    reason: str
    """Why, when `auto` fell back."""
    unseen: tuple[str, ...] = ()
    """What is invisible, and the ACL that would show it; one sentence each."""
    malformed: Mapping[str, int] = field(default_factory=dict)
    """Records that could not be decoded, by reason; totals of this process."""
    offsets_retention_ms: int | None = None
    """The shortest `offsets.retention.minutes` of all brokers; None: not known."""
    offsets_retention_refused: bool = False
    """Brokers refuse to say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorStarted:
    """A new collector process began: the ids in `Commits.key` start again at 0."""

    incarnation: int


Report = (
    CollectorStarted
    | Commits
    | CommitsKnown
    | Progress
    | ProgressKnown
    | EmptyTails
    | AppendTimes
    | OpenTransactions
    | GroupsGone
    | GroupsSeen
    | SharesSeen
    | Topics
    | LogEnds
    | SourceHealth
    | Backlog
    | CollectorFacts
)
