"""Consumers that work through records at a set speed, and producers at a set rate."""

import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import Actor, consumer_of

_TICK_S: Final = 0.1
_FULL, _ROOM = 400, 100
"""Records waiting for the handler: reading pauses from the one on, and resumes below the other."""

Place = tuple[str, int]


@dataclass(kw_only=True)
class Worker:
    """A member of a group; call it with the event that ends it."""

    kafka: EmbeddedKafka
    group: str
    topics: list[str]
    speed: Callable[[int], float] = lambda _: 1e6
    """Records a second that the handler takes of this partition."""
    last: Callable[[int], int] = lambda _: 1 << 60
    """The handler cannot process the record at this offset of a partition: it tries for ever."""
    commits: Callable[[], bool] = lambda: True
    properties: Mapping[str, str | int | bool] = field(default_factory=dict)
    assigned_s: float = 0.0
    """How long it prepares after every assignment."""
    every_s: float = 1.0

    def __call__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._waiting: defaultdict[Place, deque[int]] = defaultdict(deque)
        self._allowed: defaultdict[Place, float] = defaultdict(float)
        self._next: dict[Place, int] = {}
        consumer = consumer_of(
            self.kafka,
            self.group,
            {"enable.auto.commit": False, "session.timeout.ms": 10_000, **self.properties}
            if "group.protocol" not in self.properties
            else {"enable.auto.commit": False, **self.properties},
        )
        consumer.subscribe(self.topics, on_assign=self._assigned, on_revoke=self._revoked)
        ticks, done = 0, dict[Place, int]()
        while not stop.is_set():
            for record in consumer.consume(500, _TICK_S):
                if record.error() is None:
                    place = record.topic() or "", record.partition() or 0
                    self._waiting[place].append(record.offset() or 0)
            self._work(consumer)
            ticks += 1
            if ticks % max(1, round(self.every_s / _TICK_S)) == 0 and self.commits():
                done = self._commit(consumer, done)
        consumer.close()

    def _assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        if places:
            self._stop.wait(self.assigned_s)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        for each in places:
            place = each.topic, each.partition
            self._waiting.pop(place, None)
            self._next.pop(place, None)

    def _work(self, consumer: Consumer) -> None:
        for place, waiting in self._waiting.items():
            speed = self.speed(place[1])
            self._allowed[place] = min(self._allowed[place] + speed * _TICK_S, max(speed, 1.0))
            while waiting and self._allowed[place] >= 1 and waiting[0] < self.last(place[1]):
                self._next[place] = waiting.popleft() + 1
                self._allowed[place] -= 1
            if waiting and waiting[0] >= self.last(place[1]):
                self._next[place] = self.last(place[1])
            with contextlib.suppress(KafkaException):  # it was revoked meanwhile
                if len(waiting) > _FULL:
                    consumer.pause([TopicPartition(*place)])
                elif len(waiting) < _ROOM:
                    consumer.resume([TopicPartition(*place)])

    def _commit(self, consumer: Consumer, before: dict[Place, int]) -> dict[Place, int]:
        """Commit what is new; one that is stuck on a record commits its offset again."""
        new = {
            place: offset
            for place, offset in self._next.items()
            if before.get(place) != offset or offset == self.last(place[1])
        }
        if new:
            with contextlib.suppress(KafkaException):  # in the middle of a rebalance
                consumer.commit(
                    offsets=[TopicPartition(*place, offset) for place, offset in new.items()],
                    asynchronous=True,
                )
        return dict(self._next)


def writing(
    kafka: EmbeddedKafka, topic: str, rate: Callable[[int], float], *, partitions: int = 1
) -> Actor:
    """Write `rate(partition)` records a second to each partition."""

    def act(stop: threading.Event) -> None:
        producer = Producer(kafka.admin_config() | {"linger.ms": 20, "log_level": 0})
        owed = [0.0] * partitions
        while not stop.wait(_TICK_S):
            for partition in range(partitions):
                owed[partition] += rate(partition) * _TICK_S
                for _ in range(int(owed[partition])):
                    with contextlib.suppress(BufferError):
                        producer.produce(topic, b"x", partition=partition)
                owed[partition] %= 1
            producer.poll(0)
        producer.flush(10)

    return act
