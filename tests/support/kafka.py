"""Small helpers for tests that talk to a real broker."""

import uuid
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.core.model import offsets_partition
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.waiting import eventually

ANSWER_TIMEOUT_S = 30.0


def unique(prefix: str) -> str:
    """Return a topic or group name nobody else uses."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def create_topic(
    kafka: EmbeddedKafka, prefix: str = "topic", *, partitions: int = 1, replicas: int = -1
) -> str:
    """Create a topic with a unique name (replicas -1: as many as the cluster's default)."""
    name = unique(prefix)
    topic = NewTopic(
        name,
        num_partitions=partitions,
        replication_factor=replicas,
        # records of some tests are older than the week after which the broker deletes them
        config={"retention.ms": "-1"},
    )
    admin = AdminClient(kafka.admin_config())
    admin.create_topics([topic], operation_timeout=ANSWER_TIMEOUT_S)[name].result(ANSWER_TIMEOUT_S)
    return name


def produce(kafka: EmbeddedKafka, topic: str, count: int, *, partition: int = 0) -> None:
    """Append `count` small records and wait until the broker has them."""
    producer = Producer(kafka.admin_config() | {"linger.ms": 5})
    for number in range(count):
        producer.produce(topic, value=str(number).encode("ascii"), partition=partition)
    left = producer.flush(ANSWER_TIMEOUT_S)
    assert left == 0, f"{left} of {count} records were not delivered to {topic}"


def consume(kafka: EmbeddedKafka, topic: str, count: int, *, partition: int = 0) -> Sequence[bytes]:
    """Read the values of a partition's first `count` records, without a group."""
    consumer = Consumer(
        kafka.admin_config() | {"group.id": unique("reader"), "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        records = consumer.consume(count, ANSWER_TIMEOUT_S)
        return [record.value() or b"" for record in records if record.error() is None]
    finally:
        consumer.close()


def commit(
    kafka: EmbeddedKafka, group: str, topic: str, offset: int, *, partition: int = 0
) -> None:
    """Commit one offset as a member-less consumer of `group`."""
    consumer = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    try:
        place = [TopicPartition(topic, partition, offset)]
        eventually(lambda: _committed(consumer, place), "the coordinator has loaded its groups")
    finally:
        consumer.close()


def _committed(consumer: Consumer, places: list[TopicPartition]) -> bool:
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
            raise
        return False
    return True


class Transactions:
    """A transactional producer that commits offsets for groups."""

    def __init__(self, kafka: EmbeddedKafka, *, timeout_s: int = 60) -> None:
        """Kafka aborts a transaction that is open for longer than `timeout_s`."""
        self.name = unique("tx")
        self._kafka = kafka
        self._producer = Producer(
            kafka.admin_config()
            | {"transactional.id": self.name, "transaction.timeout.ms": timeout_s * 1000}
        )
        self._producer.init_transactions(ANSWER_TIMEOUT_S)

    def begin(self, group: str, topic: str, offset: int) -> None:
        """Open a transaction that commits one offset; it stays open."""
        self._producer.begin_transaction()
        member = Consumer(self._kafka.admin_config() | {"group.id": group})
        try:
            self._producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)],
                member.consumer_group_metadata(),
                ANSWER_TIMEOUT_S,
            )
        finally:
            member.close()

    def write(self, topic: str, count: int) -> None:
        """Open a transaction that writes records; it stays open."""
        self._producer.begin_transaction()
        for number in range(count):
            self._producer.produce(topic, value=str(number).encode("ascii"), partition=0)
        self._producer.flush(ANSWER_TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(ANSWER_TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(ANSWER_TIMEOUT_S)


def neighbours(kafka: EmbeddedKafka, group: str, count: int) -> list[str]:
    """Names of groups whose commits go to the same partition of the offsets topic."""
    listed = AdminClient(kafka.admin_config()).list_topics("__consumer_offsets", timeout=30)
    size = len(listed.topics["__consumer_offsets"].partitions)
    wanted, found = offsets_partition(group, size), list[str]()
    while len(found) < count:
        name = unique("neighbour")
        if offsets_partition(name, size) == wanted:
            found.append(name)
    return found
