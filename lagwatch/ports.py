"""Where adapters meet: what a collector reports, and what a reader may ask.

A collector sends `Report`s over its pipe, in order. Columns are numpy arrays of equal length.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from lagwatch.core.model import EpochMs, GroupInfo, GroupVerdict, WindowEntry
from lagwatch.core.record import Kind, Records, Text, Values, schema
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
    only_changes: bool = False
    """A row says something only where its offset differs from the newest one in the window.

    Admin mode: a new collector cannot know which of the offsets it meets are new.
    """


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


# history


EVER_MS: Final = 4_000_000_000_000
"""Behind every instant of the history, and small enough for the dates of any store."""

_NAMES: Final = frozenset({"cluster", "level", "group", "topic", "partition"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRange:
    """Rows of one kind: `from_ms` <= instant < `to_ms`, of the names that are given."""

    kind: Kind
    from_ms: int
    to_ms: int
    cluster: str | None = None
    group: str | None = None
    topic: str | None = None
    partition: int | None = None
    level: str | None = None
    """Of roll-ups: partition | topic | group."""
    columns: tuple[str, ...] = ()
    """Columns wanted; () all. The columns of the key always come along."""

    @property
    def chosen(self) -> tuple[str, ...]:
        """The columns to hand out, in the order of the schema."""
        asked = {*self.columns, *self.kind.key} if self.columns else set(schema(self.kind))
        return tuple(name for name in schema(self.kind) if name in asked)

    @property
    def names(self) -> Mapping[str, str | int]:
        """Columns of the key of which one value is wanted, with that value."""
        given = {name: getattr(self, name) for name in self.kind.key if name in _NAMES}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """One series in buckets; only buckets in which there are samples, in order; equal lengths."""

    bucket_ms: NDArray[np.int64]
    """First instant of each bucket: a multiple of the step."""
    samples: NDArray[np.int64]
    lag_max: NDArray[np.int64]
    """-1 when no sample of the bucket knows its lag."""
    lag_avg: NDArray[np.float64]
    """Over the samples whose lag is known; NaN when there are none."""
    time_lag_max_s: NDArray[np.float64]
    """NaN unknown."""
    status: Text
    """The worst of the bucket, by `record.BY_WORST`."""


class TopBy(StrEnum):
    """By what groups are ranked, greatest first; unknown comes last."""

    LAG = "lag"
    TIME_LAG = "time_lag"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKind:
    """What a store holds of one kind and cluster."""

    kind: Kind
    cluster: str
    rows: int
    """As stored; two instances or a backfill may have written a record twice."""
    size_bytes: int
    parts: int
    """Files or indices."""
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGap:
    """A time in which a cluster was not recorded: no round of any of its groups."""

    cluster: str
    from_ms: int
    """The last round before it."""
    to_ms: int
    """The first round after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a store was found to hold."""

    rows: Mapping[Kind, int]
    """Distinct records by kind."""
    duplicates: int
    """Records that are stored more than once. Readers see each once."""
    gaps: tuple[HistoryGap, ...]
    torn: tuple[str, ...]
    """Files that were published and cannot be read whole."""
    foreign: tuple[str, ...]
    """Files that are not ours, or of another schema version; with the reason."""
    leftovers: tuple[str, ...]
    """Unpublished files of a writer that died; harmless."""

    @property
    def sound(self) -> bool:
        """Nothing is wrong. Gaps are facts, not faults."""
        return not (self.duplicates or self.torn or self.foreign)


Progress = Callable[[int, int], None]
"""Called with (done, total); total may grow."""


class HistoryStore(Protocol):
    """Keeps history rows. Every method blocks and may raise `HistoryError`.

    One store object is used from several threads: writing from one, reading from many.
    """

    @property
    def rejected_rows(self) -> int:
        """Rows it will never take, set aside with their reason, since the process began."""
        ...

    def write(self, records: Sequence[Records], *, batch: str) -> None:
        """Make these rows durable before returning.

        Writing the same batch again, in part or whole, changes nothing. `batch` names it: letters,
        digits and `-`; the same name always comes with the same rows.
        """
        ...

    def read(self, wanted: HistoryRange) -> Iterator[Records]:
        """Chunks of rows, each record once, in the order of hours; inside an hour in any order.

        Of rows with the same key the one of the better source (`record.SOURCE_RANK`) comes, then
        the one that was written first. A chunk is never empty. A column that an older row lacks
        is unknown there.
        """
        ...

    def aggregate(self, wanted: HistoryRange, step_ms: int) -> Buckets:
        """Kind `group_samples` of one cluster and group in buckets; lag is the `total_lag`."""
        ...

    def top(
        self, at_ms: int, *, within_ms: int, by: TopBy, limit: int, cluster: str | None = None
    ) -> Records:
        """The first `limit` groups at an instant, as `group_samples`.

        Each group by its last row in `at_ms - within_ms < at_ms <= at_ms`. Ties go by cluster,
        then group.
        """
        ...

    def clusters(self) -> tuple[str, ...]:
        """Clusters of which there is anything, sorted."""
        ...

    def days(self, kind: Kind, cluster: str) -> tuple[str, ...]:
        """Days (UTC, `2026-11-21`) of which there is anything, sorted."""
        ...

    def stats(self) -> tuple[StoredKind, ...]:
        """What there is, sorted by cluster and kind."""
        ...

    def verify(self, progress: Progress | None = None) -> Verification:
        """Read everything and count."""
        ...

    def delete_before(self, kind: Kind, day: str) -> int:
        """Delete whole days before `day` (UTC) of all clusters; returns how many rows went."""
        ...

    def tidy(self, now_ms: int) -> None:
        """Whatever keeps reading fast, and may be nothing; called now and then by the writer."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAsk:
    """What is asked of one series."""

    from_ms: int
    to_ms: int
    step_ms: int | None = None
    """None: chosen to give a few hundred points; 0: the rows as recorded."""
    columns: tuple[str, ...] = ()
    """() means all."""
    limit: int = 1000
    """Points of one page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPage:
    """One page of an answer: columns of equal length, in the order of time."""

    columns: Mapping[str, Values]
    kind: Kind
    """Where it was read from; the coarsest kind that took part."""
    step_ms: int
    """Distance of the points; 0 for rows as recorded."""
    next_ms: int | None
    """Ask again from here for what follows; None at the end."""

    @property
    def size(self) -> int:
        """Number of points."""
        return int(next(iter(self.columns.values())).size) if self.columns else 0


class HistoryQueries(Protocol):
    """The read side of the history. May raise `HistoryError`; never blocks the event loop.

    A name nobody recorded gives an empty page, not an error: nothing was recorded.
    """

    async def group(self, cluster: str, group: str, ask: HistoryAsk) -> HistoryPage:
        """A group over time; a point on the grid without samples has unknown values."""
        ...

    async def partition(
        self, cluster: str, group: str, topic: str, partition: int, ask: HistoryAsk
    ) -> HistoryPage: ...

    async def events(self, cluster: str, group: str | None, ask: HistoryAsk) -> HistoryPage:
        """What happened, as recorded; `step_ms` is ignored."""
        ...

    async def top(
        self, at_ms: int, *, by: TopBy, limit: int, cluster: str | None = None
    ) -> HistoryPage:
        """The groups that were worst at an instant of the past."""
        ...

    def arrow(self, page: HistoryPage) -> bytes:
        """The page as an Arrow IPC stream."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderHealth:
    """How recording fares, for `/readyz`, metrics and the log."""

    enabled: bool
    problem: str
    """What is wrong now and what to do; ""."""
    rounds: int
    """Regular rounds recorded."""
    rows: int
    """Rows that reached the spool."""
    unchanged: int
    """Rows left out because nothing had changed."""
    dropped: Mapping[str, int]
    """Rows lost, by reason: behind, disk_full, io, spool_full, corrupt, rejected."""
    spool_bytes: int
    spool_segments: int
    oldest_ms: int | None
    """Instant of the oldest row not delivered yet."""
    delivered: int
    """Rows acknowledged by the store."""
    retries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A version of a group's consumers went live, and where the group stood then."""

    cluster: str
    group: str
    at_ms: int
    version: str
    note: str
    """What else there is to say; ""."""
    offsets: Mapping[str, Sequence[int | None]]
    """Topic → committed offset by partition; None where none is known."""


class Deployments(Protocol):
    """Takes note of deployments."""

    async def deployed(self, cluster: str, group: str, *, version: str, note: str) -> Deployment:
        """Remember that this version went live now; returns when that is safe on disk.

        Raises:
            NotFoundError: nobody knows the cluster or group.
            HistoryError: it could not be written down.
        """
        ...


class MessageState(StrEnum):
    """How far a notice has come."""

    WAITING = "waiting"
    """For others to go with it, or for the channel to be free."""
    QUEUED = "queued"
    """In a message that is tried until it is delivered or given up."""
    DELIVERED = "delivered"
    DEAD = "dead"
    """Given up: the receiver refused it, or did not take it in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What happened to an incident."""

    at_ms: int
    act: str
    """open, escalate, de_escalate, close, none."""
    tell: str
    """What was told: open, remind, escalate, de_escalate, close, nothing."""
    severity: str
    """warning or error."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRecord:
    """An incident, open or past."""

    id: str
    cluster: str
    group: str
    policy: str
    severity: str
    """warning or error: now, or at the end."""
    since_ms: int
    """When the group turned bad."""
    opened_ms: int
    closed_ms: int | None
    told_ms: int | None
    """When somebody was last told; None: nobody was."""
    verdict: Mapping[str, object]
    """At the last transition."""
    transitions: tuple[Transition, ...] = ()
    """Oldest first; only of an incident that is asked for by its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRecord:
    """A notice to one channel and how it fares."""

    key: str
    incident: str
    cluster: str
    group: str
    channel: str
    event: str
    severity: str
    at_ms: int
    state: MessageState
    message: str | None
    """Id of the message it goes in: the idempotency key; None as long as it waits."""
    attempts: int
    next_attempt_ms: int | None
    last_error: str
    """Why it is not, or was not, delivered; ""."""
    ended_ms: int | None
    """When it was delivered or given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mute:
    """A window in which nobody is told of a group."""

    id: str
    """`config:NAME` for those of the configuration."""
    cluster: str
    """Exact name, "" = all; of the configuration: a regular expression."""
    group: str
    reason: str
    author: str
    starts_ms: int | None
    """None: weekly."""
    ends_ms: int | None
    """When it ends, or the window that is open now does; None: weekly and not open."""
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRecord:
    """A policy in effect."""

    name: str
    settings: Mapping[str, object]
    """The options of `[alerts.policies.NAME]`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAsk:
    """Which incidents, newest first."""

    state: str = ""
    """open, closed; "" = both."""
    cluster: str = ""
    group: str = ""
    limit: int = 100
    cursor: str = ""
    """As answered with the page before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeAsk:
    """Which notices, newest first."""

    state: str = ""
    """A `MessageState`; "" = all."""
    channel: str = ""
    incident: str = ""
    limit: int = 100
    cursor: str = ""


class AlertsView(Protocol):
    """Incidents, notices, mutes and policies, for the HTTP layer.

    Raises `NotFoundError` for an id nobody knows and `InputError` for a cursor that is none.
    """

    def incidents(self, ask: IncidentAsk) -> tuple[Sequence[IncidentRecord], str]:
        """A page and the cursor of the next; "" after the last."""
        ...

    def incident(self, incident: str) -> IncidentRecord: ...

    def notices(self, ask: NoticeAsk) -> tuple[Sequence[NoticeRecord], str]: ...

    def retry(self, message: str) -> int:
        """Try a dead message again; returns how many notices are in it."""
        ...

    def mutes(self) -> Sequence[Mute]:
        """Those that are open or still to come."""
        ...

    def mute(
        self, *, cluster: str, group: str, reason: str, author: str, starts_ms: int, ends_ms: int
    ) -> Mute:
        """Mute a group (exact names; "" = all) from one instant to another."""
        ...

    def unmute(self, mute: str) -> None: ...

    def policies(self) -> Sequence[PolicyRecord]: ...

    def policy_of(self, cluster: str, group: str, topics: Sequence[str]) -> Mapping[str, str]:
        """Topic → name of its policy, "" for none; without topics, under the key ""."""
        ...


# metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposition:
    """An answer on `/metrics`."""

    content_type: str
    content_encoding: str
    """gzip, or "" for none."""
    size_bytes: int
    """Of all chunks."""
    chunks: Iterable[bytes]
    """To be read once."""


class Metrics(Protocol):
    """What Prometheus scrapes: one consistent moment; never asks Kafka."""

    async def scrape(self, *, accept: str, accept_encoding: str) -> Exposition:
        """The newest moment; the arguments are the headers of the same names, "" when absent."""
        ...
