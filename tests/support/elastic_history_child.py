"""Records and delivers to Elasticsearch until it is killed: URL PREFIX FOLDER ROUNDS.

A line goes to standard output for every round the spool has taken: its instant.
"""

import os
import sys
from pathlib import Path

from lagwatch import log
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from tests.support.elastic_history import open_store, samples
from tests.support.history import NOON_MS, SetClock

INTERVAL_MS = 1000
PARTITIONS = 100


def main(url: str, prefix: str, folder: Path, rounds: int) -> None:
    log.configure(level="error", form="json")
    store = open_store(url, prefix, folder, bulk_bytes=10_000)
    spool = Spool(folder / "spool", max_bytes=100_000_000, spool_id=f"{os.getpid():08x}")
    at_ms = spool.last_round("here") or NOON_MS
    clock = SetClock(at_ms)
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), clock)
    writer.start()
    for _ in range(rounds):
        at_ms += INTERVAL_MS
        spool.append([samples(PARTITIONS, at_ms=at_ms)], series="here")
        clock.ms = at_ms
        os.write(1, f"{at_ms}\n".encode())
        writer.notify()
    writer.stop(60)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
