"""Clocks whose time passes as a test says."""

import asyncio

from lagwatch.clock import SystemClock
from lagwatch.core.model import EpochMs


class StepClock:
    """Time that only passes while somebody sleeps, or when asked."""

    def __init__(self) -> None:
        self._at_s = 1_000.0

    def now_ms(self) -> EpochMs:
        return EpochMs(round(self._at_s * 1000))

    def monotonic_s(self) -> float:
        return self._at_s

    async def sleep(self, delay_s: float) -> None:
        self._at_s += delay_s
        await asyncio.sleep(0)

    def pass_s(self, seconds: float) -> None:
        self._at_s += seconds


class LaterClock(SystemClock):
    """The machine's clock; its monotonic time is put forward as a test wants it."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s
