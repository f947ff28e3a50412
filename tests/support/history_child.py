"""Records, delivers and compacts as fast as it can until it is killed: `history_child.py FOLDER`.

A line goes to standard output for every round the spool has taken: `at_ms rows`.
"""

import os
import sys
import threading
from pathlib import Path

from lagwatch import log
from lagwatch.core.record import KINDS
from lagwatch.history.compact import compact_slot
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.recorder import Recorder, RecorderSettings, series_of
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from tests.support.history import NOON_MS, Live, SetClock

INTERVAL_MS = 1000
GROUPS, PARTITIONS = 3, 20
_NEVER = threading.Event()


def main(folder: Path, rounds: int) -> None:
    log.configure(level="warning", form="json")
    store = ParquetStore(str(folder / "store"))
    spool = Spool(folder / "spool", max_bytes=100_000_000, spool_id=f"{os.getpid():08x}")
    last_ms = spool.last_round(series_of("here")) or NOON_MS
    clock = SetClock(last_ms)
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), clock)
    recorder = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        clock,
        appended=writer.notify,
    )
    writer.start()
    threading.Thread(target=_compact, args=(store,), daemon=True).start()
    live = _live(last_ms)
    for _ in range(rounds):
        live.wait(INTERVAL_MS / 1000)
        clock.ms = live.now_ms
        before = recorder.counts.rounds
        live.shown_to(recorder)
        if recorder.counts.rounds > before:
            note = f"{live.now_ms // INTERVAL_MS * INTERVAL_MS} {GROUPS * PARTITIONS}\n"
            os.write(1, note.encode())
    writer.stop(60)


def _live(now_ms: int) -> Live:
    live = Live(now_ms=now_ms)
    live.topics(orders=PARTITIONS)
    live.wait(0.01)
    live.commit(
        *(
            (f"g{group}", "orders", partition, 90)
            for group in range(GROUPS)
            for partition in range(PARTITIONS)
        )
    )
    live.wait(0.01)
    return live


def _compact(store: ParquetStore) -> None:
    while True:
        for kind in KINDS:
            for cluster in store.clusters_of(kind):
                for slot in store.stored_slots(kind, cluster):
                    compact_slot(store, slot)
        _NEVER.wait(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
