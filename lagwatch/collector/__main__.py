"""Entry point of the collector process: `python -m lagwatch.collector DESCRIPTOR`.

Started by the supervisor, with one end of a socket pair as DESCRIPTOR. It ends when the serving
process ends, for whatever reason.
"""

import asyncio
import gc
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Final

import structlog
import uvloop

from lagwatch.clock import SystemClock
from lagwatch.collector.child import run
from lagwatch.collector.link import REFUSED_CONFIGURATION, CollectorEnd
from lagwatch.errors import SourceError
from lagwatch.log import configure
from lagwatch.memory import give_back, keep_little
from lagwatch.ports.reports import Backlog, Report

_THREADS: Final = 16
"""Every poller may wait for Kafka at the same time."""


def main() -> None:
    """Take the assignment and collect until the serving process hangs up."""
    end = CollectorEnd(int(sys.argv[1]))
    try:
        assignment = end.assignment()
    except (EOFError, OSError):
        return
    configure(level=assignment.log_level, form="json")
    # records come and go by ten thousands and hold no cycles: looking for some took a third of
    # the reader's CPU
    keep_little()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    structlog.contextvars.bind_contextvars(cluster=assignment.cluster)
    Thread(target=_end_with_parent, args=(end,), daemon=True).start()

    async def collect() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka"))
        loop.add_signal_handler(signal.SIGTERM, _leave)
        await run(assignment, clock=SystemClock(), send=_Sender(end))

    try:
        # asyncio's own loop takes twice the time for the same looks and answers
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(collect())
    except SourceError:
        sys.exit(REFUSED_CONFIGURATION)


class _Sender:
    """Sends one report after the other, in the order asked, without blocking the event loop."""

    def __init__(self, end: CollectorEnd) -> None:
        self._end = end
        self._turn = asyncio.Lock()

    async def __call__(self, report: Report) -> None:
        # two threads writing to the pipe would mix their reports
        async with self._turn:
            try:
                await asyncio.to_thread(self._end.send, report)
            except OSError:
                _leave()
        if isinstance(report, Backlog) and report.ready:
            give_back()


def _end_with_parent(end: CollectorEnd) -> None:
    end.wait_for_end()
    _leave()


def _leave() -> None:
    """Exit at once: there is nothing to save, and closing clients can take seconds."""
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
