"""The plan of a month: groups, the rows they commit to, and all that will happen to them.

A row is one partition of one topic, read by one group. Instants are seconds since the monitor's
first start; they are negative for what happened before it. A plan is data only: `traffic` turns it
into log ends and commits, `truth` keeps the labels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

DAY_S: Final = 86_400.0
BEFORE_S: Final = 3 * DAY_S
"""Lives begin this long before the monitor does; the offsets topic still holds that much."""
EVER_S: Final = 1e9
START_MS: Final = 1_800_000_000_000
"""Second 0 of the plan."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is simulated; each shard is a cluster of its own with its own monitors."""

    groups: int = 2000
    days: float = 30.0
    shards: int = 2
    round_s: int = 60
    """Between two rounds of log ends; a multiple of the grid's step."""
    seed: int = 1
    compared_days: float = 8.0
    """So long Burrow's rules judge beside ours: their rates need no whole month."""

    def days_of(self, rules: str) -> float:
        """How long these rules judge."""
        return min(self.days, self.compared_days) if rules == "burrow" else self.days

    def of_shard(self, shard: int) -> int:
        """Groups of one shard."""
        return self.groups // self.shards + (shard < self.groups % self.shards)


class State(IntEnum):
    """What an event makes of the group's state; the highest of those that hold counts."""

    STABLE = 0
    REBALANCING = 1
    EMPTY = 2


class Label(StrEnum):
    """What is wrong with a group, or was done to it on purpose."""

    STOP = "stop"
    PARTIAL = "partial_stop"
    STALL = "stall"
    SLOW = "slow_down"
    MISSED_RUN = "missed_run"
    LOSS = "loss"
    RESET = "reset"
    """Offsets set back on purpose: neither a false page nor a trouble to be found."""
    RETIRED = "retired"
    """Taken out of service, deleted a little later: as RESET."""

    @property
    def must_be_found(self) -> bool:
        return self not in {Label.RESET, Label.RETIRED}


@dataclass(slots=True, kw_only=True)
class Trouble:
    """A labelled stretch of a group's life. `truth` fills in what only the traffic shows."""

    label: Label
    group: int
    lo: int
    """Rows lo..hi-1 are in trouble."""
    hi: int
    start_s: float
    """When its cause sets in."""
    end_s: float
    true_s: float | None = None
    """From when on it is a trouble that can be seen in Kafka; None: it never was."""
    caught_up_s: float | None = None
    """When nothing was left to read after the end."""
    worst_time_lag_s: float = 0.0
    behind_s: float = 0.0
    """How long at a time, while it lasted, more was unread than a working group's queue holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that changes rows lo..hi-1 for a while."""

    start_s: float
    end_s: float
    group: int
    lo: int
    hi: int
    why: str
    speed: float = 1.0
    """Factor on what the members can process."""
    commits: bool = True
    """Do members commit?"""
    produce: float = 1.0
    """Factor on what is produced."""
    hold: float = -1.0
    """Nothing is produced; at the end this share of it arrives at once. -1: no such thing."""
    state: State = State.STABLE
    final: bool = False
    """Members commit what they have processed when it begins, as a clean close does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Offsets that are set at an instant, while no member is there."""

    at_s: float
    row: int
    back: float
    """Messages the committed offset goes back; EVER_S: the topic is created anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFor:
    """A transaction that stays open and holds back the last stable offset of a row."""

    start_s: float
    end_s: float
    row: int


@dataclass(slots=True, kw_only=True)
class Topic:
    """One topic of one group; its partitions are rows lo..hi-1."""

    name: str
    lo: int
    hi: int
    born_s: float = -EVER_S
    recreated_s: float = EVER_S
    left_s: float = EVER_S
    """When the group unsubscribed from it."""


@dataclass(slots=True, kw_only=True)
class Life:
    """One group: a kind, parameters of its own, and what happens to it."""

    number: int
    name: str
    kind: str
    topics: list[Topic]
    members: int
    static: bool = False
    joined_s: float = -EVER_S
    gone_s: float = EVER_S
    """When the group was deleted."""
    cadence_s: float = 5.0
    when_idle: bool = True
    """Does it commit without progress?"""
    rate: float = 1.0
    """Messages per second and partition, on average while producers produce."""
    events: list[Event] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    jumps: list[Jump] = field(default_factory=list)
    open_for: list[OpenFor] = field(default_factory=list)

    @property
    def lo(self) -> int:
        return self.topics[0].lo

    @property
    def hi(self) -> int:
        return self.topics[-1].hi


@dataclass(slots=True, kw_only=True)
class Rows:
    """Parameters by row; shape [rows]."""

    group: Ints
    rate: Floats
    """Messages per second."""
    capacity: Floats
    """Messages per second the members can process."""
    swing: Floats
    """Of day and night, 0..1."""
    peak_s: Floats
    """Second of the day with the highest load."""
    noise: Floats
    cadence_s: Floats
    phase_s: Floats
    jitter: Floats
    """Share of the cadence."""
    behind_s: Floats
    """A commit names the position of this long before it."""
    when_idle: Bools
    """Commits also without progress, as Java's auto commit does."""
    control: Bools
    """Every transaction leaves a control record behind the data, which the group never commits."""
    transactional: Bools
    read_committed: Bools
    retention_s: Floats
    broker: Ints

    @classmethod
    def joined(cls, parts: Sequence["Rows"]) -> "Rows":
        """All of them, one after the other."""
        return cls(
            **{
                name: np.concatenate([getattr(part, name) for part in parts])
                for name in cls.__dataclass_fields__
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaks:
    """What happens to the cluster and to lagwatch itself; (start, end) each."""

    brokers: int
    outages: tuple[tuple[float, float], ...]
    restarts: tuple[tuple[float, float, int], ...]
    """Leaders of a broker are away: (start, end, broker)."""
    collector_deaths: tuple[tuple[float, float], ...]
    lagwatch_restarts: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that will happen in one shard."""

    size: Size
    shard: int
    lives: tuple[Life, ...]
    rows: Rows
    breaks: Breaks
    events: tuple[Event, ...]
    """Those of all lives and of the cluster, by start."""

    @property
    def end_s(self) -> float:
        return self.size.days * DAY_S

    def group_days(self, until_s: float) -> float:
        """Days all groups lived together from the monitor's start to an instant."""
        lived_s = (
            max(0.0, min(life.gone_s, until_s) - max(life.joined_s, 0.0)) for life in self.lives
        )
        return sum(lived_s) / DAY_S


def by_start(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events in the order they begin in."""
    return tuple(sorted(events, key=lambda event: (event.start_s, event.lo)))
