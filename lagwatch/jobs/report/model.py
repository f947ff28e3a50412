"""The numbers of a report, for its JSON, page and text.

Instants are epoch ms, durations seconds, rates messages per second. None is unknown, never 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from lagwatch.core.rollback import RollbackPartition

VERSION: Final = 1
"""Of the JSON; grows when a key changes its meaning or goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDay:
    """One cluster."""

    cluster: str
    groups: int
    recorded_s: float
    """How much of the day samples were taken."""
    not_ok_s: float
    """Summed over its groups."""
    produced: int | None
    consumed: int | None
    rebalances: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDay:
    """One group."""

    cluster: str
    group: str
    status: str | None
    """The worst of the day."""
    time_lag_max_s: float | None
    time_lag_max_ms: int | None
    """First bucket of five minutes in which it was that great."""
    lag_max: int | None
    lag_avg: float | None
    ok_s: float | None
    warn_s: float | None
    err_s: float | None
    not_ok_s: float | None
    """WARN and ERR together."""
    produced: int | None
    consumed: int | None
    commits: int | None
    """Samples with a newer commit than the one before."""
    rebalances: int | None
    owner: str | None
    """The partition with the greatest lag, and its topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupObjective:
    """How well one group kept the objective."""

    cluster: str
    group: str
    known_s: float
    """Time of the day in which it is known whether the group was in time."""
    late_s: float
    share: float | None
    """Share of `known_s` in which it was in time."""
    met: bool | None
    burn: float | None
    """How fast the day used up the budget: 1 is the speed at which it just lasts."""
    budget_known_s: float
    budget_s: float
    """Lateness allowed in the whole window of the budget, as far as it was recorded."""
    spent_s: float
    left: float | None
    """Share of the budget that is left; below 0 it is overdrawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivesKept:
    """The objective and how all groups kept it, the worst budgets first."""

    objective_s: float
    objective_share: float
    budget_days: int
    groups: Sequence[GroupObjective]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric of a group that differs significantly from the week before."""

    cluster: str
    group: str
    metric: str
    """time_lag_s, lag, produced_per_s."""
    now: float
    """Mean over the hours of the day."""
    before: float
    """Mean over the days before."""
    lowest: float
    """Of the days before."""
    highest: float
    ratio: float | None
    """now / before; None when it was 0 before."""
    p: float
    """After correction for the number of comparisons."""
    hours: int
    """Pairs that were compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Significant changes against the week before, the greatest first."""

    test: str
    """The test in words."""
    days_before: int
    """Days before of which anything is recorded, at most seven."""
    compared: int
    """Series that could be compared."""
    changes: Sequence[MetricChange] | None
    """None: no series could be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatHour:
    """A column of the heat map."""

    label: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatRow:
    """A row of the heat map; each list has one value per hour."""

    cluster: str
    group: str
    lag_max: Sequence[int | None]
    time_lag_max_s: Sequence[float | None]
    status: Sequence[str | None]
    """The worst; None: nothing was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Groups over the hours of the day, the most troubled first."""

    hours: Sequence[HeatHour]
    rows: Sequence[HeatRow]
    left_out: int
    """Groups that have no row here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTurn:
    """A group that came or went."""

    cluster: str
    group: str
    at_ms: int
    """First or last bucket in which it was seen."""
    lag: int | None
    """Greatest lag of that bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedIncident:
    """A time in which a group was WARN or ERR."""

    cluster: str
    group: str
    from_ms: int | None
    """May be before the day; None: before anything that is known."""
    to_ms: int | None
    """None: it was open when the day ended, or when its group was last recorded."""
    seconds: float
    """How much of it is in the day, with gaps; of an open one up to the end of the interval of
    `last_seen_ms`. Where no change of status was recorded, the recorded time in WARN and ERR."""
    worst: str
    rule: str | None
    """The rule that decided when it was worst."""
    lag_max: int | None
    """In buckets of the day that it touches."""
    time_lag_max_s: float | None
    last_seen_ms: int | None = None
    """The last round of its group in the day; where rounds are deleted, the end of what its last
    roll-up recorded. None: not known."""
    cause: str | None = None
    """The cause that was named most often in the day; None: not known, or not recorded."""
    cause_certainty: str | None = None
    """certain, likely, unknown; None: not recorded."""
    cause_share: float | None = None
    """Share of the samples with a cause looked for that name this one."""
    cause_text: str | None = None
    """A sentence with the certainty, the instant its numbers are of, and what would refute it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDo:
    """A group that was WARN or ERR when its status was last known in the day: numbers of then."""

    cluster: str
    group: str
    at_ms: int
    """When it was last recorded with a known status."""
    status: str
    ended_unknown: bool
    """True: its status was UNKNOWN from then on to the end of the day, or of its recording."""
    since_ms: int | None
    """When the trouble began, as its verdict said, or its open incident; None: not known."""
    lag: int | None
    time_lag_s: float | None
    time_lag_bound: str | None
    """exact, at_least, at_most, estimate; None: the time lag is not known."""
    catch_up_s: float | None
    catch_up_reason: str | None
    """None: not recorded."""
    partitions: int | None
    """All of every topic it committed to."""
    loss_in_s: float | None
    loss_reason: str | None
    lost: int
    """Messages deleted unread: see `retention`."""
    lost_at_most: bool
    cause: str | None
    cause_certainty: str | None
    cause_text: str | None
    """As in its incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRisk:
    """A partition whose messages go, or may go, before the group has read them."""

    cluster: str
    group: str
    topic: str
    partition: int
    lost: int
    """Messages deleted unread in the day, each counted once."""
    lost_at_most: bool
    """True if the group may have read some of them."""
    margin: int | None
    """Messages between the log start and the committed offset; negative while some are lost.

    None: there is no sample of the day.
    """
    behind_share: float | None
    """Lag as a share of what the broker holds."""
    margin_per_s: float | None
    """How fast the margin shrinks (below 0: grows): as the lag grew in the last hour of the day."""
    left_s: float | None
    """Until messages are lost at this speed; None when the margin does not shrink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """A partition that has far more than its share."""

    cluster: str
    group: str | None
    """None where it is the topic's own: what is produced is the same for every group."""
    topic: str
    partition: int
    what: str
    """produced or lag."""
    partitions: int
    share: float
    """Of the topic's total."""
    factor: float
    """How many times the fair share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """An hour before or after a deployment."""

    seconds: float
    """Recorded."""
    lag_avg: float | None
    time_lag_max_s: float | None
    consumed_per_s: float | None
    produced_per_s: float | None
    not_ok_s: float | None
    rebalances: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedOffset:
    """A partition at a deployment; None is unknown or not committed."""

    topic: str
    partition: int
    committed_offset: int | None
    log_start_offset: int | None
    log_end_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """The way back to the offsets of a deployment, as of the last samples of the day."""

    partitions: Sequence[RollbackPartition]
    read_again: int | None
    """Messages, over the partitions where it is known; None if it is not known for any."""
    read_again_unknown: int
    """Partitions that would be set and of which it is not known."""
    skipped: int
    deleted: int
    """Offsets that no longer exist."""
    csv: str
    """As Kafka's tool takes them: `topic,partition,offset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDay:
    """A deployment and the hours around it."""

    cluster: str
    group: str
    at_ms: int
    version: str | None
    note: str
    partitions: int | None
    """Topics whose committed offsets are kept with the event."""
    before: Side
    after: Side
    verdict: str
    """better, worse, same, unknown."""
    offsets: Sequence[DeployedOffset] = ()
    """At the deployment, by topic and partition."""
    rollback: Rollback | None = None
    """None: no offsets were recorded with the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAdvice:
    """How many consumers and partitions a group needs for a topic."""

    cluster: str
    group: str
    topic: str
    kind: str
    """add_partitions, add_consumers, enough, untold."""
    needed: int | None
    """With headroom."""
    needed_bare: int | None
    """Without: each consumer is used to all it can do."""
    formula: str
    """How both follow from peak, rate and headroom; "" where the data do not suffice."""
    partitions: int
    consumers: int | None
    peak_per_s: float | None
    rate_per_s: float | None
    buckets: int
    saturated_buckets: int
    unowned_buckets: int
    partly_buckets: int
    read_share: float | None
    headroom: float
    reason: str
    hottest: str = ""
    """A partition that alone is too much for one consumer; "" when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One day."""

    version: int
    lagwatch: str
    day: str
    """As 2026-11-20."""
    time_zone: str
    from_ms: int
    to_ms: int
    seconds: float
    made_ms: int
    to_do: Sequence[ToDo]
    """Groups in trouble when the day ended, the most urgent first."""
    clusters: Sequence[ClusterDay]
    groups: Sequence[GroupDay]
    """By worst time lag, then lag."""
    objectives: ObjectivesKept
    trend: Trend
    heat: HeatMap
    groups_new: Sequence[GroupTurn]
    groups_gone: Sequence[GroupTurn]
    turnover_known: bool
    """True if anything of the week before is recorded; without it no group counts as new."""
    incidents: Sequence[ReportedIncident]
    retention: Sequence[RetentionRisk]
    retention_known: bool
    """True if there are samples of partitions; without them retention cannot be judged."""
    skew: Sequence[Skew]
    deployments: Sequence[DeploymentDay]
    advice_days: int
    advice: Sequence[TopicAdvice]
    unreadable_files: int
    """Files of the history that could not be used: what they hold is missing here."""
    only_coarse: bool
    """True if only roll-ups of hours and days are left, from which no report is made."""
    notes: Sequence[str]
    """Notes on gaps and parts without data, which limit all other numbers."""

    @property
    def missed(self) -> int | None:
        """Groups that missed the objective; None: of no group a time lag is known."""
        kept = self.objectives.groups
        return sum(group.met is False for group in kept) if kept else None

    @property
    def at_risk(self) -> int | None:
        """Partitions of `retention`; None: there is nothing to judge by."""
        return len(self.retention) if self.retention_known else None

    @property
    def to_scale(self) -> int | None:
        """Groups and topics that need more consumers or partitions; None: not known of any."""
        known = [advised.kind for advised in self.advice if advised.needed is not None]
        return sum(kind.startswith("add_") for kind in known) if known else None

    def as_json(self) -> Mapping[str, Any]:
        """Plain values."""
        return asdict(self)
