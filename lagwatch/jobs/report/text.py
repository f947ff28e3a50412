"""The report in a few lines, for chats and mail."""

from collections.abc import Iterator
from typing import Final
from zoneinfo import ZoneInfo

from lagwatch.core.words import printable, spoken
from lagwatch.jobs.report.model import GroupObjective, Report
from lagwatch.jobs.report.words import (
    catch_up,
    clock,
    duration,
    factor,
    loss,
    number,
    plural,
    share,
    time_lag,
    used,
)

MOST_LINES: Final = 30
_SHOWN: Final = 3
"""Maximum number of lines for each kind of trouble."""


def subject(report: Report) -> str:
    """One line with the most important finding."""
    troubled = len({(incident.cluster, incident.group) for incident in report.incidents})
    if not report.groups:
        return f"Consumer lag on {report.day}: nothing was recorded"
    if not report.incidents:
        return f"Consumer lag on {report.day}: no incident in {plural(len(report.groups), 'group')}"
    return (
        f"Consumer lag on {report.day}: {plural(len(report.incidents), 'incident')} in "
        f"{troubled:,} of {plural(len(report.groups), 'group')}"
    )


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
    for row in report.to_do[:_SHOWN]:
        yield (
            f"To do: {row.group} on {row.cluster} is {row.status}: lag {number(row.lag)}; "
            f"time lag {time_lag(row.time_lag_s, row.time_lag_bound)}; "
            f"catch-up: {catch_up(row.catch_up_s, row.catch_up_reason)}; "
            f"loss: {loss(row.loss_in_s, row.loss_reason, row.lost)}"
        )
        if row.cause_text:
            yield f"  {row.cause_text}"
    yield from _more(len(report.to_do), "group in trouble", "groups in trouble")


def _incidents(report: Report) -> Iterator[str]:
    zone = ZoneInfo(report.time_zone)
    for incident in report.incidents[:_SHOWN]:
        since = (
            "all day"
            if incident.from_ms is None or incident.from_ms < report.from_ms
            else f"from {clock(incident.from_ms, zone)}"
        )
        until = (
            ", still open" if incident.to_ms is None else f" until {clock(incident.to_ms, zone)}"
        )
        if since == "all day" and incident.to_ms is not None:
            since = "from the day before"
        rule = f" ({spoken(incident.rule)})" if incident.rule else ""
        cause = f": {spoken(incident.cause)} ({incident.cause_certainty})" if incident.cause else ""
        lags = f"; lag {number(incident.lag_max)}, time lag {duration(incident.time_lag_max_s)}"
        place = f"{incident.worst} {incident.group} on {incident.cluster}{rule}"
        yield f"{place} {since}{until}{cause}{lags}"
    yield from _more(len(report.incidents), "incident")


def _objectives(report: Report) -> Iterator[str]:
    kept = report.objectives
    missed = [group for group in kept.groups if group.met is False]
    if not kept.groups:
        return
    goal = f"{duration(kept.objective_s)} for {share(kept.objective_share)} of the time"
    names = ", ".join(
        f"{row.group} ({share(row.share)} in time, budget used {_used(row)})"
        for row in missed[:_SHOWN]
    )
    more = f" and {len(missed) - _SHOWN} more" if len(missed) > _SHOWN else ""
    yield (
        f"Objective ({goal}): {len(kept.groups) - len(missed):,} of "
        f"{plural(len(kept.groups), 'group')} kept it"
        + (f"; missed by {names}{more}" if missed else "")
    )


def _used(kept: GroupObjective) -> str:
    """Of the budget of `budget_days`; more than all of it is overdrawn."""
    return used(None if kept.left is None else 1 - kept.left)


def _retention(report: Report) -> Iterator[str]:
    groups = {(risk.cluster, risk.group): risk for risk in reversed(report.retention)}
    for risk in [*groups.values()][::-1][:_SHOWN]:
        what = f"{risk.lost:,} messages lost" if risk.lost else f"loses in {duration(risk.left_s)}"
        yield f"Retention: {risk.group} on {risk.cluster}, {risk.topic}/{risk.partition}: {what}"


def _advice(report: Report) -> Iterator[str]:
    wanted = [
        advised for advised in report.advice if advised.kind in {"add_partitions", "add_consumers"}
    ]
    for advised in wanted[:_SHOWN]:
        yield (
            f"Scale: {advised.group} on {advised.topic} needs "
            f"{plural(advised.needed or 0, 'consumer')} "
            f"({advised.consumers if advised.consumers is not None else 'unknown'} now, "
            f"{plural(advised.partitions, 'partition')}): {advised.formula}"
        )
    yield from _more(len(wanted), "group to scale", "groups to scale")


def _deployments(report: Report) -> Iterator[str]:
    for deployment in report.deployments[:_SHOWN]:
        plan = deployment.rollback
        back = f"; back: {number(plan.read_again)} messages again" if plan else ""
        gone = f", {number(plan.deleted)} deleted" if plan and plan.deleted else ""
        what = f"{deployment.group} {deployment.version or ''}: {deployment.verdict}"
        yield f"Deployed: {what}{back}{gone}"


def _rest(report: Report) -> Iterator[str]:
    if report.trend.changes:
        shown = ", ".join(
            f"{change.group} {_METRICS[change.metric]} {factor(change.ratio)}"
            for change in report.trend.changes[:_SHOWN]
        )
        yield f"Changed against the week before: {shown}"
    if report.groups_new:
        yield f"New: {', '.join(place.group for place in report.groups_new[:10])}"
    if report.groups_gone:
        yield f"Gone: {', '.join(place.group for place in report.groups_gone[:10])}"


_METRICS: Final = {"time_lag_s": "time lag", "lag": "lag", "produced_per_s": "messages produced"}


def _more(count: int, single: str, many: str = "") -> Iterator[str]:
    left = count - _SHOWN
    if left > 0:
        yield f"… and {left:,} more {single if left == 1 else many or single + 's'}"
