"""Verdicts as receivers and templates get them: plain JSON; what is not known is null."""

from dataclasses import replace
from typing import Any, Final

from lagwatch.core.causes import Cause
from lagwatch.core.forecast import CatchUpReason, GroupOutlook
from lagwatch.core.model import (
    GroupStatus,
    GroupVerdict,
    PartitionStatus,
    PartitionVerdict,
    Rule,
    TimeLagReason,
    WindowEntry,
)
from lagwatch.core.rules import row_of, sentence
from lagwatch.core.snapshot import ClusterSnapshot
from lagwatch.notify.observed import kinds_of_group, loss

WORST_PARTITIONS: Final = 10
"""Partitions listed in a notice; the number left out is given with them."""
_LATE_S: Final = 120.0
_MUCH: Final = 0.05
"""Share of what is written by which a lag grows or falls by chance."""
_NO_FORECAST: Final = dict.fromkeys(
    ("catch_up_s", "catch_up_reason", "loss_in_s", "produced_per_s", "consumed_per_s")
)
"""As long as it was not looked for."""


def verdict_json(verdict: GroupVerdict) -> dict[str, Any]:
    """The verdict with its worst partitions."""
    worst = sorted(
        verdict.partitions,
        key=lambda partition: (
            -partition.status % 7,
            -(partition.current_lag or 0),
            partition.topic,
            partition.partition,
        ),
    )
    shown = {
        (partition.topic, partition.partition): _partition(partition)
        for partition in worst[:WORST_PARTITIONS]
    }
    most = verdict.max_lag
    ahead = [
        (int(each.evidence["committed_offset"] or 0), int(each.evidence["log_end_offset"] or 0))
        for each in verdict.partitions
        if each.rule is Rule.AHEAD_OF_LOG_END
    ]
    return {
        "cluster": verdict.cluster,
        "group": verdict.group,
        "at_ms": verdict.at_ms,
        "status": verdict.status.name,
        "rule": verdict.rule.word if verdict.rule is not None else None,
        "complete": round(verdict.complete, 4),
        "partition_count": verdict.partition_count,
        "total_lag": verdict.known_lag,
        "readable_lag": None if most is None else verdict.readable_lag,
        "unknown_partitions": verdict.unknown_partitions,
        "beyond_partitions": len(ahead),
        "beyond_messages": sum(committed - end for committed, end in ahead),
        "time_lag_s": verdict.time_lag_s,
        "time_lag_reason": verdict.time_lag_reason.word,
        "time_lag_bound": verdict.time_lag_bound.value,
        **_NO_FORECAST,
        "owners": sorted({partition.owner for partition in verdict.partitions if partition.owner}),
        "max_lag": None
        if most is None
        else shown.get((most.topic, most.partition)) or _partition(most),
        "partitions": list(shown.values()),
        "partitions_left_out": max(0, len(worst) - WORST_PARTITIONS),
    }


def cause_json(cause: Cause) -> dict[str, Any]:
    """The cause of a verdict and the sentence that texts show."""
    return {
        "name": None if cause.name is None else cause.name.value,
        "certainty": cause.certainty.value,
        "text": cause.text,
        "refuted_by": cause.refuted_by,
        "sentence": cause.sentence,
        "to_do": list(cause.to_do),
    }


def behind_json(verdict: GroupVerdict, outlook: GroupOutlook) -> dict[str, Any]:
    """What keeps a group behind whose verdict is good: empty, or one of two fields.

    `lag_grows_per_s` (messages): it reads, too slowly. `not_read`: nothing is read of any partition
    (`all`) or of one that waits (`some`).

    A healthy group is always a few messages behind, and their number goes up and down: that counts
    only where the oldest unread message is two minutes old, as for the rule `falling_behind`.
    """
    whole = outlook.whole
    if verdict.time_lag_s is None or verdict.time_lag_s < _LATE_S:
        return {}
    if whole.catch_up_reason is CatchUpReason.NOT_MOVING:
        return {"not_read": "some" if whole.consumed_per_s else "all"}
    grows_per_s = whole.lag_trend_per_s
    falls = whole.catch_up_reason is CatchUpReason.FALLING_BEHIND
    if not falls or grows_per_s is None or grows_per_s <= 0:
        return {}
    return {"lag_grows_per_s": grows_per_s}


def limit_json(verdict: GroupVerdict, lag_trend_per_s: float | None) -> dict[str, Any]:
    """Fields of a group that misses a limit while none of its partitions is bad.

    `partitions`: those furthest behind. `lag_trend_per_s`: by how many messages the lag grows.
    """
    found = verdict_json(replace(verdict, partitions=furthest_behind(verdict)))
    names = ("partitions", "partitions_left_out", "owners")
    return {**{name: found[name] for name in names}, "lag_trend_per_s": lag_trend_per_s}


def judged_slow(verdict: GroupVerdict) -> GroupVerdict:
    """The verdict of a group that misses a limit, as if the partitions furthest behind were bad.

    For the search for a cause, which looks at partitions that are bad.
    """
    late = furthest_behind(verdict)
    partitions = tuple(
        replace(each, status=PartitionStatus.WARN, rule=Rule.FALLING_BEHIND)
        if each in late
        else each
        for each in verdict.partitions
    )
    return replace(verdict, status=GroupStatus.WARN, partitions=partitions)


def is_steady(outlook: GroupOutlook) -> bool:
    """True if a group reads about as fast as is written to it, as far as that is known."""
    whole = outlook.whole
    grows_per_s, produced_per_s = whole.lag_trend_per_s, whole.produced_per_s
    return grows_per_s is None or grows_per_s <= _MUCH * (produced_per_s or 0.0)


def furthest_behind(verdict: GroupVerdict) -> tuple[PartitionVerdict, ...]:
    """Partitions at least half as far behind as the one furthest behind.

    In time where that is known, else in messages.
    """
    by_time = max((each.time_lag_s or 0.0 for each in verdict.partitions), default=0.0) > 0

    def behind(partition: PartitionVerdict) -> float:
        return (partition.time_lag_s if by_time else partition.current_lag) or 0.0

    most = max(map(behind, verdict.partitions), default=0.0)
    return tuple(
        each for each in verdict.partitions if behind(each) > 0 and 2 * behind(each) >= most
    )


def forecast_json(outlook: GroupOutlook) -> dict[str, Any]:
    """When a group catches up at its present speed, and loses messages if nothing changes.

    `lag_steady`: its lag changes by no more than chance; a loss is then left out, too.
    """
    whole = outlook.whole
    losses = (each for each in outlook.partitions.values() if not each.steady)
    return {
        "catch_up_s": None if whole.steady else whole.catch_up_s,
        "catch_up_reason": whole.catch_up_reason.value,
        "loss_in_s": min(
            (each.loss_in_s for each in losses if each.loss_in_s is not None), default=None
        ),
        **({"lag_steady": True} if whole.steady else {}),
        "produced_per_s": whole.produced_per_s,
        "consumed_per_s": whole.consumed_per_s,
    }


def figures_json(snapshot: ClusterSnapshot, group: str) -> dict[str, Any] | None:
    """How far behind a group is in a snapshot, with the names of a verdict; None: it is gone."""
    number = snapshot.group_index.get(group)
    if number is None:
        return None
    columns = snapshot.group
    known = bool(columns.max_lag_row[number] >= 0)
    late_ms = int(columns.time_lag_ms[number])
    lost, at_most, _ = loss(snapshot, number, kinds_of_group(snapshot, number))
    rows = columns.rows_of(number)
    ahead = snapshot.rows.rule[rows] == Rule.AHEAD_OF_LOG_END
    ends = snapshot.topics.log_end[snapshot.rows.at[rows][ahead]]
    bound = TimeLagReason(int(columns.time_lag_reason[number])).bound
    return {
        "at_ms": int(snapshot.at_ms),
        "total_lag": int(columns.total_lag[number]) if known else None,
        "readable_lag": int(columns.readable_lag[number]) if known else None,
        "unknown_partitions": int(columns.unknown[number]),
        "beyond_partitions": int(ahead.sum()),
        "beyond_messages": int((snapshot.rows.committed[rows][ahead] - ends).sum()),
        "time_lag_s": None if late_ms < 0 else late_ms / 1000,
        "time_lag_bound": bound.value,
        "lost": lost,
        "lost_is": "upper_bound" if at_most else "exact",
    }


def nothing_known(cluster: str, group: str, at_ms: int, status: str = "") -> dict[str, Any]:
    """A verdict with all fields unknown: of a group that is gone, or of an incident of no group."""
    return {
        "cluster": cluster,
        "group": group,
        "at_ms": at_ms,
        "status": status,
        **dict.fromkeys(
            ("rule", "complete", "partition_count", "total_lag", "time_lag_s", "readable_lag")
        ),
        **dict.fromkeys(("unknown_partitions", "beyond_partitions", "beyond_messages")),
        **dict.fromkeys(("time_lag_reason", "time_lag_bound", "max_lag")),
        **_NO_FORECAST,
        "owners": [],
        "partitions": [],
        "partitions_left_out": 0,
    }


def _partition(verdict: PartitionVerdict) -> dict[str, Any]:
    return {
        "topic": verdict.topic,
        "partition": verdict.partition,
        "status": verdict.status.name,
        "rule": verdict.rule.word,
        "sentence": sentence(row_of(verdict.rules, verdict.rule), verdict.evidence),
        "evidence": dict(verdict.evidence),
        "current_lag": verdict.current_lag,
        "time_lag_s": verdict.time_lag_s,
        "time_lag_bound": verdict.time_lag_bound.value,
        "complete": round(verdict.complete, 4),
        "owner": verdict.owner,
        "client_id": verdict.client_id,
        "instance_id": verdict.instance_id,
        "lost": verdict.lost_unacknowledged,
        "start": _entry(verdict.start),
        "end": _entry(verdict.end),
    }


def _entry(entry: WindowEntry | None) -> dict[str, int | None] | None:
    if entry is None:
        return None
    return {"offset": entry.offset, "commit_ms": entry.commit_ms, "lag": entry.lag}
