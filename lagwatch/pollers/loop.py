"""Runs pollers in rounds: the only place of the collector that retries."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import structlog
from numpy.typing import NDArray

from lagwatch.backoff import Backoff
from lagwatch.clock import Clock
from lagwatch.core.model import EpochMs
from lagwatch.errors import SourceError
from lagwatch.ports.kafka import TopicListing
from lagwatch.ports.reports import Report, SourceHealth, SourceKind

Send = Callable[[Report], Awaitable[None]]
"""Hands a report to the serving process; waits while that one is busy."""

_SUCCESS_EVERY_S: Final = 1.0
_LOG_AGAIN_S: Final = 60.0

_log = structlog.get_logger(__name__)


class Poller(Protocol):
    """One thing to ask of Kafka, round by round."""

    source: SourceKind

    async def poll_once(self) -> Sequence[str]:
        """One round: ask, and send the answers.

        Returns:
            What part of the round failed, one sentence each; empty when all is well.

        Raises:
            SourceError: the round failed completely.
        """
        ...


class Wake:
    """Calls for a round before its time."""

    def __init__(self) -> None:
        self._called = asyncio.Event()

    def call(self) -> None:
        self._called.set()

    async def wait(self) -> None:
        await self._called.wait()

    def answer(self) -> None:
        self._called.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class PollPace:
    """How often to ask."""

    interval_s: float
    """From the start of one round to the start of the next."""
    soonest_s: float = 1.0
    """A wake never makes rounds follow each other faster than this."""


class PollLoop:
    """Runs a poller until cancelled and reports its health."""

    def __init__(
        self,
        poller: Poller,
        *,
        pace: PollPace,
        clock: Clock,
        send: Send,
        wake: Wake | None = None,
        give_up_on: frozenset[str] = frozenset(),
    ) -> None:
        """`give_up_on`: kinds of `SourceError` that end the loop instead of being retried."""
        self._poller = poller
        self._pace = pace
        self._clock = clock
        self._send = send
        self._wake = wake
        self._give_up_on = give_up_on
        self._backoff = Backoff(first_s=0.5, longest_s=max(1.0, min(15.0, 2 * pace.interval_s)))
        self._last: SourceHealth | None = None
        self._said, self._said_s = "", 0.0

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            SourceError: of a kind to give up on.
        """
        while True:
            started_s = self._clock.monotonic_s()
            if self._wake is not None:
                self._wake.answer()
            try:
                problems = await self._poller.poll_once()
            except SourceError as error:
                if error.kind in self._give_up_on:
                    raise
                await self._failed(error)
            else:
                self._backoff.reset()
                await self._answered(problems)
                await self._rest(started_s)

    async def _failed(self, error: SourceError) -> None:
        delay_s = self._backoff.next_s()
        log = _log.warning if self._is_news(str(error)) else _log.debug
        log(
            "poll_failed",
            source=self._poller.source.value,
            kind=error.kind,
            retry_in_s=round(delay_s, 2),
            reason=str(error),
        )
        await self._report(ok=False, kind=error.kind, message=str(error))
        await self._clock.sleep(delay_s)

    async def _answered(self, problems: Sequence[str]) -> None:
        if not problems:
            await self._report(ok=True)
            return
        message = "; ".join(problems)
        if self._is_news(message):
            _log.warning("poll_incomplete", source=self._poller.source.value, reason=message)
        await self._report(ok=False, kind="partial", message=message)

    def _is_news(self, message: str) -> bool:
        """A fault is logged when it appears, and then once a minute."""
        now_s = self._clock.monotonic_s()
        if self._said == message and now_s - self._said_s < _LOG_AGAIN_S:
            return False
        self._said, self._said_s = message, now_s
        return True

    async def _report(self, *, ok: bool, kind: str = "", message: str = "") -> None:
        """Report every change at once, and unchanged success once a second."""
        health = SourceHealth(
            source=self._poller.source,
            ok=ok,
            at_ms=self._clock.now_ms(),
            error_kind=kind,
            message=message,
        )
        if self._last is not None and _same(self._last, health):
            if ok and health.at_ms - self._last.at_ms < 1000 * _SUCCESS_EVERY_S:
                return
        elif ok and self._last is not None:
            self._said = ""
            _log.info("poll_recovered", source=self._poller.source.value)
        self._last = health
        await self._send(health)

    async def _rest(self, started_s: float) -> None:
        passed_s = self._clock.monotonic_s() - started_s
        left_s = self._pace.interval_s - passed_s
        if left_s <= 0:
            return
        if self._wake is None:
            await self._clock.sleep(left_s)
            return
        await _first_of(self._clock.sleep(left_s), self._wake.wait())
        passed_s = self._clock.monotonic_s() - started_s
        await self._clock.sleep(max(0.0, min(self._pace.soonest_s, left_s) - passed_s))


async def _first_of(*waits: Awaitable[None]) -> None:
    """Return when the first of them ends; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _same(before: SourceHealth, after: SourceHealth) -> bool:
    return (before.ok, before.error_kind, before.message) == (
        after.ok,
        after.error_kind,
        after.message,
    )


class ConnectionPoller:
    """Takes the client library's events, so that they never pile up.

    `listen` raises a `SourceError` while no broker can be reached.
    """

    source = SourceKind.CONNECTION

    def __init__(self, listen: Callable[[], Awaitable[None]]) -> None:
        self._listen = listen

    async def poll_once(self) -> Sequence[str]:
        await self._listen()
        return ()


Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEnds:
    """Ends of one topic, by partition; -1 where the leader gave no answer."""

    started_ms: EpochMs
    """Before the first request was sent."""
    log_end: Int64
    last_stable: Int64
    """Less than `log_end` only while a transaction is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndsRound:
    """One round of log ends; rows as in `topics`."""

    version: int
    """As `Topics.version`."""
    topics: TopicListing
    ends: PartitionEnds
    offsets_topic: PartitionEnds | None
    """Also while the filter hides that topic; None while it does not exist or is not visible."""
    asked: NDArray[np.bool_] | None = None
    """As `LogEnds.asked`."""


Listener = Callable[[EndsRound], None]
"""Called after every round; must not wait."""
