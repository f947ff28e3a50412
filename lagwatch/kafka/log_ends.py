"""Log start, log end and last stable offsets of all partitions, in batches by leader."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import numpy as np
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo
from numpy.typing import NDArray

from lagwatch.core.model import UNKNOWN
from lagwatch.kafka import codes
from lagwatch.kafka.client import AdaptiveTimeout, KafkaClients, kafka_error
from lagwatch.ports.kafka import LogEndRound, TopicListing

LATEST: Final = -1
EARLIEST: Final = -2
_CHUNK: Final = 250
"""Partitions in one call: the client library's cost grows with the square of it (10,000 at once
took 0.6 s of CPU, in chunks 0.06 s)."""
_IN_FLIGHT: Final = 8
"""Calls under way at one broker."""
_COMMITTED: Final = IsolationLevel.READ_COMMITTED
_RENEW_EVERY: Final = 4
"""Rounds without any answer until another client tries."""

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Answers = Mapping[TopicPartition, ListOffsetsResultInfo | KafkaError]


def ask_offsets(
    admin: AdminClient,
    partitions: list[TopicPartition],
    *,
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    timeout_s: float,
) -> Future[Answers]:
    """Ask for `LATEST` or `EARLIEST` offsets, as each partition's `offset` says.

    Goes past `AdminClient.list_offsets`, which makes a future for every partition: a third of the
    cost (0.06 s instead of 0.2 s of CPU for 10,000 partitions).
    """
    answer: Future[Answers] = Future()
    answer.set_running_or_notify_cancel()
    super(AdminClient, admin).list_offsets(
        partitions,
        answer,
        isolation_level_value=isolation.value,
        request_timeout=timeout_s,
    )
    return answer


@dataclass(frozen=True, slots=True)
class _Places:
    """All partitions of a listing by row; made once, for most rounds ask the same."""

    names: list[tuple[str, int]]
    latest: list[TopicPartition]


@dataclass(slots=True)
class _Columns:
    """The answers of one round, one row per partition of the listing."""

    topics: TopicListing
    places: _Places
    log_start: Int64 | None
    log_end: Int64
    last_stable: Int64
    stable_at: Int64
    """Log end of the round before where it was the last stable offset, too; else -1."""
    stale: bool = False
    replaced: bool = False
    silent: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(leader, reason) → partitions without an answer."""

    def is_of(self, topics: TopicListing) -> bool:
        """Has each partition the same row in a listing?"""
        return self.topics.names == topics.names and np.array_equal(
            self.topics.partitions, topics.partitions
        )

    def follow(self, before: "_Columns", wanted: Bools | None) -> None:
        """Copy from the round before: values that still hold, and partitions not asked for now."""
        self.stable_at = np.where(before.last_stable == before.log_end, before.log_end, UNKNOWN)
        if wanted is not None:
            self.log_end[~wanted] = before.log_end[~wanted]
            self.last_stable[~wanted] = before.last_stable[~wanted]


class KafkaLogEnds:
    """Offsets of all partitions, as a `LogEndSource`."""

    def __init__(self, clients: KafkaClients) -> None:
        self._clients = clients
        self._timeouts: defaultdict[int, AdaptiveTimeout] = defaultdict(AdaptiveTimeout)
        self._silent_rounds = 0
        self._before: _Columns | None = None
        """The last round."""

    async def log_ends(
        self, topics: TopicListing, *, with_log_start: bool, wanted: Bools | None = None
    ) -> LogEndRound:
        """Ask all leaders at once; a silent broker affects only its own partitions."""
        admin = self._clients.admin
        before = self._before
        if before is not None and not before.is_of(topics):
            before = None
        places = _places(topics) if before is None else before.places
        columns = _columns(topics, places, with_log_start=with_log_start)
        if before is not None:
            columns.follow(before, wanted)
        by_leader = _rows_by_leader(topics.leader, wanted)
        async with asyncio.TaskGroup() as group:
            for leader, rows in by_leader.items():
                group.create_task(self._ask_leader(leader, rows, columns))
        asked = columns.log_end if wanted is None else columns.log_end[wanted]
        if (asked >= 0).any():
            self._clients.answered()
            self._silent_rounds = 0
        elif asked.size > 0:
            self._silent_rounds += 1
            if self._silent_rounds % _RENEW_EVERY == 0:
                self._clients.renew_admin(admin)
        np.minimum(
            columns.last_stable,
            columns.log_end,
            out=columns.last_stable,
            where=columns.log_end >= 0,
        )
        self._before = columns
        silent = {leader for leader, _ in columns.silent}
        for leader in by_leader:
            self._timeouts[leader].note(answered=leader not in silent)
        if (leaderless := int(np.count_nonzero(topics.leader < 0))) > 0:
            columns.silent[UNKNOWN, "no leader"] += leaderless
        return LogEndRound(
            log_start=columns.log_start,
            log_end=columns.log_end,
            last_stable=columns.last_stable,
            stale=columns.stale or leaderless > 0,
            replaced=columns.replaced,
            problems=tuple(_sentence(*key, count) for key, count in columns.silent.items()),
        )

    async def _ask_leader(self, leader: int, rows: NDArray[np.int64], columns: _Columns) -> None:
        timeout_s = self._timeouts[leader].timeout_s
        free = asyncio.Semaphore(_IN_FLIGHT)
        async with asyncio.TaskGroup() as group:
            for start in range(0, len(rows), _CHUNK):
                chunk = _Chunk(leader, rows[start : start + _CHUNK], columns)
                group.create_task(self._ask_chunk(chunk, free, timeout_s))

    async def _ask_chunk(self, chunk: "_Chunk", free: asyncio.Semaphore, timeout_s: float) -> None:
        columns = chunk.columns
        ends = [(columns.log_end, LATEST)]
        if columns.log_start is not None:
            ends.append((columns.log_start, EARLIEST))
        async with free:
            async with asyncio.TaskGroup() as group:
                for column, spec in ends:
                    group.create_task(self._ask(chunk, column, spec, timeout_s))
            # the log end first: a last stable offset asked for later is less only while a
            # transaction is open, and not because the partition is written to
            if (open_ones := chunk.maybe_open()) is not None:
                await self._ask(open_ones, columns.last_stable, LATEST, timeout_s)

    async def _ask(self, chunk: "_Chunk", column: Int64, spec: int, timeout_s: float) -> None:
        stable = column is chunk.columns.last_stable
        question = partial(
            ask_offsets,
            partitions=chunk.partitions(spec),
            isolation=_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED,
            timeout_s=timeout_s,
        )
        await chunk.take(column, self._clients.ask(question, timeout_s=timeout_s))


class _Chunk:
    """Some partitions of one leader."""

    def __init__(self, leader: int, rows: NDArray[np.int64], columns: _Columns) -> None:
        self.columns = columns
        self._leader = leader
        self._rows = rows

    def maybe_open(self) -> "_Chunk | None":
        """Partitions that may have an open transaction; None without any.

        Where the last stable offset was the log end and nothing was appended since, it still is.
        """
        columns, rows = self.columns, self._rows
        log_end = columns.log_end[rows]
        rests = (log_end >= 0) & (log_end == columns.stable_at[rows])
        columns.last_stable[rows[rests]] = log_end[rests]
        return None if rests.all() else _Chunk(self._leader, rows[~rests], columns)

    def partitions(self, spec: int) -> list[TopicPartition]:
        places, rows = self.columns.places, self._rows.tolist()
        if spec == LATEST:
            return [places.latest[row] for row in rows]
        names = [places.names[row] for row in rows]
        return [TopicPartition(name, partition, spec) for name, partition in names]

    async def take(self, column: Int64, answer: Awaitable[Answers]) -> None:
        """Write the answers into the column; count the missing ones."""
        try:
            answers = await answer
        except KafkaException as error:
            self._silent(kafka_error(error), len(self._rows), column)
            return
        offsets: dict[tuple[str, int], int] = {}
        refused: dict[int, list[KafkaError]] = defaultdict(list)
        for partition, each in answers.items():
            if isinstance(each, KafkaError):
                refused[each.code()].append(each)
            elif each.offset >= 0:  # else its leader said nothing, and no error is reported
                offsets[partition.topic, partition.partition] = each.offset
        names = self.columns.places.names
        column[self._rows] = [offsets.get(names[row], UNKNOWN) for row in self._rows.tolist()]
        for errors in refused.values():
            self._silent(errors[0], len(errors), column)
        answered = len(offsets) + sum(map(len, refused.values()))
        if answered < len(self._rows):
            self._silent(KafkaError(codes.TIMED_OUT), len(self._rows) - answered, column)

    def _silent(self, error: KafkaError, count: int, column: Int64) -> None:
        self.columns.stale = True
        if error.code() in codes.OTHER_TOPIC:
            self.columns.replaced = True
        if column is self.columns.log_end:  # the same partitions fail for the other columns
            self.columns.silent[self._leader, error.str() or error.name()] += count


def _places(topics: TopicListing) -> _Places:
    names = [
        (name, partition)
        for name, count in zip(topics.names, topics.partitions.tolist(), strict=True)
        for partition in range(count)
    ]
    return _Places(
        names=names,
        latest=[TopicPartition(name, partition, LATEST) for name, partition in names],
    )


def _columns(topics: TopicListing, places: _Places, *, with_log_start: bool) -> _Columns:
    rows = len(places.names)
    return _Columns(
        topics=topics,
        places=places,
        log_start=_unknown(rows) if with_log_start else None,
        log_end=_unknown(rows),
        last_stable=_unknown(rows),
        stable_at=_unknown(rows),
    )


def _unknown(rows: int) -> Int64:
    return np.full(rows, UNKNOWN, np.int64)


def _rows_by_leader(
    leader: NDArray[np.int32], wanted: Bools | None
) -> dict[int, NDArray[np.int64]]:
    order = np.argsort(leader, kind="stable")
    if wanted is not None:
        order = order[wanted[order]]
    leaders, first = np.unique(leader[order], return_index=True)
    parts: Sequence[NDArray[np.int64]] = np.split(order, first[1:])
    return {each: rows for each, rows in zip(leaders.tolist(), parts, strict=False) if each >= 0}


def _sentence(leader: int, reason: str, partitions: int) -> str:
    if leader < 0:
        return f"{partitions} partitions have no leader; their log ends are unknown"
    return f"broker {leader}: {reason}; log ends of {partitions} partitions are unknown"
