"""From the history to the report: runs the transforms and puts what they give in order."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from lagwatch import __version__
from lagwatch.config.jobs import ReportSettings
from lagwatch.core.advise import Advice, AdviceKind, Load, advise
from lagwatch.core.record import Kind
from lagwatch.core.trend import TEST, Comparison, significant
from lagwatch.jobs.report import (
    deployments,
    groups,
    incidents,
    loads,
    objectives,
    retention,
    skew,
    trends,
    turnover,
)
from lagwatch.jobs.report.day import HOUR_MS, Day
from lagwatch.jobs.report.frames import (
    EVENT_COLUMNS,
    GROUP,
    GROUP_BUCKETS,
    GROUP_ROUNDS,
    OFFSETS,
    PARTITION_BUCKETS,
    History,
    within,
)
from lagwatch.jobs.report.model import (
    VERSION,
    Change,
    ClusterDay,
    DeploymentDay,
    GroupDay,
    GroupObjective,
    HeatHour,
    HeatMap,
    HeatRow,
    Incident,
    Objectives,
    Report,
    RetentionRisk,
    Side,
    Skew,
    TopicAdvice,
    Trend,
    Turn,
)
from lagwatch.jobs.report.verdict import verdict
from lagwatch.jobs.tables import StoreRef, on_sound_files

HEAT_ROWS: Final = 40
_GAP_TOLD_S: Final = 120.0
"""Less than this not recorded is not worth a note."""
_KINDS: Final = tuple(AdviceKind)

Told = Callable[[str, Mapping[str, Any]], None]
"""Called with an event and what goes with it, for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """What is wanted."""

    day: Day
    settings: ReportSettings
    clusters: Sequence[str] = ()
    """() all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """The report, and what could not be used."""

    report: Report
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """File → reason."""

    def counts(self) -> Mapping[str, int]:
        """For metrics of the run."""
        report = self.report
        return {
            "groups": len(report.groups),
            "incidents": len(report.incidents),
            "deployments": len(report.deployments),
        }


def run_report(
    spark: SparkSession, ref: StoreRef, request: ReportRequest, *, now_ms: int, told: Told
) -> ReportResult:
    """The report of a day. A day of which nothing is known gives an empty one that says so.

    Raises:
        HistoryError: the store did not answer.
    """

    def make() -> ReportResult:
        aside: dict[str, str] = {}
        history = History(
            spark=spark, ref=ref, clusters=tuple(request.clusters), aside=aside.__setitem__
        )
        report = _Builder(history, request, told).build(now_ms, aside)
        return ReportResult(report=report, set_aside=aside)

    return on_sound_files(ref, make)


class _Builder:
    """One report in the making."""

    def __init__(self, history: History, request: ReportRequest, told: Told) -> None:
        self._history = history
        self._day = request.day
        self._settings = request.settings
        self._told = told

    def build(self, now_ms: int, aside: Mapping[str, str]) -> Report:
        day = self._day
        with _kept(self._group_buckets()) as buckets:
            of_groups = self._groups(buckets)
            days = self._clusters(of_groups)
            heat = self._heat(buckets, of_groups)
            trend, week_known = self._trend(buckets)
            came, went = self._turns(buckets)
            found = self._incidents(buckets)
            deployed = self._deployments(buckets)
        risks, risks_known = self._retention()
        return Report(
            version=VERSION,
            lagwatch=__version__,
            day=day.date.isoformat(),
            time_zone=day.zone.key,
            from_ms=day.from_ms,
            to_ms=day.to_ms,
            seconds=day.seconds,
            made_ms=now_ms,
            clusters=days,
            groups=of_groups,
            objectives=self._objectives(),
            trend=trend,
            heat=heat,
            groups_new=came,
            groups_gone=went,
            turnover_known=week_known,
            incidents=found,
            retention=risks,
            retention_known=risks_known,
            skew=self._skew(),
            deployments=deployed,
            advice_days=loads.DAYS,
            advice=self._advice(),
            notes=tuple(self._notes(days, aside, week_known=week_known, risks_known=risks_known)),
        )

    # what is read

    def _group_buckets(self) -> DataFrame:
        """Of the day, the week before it, and the hour after it for late deployments."""
        from_ms = self._day.before(trends.DAYS_BEFORE).from_ms
        to_ms = self._day.to_ms + HOUR_MS + 1
        return self._history.rows(Kind.ROLLUP_5M, from_ms, to_ms, GROUP_BUCKETS, "group")

    @cached_property
    def _partition_buckets(self) -> DataFrame:
        """Of the days that advice is made from."""
        from_ms = self._day.before(loads.DAYS - 1).from_ms
        return self._history.rows(
            Kind.ROLLUP_5M, from_ms, self._day.to_ms, PARTITION_BUCKETS, "partition"
        )

    @cached_property
    def _rounds(self) -> DataFrame:
        """Of the days that budgets are made from."""
        from_ms = self._day.before(objectives.BUDGET_DAYS - 1).from_ms
        return self._history.rows(Kind.GROUP_SAMPLES, from_ms, self._day.to_ms, GROUP_ROUNDS)

    @cached_property
    def _events(self) -> DataFrame:
        """Of the day and the week before it, in which what is open now may have begun."""
        from_ms = self._day.before(trends.DAYS_BEFORE).from_ms
        return self._history.rows(Kind.EVENTS, from_ms, self._day.to_ms, EVENT_COLUMNS)

    def _collected(self, part: str, rows: DataFrame) -> list[dict[str, Any]]:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        self._told("report_part", {"part": part, "rows": len(found)})
        return found

    # the parts

    def _groups(self, buckets: DataFrame) -> list[GroupDay]:
        rows = self._collected("groups", buckets.transform(groups.by_group(self._day)))
        found = [GroupDay(**row) for row in rows]
        return sorted(
            found,
            key=lambda one: (_least(one.time_lag_max_s), _least(one.lag_max), *_names(one)),
        )

    def _clusters(self, of_groups: Sequence[GroupDay]) -> list[ClusterDay]:
        rows = self._collected("clusters", self._rounds.transform(groups.recorded(self._day)))
        recorded = {row["cluster"]: float(row["recorded_s"] or 0) for row in rows}
        names = sorted({*recorded, *(one.cluster for one in of_groups), *self._history.clusters})
        return [
            _cluster(name, [one for one in of_groups if one.cluster == name], recorded)
            for name in names
        ]

    def _heat(self, buckets: DataFrame, of_groups: Sequence[GroupDay]) -> HeatMap:
        troubled = sorted(
            of_groups,
            key=lambda one: (_least(one.not_ok_s), _least(one.time_lag_max_s), *_names(one)),
        )
        shown = [(one.cluster, one.group) for one in troubled[:HEAT_ROWS]]
        hours = self._day.hours
        chosen = self._history.spark.createDataFrame(
            shown, T.StructType([T.StructField(name, T.StringType()) for name in GROUP])
        )
        cells = self._collected(
            "heat",
            buckets.transform(groups.by_hour(self._day)).join(
                chosen, on=list(GROUP), how="left_semi"
            ),
        )
        at = {(cell["cluster"], cell["group"], cell["hour"]): cell for cell in cells}
        return HeatMap(
            hours=tuple(
                HeatHour(label=hour.label, from_ms=hour.from_ms, to_ms=hour.to_ms) for hour in hours
            ),
            rows=tuple(
                _heat_row(
                    cluster,
                    group,
                    [at.get((cluster, group, hour), {}) for hour in range(len(hours))],
                )
                for cluster, group in shown
            ),
            left_out=len(of_groups) - len(shown),
        )

    def _objectives(self) -> Objectives:
        settings = self._settings
        transform = objectives.by_group(self._day, settings.objective_s, settings.objective_share)
        rows = self._collected("objectives", self._rounds.transform(transform))
        found = [GroupObjective(**row) for row in rows]
        return Objectives(
            objective_s=settings.objective_s,
            objective_share=settings.objective_share,
            budget_days=objectives.BUDGET_DAYS,
            groups=sorted(found, key=lambda one: (one.left or 0.0, one.share or 0.0, *_names(one))),
        )

    def _trend(self, buckets: DataFrame) -> tuple[Trend, bool]:
        quarters = self._history.quarters(self._day, trends.DAYS_BEFORE)
        hours = buckets.transform(trends.by_wall_hour(quarters))
        days = {row["days_ago"] for row in hours.select("days_ago").distinct().collect()}
        rows = self._collected("trend", hours.transform(trends.compared))
        rows.sort(key=lambda row: (row["cluster"], row["group"], row["metric"]))
        series = [(row, _comparison(row)) for row in rows]
        told = significant([comparison for _, comparison in series])
        changes = [_change(*series[position], p) for position, p in told]
        changes.sort(
            key=lambda one: (-abs(one.now - one.before) / (abs(one.before) or 1.0), *_names(one))
        )
        trend = Trend(
            test=TEST,
            days_before=len(days - {0}),
            compared=len(series),
            changes=changes,
        )
        return trend, bool(days - {0})

    def _turns(self, buckets: DataFrame) -> tuple[list[Turn], list[Turn]]:
        rows = self._collected("turnover", buckets.transform(turnover.turns(self._day)))
        rows.sort(key=lambda row: (row["at_ms"], row["cluster"], row["group"]))
        new, gone = (
            [
                Turn(cluster=row["cluster"], group=row["group"], at_ms=row["at_ms"], lag=row["lag"])
                for row in rows
                if row["turn"] == turn
            ]
            for turn in ("new", "gone")
        )
        return new, gone

    def _incidents(self, buckets: DataFrame) -> list[Incident]:
        rows = self._collected(
            "incidents",
            self._events.transform(incidents.spells).transform(
                incidents.of_day(self._day, buckets)
            ),
        )
        found = [Incident(**row) for row in rows]
        return sorted(
            found,
            key=lambda one: (one.worst != "ERR", -one.seconds, *_names(one), one.from_ms or 0),
        )

    def _deployments(self, buckets: DataFrame) -> list[DeploymentDay]:
        transform = deployments.around(self._day, buckets)
        rows = self._collected("deployments", self._events.transform(transform))
        found = [_deployment(row) for row in rows]
        return sorted(found, key=lambda one: (one.at_ms, *_names(one)))

    def _retention(self) -> tuple[list[RetentionRisk], bool]:
        """Partitions at risk, and whether there is anything to judge by."""
        samples = self._history.rows(Kind.SAMPLES, self._day.from_ms, self._day.to_ms, OFFSETS)
        rows = self._collected("retention", samples.transform(retention.risks(self._day)))
        found = [RetentionRisk(**row) for row in rows]
        found.sort(
            key=lambda one: (-one.lost, _most(one.left_s), *_names(one), one.topic, one.partition)
        )
        return found, bool(found) or not samples.isEmpty()

    def _skew(self) -> list[Skew]:
        rows = self._collected("skew", self._partition_buckets.transform(skew.skewed(self._day)))
        found = [Skew(**row) for row in rows]
        return sorted(
            found,
            key=lambda one: (-one.factor, one.cluster, one.topic, one.group or "", one.partition),
        )

    def _advice(self) -> list[TopicAdvice]:
        with _kept(self._partition_buckets.transform(loads.by_owner)) as held:
            from_ms = self._day.before(loads.DAYS - 1).from_ms
            rounds = self._rounds.where(within("at_ms", from_ms, self._day.to_ms))
            transform = loads.loads(rounds)
            rows = self._collected("advice", held.transform(transform))
        found = [_advice(row, self._settings.headroom) for row in rows]
        return sorted(
            found,
            key=lambda one: (
                _KINDS.index(AdviceKind(one.kind)),
                -(one.needed or 0),
                *_names(one),
                one.topic,
            ),
        )

    def _notes(
        self,
        days: Sequence[ClusterDay],
        aside: Mapping[str, str],
        *,
        week_known: bool,
        risks_known: bool,
    ) -> Iterator[str]:
        """What must be known to read the rest."""
        if not any(one.groups for one in days):
            yield "There are no roll-ups of this day: run `lagwatch rollup` first."
        for one in days:
            missing_s = self._day.seconds - one.recorded_s
            if missing_s >= _GAP_TOLD_S:
                yield (
                    f"{one.cluster} was recorded for {one.recorded_s / 3600:.1f} of "
                    f"{self._day.seconds / 3600:g} hours; numbers are of that time only."
                )
        if days and not week_known:
            yield "Nothing is recorded of the week before: there is nothing to compare with."
        if days and not risks_known:
            yield "There are no samples of partitions of this day: retention cannot be judged."
        if aside:
            yield (
                f"{len(aside)} files of the history could not be used and were set aside; "
                "`lagwatch history verify` names them."
            )


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that several parts read: computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


def _names(one: Any) -> tuple[str, str]:  # noqa: ANN401 whatever has a cluster and a group
    return one.cluster, one.group


def _least(value: float | None) -> float:
    """Greatest first, unknown last."""
    return 1.0 if value is None else -value


def _most(value: float | None) -> float:
    """Least first, unknown last."""
    return float("inf") if value is None else value


def _cluster(name: str, of_groups: Sequence[GroupDay], recorded: Mapping[str, float]) -> ClusterDay:
    return ClusterDay(
        cluster=name,
        groups=len(of_groups),
        recorded_s=recorded.get(name, 0.0),
        not_ok_s=sum(one.not_ok_s or 0.0 for one in of_groups),
        produced=_total(one.produced for one in of_groups),
        consumed=_total(one.consumed for one in of_groups),
        rebalances=_total(one.rebalances for one in of_groups),
    )


def _total(values: Iterable[int | None]) -> int | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _heat_row(cluster: str, group: str, cells: Sequence[Mapping[str, Any]]) -> HeatRow:
    return HeatRow(
        cluster=cluster,
        group=group,
        lag_max=tuple(cell.get("lag_max") for cell in cells),
        time_lag_max_s=tuple(cell.get("time_lag_max_s") for cell in cells),
        status=tuple(cell.get("status") for cell in cells),
    )


def _comparison(row: Mapping[str, Any]) -> Comparison:
    return Comparison(
        now=row["now"],
        before=row["before"],
        lowest=row["lowest"],
        highest=row["highest"],
        p=row["p"],
        hours=row["hours"],
    )


def _change(row: Mapping[str, Any], found: Comparison, p: float) -> Change:
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


def _deployment(row: Mapping[str, Any]) -> DeploymentDay:
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
    """The note in an event's detail; "" when there is none, or somebody else wrote the event."""
    try:
        found = json.loads(detail or "{}")
    except ValueError:
        return ""
    return str(found.get("note", "")) if isinstance(found, dict) else ""


def _advice(row: Mapping[str, Any], headroom: float) -> TopicAdvice:
    load = Load(
        peak_per_s=row["peak_per_s"],
        buckets=row["buckets"],
        rate_per_s=row["rate_per_s"],
        saturated_buckets=row["saturated_buckets"],
        unowned_buckets=row["unowned_buckets"],
        partly_buckets=row["partly_buckets"],
        read_share=row["read_share"],
        partitions=row["partitions"],
        consumers=row["consumers"],
    )
    advice: Advice = advise(load, headroom=headroom)
    return TopicAdvice(
        **row,
        kind=advice.kind.value,
        needed=advice.needed,
        headroom=headroom,
        reason=advice.reason,
    )
