"""Showing how far the shards have come while Spark works."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from lagwatch.errors import HistoryError, JobError
from lagwatch.jobs.backfill.plan import Plan, Plans
from lagwatch.jobs.backfill.request import Progress

_LOOK_EVERY_S: Final = 1.0


@contextlib.contextmanager
def watched(plans: Plans, plan: Plan, progress: Progress, *, total: int) -> Iterator[None]:
    """Show how many parts the ledgers list while the block runs; `total` is an estimate."""
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(_LOOK_EVERY_S):
            with contextlib.suppress(HistoryError, JobError):  # only shows
                done = sum(ledger.parts for ledger in plans.ledgers(plan))
                progress.move(min(done, total), total)

    watcher = threading.Thread(target=look, name="backfill-progress", daemon=True)
    watcher.start()
    try:
        yield
        progress.move(total, total)
    finally:
        stop.set()
        watcher.join()
