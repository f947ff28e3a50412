"""Consumers of the kinds that applications use, as actors of `tests.support.traffic.running`."""

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka

Actor = Callable[[threading.Event], None]
Properties = Mapping[str, str | int | bool]

_TICK_S: Final = 0.1
_CHILD: Final = Path(__file__).with_name("consumer_child.py")
_ROOT: Final = Path(__file__).parents[2]
_CLASSIC: Final[Properties] = MappingProxyType({"session.timeout.ms": 10_000})

KINDS: Final[Mapping[str, Properties]] = MappingProxyType({
    "eager": {**_CLASSIC, "partition.assignment.strategy": "range"},
    "cooperative": {**_CLASSIC, "partition.assignment.strategy": "cooperative-sticky"},
    "kip848": {"group.protocol": "consumer"},
    "static": {**_CLASSIC, "group.instance.id": "one"},
    "read-committed": {**_CLASSIC, "isolation.level": "read_committed"},
})  # fmt: skip
"""Properties of members that let their client commit every five seconds, if there is news."""


def consumer_of(kafka: EmbeddedKafka, group: str, properties: Properties) -> Consumer:
    """A consumer of the group that begins at the log start and finds new topics at once."""
    common = {
        "group.id": group,
        "auto.offset.reset": "earliest",
        "topic.metadata.refresh.interval.ms": 1_000,  # topics may be seconds old
        "log_level": 0,
    }
    return Consumer({**kafka.admin_config(), **common, **properties})


def reading(
    kafka: EmbeddedKafka, group: str, *topics: str, properties: Properties = _CLASSIC
) -> Actor:
    """Subscribe to the topics and read all there is; the client library commits."""

    def act(stop: threading.Event) -> None:
        consumer = consumer_of(kafka, group, properties)
        consumer.subscribe(list(topics))
        while not stop.is_set():
            consumer.consume(1000, _TICK_S)
        consumer.close()

    return act


def assigned(
    kafka: EmbeddedKafka, group: str, topic: str, *, partitions: int = 1, every_s: float = 1.0
) -> Actor:
    """Read all there is without being a member of the group, and commit where it has read to."""

    def act(stop: threading.Event) -> None:
        consumer = consumer_of(kafka, group, {"enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, each) for each in range(partitions)])
        while not stop.is_set():
            for _ in range(max(1, int(every_s / _TICK_S))):
                consumer.consume(1000, _TICK_S)
            with contextlib.suppress(KafkaException):  # nothing new
                # one that waits for its answer may wait for ever while no coordinator is known
                consumer.commit(asynchronous=True)
        consumer.close()

    return act


def limited(
    kafka: EmbeddedKafka,
    group: str,
    topic: str,
    *,
    rate: Callable[[], float],
    properties: Properties = _CLASSIC,
) -> Actor:
    """Subscribe to the topic and read at most `rate()` messages a second."""

    def act(stop: threading.Event) -> None:
        consumer = consumer_of(kafka, group, properties)
        consumer.subscribe([topic])
        allowed = 0.0
        while not stop.wait(_TICK_S):
            allowed += rate() * _TICK_S
            number = int(allowed)
            if number:
                consumer.consume(number, _TICK_S)
                allowed -= number
            else:
                consumer.poll(0)
        consumer.close()

    return act


@contextlib.contextmanager
def consumer_process(
    kafka: EmbeddedKafka, group: str, topic: str, *, session_ms: int = 6_000
) -> Iterator["subprocess.Popen[bytes]"]:
    """A consumer in a process of its own, which commits twice a second; to be killed or frozen."""
    properties = {
        **kafka.admin_config(),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": session_ms,
        "auto.commit.interval.ms": 500,
        "log_level": 0,
    }
    command = [sys.executable, str(_CHILD), json.dumps(properties), topic]
    process = subprocess.Popen(command, cwd=_ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
