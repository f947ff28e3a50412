"""Commit records for the benchmarks, written into the real `__consumer_offsets`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.wire import encode_offset_key, encode_offset_value

OFFSETS_PARTITIONS = 4
OFFSETS_TOPIC = "__consumer_offsets"
_WAITING = 50_000
_TOPICS_AT_ONCE = 50
"""A broker makes at most 10,000 partitions for one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Groups, each committing to some topics."""

    groups: int
    topics: int
    partitions: int
    """Of each topic."""
    topics_per_group: int

    @property
    def rows(self) -> int:
        return self.groups * self.topics_per_group * self.partitions

    def topic(self, number: int) -> str:
        return f"load-{number % self.topics:03}"

    def keys(self) -> list[tuple[bytes, int]]:
        """Every group-partition's key and the partition of the offsets topic it belongs to."""
        found = []
        for group in range(self.groups):
            name = f"load-group-{group:05}"
            home = home_partition(name)
            found += [
                (encode_offset_key(name, self.topic(group + side), partition), home)
                for side in range(self.topics_per_group)
                for partition in range(self.partitions)
            ]
        return found


def home_partition(group: str, partitions: int = OFFSETS_PARTITIONS) -> int:
    """Partition of the offsets topic that holds a group: Java's String.hashCode, made positive."""
    code = 0
    for character in group:
        code = (31 * code + ord(character)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % partitions


def make_topics(kafka: EmbeddedKafka, load: Load) -> None:
    """The topics the groups commit to, and `__consumer_offsets` itself."""
    admin = AdminClient(kafka.admin_config())
    new = [NewTopic(load.topic(number), load.partitions, 1) for number in range(load.topics)]
    new.append(NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, 1, config={"cleanup.policy": "compact"}))
    for first in range(0, len(new), _TOPICS_AT_ONCE):
        asked = admin.create_topics(new[first : first + _TOPICS_AT_ONCE], operation_timeout=60)
        for future in asked.values():
            future.result(timeout=90)


def fill(kafka: EmbeddedKafka, load: Load, messages: int) -> None:
    """Write so many messages to every partition: an offset beyond its log end is an error."""
    producer = Producer({**kafka.admin_config(), "linger.ms": 50, "enable.idempotence": True})
    for topic, partition in product(range(load.topics), range(load.partitions)):
        for _ in range(messages):
            producer.produce(load.topic(topic), b"", partition=partition)
        producer.poll(0)
        if len(producer) > _WAITING:
            producer.flush(60)
    if left := producer.flush(120):
        raise KafkaException(f"{left} messages were not written")


def write_commits(kafka: EmbeddedKafka, load: Load, *, sweeps: int, step_ms: int = 2000) -> int:
    """Every row commits once a sweep, rising offsets, up to now; returns the records written."""
    producer = Producer(
        kafka.admin_config()
        | {
            # the one client id that may write to an internal topic
            "client.id": "__admin_client",
            "linger.ms": 50,
            "batch.size": 900_000,
            "queue.buffering.max.messages": 400_000,
        }
    )
    keys = load.keys()
    began_ms = time.time_ns() // 1_000_000 - sweeps * step_ms
    for sweep in range(sweeps):
        value = encode_offset_value(sweep, began_ms + sweep * step_ms)
        for key, home in keys:
            while True:
                try:
                    producer.produce(OFFSETS_TOPIC, value, key, partition=home)
                    break
                except BufferError:
                    producer.poll(0.05)
    if left := producer.flush(120):
        raise KafkaException(f"{left} records were not written")
    return sweeps * len(keys)


def steady_commits(
    keys: list[tuple[bytes, int]], offset: int
) -> Iterator[tuple[bytes, bytes, int]]:
    """(key, value, partition) of commits made now, one row after the other, for ever."""
    while True:
        offset += 1
        for key, home in keys:
            value = encode_offset_value(offset, time.time_ns() // 1_000_000)
            yield key, value, home
