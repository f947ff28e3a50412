"""From the rows of the transforms to the parts of the report, in the order shown."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lagwatch.core.advise import Load, advise, needed_consumers, rate
from lagwatch.core.causes import CAUSES, Certainty, cause_sentence
from lagwatch.core.model import TimeLagReason
from lagwatch.core.rollback import RollbackOffsets, Standing, partitions
from lagwatch.core.trend import Comparison
from lagwatch.jobs.report.model import (
    ClusterDay,
    DeployedOffset,
    DeploymentDay,
    GroupDay,
    HeatRow,
    MetricChange,
    ReportedIncident,
    RetentionRisk,
    Rollback,
    Side,
    Skew,
    ToDo,
    TopicAdvice,
)
from lagwatch.jobs.report.words import share, verdict


def names(row: Any) -> tuple[str, str]:  # noqa: ANN401 whatever has a cluster and a group
    """Sort key that breaks ties: by name."""
    return row.cluster, row.group


def greatest_first(value: float | None) -> float:
    """Greatest first, unknown last."""
    return 1.0 if value is None else -value


def least_first(value: float | None) -> float:
    """Least first, unknown last."""
    return float("inf") if value is None else value


def cluster_day(
    name: str, of_groups: Sequence[GroupDay], recorded: Mapping[str, float]
) -> ClusterDay:
    """The sum of its groups; `recorded` has the seconds that were recorded, by cluster."""
    return ClusterDay(
        cluster=name,
        groups=len(of_groups),
        recorded_s=recorded.get(name, 0.0),
        not_ok_s=sum(row.not_ok_s or 0.0 for row in of_groups),
        produced=_total(row.produced for row in of_groups),
        consumed=_total(row.consumed for row in of_groups),
        rebalances=_total(row.rebalances for row in of_groups),
    )


def _total(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def heat_row(cluster: str, group: str, cells: Sequence[Mapping[str, Any]]) -> HeatRow:
    """One group; `cells` has a row of `groups.by_hour` for every hour, {} where there is none."""
    return HeatRow(
        cluster=cluster,
        group=group,
        lag_max=tuple(cell.get("lag_max") for cell in cells),
        time_lag_max_s=tuple(cell.get("time_lag_max_s") for cell in cells),
        status=tuple(cell.get("status") for cell in cells),
    )


def comparison(row: Mapping[str, Any]) -> Comparison:
    """A row of `trends.compared`."""
    return Comparison(**{name: row[name] for name in Comparison.__slots__})


def change(row: Mapping[str, Any], found: Comparison, p: float) -> MetricChange:
    """A significant comparison; `p` is corrected."""
    return MetricChange(
        cluster=row["cluster"],
        group=row["group"],
        metric=row["metric"],
        now=found.now,
        before=found.before,
        lowest=found.lowest,
        highest=found.highest,
        ratio=found.now / found.before if found.before else None,
        p=p,
        hours=found.hours,
    )


def with_rounds(
    incident: ReportedIncident,
    rounds: Sequence[Mapping[str, Any]],
    sentences: Mapping[str | None, str],
) -> ReportedIncident:
    """An incident with its greatest lags, and the known cause that was named most often in it.

    Without rounds, because they are past their retention, its lags are those of the buckets that
    lie within it. `rounds` are its rows of `troubles.causes`, `sentences` has the last one of each
    cause.
    """
    if rounds:
        incident = replace(
            incident,
            lag_max=_greatest(rounds, "lag_max"),
            time_lag_max_s=_greatest(rounds, "time_lag_max_s"),
        )
    counted: Counter[str | None] = Counter()
    asked = [row for row in rounds if row["cause_certainty"] is not None]
    for row in asked:
        counted[row["cause"]] += row["rounds"]
    if not counted:
        return incident
    named = min(counted, key=lambda cause: (cause is None, -counted[cause], cause or ""))
    surest = {row["cause_certainty"]: row["rounds"] for row in asked if row["cause"] == named}
    certainty = min(surest, key=lambda word: (-surest[word], word == Certainty.CERTAIN))
    return replace(
        incident,
        cause=named,
        cause_certainty=certainty,
        cause_share=counted[named] / counted.total(),
        cause_text=_cause_text(named, certainty, sentences.get(named)),
    )


def _greatest(rounds: Sequence[Mapping[str, Any]], name: str) -> Any:  # noqa: ANN401 of any column
    return max((row[name] for row in rounds if row[name] is not None), default=None)


_CAUSES: Final = {row.cause.value: row for row in CAUSES}


def _cause_text(cause: str | None, certainty: str, sentence: str | None) -> str:
    """In the words of the notices; where no sentence was recorded, what the cause means."""
    row = _CAUSES.get(cause or "")
    if row is None:
        return cause_sentence(Certainty.UNKNOWN, sentence or "not known", "")
    text = sentence or row.meaning[0].lower() + row.meaning[1:].rstrip(".")
    return cause_sentence(certainty, text, row.refuted_by)


def to_do(
    row: Mapping[str, Any], incident: ReportedIncident | None, risks: Sequence[RetentionRisk]
) -> ToDo:
    """A row of `troubles.standing` with the open incident of the group."""
    return ToDo(
        cluster=row["cluster"],
        group=row["group"],
        at_ms=row["at_ms"],
        status=row["status"],
        ended_unknown=row["ended_unknown"],
        since_ms=_trouble_ms(row["since_ms"], incident),
        lag=row["total_lag"],
        time_lag_s=row["time_lag_s"],
        time_lag_bound=None if row["time_lag_s"] is None else _BOUNDS.get(row["time_lag_reason"]),
        catch_up_s=row["catch_up_s"],
        catch_up_reason=row["catch_up_reason"],
        partitions=row["partitions"],
        loss_in_s=row["loss_in_s"],
        loss_reason=row["loss_reason"],
        lost=sum(risk.lost for risk in risks),
        lost_at_most=any(risk.lost_at_most for risk in risks),
        cause=incident.cause if incident else None,
        cause_certainty=incident.cause_certainty if incident else None,
        cause_text=incident.cause_text if incident else None,
    )


def _trouble_ms(recorded_ms: int | None, incident: ReportedIncident | None) -> int | None:
    """When the trouble began: a verdict comes minutes after it, and may have become worse."""
    verdict_ms = incident.from_ms if incident else None
    return min((each for each in (recorded_ms, verdict_ms) if each is not None), default=None)


_BOUNDS: Final = {reason.word: reason.bound.value for reason in TimeLagReason}
_SOON_S: Final = 86_400.0
"""A loss within a day goes before everything else."""


def urgency(row: ToDo) -> tuple[object, ...]:
    """Sort key, the most urgent first: a loss within a day, ERR, time lag, lag."""
    soon = row.loss_in_s is not None and row.loss_in_s < _SOON_S
    return (
        least_first(row.loss_in_s if soon else None),
        row.status != "ERR",
        greatest_first(row.time_lag_s),
        greatest_first(row.lag),
        *names(row),
    )


def deployment_day(
    row: Mapping[str, Any], now: Mapping[tuple[str, int], Standing] | None = None
) -> DeploymentDay:
    """A row of `deployments.around`; `now` has the newest offsets of the group's partitions."""
    detail = _detail(row["detail"])
    offsets = deployed_offsets(detail)
    sides = [
        Side(**{name: row[f"{side}_{name}"] for name in Side.__slots__})
        for side in ("before", "after")
    ]
    return DeploymentDay(
        cluster=row["cluster"],
        group=row["group"],
        at_ms=row["at_ms"],
        version=row["version"],
        note=str(detail.get("note", "")),
        partitions=row["partitions"],
        before=sides[0],
        after=sides[1],
        verdict=verdict(*sides),
        offsets=offsets,
        rollback=_rollback(offsets, now or {}) if offsets else None,
    )


def _detail(detail: str | None) -> Mapping[str, Any]:
    """What is in an event's detail; nothing when another program wrote the event."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def deployed_offsets(detail: Mapping[str, Any]) -> tuple[DeployedOffset, ...]:
    """The offsets in the detail of a deployment; earlier releases kept committed ones only."""
    found = detail.get("offsets", {})
    starts, ends = detail.get("log_start", {}), detail.get("log_end", {})
    return tuple(
        DeployedOffset(
            topic=topic,
            partition=number,
            committed_offset=offset,
            log_start_offset=_nth(starts.get(topic, ()), number),
            log_end_offset=_nth(ends.get(topic, ()), number),
        )
        for topic in sorted(found)
        for number, offset in enumerate(found[topic])
    )


def _nth(offsets: Sequence[int | None], number: int) -> int | None:
    return offsets[number] if number < len(offsets) else None


def _rollback(
    offsets: Sequence[DeployedOffset], now: Mapping[tuple[str, int], Standing]
) -> Rollback:
    """The plan of `lagwatch deployments rollback-plan`, from recorded offsets."""
    recorded = {(each.topic, each.partition): each.committed_offset for each in offsets}
    plan = RollbackOffsets(partitions=tuple(partitions(recorded, now)))
    known = any(each.read_again is not None for each in plan.partitions)
    return Rollback(
        partitions=plan.partitions,
        read_again=plan.read_again if known else None,
        read_again_unknown=plan.read_again_unknown,
        skipped=plan.skipped,
        deleted=plan.deleted,
        csv=plan.csv(),
    )


def topic_advice(row: Mapping[str, Any], headroom: float) -> TopicAdvice:
    """A row of `loads.loads` with the advice that follows from it."""
    load = Load(**{name: row[name] for name in Load.__slots__})
    advice = advise(load, headroom=headroom)
    return TopicAdvice(
        **row,
        kind=advice.kind.value,
        needed=advice.needed,
        needed_bare=None if advice.needed is None else _needed(load, 1.0),
        formula="" if advice.needed is None else formula(load, headroom),
        headroom=headroom,
        reason=advice.reason,
    )


def with_hottest(advice: Iterable[TopicAdvice], skews: Iterable[Skew]) -> list[TopicAdvice]:
    """The advice, with the partitions that no number of consumers helps."""
    produced = (skew for skew in skews if skew.what == "produced")
    # of several of a topic the last, which has most, stays
    most = {
        (skew.cluster, skew.topic): skew for skew in sorted(produced, key=lambda each: each.share)
    }
    return [
        replace(advised, hottest=_hottest(advised, most.get((advised.cluster, advised.topic))))
        for advised in advice
    ]


def _hottest(advised: TopicAdvice, skew: Skew | None) -> str:
    if skew is None or advised.needed is None:
        return ""
    peak = (advised.peak_per_s or 0.0) * skew.share
    if peak <= (advised.rate_per_s or 0.0) * advised.headroom:
        return ""
    return (
        f"Partition {skew.partition} gets {share(skew.share, 0)} of them, {rate(peak)} messages/s "
        "at peak: that is too much for one consumer, and more of them do not help. Spread its keys."
    )


def _needed(load: Load, headroom: float) -> int:
    return needed_consumers(load.peak_per_s or 0.0, load.rate_per_s or 1.0, headroom)


def formula(load: Load, headroom: float) -> str:
    """Both answers: `350/s ÷ 100/s = 3.5 → 4; with headroom 0.7: … = 5 → 5`."""
    peak, each = load.peak_per_s or 0.0, load.rate_per_s or 1.0
    bare = f"{rate(peak)}/s ÷ {rate(each)}/s = {rate(peak / each)} → {_needed(load, 1.0):,}"
    used = (
        f"{rate(peak)}/s ÷ ({rate(each)}/s \u00d7 {headroom:g}) = {rate(peak / (each * headroom))}"
    )
    return f"{bare}; with headroom {headroom:g}: {used} → {_needed(load, headroom):,}"
