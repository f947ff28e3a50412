"""What `status` shows of a group: from this process, another lagwatch or a Burrow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from lagwatch.core.model import GroupInfo, GroupVerdict, PartitionVerdict
from lagwatch.core.words import Numbers, duration, each_once, spoken

if TYPE_CHECKING:  # numpy takes a while to import
    from lagwatch.core.causes import Cause
    from lagwatch.core.forecast import GroupOutlook

BAD: Final = frozenset({"WARN", "ERR"})
"""A group with such a status is in trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """The verdict on a partition; None is unknown, or was not given."""

    topic: str
    partition: int
    status: str
    rule: str | None
    current_lag: int | None
    time_lag_s: float | None
    committed_offset: int | None
    complete: float
    owner: str
    client_id: str
    unknown_reason: str | None
    evidence: Numbers
    readable_lag: int | None = None
    lost: int = 0
    time_lag_bound: str = ""
    """A word of `TimeLagBound`; "" when it was not given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is found out about a group beside its verdict: why, and until when."""

    cause: str
    """The likeliest cause of trouble in a word or two; "" if it is not known, or has none."""
    cause_sentence: str
    """The same with its certainty and evidence."""
    consumed_per_s: float | None
    lag_trend_per_s: float | None
    catch_up_s: float | None
    catch_up_reason: str
    """A `CatchUpReason`."""
    steady: bool = False
    """Its lag changes by no more than chance explains."""
    quiet: str = ""
    """Of a group that is OK: why a silence longer than it may pause is no trouble yet; ""."""
    trouble_since_ms: int | None = None
    """When the trouble of its open incident began; None where there is no incident."""
    trouble_since_at_least: bool = False
    """It may have begun earlier."""
    lost: int = 0
    """Messages that were deleted before the group read them, as long as that is shown."""
    lost_at_most: bool = False
    """It lost no more than that, and maybe less."""
    unknown_because: str = ""
    """Why verdicts or lags of its partitions are unknown; "" also where that was not looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """The verdict on a group."""

    cluster: str
    group: str
    status: str
    rule: str | None
    """None also when it was not given: Burrow names no rules."""
    total_lag: int | None
    """Over the partitions whose lag is known; None when there is none."""
    unknown_partitions: int
    time_lag_s: float | None
    complete: float
    partition_count: int
    max_lag: PartitionView | None
    partitions: tuple[PartitionView, ...]
    worst: str
    """The status of its worst partition; that of the group when none is worse than OK."""
    at_ms: int | None = None
    """When it was judged; None from a Burrow."""
    state: str = ""
    """Kafka's word; "" when it was not given."""
    members: int | None = None
    stale: bool = False
    """True if the verdict is based on stale data."""
    data_age_s: float = 0.0
    """How old they were when it was judged."""
    since_ms: int | None = None
    """When the trouble began; None while there is none, and of a Burrow."""
    since_at_least: bool = False
    """It may have begun earlier: Burrow's rules look no further back than the window."""
    time_lag_bound: str = ""
    """A word of `TimeLagBound`; "" when it was not given."""
    readable_lag: int | None = None
    """What of its lag it can read; None also of a Burrow."""
    left_behind_lag: int | None = None
    """What of it is of topics that it has left; None also of a Burrow."""
    note: str = ""
    """Why the status is unknown although the group was seen; ""."""
    cause: str = ""
    """This and what follows as in `Found`; "" and None also when it was not given."""
    cause_sentence: str = ""
    consumed_per_s: float | None = None
    lag_trend_per_s: float | None = None
    catch_up_s: float | None = None
    catch_up_reason: str = ""
    steady: bool = False
    quiet: str = ""
    trouble_since_ms: int | None = None
    trouble_since_at_least: bool = False
    lost: int = 0
    lost_at_most: bool = False
    unknown_because: str = ""
    handled: str = ""
    """As in `OpenIncident`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """What is known of a group's open incident; of none, nothing."""

    severity: str = ""
    handled: str = ""
    """`muted`, `acknowledged by ann`; ""."""
    since_ms: int | None = None
    since_at_least: bool = False
    """It may have begun earlier."""


def in_trouble_since(
    judged_ms: int | None, incident_ms: int | None, *, at_least: bool, incident_at_least: bool
) -> tuple[int | None, bool]:
    """Since when, and whether it may have begun earlier.

    Trouble that becomes worse goes on: its incident began before the verdict of now. None while
    the verdict sees no trouble. Each of the two says itself whether it may have begun earlier.
    """
    if judged_ms is None or incident_ms is None or judged_ms < incident_ms:
        return judged_ms, at_least
    if judged_ms == incident_ms:
        return judged_ms, at_least or incident_at_least
    return incident_ms, incident_at_least


NO_STATE: Final = "Unknown"
"""The state of a group that Kafka has not been asked about yet, as the fleet spells it."""
NOT_ENOUGH_SEEN: Final = "not enough seen"
"""A look of a few seconds shows neither progress nor trouble."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessView:
    """Whether a cluster's data are complete and current."""

    ready: bool
    problems: tuple[str, ...]
    """With what is missing, or how old the data are."""


def readiness(
    *,
    ready: bool,
    stale: bool,
    data_age_s: float,
    reason: str,
    problems: Iterable[str],
    backlog: tuple[object, object],
) -> ReadinessView:
    """Whether a cluster is ready, with a sentence for everything that is wrong.

    `backlog`: records of the offsets topic that were read, and that there are.
    """
    found = each_once(tuple(problems), "" if ready and not stale else reason)
    if stale:
        found.insert(0, f"data are {duration(data_age_s)} old: {reason}")
    elif not ready and reason:
        found.insert(0, f"not ready: {reason}")
    elif not ready and not found:
        read, total = backlog
        found = [f"not read to the end yet ({read} of {total} records of the offsets topic)"]
    return ReadinessView(ready=ready, problems=tuple(found))


class StatusSource(Protocol):
    """Where `status` asks."""

    def clusters(self) -> tuple[str, ...]: ...

    def readiness(self, cluster: str) -> ReadinessView: ...

    def groups(self, cluster: str) -> tuple[str, ...]: ...

    def group(self, cluster: str, group: str, *, show_all: bool) -> GroupView:
        """The group's verdict, with its bad partitions or all of them.

        Raises:
            NotFoundError: it is not known.
        """
        ...


_BADNESS: Final = ("OK", "UNKNOWN", "WARN", "ERR", "STOP", "STALL", "REWIND")


def worst_of(status: str, partitions: Iterable[PartitionView]) -> str:
    """The status of the worst partition; the group's own where they are fine or not given."""
    known = [each.status for each in partitions if each.status in _BADNESS]
    worst = max(known, key=_BADNESS.index, default="OK")
    return worst if status in {"WARN", "ERR"} and worst != "OK" else status


def group_view(verdict: GroupVerdict, info: GroupInfo | None = None) -> GroupView:
    """A verdict of our own."""
    from lagwatch.core.rules import row_of

    partitions = tuple(partition_view(partition) for partition in verdict.partitions)
    return GroupView(
        cluster=verdict.cluster,
        group=verdict.group,
        status=verdict.status.name,
        rule=None if verdict.rule is None else verdict.rule.word,
        total_lag=verdict.known_lag,
        readable_lag=None if verdict.known_lag is None else verdict.readable_lag,
        left_behind_lag=None if verdict.known_lag is None else verdict.left_behind_lag,
        unknown_partitions=verdict.unknown_partitions,
        time_lag_s=verdict.time_lag_s,
        time_lag_bound=verdict.time_lag_bound.value,
        complete=verdict.complete,
        partition_count=verdict.partition_count,
        max_lag=None if verdict.max_lag is None else partition_view(verdict.max_lag),
        partitions=partitions,
        worst=worst_of(verdict.status.name, partitions),
        at_ms=verdict.at_ms,
        data_age_s=verdict.data_age_s,
        state=NO_STATE if info is None else info.state,
        members=None if info is None else info.member_count,
        stale=verdict.stale,
        since_ms=verdict.since_ms,
        since_at_least=verdict.since_ms is not None
        and any(row_of(each.rules, each.rule).since_at_least for each in verdict.partitions),
    )


def found(
    outlook: "GroupOutlook", cause: "Cause | None", lost: tuple[int, bool] = (0, False)
) -> Found:
    """What this process has found out about a group; `lost` as `ClusterSnapshot.lost_messages`."""
    return Found(
        cause="" if cause is None else spoken(cause.name or ""),
        cause_sentence="" if cause is None else cause.sentence,
        consumed_per_s=outlook.whole.consumed_per_s,
        lag_trend_per_s=outlook.whole.lag_trend_per_s,
        catch_up_s=outlook.whole.catch_up_s,
        catch_up_reason=outlook.whole.catch_up_reason.value,
        lost=lost[0],
        lost_at_most=lost[1],
    )


def partition_view(verdict: PartitionVerdict) -> PartitionView:
    """A verdict of our own."""
    return PartitionView(
        topic=verdict.topic,
        partition=verdict.partition,
        status=verdict.status.name,
        rule=verdict.rule.word,
        current_lag=verdict.current_lag,
        time_lag_s=verdict.time_lag_s,
        time_lag_bound=verdict.time_lag_bound.value,
        committed_offset=None if verdict.end is None else verdict.end.offset,
        complete=verdict.complete,
        owner=verdict.owner,
        client_id=verdict.client_id,
        unknown_reason=verdict.unknown_reason,
        evidence=verdict.evidence,
        readable_lag=verdict.readable_lag,
        lost=verdict.lost,
    )
