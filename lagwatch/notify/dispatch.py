"""Delivery: one queue and one task per channel, so that a dead receiver delays no other.

The only place where sending is retried.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

import structlog

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.backoff import Allowance, ChannelBackoff
from lagwatch.notify.channels.base import Channel, ChannelLimits, KeepsAlive
from lagwatch.notify.notice import Message, Newest, OpenOf
from lagwatch.notify.outbox import Outbox
from lagwatch.notify.suspects import Suspects

_LONGEST_SLEEP_S: Final = 60.0
_AFTER_TROUBLE_S: Final = 5.0
"""Pause after the file could not be read or written."""
_ANSWERS_WITHIN_S: Final = 3.0
"""When lagwatch ends: for so long it waits for the answer to what was sent already."""
_CLOSE_WITHIN_S: Final = 2.0
_LONGEST_ASKED_S: Final = 3600.0
"""Longest wait that a receiver may ask for."""
_PROMPT_MESSAGES: Final = 2
"""Messages within two intervals that are sent without waiting for one to end."""
_CUTS_BEFORE_SPLIT: Final = 2
"""Connections cut in a row before a message is split: one may be a receiver that restarts."""
_MOST_SPLITS_BY_CUTS: Final = 6
_CONTENT_SPLITS: Final = 3
"""How often a message is split to find the notice that a receiver refuses, while none pass."""
_REMEMBER_SIZE_S: Final = 3600.0
"""How long the size that a receiver refused is heeded: it may take more some day."""

Keep = Callable[[str, Callable[[], Awaitable[None]]], Coroutine[None, None, None]]
"""Runs a task of the channel of this name, again and again if it raises."""

_log = structlog.get_logger()


@dataclass(slots=True)
class DeliveryCounts:
    """Counters of a channel since the start."""

    delivered: int = 0
    notices: int = 0
    """In the messages delivered."""
    failed: int = 0
    """Attempts that will be repeated."""
    dead: int = 0
    failing_since_ms: int | None = None
    """First of the failures in a row; None: the last attempt succeeded."""
    last_error: str = ""
    """Of the failures in a row."""
    partly: int = 0
    """Notices that some recipients refused, since the last message that all of them accepted."""
    partly_since_ms: int | None = None
    """First of those refusals; None: there is none."""
    partly_error: str = ""
    """The last of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """A channel and how it is used."""

    name: str
    channel: Channel
    settings: ChannelSettings
    wait_s: float
    """How long a notice waits for others to go with it."""
    interval_s: float = 0.0
    """In a storm, from the third message on: how long notices wait after a message."""
    limits: ChannelLimits
    counts: DeliveryCounts = field(default_factory=DeliveryCounts)


class Dispatcher:
    """Delivers what is in the outbox."""

    def __init__(
        self,
        outbox: Outbox,
        outlets: Mapping[str, Outlet],
        clock: Clock,
        chance: Random,
        *,
        newest: Newest,
        open_of: OpenOf,
        keep: Keep,
    ) -> None:
        """`newest` says how far behind the group of a notice is that is sent late.

        `open_of` says of how many groups of a cluster incidents are open as a message is sent.
        `keep` runs the tasks of a channel, so that an error in them ends no other channel.
        """
        self._keep = keep
        self._outbox = outbox
        self._clock = clock
        self._chance = chance
        self._newest, self._open_of = newest, open_of
        self._deliverers: dict[str, Deliverer] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[str, asyncio.Task[None]] = {}
        self.use(outlets)

    def use(self, outlets: Mapping[str, Outlet]) -> None:
        """Deliver by these outlets from now on; an outlet that was in use before goes on as it is.

        Call it on the event loop once `run` has started.
        """
        before, self._deliverers = self._deliverers, {}
        for name, outlet in outlets.items():
            known = before.get(name)
            self._deliverers[name] = (
                known
                if known is not None and known.outlet is outlet
                else Deliverer(
                    self._outbox,
                    outlet,
                    self._clock,
                    ChannelBackoff(self._chance),
                    newest=self._newest,
                    open_of=self._open_of,
                )
            )
        for name, deliverer in before.items():
            if self._deliverers.get(name) is not deliverer and name in self._running:
                self._running[name].cancel()
        for name, deliverer in self._deliverers.items():
            if before.get(name) is not deliverer:
                self._start(name, deliverer)

    def is_ending(self, channel: str) -> bool:
        """True while a channel that is configured no more waits for its last answer."""
        task = self._running.get(channel)
        return channel not in self._deliverers and task is not None and not task.done()

    def wake(self) -> None:
        """Look into the outbox: it has changed."""
        for deliverer in self._deliverers.values():
            deliverer.wake()

    def try_now(self, channel: str) -> None:
        """Try a channel at once: its receiver may have been repaired."""
        if channel in self._deliverers:
            self._deliverers[channel].try_now()

    def used_up(self, channel: str) -> bool:
        """True while a channel has sent as many messages as its `per_minute` allows."""
        found = self._deliverers.get(channel)
        return found is not None and found.used_up

    def next_attempt_s(self, channel: str) -> float | None:
        """Seconds until a channel is tried again; None if there is no such channel."""
        found = self._deliverers.get(channel)
        return None if found is None else found.next_attempt_s()

    async def run(self) -> None:
        """Deliver until cancelled; each channel then closes its connections."""
        async with asyncio.TaskGroup() as self._tasks:
            for name, deliverer in self._deliverers.items():
                self._start(name, deliverer)
            await asyncio.Event().wait()  # channels may be added at any time

    def _start(self, name: str, deliverer: "Deliverer") -> None:
        if self._tasks is not None:
            work = _deliver(name, deliverer, self._running.get(name), self._keep)
            self._running[name] = self._tasks.create_task(work, name=f"channel {name}")


async def _deliver(
    name: str, deliverer: "Deliverer", before: "asyncio.Task[None] | None", keep: Keep
) -> None:
    """Deliver until cancelled, after the channel that had this name before has ended."""
    try:
        if before is not None:
            await asyncio.wait({before})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep(name, deliverer.run), name=f"deliver {name}")
            tasks.create_task(keep(name, deliverer.keep_alive), name=f"keep alive {name}")
    finally:
        await deliverer.close()


def _heed_cancellation() -> None:
    """End although a channel's library swallowed the request to, as `wait_for` may.

    Before Python 3.12 it loses a cancellation that meets a finished answer (CPython gh-86296).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Deliverer:
    """Sends the messages of a channel one at a time; after a failure all of them pause."""

    def __init__(
        self,
        outbox: Outbox,
        outlet: Outlet,
        clock: Clock,
        backoff: ChannelBackoff,
        *,
        newest: Newest,
        open_of: OpenOf,
    ) -> None:
        self._outbox = outbox
        self._newest, self._open_of = newest, open_of
        self.outlet = outlet
        self._clock = clock
        self._backoff = backoff
        now_s = clock.monotonic_s()
        self._allowance = Allowance(outlet.settings.per_minute, now_s=now_s)
        self._something_new = asyncio.Event()
        self._failures = 0
        """In a row, of whatever message."""
        self._cuts = 0
        self._paused_until_s = now_s + self._asked_pause_s()
        self._suspects = Suspects(backoff.chance)
        self._failed_s: float | None = None
        """When the last attempt failed; None: it succeeded."""
        self._last_failure: tuple[int, str] | None = None
        """When all messages last paused for a failure, and why; None: never since the start."""
        self._sent_s: deque[float] = deque()
        """When messages were delivered, within the last two intervals."""
        self._urgent_sent_s: deque[float] = deque()
        """Those of them that held something urgent."""
        self._too_large_bytes: int | None = None
        """The smallest message of several notices that was refused for its size."""
        self._too_large_s = now_s
        """When it was."""
        self._not_noted: Message | None = None
        """Delivered, but not written down yet."""
        self._waiting_since_s: float | None = None
        """When news was first seen that is not in a message yet."""

    def wake(self) -> None:
        self._something_new.set()

    def next_attempt_s(self) -> float:
        """Seconds until the next attempt; 0 = now."""
        now_s = self._clock.monotonic_s()
        return max(0.0, self._paused_until_s - now_s, self._allowance.wait_s(now_s))

    @property
    def used_up(self) -> bool:
        """True while `per_minute` allows no message."""
        return self._allowance.wait_s(self._clock.monotonic_s()) > 0

    def try_now(self) -> None:
        self._paused_until_s = self._clock.monotonic_s()
        self.wake()

    def _asked_pause_s(self) -> float:
        """How long the receiver still wants no request, as it said before a restart."""
        until_ms = self._outbox.paused_until_ms(self.outlet.name)
        self._asked_to_wait = until_ms is not None
        left_s = 0.0 if until_ms is None else (until_ms - self._clock.now_ms()) / 1000
        return min(max(0.0, left_s), _LONGEST_ASKED_S)

    async def run(self) -> None:
        while True:
            self._something_new.clear()
            try:
                pause_s = await self.turn()
            except sqlite3.Error as error:
                _log.error("alerts_file_unusable", channel=self.outlet.name, reason=str(error))
                await self._clock.sleep(_AFTER_TROUBLE_S)
                pause_s = 0.0
            _heed_cancellation()
            if pause_s > 0:
                await self._wait(min(pause_s, _LONGEST_SLEEP_S))
                _heed_cancellation()

    async def keep_alive(self) -> None:
        """Repeat open incidents, if the receiver needs that."""
        channel = self.outlet.channel
        if not isinstance(channel, KeepsAlive):
            return
        while True:
            await self._clock.sleep(channel.keep_alive_s)
            try:
                standing = self._outbox.standing(self.outlet.name)
                now_ms = self._clock.now_ms()
                async with asyncio.timeout(self.outlet.settings.timeout_s):
                    await channel.keep_alive(
                        [notice.sent_at(now_ms, self._newest) for notice in standing]
                    )
            except (NotifyError, TimeoutError, sqlite3.Error) as error:
                reason = str(error) or "no answer in time"
                _log.warning("keep_alive_failed", channel=self.outlet.name, reason=reason)
            _heed_cancellation()

    async def close(self) -> None:
        try:
            async with asyncio.timeout(_CLOSE_WITHIN_S):
                await self.outlet.channel.close()
        except TimeoutError:
            _log.debug("channel_not_closed", channel=self.outlet.name)

    async def turn(self) -> float:
        """Make at most one attempt; returns for how many seconds there is nothing to do."""
        self._note_delivery()
        now_s = self._clock.monotonic_s()
        pause_s, later = self._pause(now_s)
        pause_s = max(pause_s, self._allowance.wait_s(now_s))
        if pause_s > 0:
            return pause_s
        message = self._outbox.sealed(self.outlet.name, later)
        if message is None:
            pause_s = self._packed(now_s)
            if pause_s > 0:
                return min((pause_s, *later.values()))
            message = self._outbox.sealed(self.outlet.name, later)
        elif self._failures == 0 and self._outbox.urgent_waits(self.outlet.name):
            # a queue that is being sent holds up no error; one that fails is tried as it is
            self._pack(urgent_only=True)
            message = self._outbox.sealed(self.outlet.name, later)
        if message is None:
            return min((_LONGEST_SLEEP_S, *later.values()))
        if self._is_too_large(message, now_s) and self._shrink(message):
            return 0.0
        self._allowance.take(now_s)
        await self._attempt(message)
        return 0.0

    def _pause(self, now_s: float) -> tuple[float, dict[str, float]]:
        """(seconds in which nothing is sent, messages that wait longer and the seconds left).

        One message that fails again and again holds up no other: while the channel pauses because
        of it alone, another one may go, once, and shows whether the receiver is down.
        """
        pause_s = self._paused_until_s - now_s
        later = self._suspects.waiting(now_s)
        lone = self._suspects.lone()
        if pause_s > 0 and lone and self._has_others(lone):
            later[lone] = pause_s
            pause_s = min(pause_s, self._suspects.probe_in_s(now_s))
        return pause_s, later

    def _has_others(self, lone: str) -> bool:
        name = self.outlet.name
        waiting = set(self._outbox.on_its_way(name)) - {lone}
        return bool(waiting) or self._outbox.waiting(name)

    def _packed(self, now_s: float) -> float:
        """Seal a message once news has waited for more; returns the seconds left to wait."""
        name = self.outlet.name
        if not self._outbox.waiting(name):
            self._waiting_since_s = None
            return _LONGEST_SLEEP_S
        if self._waiting_since_s is None:
            self._waiting_since_s = now_s
        left_s = self._waiting_since_s + self.outlet.wait_s - now_s
        storm_s = self._storm_pause_s(self._sent_s, now_s)
        if storm_s > 0 and self._outbox.urgent_waits(name):
            # warnings that were sent before hold up no error
            urgent_s = max(left_s, self._storm_pause_s(self._urgent_sent_s, now_s))
            if urgent_s > 0:
                return urgent_s
            self._pack(urgent_only=True)
            if self._outbox.on_its_way(name):
                return 0.0
        left_s = max(left_s, storm_s)
        if left_s > 0:
            return left_s
        self._pack()
        if not self._outbox.waiting(name):
            self._waiting_since_s = None
        return 0.0

    def _pack(self, *, urgent_only: bool = False) -> None:
        """Seal messages smaller than what the receiver refused."""
        limits, most = self.outlet.limits, self._too_large_bytes
        if most is not None:
            limits = replace(limits, most_bytes=min(most, limits.most_bytes or most))
        self._outbox.pack(
            self.outlet.name,
            limits,
            self._clock.now_ms(),
            urgent_only=urgent_only,
            failed=self._last_failure,
        )

    def _is_too_large(self, message: Message, now_s: float) -> bool:
        """True if the receiver has just refused a message of this size."""
        if now_s - self._too_large_s > _REMEMBER_SIZE_S:
            self._too_large_bytes = None
        most = self._too_large_bytes
        return most is not None and not message.brief and message.size_bytes >= most

    def _storm_pause_s(self, sent_s: deque[float], now_s: float) -> float:
        """Failures that follow each other closely go in a few messages, not in one each."""
        interval_s = self.outlet.interval_s
        # twice the interval: messages that are one interval apart keep the storm going
        while sent_s and now_s - sent_s[0] >= 2 * interval_s:
            sent_s.popleft()
        if len(sent_s) < _PROMPT_MESSAGES:
            return 0.0
        return sent_s[-1] + interval_s - now_s

    async def _wait(self, pause_s: float) -> None:
        try:
            async with asyncio.timeout(pause_s):
                await self._something_new.wait()
        except TimeoutError:
            return

    async def _answer(self, message: Message) -> str:
        """Send; returns the receiver's answer. Raises what the channel raises, and `TimeoutError`.

        When lagwatch ends meanwhile, a receiver that has the message has a moment to say so: else
        it would get it again after the next start.
        """
        sent = message.sent_at(self._clock.now_ms(), self._newest, self._open_of)
        sending = asyncio.ensure_future(self.outlet.channel.send(sent))
        try:
            async with asyncio.timeout(self.outlet.settings.timeout_s):
                return await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait({sending}, timeout=_ANSWERS_WITHIN_S)
            if sending.done() and not sending.cancelled():
                error = sending.exception()
                if error is None:
                    self._delivered(message, sending.result())
                elif isinstance(error, NotifyError) and error.refusal is Refusal.SOME_RECIPIENTS:
                    self._partly_delivered(message, str(error))
            raise
        finally:
            if not sending.done():
                sending.cancel()
                await asyncio.wait({sending}, timeout=_CLOSE_WITHIN_S)

    async def _attempt(self, message: Message) -> None:
        name, limit_s = self.outlet.name, self.outlet.settings.timeout_s
        try:
            answer = await self._answer(message)
        except NotifyError as error:
            if error.refusal is Refusal.SOME_RECIPIENTS:
                self._partly_delivered(message, str(error))
            else:
                self._failed(message, error)
        except TimeoutError:
            text = f"no answer within {limit_s:g} s"
            self._failed(message, NotifyError(channel=name, message=text, retryable=True))
        except OSError as error:
            text = f"{type(error).__name__}: {error}"
            self._failed(message, NotifyError(channel=name, message=text, retryable=True))
        except Exception as error:  # noqa: BLE001 what is stored may be odd in any way
            self._not_written(message, error)
        else:
            counts = self.outlet.counts
            counts.partly, counts.partly_since_ms, counts.partly_error = 0, None, ""
            self._delivered(message, answer)

    def _not_written(self, message: Message, error: Exception) -> None:
        """The text of a notice cannot be made: give that notice up, the receiver has not failed."""
        self._allowance.give_back()  # nothing was sent
        if self._split(message):
            return
        (notice,) = message.notices
        reason = f"cannot be written: {type(error).__name__}: {error}"
        self._outbox.dead(message, reason, self._clock.now_ms())
        self._suspects.keep_only(self._outbox.on_its_way(self.outlet.name))
        self.outlet.counts.dead += 1
        _log.error(
            "notice_not_written",
            channel=self.outlet.name,
            message=message.id,
            incident=notice.incident,
            cluster=notice.cluster,
            group=notice.group,
            reason=reason,
            exc_info=error,
        )

    def _partly_delivered(self, message: Message, reason: str) -> None:
        """Not sent again, because the others would get it twice; but a problem of the channel."""
        counts = self.outlet.counts
        counts.partly += len(message.notices)
        counts.partly_error = reason
        if counts.partly_since_ms is None:
            counts.partly_since_ms = self._clock.now_ms()
        _log.warning(
            "recipients_refused",
            channel=self.outlet.name,
            message=message.id,
            notices=len(message.notices),
            reason=reason,
        )
        self._delivered(message, reason)

    def _delivered(self, message: Message, answer: str) -> None:
        """All that waits for the receiver may go now."""
        now_ms = self._clock.now_ms()
        self._failures = self._cuts = 0
        self._backoff.reset()
        self._paused_until_s = self._clock.monotonic_s()
        self._failed_s = None
        counts = self.outlet.counts
        counts.delivered += 1
        counts.notices += len(message.notices)
        self._sent_s.append(self._clock.monotonic_s())
        if any(notice.urgent for notice in message.notices):
            self._urgent_sent_s.append(self._clock.monotonic_s())
        self._not_noted = message
        self._suspects.passed(message.id, self._clock.monotonic_s())
        self._note_delivery()
        _log.info(
            "notices_delivered",
            channel=self.outlet.name,
            message=message.id,
            notices=len(message.notices),
            attempts=message.attempts + 1,
            delay_s=round((now_ms - message.notices[0].at_ms) / 1000, 3),
            answer=answer,
        )

    def _note_delivery(self) -> None:
        """Until the file can be written, remember what was delivered: it is not sent again."""
        if self._not_noted is not None:
            self._outbox.delivered(self._not_noted, self._clock.now_ms())
            self._not_noted = None
            if self._asked_to_wait:
                self._outbox.unpause(self.outlet.name)
                self._asked_to_wait = False
            self._note_health()

    def _failed(self, message: Message, error: NotifyError) -> None:
        if self._made_smaller(message, error):
            return
        now_s = self._clock.monotonic_s()
        blamed = self._suspects.blamed(message, error)
        since_s = self._suspects.failed(message, error, now_s)
        # before its first attempt it was not tried, however long others have failed
        if since_s is None and self._failed_s is not None and message.attempts:
            since_s = now_s - self._failed_s
        tried_ms = round((since_s or 0.0) * 1000)
        give_up_ms = self.outlet.settings.give_up_after_s * 1000
        self._note_failure(error)
        for_good = self._suspects.refused_for_good(message, error)
        if for_good or message.tried_ms + tried_ms >= give_up_ms:
            self._give_up(message, error)
            return
        self._outbox.failed(message, str(error), tried_ms)
        delay_s = self._next_delay_s(message, error, now_s, blamed=blamed)
        self.outlet.counts.failed += 1
        # the same failure again needs no new log line
        level = _log.warning if str(error) != message.last_error else _log.debug
        level(
            "delivery_failed",
            channel=self.outlet.name,
            message=message.id,
            notices=len(message.notices),
            retry_in_s=round(delay_s, 1),
            reason=str(error),
        )

    def _next_delay_s(
        self, message: Message, error: NotifyError, now_s: float, *, blamed: bool
    ) -> float:
        """Pause the channel, or the message alone if it is to blame; returns for how long."""
        if error.refusal is Refusal.CONTENT:
            return self._suspects.set_aside(message, error, now_s, self._clock.now_ms())
        known = self._suspects.is_aside(message.id)
        aside_s: float | None = None
        cut_short = self._is_cut_short(message, error)
        if cut_short or self._suspects.to_split(message, error, blamed=blamed):
            self._split(message)  # the back-off goes on: the receiver may as well be down
        elif blamed and len(message.notices) == 1:
            aside_s = self._suspects.set_aside(message, error, now_s, self._clock.now_ms())
        if known and aside_s is not None:
            return aside_s  # that it fails says nothing about the receiver
        self._failed_s = now_s
        self._failures += 1
        if blamed and self._failures == 1:
            return aside_s or 0.0  # others passed just before
        delay_s = self._backoff.next_s(error.retry_after_s, error.refusal)
        self._paused_until_s = now_s + delay_s
        self._last_failure = self._clock.now_ms(), str(error)
        if error.retry_after_s is not None:
            self._outbox.pause(self.outlet.name, self._clock.now_ms() + round(delay_s * 1000))
            self._asked_to_wait = True
        return delay_s

    def _made_smaller(self, message: Message, error: NotifyError) -> bool:
        """Whether the message was split or shortened, because it may pass at once then."""
        if error.refusal is Refusal.TOO_LARGE:
            if len(message.notices) > 1 and not message.brief:
                self._too_large_bytes = message.size_bytes
                self._too_large_s = self._clock.monotonic_s()
            if self._shrink(message):
                self._allowance.give_back()  # a storm waits for messages, not for their sizes
                return True
        if error.refusal is not Refusal.CONTENT:
            return False
        passed = self._suspects.others_passed(message, self._clock.monotonic_s())
        return (passed or message.splits < _CONTENT_SPLITS) and self._split(message)

    def _shrink(self, message: Message) -> bool:
        """Split it, or shorten the one notice that it holds; False: it is short already."""
        if self._split(message):
            return True
        if message.brief:
            return False
        self._outbox.shorten(message)
        return True

    def _is_cut_short(self, message: Message, error: NotifyError) -> bool:
        """True if a smaller message may pass what cuts the connection."""
        self._cuts = self._cuts + 1 if error.refusal is Refusal.CUT else 0
        return self._cuts >= _CUTS_BEFORE_SPLIT and message.splits < _MOST_SPLITS_BY_CUTS

    def _split(self, message: Message) -> bool:
        parts = self._outbox.split(message)
        self._suspects.divided(message.id, parts)
        return bool(parts)

    def _note_health(self) -> None:
        """After a success: the channel works, apart from messages that fail by themselves."""
        if self._suspects.any:
            self._suspects.keep_only(self._outbox.on_its_way(self.outlet.name))
        counts = self.outlet.counts
        counts.failing_since_ms, counts.last_error = self._suspects.trouble()

    def _note_failure(self, error: NotifyError) -> None:
        counts = self.outlet.counts
        counts.last_error = str(error)
        if counts.failing_since_ms is None:
            counts.failing_since_ms = self._clock.now_ms()

    def _give_up(self, message: Message, error: NotifyError) -> None:
        self._outbox.dead(message, str(error), self._clock.now_ms())
        self.outlet.counts.dead += 1
        _log.error(
            "notices_given_up",
            channel=self.outlet.name,
            message=message.id,
            notices=len(message.notices),
            attempts=message.attempts + 1,
            reason=str(error),
        )
