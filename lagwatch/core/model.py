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


@unique
class PartitionStatus(IntEnum):
    """What the window of one group-partition says, worst last; the numbers are Burrow's.

    Source: Burrow, core/protocol/evaluator.go.
    """

    OK = 1
    WARN = 2
    STOP = 4
    STALL = 5
    REWIND = 6
    UNKNOWN = 7
    """No log end offset to judge against. Never makes a group worse."""


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
    """Not one of the partitions the group committed to could be judged."""


@unique
class Rule(IntEnum):
    """The rule that decided a verdict, in the order in which they are asked."""

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

    @property
    def word(self) -> str:
        """The name shown to users: `lag_not_decreasing`."""
        return self.name.lower()


STATUS_BY_RULE: Final[Mapping[Rule, PartitionStatus]] = {
    Rule.NEVER_COMMITTED: PartitionStatus.OK,
    Rule.LOG_END_UNKNOWN: PartitionStatus.UNKNOWN,
    Rule.WINDOW_INCOMPLETE: PartitionStatus.OK,
    Rule.LAG_WITHIN_ALLOWED: PartitionStatus.OK,
    Rule.STOPPED: PartitionStatus.STOP,
    Rule.REWOUND: PartitionStatus.REWIND,
    Rule.LAG_WAS_WITHIN_ALLOWED: PartitionStatus.OK,
    Rule.STALLED: PartitionStatus.STALL,
    Rule.LAG_NOT_DECREASING: PartitionStatus.WARN,
    Rule.PROGRESSING: PartitionStatus.OK,
}
"""The precedence table: the first rule that holds decides, and this is what it decides."""


class TimeLagReason(IntEnum):
    """How a time lag is known, or why it is not."""

    MEASURED = 0
    CAUGHT_UP = 1
    """Nothing to read: the time lag is 0 s."""
    BEYOND_HISTORY = 2
    """The log end had passed the committed offset before the first sample; not extrapolated."""
    LOG_END_UNKNOWN = 3
    NEVER_COMMITTED = 4

    @property
    def word(self) -> str:
        return self.name.lower()


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
class PartitionVerdict:
    """What is said about one group-partition, by which rule, with the numbers the rule saw."""

    topic: str
    partition: int
    owner: str
    """Host of the member that holds the partition, as Kafka writes it (`/10.0.0.7`); "" if none."""
    client_id: str
    instance_id: str
    """`group.instance.id` of a static member; ""."""
    status: PartitionStatus
    rule: Rule
    evidence: Mapping[str, int | float | None]
    start: WindowEntry | None
    end: WindowEntry | None
    current_lag: int | None
    complete: float
    """Share of the window that is filled, 0..1."""
    unknown_reason: UnknownReason | None
    time_lag_s: float | None
    time_lag_reason: TimeLagReason
    lost: int | None
    """Messages that retention removed before the group read them; None when not known."""


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
    unknown_partitions: int
    time_lag_s: float | None
    """The worst of its partitions; None when none of them is known."""
    time_lag_reason: TimeLagReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a consumer group as its coordinator describes it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str
    assignment: tuple[tuple[str, tuple[int, ...]], ...]
    """(topic, partitions), sorted."""


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
