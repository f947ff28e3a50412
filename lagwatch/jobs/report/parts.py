"""From the rows of the transforms to the parts of the report, in the order shown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagwatch.core.advise import Load, advise
from lagwatch.core.trend import Comparison
from lagwatch.jobs.report.model import (
    Change,
    ClusterDay,
    DeploymentDay,
    GroupDay,
    HeatRow,
    Side,
    TopicAdvice,
)
from lagwatch.jobs.report.words import verdict


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


def change(row: Mapping[str, Any], found: Comparison, p: float) -> Change:
    """A significant comparison; `p` is corrected."""
    return Change(
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


def deployment_day(row: Mapping[str, Any]) -> DeploymentDay:
    """A row of `deployments.around`."""
    sides = [
        Side(**{name: row[f"{side}_{name}"] for name in Side.__slots__})
        for side in ("before", "after")
    ]
    return DeploymentDay(
        cluster=row["cluster"],
        group=row["group"],
        at_ms=row["at_ms"],
        version=row["version"],
        note=_note(row["detail"]),
        partitions=row["partitions"],
        before=sides[0],
        after=sides[1],
        verdict=verdict(*sides),
    )


def _note(detail: str | None) -> str:
    """The note in an event's detail; "" when there is none, or another program wrote the event."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return ""
    return str(found.get("note", "")) if isinstance(found, dict) else ""


def topic_advice(row: Mapping[str, Any], headroom: float) -> TopicAdvice:
    """A row of `loads.loads` with the advice that follows from it."""
    load = Load(**{name: row[name] for name in Load.__slots__})
    advice = advise(load, headroom=headroom)
    return TopicAdvice(
        **row,
        kind=advice.kind.value,
        needed=advice.needed,
        headroom=headroom,
        reason=advice.reason,
    )
