"""Delivery: one queue and one task per channel, so that a dead receiver delays no other.

The only place where sending is retried.
"""

import asyncio
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.errors import NotifyError
from lagwatch.notify.backoff import Allowance, Backoff
from lagwatch.notify.channels.base import Channel, KeepsAlive
from lagwatch.notify.notice import Message
from lagwatch.notify.outbox import Outbox, Packing

_LONGEST_SLEEP_MS: Final = 60_000
_AFTER_TROUBLE_S: Final = 5.0
"""When the file itself cannot be read or written."""
_CLOSE_WITHIN_S: Final = 2.0

_log = structlog.get_logger()


@dataclass(slots=True)
class DeliveryCounts:
    """What became of a channel's messages since the start; all begin at 0."""

    delivered: int = 0
    notices: int = 0
    """In the messages delivered."""
    failed: int = 0
    """Attempts that will be repeated."""
    dead: int = 0
    keep_alives_failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A channel and how it wants to be used."""

    name: str
    channel: Channel
    settings: ChannelSettings
    wait_ms: int
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)

    @property
    def packing(self) -> Packing:
        return Packing(
            batch=self.settings.batch,
            wait_ms=self.wait_ms if self.settings.batch else 0,
            give_up_after_ms=round(self.settings.give_up_after_s * 1000),
        )


class Dispatcher:
    """Delivers what is in the outbox."""

    def __init__(
        self, outbox: Outbox, outlets: Mapping[str, Outlet], clock: Clock, chance: Random
    ) -> None:
        self._deliverers = {
            name: _Deliverer(outbox, outlet, clock, Backoff(chance))
            for name, outlet in outlets.items()
        }

    def wake(self) -> None:
        """There is something new in the outbox."""
        for deliverer in self._deliverers.values():
            deliverer.wake()

    async def run(self) -> None:
        """Deliver until cancelled; then let go of the connections."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, deliverer in self._deliverers.items():
                    tasks.create_task(deliverer.run(), name=f"deliver {name}")
                    tasks.create_task(deliverer.keep_alive(), name=f"keep alive {name}")
        finally:
            for deliverer in self._deliverers.values():
                await deliverer.close()


def _heed_cancellation() -> None:
    """End although a channel's library swallowed the request to, as `wait_for` may.

    Before Python 3.12 it loses a cancellation that meets a finished answer (CPython gh-86296).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class _Deliverer:
    """One channel."""

    def __init__(self, outbox: Outbox, outlet: Outlet, clock: Clock, backoff: Backoff) -> None:
        self._outbox = outbox
        self._outlet = outlet
        self._clock = clock
        self._backoff = backoff
        self._allowance = Allowance(outlet.settings.per_minute, now_ms=clock.now_ms())
        self._something_new = asyncio.Event()

    def wake(self) -> None:
        self._something_new.set()

    async def run(self) -> None:
        while True:
            try:
                await self._step()
            except sqlite3.Error as error:
                _log.error("alerts_file_unusable", channel=self._outlet.name, reason=str(error))
                await self._clock.sleep(_AFTER_TROUBLE_S)
            _heed_cancellation()

    async def keep_alive(self) -> None:
        """Repeat what is open, where the receiver needs that."""
        channel = self._outlet.channel
        if not isinstance(channel, KeepsAlive):
            return
        while True:
            await self._clock.sleep(channel.keep_alive_s)
            try:
                standing = self._outbox.standing(self._outlet.name)
                async with asyncio.timeout(self._outlet.settings.timeout_s):
                    await channel.keep_alive(standing)
            except (NotifyError, TimeoutError, sqlite3.Error) as error:
                self._outlet.counts.keep_alives_failed += 1
                reason = str(error) or "no answer in time"
                _log.warning("keep_alive_failed", channel=self._outlet.name, reason=reason)
            _heed_cancellation()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self._outlet.channel.close()
        except TimeoutError:
            _log.debug("channel_not_closed", channel=self._outlet.name)

    async def _step(self) -> None:
        """Try one message, or wait until there is one."""
        self._something_new.clear()
        now_ms = self._clock.now_ms()
        pause_ms = self._allowance.wait_ms(now_ms)
        name, packing = self._outlet.name, self._outlet.packing
        message = None if pause_ms else self._outbox.next(name, packing, now_ms)
        if message is not None:
            self._allowance.take(now_ms)
            await self._attempt(message)
            return
        wait_ms = self._outbox.wait_ms(name, packing, now_ms)
        if wait_ms is not None:
            pause_ms = max(pause_ms, wait_ms)
        await self._wait(min(pause_ms or _LONGEST_SLEEP_MS, _LONGEST_SLEEP_MS))

    async def _wait(self, wait_ms: int) -> None:
        try:
            async with asyncio.timeout(max(1, wait_ms) / 1000):
                await self._something_new.wait()
        except TimeoutError:
            return

    async def _attempt(self, message: Message) -> None:
        try:
            async with asyncio.timeout(self._outlet.settings.timeout_s):
                answer = await self._outlet.channel.send(message)
        except NotifyError as error:
            self._failed(message, error)
        except TimeoutError:
            limit_s = self._outlet.settings.timeout_s
            text = f"no answer within {limit_s:g} s"
            name = self._outlet.name
            self._failed(message, NotifyError(channel=name, message=text, retryable=True))
        except Exception as error:  # noqa: BLE001 a channel's library may raise anything
            text = f"{type(error).__name__}: {error}"
            name = self._outlet.name
            self._failed(message, NotifyError(channel=name, message=text, retryable=True))
        else:
            self._delivered(message, answer)

    def _delivered(self, message: Message, answer: str) -> None:
        now_ms = self._clock.now_ms()
        self._outbox.delivered(message, now_ms)
        self._outlet.counts.delivered += 1
        self._outlet.counts.notices += len(message.notices)
        _log.info(
            "notices_delivered",
            channel=self._outlet.name,
            message=message.id,
            notices=len(message.notices),
            attempts=message.attempts + 1,
            delay_s=round((now_ms - message.notices[0].at_ms) / 1000, 3),
            answer=answer,
        )

    def _failed(self, message: Message, error: NotifyError) -> None:
        now_ms = self._clock.now_ms()
        delay_s = self._backoff.delay_s(message.attempts + 1, error.retry_after_s)
        next_ms = now_ms + round(delay_s * 1000)
        text = str(error)
        if not error.retryable or next_ms >= message.deadline_ms:
            self._outbox.dead(message, text, now_ms)
            self._outlet.counts.dead += 1
            _log.error(
                "notices_given_up",
                channel=self._outlet.name,
                message=message.id,
                notices=len(message.notices),
                attempts=message.attempts + 1,
                reason=text,
            )
            return
        self._outbox.failed(message, text, next_ms)
        self._outlet.counts.failed += 1
        # the same failure again and again is no news
        level = _log.warning if text != message.last_error else _log.debug
        level(
            "delivery_failed",
            channel=self._outlet.name,
            message=message.id,
            notices=len(message.notices),
            retry_in_s=round(delay_s, 1),
            reason=text,
        )
