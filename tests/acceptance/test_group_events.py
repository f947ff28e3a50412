"""The story of a group as real consumers of every kind make it: classic, KIP-848, static."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from typer.testing import CliRunner

from lagwatch.cli import app as command
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, consumer_of
from tests.support.kafka import ANSWER_TIMEOUT_S, create_topic, produce, unique
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

CLUSTER: dict[str, Any] = {"log_end_interval_s": 1, "group_interval_s": 1, "topic_interval_s": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    kafka: EmbeddedKafka
    watches: Sequence[Watched]

    def events_of(self, watched: Watched, group: str) -> list[dict[str, Any]]:
        path = f"/api/v1/clusters/{watched.served.cluster}/groups/{group}/events"
        try:
            points: list[dict[str, Any]] = watched.served.get(path)["points"]
        except HTTPError:  # not known yet
            return []
        return points

    def wait(self, group: str, name: str) -> list[dict[str, Any]]:
        """Wait until every service reports this event; returns all reports."""
        found = []
        for watched in self.watches:
            eventually(
                lambda watched=watched: bool(self._named(watched, group, name)),  # type: ignore[misc]
                f"{watched.mode} reports {name} of {group}",
            )
            found.append(self._named(watched, group, name)[0])
        return found

    def _named(self, watched: Watched, group: str, name: str) -> list[dict[str, Any]]:
        return [each for each in self.events_of(watched, group) if each["event"] == name]

    def members(self, group: str, number: int) -> None:
        """Wait until every service shows so many members, with partitions."""
        for watched in self.watches:
            eventually(
                lambda watched=watched: _members(watched, group) == (number, "Stable"),  # type: ignore[misc]
                f"{watched.mode} shows {number} members of {group}",
            )


def _assigned(consumer: Consumer) -> bool:
    consumer.consume(10, 0.1)
    return bool(consumer.assignment())


def _members(watched: Watched, group: str) -> tuple[int, str]:
    info = (watched.group(group) or {}).get("info") or {}
    return info.get("members", -1), info.get("state", "")


@pytest.fixture(scope="module")
def scene(own_kafka: EmbeddedKafka) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(watching(own_kafka, mode, **CLUSTER)) for mode in MODES]
        yield Scene(kafka=own_kafka, watches=watches)


@contextlib.contextmanager
def member(
    kafka: EmbeddedKafka, group: str, topic: str, kind: str, name: str
) -> Iterator[Consumer]:
    properties = {**KINDS[kind], "client.id": name}
    if kind == "static":
        properties |= {"group.instance.id": name, "session.timeout.ms": 3_000}
    consumer = consumer_of(kafka, group, properties)
    consumer.subscribe([topic])
    try:
        eventually(lambda: _assigned(consumer), "it is assigned")
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("kind", ["eager", "cooperative", "kip848"])
def test_members_that_join_and_leave_are_reported_by_client_id(scene: Scene, kind: str) -> None:
    topic, group = create_topic(scene.kafka, partitions=2), unique(kind)
    produce(scene.kafka, topic, 10)
    with member(scene.kafka, group, topic, kind, "first") as first:
        first.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        scene.members(group, 1)
        second = consumer_of(scene.kafka, group, {**KINDS[kind], "client.id": "second"})
        second.subscribe([topic])

        def both_read() -> bool:
            first.poll(0.1)
            second.poll(0.1)
            return len(first.assignment()) == len(second.assignment()) == 1

        eventually(both_read, "the partitions are shared")
        joined = scene.wait(group, "member_joined")
        second.close()

        def alone() -> bool:
            first.poll(0.1)
            return len(first.assignment()) == 2

        eventually(alone, "the first takes over")
        left = scene.wait(group, "member_left")

    for event in (*joined, *left):
        assert [each["client_id"] for each in json.loads(event["detail"])] == ["second"]
        assert json.loads(event["detail"])[0]["host"] == "/127.0.0.1"
    rebalances = [
        each["event"]
        for each in scene.events_of(scene.watches[0], group)
        if each["event"] == "rebalance"
    ]
    assert rebalances, "generations and epochs are counted where commits are read"


def test_a_static_member_is_away_and_comes_back(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka), unique("static")
    produce(scene.kafka, topic, 10)
    with member(scene.kafka, group, topic, "static", "desk-1") as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
        scene.members(group, 1)

    away = scene.wait(group, "static_member_away")
    with member(scene.kafka, group, topic, "static", "desk-1"):
        scene.wait(group, "static_member_back")
        scene.wait(group, "assigned")

    assert [json.loads(each["detail"])[0]["instance_id"] for each in away] == ["desk-1"] * 2


def test_offsets_reset_while_empty_and_partitions_added_are_reported_and_printed(
    scene: Scene,
) -> None:
    topic, group = create_topic(scene.kafka), unique("reset")
    produce(scene.kafka, topic, 10)
    with member(scene.kafka, group, topic, "eager", "first") as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 8)], asynchronous=False)
        scene.members(group, 1)
    scene.wait(group, "member_left")
    for watched in scene.watches:
        eventually(
            lambda watched=watched: _members(watched, group) == (0, "Empty"),  # type: ignore[misc]
            "it is empty",
        )
    admin = AdminClient(scene.kafka.admin_config())

    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([reset])[group].result(ANSWER_TIMEOUT_S)
    events_of = scene.wait(group, "offsets_reset")
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(ANSWER_TIMEOUT_S)
    scene.wait(group, "partitions_added")

    assert [json.loads(each["detail"]) for each in events_of] == [
        [{"partition": 0, "before": 8, "after": 2}]
    ] * 2
    served = scene.watches[0].served
    arguments = ["events", group, "--cluster", served.cluster, "--url", served.base]
    printed = CliRunner().invoke(command, arguments)
    assert printed.exit_code == 0, printed.output
    assert "1 member left: client first on 127.0.0.1" in printed.stdout
    assert f"{topic} offsets were set while the group had no members: 0: 8 → 2" in printed.stdout
    assert f"{topic} 3 partitions instead of 1" in printed.stdout
    times = [line[:20] for line in printed.stdout.splitlines()]
    assert times == sorted(times)
