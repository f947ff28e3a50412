"""The story of a group that rests: complete, and in time with its verdicts."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.error import HTTPError

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, consumer_of
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, produce, unique
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

pytestmark = pytest.mark.minutes

_GROUP_INTERVAL_S: Final = 60
_TOGETHER_S: Final = 30.0
"""Far less than what is left of the interval at which resting groups are described, which began
when the group was seen to be empty. On a quiet machine it takes a second or two.
"""
_RESTS_S: Final = 12.0


@pytest.fixture(scope="module")
def watches(own_kafka: EmbeddedKafka) -> Iterator[Sequence[Watched]]:
    with contextlib.ExitStack() as stack:
        found = [
            stack.enter_context(watching(own_kafka, mode, group_interval_s=_GROUP_INTERVAL_S))
            for mode in MODES
        ]
        for watched in found:
            watched.served.wait_ready()
        yield found


def _events(watched: Watched, group: str) -> list[dict[str, Any]]:
    path = f"/api/v1/clusters/{watched.served.cluster}/groups/{group}/events"
    try:
        points: list[dict[str, Any]] = watched.served.get(path)["points"]
    except HTTPError:  # not known, as long as its only topic is away
        return []
    return points


def _first(watched: Watched, group: str, name: str) -> dict[str, Any] | None:
    return next((each for each in _events(watched, group) if each["event"] == name), None)


def _assigned(consumer: Consumer) -> bool:
    consumer.consume(10, 0.1)
    return bool(consumer.assignment())


@pytest.mark.timeout(300)
@pytest.mark.thorough  # test_group_events has the reset, but not its instant
def test_a_reset_is_reported_together_with_its_verdict(
    own_kafka: EmbeddedKafka, watches: Sequence[Watched]
) -> None:
    topic, group = create_topic(own_kafka), unique("reset")
    produce(own_kafka, topic, 1000)
    consumer = consumer_of(own_kafka, group, KINDS["eager"])
    consumer.subscribe([topic])
    eventually(lambda: _assigned(consumer), "it is assigned")
    # a rewind is one in a full window
    for offset in range(900, 1000, 9):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        threading.Event().wait(1.2)
    consumer.commit(offsets=[TopicPartition(topic, 0, 1000)], asynchronous=False)
    consumer.close()
    for watched in watches:
        eventually(
            lambda watched=watched: _state(watched, group) == "Empty",  # type: ignore[misc]
            f"{watched.mode} sees that it is empty",
            timeout_s=150,
        )

    reset = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 100)])
    admin = AdminClient(own_kafka.admin_config())
    admin.alter_consumer_group_offsets([reset])[group].result(ANSWER_TIMEOUT_S)

    for watched in watches:
        eventually(
            lambda watched=watched: _shown(watched, group) == 100,  # type: ignore[misc]
            f"{watched.mode} shows the offset",
        )
        shown_s = time.monotonic()
        eventually(
            lambda watched=watched: _first(watched, group, "offsets_reset") is not None,  # type: ignore[misc]
            f"{watched.mode} reports the reset",
            timeout_s=60,
        )
        assert time.monotonic() - shown_s < _TOGETHER_S, watched.mode


def _state(watched: Watched, group: str) -> str:
    return ((watched.group(group) or {}).get("info") or {}).get("state", "")


def _shown(watched: Watched, group: str) -> int | None:
    answer = watched.group(group)
    return answer["partitions"][0]["committed"] if answer and answer["partitions"] else None


@pytest.mark.timeout(300)
# between two rounds; longer goes the same way
@pytest.mark.parametrize("gone_s", [2, pytest.param(45, marks=pytest.mark.thorough)])
def test_a_topic_made_anew_is_in_the_story_of_a_group_that_rests(
    own_kafka: EmbeddedKafka, watches: Sequence[Watched], gone_s: float
) -> None:
    topic, group = create_topic(own_kafka, "anew"), unique("rests")
    produce(own_kafka, topic, 100)
    commit(own_kafka, group, topic, 60)
    for watched in watches:
        eventually(
            lambda watched=watched: _shown(watched, group) == 60,  # type: ignore[misc]
            f"{watched.mode} shows the group",
        )
    threading.Event().wait(_RESTS_S)  # the case itself
    admin = AdminClient(own_kafka.admin_config())

    admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT_S)
    threading.Event().wait(gone_s)

    def created() -> bool:
        return admin.create_topics([NewTopic(topic, 1, 1)])[topic].exception(30) is None

    eventually(created, "the topic is made again")

    for watched in watches:
        eventually(
            lambda watched=watched: _first(watched, group, "topic_recreated") is not None,  # type: ignore[misc]
            f"{watched.mode} reports it: {_events(watched, group)}",
            timeout_s=150,
        )
