"""Reads the last offsets of partitions: are there records, or only control records?"""

from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from lagwatch.clock import Clock
from lagwatch.kafka import codes
from lagwatch.kafka.client import KafkaClients
from lagwatch.ports.kafka import Tail, TailAnswer

_READ_WITHIN_S: Final = 10.0
_WAIT_S: Final = 0.25
_BATCH: Final = 1_000

_Place = tuple[str, int]


class KafkaTails:
    """A read_committed reader of its own, made for each batch, as a `TailSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients

    async def read(self, tails: Sequence[Tail]) -> Sequence[TailAnswer]:
        """Read each range up to its end; of each partition one range only."""
        doing = "reading the last offsets of partitions"
        return await self._clients.call(lambda: self._read(tails), doing=doing)

    def _read(self, tails: Sequence[Tail]) -> Sequence[TailAnswer]:
        consumer = self._clients.tail_reader()
        try:
            reading = _Reading(tails)
            reading.run(consumer, self._clients.clock)
            return [reading.answer(tail) for tail in tails]
        finally:
            consumer.close()


class _Reading:
    """What was found in some ranges so far."""

    def __init__(self, tails: Sequence[Tail]) -> None:
        self._tails: Mapping[_Place, Tail] = {(each.topic, each.partition): each for each in tails}
        self._open = set(self._tails)
        self._empty_from = {place: tail.offsets[0] for place, tail in self._tails.items()}
        self._refused: set[_Place] = set()
        self._unread: set[_Place] = set()

    def run(self, consumer: Consumer, clock: Clock) -> None:
        """Read until every range is read or refused, or the time is over."""
        ends_s = clock.monotonic_s() + _READ_WITHIN_S
        starts = [TopicPartition(*place, self._tails[place].offsets[0]) for place in self._open]
        consumer.assign(starts)
        while self._open and clock.monotonic_s() < ends_s:
            for message in consumer.consume(_BATCH, _WAIT_S):
                self._take(message)
        self._unread |= self._open

    def answer(self, tail: Tail) -> TailAnswer:
        place = tail.topic, tail.partition
        return TailAnswer(
            tail=tail,
            empty_from=None if place in self._unread | self._refused else self._empty_from[place],
            refused=place in self._refused,
        )

    def _take(self, message: Message) -> None:
        place, offset = (message.topic() or "", message.partition() or 0), message.offset()
        error = message.error()
        if place not in self._open:
            return
        if error is not None:
            self._take_error(place, error, -1 if offset is None else offset)
        elif offset is not None:
            self._take_record(place, offset)

    def _take_record(self, place: _Place, offset: int) -> None:
        tail = self._tails[place]
        if offset < tail.end:
            self._empty_from[place] = offset + 1
        if offset >= min(tail.end - 1, tail.offsets[-1]):  # every range is read or refused
            self._open.discard(place)

    def _take_error(self, place: _Place, error: KafkaError, offset: int) -> None:
        if error.code() == codes.END_OF_PARTITION:
            if offset >= self._tails[place].end:
                self._open.discard(place)
            return
        if error.code() in codes.AUTHORIZATION:
            self._refused.add(place)
        elif error.retriable():
            return
        else:
            self._unread.add(place)
        self._open.discard(place)
