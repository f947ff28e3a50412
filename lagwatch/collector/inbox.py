"""Reports on their way into the event loop, and how far the offsets topic was read."""

import asyncio
from collections.abc import Mapping
from threading import Semaphore, Thread
from typing import Final

from lagwatch.collector.link import ServingEnd
from lagwatch.ports import Commits, Report

_CAPACITY: Final = 8
"""Reports waiting here; when it is full the pipe fills up, and then the collector waits."""


class Inbox:
    """A bounded queue that drops nothing."""

    def __init__(self) -> None:
        self._reports: asyncio.Queue[tuple[Report, bool]] = asyncio.Queue()
        """(report, does it take room)"""
        self._room = Semaphore(_CAPACITY)
        self._positions: dict[int, int] = {}

    def positions(self) -> Mapping[int, int]:
        """Offsets topic partition → next offset after all that was ever put in here."""
        return dict(self._positions)

    async def get(self) -> Report:
        report, takes_room = await self._reports.get()
        if takes_room:
            self._room.release()
        return report

    def put(self, report: Report) -> None:
        """Add a report of our own; they are few and find room always."""
        self._reports.put_nowait((report, False))

    async def fill(self, end: ServingEnd) -> None:
        """Take reports from a collector until it hangs up."""
        ended = asyncio.Event()
        thread = Thread(
            target=self._receive, args=(end, asyncio.get_running_loop(), ended), daemon=True
        )
        thread.start()
        try:
            await ended.wait()
        except asyncio.CancelledError:
            end.hang_up()
            self._room.release()  # it may wait for room that nobody makes any more
            raise

    def _receive(
        self, end: ServingEnd, loop: asyncio.AbstractEventLoop, ended: asyncio.Event
    ) -> None:
        try:
            while (report := end.receive()) is not None:
                self._room.acquire()
                loop.call_soon_threadsafe(self._add, report)
            loop.call_soon_threadsafe(ended.set)
        except RuntimeError:  # the event loop is closed: nobody waits
            return
        finally:
            end.close()

    def _add(self, report: Report) -> None:
        if isinstance(report, Commits):
            self._positions.update(report.positions)
        self._reports.put_nowait((report, True))
