"""Partitions of the offsets topic whose newest commits an open transaction hides.

Readers stop at the last stable offset: whether what follows counts is not known before the
transaction ends.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from lagwatch.clock import Clock, SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka.client import KafkaClients, kafka_error
from lagwatch.kafka.offsets_topic import KafkaOffsetsTopic

_WAIT_S: Final = 0.5
_WITHIN_S: Final = 30.0


def held_back(
    cluster: str, settings: ClusterSettings, *, clock: Clock | None = None
) -> Mapping[int, int]:
    """Partition of the offsets topic → time (epoch ms) of the first record that is not stable.

    All commits before that time are known. Partitions without an open transaction are left out.

    Raises:
        SourceError: the topic cannot be read, or no broker answers.
    """
    clients = KafkaClients(cluster, settings, clock or SystemClock())
    first = asyncio.run(KafkaOffsetsTopic(clients).unstable())
    if not first:
        return {}
    consumer = clients.reader(isolation="read_uncommitted")
    try:
        return _times(clients, consumer, first)
    except KafkaException as error:
        doing = f"reading {settings.offsets_topic}"
        raise clients.causes.error(kafka_error(error), doing=doing) from error
    finally:
        consumer.close()


def _times(clients: KafkaClients, consumer: Consumer, first: Mapping[int, int]) -> dict[int, int]:
    topic, found = clients.settings.offsets_topic, dict[int, int]()
    consumer.assign([TopicPartition(topic, each, offset) for each, offset in first.items()])
    ends_s = clients.clock.monotonic_s() + _WITHIN_S
    while len(found) < len(first):
        if clients.clock.monotonic_s() > ends_s:
            raise SourceError(
                cluster=clients.cluster,
                kind="connection",
                message=f"reading {topic}: nothing came from partitions "
                f"{', '.join(str(each) for each in sorted(first.keys() - found.keys()))} "
                f"within {_WITHIN_S:g} s",
            )
        for message in consumer.consume(1_000, _WAIT_S):
            error, partition = message.error(), message.partition()
            if error is not None and not error.retriable() and error.fatal():
                raise KafkaException(error)
            if error is None and partition is not None:
                found.setdefault(partition, int(message.timestamp()[1]))
    return found
