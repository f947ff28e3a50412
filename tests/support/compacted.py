"""A broker whose own cleaner has emptied a segment, which makes lookups by time fail there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.clock import SystemClock
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_ends import ask_offsets
from lagwatch.kafka.offsets_at import NEWEST
from tests.support.kafka import ANSWER_TIMEOUT_S, unique
from tests.support.waiting import eventually

SEGMENT_BYTES: Final = 1_048_576
"""Kafka allows no less."""
EAGER_CLEANER: Final[Mapping[str, str]] = MappingProxyType({
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
    "log.cleaner.backoff.ms": "250",
    "log.cleaner.min.cleanable.ratio": "0.01",
})  # fmt: skip
COMMITS: Final = 900
PARTITIONS: Final = 50
OFFSETS_TOPIC: Final = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What was committed, and when (epoch ms)."""

    group: str
    topic: str
    offsets_partition: int
    from_ms: int
    to_ms: int


def commit_until_cleaned(kafka: EmbeddedKafka) -> Committed:
    """A real consumer commits `COMMITS` times; the cleaner then empties the first segment."""
    topic, group = unique("orders"), unique("group")
    create(kafka, topic, {}, partitions=PARTITIONS)
    from_ms = SystemClock().now_ms()
    consumer = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    try:
        for number in range(COMMITS):
            offsets = [TopicPartition(topic, each, number + 1) for each in range(PARTITIONS)]
            consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()
    to_ms = SystemClock().now_ms()
    partition = max((0, 1), key=lambda each: by_time(kafka, OFFSETS_TOPIC, -1, each))
    wait_for_emptied_segment(kafka, OFFSETS_TOPIC, from_ms, partition)
    return Committed(
        group=group, topic=topic, offsets_partition=partition, from_ms=from_ms, to_ms=to_ms
    )


def write_until_cleaned(kafka: EmbeddedKafka, times_ms: Sequence[int], value: bytes) -> str:
    """A compacted topic with one key, written at these times; its first segment is emptied."""
    topic = unique("compacted")
    create(kafka, topic, {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)})
    producer = Producer(kafka.admin_config() | {"linger.ms": 0, "batch.num.messages": 1})
    for at_ms in times_ms:
        producer.produce(topic, value, b"key", timestamp=at_ms)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0
    wait_for_emptied_segment(kafka, topic, times_ms[0])
    return topic


def write_until_thinned(kafka: EmbeddedKafka, times_ms: Sequence[int], value: bytes) -> str:
    """A compacted topic of which every 40th record is the only one with its key.

    The cleaner has left those, and with them records that the leader names for earlier times.
    """
    topic = unique("thinned")
    create(kafka, topic, {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES)})
    producer = Producer(kafka.admin_config() | {"linger.ms": 0, "batch.num.messages": 1})
    for number, at_ms in enumerate(times_ms):
        key = f"key-{number}" if number % 40 == 0 else "key"
        producer.produce(topic, value, key, timestamp=at_ms)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0
    eventually(lambda: by_time(kafka, topic, times_ms[1]) == 40, "a cleaned segment", timeout_s=60)
    return topic


def wait_for_emptied_segment(
    kafka: EmbeddedKafka, topic: str, at_ms: int, partition: int = 0
) -> None:
    """Until the leader names no record of this time or later, although it has one."""
    assert by_time(kafka, topic, NEWEST, partition) >= 0
    eventually(
        lambda: by_time(kafka, topic, at_ms, partition) == -1,
        "an emptied segment of the cleaner",
        timeout_s=60,
    )


def by_time(kafka: EmbeddedKafka, topic: str, at: int, partition: int = 0) -> int:
    """The broker's own answer."""
    admin = AdminClient(kafka.admin_config())
    wanted = [TopicPartition(topic, partition, at)]
    asked = ask_offsets(admin, wanted, isolation=IsolationLevel.READ_UNCOMMITTED, timeout_s=10)
    (answer,) = asked.result(ANSWER_TIMEOUT_S).values()
    assert not isinstance(answer, KafkaError), answer
    return answer.offset


def create(
    kafka: EmbeddedKafka, topic: str, config: Mapping[str, str], *, partitions: int = 1
) -> None:
    """Create a topic with these options."""
    admin = AdminClient(kafka.admin_config())
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=dict(config))
    admin.create_topics([wanted])[topic].result(ANSWER_TIMEOUT_S)
