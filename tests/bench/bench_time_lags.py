"""Append times of 10,000 lagging group-partitions, found by ListOffsets alone: each its own offset.

Five groups on 2,000 partitions: a broker on a small machine does not survive writes to 10,000.
"""

import asyncio
import sys
import time
from collections.abc import Iterator

import numpy as np
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.core.model import EpochMs
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.record_times import KafkaRecordTimes
from lagwatch.pollers.known import KeyRows, LastOffsets
from lagwatch.pollers.loop import EndsRound, PartitionEnds
from lagwatch.pollers.record_times import RecordTimePoller
from lagwatch.ports.kafka import TopicListing
from lagwatch.ports.reports import AppendTimes, Commits, Report
from tests.bench.figures import Bound, Figure

_TOPICS, _PARTITIONS, _GROUPS, _RECORDS = 20, 100, 5, 20
_SPAN_MS = 3_600_000


def run() -> Iterator[Figure]:
    names = tuple(f"late-{number:02}" for number in range(_TOPICS))
    with EmbeddedKafka() as kafka:
        admin = AdminClient(kafka.admin_config())
        for name in names:  # Kafka refuses more partitions than 10,000 in one request
            new = NewTopic(name, _PARTITIONS, 1, config={"retention.ms": "-1"})
            admin.create_topics([new], operation_timeout=60)[name].result(timeout=120)
        times_ms = _write(kafka, names)
        settings = ClusterSettings(bootstrap=[kafka.bootstrap_servers])
        clients = KafkaClients("bench", settings, SystemClock())
        wall_s, cpu_s, found, report = asyncio.run(_search(clients, names))
    right = 0
    if report is not None:
        truth_ms = times_ms[report.key // _GROUPS, report.offset]
        right = int(((report.low_ms <= truth_ms) & (truth_ms <= report.high_ms)).sum())
    rows = _TOPICS * _PARTITIONS * _GROUPS
    print(f"{found} of {rows} found, {right} enclose the truth", file=sys.stderr)
    yield Figure(name="time_lags_10k_partitions", value=wall_s, unit="s", target=10)
    yield Figure(name="time_lags_collector_cpu", value=cpu_s, unit="s", target=6)
    yield Figure(
        name="time_lags_right", value=right / rows, unit="share", target=1, bound=Bound.AT_LEAST
    )


def _write(kafka: EmbeddedKafka, names: tuple[str, ...]) -> np.ndarray:
    """Records of the last hour, at random times that rise; returns the times by key and offset."""
    rng = np.random.default_rng(3)
    size = (_TOPICS * _PARTITIONS, _RECORDS)
    times_ms = SystemClock().now_ms() - np.sort(rng.integers(0, _SPAN_MS, size), axis=1)[:, ::-1]
    producer = Producer(
        kafka.admin_config()
        | {
            "linger.ms": 100,
            "queue.buffering.max.messages": 400_000,
            # a busy broker may take a while until it knows new topics
            "topic.metadata.propagation.max.ms": 120_000,
        }
    )
    for place in range(_RECORDS):
        for key in range(size[0]):
            producer.produce(
                names[key // _PARTITIONS],
                b"value",
                partition=key % _PARTITIONS,
                timestamp=int(times_ms[key, place]),
            )
        producer.flush(120)
    return times_ms


async def _search(
    clients: KafkaClients, names: tuple[str, ...]
) -> tuple[float, float, int, AppendTimes | None]:
    """Wall and CPU seconds, how many were found, and the report."""
    reports: list[Report] = []

    async def keep(report: Report) -> None:
        reports.append(report)

    partitions, last = _TOPICS * _PARTITIONS, LastOffsets()
    rows = partitions * _GROUPS
    places = [
        (name, partition)
        for name in names
        for partition in range(_PARTITIONS)
        for _ in range(_GROUPS)
    ]
    rng = np.random.default_rng(4)
    offset = np.argsort(rng.random((partitions, _RECORDS)), axis=1)[:, :_GROUPS].ravel()
    last.note(
        Commits(
            first_new_id=0,
            new_groups=("g",) * rows,
            new_topics=tuple(name for name, _ in places),
            new_partitions=tuple(partition for _, partition in places),
            key=np.arange(rows, dtype=np.int32),
            offset=offset,
            commit_ms=np.zeros(rows, np.int64),
            order=np.zeros(rows, np.int64),
            observed_ms=EpochMs(0),
        )
    )
    clock = SystemClock()
    poller = RecordTimePoller(
        KafkaRecordTimes(clients), last=last, rows=KeyRows(last), clock=clock, send=keep
    )
    ends = np.full(partitions, _RECORDS, np.int64)
    poller.note(
        EndsRound(
            version=1,
            topics=TopicListing(
                names=names,
                partitions=np.full(_TOPICS, _PARTITIONS, np.int32),
                leader=np.ones(partitions, np.int32),
            ),
            ends=PartitionEnds(started_ms=clock.now_ms(), log_end=ends, last_stable=ends),
            offsets_topic=None,
        )
    )
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await poller.poll_once()
    wall_s, cpu_s = time.perf_counter() - began_s, time.process_time() - began_cpu_s
    found = [each for each in reports if isinstance(each, AppendTimes)]
    return wall_s, cpu_s, sum(each.key.size for each in found), found[0] if found else None
