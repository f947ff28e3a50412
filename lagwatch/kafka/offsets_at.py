"""Finds offsets by time: ListOffsets by timestamp, many partitions at once."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from numpy.typing import NDArray

from lagwatch.backoff import Backoff
from lagwatch.core.model import UNKNOWN
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients, kafka_error
from lagwatch.kafka.log_ends import EARLIEST, LATEST, ask_offsets

NEWEST: Final = -3
"""The record with the greatest timestamp.

Source: KIP-734.
"""
_CHUNK: Final = 250
_IN_FLIGHT: Final = 8
_TIMEOUT_S: Final = 30.0
"""Finding a time in a cold log reads from disk."""
_ATTEMPTS: Final = 6
_PAUSE_S: Final = 0.5

_NONE: Final = np.zeros(0, np.int64)

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Place = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAt:
    """Answers, one per question; -1 where the leader named no record."""

    offset: Int64
    timestamp: Int64
    """Of the record at that offset; -1 for the start and end of the log."""
    gone: Bools
    """The topic or partition does not exist (any more), or is hidden from us."""

    def none_since(self, at: Int64, newest_ms: Int64) -> Bools:
        """Partitions that surely have no record of `at` (epoch ms) or later.

        `newest_ms` is the time of the newest record of each, -1 unknown.
        """
        none: Bools = (self.offset == UNKNOWN) & (newest_ms >= 0) & (at > newest_ms)
        return none

    def unusable(self, at: Int64, newest_ms: Int64) -> Bools:
        """Partitions whose leader named no record of `at` or later although there may be some.

        When compaction has removed every record of a segment, the broker dates the empty segment by
        its file, searches it in place of the next one, and finds nothing.

        Source: Kafka 4.2, LogSegment.largestTimestamp and UnifiedLog.fetchOffsetByTimestamp.
        """
        none = self.none_since(at, newest_ms)
        unusable: Bools = (self.offset == UNKNOWN) & ~self.gone & ~none
        return unusable


class KafkaOffsetsAt:
    """Asks the leaders; partitions whose leader has moved are asked again."""

    def __init__(self, clients: KafkaClients, *, timeout_s: float = _TIMEOUT_S) -> None:
        """`timeout_s`: how long a leader may take to answer one request."""
        self._clients = clients
        self._timeout_s = timeout_s

    async def ask(self, places: Sequence[Place], at: Int64) -> OffsetsAt:
        """The first record of `at` (epoch ms) or later of each place.

        `LATEST` and the like as in Kafka.

        A place may occur several times. An offset of -1 is an answer, too: see `OffsetsAt`.

        Raises:
            SourceError: some partitions got no answer, not even after a while.
        """
        found = OffsetsAt(
            offset=np.full(at.size, UNKNOWN, np.int64),
            timestamp=np.full(at.size, UNKNOWN, np.int64),
            gone=np.zeros(at.size, np.bool_),
        )
        left = np.arange(at.size)
        problem: KafkaError | None = None
        backoff = Backoff(first_s=_PAUSE_S, longest_s=_ATTEMPTS * _PAUSE_S)
        for attempt in range(_ATTEMPTS):
            if left.size == 0:
                return found
            if attempt:
                await asyncio.sleep(backoff.next_s())
                await KafkaTopics(self._clients).list_topics()  # renews who leads what
            left, problem = await self._round(places, at, left, found, last=attempt > 1)
        if left.size == 0:
            return found
        raise await self._unanswered(left.size, problem)

    async def ask_once(self, places: Sequence[Place], at: Int64) -> tuple[OffsetsAt, Bools]:
        """The same in one attempt; returns the answers and a mask of the places that got one."""
        found = OffsetsAt(
            offset=np.full(at.size, UNKNOWN, np.int64),
            timestamp=np.full(at.size, UNKNOWN, np.int64),
            gone=np.zeros(at.size, np.bool_),
        )
        answered = np.ones(at.size, np.bool_)
        if at.size:
            left, _ = await self._round(places, at, np.arange(at.size), found, last=True)
            answered[left] = False
        return found, answered & ~found.gone

    async def _round(
        self,
        places: Sequence[Place],
        at: Int64,
        rows: NDArray[np.int64],
        found: OffsetsAt,
        *,
        last: bool,
    ) -> tuple[NDArray[np.int64], KafkaError | None]:
        """Ask once; returns the rows without an answer, and why."""
        free = asyncio.Semaphore(_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._ask_chunk(places, at, chunk, found, free, last=last))
                for chunk in _chunks(places, rows)
            ]
        missed = [task.result() for task in tasks]
        left = np.concatenate([rows for rows, _ in missed])
        return left, next((error for _, error in missed if error is not None), None)

    async def _ask_chunk(
        self,
        places: Sequence[Place],
        at: Int64,
        rows: NDArray[np.int64],
        found: OffsetsAt,
        free: asyncio.Semaphore,
        *,
        last: bool,
    ) -> tuple[NDArray[np.int64], KafkaError | None]:
        row_of = {places[row]: row for row in rows.tolist()}
        wanted = [_question(places[row], int(at[row])) for row in rows.tolist()]
        async with free:
            try:
                answers = await self._clients.ask(
                    lambda admin: ask_offsets(admin, wanted, timeout_s=self._timeout_s),
                    timeout_s=self._timeout_s,
                )
            except KafkaException as error:
                failed = kafka_error(error)
                # a broker before 3.0 does not know `NEWEST`: nothing is known then
                return (_NONE, None) if failed.code() in codes.UNSUPPORTED else (rows, failed)
        problem: KafkaError | None = None
        for partition, answer in answers.items():
            place = partition.topic, partition.partition
            if not isinstance(answer, KafkaError):
                if is_answer(answer.offset):
                    row = row_of.pop(place)
                    found.offset[row], found.timestamp[row] = answer.offset, answer.timestamp
            elif answer.code() in codes.UNSUPPORTED:
                del row_of[place]
            elif answer.code() in codes.NO_TOPIC and last:
                found.gone[row_of.pop(place)] = True
            else:
                problem = answer
        return np.array(sorted(row_of.values()), np.int64), problem

    async def _unanswered(self, count: int, problem: KafkaError | None) -> SourceError:
        error = problem or KafkaError(codes.TIMED_OUT)
        doing = f"asking for offsets of {count} partitions"
        return await self._clients.explain(error, doing=doing)


def newest_of(newest: OffsetsAt, log_start: Int64) -> Int64:
    """The time of the newest record of each place, from the answers to `NEWEST`; -1 unknown.

    A broker may go on to name a record that is deleted.
    """
    return np.where(newest.offset >= np.maximum(log_start, 0), newest.timestamp, UNKNOWN)


def is_answer(offset: int) -> bool:
    """False if the leader was silent: the client library gives -1001 then, and no error.

    -1 comes from the leader: it found no such record.

    Source: librdkafka, RD_KAFKA_OFFSET_INVALID.
    """
    return offset >= UNKNOWN


def _question(place: Place, at: int) -> TopicPartition:
    topic, partition = place
    return TopicPartition(topic, partition, at)


def _chunks(places: Sequence[Place], rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows in chunks in each of which no place occurs twice."""
    rounds: list[list[int]] = []
    seen: dict[Place, int] = {}
    for row in rows.tolist():
        turn = seen.get(places[row], 0)
        seen[places[row]] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(row)
    return [
        np.array(rows[start : start + _CHUNK], np.int64)
        for rows in rounds
        for start in range(0, len(rows), _CHUNK)
    ]


__all__ = [
    "EARLIEST",
    "LATEST",
    "NEWEST",
    "KafkaOffsetsAt",
    "OffsetsAt",
    "Place",
    "is_answer",
    "newest_of",
]
