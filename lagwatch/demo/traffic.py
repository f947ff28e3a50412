"""Live traffic for the demo, as a program of its own: `python -m lagwatch.demo.traffic BOOTSTRAP`.

Real producers and consumers, one thread each. Prints `ready` once topics and their backlog exist;
ends when its standard input is closed.
"""

import sys
import threading
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from lagwatch.demo.groups import (
    ARCHIVE,
    CLICKS,
    FALLING_BEHIND,
    HEALTHY,
    LEDGER,
    MODERN,
    ORDERS,
    REWINDING,
    STALLED,
    STATIC,
    STOPPED,
    TOPICS,
    TRANSACTIONAL,
    DemoTopic,
    Role,
)

COMMIT_EVERY_S = 0.8
_TICK_S = 0.05
_STOPS_AFTER_COMMITS = 9
_SLOW_READS_PER_COMMIT = 25
_REWIND_EVERY_COMMITS = 4

Actor = Callable[[str, threading.Event], None]


def main(bootstrap: str) -> None:
    """Play until standard input ends."""
    _make_topics(bootstrap)
    stop = threading.Event()
    threads = [
        threading.Thread(target=actor, args=(bootstrap, stop), name=name)
        for name, actor in _ACTORS.items()
    ]
    for thread in threads:
        thread.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join(timeout=5)


def _make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(topic.name, topic.partitions, 1) for topic in TOPICS]
    for future in admin.create_topics(new).values():
        future.result(timeout=30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for topic in TOPICS:
        for number in range(topic.backlog * topic.partitions):
            producer.produce(topic.name, b"from before", partition=number % topic.partitions)
            if not number % 1000:
                producer.poll(0)
    producer.flush(30)


def _produce(topics: tuple[DemoTopic, ...], bootstrap: str, stop: threading.Event) -> None:
    """Write to each topic at its rate, round robin over its partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    owed = dict.fromkeys(topics, 0.0)
    sent = dict.fromkeys(topics, 0)
    while not stop.wait(_TICK_S):
        for topic in topics:
            owed[topic] += topic.rate * _TICK_S
            while owed[topic] >= 1:
                owed[topic] -= 1
                sent[topic] += 1
                producer.produce(topic.name, b"now", partition=sent[topic] % topic.partitions)
        producer.poll(0)
    producer.flush(5)


def _produce_in_transactions(bootstrap: str, stop: threading.Event) -> None:
    """Write the ledger in transactions, every fifth of which is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "demo-ledger"})
    producer.init_transactions(30)
    number = 0
    while not stop.is_set():
        number += 1
        producer.begin_transaction()
        for _ in range(LEDGER.rate // 4):
            producer.produce(LEDGER.name, b"entry", partition=0)
        stop.wait(0.25)
        if number % 5:
            producer.commit_transaction(10)
        else:
            producer.abort_transaction(10)


def _consumer(bootstrap: str, role: Role, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": role.group,
            "client.id": f"demo-{role.group}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        | {name.replace("_", "."): value for name, value in settings.items()}
    )


def _commit(consumer: Consumer, offsets: list[TopicPartition] | None = None) -> None:
    try:
        if offsets is None:
            consumer.commit(asynchronous=False)
        else:
            consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as error:
        # nothing new to commit, the group is rebalancing, or its coordinator has only begun: the
        # next round will do
        code = error.args[0].code()
        if code not in _PASSING:
            raise


_PASSING = {
    KafkaError._NO_OFFSET,  # noqa: SLF001 the library names its own codes so
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}


def _keep_up(role: Role, topic: DemoTopic, **settings: object) -> Actor:
    def act(bootstrap: str, stop: threading.Event) -> None:
        consumer = _consumer(bootstrap, role, **settings)
        consumer.subscribe([topic.name])
        while not stop.is_set():
            _read_for(consumer, COMMIT_EVERY_S, stop)
            _commit(consumer)
        consumer.close()

    return act


def _read_for(consumer: Consumer, seconds: float, stop: threading.Event) -> None:
    for _ in range(int(seconds / _TICK_S)):
        if stop.is_set():
            return
        consumer.consume(1000, timeout=_TICK_S)


def _restart_often(bootstrap: str, stop: threading.Event) -> None:
    """A static member: away for two seconds in every ten, and no rebalance."""
    while not stop.is_set():
        consumer = _consumer(bootstrap, STATIC, group_instance_id="invoices-1")
        consumer.subscribe([ORDERS.name])
        for _ in range(10):
            _read_for(consumer, COMMIT_EVERY_S, stop)
            _commit(consumer)
        consumer.close()
        stop.wait(2)


def _read_slowly(bootstrap: str, stop: threading.Event) -> None:
    consumer = _consumer(bootstrap, FALLING_BEHIND)
    consumer.subscribe([CLICKS.name])
    while not stop.is_set():
        consumer.consume(_SLOW_READS_PER_COMMIT, timeout=COMMIT_EVERY_S)
        _commit(consumer)
        stop.wait(COMMIT_EVERY_S)
    consumer.close()


def _commit_by_hand(
    role: Role, offsets: Callable[[int], int], *, commits: int | None = None
) -> Actor:
    """Commit `offsets(n)` at the n-th commit, to all partitions of the archive."""

    def act(bootstrap: str, stop: threading.Event) -> None:
        consumer = _consumer(bootstrap, role)
        partitions = range(ARCHIVE.partitions)
        consumer.assign([TopicPartition(ARCHIVE.name, number) for number in partitions])
        number = 0
        while not stop.is_set() and (commits is None or number < commits):
            consumer.consume(1, timeout=_TICK_S)
            offset = offsets(number)
            _commit(consumer, [TopicPartition(ARCHIVE.name, part, offset) for part in partitions])
            number += 1
            stop.wait(COMMIT_EVERY_S)
        consumer.close()

    return act


def _going_back(number: int) -> int:
    """A few messages forward, then back behind where it was, again and again."""
    return 3900 - 5 * (number // _REWIND_EVERY_COMMITS) + number % _REWIND_EVERY_COMMITS


_ACTORS: dict[str, Actor] = {
    "producer": lambda bootstrap, stop: _produce((ORDERS, CLICKS, ARCHIVE), bootstrap, stop),
    "transactions": _produce_in_transactions,
    HEALTHY.group: _keep_up(HEALTHY, ORDERS),
    MODERN.group: _keep_up(MODERN, ORDERS, group_protocol="consumer"),
    TRANSACTIONAL.group: _keep_up(TRANSACTIONAL, LEDGER, isolation_level="read_committed"),
    STATIC.group: _restart_often,
    FALLING_BEHIND.group: _read_slowly,
    STALLED.group: _commit_by_hand(STALLED, lambda _: 700),
    STOPPED.group: _commit_by_hand(
        STOPPED, lambda number: 100 * (number + 1), commits=_STOPS_AFTER_COMMITS
    ),
    REWINDING.group: _commit_by_hand(REWINDING, _going_back),
}


if __name__ == "__main__":
    main(sys.argv[1])
