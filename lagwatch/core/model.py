"""The shared words: statuses, rules, verdicts.

An offset is always the *next* one to be read, so `lag = log end offset - committed offset`, in
messages, never negative. `None` means unknown and is never written 0. In columns unknown is
`UNKNOWN` (-1): offsets, lags and instants are never negative.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum, unique
from typing import Final, NewType

EpochMs = NewType("EpochMs", int)
"""An instant: milliseconds since 1970-01-01T00:00:00Z."""

UNKNOWN: Final = -1
"""In integer columns: not known (yet)."""


def offsets_partition(group: str, partitions: int) -> int:
    """The partition of the offsets topic that holds a group's commits.

    Source: Kafka, GroupCoordinatorService.partitionFor: `Utils.abs(groupId.hashCode()) %
    numPartitions`, where Java's `String.hashCode` runs over UTF-16 code units.
    """
    number = 0
    encoded = group.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    # Utils.abs: the lowest int has no absolute value and becomes 0
    signed = number - (1 << 32) if number >> 31 else number
    return (0 if signed == -(1 << 31) else abs(signed)) % partitions


@unique
class PartitionStatus(IntEnum):
    """What the window of one group-partition says, worst last; the numbers are Burrow's.

    Source: Burrow, core/protocol/evaluator.go.
    """

    OK = 1
    WARN = 2
    ERR = 3
    """Messages were lost, or the offsets contradict each other; Burrow has it for groups only."""
    STOP = 4
    STALL = 5
    REWIND = 6
    UNKNOWN = 7
    """Cannot be judged (yet). Never makes a group worse."""


@unique
class GroupStatus(IntEnum):
    """A group is as bad as its worst partition; anything above WARN is ERR.

    Source: Burrow, core/protocol/evaluator.go.
    """

    NOTFOUND = 0
    OK = 1
    WARN = 2
    ERR = 3
    UNKNOWN = 7
    """None of the partitions that the group committed to could be judged."""


@unique
class Rule(IntEnum):
    """The rule that decided a verdict; `rules` has their order, statuses and meanings.

    The numbers only identify rules; they count up from 0 without a gap.
    """

    NEVER_COMMITTED = 0
    LOG_END_UNKNOWN = 1
    WINDOW_INCOMPLETE = 2
    LAG_WITHIN_ALLOWED = 3
    STOPPED = 4
    REWOUND = 5
    LAG_WAS_WITHIN_ALLOWED = 6
    STALLED = 7
    LAG_NOT_DECREASING = 8
    PROGRESSING = 9
    NEVER_COMMITS = 10
    NOT_SUBSCRIBED = 11
    MIRRORED = 12
    AHEAD_OF_LOG_END = 13
    RECORDS_LOST = 14
    CONTROL_RECORDS_ONLY = 15
    WAITS_FOR_TRANSACTION = 16
    HELD_BY_TRANSACTION = 17
    WARMING_UP = 18
    FALLING_BEHIND = 19
    PAUSED = 20
    SILENT_BEFORE_START = 21
    WAITS_ITS_TURN = 22

    @property
    def word(self) -> str:
        """The name shown to users: `lag_not_decreasing`."""
        return self.name.lower()


class RuleSet(StrEnum):
    """Which rules judge."""

    LAGWATCH = "lagwatch"
    """Burrow's, without its false alarms."""
    BURROW = "burrow"
    """Exactly Burrow's."""


@unique
class Membership(IntEnum):
    """Whether a member holds a group-partition."""

    UNKNOWN = 0
    """The group could not be described (yet)."""
    EMPTY = 1
    """The group has no members."""
    HELD = 2
    """A member holds the partition."""
    UNHELD = 3
    """The group has members, but none holds the partition."""
    REBALANCING = 4


class TimeLagMethod(StrEnum):
    """How a time lag was measured."""

    CAUGHT_UP = "caught_up"
    """Every message is read."""
    LOG_END_HISTORY = "log_end_history"
    """When the log end passed the committed offset, as this process saw it."""
    STORED_HISTORY = "stored_history"
    """When the log end passed the committed offset, as an earlier process saw it."""
    OFFSET_TIME = "offset_time"
    """The time at which the broker appended the record (`LogAppendTime`)."""
    RECORD_TIME = "record_time"
    """The time that producers gave the record and those before it (`CreateTime`)."""
    NONE = "none"


class TimeLagBound(StrEnum):
    """How a time lag relates to the true one; its error says by how much they may differ."""

    EXACT = "exact"
    """Within the error, to either side: at most 20 s, or an eighth of the value."""
    AT_LEAST = "at_least"
    """Not below it; above it by at most the error, if that is known."""
    AT_MOST = "at_most"
    """Not above it, if producers' clocks are not ahead; below it by at most the error."""
    UNKNOWN = "unknown"
    ESTIMATE = "estimate"
    """Within the error, to either side, which is more than that of an exact one."""


@unique
class TimeLagReason(IntEnum):
    """How a time lag is known, or why it is not."""

    MEASURED = 0
    CAUGHT_UP = 1
    """Nothing to read: the time lag is 0 s."""
    BEYOND_HISTORY = 2
    """The log end had passed the committed offset before the first sample; not extrapolated."""
    LOG_END_UNKNOWN = 3
    NEVER_COMMITTED = 4
    NOT_SAMPLED = 5
    """The log end passed the committed offset while lagwatch did not run."""
    STORED = 6
    """Measured by an earlier process."""
    OFFSET_TIME = 7
    """By the time at which the broker appended the record."""
    RECORD_TIME = 8
    """By the times that producers gave the record and those before it."""
    EARLIER_OFFSET = 9
    """By the time at which the broker appended a record that the group has read since."""
    SAMPLES_APART = 10
    """The log end was not read for a while in which it passed the committed offset."""
    RECORDED = 11
    """Between two samples of the stored history, taken before the last restart."""
    RECORDED_APART = 12
    """Between two stored samples far apart, or before the only one that is known."""
    AHEAD_OF_LOG_END = 13
    """The committed offset is beyond the log end: there is no such record."""
    DONE_OUT_OF_ORDER = 14
    """A share group has done records behind one that is still unread, which is older."""
    BETWEEN_ROUNDS = 15
    """Between two samples as far apart as rounds of log ends are; measured if that is close."""
    DELETED_UNREAD = 16
    """The oldest unread records were deleted: those that are left are younger."""

    @property
    def word(self) -> str:
        return self.name.lower()

    @property
    def method(self) -> TimeLagMethod:
        """Where the value comes from."""
        return _METHODS.get(self, TimeLagMethod.NONE)

    @property
    def bound(self) -> TimeLagBound:
        """How a known value relates to the truth; of a group "at least" when others are unknown."""
        return _BOUNDS.get(self, TimeLagBound.AT_LEAST)


_METHODS: Final = {
    TimeLagReason.MEASURED: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.CAUGHT_UP: TimeLagMethod.CAUGHT_UP,
    TimeLagReason.BEYOND_HISTORY: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.NOT_SAMPLED: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.SAMPLES_APART: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.STORED: TimeLagMethod.STORED_HISTORY,
    TimeLagReason.RECORDED: TimeLagMethod.STORED_HISTORY,
    TimeLagReason.RECORDED_APART: TimeLagMethod.STORED_HISTORY,
    TimeLagReason.OFFSET_TIME: TimeLagMethod.OFFSET_TIME,
    TimeLagReason.RECORD_TIME: TimeLagMethod.RECORD_TIME,
    TimeLagReason.EARLIER_OFFSET: TimeLagMethod.OFFSET_TIME,
    TimeLagReason.DONE_OUT_OF_ORDER: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.BETWEEN_ROUNDS: TimeLagMethod.LOG_END_HISTORY,
    TimeLagReason.DELETED_UNREAD: TimeLagMethod.LOG_END_HISTORY,
}
_BOUNDS: Final = {
    TimeLagReason.MEASURED: TimeLagBound.EXACT,
    TimeLagReason.CAUGHT_UP: TimeLagBound.EXACT,
    TimeLagReason.STORED: TimeLagBound.EXACT,
    TimeLagReason.RECORDED: TimeLagBound.ESTIMATE,
    TimeLagReason.BETWEEN_ROUNDS: TimeLagBound.ESTIMATE,
    TimeLagReason.OFFSET_TIME: TimeLagBound.EXACT,
    TimeLagReason.RECORD_TIME: TimeLagBound.AT_MOST,
    TimeLagReason.EARLIER_OFFSET: TimeLagBound.AT_MOST,
    TimeLagReason.DELETED_UNREAD: TimeLagBound.AT_MOST,
}


class UnknownReason(StrEnum):
    """Why a log end offset is not known."""

    TOPIC_NOT_VISIBLE = "topic_not_visible"
    """Deleted, or the principal lacks DESCRIBE on it."""
    NO_LEADER = "no_leader"
    NOT_POLLED_YET = "not_polled_yet"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEntry:
    """One commit in a window."""

    offset: int
    commit_ms: EpochMs
    observed_ms: EpochMs
    """When lagwatch stored it, whole seconds."""
    lag: int | None
    """Lag at the time of the commit; None for a commit that arrived out of order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartition:
    """Position of a share group (KIP-932) in one partition.

    Its committed offset is `start_offset + completed`: see `lagwatch.core.share`.
    """

    start_offset: int
    """All records before it are done; -1: nothing was delivered yet."""
    completed: int
    """Records done behind the start offset."""
    delivered_again: int
    """Records that were delivered at least once and wait to be delivered again."""
    most_deliveries: int
    """How often the most delivered of them was delivered; 0: none waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionVerdict:
    """The verdict on one group-partition: its status, its rule, and the numbers the rule used."""

    topic: str
    partition: int
    owner: str
    """Host of the member that holds the partition, as Kafka writes it (`/10.0.0.7`); "" if none."""
    client_id: str
    instance_id: str
    """`group.instance.id` of a static member; ""."""
    status: PartitionStatus
    rules: RuleSet
    rule: Rule
    evidence: Mapping[str, int | float | str | None]
    start: WindowEntry | None
    end: WindowEntry | None
    current_lag: int | None
    """Log end offset - committed offset."""
    readable_lag: int | None
    """The part of it that the group can still read.

    Without deleted records, control records and, for a read_committed reader, records of open
    transactions.
    """
    since_ms: EpochMs | None
    """When the trouble began; None for a verdict of OK or UNKNOWN."""
    complete: float
    """Share of the window that is filled, 0..1."""
    unknown_reason: UnknownReason | None
    time_lag_s: float | None
    time_lag_reason: TimeLagReason
    lost: int
    """Messages that were deleted before the group read them, ever since lagwatch watches it."""
    lost_unacknowledged: int = 0
    """The lost messages that were not acknowledged."""
    share: SharePartition | None = None
    """Only of a share group."""
    time_lag_error_s: float | None = None
    """By how much the true time lag may differ, as `time_lag_bound` says; None: not known."""

    @property
    def time_lag_method(self) -> TimeLagMethod:
        """Where the time lag comes from."""
        return TimeLagMethod.NONE if self.time_lag_s is None else self.time_lag_reason.method

    @property
    def time_lag_bound(self) -> TimeLagBound:
        """How the time lag relates to the true one."""
        return TimeLagBound.UNKNOWN if self.time_lag_s is None else self.time_lag_reason.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVerdict:
    """The group's status and its partitions, sorted by topic and partition."""

    cluster: str
    group: str
    at_ms: EpochMs
    status: GroupStatus
    rule: Rule | None
    """The rule that decided for the worst partition; None when there is none."""
    complete: float
    """Share of the partitions whose window is full, 0..1."""
    partitions: tuple[PartitionVerdict, ...]
    """All, or only those worse than OK, as asked."""
    partition_count: int
    max_lag: PartitionVerdict | None
    total_lag: int
    """Sum over the partitions whose lag is known."""
    readable_lag: int
    """Sum of what can still be read, over the same partitions."""
    since_ms: EpochMs | None
    """When the oldest trouble of its partitions began; None while it has none."""
    unknown_partitions: int
    time_lag_s: float | None
    """Time lag of its oldest partition; the greatest lower bound when another may be older."""
    time_lag_reason: TimeLagReason
    stale: bool = False
    """Log ends or commits of the cluster, or of one of its partitions, were too old at `at_ms`."""
    data_age_s: float = 0.0
    """How old the oldest of them were at `at_ms`."""
    time_lag_error_s: float | None = None
    """By how much the true time lag may differ, as `time_lag_bound` says; None: not known."""
    time_lag_partition: tuple[str, int] | None = None
    """Topic and partition that the time lag is of; None when it is not known of any."""
    time_lag_at_ms: EpochMs | None = None
    """The instant that the time lags of the group and its partitions are as of; None: none yet."""
    left_behind_lag: int = 0
    """The part of `total_lag` in topics that the group has left behind, or that are mirrored."""

    @property
    def time_lag_method(self) -> TimeLagMethod:
        """Where the time lag comes from."""
        return TimeLagMethod.NONE if self.time_lag_s is None else self.time_lag_reason.method

    @property
    def time_lag_bound(self) -> TimeLagBound:
        """How the time lag relates to the true one."""
        return TimeLagBound.UNKNOWN if self.time_lag_s is None else self.time_lag_reason.bound

    @property
    def known_lag(self) -> int | None:
        """`total_lag`; None when no partition's lag is known."""
        return None if self.max_lag is None else self.total_lag


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """The oldest open transaction of a topic-partition: its last stable offset waits for it."""

    topic: str
    partition: int
    last_stable: int
    """Last stable offset: the transaction's first record."""
    since_ms: EpochMs
    """When the last stable offset was first seen there; the transaction began before."""
    producer_id: int | None
    """None when the broker does not say; `problem` says why."""
    transactional_id: str
    """"" when the broker does not say."""
    started_ms: EpochMs | None
    """When the transaction began, as its coordinator says."""
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a consumer group as its coordinator describes it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str
    assignment: tuple[tuple[str, tuple[int, ...]], ...]
    """(topic, partitions), sorted."""


EMPTY: Final = "Empty"
"""Kafka's word for a group without members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupInfo:
    """State and members of a group."""

    group: str
    type: str
    """classic | consumer (KIP-848) | share | streams | unknown."""
    state: str
    """Kafka's word: Stable, Empty, PreparingRebalance, …; "Unknown" when it could not be asked."""
    assignor: str
    coordinator: int
    """Broker id; -1 unknown."""
    members: tuple[Member, ...]

    @property
    def empty(self) -> bool:
        """True if Kafka says that it has no members; False also where it could not be asked."""
        return self.state == EMPTY and not self.members

    @property
    def member_count(self) -> int | None:
        """None where the group could not be described."""
        return len(self.members) if self.members or self.state != "Unknown" else None
