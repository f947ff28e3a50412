"""A real Prometheus scrapes a real lagwatch that watches a real broker: is there data to see?

Every expression of every dashboard must find some, and every rule must be understood.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from confluent_kafka import Consumer

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.dashboards import Expression, expressions, for_all, metrics_in, rules
from tests.support.kafka import create_topic, produce, unique
from tests.support.scene import CLUSTER, Scene, remove, watched_scene
from tests.support.traffic import running
from tests.support.waiting import eventually

_DEADLINE_S = 180
"""A rate is drawn once there are samples of more than 45 s, at steps of 30 s."""

_PRESENT_WITH_A_CHANNEL = {
    "lagwatch_notices_delivered_total",
    "lagwatch_notices_dead_total",
    "lagwatch_notice_attempts_failed_total",
    "lagwatch_queued_notices",
}
"""There when a channel for notices is configured."""


_FORECASTS = {
    "lagwatch_group_loss_in_seconds": "loss_in_s",
    "lagwatch_group_catch_up_seconds": "catch_up_s",
}
"""There while retention comes closer to what a group in trouble has not read, or it catches up:
with the name that the API has for it."""

_CONDITIONS = {
    "alertname_cluster_group:lagwatch_true",
    "alertname_cluster_group:lagwatch_last_known",
}
"""Have data only for groups in a trouble that an alert is about."""


@pytest.fixture(scope="module")
def scene(kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with watched_scene(kafka, tmp_path_factory.mktemp("prometheus")) as made:
        yield made


def _every_expression() -> list[Expression]:
    recorded = [
        Expression(rule["record"], rule["expr"])
        for rule in rules()
        if rule.get("record") not in {None, *_CONDITIONS}
    ]
    return expressions() + recorded


def _has_channels(scene: Scene) -> bool:
    with urllib.request.urlopen(f"{scene.url}/metrics", timeout=_DEADLINE_S) as answer:  # noqa: S310
        return b"\nlagwatch_queued_notices{" in answer.read()


def _foreseen(scene: Scene, name: str) -> bool:
    """Does the API foresee this for a group of the scene that is in trouble?"""
    groups = (
        _ask(scene, f"/api/v1/clusters/{CLUSTER}/groups/{group}")
        for group in (scene.catching_up, scene.stopped, scene.stopped_too, scene.idle)
    )
    return any(group["status"] != "OK" and group[name] is not None for group in groups)


def _ask(scene: Scene, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(scene.url + path, timeout=_DEADLINE_S) as answer:  # noqa: S310
        return dict(json.load(answer))


def test_prometheus_scrapes_without_an_error(scene: Scene) -> None:
    (target,) = scene.prometheus.targets()

    assert (target["health"], target["lastError"]) == ("up", "")


@pytest.mark.parametrize("expression", _every_expression(), ids=lambda expression: expression.place)
def test_every_expression_finds_data(
    scene: Scene, kafka: EmbeddedKafka, expression: Expression
) -> None:
    asked = metrics_in(expression.text)
    if asked and asked <= _PRESENT_WITH_A_CHANNEL and not _has_channels(scene):
        assert scene.prometheus.query(for_all(expression.text)) == []
        return
    foreseen = [_foreseen(scene, name) for metric, name in _FORECASTS.items() if metric in asked]
    if foreseen and not any(foreseen):
        return
    query = for_all(expression.text)

    with _rebalancing(kafka) if "lagwatch_rebalances_total" in asked else nullcontext():
        eventually(
            lambda: bool(scene.prometheus.query(query)), f"data for {query}", timeout_s=_DEADLINE_S
        )


@contextmanager
def _rebalancing(kafka: EmbeddedKafka) -> Iterator[None]:
    """A member of a group comes and goes: what changed a minute ago is not seen any more."""
    topic, group = create_topic(kafka), unique("rebalanced")
    produce(kafka, topic, 1)

    def come_and_go(stop: threading.Event) -> None:
        while not stop.is_set():
            with _member(kafka, group, topic) as consumer:
                if consumer.consume(1, 5):
                    consumer.commit(asynchronous=False)  # only groups with commits are shown

    with running(come_and_go):
        yield


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


def test_a_consumer_that_has_its_messages_deleted_before_it_commits_raises_no_alert(
    scene: Scene, kafka: EmbeddedKafka
) -> None:
    """As Kafka Streams does with its repartition topics."""
    topic, group = create_topic(kafka), unique("streams")
    of_topic = f'topic="{topic}"'
    produce(kafka, topic, 20)

    def found(query: str) -> bool:
        return bool(scene.prometheus.query(query))

    with _member(kafka, group, topic) as consumer:
        assert len(consumer.consume(10, _DEADLINE_S)) == 10
        consumer.commit(asynchronous=False)
        eventually(
            lambda: found(f"lagwatch_partition_owner_info{{{of_topic}}}"),
            "lagwatch knows the member",
            timeout_s=_DEADLINE_S,
        )
        remove(kafka, topic, before=20)
        eventually(
            lambda: found(f"lagwatch_log_start_offset{{{of_topic}}} == 20"),
            "messages after the committed offset are gone",
            timeout_s=_DEADLINE_S,
        )
        behind = scene.prometheus.query(f"lagwatch_committed_offset{{{of_topic}}}")
        lost = scene.prometheus.query(f'lagwatch_group_lost_messages{{group="{group}"}}')
        alerts = scene.prometheus.query(f'ALERTS{{group="{group}"}}')

    assert [float(series["value"][1]) for series in behind] == [10]
    assert [float(series["value"][1]) for series in lost] == [0]
    assert [alert["metric"]["alertname"] for alert in alerts if "Lost" in str(alert)] == []


@contextmanager
def _member(kafka: EmbeddedKafka, group: str, topic: str) -> Iterator[Consumer]:
    """The only member of a group, which reads from the beginning and commits when asked to."""
    consumer = Consumer(
        kafka.admin_config()
        | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        yield consumer
    finally:
        consumer.close()


def test_what_prometheus_holds_is_what_the_api_says(scene: Scene) -> None:
    verdict = _ask(scene, f"/v3/kafka/{CLUSTER}/consumer/{scene.stopped}/lag")["status"]

    (series,) = scene.prometheus.query(f'lagwatch_group_lag_messages{{group="{scene.stopped}"}}')

    assert int(series["value"][1]) == verdict["totallag"] == 40
    (lost,) = scene.prometheus.query(f'lagwatch_group_lost_messages{{group="{scene.stopped}"}}')
    assert int(lost["value"][1]) == 10
