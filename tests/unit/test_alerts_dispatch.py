"""Delivery ends when it is cancelled, whatever a channel's library makes of that."""

import asyncio
from contextlib import suppress

from lagwatch.notify.dispatch import Deliverer


class Deaf(Deliverer):
    """Its channel takes a cancellation for an answer, as `wait_for` of Python 3.11 may."""

    def __init__(self) -> None:
        self.sending = asyncio.Event()
        self._something_new = asyncio.Event()

    async def turn(self) -> float:
        self.sending.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return 0.0


def test_a_cancellation_that_a_channel_swallows_ends_delivery_all_the_same() -> None:
    async def cancelled() -> bool:
        deliverer = Deaf()
        task = asyncio.create_task(deliverer.run())
        await deliverer.sending.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        return task.done() and task.cancelled()

    assert asyncio.run(cancelled())
