"""What stands on /metrics: our own names."""

import asyncio
import gzip
import os
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from lagwatch.core.causes import CAUSES
from lagwatch.core.model import EpochMs, GroupStatus, Rule, RuleSet, TimeLagReason
from lagwatch.metrics import ClusterMetrics, table
from lagwatch.metrics.explained import explained_in_turns
from lagwatch.metrics.metric import Format, GzipText, MetricKind
from lagwatch.metrics.state import ServiceState
from lagwatch.metrics.view import View
from lagwatch.ports.deployments import Deployment
from lagwatch.ports.queries import Partitions
from lagwatch.ports.reports import Backlog, GroupsGone
from lagwatch.query import SnapshotQueries
from tests.support.history import Live
from tests.support.scraped import START_MS, Cluster, Scrape, exporter, info, text

BOTH = pytest.mark.parametrize("form", list(Format), ids=lambda form: form.name.lower())


def behind(
    *, silent_s: int = 60, rules: RuleSet = RuleSet.BURROW, described: bool = True
) -> Cluster:
    """Two partitions, one of them 40 behind; a third whose log end is not known."""
    return Cluster(
        topics={"t": [(10, 100), (0, 50), (-1, -1)]},
        commits={("g", "t", 0): 60, ("g", "t", 1): 50, ("g", "t", 2): 5},
        infos=[info("g", holds=[("t", 0)])] if described else [],
        silent_s=silent_s,
        rules=rules,
    )


@BOTH
def test_a_partition_says_its_lag_its_offset_and_their_ages(form) -> None:
    scrape = Scrape(behind(), form=form)

    labels = {"cluster": "here", "group": "g", "topic": "t", "partition": "0"}
    assert scrape.value("lagwatch_lag_messages", **labels) == 40
    assert scrape.value("lagwatch_committed_offset", **labels) == 60
    assert scrape.value("lagwatch_commit_age_seconds", **labels) == 61
    assert scrape.value("lagwatch_lag_seconds", **labels) == pytest.approx(60.8, abs=0.02)
    assert scrape.labels("lagwatch_lag_messages")[0] == labels


def test_what_is_unknown_is_absent() -> None:
    scrape = Scrape(behind())

    assert scrape.values("lagwatch_lag_messages", partition="2") == []
    assert scrape.values("lagwatch_lag_seconds", partition="2") == []
    assert scrape.values("lagwatch_log_end_offset", partition="2") == []
    assert scrape.values("lagwatch_topic_log_end_offset") == []
    assert min(sample.value for sample in scrape.samples) >= 0


def test_what_is_unknown_is_counted_by_reason() -> None:
    scrape = Scrape(behind())

    assert scrape.value("lagwatch_unknown_partitions", reason="refused") == 1
    assert scrape.value("lagwatch_unknown_partitions", reason="topic_not_visible") == 0


def test_an_offset_beyond_the_log_end_is_a_verdict_and_keeps_nothing_from_being_seen() -> None:
    live = Live()
    live.topics(t=1)
    live.monitor.apply(Backlog(read=1, total=1, ready=True), EpochMs(live.now_ms))
    live.produce("t", 0, 50)
    live.commit(("g", "t", 0, 500))
    for _ in range(10):
        live.wait(5)
        snapshot = live.judge()

    view = View(snapshot, rebalances=None, most_rows=0, most_groups=0)

    assert snapshot.rows.rule.tolist() == [Rule.AHEAD_OF_LOG_END]
    assert snapshot.rows.lag.tolist() == [-1]
    assert set(view.unknown_rows().values()) == {0}


def test_a_partition_never_committed_is_not_unknown_for_that() -> None:
    live = Live()
    live.topics(t=2)
    live.monitor.apply(Backlog(read=1, total=1, ready=True), EpochMs(live.now_ms))
    live.commit(("g", "t", 1, 100))
    live.assign("g", ("t", 0), ("t", 1))
    for _ in range(120):
        live.produce("t", 0, 10)
        live.wait(5)
        snapshot = live.judge()

    view = View(snapshot, rebalances=None, most_rows=0, most_groups=0)

    assert Rule.NEVER_COMMITS in snapshot.rows.rule.tolist()
    assert set(view.unknown_rows().values()) == {0}


def test_scrapers_that_wait_share_an_answer() -> None:
    made, _ = exporter(behind())
    rendered = []
    render = made.render

    def counted(state: ServiceState, form: Format) -> GzipText:
        rendered.append(form)
        return render(state, form)

    made.render = counted  # type: ignore[method-assign]

    async def all_at_once() -> set[bytes]:
        accepts = ["text/plain"] * 20 + ["application/openmetrics-text"] * 20
        scrapes = [made.scrape(accept=accept, accept_encoding="") for accept in accepts]
        abandoned = asyncio.create_task(made.scrape(accept="text/plain", accept_encoding=""))
        await asyncio.sleep(0)
        abandoned.cancel()
        return {b"".join(each.chunks) for each in await asyncio.gather(*scrapes)}

    answers = asyncio.run(all_at_once())

    assert len(rendered) <= 3
    assert len(answers) <= 3
    assert all(b"lagwatch_group_status" in answer for answer in answers)
    later = asyncio.run(made.scrape(accept="", accept_encoding=""))
    assert b"lagwatch_group_status" in b"".join(later.chunks)


def test_a_group_sums_what_is_known() -> None:
    scrape = Scrape(behind())

    assert scrape.value("lagwatch_group_lag_messages", group="g") == 40
    assert scrape.value("lagwatch_group_max_lag_messages", group="g") == 40
    assert scrape.value("lagwatch_group_max_lag_seconds", group="g") == pytest.approx(
        60.8, abs=0.02
    )
    assert scrape.value("lagwatch_group_topic_lag_messages", group="g", topic="t") == 40
    assert scrape.value("lagwatch_group_topic_committed_offset", group="g", topic="t") == 115


def test_a_group_of_which_nothing_is_known_has_no_lag() -> None:
    scrape = Scrape(Cluster(topics={"t": [(-1, -1)]}, commits={("g", "t", 0): 5}))

    assert scrape.values("lagwatch_group_lag_messages") == []
    assert scrape.values("lagwatch_group_max_lag_seconds") == []
    assert scrape.value("lagwatch_group_status", status="UNKNOWN") == 1


def test_exactly_one_status_and_one_state_hold() -> None:
    scrape = Scrape(behind())

    status = {labels["status"]: scrape.value("lagwatch_group_status", status=labels["status"])
              for labels in scrape.labels("lagwatch_group_status")}  # fmt: skip
    state = {labels["state"]: scrape.value("lagwatch_group_state", state=labels["state"])
             for labels in scrape.labels("lagwatch_group_state")}  # fmt: skip
    assert set(status) == {"OK", "WARN", "ERR", "UNKNOWN"}
    assert [word for word, held in status.items() if held] == ["ERR"]
    assert state == {"Stable": 1}


def test_a_group_that_is_not_ok_says_how_many_partitions_by_which_rule_and_since_when() -> None:
    scrape = Scrape(behind(), partition_budget=1)

    assert scrape.value("lagwatch_group_partitions", group="g", status="STOP") == 1
    assert scrape.value("lagwatch_group_partitions", group="g", status="UNKNOWN") == 1
    assert [labels["rule"] for labels in scrape.labels("lagwatch_group_rule_info")] == ["stopped"]
    since_s = scrape.value("lagwatch_group_trouble_start_timestamp_seconds", group="g")
    assert START_MS / 1000 <= since_s < START_MS / 1000 + 62


def test_a_group_that_is_ok_has_no_trouble() -> None:
    scrape = Scrape(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, silent_s=960))

    assert scrape.value("lagwatch_group_status", status="OK") == 1
    for name in ("partitions", "rule_info", "trouble_start_timestamp_seconds"):
        assert scrape.labels(f"lagwatch_group_{name}") == []


def test_the_kind_of_a_group_is_shown_where_it_is_known() -> None:
    cluster = behind()
    scrape = Scrape(cluster)
    unknown = Scrape(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}))

    assert [labels["kind"] for labels in scrape.labels("lagwatch_group_info")] == ["classic"]
    assert unknown.labels("lagwatch_group_info") == []


def test_a_streams_group_that_is_not_ready_has_that_state() -> None:
    infos = [info("g", "NotReady")]
    scrape = Scrape(Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, infos=infos))

    assert scrape.value("lagwatch_group_state", state="NotReady") == 1
    assert (
        Scrape(
            Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, infos=infos),
            kafka_lag_exporter=True,
        ).values("kafka_consumergroup_group_state")
        == []
    )


class TestExplained:
    """Cause, rates and forecast of groups in trouble."""

    NAMES = (
        *("produced_messages_per_second", "consumed_messages_per_second"),
        *("catch_up_seconds", "loss_in_seconds"),
    )

    def test_the_cause_of_a_group_in_trouble_has_its_certainty(self) -> None:
        (labels,) = Scrape(behind()).labels("lagwatch_group_cause_info")

        assert (labels["group"], labels["certainty"]) == ("g", "likely")
        assert labels["cause"] in {row.cause for row in CAUSES}

    def test_what_is_not_known_is_absent(self) -> None:
        scrape = Scrape(behind())

        # one commit of a partition whose log end is not known shows no speed
        for name in self.NAMES[:3]:
            assert scrape.values(f"lagwatch_group_{name}") == []
        # the other has stopped: what is written brings retention nearer to it
        assert scrape.values("lagwatch_group_loss_in_seconds") == [61.0]

    def test_rates_and_forecast_are_those_of_the_api(self) -> None:
        live = Live()
        live.topics(t=1)
        for step in range(40):
            live.produce("t", 0, 50)
            live.commit(("g", "t", 0, 20 * step))
            live.wait(10)
            live.judge()
        cluster = behind()
        cluster.monitor = live.monitor

        scrape = Scrape(cluster)

        queries = SnapshotQueries({"here": live.monitor}, health=lambda: ())
        outlook = queries.outlook("here", "g").whole
        assert queries.verdict("here", "g", Partitions.BAD).status is GroupStatus.WARN
        shown = [scrape.values(f"lagwatch_group_{name}") for name in self.NAMES]
        assert shown == [[outlook.produced_per_s], [outlook.consumed_per_s], [], []]
        assert outlook.produced_per_s == pytest.approx(5, rel=0.1)
        (labels,) = scrape.labels("lagwatch_group_cause_info")
        assert labels["cause"] == "all_slow"

    def test_a_group_that_is_ok_or_stale_has_none(self) -> None:
        well = Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, silent_s=960)
        stale = behind()
        assert stale.monitor.snapshot is not None
        stale.monitor.snapshot = replace(stale.monitor.snapshot, stale=True)

        assert Scrape(well).labels("lagwatch_group_cause_info") == []
        assert Scrape(stale).labels("lagwatch_group_cause_info") == []

    def test_other_work_is_done_between_two_groups(self) -> None:
        groups = [f"g-{number}" for number in range(20)]
        trouble = Cluster(
            topics={"t": [(0, 2000)]},
            commits={(group, "t", 0): 900 for group in groups},
            infos=[info(group, "Empty") for group in groups],
            silent_s=960,
        )
        queries = SnapshotQueries({trouble.name: trouble.monitor}, health=lambda: ())

        async def turns_of_others() -> int:
            task = asyncio.create_task(explained_in_turns(queries, trouble.monitor.snapshot))
            turns = 0
            while not task.done():
                await asyncio.sleep(0)
                turns += 1
            assert {each.group for each in task.result()} == set(groups)
            return turns

        assert asyncio.run(turns_of_others()) >= len(groups)

    @pytest.mark.slow
    def test_groups_are_explained_until_the_partitions_are_spent(self) -> None:
        trouble = Cluster(
            topics={"t": [(0, 2000)] * 3000, "s": [(0, 2000)]},
            commits={("small", "s", 0): 1900}
            | {("large", "t", number): 900 for number in range(3000)}
            | {("other", "t", number): 1000 for number in range(3000)},
            infos=[info(group, "Empty") for group in ("small", "large", "other")],
            silent_s=960,
        )

        shown = {labels["group"] for labels in Scrape(trouble).labels("lagwatch_group_cause_info")}

        assert shown == {"large", "small"}


def test_a_group_that_could_not_be_asked_has_neither_state_nor_members() -> None:
    cluster = Cluster(
        topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, infos=[info("g", "Unknown")]
    )

    scrape = Scrape(cluster)

    assert scrape.values("lagwatch_group_state") == []
    assert scrape.values("lagwatch_group_members") == []


def test_a_partition_that_is_not_ok_says_its_verdict() -> None:
    scrape = Scrape(behind())

    answered = {
        labels["partition"]: labels["status"]
        for labels in scrape.labels("lagwatch_partition_status")
    }
    assert answered == {"0": "STOP", "2": "UNKNOWN"}


@pytest.mark.parametrize(("silent_s", "status"), [(60, "UNKNOWN"), (960, "STOP")])
def test_by_the_default_rules_one_commit_is_too_little_to_call_a_minute_a_stop(
    silent_s: int, status: str
) -> None:
    scrape = Scrape(behind(silent_s=silent_s, rules=RuleSet.LAGWATCH, described=False))

    answered = {
        labels["partition"]: labels["status"]
        for labels in scrape.labels("lagwatch_partition_status")
    }
    assert answered == {"0": status, "2": "UNKNOWN"}


def test_the_owner_stands_beside_the_partition_it_holds() -> None:
    scrape = Scrape(behind())

    (owner,) = scrape.labels("lagwatch_partition_owner_info")
    assert owner == {
        "cluster": "here",
        "group": "g",
        "topic": "t",
        "partition": "0",
        "member_host": "/10.0.0.7",
        "client_id": "client",
        "instance_id": "pod-1",
    }


def test_messages_that_retention_took_and_how_near_it_is() -> None:
    cluster = Cluster(
        topics={"t": [(70, 100), (60, 100)]},
        commits={("g", "t", 0): 55, ("h", "t", 1): 80},
        silent_s=10,
    )

    scrape = Scrape(cluster)

    assert scrape.value("lagwatch_group_lost_messages", group="g") == 15
    assert scrape.value("lagwatch_group_retention_used_ratio", group="g") == 1
    assert scrape.value("lagwatch_group_lost_messages", group="h") == 0
    assert scrape.value("lagwatch_group_retention_used_ratio", group="h") == 0.5


def test_a_log_from_which_nothing_was_ever_removed_says_nothing_about_retention() -> None:
    scrape = Scrape(Cluster(topics={"t": [(0, 100)]}, commits={("g", "t", 0): 1}))

    assert scrape.values("lagwatch_group_retention_used_ratio") == []


def test_a_group_that_is_gone_is_gone_from_the_next_scrape() -> None:
    cluster = behind()
    assert Scrape(cluster).values("lagwatch_group_status", group="g")

    cluster.monitor.apply(GroupsGone(groups=("g",), orders=(99,)), EpochMs(cluster.now_ms))
    cluster.monitor.judge(EpochMs(cluster.now_ms))

    assert 'group="g"' not in text(cluster)


def test_counters_stand_at_zero_from_the_start() -> None:
    quiet = Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9})

    scrape = Scrape(quiet)

    assert scrape.value("lagwatch_rebalances_total", group="g") == 0
    assert scrape.value("lagwatch_errors_total", kind="authorization") == 0
    assert scrape.value("lagwatch_malformed_records_total", reason="key_underflow") == 0
    assert scrape.value("lagwatch_history_dropped_rows_total", reason="spool_full") == 0


def test_rebalances_and_errors_are_counted() -> None:
    cluster = Cluster(
        topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, rebalances={"g": 3, "other": 1}
    )

    scrape = Scrape(cluster)

    assert scrape.value("lagwatch_rebalances_total", group="g") == 3
    assert scrape.value("lagwatch_errors_total", kind="timeout") == 4
    assert scrape.value("lagwatch_collector_restarts_total") == 2
    assert scrape.value("lagwatch_backlog_records") == 3
    assert scrape.value("lagwatch_commits_total") == 1
    assert scrape.value("lagwatch_last_success_timestamp_seconds") == START_MS / 1000 + 2


def test_rebalances_that_polling_does_not_show_have_no_series() -> None:
    polled = Cluster(topics={"t": [(0, 9)]}, commits={("g", "t", 0): 9}, rebalances=None)

    assert "lagwatch_rebalances_total" not in {each.name for each in Scrape(polled).samples}


def test_several_clusters_share_each_family() -> None:
    here, other = (
        behind(),
        Cluster(name="there", topics={"t": [(0, 9)]}, commits={("g", "t", 0): 4}),
    )

    scrape = Scrape(here, other)

    assert scrape.value("lagwatch_group_lag_messages", cluster="here") == 40
    assert scrape.value("lagwatch_group_lag_messages", cluster="there") == 5


@BOTH
def test_odd_names_come_out_as_they_are(form) -> None:
    group = 'a"b\\c\nd é'
    cluster = Cluster(topics={"t": [(0, 9)]}, commits={(group, "t", 0): 4})

    scrape = Scrape(cluster, form=form)

    assert scrape.value("lagwatch_group_lag_messages", group=group) == 5


def test_a_name_that_is_not_unicode_does_not_break_the_scrape() -> None:
    cluster = Cluster(topics={"t": [(0, 9)]}, commits={("a\udcff", "t", 0): 4})

    scrape = Scrape(cluster)

    assert scrape.value("lagwatch_group_lag_messages", group="a\\udcff") == 5


def test_a_cluster_without_groups_is_no_error() -> None:
    cluster = behind()
    cluster.monitor.forget("g", None)
    cluster.monitor.judge(EpochMs(cluster.now_ms))

    scrape = Scrape(cluster)

    assert scrape.value("lagwatch_topic_partitions", topic="t") == 3
    assert scrape.values("lagwatch_lag_messages") == []


def test_before_the_first_round_there_is_the_service_itself() -> None:
    cluster = behind()
    cluster.monitor.snapshot = None

    scrape = Scrape(cluster)

    assert scrape.value("lagwatch_rounds_total", cluster="here") == 0
    assert scrape.values("lagwatch_last_success_timestamp_seconds") == []


class TestSeriesBudget:
    """`metrics.partition_budget`."""

    def cluster(self) -> Cluster:
        return Cluster(
            topics={"t": [(0, 100)] * 4, "u": [(0, 100)]},
            commits={
                ("busy", "t", 0): 90,
                ("busy", "t", 1): 70,
                ("busy", "t", 2): 100,
                ("busy", "t", 3): 95,
                ("idle", "u", 0): 100,
            },
        )

    def test_the_worst_partitions_keep_their_series(self) -> None:
        scrape = Scrape(self.cluster(), partition_budget=2)

        shown = [labels["partition"] for labels in scrape.labels("lagwatch_lag_messages")]
        assert shown == ["0", "1"]

    def test_no_group_is_dropped_and_its_sums_are_whole(self) -> None:
        scrape = Scrape(self.cluster(), partition_budget=2)

        assert scrape.value("lagwatch_group_lag_messages", group="busy") == 45
        assert scrape.value("lagwatch_group_lag_messages", group="idle") == 0
        assert scrape.value("lagwatch_group_topic_lag_messages", group="idle") == 0

    def test_what_is_left_out_is_summed_and_counted(self) -> None:
        scrape = Scrape(self.cluster(), partition_budget=2)

        assert scrape.value("lagwatch_partitions_left_out") == 3
        assert scrape.value("lagwatch_group_rest_partitions", group="busy") == 2
        assert scrape.value("lagwatch_group_rest_lag_messages", group="busy") == 5
        assert scrape.value("lagwatch_group_rest_lag_messages", group="idle") == 0

    def test_partitions_that_are_not_ok_come_before_a_greater_lag(self) -> None:
        cluster = self.cluster()
        snapshot = cluster.monitor.snapshot
        assert snapshot is not None
        snapshot.rows.status[:] = [1, 1, 1, 4, 1]

        scrape = Scrape(cluster, partition_budget=1)

        (shown,) = scrape.labels("lagwatch_lag_messages")
        assert shown["partition"] == "3"

    def test_log_offsets_stay_where_a_shown_partition_needs_them(self) -> None:
        scrape = Scrape(self.cluster(), partition_budget=2)

        shown = [
            (labels["topic"], labels["partition"])
            for labels in scrape.labels("lagwatch_log_end_offset")
        ]
        assert shown == [("t", "0"), ("t", "1")]
        assert scrape.value("lagwatch_topic_log_end_offset", topic="u") == 100

    @pytest.mark.parametrize("budget", [0, 5, 99])
    def test_a_budget_that_suffices_leaves_nothing_out(self, budget) -> None:
        scrape = Scrape(self.cluster(), partition_budget=budget)

        assert scrape.value("lagwatch_partitions_left_out") == 0
        assert scrape.values("lagwatch_group_rest_lag_messages") == []
        assert len(scrape.values("lagwatch_lag_messages")) == 5


class TestBudgetOfGroups:
    """`metrics.group_budget`."""

    FOR_ALERTS = frozenset(
        {
            "lagwatch_group_status",
            "lagwatch_group_partitions",
            "lagwatch_group_lag_messages",
            "lagwatch_group_max_lag_seconds",
            "lagwatch_group_lost_messages",
            "lagwatch_group_retention_used_ratio",
            "lagwatch_rebalances_total",
            "lagwatch_lost_messages_total",
        }
    )

    def cluster(self, groups: int = 3) -> Cluster:
        return Cluster(
            topics={"t": [(10, 100)]},
            commits={(f"g{number}", "t", 0): 90 - number for number in range(groups)},
            infos=[info(f"g{number}", holds=[("t", 0)]) for number in range(groups)],
            silent_s=60,
        )

    def of_group(self, scrape: Scrape, group: str) -> set[str]:
        return {sample.name for sample in scrape.samples if sample.labels.get("group") == group}

    def test_the_rest_keep_what_alerts_need(self) -> None:
        scrape = Scrape(self.cluster(), group_budget=1, partition_budget=1)

        assert self.of_group(scrape, "g0") == self.of_group(scrape, "g1") == self.FOR_ALERTS
        assert self.of_group(scrape, "g2") > self.FOR_ALERTS
        assert scrape.value("lagwatch_groups_left_out") == 2

    def test_a_time_lag_that_is_only_a_bound_says_so(self) -> None:
        cluster = self.cluster(1)
        snapshot = cluster.monitor.snapshot
        assert snapshot is not None
        snapshot.rows.time_lag_reason[:] = TimeLagReason.BEYOND_HISTORY
        snapshot.group.time_lag_reason[:] = TimeLagReason.BEYOND_HISTORY

        scrape = Scrape(cluster)

        assert [
            [each["bound"] for each in scrape.labels(name)]
            for name in ("lagwatch_lag_seconds_bound", "lagwatch_group_max_lag_seconds_bound")
        ] == [["at_least"], ["at_least"]]

    def test_groups_that_are_not_ok_come_before_a_greater_lag(self) -> None:
        cluster = self.cluster()
        snapshot = cluster.monitor.snapshot
        assert snapshot is not None
        snapshot.group.status[:] = [GroupStatus.WARN, GroupStatus.ERR, GroupStatus.OK]

        scrape = Scrape(cluster, group_budget=1)
        two = Scrape(cluster, group_budget=2)

        assert [each["group"] for each in scrape.labels("lagwatch_group_members")] == ["g1"]
        assert [each["group"] for each in two.labels("lagwatch_group_members")] == ["g0", "g1"]

    def test_a_group_of_the_rest_costs_eleven_series_at_most(self) -> None:
        few, many = self.cluster(10), self.cluster(60)

        more = len(Scrape(many, group_budget=5, partition_budget=5).samples) - len(
            Scrape(few, group_budget=5, partition_budget=5).samples
        )

        assert more / 50 <= 11

    @pytest.mark.parametrize("budget", [0, 3, 99])
    def test_a_budget_that_suffices_leaves_no_group_out(self, budget) -> None:
        scrape = Scrape(self.cluster(), group_budget=budget)

        assert scrape.value("lagwatch_groups_left_out") == 0
        assert len(scrape.values("lagwatch_group_members")) == 3


def test_rounds_and_answers_are_counted_with_their_durations() -> None:
    made, state = exporter(behind())
    made.judged("here", 0.02)
    made.judged("here", 0.3)
    made.answered(method="GET", route="/v3/kafka/{cluster}", status=200, took_s=0.001)

    lines = b"".join(made.render(state, Format.PROMETHEUS).plain()).decode().splitlines()

    assert 'lagwatch_round_duration_seconds_bucket{cluster="here",le="0.05"} 1.0' in lines
    assert 'lagwatch_round_duration_seconds_count{cluster="here"} 2.0' in lines
    assert 'lagwatch_round_duration_seconds_sum{cluster="here"} 0.32' in lines
    labels = '{method="GET",route="/v3/kafka/{cluster}",status="200"}'
    assert f"lagwatch_http_request_duration_seconds_count{labels} 1.0" in lines
    assert [line for line in lines if "_created" in line] == []


def test_the_last_deployment_of_a_group_is_reported_with_its_version() -> None:
    made, state = exporter(behind())
    deployed = Deployment(
        cluster="here", group="g", at_ms=EpochMs(START_MS), version="1.4", note="", offsets={}
    )

    rendered = made.render(replace(state, deployments=(deployed,)), Format.PROMETHEUS)

    labels = '{cluster="here",group="g",version="1.4"}'
    line = f"lagwatch_group_deployment_timestamp_seconds{labels} {START_MS / 1000}"
    assert line in b"".join(rendered.plain()).decode().splitlines()


def test_a_collector_says_what_it_costs_while_it_runs() -> None:
    made, state = exporter(behind())
    running = replace(state.clusters[0], collector_pid=os.getpid())

    def values(clusters: tuple[ClusterMetrics, ...]) -> dict[str, float]:
        rendered = made.render(replace(state, clusters=clusters), Format.PROMETHEUS)
        found = re.findall(
            r'^lagwatch_collector_(\w+)\{cluster="here"\} (.+)$',
            b"".join(rendered.plain()).decode(),
            re.MULTILINE,
        )
        return {name: float(value) for name, value in found}

    costs = values((running,))
    assert costs["cpu_seconds_total"] > 0
    assert costs["resident_memory_bytes"] > 1_000_000
    assert costs["start_time_seconds"] > 1_700_000_000
    assert values(state.clusters).keys() == {"restarts_total"}


def test_gzip_and_plain_hold_the_same_text() -> None:
    many = Cluster(
        topics={"t": [(0, 9)] * 9000}, commits={("g", "t", number): 4 for number in range(9000)}
    )
    made, state = exporter(many)

    packed = made.render(state, Format.PROMETHEUS)

    plain = b"".join(packed.plain())
    assert plain == gzip.decompress(b"".join(packed.zipped))
    assert plain.count(b"\nlagwatch_lag_messages{") == 9000
    assert len(plain) == packed.size_bytes > 2_000_000
    assert sum(map(len, packed.zipped)) == packed.zipped_size_bytes < packed.size_bytes / 10


def test_everything_written_stands_in_the_table_with_its_labels() -> None:
    scrape = Scrape(behind())
    known = {metric.name: metric for metric in table.ALL}

    for sample in scrape.samples:
        if sample.name.startswith("lagwatch_"):
            metric = (
                known.get(sample.name) or known[re.sub("_(bucket|sum|count)$", "", sample.name)]
            )
            labels = tuple(label for label in sample.labels if label != "le")
            assert labels == metric.labels, sample.name


def test_the_table_keeps_the_rules_for_names() -> None:
    assert len({metric.name for metric in table.ALL}) == len(table.ALL)
    for metric in table.ALL:
        assert metric.name.startswith("lagwatch_")
        assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
        assert metric.name.endswith("_info") == (metric.kind is MetricKind.INFO)
        assert metric.family.removesuffix("_rows").endswith(metric.unit)
        assert not {"\\", '"', "\n"} & set(metric.help)


def test_promtool_finds_nothing_to_object_to() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")

    checked = subprocess.run(
        [promtool, "check", "metrics"],
        input=text(behind()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
