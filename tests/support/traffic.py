"""Live producers and consumers for acceptance tests, in threads."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka

_TICK_S = 0.05


@contextlib.contextmanager
def running(*actors: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run the actors in threads until the block ends; a fault of one fails the test."""
    stop, faults = threading.Event(), []

    def run(actor: Callable[[threading.Event], None]) -> None:
        try:
            actor(stop)
        except Exception as error:  # noqa: BLE001 told to the test below
            faults.append(error)

    threads = [threading.Thread(target=run, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=60)
    assert not faults, faults


def producer_of(
    kafka: EmbeddedKafka, topic: str, *, rate: int, partitions: int = 1
) -> Callable[[threading.Event], None]:
    """Write to a topic, over its partitions in turn."""

    def act(stop: threading.Event) -> None:
        producer = Producer(kafka.admin_config() | {"linger.ms": 5, "log_level": 0})
        owed, number = 0.0, 0
        while not stop.wait(_TICK_S):
            owed += rate * _TICK_S
            while owed >= 1:
                owed, number = owed - 1, number + 1
                with contextlib.suppress(BufferError):
                    producer.produce(topic, b"x", partition=number % partitions)
            producer.poll(0)
        producer.flush(10)

    return act


def keeping_up(
    kafka: EmbeddedKafka, group: str, topic: str, *, every_s: float = 1.0
) -> Callable[[threading.Event], None]:
    """Read all there is and commit it; brokers may come and go meanwhile."""

    def act(stop: threading.Event) -> None:
        consumer = Consumer(
            kafka.admin_config()
            | {
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 30_000,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not stop.is_set():
            for _ in range(max(1, int(every_s / _TICK_S))):
                consumer.consume(1000, _TICK_S)
            with contextlib.suppress(KafkaException):  # nothing new, or no broker now
                consumer.commit(asynchronous=False)
        consumer.close()

    return act


def committing(
    kafka: EmbeddedKafka,
    group: str,
    topic: str,
    offsets: Callable[[int], int],
    *,
    every_s: float,
    partitions: int = 1,
) -> Callable[[threading.Event], None]:
    """Commit `offsets(n)` at the n-th commit."""

    def act(stop: threading.Event) -> None:
        consumer = Consumer(
            kafka.admin_config() | {"group.id": group, "enable.auto.commit": False, "log_level": 0}
        )
        number = 0
        while not stop.wait(every_s):
            number += 1
            places = [TopicPartition(topic, part, offsets(number)) for part in range(partitions)]
            with contextlib.suppress(KafkaException):
                consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    return act
