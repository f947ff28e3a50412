"""Dashboards and rules name the metrics there are, and no others."""

import re
import subprocess
from pathlib import Path

import pytest

from grafana import build
from lagwatch.metrics import table
from lagwatch.metrics.metric import MetricKind
from tests.support.dashboards import (
    GRAFANA,
    RULES,
    boards,
    expressions,
    metrics_in,
    panels,
    rule_groups,
    rules,
)
from tests.support.prometheus import program
from tests.support.scraped import Cluster, Scrape

ROOT = Path(__file__).parents[2]
OURS = {
    metric.name + suffix
    for metric in table.ALL
    for suffix in (("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",))
}
OF_THE_PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def test_the_committed_dashboards_are_what_the_code_makes() -> None:
    assert build.outdated() == [], "run: python -m grafana.build"


def test_every_metric_that_a_dashboard_or_rule_asks_for_exists() -> None:
    asked = set().union(*(metrics_in(expression.text) for expression in expressions()))
    asked |= set().union(*(metrics_in(rule["expr"]) for rule in rules()))

    assert asked - OURS - OF_THE_PROCESS == set()
    assert {"lagwatch_lag_messages", "lagwatch_group_status"} <= asked


def test_every_panel_has_queries_that_can_be_told_apart() -> None:
    for name, board in boards().items():
        shown = list(panels(board))
        assert shown, name
        for panel in shown:
            letters = [target.get("refId") for target in panel["targets"]]
            assert letters, (name, panel["title"])
            assert len(set(letters)) == len(letters), (name, panel["title"])


def test_every_recorded_name_that_a_dashboard_or_rule_uses_is_recorded() -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    texts = [expression.text for expression in expressions()] + [rule["expr"] for rule in rules()]

    used = set(re.findall(r"\b\w+:lagwatch_\w+(?::\w+)?|\blagwatch:\w+", "\n".join(texts)))

    assert used <= recorded


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    for rule in rules():
        if "alert" in rule:
            severities = {"none"} if rule["alert"] == "Watchdog" else {"warning", "critical"}
            assert rule["labels"]["severity"] in severities, rule["alert"]
            for part in ("summary", "description", "runbook"):
                assert len(rule["annotations"][part]) > 20, (rule["alert"], part)


def test_rules_about_groups_use_series_that_no_budget_takes_away() -> None:
    (groups,) = (group for group in rule_groups() if group["name"] == "lagwatch-groups")
    asked = set().union(*(metrics_in(rule["expr"]) for rule in groups["rules"]))

    scrape = Scrape(
        Cluster(
            topics={"t": [(10, 100)]},
            commits={("g", "t", 0): 5, ("h", "t", 0): 6},
            silent_s=960,
        ),
        group_budget=1,
        partition_budget=1,
    )

    kept = {sample.name for sample in scrape.samples if sample.labels.get("group") == "h"}
    assert asked - kept == {"lagwatch_cluster_ready"}


def test_every_alert_about_groups_outlasts_scrapes_that_fail() -> None:
    for group in rule_groups():
        for rule in group["rules"]:
            if group["name"] == "lagwatch-groups" and "alert" in rule:
                assert "keep_firing_for" in rule, rule["alert"]


def test_every_alert_is_tested() -> None:
    tested = (RULES.parent / "lagwatch.rules.test.yaml").read_text(encoding="utf-8")

    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    # LagwatchGroupAboutToLoseData is asked for by a pattern first, and named in what must come
    assert {alert for alert in alerts if alert not in tested} == set()


@pytest.mark.parametrize(
    "arguments",
    [("check", "rules", RULES.name), ("test", "rules", "lagwatch.rules.test.yaml")],
    ids=lambda arguments: arguments[0],
)
def test_promtool_is_content_with_the_rules(arguments) -> None:
    done = subprocess.run(
        [program("promtool"), *arguments],
        cwd=GRAFANA / "rules",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout
