"""The report in a few lines, for chats and mail."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from lagwatch.core.words import counted, printable, spoken
from lagwatch.jobs.report.model import (
    DeployedOffset,
    DeploymentDay,
    GroupObjective,
    Report,
    ReportedIncident,
    RetentionRisk,
    Side,
)
from lagwatch.jobs.report.words import (
    at,
    catch_up,
    clock,
    duration,
    factor,
    last_seen_open,
    loss,
    lost,
    number,
    share,
    time_lag,
    used,
)

MOST_LINES: Final = 30
_SHOWN: Final = 3
"""Maximum number of lines for each kind of trouble."""
_OFFSETS_SHOWN: Final = 4
"""Of a deployment; the page and the JSON have all."""


class _OfGroup(Protocol):
    """A finding about a group."""

    @property
    def cluster(self) -> str: ...
    @property
    def group(self) -> str: ...


def subject(report: Report) -> str:
    """One line with the most important finding."""
    troubled = len({(incident.cluster, incident.group) for incident in report.incidents})
    if not report.groups:
        return f"Consumer lag on {report.day}: nothing {_missing(report)}"
    if not report.incidents:
        return (
            f"Consumer lag on {report.day}: no incident in {counted(len(report.groups), 'group')}"
        )
    return (
        f"Consumer lag on {report.day}: {counted(len(report.incidents), 'incident')} in "
        f"{troubled:,} of {counted(len(report.groups), 'group')}"
    )


def _missing(report: Report) -> str:
    """Why there is no group in the report."""
    if report.unreadable_files:
        return "could be read"
    if report.only_coarse:
        return "is kept in detail any more"
    recorded = any(cluster.recorded_s for cluster in report.clusters)
    return "was rolled up" if recorded else "was recorded"


def text(report: Report) -> str:
    """At most `MOST_LINES` lines."""
    lines = [*_lines(report)]
    if len(lines) > MOST_LINES:
        lines = [*lines[: MOST_LINES - 1], "… the page has all of it"]
    return "\n".join(map(printable, lines))


def _lines(report: Report) -> Iterator[str]:
    yield subject(report)
    yield from report.notes[:_SHOWN]
    yield from _to_do(report)
    yield from _incidents(report)
    yield from _objectives(report)
    yield from _retention(report)
    yield from _advice(report)
    yield from _deployments(report)
    yield from _rest(report)


def _to_do(report: Report) -> Iterator[str]:
    """Each group in trouble with its numbers, and its cause in the line below."""
    zone = ZoneInfo(report.time_zone)
    for row in report.to_do[:_SHOWN]:
        known = f" when last known, at {clock(row.at_ms, zone)}" if row.ended_unknown else ""
        verb = "was" if known else "is"
        since = "" if row.since_ms is None else f", since {at(row.since_ms, report, zone)}"
        yield (
            f"To do: {row.group} on {row.cluster} {verb} {row.status}{known}{since}: "
            f"lag {number(row.lag)}; "
            f"time lag {time_lag(row.time_lag_s, row.time_lag_bound)}; "
            f"catch-up: {catch_up(row.catch_up_s, row.catch_up_reason, row.partitions)}; "
            f"loss: {loss(row.loss_in_s, row.loss_reason, lost(row.lost, row.lost_at_most))}"
        )
        if row.cause_text:
            yield f"  {row.cause_text}"
    yield from _more(len(report.to_do), "group in trouble", "groups in trouble")


def _incidents(report: Report) -> Iterator[str]:
    zone = ZoneInfo(report.time_zone)
    for incident in report.incidents[:_SHOWN]:
        rule = f" ({spoken(incident.rule)})" if incident.rule else ""
        cause = f": {spoken(incident.cause)} ({incident.cause_certainty})" if incident.cause else ""
        lags = f"; lag {number(incident.lag_max)}, time lag {duration(incident.time_lag_max_s)}"
        place = f"{incident.worst} {incident.group} on {incident.cluster}{rule}"
        when = f"{_since(incident, report, zone)}{_until(incident, report, zone)}"
        yield f"{place} {when}{cause}{lags}"
    yield from _more(len(report.incidents), "incident")


def _since(incident: ReportedIncident, report: Report, zone: ZoneInfo) -> str:
    if incident.from_ms is None:
        return "since before the history"
    if incident.from_ms >= report.from_ms:
        return f"from {clock(incident.from_ms, zone)}"
    open_all_day = incident.to_ms is None and last_seen_open(incident, report.to_ms) is None
    return "all day" if open_all_day else "from the day before"


def _until(incident: ReportedIncident, report: Report, zone: ZoneInfo) -> str:
    if incident.to_ms is not None:
        whole = incident.from_ms is not None and incident.from_ms >= report.from_ms
        took = f" ({duration(incident.seconds)})" if whole else ""
        return f" until {clock(incident.to_ms, zone)}{took}"
    seen_ms = last_seen_open(incident, report.to_ms)
    return (
        ", still open"
        if seen_ms is None
        else f", open when last recorded at {clock(seen_ms, zone)}"
    )


def _objectives(report: Report) -> Iterator[str]:
    kept = report.objectives
    missed = [group for group in kept.groups if group.met is False]
    if not kept.groups:
        return
    goal = f"{duration(kept.objective_s)} for {share(kept.objective_share)} of the time"
    named = _namer(report)
    names = ", ".join(
        f"{named(row)} ({share(row.share)} in time, budget used {_used(row)})"
        for row in missed[:_SHOWN]
    )
    more = f" and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
    yield (
        f"Objective ({goal}): {len(kept.groups) - len(missed):,} of "
        f"{counted(len(kept.groups), 'group')} kept it"
        + (f"; missed by {names}{more}" if missed else "")
    )


def _used(kept: GroupObjective) -> str:
    """Of the budget of `budget_days`; more than all of it is overdrawn."""
    return used(None if kept.left is None else 1 - kept.left)


def _retention(report: Report) -> Iterator[str]:
    """One line for each group: what all its partitions lost, or the first that will."""
    groups: dict[tuple[str, str], list[RetentionRisk]] = {}
    for risk in report.retention:
        groups.setdefault((risk.cluster, risk.group), []).append(risk)
    for (cluster, group), risks in [*groups.items()][:_SHOWN]:
        yield f"Retention: {group} on {cluster}: {_at_risk(risks)}"
    yield from _more(len(groups), "group at risk", "groups at risk")


def _at_risk(risks: Sequence[RetentionRisk]) -> str:
    if messages := sum(risk.lost for risk in risks):
        most = max(risks, key=lambda risk: risk.lost)
        said = lost(messages, any(risk.lost_at_most for risk in risks))
        return f"{said} messages lost, most of {most.topic}/{most.partition}"
    first = min(risks, key=lambda risk: inf if risk.left_s is None else risk.left_s)
    place = f"{first.topic}/{first.partition}"
    if first.left_s is None:
        return f"far behind in {place}, of which messages were deleted in the day"
    return f"loses messages in {duration(first.left_s)}, first of {place}"


def _advice(report: Report) -> Iterator[str]:
    named = _namer(report)
    if report.groups and report.to_scale is None:
        yield "Scale: not known, of no group it is known what its consumers can do"
    wanted = [
        advised for advised in report.advice if advised.kind in {"add_partitions", "add_consumers"}
    ]
    for advised in wanted[:_SHOWN]:
        yield (
            f"Scale: {named(advised)} needs {counted(advised.needed or 0, 'consumer')} "
            f"for topic {advised.topic} "
            f"({advised.consumers if advised.consumers is not None else 'unknown'} now, "
            f"{counted(advised.partitions, 'partition')}): {advised.formula}"
        )
        if advised.hottest:
            yield f"  {advised.hottest}"
    yield from _more(len(wanted), "group to scale", "groups to scale")


def _deployments(report: Report) -> Iterator[str]:
    zone = ZoneInfo(report.time_zone)
    for deployment in report.deployments[:_SHOWN]:
        place = f"{deployment.group} on {deployment.cluster} {deployment.version or ''}".rstrip()
        yield (
            f"Deployed: {place} at {clock(deployment.at_ms, zone)}: {deployment.verdict}: "
            f"{_difference(deployment.before, deployment.after)}; back: {_way_back(deployment)}"
        )
        if offsets := _offsets(deployment.offsets):
            yield f"  offsets then: {offsets}"
    yield from _more(len(report.deployments), "deployment")


def _difference(before: Side, after: Side) -> str:
    sides = (
        ("mean lag", number(before.lag_avg), number(after.lag_avg)),
        ("time lag", duration(before.time_lag_max_s), duration(after.time_lag_max_s)),
        ("not OK", duration(before.not_ok_s), duration(after.not_ok_s)),
    )
    return ", ".join(f"{name} {old} → {new}" for name, old, new in sides)


def _offsets(offsets: Sequence[DeployedOffset]) -> str:
    """`orders/0 1,204, orders/1 980 and 3 more partitions`: where the group was."""
    known = [each for each in offsets if each.committed_offset is not None]
    shown = ", ".join(
        f"{each.topic}/{each.partition} {each.committed_offset:,}"
        for each in known[:_OFFSETS_SHOWN]
    )
    left = len(known) - _OFFSETS_SHOWN
    return f"{shown} and {counted(left, 'more partition')}" if left > 0 else shown


def _way_back(deployment: DeploymentDay) -> str:
    """What the plan would cost; the page and the JSON have it by partition."""
    plan = deployment.rollback
    if plan is None:
        return "no offsets were recorded"
    gone = f", {number(plan.deleted)} deleted" if plan.deleted else ""
    skipped = f", {number(plan.skipped)} skipped" if plan.skipped else ""
    return f"{number(plan.read_again)} messages read again{gone}{skipped}"


def _rest(report: Report) -> Iterator[str]:
    named = _namer(report)
    if report.groups and report.trend.changes is None:
        yield "Changed against the week before: not known, nothing could be compared"
    if report.trend.changes:
        shown = ", ".join(
            f"{named(change)} {_METRICS[change.metric]} {factor(change.ratio)}"
            for change in report.trend.changes[:_SHOWN]
        )
        yield f"Changed against the week before: {shown}"
    if report.groups_new:
        yield f"New: {', '.join(map(named, report.groups_new[:10]))}"
    if report.groups_gone:
        yield f"Gone: {', '.join(map(named, report.groups_gone[:10]))}"


def _namer(report: Report) -> Callable[[_OfGroup], str]:
    """How a group is named where it is one of many: with its cluster if there are several."""
    several = len(report.clusters) > 1
    return lambda row: f"{row.group} on {row.cluster}" if several else row.group


_METRICS: Final = {"time_lag_s": "time lag", "lag": "lag", "produced_per_s": "messages produced"}


def _more(count: int, single: str, many: str = "") -> Iterator[str]:
    left = count - _SHOWN
    if left > 0:
        yield f"… and {left:,} more {single if left == 1 else many or single + 's'}"
