"""The same groups on a broker each time, for what exporters print of them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, produce

_TOPICS = {"orders": 2, "audit": 1, "empty": 1}
"""Topic → partitions."""


@contextmanager
def groups_in_several_states(kafka: EmbeddedKafka) -> Iterator[None]:
    """Topics and groups, with fixed names, on a broker that has none; members read in the block.

    `orders` holds 100 and 50 messages, `audit` 30 of which the first 10 are deleted, `empty` none.
    `busy` has a member that holds both partitions of `orders`, 10 behind in one; `fresh` has one
    that holds `empty` and never committed. Without members, `done` has read all of `orders`,
    `stopped` 40 messages of its first partition, and `below` 5 of `audit`. Each commits twice.
    """
    admin = AdminClient(kafka.admin_config())
    made = [NewTopic(name, num_partitions=size) for name, size in _TOPICS.items()]
    for future in admin.create_topics(made).values():
        future.result(ANSWER_TIMEOUT_S)
    produce(kafka, "orders", 100)
    produce(kafka, "orders", 50, partition=1)
    produce(kafka, "audit", 30)
    (deleted,) = admin.delete_records([TopicPartition("audit", 0, 10)]).values()
    deleted.result(ANSWER_TIMEOUT_S)
    for group, topic, partition, offsets in (
        ("done", "orders", 0, (99, 100)),
        ("done", "orders", 1, (49, 50)),
        ("stopped", "orders", 0, (39, 40)),
        ("below", "audit", 0, (4, 5)),
    ):
        for offset in offsets:
            commit(kafka, group, topic, offset, partition=partition)
    with ExitStack() as stack:
        busy = stack.enter_context(_member(kafka, "busy", "orders", partitions=2))
        for first, second in ((89, 49), (90, 50)):
            places = [TopicPartition("orders", 0, first), TopicPartition("orders", 1, second)]
            busy.commit(offsets=places, asynchronous=False)
        stack.enter_context(_member(kafka, "fresh", "empty", partitions=1))
        yield


@contextmanager
def _member(kafka: EmbeddedKafka, group: str, topic: str, *, partitions: int) -> Iterator[Consumer]:
    """A member that holds all partitions of its topic. It stays while its client library runs."""
    consumer = Consumer(
        kafka.admin_config()
        | {
            "group.id": group,
            "client.id": f"{group}-client",
            "enable.auto.commit": False,
            # it holds its partitions although it does not poll
            "max.poll.interval.ms": 3_600_000,
            "session.timeout.ms": 45_000,
        }
    )
    try:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < partitions:
            consumer.poll(0.1)
        yield consumer
    finally:
        consumer.close()
