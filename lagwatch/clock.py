"""The only reader of the clock."""

import asyncio
import time
from dataclasses import dataclass
from typing import Final, Protocol

from lagwatch.core.model import EpochMs
from lagwatch.core.words import duration

STANDSTILL_S: Final = 15.0
"""More between two looks: lagwatch did not run. Data are stale after so long, too."""
LEAP_BELIEVED_S: Final = 3600.0
"""The clock went ahead by a leap so long ago: it is taken to be right."""
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

    def look(self) -> Standstill | None:
        """The one that has just ended, if there was one since the last look."""
        (before_ms, before_s), now_ms = self._seen, self._clock.now_ms()
        self._seen = now_ms, self._clock.monotonic_s()
        ran_s = self._seen[1] - before_s
        # a machine that was paused may have stopped its monotonic clock, too
        past_s = max(ran_s, (now_ms - before_ms) / 1000)
        if past_s < STANDSTILL_S:
            return None
        return Standstill(
            from_ms=now_ms - round(past_s * 1000), until_ms=now_ms, surely=ran_s >= STANDSTILL_S
        )


class Leaps:
    """By how much the clock was set ahead lately: it may be wrong.

    By a wrong clock everything is old at once. So nothing is forgotten or deleted for its age until
    the clock has gone on from its leap for an hour: after a pause of the machine, or when its clock
    is set right, that is late and does no harm.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen = clock.now_ms(), clock.monotonic_s()
        self._ahead_ms = 0
        self._leapt_s = 0.0

    def ahead_ms(self) -> int:
        """0 when it is believed; may be asked at any distance."""
        (before_ms, before_s), now_ms = self._seen, self._clock.now_ms()
        now_s = self._clock.monotonic_s()
        self._seen = now_ms, now_s
        leap_ms = now_ms - before_ms - round((now_s - before_s) * 1000)
        if abs(leap_ms) > STANDSTILL_S * 1000:
            self._ahead_ms = max(0, self._ahead_ms + leap_ms)
            self._leapt_s = now_s
        if now_s - self._leapt_s >= LEAP_BELIEVED_S:
            self._ahead_ms = 0
        return self._ahead_ms
