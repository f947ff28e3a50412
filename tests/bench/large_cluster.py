"""A cluster of 200,000 group-partitions on 10,000 topic-partitions, and what watching it costs."""

import contextlib
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from confluent_kafka.admin import AdminClient

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.bench.commit_load import OFFSETS_PARTITIONS, Load, fill, make_topics, write_commits
from tests.bench.usage import cpu_time, rss_bytes
from tests.support.served import Served

LOAD = Load(groups=1000, topics=200, partitions=50, topics_per_group=4)
SWEEPS = 15
WITHOUT_HISTORY = '[history]\nstore = "none"\n'
WITH_HISTORY = '[history]\nstore = "parquet"\n'
READY_WITHIN_S = 240
_TOPICS_WITHIN_S = 300
_FIXED_NUMBERS = 1_000_000
_FIXED_TIMES = 10
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What the service and its collector took while they were watched."""

    cpu_s: float
    wall_s: float
    rss_bytes: int

    @property
    def of_a_core(self) -> float:
        """In per cent."""
        return 100 * self.cpu_s / self.wall_s

    @property
    def per_minute_s(self) -> float:
        """CPU seconds in a minute."""
        return 60 * self.cpu_s / self.wall_s


@contextlib.contextmanager
def large_cluster(messages: int = SWEEPS - 1) -> Iterator[EmbeddedKafka]:
    """The broker with all topics, and full windows of commits up to now.

    With so many `messages` in each partition: by default all of them are read.
    """
    # so many partitions need heap, and more mapped memory than indexes of the usual size leave
    properties = {"log.index.size.max.bytes": "262144", "broker.session.timeout.ms": "30000"}
    with EmbeddedKafka(
        offsets_partitions=OFFSETS_PARTITIONS, heap_mb=1800, properties=properties
    ) as kafka:
        make_topics(kafka, LOAD)
        _wait_for_topics(kafka)
        fill(kafka, LOAD, messages)
        write_commits(kafka, LOAD, sweeps=SWEEPS)
        yield kafka


def _wait_for_topics(kafka: EmbeddedKafka) -> None:
    """The answer to their creation comes before their partitions can be written to."""
    admin = AdminClient(kafka.admin_config())
    wanted = LOAD.topics * LOAD.partitions + OFFSETS_PARTITIONS
    deadline_s = time.monotonic() + _TOPICS_WITHIN_S
    while time.monotonic() < deadline_s:
        topics = admin.list_topics(timeout=60).topics.values()
        led = [each for topic in topics for each in topic.partitions.values() if each.leader >= 0]
        if len(led) >= wanted:
            return
        time.sleep(2)
    raise TimeoutError(f"not all topics are there within {_TOPICS_WITHIN_S} s")


def share(served: Served, seconds: float) -> Share:
    """Watch the service for so long."""
    began_s = time.monotonic()
    with cpu_time(served.pid) as spent:
        time.sleep(seconds)
    groups = Counter(row[1] for row in served.get("/api/v1/fleet")["clusters"][0]["rows"])
    print(f"groups watched: {dict(groups)}", file=sys.stderr)
    return Share(
        cpu_s=spent.seconds,
        wall_s=time.monotonic() - began_s,
        rss_bytes=rss_bytes(served.pid),
    )


def fixed_work_cpu_s() -> float:
    """CPU seconds of a fixed piece of arithmetic: how quick this machine is now."""
    numbers = np.random.default_rng(7).integers(0, 2**40, _FIXED_NUMBERS)
    began_s = time.thread_time()
    for _ in range(_FIXED_TIMES):
        np.sort(numbers)
        np.cumsum(numbers)
        np.flatnonzero(numbers > _FIXED_NUMBERS)
    return time.thread_time() - began_s


@contextlib.contextmanager
def steady(
    kafka: EmbeddedKafka, rate: int, load: str, *, first_offset: int = SWEEPS
) -> Iterator[subprocess.Popen[bytes]]:
    """Commits at a steady rate, from a process of their own; `load`: a module with a `LOAD`.

    Each row commits `first_offset` first, and then one message more each time.
    """
    command = [sys.executable, "-m", "tests.bench.steady_commits", kafka.bootstrap_servers]
    process = subprocess.Popen([*command, str(rate), load, str(first_offset)], cwd=ROOT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
