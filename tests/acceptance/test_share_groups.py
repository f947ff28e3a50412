"""Share and streams groups beside real brokers and clients, in both ways to read commits.

The truth about share groups is what Kafka's own Java client prints: its tool shows the same.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType

from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.groups import KafkaGroups
from lagwatch.ports.reports import CollectorFacts
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import ANSWER_TIMEOUT_S, create_topic, produce, unique
from tests.support.rights import Rights
from tests.support.share import ShareGroups, share_groups
from tests.support.step_clock import LaterClock
from tests.support.streams import StreamsMember
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

EVALUATOR = "[evaluator]\nstop_after_s = 12\nstall_after_s = 20\n"
CLUSTER = {"log_end_interval_s": 1, "group_interval_s": 1, "topic_interval_s": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One broker, Kafka's Java client, and one service for each way to read commits."""

    kafka: EmbeddedKafka
    shares: ShareGroups
    watches: Sequence[Watched]

    def as_kafka_says(self, group: str, topic: str) -> None:
        """Wait until start offset and lag of all partitions are those that Kafka prints."""
        reply = self.shares.offsets(group)
        truth = {partition: each for (name, partition), each in reply.items() if name == topic}
        for watched in self.watches:
            eventually(
                lambda watched=watched: shown(watched, group, topic) == truth,  # type: ignore[misc]
                f"{watched.mode} shows {truth}",
            )


def shown(watched: Watched, group: str, topic: str) -> dict[int, tuple[int, int]]:
    """Start offset and lag by partition, of those that were ever delivered."""
    answer = watched.group(group) or {}
    return {
        each["partition"]: (each["share"]["start_offset"], each["lag"])
        for each in answer.get("partitions", ())
        if each["topic"] == topic and each["share"] is not None
    }


def info(watched: Watched, group: str) -> tuple[Any, ...]:
    """Kind, state and members; empty while the group is not known."""
    answer = watched.group(group) or {}
    reply = answer.get("info") or {}
    return reply.get("type"), reply.get("state"), reply.get("members")


@pytest.fixture(scope="module")
def scene(own_kafka: EmbeddedKafka) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        shares = stack.enter_context(share_groups(own_kafka))
        watches = [
            stack.enter_context(watching(own_kafka, mode, sections=EVALUATOR, **CLUSTER))
            for mode in MODES
        ]
        yield Scene(kafka=own_kafka, shares=shares, watches=watches)


pytestmark = [pytest.mark.minutes, pytest.mark.usefixtures("kafka_python")]


@pytest.fixture(scope="module")
def kafka_python() -> None:
    pytest.importorskip("kafka", reason="kafka-python describes share and streams groups")


def test_the_lag_of_a_share_group_is_what_kafka_says(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, partitions=2), unique("share")
    produce(scene.kafka, topic, 30)
    member = scene.shares.member(group, topic, client_id="picker")
    taken = member.take_some()
    assert len(taken) == 30

    member.accept(*taken[:3], *taken[6:10])
    member.reject(taken[3])
    member.release(*taken[4:6], *taken[10:])
    member.commit()

    assert scene.shares.offsets(group) == {(topic, 0): (0, 22)}, "the gap holds the start offset"
    scene.as_kafka_says(group, topic)
    for watched in scene.watches:
        eventually(
            lambda watched=watched: info(watched, group) == ("share", "Stable", 1),  # type: ignore[misc]
            "kind, state and members are shown",
        )
        partition = (watched.group(group) or {})["partitions"][0]
        assert partition["committed"] == 8
        assert partition["share"] == {
            "start_offset": 0,
            "completed": 8,
            "delivered_again": 22,
            "most_deliveries": 1,
        }
        assert partition["client_id"] == "picker"

    again = member.take_some()
    produce(scene.kafka, topic, 5)
    assert scene.shares.offsets(group) == {(topic, 0): (0, 27)}, "in flight is lag"
    scene.as_kafka_says(group, topic)

    member.accept(*again)
    member.commit()
    scene.as_kafka_says(group, topic)
    last = member.take_some()
    member.accept(*last)
    member.commit()
    start, lag = scene.shares.offsets(group)[topic, 0]
    assert start >= 30, "the start offset moves with a later acknowledgement"
    assert lag == 0
    scene.as_kafka_says(group, topic)
    member.close()


def test_a_share_group_whose_members_left_stops_and_one_that_is_deleted_goes(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka), unique("share")
    produce(scene.kafka, topic, 10)
    member = scene.shares.member(group, topic)
    taken = member.take_some()
    member.accept(*taken[:4])
    member.release(*taken[4:])
    member.commit()
    scene.as_kafka_says(group, topic)
    for _ in range(9):  # who works for longer than seven seconds here is no short job
        produce(scene.kafka, topic, 1)
        member.accept(*member.take_some())
        member.commit()
        time.sleep(1)  # noqa: TID251 it works for a while

    member.close()
    produce(scene.kafka, topic, 10)

    for watched in scene.watches:
        watched.wait(group, topic, "STOP")
        eventually(
            lambda watched=watched: info(watched, group) == ("share", "Empty", 0),  # type: ignore[misc]
            f"{watched.mode} shows that nobody is left",
        )
    admin = AdminClient(scene.kafka.admin_config())
    admin.delete_consumer_groups([group])[group].result(ANSWER_TIMEOUT_S)
    for watched in scene.watches:
        eventually(
            lambda watched=watched: watched.group(group) is None,  # type: ignore[misc]
            f"{watched.mode} forgets it",
        )


def test_a_streams_group_has_state_and_members(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka), unique("streams")
    member = StreamsMember(scene.kafka, group, topic)
    member.join()
    member.commit(7)

    for watched in scene.watches:
        eventually(
            lambda watched=watched: info(watched, group)[0::2] == ("streams", 1),  # type: ignore[misc]
            f"{watched.mode} shows kind and members",
        )
        assert info(watched, group)[1] in {"Assigning", "Reconciling", "Stable", "NotReady"}


@pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")
def test_share_groups_are_listed_half_a_minute_after_a_broker_that_was_silent_is_back(
    scene: Scene,
) -> None:
    topic, group = create_topic(scene.kafka), unique("silent")
    produce(scene.kafka, topic, 5)
    member = scene.shares.member(group, topic)
    member.take_some()
    clock = LaterClock()
    groups = KafkaGroups(KafkaClients("here", settings(scene.kafka), clock))
    (pid,) = scene.kafka.pids
    os.kill(pid, signal.SIGSTOP)
    try:
        assert asyncio.run(groups.list_groups()).problem
    finally:
        os.kill(pid, signal.SIGCONT)

    clock.ahead_s = 31.0
    eventually(
        lambda: group in asyncio.run(groups.list_groups()).others, "the share group is listed"
    )
    member.close()


def test_share_groups_that_cannot_be_seen_are_said_by_kind_and_number(
    secure_kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(secure_kafka), unique("share")
    produce(secure_kafka, topic, 5)
    rights = Rights(secure_kafka)
    rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
    rights.grant(AclOperation.DESCRIBE, ResourceType.GROUP, group)
    rights.grant(AclOperation.DESCRIBE, ResourceType.TOPIC, "__share_group_state")
    try:
        with share_groups(secure_kafka) as shares:
            member = shares.member(group, topic)
            member.accept(*member.take_some())
            member.commit()
            with collecting(settings(secure_kafka, "alice", commits="admin", **CLUSTER)) as seen:
                wanted = (
                    "1 share group: what they have done is not visible: "
                    "__share_group_state may not be read; grant: "
                    "Allow READ on TOPIC __share_group_state"
                )
                eventually(lambda: wanted in unseen(seen), wanted)

                rights.grant(AclOperation.READ, ResourceType.TOPIC, "__share_group_state")

                eventually(lambda: seen.offsets(group, topic) == [5], "with the right it is seen")
                eventually(lambda: wanted not in unseen(seen), "and nothing is hidden")
            member.close()
    finally:
        rights.revoke_all()


def unseen(seen: Seen) -> tuple[str, ...]:
    facts = seen.last(CollectorFacts)
    return () if facts is None else facts.unseen
