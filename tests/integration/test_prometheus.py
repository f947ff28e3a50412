"""A real Prometheus scrapes a real lagwatch that watches a real broker: is there data to see?

Every expression of every dashboard must find some, and every rule must be understood.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.command import serving
from tests.support.dashboards import (
    RULES,
    Expression,
    expressions,
    for_all,
    metrics_in,
    panels_of_type,
    rules,
)
from tests.support.grafana_table import TABLES, Row, table_rows
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.prometheus import Prometheus, scraping
from tests.support.waiting import eventually

_DEADLINE_S = 90
_CLUSTER = "here"
_PRESENT_WITH_A_CHANNEL = {
    "lagwatch_notices_delivered_total",
    "lagwatch_notices_dead_total",
    "lagwatch_notice_attempts_failed_total",
    "lagwatch_queued_notices",
}
"""There when a channel for notices is configured."""


_HELD = "alertname_cluster_group:lagwatch_held"
"""Has data only while alerts fire of which nothing is known."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Groups in every state, and who watches them."""

    prometheus: Prometheus
    url: str
    catching_up: str
    stopped: str
    stopped_too: str
    idle: str


@pytest.fixture(scope="module")
def scene(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A group that catches up with a member, one that stopped and lost messages, and more.

    `stopped_too` lost nothing, and its time lag is known; `idle` has read everything.
    """
    folder = tmp_path_factory.mktemp("prometheus")
    topic, lossy, quiet = (
        create_topic(kafka, partitions=2),
        create_topic(kafka),
        create_topic(kafka),
    )
    catching_up, stopped = unique("catching-up"), unique("stopped")
    stopped_too, idle = unique("stopped-too"), unique("idle")
    produce(kafka, topic, 100)
    produce(kafka, lossy, 50)
    produce(kafka, quiet, 10)
    commit(kafka, stopped_too, quiet, 5)
    commit(kafka, idle, lossy, 50)
    commit(kafka, catching_up, topic, 100)
    commit(kafka, stopped, lossy, 10)
    _remove(kafka, lossy, before=20)
    with serving(folder / "log", "--config", str(_configuration(kafka, folder))) as url:
        target = url.removeprefix("http://")
        with scraping(target, folder, rules=RULES) as prometheus:
            eventually(
                lambda: bool(prometheus.query(f'lagwatch_lag_messages{{group="{stopped}"}}')),
                "the first scrape has arrived",
                timeout_s=_DEADLINE_S,
            )
            _commit_where_the_time_is_known(kafka, stopped_too, quiet, prometheus)
            with _traffic(kafka, catching_up, topic):
                yield Scene(
                    prometheus=prometheus,
                    url=url,
                    catching_up=catching_up,
                    stopped=stopped,
                    stopped_too=stopped_too,
                    idle=idle,
                )


def _configuration(kafka: EmbeddedKafka, folder: Path) -> Path:
    path = folder / "lagwatch.toml"
    path.write_text(
        f"""
        [server]
        address = "127.0.0.1:0"
        [log]
        format = "json"
        [evaluator]
        interval_s = 0.5
        stop_after_s = 10
        stall_after_s = 10
        loss_shown_s = 2
        [history]
        url = "{folder / "history"}"
        spool = "{folder / "spool"}"
        [alerts]
        file = "{folder / "alerts.sqlite"}"
        [alerts.webhook.nobody]
        url = "http://127.0.0.1:9/"
        [clusters.{_CLUSTER}]
        bootstrap = "{kafka.bootstrap_servers}"
        log_end_interval_s = 0.5
        group_interval_s = 1.0
        """
    )
    return path


def _remove(kafka: EmbeddedKafka, topic: str, *, before: int) -> None:
    """Take the oldest messages away, as retention does."""
    admin = AdminClient(kafka.admin_config())
    (result,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    result.result(_DEADLINE_S)


def _commit_where_the_time_is_known(
    kafka: EmbeddedKafka, group: str, topic: str, prometheus: Prometheus
) -> None:
    """Commit behind messages that arrived while lagwatch watched: the log held 10 before."""
    log_end = f'lagwatch_log_end_offset{{topic="{topic}"}}'
    eventually(lambda: bool(prometheus.query(f"{log_end} == 10")), "lagwatch saw the old log end")
    produce(kafka, topic, 10)
    eventually(lambda: bool(prometheus.query(f"{log_end} == 20")), "lagwatch saw the new log end")
    commit(kafka, group, topic, 12)


@contextmanager
def _traffic(kafka: EmbeddedKafka, group: str, topic: str) -> Iterator[None]:
    """Messages come at once; a member reads them bit by bit, so that its lag shrinks."""
    produce(kafka, topic, 5000)
    over = threading.Event()

    def read() -> None:
        consumer = Consumer(
            kafka.admin_config()
            | {"group.id": group, "client.id": "reader", "enable.auto.commit": False}
        )
        try:
            consumer.subscribe([topic])
            while not over.wait(0.2):
                if consumer.consume(5, 0.5):
                    consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(_DEADLINE_S)


def _every_expression() -> list[Expression]:
    recorded = [
        Expression(rule["record"], rule["expr"])
        for rule in rules()
        if rule.get("record") not in {None, _HELD}
    ]
    return expressions() + recorded


def _has_channels(scene: Scene) -> bool:
    with urllib.request.urlopen(f"{scene.url}/metrics", timeout=_DEADLINE_S) as answer:  # noqa: S310
        return b"\nlagwatch_queued_notices{" in answer.read()


def test_prometheus_scrapes_without_an_error(scene: Scene) -> None:
    (target,) = scene.prometheus.targets()

    assert (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.parametrize("expression", _every_expression(), ids=lambda one: one.place)
def test_every_expression_finds_data(scene: Scene, expression: Expression) -> None:
    asked = metrics_in(expression.text)
    if asked and asked <= _PRESENT_WITH_A_CHANNEL and not _has_channels(scene):
        assert scene.prometheus.query(for_all(expression.text)) == []
        return
    query = for_all(expression.text)

    eventually(
        lambda: bool(scene.prometheus.query(query)), f"data for {query}", timeout_s=_DEADLINE_S
    )


@pytest.mark.parametrize("panel", panels_of_type("table"), ids=lambda one: one["title"])
def test_a_table_has_one_complete_row_for_each_subject(scene: Scene, panel) -> None:
    truth, prometheus = TABLES[panel["title"]], scene.prometheus

    def expected_now() -> tuple[float, list[Row]]:
        at_s = prometheus.last_scrape_s()
        return at_s, truth.expected(prometheus, at_s=at_s)

    def each_column_has_a_value() -> bool:
        _, rows = expected_now()
        return {*truth.shown.values(), *truth.columns} <= {name for row in rows for name in row}

    eventually(
        each_column_has_a_value,
        f"a value in each column of {panel['title']}",
        timeout_s=_DEADLINE_S,
    )
    at_s, expected = expected_now()
    rows = table_rows(prometheus, panel, at_s=at_s)

    assert sorted(map(_sortable, rows)) == sorted(map(_sortable, expected))


def test_the_table_of_trouble_lists_stopped_groups_and_leaves_out_those_that_are_ok(
    scene: Scene,
) -> None:
    (panel,) = [one for one in panels_of_type("table") if one["title"] == "Groups that are not OK"]

    def listed() -> list[str]:
        rows = table_rows(scene.prometheus, panel, at_s=scene.prometheus.last_scrape_s())
        return [row["Group"] for row in rows]

    eventually(
        lambda: {scene.stopped, scene.stopped_too} <= set(listed()),
        "both groups that stopped are listed",
        timeout_s=_DEADLINE_S,
    )
    groups = listed()
    assert scene.idle not in groups
    assert len(groups) == len(set(groups))


def _sortable(row: Row) -> list[tuple[str, str]]:
    return sorted(row.items())


def test_every_rule_is_understood_and_evaluated(scene: Scene) -> None:
    names = {rule.get("record", rule.get("alert")) for rule in rules()}

    def evaluated() -> bool:
        known = scene.prometheus.rules()
        return {rule["name"] for rule in known if rule["health"] == "ok"} == names

    eventually(evaluated, "all rules were evaluated without an error", timeout_s=_DEADLINE_S)


def test_a_group_that_stopped_and_lost_messages_raises_its_alerts(scene: Scene) -> None:
    def pending() -> set[str]:
        found = scene.prometheus.query(f'ALERTS{{group="{scene.stopped}"}}')
        return {alert["metric"]["alertname"] for alert in found}

    eventually(
        lambda: {"LagwatchGroupInError", "LagwatchGroupLostData"} <= pending(),
        "both alerts are pending or firing",
        timeout_s=_DEADLINE_S,
    )


def test_what_prometheus_holds_is_what_the_api_says(scene: Scene) -> None:
    url = f"{scene.url}/v3/kafka/{_CLUSTER}/consumer/{scene.stopped}/lag"
    with urllib.request.urlopen(url, timeout=_DEADLINE_S) as answer:  # noqa: S310
        told = json.load(answer)["status"]

    (series,) = scene.prometheus.query(f'lagwatch_group_lag_messages{{group="{scene.stopped}"}}')

    assert int(series["value"][1]) == told["totallag"] == 40
    (lost,) = scene.prometheus.query(f'lagwatch_group_lost_messages{{group="{scene.stopped}"}}')
    assert int(lost["value"][1]) == 10
