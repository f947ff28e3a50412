"""Backfill: reading in Spark tasks against the same loop without it; a large day to verdicts.

Reading is from a real broker. The day is 5 million commits and 1.44 million log ends, made up as
Parquet files with the columns of `lagwatch.offsets` and `lagwatch.logends`.
"""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from lagwatch import log
from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.jobs.backfill.filling import Filling
from lagwatch.jobs.backfill.inputs import KafkaInput, Refused
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, From
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.session import start
from lagwatch.jobs.sources.offsets import SCHEMA, offset_batches
from lagwatch.jobs.sources.registry import register
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.ranges import plan_ranges
from lagwatch.ports.history import EVER_MS
from tests.bench.commit_load import OFFSETS_PARTITIONS, Load, make_topics, write_commits
from tests.bench.figures import Bound, Figure
from tests.bench.usage import cpu_time
from tests.support.copies import monitor_settings

START_MS = 1_790_000_000_000 // 86_400_000 * 86_400_000
DAY_S = 86_400
GROUPS, PARTITIONS = 200, 10
TOPICS = 50
"""Each group commits to one topic of ten partitions: 2,000 rows on 500 topic-partitions."""
COMMITS, LOG_ENDS = 5_000_000, 1_440_000
LOAD = Load(groups=500, topics=20, partitions=50, topics_per_group=2)
SWEEPS = 30
"""50,000 rows x 30 = 1.5 M records."""
INTERVAL_S = 30
MEMORY_MB = 2048
HEAP_MB = 1024

Int64 = NDArray[np.int64]


def run() -> Iterator[Figure]:
    log.configure(level="warning")
    with tempfile.TemporaryDirectory() as folder:
        settings = JobsSettings(
            master="local[2]",
            driver_memory_mb=HEAP_MB,
            spark={"spark.sql.shuffle.partitions": "4", "spark.local.dir": f"{folder}/spark"},
        )
        spark = start(settings, name="bench")
        try:
            yield decoding(spark)
            yield from judging(spark, Path(folder))
        finally:
            spark.stop()


# reading and decoding


def decoding(spark: SparkSession) -> Figure:
    """Records of a real offsets topic per second of CPU: in Spark tasks, and in one plain loop."""
    register(spark)
    with EmbeddedKafka(offsets_partitions=OFFSETS_PARTITIONS) as kafka:
        make_topics(kafka, LOAD)
        records = write_commits(kafka, LOAD, sweeps=SWEEPS)
        settings = ClusterSettings.model_validate({"bootstrap": kafka.bootstrap_servers})
        source = KafkaInput(cluster="bench", settings=settings)
        brokers = kafka.pids
        spark_s, bare_s = [], []
        for _ in range(3):
            with cpu_time(os.getpid(), without=brokers) as spent:
                offsets = source.offsets(spark, from_ms=0, to_ms=EVER_MS)
                offsets.write.format("noop").mode("overwrite").save()
            spark_s.append(spent.seconds)
            with cpu_time(os.getpid(), without=brokers) as spent:
                rows = bare_loop(settings)
            bare_s.append(spent.seconds)
            assert rows >= records
    print(
        f"{records:,} records: plain loop {min(bare_s):.2f} CPU s, Spark {min(spark_s):.2f} CPU s "
        f"(first run {spark_s[0]:.2f})",
        file=sys.stderr,
    )
    return Figure(
        name="backfill_decoding_per_core",
        value=min(bare_s) / min(spark_s),
        unit="x",
        target=0.6,
        bound=Bound.AT_LEAST,
    )


def bare_loop(settings: ClusterSettings) -> int:
    """The same ranges through the same reader and decoder, in this process; rows read."""
    ranges = plan_ranges("bench", settings, from_ms=0, to_ms=EVER_MS, records_per_range=1_000_000)
    return sum(
        batch.num_rows for span in ranges for batch in offset_batches("bench", settings, span)
    )


# judging


@dataclass(frozen=True)
class Made:
    """A made-up past in Parquet files, as an `Input`."""

    folder: Path

    def offsets(self, spark: SparkSession, *, from_ms: int, to_ms: int) -> DataFrame:  # noqa: ARG002
        return spark.read.schema(SCHEMA).parquet(f"file://{self.folder}/commits")

    def refused(
        self,
        spark: SparkSession,  # noqa: ARG002
        *,
        from_ms: int,  # noqa: ARG002
        to_ms: int,  # noqa: ARG002
        most: int,  # noqa: ARG002
    ) -> Sequence[Refused]:
        raise AssertionError("all of it can be decoded")

    def log_ends(self, spark: SparkSession, at_ms: Int64, topics: Sequence[str]) -> DataFrame:  # noqa: ARG002
        return spark.read.parquet(f"file://{self.folder}/log_ends")

    def held_back(self) -> Mapping[int, int]:
        return {}

    def unseen(self, topics: Sequence[str]) -> Sequence[str]:  # noqa: ARG002
        return ()


def judging(spark: SparkSession, folder: Path) -> Iterator[Figure]:
    """From commits and log ends to samples in a store."""
    write_day(folder)
    ref = StoreRef(settings=HistorySettings(url=str(folder / "store")))
    request = BackfillRequest(
        source=From.PARQUET,
        since_ms=START_MS,
        until_ms=START_MS + DAY_S * 1000,
        replay=ReplaySettings(
            monitor=monitor_settings(), interval_ms=INTERVAL_S * 1000, full_every=20
        ),
    )
    job = JobRun("backfill", open_state(ref.settings))
    filling = Filling(spark, ref, request, job, now_ms=START_MS, progress=_Said())
    with Peak() as peak:
        started_s = time.perf_counter()
        (done,) = filling.fill("bench", Made(folder))
        took_s = time.perf_counter() - started_s
    rounds = DAY_S // INTERVAL_S
    assert done.count("group_samples") > GROUPS * rounds * 0.99
    assert done.count("samples") > GROUPS * PARTITIONS * rounds * 0.9
    assert done.commits == COMMITS
    print(
        f"{COMMITS:,} commits and {LOG_ENDS:,} log ends to {done.count('samples'):,} samples in "
        f"{took_s:.0f} s; peak {peak.driver_mb:.0f} MB of the driver, {peak.workers_mb:.0f} MB of "
        "its Python workers",
        file=sys.stderr,
    )
    yield Figure(name="backfill_judged_commits", value=COMMITS / took_s, unit="commits/s",
                 target=10_000, bound=Bound.AT_LEAST)  # fmt: skip
    yield Figure(name="backfill_driver_memory", value=peak.driver_mb, unit="MB", target=MEMORY_MB)
    yield Figure(name="backfill_workers_memory", value=peak.workers_mb, unit="MB", target=MEMORY_MB)


class _Said:
    def step(self, what: str) -> None:
        print(f"  {what}", file=sys.stderr)

    def move(self, done: int, total: int) -> None:
        if done == total:
            print(f"  {total} parts", file=sys.stderr)


def write_day(folder: Path) -> None:
    """Commits every 34.56 s or so of each row; log ends every 30 s of each topic-partition."""
    rng = np.random.default_rng(3)
    rows = GROUPS * PARTITIONS
    (folder / "commits").mkdir()
    (folder / "log_ends").mkdir()
    each = COMMITS // 8
    for file in range(8):
        # an eighth of the day, all rows in turn, none of them at quite the same distance
        number = np.arange(each) + file * each
        at_ms = START_MS + (number * (DAY_S * 1000 / COMMITS)).astype(np.int64)
        row = number % rows
        group = row // PARTITIONS
        behind = rng.integers(0, 300, each)
        offset = np.maximum(end_at(at_ms, group % TOPICS, row % PARTITIONS) - behind, 0)
        names = [f"group-{number:04}" for number in range(GROUPS)]
        topics = [f"topic-{number:03}" for number in range(TOPICS)]
        table = pa.table(
            {
                "cluster": pa.repeat("bench", each),
                "offsets_partition": (group % 50).astype(np.int32),
                "order": number,
                "what": pa.repeat("commit", each),
                "group": pa.array(names).take(pa.array(group)),
                "topic": pa.array(topics).take(pa.array(group % TOPICS)),
                "partition": (row % PARTITIONS).astype(np.int32),
                "offset": offset,
                "commit_ms": at_ms,
                "missing_before": np.zeros(each, np.int64),
                "fault": pa.nulls(each, pa.string()),
            }
        )
        pq.write_table(table, folder / "commits" / f"{file}.parquet")
    rounds = LOG_ENDS // (TOPICS * PARTITIONS)
    at_ms = START_MS + np.repeat(np.arange(rounds) * INTERVAL_S * 1000, TOPICS * PARTITIONS)
    topic = np.tile(np.repeat(np.arange(TOPICS), PARTITIONS), rounds)
    partition = np.tile(np.arange(PARTITIONS), TOPICS * rounds)
    table = pa.table(
        {
            "cluster": pa.repeat("bench", at_ms.size),
            "topic": pa.array([f"topic-{number:03}" for number in range(TOPICS)]).take(
                pa.array(topic)
            ),
            "partition": partition.astype(np.int32),
            "at_ms": at_ms,
            "log_end": end_at(at_ms, topic, partition),
            "log_start": np.zeros(at_ms.size, np.int64),
            "method": pa.repeat("offsets_for_times", at_ms.size),
        }
    )
    pq.write_table(table, folder / "log_ends" / "all.parquet")


def end_at(at_ms: Int64, topic: Int64, partition: Int64) -> Int64:
    """Log end of a partition: each is written to at its own rate."""
    ends: Int64 = 1000 + (at_ms - START_MS) // (20 + (topic * 7 + partition) % 60)
    return ends


class Peak:
    """The most memory of this process's JVM, and of all Python processes below it."""

    def __init__(self) -> None:
        self.driver_mb = self.workers_mb = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(0.2):
            driver = workers = 0
            for child in me.children(recursive=True):
                try:
                    size = child.memory_info().rss
                    java = "java" in child.name()
                except psutil.Error:
                    continue
                driver, workers = driver + size * java, workers + size * (not java)
            self.driver_mb = max(self.driver_mb, driver / 1e6)
            self.workers_mb = max(self.workers_mb, workers / 1e6)
