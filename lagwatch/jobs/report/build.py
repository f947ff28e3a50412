"""Builds the report from the history: runs the transforms and sorts their results."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lagwatch import __version__
from lagwatch.config.jobs import ReportSettings
from lagwatch.core.advise import AdviceKind
from lagwatch.core.record import Kind
from lagwatch.core.rollback import Standing
from lagwatch.core.trend import TEST, significant
from lagwatch.core.words import counted
from lagwatch.jobs.report import (
    deployments,
    groups,
    incidents,
    loads,
    objectives,
    retention,
    skew,
    trends,
    troubles,
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
    HistoryTables,
    within,
)
from lagwatch.jobs.report.model import (
    VERSION,
    ClusterDay,
    DeploymentDay,
    GroupDay,
    GroupObjective,
    GroupTurn,
    HeatHour,
    HeatMap,
    ObjectivesKept,
    Report,
    ReportedIncident,
    RetentionRisk,
    Skew,
    ToDo,
    TopicAdvice,
    Trend,
)
from lagwatch.jobs.report.parts import (
    change,
    cluster_day,
    comparison,
    deployment_day,
    greatest_first,
    heat_row,
    least_first,
    names,
    to_do,
    topic_advice,
    urgency,
    with_hottest,
    with_rounds,
)
from lagwatch.jobs.report.words import as_of, moment
from lagwatch.jobs.tables import StoreRef, on_sound_files

HEAT_ROWS: Final = 40
_AT_ONCE: Final = 3
"""Parts that are made at the same time: of a small day most time goes into planning each."""
_NAMED: Final = 5
"""Groups that a note names."""
_SHOWN_GAP_S: Final = 120.0
"""Gaps in recording shorter than this get no note."""
_LOOK_AFTER_MS: Final = 7 * 24 * HOUR_MS
"""Samples are looked for so long after a day on which nothing was recorded."""
_KINDS: Final = tuple(AdviceKind)

LogStep = Callable[[str, Mapping[str, Any]], None]
"""Log callback: event name and fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """Day, clusters and objectives of a report."""

    day: Day
    settings: ReportSettings
    clusters: Sequence[str] = ()
    """() all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportResult:
    """The report, and the files that were skipped."""

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
    spark: SparkSession, ref: StoreRef, request: ReportRequest, *, now_ms: int, log_step: LogStep
) -> ReportResult:
    """The report of a day; empty, with a note, when nothing is known of the day.

    Raises:
        HistoryError: the store did not answer.
    """

    def make() -> ReportResult:
        aside: dict[str, str] = {}
        history = HistoryTables(
            spark=spark, ref=ref, clusters=tuple(request.clusters), aside=aside.__setitem__
        )
        report = _Builder(history, request, log_step).build(now_ms, aside)
        return ReportResult(report=report, set_aside=aside)

    return on_sound_files(ref, make)


class _Builder:
    """One report in the making."""

    def __init__(self, history: HistoryTables, request: ReportRequest, log_step: LogStep) -> None:
        self._history = history
        self._day = request.day
        self._settings = request.settings
        self._log_step = log_step

    def build(self, now_ms: int, aside: Mapping[str, str]) -> Report:
        day = self._day
        rounds, partitions = self._rounds, self._partition_buckets
        with (
            _kept(self._group_buckets()) as buckets,
            _kept(self._events) as events,
            _parts_at_once() as pool,
        ):
            of_groups = self._groups(buckets)  # the first part computes what others read as well
            advice = pool.submit(self._advice, partitions, rounds)
            retention_risks = pool.submit(self._retention, events)
            clusters = pool.submit(self._clusters, rounds, of_groups)
            heat = pool.submit(self._heat, buckets, of_groups)
            trend = pool.submit(self._trend, buckets)
            turns = pool.submit(self._turns, buckets, events)
            incidents_found = pool.submit(self._incidents, buckets, rounds, events)
            deployed = pool.submit(self._deployments, buckets, events)
            kept = pool.submit(self._objectives, rounds)
            skewed = pool.submit(self._skew, partitions)
            found, (risks, risks_known) = incidents_found.result(), retention_risks.result()
            days, (compared, week_known) = clusters.result(), trend.result()
            came, went = turns.result()
            uneven = skewed.result()
            to_do_now = self._to_do(rounds, events, found, risks)
            only_coarse = not (of_groups or aside) and self._has_coarse_rollups()
            return Report(
                version=VERSION,
                lagwatch=__version__,
                day=day.date.isoformat(),
                time_zone=day.zone.key,
                from_ms=day.from_ms,
                to_ms=day.to_ms,
                seconds=day.seconds,
                made_ms=now_ms,
                to_do=to_do_now,
                clusters=days,
                groups=of_groups,
                objectives=kept.result(),
                trend=compared,
                heat=heat.result(),
                groups_new=came,
                groups_gone=went,
                turnover_known=week_known,
                incidents=found,
                retention=risks,
                retention_known=risks_known,
                skew=uneven,
                deployments=deployed.result(),
                advice_days=loads.DAYS,
                advice=with_hottest(advice.result(), uneven),
                unreadable_files=len(aside),
                only_coarse=only_coarse,
                notes=(
                    *_aside_note(aside),
                    *self._notes(
                        days,
                        of_groups,
                        unreadable=bool(aside),
                        only_coarse=only_coarse,
                        week_known=week_known,
                        risks_known=risks_known,
                    ),
                ),
            )

    # what is read

    def _group_buckets(self) -> DataFrame:
        """Of the day, the week before it, and the hour after it for late deployments."""
        from_ms = self._day.before(trends.DAYS_BEFORE).from_ms
        to_ms = self._day.to_ms + HOUR_MS + 1
        return self._history.rows(Kind.ROLLUP_5M, from_ms, to_ms, GROUP_BUCKETS, "group")

    @property
    def _partition_buckets(self) -> DataFrame:
        """Of the days that advice is made from."""
        from_ms = self._day.before(loads.DAYS - 1).from_ms
        return self._history.rows(
            Kind.ROLLUP_5M, from_ms, self._day.to_ms, PARTITION_BUCKETS, "partition"
        )

    @property
    def _rounds(self) -> DataFrame:
        """Of the days that budgets are made from."""
        from_ms = self._day.before(objectives.BUDGET_DAYS - 1).from_ms
        return self._history.rows(Kind.GROUP_SAMPLES, from_ms, self._day.to_ms, GROUP_ROUNDS)

    @property
    def _events(self) -> DataFrame:
        """Events of the day and the week before, when incidents still open may have begun."""
        from_ms = self._day.before(trends.DAYS_BEFORE).from_ms
        return self._history.rows(Kind.EVENTS, from_ms, self._day.to_ms, EVENT_COLUMNS)

    def _collected(self, part: str, rows: DataFrame) -> list[dict[str, Any]]:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        self._log_step("report_part", {"part": part, "rows": len(found)})
        return found

    # the parts

    def _groups(self, buckets: DataFrame) -> list[GroupDay]:
        rows = self._collected("groups", buckets.transform(groups.by_group(self._day)))
        found = [GroupDay(**row) for row in rows]
        return sorted(
            found,
            key=lambda row: (
                greatest_first(row.time_lag_max_s),
                greatest_first(row.lag_max),
                *names(row),
            ),
        )

    def _clusters(self, rounds: DataFrame, of_groups: Sequence[GroupDay]) -> list[ClusterDay]:
        rows = self._collected("clusters", rounds.transform(groups.recorded(self._day)))
        recorded = {row["cluster"]: float(row["recorded_s"] or 0) for row in rows}
        clusters = sorted({*recorded, *(row.cluster for row in of_groups), *self._history.clusters})
        return [
            cluster_day(name, [row for row in of_groups if row.cluster == name], recorded)
            for name in clusters
        ]

    def _heat(self, buckets: DataFrame, of_groups: Sequence[GroupDay]) -> HeatMap:
        troubled = sorted(
            of_groups,
            key=lambda row: (
                greatest_first(row.not_ok_s),
                greatest_first(row.time_lag_max_s),
                *names(row),
            ),
        )
        shown = [(row.cluster, row.group) for row in troubled[:HEAT_ROWS]]
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
                heat_row(
                    cluster,
                    group,
                    [at.get((cluster, group, hour), {}) for hour in range(len(hours))],
                )
                for cluster, group in shown
            ),
            left_out=len(of_groups) - len(shown),
        )

    def _objectives(self, rounds: DataFrame) -> ObjectivesKept:
        settings = self._settings
        transform = objectives.by_group(self._day, settings.objective_s, settings.objective_share)
        rows = self._collected("objectives", rounds.transform(transform))
        found = [GroupObjective(**row) for row in rows]
        return ObjectivesKept(
            objective_s=settings.objective_s,
            objective_share=settings.objective_share,
            budget_days=objectives.BUDGET_DAYS,
            groups=sorted(
                found,
                key=lambda objective: (
                    objective.left or 0.0,
                    objective.share or 0.0,
                    *names(objective),
                ),
            ),
        )

    def _trend(self, buckets: DataFrame) -> tuple[Trend, bool]:
        quarters = self._history.quarters(self._day, trends.DAYS_BEFORE)
        hours = buckets.transform(trends.by_wall_hour(quarters))
        days = {row["days_ago"] for row in hours.select("days_ago").distinct().collect()}
        rows = self._collected("trend", hours.transform(trends.compared))
        rows.sort(key=lambda row: (row["cluster"], row["group"], row["metric"]))
        series = [(row, comparison(row)) for row in rows]
        kept = significant([found for _, found in series])
        changes = [change(*series[position], p) for position, p in kept]
        changes.sort(
            key=lambda change: (
                -abs(change.now - change.before) / (abs(change.before) or 1.0),
                *names(change),
            )
        )
        trend = Trend(
            test=TEST,
            days_before=len(days - {0}),
            compared=len(series),
            changes=changes if series else None,
        )
        return trend, bool(days - {0})

    def _turns(
        self, buckets: DataFrame, events: DataFrame
    ) -> tuple[list[GroupTurn], list[GroupTurn]]:
        rows = self._collected("turnover", buckets.transform(turnover.turns(self._day, events)))
        rows.sort(key=lambda row: (row["at_ms"], row["cluster"], row["group"]))
        new, gone = (
            [
                GroupTurn(
                    cluster=row["cluster"], group=row["group"], at_ms=row["at_ms"], lag=row["lag"]
                )
                for row in rows
                if row["turn"] == turn
            ]
            for turn in ("new", "gone")
        )
        return new, gone

    def _incidents(
        self, buckets: DataFrame, rounds: DataFrame, events: DataFrame
    ) -> list[ReportedIncident]:
        of_day = incidents.of_day(self._day, buckets, rounds)
        rows = self._collected("incidents", events.transform(incidents.spells).transform(of_day))
        found = self._with_rounds([ReportedIncident(**row) for row in rows], rounds, events)
        return sorted(
            found,
            key=lambda incident: (
                incident.worst != "ERR",
                -incident.seconds,
                *names(incident),
                incident.from_ms or 0,
            ),
        )

    def _with_rounds(
        self, found: Sequence[ReportedIncident], rounds: DataFrame, events: DataFrame
    ) -> list[ReportedIncident]:
        if not found:
            return []
        day = self._day
        spells = self._history.spark.createDataFrame(
            [
                (
                    number,
                    *names(each),
                    max(each.from_ms or day.from_ms, day.from_ms),
                    min(each.to_ms or day.to_ms, day.to_ms),
                )
                for number, each in enumerate(found)
            ],
            troubles.SPELLS,
        )
        of_day = rounds.where(within("at_ms", day.from_ms, day.to_ms))
        counted = self._collected("causes", of_day.transform(troubles.causes(spells)))
        said = self._collected("sentences", events.transform(troubles.sentences(spells)))
        rows: list[list[Mapping[str, Any]]] = [[] for _ in found]
        for row in counted:
            rows[row["incident"]].append(row)
        words: list[dict[str | None, str]] = [{} for _ in found]
        for row in said:
            if row["sentence"]:
                words[row["incident"]][row["cause"]] = as_of(
                    row["sentence"], row["at_ms"], self._day.zone
                )
        return [with_rounds(*each) for each in zip(found, rows, words, strict=True)]

    def _to_do(
        self,
        rounds: DataFrame,
        events: DataFrame,
        found: Sequence[ReportedIncident],
        risks: Sequence[RetentionRisk],
    ) -> list[ToDo]:
        rows = self._collected("to_do", rounds.transform(troubles.standing(self._day, events)))
        open_now = {names(each): each for each in found if each.to_ms is None}
        at_risk: dict[tuple[str, str], list[RetentionRisk]] = {}
        for risk in risks:
            at_risk.setdefault(names(risk), []).append(risk)
        return sorted(
            (
                to_do(row, open_now.get(place), at_risk.get(place, ()))
                for row in rows
                for place in ((row["cluster"], row["group"]),)
            ),
            key=urgency,
        )

    def _deployments(self, buckets: DataFrame, events: DataFrame) -> list[DeploymentDay]:
        transform = deployments.around(self._day, buckets)
        rows = self._collected("deployments", events.transform(transform))
        now = self._newest_offsets({(row["cluster"], row["group"]) for row in rows})
        found = [deployment_day(row, now.get((row["cluster"], row["group"]))) for row in rows]
        return sorted(found, key=lambda deployment: (deployment.at_ms, *names(deployment)))

    def _newest_offsets(
        self, wanted: Collection[tuple[str, str]]
    ) -> dict[tuple[str, str], dict[tuple[str, int], Standing]]:
        """Of the partitions of these groups, by group, then topic and partition."""
        if not wanted:
            return {}
        groups_wanted = [group for _, group in wanted]
        samples = self._history.rows(Kind.SAMPLES, self._day.from_ms, self._day.to_ms, OFFSETS)
        mine = samples.where(F.col("group").isin(*groups_wanted))
        found: dict[tuple[str, str], dict[tuple[str, int], Standing]] = {}
        for row in self._collected("offsets", mine.transform(troubles.newest_offsets)):
            of_group = found.setdefault((row["cluster"], row["group"]), {})
            of_group[row["topic"], row["partition"]] = Standing(
                committed=row["committed_offset"],
                log_start=row["log_start_offset"],
                log_end=row["log_end_offset"],
            )
        return found

    def _retention(self, events: DataFrame) -> tuple[list[RetentionRisk], bool]:
        """Partitions at risk, and whether there is anything to judge by."""
        samples = self._history.rows(
            Kind.SAMPLES, self._day.from_ms, self._day.to_ms, retention.COLUMNS
        )
        transform = retention.risks(self._day, events)
        rows = self._collected("retention", samples.transform(transform))
        found = [RetentionRisk(**row) for row in rows]
        found.sort(
            key=lambda risk: (
                -risk.lost,
                least_first(risk.left_s),
                *names(risk),
                risk.topic,
                risk.partition,
            )
        )
        return found, bool(found) or not samples.isEmpty()

    def _skew(self, partitions: DataFrame) -> list[Skew]:
        rows = self._collected("skew", partitions.transform(skew.skewed(self._day)))
        found = [Skew(**row) for row in rows]
        return sorted(
            found,
            key=lambda skewed: (
                -skewed.factor,
                skewed.cluster,
                skewed.topic,
                skewed.group or "",
                skewed.partition,
            ),
        )

    def _advice(self, partitions: DataFrame, rounds: DataFrame) -> list[TopicAdvice]:
        with _kept(partitions.transform(loads.by_owner)) as held:
            from_ms = self._day.before(loads.DAYS - 1).from_ms
            transform = loads.loads(rounds.where(within("at_ms", from_ms, self._day.to_ms)))
            rows = self._collected("advice", held.transform(transform))
        found = [topic_advice(row, self._settings.headroom) for row in rows]
        return sorted(
            found,
            key=lambda advised: (
                _KINDS.index(AdviceKind(advised.kind)),
                -(advised.needed or 0),
                *names(advised),
                advised.topic,
            ),
        )

    def _notes(
        self,
        days: Sequence[ClusterDay],
        of_groups: Sequence[GroupDay],
        *,
        unreadable: bool,
        only_coarse: bool,
        week_known: bool,
        risks_known: bool,
    ) -> Iterator[str]:
        """Notes on gaps and missing parts, which a reader must know to judge the rest."""
        if only_coarse:
            yield (
                "Of this day only roll-ups of hours and days are there. A report is made from "
                "those of 5 minutes: `history.retention.rollup_5m_days` says for how long they "
                "stay. While samples are kept, `lagwatch rollup --from "
                f"{self._day.date.isoformat()}` makes them anew."
            )
            return
        if not any(day.groups or day.recorded_s for day in days):
            if not unreadable:
                yield self._nothing_recorded()
            return
        if not any(day.groups for day in days):
            yield (
                "No roll-ups of this day could be read."
                if unreadable
                else "There are no roll-ups of this day: run `lagwatch rollup` first."
            )
        for day in days:
            missing_s = self._day.seconds - day.recorded_s
            if missing_s >= _SHOWN_GAP_S:
                found = "can be read" if unreadable else "was recorded"
                yield (
                    f"{day.cluster} {found} for {day.recorded_s / 3600:.1f} of "
                    f"{self._day.seconds / 3600:g} hours; numbers are of that time only."
                )
        if never := [row for row in of_groups if row.lag_max is None]:
            yield _never_known(never)
        nothing = "Nothing can be read" if unreadable else "Nothing is recorded"
        if days and not week_known:
            yield f"{nothing} of the week before: there is nothing to compare with."
        if days and not risks_known:
            yield f"{nothing} of the partitions of this day: retention cannot be judged."

    def _has_coarse_rollups(self) -> bool:
        """Are there roll-ups of hours of the day, or of the days (in UTC) that begin in it?"""
        return any(
            self._history.rows(kind, self._day.from_ms, self._day.to_ms, (), "group").head(1)
            for kind in (Kind.ROLLUP_1H, Kind.ROLLUP_1D)
        )

    def _nothing_recorded(self) -> str:
        """Names the first samples of the week after, as on the morning after an installation."""
        to_ms = self._day.to_ms
        after = self._history.rows(
            Kind.GROUP_SAMPLES, to_ms, to_ms + _LOOK_AFTER_MS, ("interval_ms",)
        )
        (first,) = self._collected("first_samples", after.agg(F.min("at_ms").alias("at_ms")))
        if first["at_ms"] is None:
            return "Nothing was recorded on this day."
        return (
            "Nothing was recorded on this day: the first samples after it are of "
            f"{moment(first['at_ms'], self._day.zone)}."
        )


def _aside_note(aside: Mapping[str, str]) -> Iterator[str]:
    if aside:
        yield (
            f"{counted(len(aside), 'file')} of the history could not be used: what they hold is "
            "missing here; `lagwatch history verify` names them."
        )


def _never_known(never: Sequence[GroupDay]) -> str:
    """Groups of which nothing can be said, which would pass for groups without trouble."""
    names = ", ".join(f"{row.group} on {row.cluster}" for row in never[:_NAMED])
    more = f" and {len(never) - _NAMED:,} more" if len(never) > _NAMED else ""
    return f"The lag of {counted(len(never), 'group')} was never known on this day: {names}{more}."


@contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that several parts read: computed once."""
    kept = rows.persist()
    try:
        yield kept
    finally:
        kept.unpersist()


@contextmanager
def _parts_at_once() -> Iterator[ThreadPoolExecutor]:
    """Threads for parts; when one fails, those that wait are not begun."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
