"""The only reader of the clock."""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from lagwatch.core.model import EpochMs
from lagwatch.core.words import duration

STANDSTILL_S: Final = 15.0
"""More between two looks: lagwatch did not run. Data are stale after so long, too."""
_LEAP_BELIEVED_S: Final = 3600.0
"""The clock went ahead by a leap so long ago: it is taken to be right."""
_UNNOTICED_MS: Final = STANDSTILL_S * 1000
"""A clock may be set by as much at any time, as clocks are that are kept right."""
_PAUSE: Final = 400
"""Times what a round took: a quarter of a per cent of a core."""


class Clock(Protocol):
    """Reads the time and waits."""

    def now_ms(self) -> EpochMs: ...

    def monotonic_s(self) -> float: ...

    async def sleep(self, delay_s: float) -> None: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> EpochMs:
        return EpochMs(time.time_ns() // 1_000_000)

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)


class Cadence:
    """When something is due again: so long after it began last, and later where it takes long."""

    def __init__(self, clock: Clock, *, least_s: float, most_s: float) -> None:
        """What takes long is put off up to `most_s`, if that is longer than `least_s`."""
        self._clock = clock
        self._least_s = least_s
        self._most_s = most_s
        self._due_s = clock.monotonic_s()

    def ended(self, began_s: float) -> float:
        """Note that it has just ended; returns how many seconds it took."""
        took_s = self._clock.monotonic_s() - began_s
        self._due_s = began_s + max(self._least_s, min(_PAUSE * took_s, self._most_s))
        return took_s

    def due_in_s(self) -> float:
        """Seconds until then; 0 or less if it is due."""
        return self._due_s - self._clock.monotonic_s()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which this process did not run: it was stopped, or the machine was paused."""

    from_ms: int
    until_ms: int
    surely: bool
    """False: the clock may have been set ahead instead."""

    @property
    def length_s(self) -> float:
        return (self.until_ms - self.from_ms) / 1000

    @property
    def reason(self) -> str:
        """`lagwatch did not run for 1 min 10 s`."""
        unless = "" if self.surely else ", or the clock was set ahead by that"
        return f"lagwatch did not run for {duration(self.length_s)}{unless}"


class Standstills:
    """Finds them: between two looks there should be a second or two."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = clock.now_ms(), clock.monotonic_s()
        self.set_back_ms = 0
        """By how much the clock was set back between the last two looks; 0: it was not."""

    @property
    def unnoticed(self) -> bool:
        """Was there one since the last look, or was the clock set back? For any thread."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        _, past_s = self._past(now_ms, now_s)
        return past_s >= STANDSTILL_S or self._back_ms(now_ms, now_s) > 0

    def look(self) -> Standstill | None:
        """The one that has just ended, if there was one since the last look."""
        now_ms, now_s = self._clock.now_ms(), self._clock.monotonic_s()
        ran_s, past_s = self._past(now_ms, now_s)
        self.set_back_ms = self._back_ms(now_ms, now_s)
        self._seen = now_ms, now_s
        if past_s < STANDSTILL_S:
            return None
        return Standstill(
            from_ms=now_ms - round(past_s * 1000), until_ms=now_ms, surely=ran_s >= STANDSTILL_S
        )

    def _past(self, now_ms: int, now_s: float) -> tuple[float, float]:
        """Seconds since the last look: by the monotonic clock, and by the clock that shows more."""
        before_ms, before_s = self._seen
        ran_s = now_s - before_s
        # a machine that was paused may have stopped its monotonic clock, too
        return ran_s, max(ran_s, (now_ms - before_ms) / 1000)

    def _back_ms(self, now_ms: int, now_s: float) -> int:
        return max(0, -_leap_ms(self._seen, (now_ms, now_s)))


def _leap_ms(before: tuple[int, float], now: tuple[int, float]) -> int:
    """What the clock, in ms, went on by more than the monotonic one, in seconds; 0: by little."""
    leap_ms = now[0] - before[0] - round((now[1] - before[1]) * 1000)
    return leap_ms if abs(leap_ms) >= _UNNOTICED_MS else 0


Witness = Callable[[], int | None]
"""By how much the clock is ahead of Kafka's now, in ms; negative: behind.

None: that is not known yet; never what was known before a leap.
"""


class Leaps:
    """By how much the clock was set ahead or back lately: it may be wrong.

    By a clock that is ahead everything is old at once, and what is set right afterwards was set
    back. So nothing is forgotten, deleted or escalated for its age, and no mute ends or stops being
    in force, until commits show that Kafka's clock says the same, or the clock has gone on from its
    leap for an hour: after a pause of the machine, or when its clock is set right, that is late.
    """

    def __init__(self, clock: Clock, witness: Witness = lambda: None) -> None:
        self._clock = clock
        self._witness = witness
        self._began_s = clock.monotonic_s()
        self._seen = clock.now_ms(), self._began_s
        self._ahead_ms = 0
        self._leapt_s = -math.inf

    def ahead_ms(self) -> int:
        """Negative: it was set back; 0: the clock is believed. May be asked at any distance."""
        before, now_s = self._seen, self._clock.monotonic_s()
        self._seen = self._clock.now_ms(), now_s
        if leap_ms := _leap_ms(before, self._seen):
            ahead_ms = self._ahead_ms + leap_ms
            # set right again: a little is left of what it was wrong by
            self._ahead_ms = ahead_ms if abs(ahead_ms) > _UNNOTICED_MS else 0
            self._leapt_s = now_s
        if self._ahead_ms:
            self._decide(now_s)
        return self._ahead_ms

    def believed_ms(self) -> int | None:
        """The time by which something may be deleted.

        None: in the first hour of the process, while nothing shows that the clock is right.
        """
        ahead_ms, witnessed_ms = self.ahead_ms(), self._witness()
        now_ms, now_s = self._seen
        if witnessed_ms is None and now_s - self._began_s < _LEAP_BELIEVED_S:
            return None
        return now_ms - max(0, ahead_ms, witnessed_ms or 0)

    def _decide(self, now_s: float) -> None:
        """Is the leap to be believed?"""
        witnessed_ms = self._witness()
        if witnessed_ms is None:
            believed = now_s - self._leapt_s >= _LEAP_BELIEVED_S
        else:
            # by the clock as it was before its leap, Kafka's would be further off
            believed = abs(witnessed_ms) < abs(witnessed_ms - self._ahead_ms)
            self._leapt_s = now_s
        if believed:
            self._ahead_ms = 0


class BelievedClock:
    """The machine's clock without leaps that are not believed yet."""

    def __init__(self, clock: Clock, leaps: Leaps) -> None:
        self._clock = clock
        self._leaps = leaps

    def now_ms(self) -> EpochMs:
        return EpochMs(self._clock.now_ms() - self._leaps.ahead_ms())

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def sleep(self, delay_s: float) -> None:
        await self._clock.sleep(delay_s)
