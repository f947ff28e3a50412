"""The nightly report: every number of its JSON beside DuckDB's, from the same files."""

# ruff: noqa: S608 the numbers in the SQL are our own

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lagwatch.cli import app
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import ReportSettings
from lagwatch.core.record import Kind, from_rows
from lagwatch.history.parquet import ParquetStore
from lagwatch.jobs.report.build import ReportRequest, ReportResult, run_report
from lagwatch.jobs.report.day import Day
from lagwatch.jobs.report.deliver import documents, write
from lagwatch.jobs.report.frames import HistoryTables
from lagwatch.jobs.report.text import MOST_LINES, text
from lagwatch.jobs.tables import StoreRef
from tests.support.history import group_sample, group_samples
from tests.support.history import rollup as rollup_row
from tests.support.receiver import receiving
from tests.support.rolled import BERLIN, LONG_DAY, Rolled, write_fleet

MIDNIGHT = datetime(2026, 10, 25, tzinfo=BERLIN)
FROM_MS = 1000 * int(MIDNIGHT.astimezone(UTC).timestamp())
TO_MS = FROM_MS + 25 * 3_600_000
OBJECTIVE_S = 60.0
ALLOWED = 0.01
WEEK_MS = 7 * 86_400_000
"""No change of the clocks lies in the week before."""

Row = Mapping[str, Any]


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Rolled:
    return write_fleet(str(tmp_path_factory.mktemp("rolled") / "store"))


@pytest.fixture(scope="module")
def result(spark: SparkSession, rolled: Rolled) -> ReportResult:
    return _report(spark, rolled.url, LONG_DAY)


def _report(spark: SparkSession, url: str, day: Day, **request: Any) -> ReportResult:  # noqa: ANN401
    settings = ReportSettings(time_zone=day.zone.key, objective_s=OBJECTIVE_S)
    return run_report(
        spark,
        StoreRef.of(url, HistorySettings()),
        ReportRequest(day=day, settings=settings, **request),
        now_ms=day.to_ms + 3_600_000,
        log_step=lambda *_: None,
    )


@pytest.fixture(scope="module")
def numbers(result: ReportResult) -> dict[str, Any]:
    """The JSON, as a reader of the file gets it."""
    return dict(json.loads(documents(result.report)["json"]))


class Sql:
    """DuckDB over the files themselves."""

    def __init__(self, url: str) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("set threads to 2")
        for kind in ("rollup_5m", "group_samples", "samples", "events"):
            self._connection.execute(
                f"create view {kind} as select * from read_parquet('{url}/{kind}/**/*.parquet',"
                " hive_partitioning = true, hive_types_autocast = false)"
            )
        self._connection.execute(
            f"""
            create table g as select * from rollup_5m where level = 'group';
            create table p as select * from rollup_5m where level = 'partition';
            create view today as select * from g
              where bucket_ms >= {FROM_MS} and bucket_ms < {TO_MS}
            """
        )

    def __call__(self, query: str) -> list[Row]:
        found = self._connection.execute(query)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@pytest.fixture(scope="module")
def sql(rolled: Rolled) -> Sql:
    return Sql(rolled.url)


def _same(found: Sequence[Row], expected: Sequence[Row], *key: str) -> None:
    """Are these the same rows, whatever their order? Only the columns that are expected."""
    assert expected, "nothing to compare with"
    by_key = {tuple(row[name] for name in key): row for row in found}
    assert set(by_key) == {tuple(row[name] for name in key) for row in expected}
    assert len(found) == len(expected)
    for row in expected:
        other = by_key[tuple(row[name] for name in key)]
        for name, value in row.items():
            assert _equal(other[name], value), (row, name, other[name])


def _equal(found: Any, expected: Any) -> bool:  # noqa: ANN401
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    return bool(found == expected)


def test_the_day_has_the_hours_that_the_clocks_gave_it(numbers) -> None:
    assert (numbers["from_ms"], numbers["to_ms"], numbers["seconds"]) == (FROM_MS, TO_MS, 90_000.0)
    labels = [hour["label"] for hour in numbers["heat"]["hours"]]
    assert labels[:5] == ["00:00", "01:00", "02:00", "02:00 again", "03:00"]
    assert len(labels) == 25


def test_groups(numbers, sql) -> None:
    expected = sql(
        """
        select cluster, "group", max(time_lag_max_s) time_lag_max_s, max(lag_max) lag_max,
          sum(lag_sum) / nullif(sum(lag_known), 0) lag_avg, sum(ok_s) ok_s, sum(warn_s) warn_s,
          sum(err_s) err_s, sum(warn_s) + sum(err_s) not_ok_s, sum(produced)::bigint produced,
          sum(consumed)::bigint consumed, sum(commits)::bigint commits,
          sum(rebalances)::bigint rebalances,
          (select min(b.bucket_ms) from today b where b.cluster = a.cluster
            and b."group" = a."group" and b.time_lag_max_s = max(a.time_lag_max_s)) time_lag_max_ms,
          case when sum(err_s) > 0 then 'ERR' when sum(warn_s) > 0 then 'WARN'
            when sum(ok_s) > 0 then 'OK' else 'UNKNOWN' end status
        from today a group by cluster, "group"
        """
    )

    _same(numbers["groups"], expected, "cluster", "group")
    lags = [group["time_lag_max_s"] or -1 for group in numbers["groups"]]
    assert lags == sorted(lags, reverse=True)


def test_clusters(numbers, sql) -> None:
    expected = sql(
        f"""
        select a.cluster, a.groups, b.recorded_s, a.not_ok_s, a.produced, a.consumed, a.rebalances
        from (select cluster, count(distinct "group") groups, sum(warn_s + err_s) not_ok_s,
            sum(produced)::bigint produced, sum(consumed)::bigint consumed,
            sum(rebalances)::bigint rebalances from today group by cluster) a
        join (select cluster, count(distinct at_ms) * 300.0 recorded_s from group_samples
            where at_ms >= {FROM_MS} and at_ms < {TO_MS} group by cluster) b using (cluster)
        """
    )

    _same(numbers["clusters"], expected, "cluster")
    assert numbers["notes"] == [
        "lab was recorded for 23.0 of 25 hours; numbers are of that time only.",
        "The lag of 1 group was never known on this day: ghost on prod.",
    ]


def test_the_heat_map(numbers, sql) -> None:
    expected = sql(
        f"""
        select cluster, "group", (bucket_ms - {FROM_MS}) // 3600000 as hour,
          max(lag_max) lag_max, max(time_lag_max_s) time_lag_max_s,
          case when sum(err_s) > 0 then 'ERR' when sum(warn_s) > 0 then 'WARN'
            when sum(ok_s) > 0 then 'OK' else 'UNKNOWN' end status
        from today group by all
        """
    )

    shown = {(row["cluster"], row["group"]) for row in numbers["heat"]["rows"]}
    cells = [
        {
            "cluster": row["cluster"],
            "group": row["group"],
            "hour": hour,
            **{name: row[name][hour] for name in ("lag_max", "time_lag_max_s", "status")},
        }
        for row in numbers["heat"]["rows"]
        for hour in range(25)
        if row["status"][hour] is not None
    ]
    _same(
        cells,
        [row for row in expected if (row["cluster"], row["group"]) in shown],
        *("cluster", "group", "hour"),
    )
    assert len(shown) == 40
    assert numbers["heat"]["left_out"] == len(numbers["groups"]) - 40


def test_objectives_and_budgets(numbers, sql) -> None:
    expected = sql(
        f"""
        with rounds as (select cluster, "group", at_ms >= {FROM_MS} as today,
            interval_ms / 1000.0 as seconds,
            coalesce(time_lag_s > {OBJECTIVE_S},
              case when time_lag_reason = 'beyond_history' and status in ('WARN', 'ERR')
              then true end) as late
          from group_samples where reason = 'interval' and at_ms < {TO_MS}),
        sums as (select cluster, "group", sum(seconds) filter (today) known_s,
            coalesce(sum(seconds) filter (today and late), 0) late_s, sum(seconds) budget_known_s,
            coalesce(sum(seconds) filter (late), 0) spent_s
          from rounds where late is not null group by all)
        select *, 1 - late_s / known_s as share, 1 - late_s / known_s >= 0.99 as met,
          late_s / known_s / {ALLOWED} as burn, budget_known_s * {ALLOWED} as budget_s,
          1 - spent_s / (budget_known_s * {ALLOWED}) as "left"
        from sums where known_s > 0
        """
    )

    _same(numbers["objectives"]["groups"], expected, "cluster", "group")
    assert {group["met"] for group in numbers["objectives"]["groups"]} == {True, False}
    unknown = {"ghost"}
    assert {group["group"] for group in numbers["groups"]} - {
        group["group"] for group in numbers["objectives"]["groups"]
    } == unknown


def _exact_p(differences: Sequence[float]) -> float:
    """Wilcoxon's p by counting sums of ranks in whole numbers."""
    values = sorted((abs(difference), difference > 0) for difference in differences if difference)
    sizes = [size for size, _ in values]
    ranks = [(2 * sizes.index(size) + sizes.count(size) + 1, positive) for size, positive in values]
    ways = {0: 1}
    for rank, _ in ranks:
        grown = dict(ways)
        for total, count in ways.items():
            grown[total + rank] = grown.get(total + rank, 0) + count
        ways = grown
    seen = sum(rank for rank, positive in ranks if positive)
    low = sum(count for total, count in ways.items() if total <= seen)
    high = sum(count for total, count in ways.items() if total >= seen)
    return float(min(Fraction(1), Fraction(2 * min(low, high), 2 ** len(ranks))))


def _series(sql: Sql) -> Iterator[tuple[tuple[str, str, str], dict[int, dict[int, float]]]]:
    """Per group and metric: days ago → hour on the wall → value."""
    rows = sql(
        f"""
        select cluster, "group", bucket_ms // 3600000 * 3600000 as hour_ms,
          max(time_lag_max_s) time_lag_s, sum(lag_sum) s, sum(lag_known) k,
          sum(produced) produced, count(produced) n
        from g where bucket_ms >= {FROM_MS - WEEK_MS} and bucket_ms < {TO_MS} group by all
        """
    )
    found: dict[tuple[str, str, str], dict[tuple[int, int], list[Row]]] = {}
    for row in rows:
        local = datetime.fromtimestamp(row["hour_ms"] / 1000, BERLIN)
        place = ((date(2026, 10, 25) - local.date()).days, local.hour)
        for metric in ("time_lag_s", "lag", "produced_per_s"):
            key = (row["cluster"], row["group"], metric)
            found.setdefault(key, {}).setdefault(place, []).append(row)
    for key, places in found.items():
        days: dict[int, dict[int, float]] = {}
        for (days_ago, hour), cells in places.items():
            value = _metric(key[2], cells)
            if value is not None:
                days.setdefault(days_ago, {})[hour] = value
        yield key, days


def _metric(metric: str, cells: Sequence[Row]) -> float | None:
    """Two hours of the longest day have one place: 02:00 comes twice."""
    if metric == "time_lag_s":
        return max(
            (cell["time_lag_s"] for cell in cells if cell["time_lag_s"] is not None), default=None
        )
    above, below = ("s", "k") if metric == "lag" else ("produced", "n")
    count = sum(cell[below] or 0 for cell in cells)
    total = sum(cell[above] or 0 for cell in cells)
    return None if count == 0 else float(total / count / (1 if metric == "lag" else 300))


def test_changes_against_the_week_before(numbers, sql) -> None:
    compared = []
    for key, days in _series(sql):
        before = [days[number] for number in range(1, 8) if number in days]
        pairs = [
            value - median(same)
            for hour, value in days.get(0, {}).items()
            if len(same := [row[hour] for row in before if hour in row]) >= 3
        ]
        if len(before) >= 3 and len(pairs) >= 12:
            means = [sum(row.values()) / len(row) for row in before]
            now = sum(days[0].values()) / len(days[0])
            compared.append((key, now, means, _exact_p(pairs), len(pairs)))
    ranked = sorted(compared, key=lambda row: row[3])
    corrected = {
        row[0]: min(
            1.0,
            *(other[3] * len(ranked) / (rank + 1) for rank, other in [*enumerate(ranked)][place:]),
        )
        for place, row in enumerate(ranked)
    }

    expected = [
        {
            **dict(zip(("cluster", "group", "metric"), key, strict=True)),
            "now": now,
            "before": sum(means) / len(means),
            "lowest": min(means),
            "highest": max(means),
            "ratio": now / (sum(means) / len(means)),
            "p": corrected[key],
            "hours": hours,
        }
        for key, now, means, _, hours in compared
        if corrected[key] <= 0.01 and not min(means) * 0.8 <= now <= max(means) * 1.2
    ]
    _same(numbers["trend"]["changes"], expected, "cluster", "group", "metric")
    assert numbers["trend"]["compared"] == len(compared)
    assert numbers["trend"]["days_before"] == 7
    assert ("ledger", "produced_per_s") in {
        (change["group"], change["metric"]) for change in numbers["trend"]["changes"]
    }


def test_new_and_gone_groups(numbers, sql) -> None:
    seen = sql(
        f"""
        select cluster, "group", min(bucket_ms) first_ms, max(bucket_ms) last_ms,
          arg_min(lag_max, bucket_ms) first_lag, arg_max(lag_max, bucket_ms) last_lag
        from g where bucket_ms < {TO_MS} group by all
        """
    )

    new = [
        {
            "cluster": row["cluster"],
            "group": row["group"],
            "at_ms": row["first_ms"],
            "lag": row["first_lag"],
        }
        for row in seen
        if row["first_ms"] >= FROM_MS
    ]
    gone = [
        {
            "cluster": row["cluster"],
            "group": row["group"],
            "at_ms": row["last_ms"],
            "lag": row["last_lag"],
        }
        for row in seen
        if row["last_ms"] < TO_MS - 3_600_000
    ]
    _same(numbers["groups_new"], new, "cluster", "group")
    _same(numbers["groups_gone"], gone, "cluster", "group")
    assert [row["group"] for row in (*new, *gone)] == ["newcomer", "leaver"]
    assert numbers["turnover_known"] is True


def test_incidents(numbers, sql) -> None:
    expected = sql(
        f"""
        with e as (select *, lead(at_ms) over (partition by cluster, "group" order by at_ms) next_ms
          from events where event = 'group_status'),
        i as (select cluster, "group", at_ms from_ms, next_ms to_ms, after worst, rule,
            greatest(at_ms, {FROM_MS}) b, least(coalesce(next_ms, {TO_MS}), {TO_MS}) z
          from e where after in ('WARN', 'ERR') and coalesce(next_ms, {TO_MS}) > {FROM_MS})
        select cluster, "group", from_ms, to_ms, worst, rule, (z - b) / 1000.0 as seconds,
          (select max(total_lag) from group_samples s where s.cluster = i.cluster
            and s."group" = i."group" and s.status in ('WARN', 'ERR') and s.at_ms >= b
            and s.at_ms < z) lag_max,
          (select max(time_lag_s) from group_samples s where s.cluster = i.cluster
            and s."group" = i."group" and s.status in ('WARN', 'ERR') and s.at_ms >= b
            and s.at_ms < z) time_lag_max_s
        from i
        """
    )

    _same(numbers["incidents"], expected, "cluster", "group", "from_ms")
    assert [incident["worst"] for incident in numbers["incidents"]] == ["ERR"] * 3 + ["WARN"] * 2
    assert numbers["incidents"][0]["to_ms"] is None


def test_each_incident_has_the_cause_that_was_named_most_often(numbers, sql) -> None:
    expected = sql(
        f"""
        with e as (select *, lead(at_ms) over (partition by cluster, "group" order by at_ms) next_ms
          from events where event = 'group_status'),
        i as (select cluster, "group", at_ms from_ms, greatest(at_ms, {FROM_MS}) b,
            least(coalesce(next_ms, {TO_MS}), {TO_MS}) z
          from e where after in ('WARN', 'ERR') and coalesce(next_ms, {TO_MS}) > {FROM_MS}),
        c as (select i.cluster, i."group", from_ms, cause, cause_certainty, count(*) n
          from i join group_samples s on s.cluster = i.cluster and s."group" = i."group"
            and s.at_ms >= b and s.at_ms < z and s.cause_certainty is not null
          group by all)
        select cluster, "group", from_ms, arg_max(cause, n) filter (cause is not null) cause,
          arg_max(cause_certainty, n) filter (cause is not null) cause_certainty,
          max(n) filter (cause is not null)::double / sum(n) cause_share
        from c group by all
        """
    )

    found = [row for row in numbers["incidents"] if row["cause"] is not None]
    _same(found, expected, "cluster", "group", "from_ms")
    assert {(row["group"], row["cause"]) for row in found} == {
        *(("mailer", "no_members"), ("audit-archive", "not_committing"))
    }
    (mailer,) = (row for row in found if row["group"] == "mailer")
    assert mailer["cause_text"].startswith("Cause (certain): the group is empty")
    assert all(row["cause_text"] is None for row in numbers["incidents"] if row not in found)


def test_what_to_do_are_the_groups_in_trouble_when_the_day_ended(numbers, sql) -> None:
    expected = sql(
        f"""
        with l as (select *, row_number() over (partition by cluster, "group" order by at_ms desc) r
          from group_samples where at_ms >= {FROM_MS} and at_ms < {TO_MS})
        select cluster, "group", at_ms, status, total_lag lag, time_lag_s, catch_up_reason,
          loss_in_s, loss_reason, partitions
        from l where r = 1 and status in ('WARN', 'ERR')
        """
    )

    _same(numbers["to_do"], expected, "cluster", "group")
    assert [row["group"] for row in numbers["to_do"]] == ["audit-archive"]
    (row,) = numbers["to_do"]
    assert (row["cause"], row["cause_certainty"]) == ("not_committing", "likely")
    began = [each["from_ms"] for each in numbers["incidents"] if each["group"] == "audit-archive"]
    recorded = sql(
        f"select since_ms from group_samples where at_ms = {row['at_ms']} and since_ms is not null"
    )
    assert row["since_ms"] == min(*began, *(each["since_ms"] for each in recorded))
    risks = [risk for risk in numbers["retention"] if risk["group"] == "audit-archive"]
    assert row["lost"] == sum(risk["lost"] for risk in risks) > 400


def test_retention(numbers, sql) -> None:
    expected = sql(
        f"""
        with k as (select * from samples where at_ms >= {FROM_MS} and at_ms < {TO_MS}
            and committed_offset is not null and log_end_offset is not null
            and log_start_offset is not null),
        x as (select cluster, "group", topic, partition,
            (max(at_ms) - min(at_ms) filter (at_ms >= {TO_MS - 3_600_000})) / 1000.0 as span_s,
            arg_min(log_end_offset - committed_offset, at_ms)
              filter (at_ms >= {TO_MS - 3_600_000}) lag0, arg_max(status, at_ms) status,
            arg_max(committed_offset, at_ms) c1,
            arg_max(log_start_offset, at_ms) s1, arg_min(log_start_offset, at_ms) s0,
            arg_max(log_end_offset, at_ms) e1 from k group by all),
        l as (select cluster, "group", topic, partition,
            sum((detail->>'$.end')::bigint - (detail->>'$.first')::bigint) counted,
            max((detail->>'$.end')::bigint) counted_to,
            bool_or(detail->>'$.exact' = 'false') at_most
            from events where event = 'records_lost' and at_ms >= {FROM_MS} and at_ms < {TO_MS}
            group by all),
        y as (select x.*, coalesce(counted, 0)
            + greatest(s1 - greatest(c1, coalesce(counted_to, 0), s0), 0) lost,
            coalesce(at_most, false) lost_at_most, c1 - s1 margin,
            (e1 - greatest(c1, s1)) / (e1 - s1) behind_share,
            (e1 - c1 - lag0) / span_s margin_per_s, s1 > s0 as moved
            from x left join l using (cluster, "group", topic, partition)),
        z as (select *, case when margin >= 0 and margin_per_s > 0
            then margin / margin_per_s end left_s from y)
        select cluster, "group", topic, partition, lost, lost_at_most, margin, behind_share,
          margin_per_s, left_s
        from z where lost > 0 or (moved and (behind_share >= 0.5
          or ((behind_share >= 0.1 or status not in ('OK', 'UNKNOWN')) and left_s <= 604800)))
        """
    )

    _same(numbers["retention"], expected, "cluster", "group", "topic", "partition")
    assert {risk["group"] for risk in numbers["retention"]} == {"audit-archive", "shipping"}
    assert [
        (risk["partition"], risk["lost"], risk["lost_at_most"])
        for risk in numbers["retention"]
        if risk["group"] == "shipping"
    ] == [(1, 1_000, True), (2, 50, False)]
    assert numbers["retention_known"] is True


def test_skew(numbers, sql) -> None:
    expected = sql(
        f"""
        with l as (select cluster, "group", topic, partition, sum(produced) produced,
            sum(lag_sum) / nullif(sum(lag_known), 0) lag
          from p where bucket_ms >= {FROM_MS} and bucket_ms < {TO_MS} group by all),
        v as (select cluster, null::varchar "group", topic, partition, 'produced' what,
            max(produced)::double v, 1000 least from l group by all
          union all select cluster, "group", topic, partition, 'lag', lag, 100 from l),
        s as (select *, sum(v) over w total, count(v) over w partitions from v
          where v is not null window w as (partition by cluster, "group", topic, what))
        select cluster, "group", topic, partition, what, partitions, v / total as share,
          v / total * partitions factor
        from s where partitions >= 3 and total >= least and v / total * partitions >= 2.5
        """
    )

    _same(numbers["skew"], expected, "cluster", "group", "topic", "partition", "what")
    assert [(skewed["topic"], skewed["partition"]) for skewed in numbers["skew"]] == [
        ("catalogue", 1)
    ] * 2


def test_deployments(numbers, sql) -> None:
    side = """
        select count(*) * 300.0 as seconds, sum(lag_sum) / sum(lag_known) lag_avg,
          max(time_lag_max_s) time_lag_max_s,
          sum(consumed) / (count(consumed) * 300) consumed_per_s,
          sum(produced) / (count(produced) * 300) produced_per_s, sum(warn_s + err_s) not_ok_s,
          sum(rebalances)::bigint rebalances
        from g where cluster = '{cluster}' and "group" = '{group}'
          and bucket_ms >= {begin} and bucket_ms < {end}
    """
    events = sql("select * from events where event = 'deployment' order by at_ms")

    assert [deployment["version"] for deployment in numbers["deployments"]] == [
        each["after"] for each in events
    ]
    for deployment, event in zip(numbers["deployments"], events, strict=True):
        bucket = event["at_ms"] // 300_000 * 300_000
        names = {"cluster": event["cluster"], "group": event["group"]}
        before = sql(side.format(**names, begin=bucket - 3_600_000, end=bucket))
        after = sql(side.format(**names, begin=bucket + 300_000, end=bucket + 3_900_000))
        _same([deployment["before"]], before)
        _same([deployment["after"]], after)
        assert (deployment["at_ms"], deployment["partitions"]) == (event["at_ms"], event["count"])
        assert deployment["note"] == json.loads(event["detail"])["note"]
        newest = sql(
            f"""
            select arg_max(committed_offset, at_ms) committed from samples
            where "group" = '{event["group"]}' and partition = 0
              and at_ms >= {FROM_MS} and at_ms < {TO_MS}
            """
        )
        then, plan = deployment["offsets"][0], deployment["rollback"]
        assert then["committed_offset"] == 1
        assert plan["read_again"] == newest[0]["committed"] - 1
        assert plan["csv"] == f"{then['topic']},0,1\n"
    assert [deployment["verdict"] for deployment in numbers["deployments"]] == ["better", "worse"]


def test_advice(numbers, sql) -> None:
    expected = sql(
        f"""
        with b as (select *, samples > 0 and lag_known = samples and consumed > 0 and commits > 0
              and lag_min > consumed / commits as busy
            from p where bucket_ms >= {FROM_MS - 6 * 86_400_000} and bucket_ms < {TO_MS}),
        rates as (select cluster, "group", topic, bucket_ms, sum(produced_per_s) r,
            sum(consumed_per_s) c from b group by all),
        peak as (select cluster, "group", topic, quantile_disc(r, 0.95) peak_per_s,
            count(r) buckets, sum(c) / sum(r) read_share from rates group by all),
        hosts as (select cluster, "group", bucket_ms, count(distinct owner) hosts from b
            where owner is not null group by all),
        members as (select cluster, "group", at_ms // 300000 * 300000 bucket_ms,
            max(members) members from group_samples group by all),
        held as (select b.cluster, b."group", topic, b.bucket_ms, owner,
            sum(consumed_per_s) / least(count(*), greatest(1, round(any_value(members)
              / any_value(hosts)))) rate
          from b left join hosts using (cluster, "group", bucket_ms)
            left join members using (cluster, "group", bucket_ms)
          where owner is not null group by all having bool_and(busy)),
        one as (select cluster, "group", topic, quantile_disc(rate, 0.5) rate_per_s,
            count(distinct bucket_ms) saturated_buckets from held group by all),
        none as (select cluster, "group", topic,
            count(distinct bucket_ms) filter (busy and owner is null) unowned_buckets
          from b group by all),
        sized as (select cluster, "group", topic, max(partition) + 1 partitions from b
            group by all),
        now as (select cluster, "group", arg_max(members, at_ms) consumers from group_samples
          group by all)
        select cluster, "group", topic, peak_per_s, buckets, read_share, rate_per_s,
          coalesce(saturated_buckets, 0) saturated_buckets, unowned_buckets, partitions, consumers,
          case when saturated_buckets >= 6 and peak_per_s > 0
            then ceil(peak_per_s / rate_per_s / 0.7
              - least(0.005 * peak_per_s / rate_per_s / 0.7, 0.02))::int end needed
        from peak left join one using (cluster, "group", topic)
          join none using (cluster, "group", topic) join sized using (cluster, "group", topic)
          left join now using (cluster, "group")
        """
    )

    _same(numbers["advice"], expected, "cluster", "group", "topic")
    advised = {row["group"]: row for row in numbers["advice"]}
    assert advised["billing"]["needed"] == math.ceil(advised["billing"]["peak_per_s"] / 260 / 0.7)
    assert advised["billing"]["kind"] == "add_partitions"
    assert advised["mailer"]["kind"] == "add_consumers"
    assert "it was unknown which consumer" in advised["recommender"]["reason"]
    assert "the load is skewed" in advised["search-indexer"]["reason"]
    assert "kept up with a peak" in advised["shipping"]["reason"]
    assert "it stood still" in advised["audit-archive"]["reason"]
    assert all(row["kind"] == "untold" or row["needed"] for row in numbers["advice"])


def test_the_text_is_short_and_names_what_matters(result) -> None:
    lines = documents(result.report)["txt"].decode().splitlines()

    assert len(lines) <= MOST_LINES
    assert lines[0] == "Consumer lag on 2026-10-25: 5 incidents in 5 of 46 groups"
    assert lines[1].startswith("lab was recorded for 23.0 of 25 hours")
    assert lines[2].startswith("The lag of 1 group was never known")
    assert lines[3].startswith("To do: audit-archive on prod is ERR, since 16 Oct 00:55: lag ")
    assert lines[4].startswith("  Cause (likely): ")
    # in the second of the two hours from 2 to 3 of this day
    when = "from 02:12 again until 05:06 (2 h 54 min)"
    mailer = f"ERR mailer on prod (stopped) {when}: no members (certain); lag "
    assert any(line.startswith(mailer) for line in lines), lines
    scale = "Scale: billing on prod needs 11 consumers for topic orders"
    assert any(line.startswith(scale) for line in lines)


def test_the_files_are_written_beside_each_other(result, tmp_path: Path) -> None:
    files = write(result.report, tmp_path / "reports")

    assert [file.name for file in files] == [
        f"2026-10-25.{kind}" for kind in ("html", "json", "txt")
    ]
    assert sorted(tmp_path.rglob("*.*")) == sorted(files)


def test_only_the_clusters_that_are_wanted_are_read(spark, rolled) -> None:
    clusters = {}
    for wanted in ((), ("lab",), ("lab", "nowhere")):
        history = HistoryTables(
            spark=spark,
            ref=StoreRef.of(rolled.url, HistorySettings()),
            clusters=wanted,
            aside=lambda *_: None,
        )
        rows = history.rows(Kind.EVENTS, FROM_MS - WEEK_MS, TO_MS, ("after",))
        clusters[wanted] = {row["cluster"] for row in rows.select("cluster").distinct().collect()}

    assert clusters == {(): {"lab", "prod"}, ("lab",): {"lab"}, ("lab", "nowhere"): {"lab"}}


def test_a_day_of_which_nothing_is_known_gives_a_report_that_says_so(spark, tmp_path) -> None:
    """By the command itself, which takes the Spark that runs."""
    del spark
    config = tmp_path / "lagwatch.toml"
    (tmp_path / "nothing").mkdir()
    with receiving() as receiver:
        config.write_text(
            f'[history]\nurl = "{tmp_path}/nothing"\n[clusters.prod]\nbootstrap = "none:9092"\n'
            f'[jobs.report]\nfolder = "{tmp_path}/reports"\ntime_zone = "Europe/Berlin"\n'
            f'channels = ["hook"]\n[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        )
        arguments = ["report", "-c", str(config), "--day", "2026-03-29", "--cluster", "prod"]
        ended = CliRunner().invoke(app, arguments)

    empty = json.loads((tmp_path / "reports" / "2026-03-29.json").read_text())
    assert ended.exit_code == 0, ended.output
    assert "Consumer lag on 2026-03-29: nothing was recorded" in ended.stdout
    assert (empty["seconds"], len(empty["heat"]["hours"])) == (23 * 3600, 23)
    assert not any(empty[part] for part in ("groups", "incidents", "advice", "skew", "retention"))
    assert empty["clusters"][0]["recorded_s"] == 0
    assert empty["notes"] == ["Nothing was recorded on this day."]
    assert (empty["retention_known"], empty["turnover_known"]) == (False, False)
    assert "No group was recorded." in (tmp_path / "reports" / "2026-03-29.html").read_text()
    assert [request.json["report"]["day"] for request in receiver.taken] == ["2026-03-29"]


NOON_MS = LONG_DAY.from_ms + 12 * 3_600_000


@pytest.mark.parametrize(
    ("at_ms", "said", "notes"),
    [
        pytest.param(
            LONG_DAY.to_ms + 1_860_000,
            "nothing was recorded",
            ["Nothing was recorded on this day: the first samples after it are of 26 Oct 00:31."],
            id="the morning after installation",
        ),
        pytest.param(
            NOON_MS,
            "nothing was rolled up",
            ["There are no roll-ups of this day: run `lagwatch rollup` first."],
            id="recorded and not rolled up",
        ),
    ],
)
def test_a_roll_up_is_asked_for_only_where_there_is_something_to_roll_up(
    spark, tmp_path, at_ms, said, notes
) -> None:
    store = ParquetStore(str(tmp_path / "store"))
    store.write([group_samples([group_sample(at_ms=at_ms, interval_ms=30_000)])], batch="one")

    report = _report(spark, str(tmp_path / "store"), LONG_DAY).report

    assert text(report).splitlines()[0] == f"Consumer lag on 2026-10-25: {said}"
    assert list(report.notes)[:1] == notes
    assert not any("first" in note for note in list(report.notes)[1:])


@pytest.mark.parametrize("kind", [Kind.ROLLUP_1H, Kind.ROLLUP_1D])
def test_a_day_of_which_only_coarse_rollups_are_left_is_not_said_to_be_empty(
    spark, tmp_path, kind
) -> None:
    store = ParquetStore(str(tmp_path / "store"))
    midnight_ms = LONG_DAY.to_ms // 86_400_000 * 86_400_000
    store.write([from_rows(kind, [rollup_row(kind, bucket_ms=midnight_ms)])], batch="one")

    report = _report(spark, str(tmp_path / "store"), LONG_DAY).report

    assert text(report).splitlines()[0] == (
        "Consumer lag on 2026-10-25: nothing is kept in detail any more"
    )
    (note,) = report.notes
    assert "history.retention.rollup_5m_days" in note


def test_a_day_whose_files_cannot_be_read_is_not_said_to_be_empty(spark, tmp_path) -> None:
    store = ParquetStore(str(tmp_path / "store"))
    store.write([group_samples([group_sample(at_ms=NOON_MS, interval_ms=30_000)])], batch="one")
    [torn] = tmp_path.glob("store/group_samples/**/*.parquet")
    os.truncate(torn, torn.stat().st_size // 2)

    report = _report(spark, str(tmp_path / "store"), LONG_DAY).report

    first, *others = report.notes
    assert text(report).splitlines()[0] == "Consumer lag on 2026-10-25: nothing could be read"
    assert first.startswith("1 file of the history could not be used")
    assert report.unreadable_files == 1
    assert not re.search("recorded|lagwatch rollup", " ".join(others))


@pytest.mark.parametrize("job", [["report", "--day", "2026-10-25"], ["rollup"]])
def test_a_cluster_that_nobody_knows_is_refused_before_spark_starts(tmp_path, job) -> None:
    store = ParquetStore(str(tmp_path / "store"))
    store.write([group_samples([group_sample(at_ms=NOON_MS)])], batch="one")
    arguments = [*job, "--store", str(tmp_path / "store")]

    ended = CliRunner().invoke(
        app, [*arguments, "--cluster", "nosuch", "--master", "spark://127.0.0.1:1"]
    )

    assert ended.exit_code == 2, ended.output
    assert "nothing is recorded of nosuch; the history has here" in ended.output


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--store=", "Write a folder or a URL"),
        ("--store=histroy", "There is no folder histroy: nothing was recorded there."),
        ("--master=loca[2]", "Write local[2], spark://"),
    ],
)
def test_a_store_or_master_that_is_none_is_refused_before_anything_is_done(
    tmp_path, monkeypatch, option, said
) -> None:
    monkeypatch.chdir(tmp_path)

    ended = CliRunner().invoke(app, ["rollup", option], env={"COLUMNS": "200"})

    assert ended.exit_code == 2, ended.output
    assert said in ended.output
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def page(result, tmp_path_factory) -> str:
    [page, *_] = write(result.report, tmp_path_factory.mktemp("page"))
    return page.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_readable_on_every_screen(browser, page, width, scheme) -> None:
    browser.look(width, 900, scheme)

    browser.open(page)

    assert browser.barriers() == []
    assert browser.errors() == []
    assert browser.run("return document.documentElement.scrollWidth") == width
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    shades = browser.run(
        "return [...document.querySelectorAll('.heat rect.h4')]"
        ".map((one) => getComputedStyle(one).fill)"
    )
    assert len(set(shades)) == 1


def test_the_page_needs_nothing_from_elsewhere(result) -> None:
    html = documents(result.report)["html"].decode()

    assert "<script" not in html
    assert not re.findall(r"""(?:src|href|action|url)\s*[=(]\s*["']?(?!#|data:)[\w/]""", html)
    assert "http" not in re.sub(r'http-equiv="', "", html)


def test_the_page_shows_the_numbers_of_the_json(browser, page, numbers) -> None:
    browser.look(1280, 900, "light")
    browser.open(page)

    facts = [int(text) for text in browser.texts(".facts b")]
    changed = {(change["cluster"], change["group"]) for change in numbers["trend"]["changes"]}
    assert facts == [
        len(numbers["groups"]),
        len(numbers["incidents"]),
        sum(group["met"] is False for group in numbers["objectives"]["groups"]),
        len(numbers["retention"]),
        sum(advised["kind"].startswith("add_") for advised in numbers["advice"]),
        len(changed),
    ]
    reasons = browser.texts(".advice li > p:last-child")
    assert reasons == [
        advised["reason"] for advised in numbers["advice"] if advised["needed"] is not None
    ]
    rows = browser.run(
        "return [...document.querySelectorAll('#incidents tbody tr')].map((row) =>"
        " [...row.cells].slice(0, 6).map((cell) => cell.innerText))"
    )
    assert rows[1] == [
        "mailer prod",
        "ERR",
        "stopped",
        "no members certain",
        "02:12 again",
        "05:06",
    ]
    assert len(rows) == len(numbers["incidents"])
    bands = browser.run("return document.querySelectorAll('.heat svg').length")
    late = sum(
        any((value or 0) > OBJECTIVE_S for value in row["time_lag_max_s"])
        or any(status in {"WARN", "ERR"} for status in row["status"])
        for row in numbers["heat"]["rows"]
    )
    assert bands == late


def test_odd_names_are_shown_and_not_obeyed(browser, page) -> None:
    browser.look(1280, 900, "light")
    browser.open(page)

    assert '<b>odd</b> & "group" lab' in browser.texts("#incidents .name")
    assert browser.run("return document.querySelectorAll('td b, .heat b').length") == 0
