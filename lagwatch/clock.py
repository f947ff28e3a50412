"""The only reader of the clock."""

import asyncio
import time
from typing import Protocol

from lagwatch.core.model import EpochMs


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
