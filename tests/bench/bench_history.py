"""History in Parquet: samples written, what recording costs, how long a question takes."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

import numpy as np

from lagwatch import log
from lagwatch.core.model import EpochMs
from lagwatch.core.record import Kind, Records, Text
from lagwatch.core.record.build import OBSERVED
from lagwatch.history.parquet import ParquetStore
from lagwatch.history.reader import HistoryReader
from lagwatch.history.recorder import Recorder, RecorderSettings
from lagwatch.history.spool import Spool
from lagwatch.history.writer import Writer, WriterSettings
from lagwatch.ports.history import HistoryAsk
from tests.bench.bench_evaluate import filled
from tests.bench.figures import Bound, Figure
from tests.support.history import SetClock

START_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000
HOUR_MS = 3_600_000
INTERVAL_MS = 30_000
ROUNDS_PER_HOUR = HOUR_MS // INTERVAL_MS
GROUPS, PARTITIONS = 100, 35
"""Over 24 h at 30 s they make 10 million samples."""
WRITE_TURNS, RECORD_ROUNDS, QUESTIONS = 6, 8, 60
_GROUPS = tuple(f"group-{number:04}" for number in range(GROUPS))


def run() -> Iterator[Figure]:
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as folder:
        yield writing(Path(folder) / "written")
        yield recording(Path(folder) / "recorded")
        yield from reading(Path(folder) / "read")


def writing(folder: Path) -> Figure:
    """Samples of an hour to Parquet, sorting and syncing included, by seconds of CPU."""
    store = ParquetStore(str(folder))
    rates = []
    for turn in range(WRITE_TURNS):
        rows = samples_of_hour(turn)
        started_s = time.process_time()
        store.write([rows], batch=f"b{turn}")
        rates.append(rows.size / (time.process_time() - started_s))
    return Figure(
        name="history_parquet_write",
        value=median(rates[1:]),
        unit="samples/s",
        target=300_000,
        bound=Bound.AT_LEAST,
    )


def recording(folder: Path) -> Figure:
    """100,000 partitions, all of them moving: capture, rows, spool, delivery to Parquet."""
    monitor, now_ms = filled()
    clock = SetClock(now_ms)
    store = ParquetStore(str(folder / "store"))
    spool = Spool(folder / "spool", max_bytes=10**9, spool_id="bench")
    writer = Writer(spool, store, WriterSettings(flush_ms=0, retention_days={}), clock)
    recorder = Recorder(
        spool,
        RecorderSettings(interval_ms=INTERVAL_MS, full_every=1),
        clock,
        appended=lambda: None,
    )
    took_s = []
    for number in range(RECORD_ROUNDS):
        snapshot = monitor.judge(EpochMs(now_ms + number))
        # as if the log ends had just been read, an interval later each time
        at_ms = EpochMs(START_MS + number * INTERVAL_MS)
        moved = replace(snapshot, at_ms=at_ms, data_ms=at_ms)
        started_s = time.process_time()
        recorder.offer(moved, monitor.rebalances)
        recorder.work()
        assert writer.deliver()
        took_s.append(time.process_time() - started_s)
    assert writer.delivered >= RECORD_ROUNDS * 100_000
    return Figure(
        name="history_recording_100k",
        value=median(took_s) / (INTERVAL_MS / 1000) * 100,
        unit="%core",
        target=5,
    )


def reading(folder: Path) -> Iterator[Figure]:
    """One group, and one of its partitions, over 24 h at 30 s out of 10 million samples."""
    store = ParquetStore(str(folder))
    for hour in range(24):
        rounds = [samples_of_hour(hour), group_samples_of_hour(hour)]
        store.write(rounds, batch=f"h{hour:02}")
    reader = HistoryReader(store, interval_ms=INTERVAL_MS, full_ms=600_000)
    ask = HistoryAsk(
        from_ms=START_MS, to_ms=START_MS + 24 * HOUR_MS, step_ms=INTERVAL_MS, limit=10_000
    )

    def group(number: int) -> int:
        page = asyncio.run(reader.group("bench", _GROUPS[number % GROUPS], ask))
        return int(np.count_nonzero(np.asarray(page.columns["samples"])))

    def partition(number: int) -> int:
        of = (number % GROUPS, number % PARTITIONS)
        page = asyncio.run(reader.partition("bench", _GROUPS[of[0]], "orders", of[1], ask))
        return int(np.count_nonzero(np.asarray(page.columns["samples"])))

    yield _p95("history_read_group_24h_p95", group)
    yield _p95("history_read_partition_24h_p95", partition)


def _p95(name: str, question: Callable[[int], int]) -> Figure:
    took_ms = []
    for number in range(QUESTIONS):
        started_s = time.perf_counter()
        points = question(number * 7)
        took_ms.append((time.perf_counter() - started_s) * 1000)
        assert points == 24 * ROUNDS_PER_HOUR
    return Figure(name=name, value=quantiles(took_ms, n=20)[-1], unit="ms", target=300)


def samples_of_hour(hour: int) -> Records:
    """Every partition once in every round of an hour, round by round as they are recorded."""
    rng = np.random.default_rng(hour)
    size = GROUPS * PARTITIONS * ROUNDS_PER_HOUR
    series = np.tile(np.arange(GROUPS * PARTITIONS), ROUNDS_PER_HOUR)
    at_ms = (
        START_MS
        + hour * HOUR_MS
        + np.repeat(np.arange(ROUNDS_PER_HOUR) * INTERVAL_MS, GROUPS * PARTITIONS)
    )
    lag = rng.integers(0, 500, size)
    committed = series * 1_000_000 + (at_ms - START_MS) // 10
    owners = tuple(f"/10.0.{number}.7" for number in range(50))
    return Records(
        kind=Kind.SAMPLES,
        columns={
            "cluster": Text.same("bench", size),
            "group": Text((series // PARTITIONS).astype(np.int32), _GROUPS),
            "topic": Text.same("orders", size),
            "partition": (series % PARTITIONS).astype(np.int32),
            "at_ms": at_ms,
            "observed_ms": at_ms + 700,
            "committed_offset": committed,
            "commit_ms": at_ms - rng.integers(0, 5000, size),
            "log_end_offset": committed + lag,
            "log_start_offset": series * 1000,
            "lag": lag,
            "time_lag_s": np.round(rng.random(size) * 5, 3),
            "time_lag_reason": Text.same("measured", size),
            "status": Text((lag > 480).astype(np.int32), ("OK", "WARN")),
            "rule": Text.same("progressing", size),
            "complete": np.ones(size),
            "group_status": Text.same("OK", size),
            "group_state": Text.same("Stable", size),
            "owner": Text((series % len(owners)).astype(np.int32), owners),
            "client_id": Text((series % len(owners)).astype(np.int32), owners),
            "reason": Text.same("interval", size),
            "method": Text.same(OBSERVED, size),
            "source": Text.same("live", size),
            "schema_version": np.ones(size, np.int32),
        },
    )


def group_samples_of_hour(hour: int) -> Records:
    """Every group once in every round of an hour."""
    rng = np.random.default_rng(hour)
    size = GROUPS * ROUNDS_PER_HOUR
    at_ms = START_MS + hour * HOUR_MS + np.repeat(np.arange(ROUNDS_PER_HOUR) * INTERVAL_MS, GROUPS)
    lag = rng.integers(0, 500, size)
    small = np.full(size, PARTITIONS, np.int32)
    return Records(
        kind=Kind.GROUP_SAMPLES,
        columns={
            "cluster": Text.same("bench", size),
            "group": Text(np.tile(np.arange(GROUPS, dtype=np.int32), ROUNDS_PER_HOUR), _GROUPS),
            "at_ms": at_ms,
            "observed_ms": at_ms + 700,
            "status": Text.same("OK", size),
            "rule": Text.same("progressing", size),
            "state": Text.same("Stable", size),
            "complete": np.ones(size),
            "total_lag": lag * PARTITIONS,
            "max_lag": lag,
            "max_lag_topic": Text.same("orders", size),
            "max_lag_partition": np.zeros(size, np.int32),
            "time_lag_s": rng.random(size),
            "time_lag_reason": Text.same("measured", size),
            "partitions": small,
            "unknown_partitions": np.zeros(size, np.int32),
            "not_ok": np.zeros(size, np.int32),
            "members": small,
            "observed": small,
            "unchanged": np.zeros(size, np.int32),
            "previous_ms": at_ms - INTERVAL_MS,
            "interval_ms": np.full(size, INTERVAL_MS, np.int32),
            "reason": Text.same("interval", size),
            "source": Text.same("live", size),
            "schema_version": np.ones(size, np.int32),
        },
    )
