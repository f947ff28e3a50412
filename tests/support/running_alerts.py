"""Alerts that deliver in a thread of their own, as a test looks on."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from lagwatch.config.settings import Settings
from lagwatch.notify.alerts import Alerts
from tests.support.fleet import Fleet, ShiftedClock

T = TypeVar("T")


class Running:
    """Alerts and the loop they run on."""

    def __init__(self, alerts: Alerts, loop: asyncio.AbstractEventLoop) -> None:
        self.alerts = alerts
        self._loop = loop

    def sees(self, fleet: Fleet) -> None:
        """One round of the fleet, on the loop of the alerts."""
        self.call(lambda: fleet.shown_to(self.alerts))

    def idle(self) -> bool:
        """Is all delivered, and kept as delivered? A receiver has it a moment before."""
        return not any(self.call(self.alerts.counts).undelivered.values())

    def call(self, work: Callable[[], T]) -> T:
        """Do something on the loop of the alerts, which owns their state."""

        async def on_loop() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(timeout=300)


@contextmanager
def running(settings: Settings, clock: ShiftedClock) -> Iterator[Running]:
    """Alerts that deliver until the block ends."""
    started = threading.Event()
    found: list[Running] = []
    stop: list[asyncio.Task[None]] = []

    async def deliver() -> None:
        alerts = Alerts(settings, clock)
        found.append(Running(alerts, asyncio.get_running_loop()))
        task = asyncio.create_task(alerts.run())
        stop.append(task)
        started.set()
        with suppress(asyncio.CancelledError):
            await task
        alerts.close()

    thread = threading.Thread(target=lambda: asyncio.run(deliver()), daemon=True)
    thread.start()
    assert started.wait(10), "the alerts did not start"
    loop = found[0]._loop  # noqa: SLF001
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop[0].cancel)
        thread.join(30)
        assert not thread.is_alive(), "the alerts end when told"
