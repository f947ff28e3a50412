"""Asks group coordinators, one request for each group and many under way.

After a broker's restart the client library may abort the process during these calls, or leave them
unanswered until a new client is made. Because of the former they run in a process that may die;
this module handles the latter. And it keeps on asking the broker that it once found for a group as
long as it is asked at least once a minute, although that broker answers that it is not the group's
coordinator any more: for as long as another one is, which may be for good. Then, too, a new client
is made.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from lagwatch.core.model import EpochMs
from lagwatch.errors import SourceError
from lagwatch.kafka import codes
from lagwatch.kafka.client import AdaptiveTimeout, KafkaClients, free_replaced, kafka_error

T = TypeVar("T")

_IN_FLIGHT: Final = 100
_GROUPS_AT_ONCE: Final = 500
"""Groups whose answers are held at the same time: bounds memory."""

Ask = Callable[[AdminClient, str, float], Future[T]]
"""Sends the request for one group: (client, group, deadline in seconds)."""


@dataclass(frozen=True, slots=True)
class CallAnswer(Generic[T]):
    """The answer for one group, with its times."""

    group: str
    value: T | KafkaError
    asked_ms: EpochMs
    answered_ms: EpochMs


class GroupCalls(Generic[T]):
    """One kind of request, with its own client, which is replaced when it stops answering."""

    def __init__(self, clients: KafkaClients, ask: Ask[T]) -> None:
        self._clients = clients
        self._ask = ask
        self._admin: AdminClient | None = None
        self._timeout = AdaptiveTimeout()

    async def ask_all(self, groups: Sequence[str]) -> AsyncIterator[Sequence[CallAnswer[T]]]:
        """Answers for all groups, in chunks as they come.

        When no broker answers for a chunk, the rest is not asked and gets the same error.
        """
        silent = moved = False
        starts = range(0, len(groups), _GROUPS_AT_ONCE)
        chunks = [groups[start : start + _GROUPS_AT_ONCE] for start in starts]
        ahead: asyncio.Task[list[CallAnswer[T]]] | None = None
        try:
            for number, chunk in enumerate(chunks):
                answers = await (ahead or self._start(chunk))
                rest = chunks[number + 1 :]
                missed = [answer.value for answer in answers if _is_silence(answer.value)]
                silent = silent or bool(missed)
                moved = moved or any(_has_moved(answer.value) for answer in answers)
                if len(missed) == len(chunk):
                    yield answers
                    now_ms = self._clients.clock.now_ms()
                    yield [
                        CallAnswer(group, missed[0], now_ms, now_ms)
                        for each in rest
                        for group in each
                    ]
                    break
                # the next chunk is asked while the caller works on this one's answers
                ahead = self._start(rest[0]) if rest else None
                yield answers
        finally:
            if ahead is not None:
                await asyncio.gather(ahead, return_exceptions=True)
        if groups:
            self._timeout.note(answered=not silent)
        if silent or moved:
            self.renew()

    def renew(self) -> None:
        """Ask with a new client from now on: it looks for each group's coordinator again."""
        self._admin = None
        free_replaced()

    def _start(self, groups: Sequence[str]) -> asyncio.Task[list[CallAnswer[T]]]:
        return asyncio.create_task(asyncio.to_thread(self._round, groups))

    def _round(self, groups: Sequence[str]) -> list[CallAnswer[T]]:
        """Keep `_IN_FLIGHT` requests under way until all are answered."""
        if self._admin is None:
            self._admin = self._clients.another_admin()
        done: SimpleQueue[_Done[T]] = SimpleQueue()
        deadline_s = self._timeout.timeout_s
        answers: list[CallAnswer[T]] = []
        for number, group in enumerate(groups):
            if number >= _IN_FLIGHT:
                answers.append(self._next(done, deadline_s))
            asked_ms = self._clients.clock.now_ms()
            future = self._ask(self._admin, group, deadline_s)
            future.add_done_callback(partial(self._put, done, group, asked_ms))
        while len(answers) < len(groups):
            answers.append(self._next(done, deadline_s))
        return answers

    def _put(
        self, done: "SimpleQueue[_Done[T]]", group: str, asked_ms: EpochMs, future: Future[T]
    ) -> None:
        """Run by the client library's thread, at once when the answer comes."""
        done.put((group, asked_ms, self._clients.clock.now_ms(), future))

    def _next(self, done: "SimpleQueue[_Done[T]]", deadline_s: float) -> CallAnswer[T]:
        try:
            group, asked_ms, answered_ms, future = done.get(
                timeout=deadline_s + self._clients.grace_s
            )
        except Empty as error:
            self.renew()
            message = "the client library left a request to a group's coordinator unanswered"
            raise SourceError(
                cluster=self._clients.cluster, kind="timeout", message=message
            ) from error
        try:
            value: T | KafkaError = future.result(0)
        except KafkaException as error:
            value = kafka_error(error)
        return CallAnswer(group, value, asked_ms, answered_ms)


_Done = tuple[str, EpochMs, EpochMs, Future[T]]
"""Group, when it was asked and answered, and the answer."""


def _has_moved(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code() == KafkaError.NOT_COORDINATOR


def _is_silence(answer: object) -> bool:
    return isinstance(answer, KafkaError) and answer.code() in codes.TIMEOUT | codes.CONNECTION
