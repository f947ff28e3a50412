"""Lookups by time where the broker's cleaner has emptied a segment, or where a leader hangs."""

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_end_grid import log_ends_at
from lagwatch.kafka.offsets_at import KafkaOffsetsAt
from lagwatch.kafka.ranges import OffsetRange, plan_ranges, read_range
from lagwatch.ports.history import EVER_MS
from tests.support.compacted import (
    COMMITS,
    EAGER_CLEANER,
    PARTITIONS,
    Committed,
    by_time,
    commit_until_cleaned,
    write_until_cleaned,
    write_until_thinned,
)
from tests.support.kafka import ANSWER_TIMEOUT_S, create_topic, produce

MINUTE_MS: Final = 60_000
MANY: Final = 1_000_000


@pytest.fixture(scope="module")
def cleaned_kafka() -> Iterator[EmbeddedKafka]:
    """A broker whose cleaner starts as soon as a segment is full."""
    with EmbeddedKafka(properties=EAGER_CLEANER) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def committed(cleaned_kafka: EmbeddedKafka) -> Committed:
    """Commits of which the cleaner has removed the older ones."""
    return commit_until_cleaned(cleaned_kafka)


def cluster(kafka: EmbeddedKafka) -> ClusterSettings:
    return ClusterSettings(bootstrap=tuple(kafka.bootstrap_servers.split(",")))


def planned(
    kafka: EmbeddedKafka, from_ms: int, to_ms: int, *, most: int = MANY
) -> list[OffsetRange]:
    return plan_ranges("here", cluster(kafka), from_ms=from_ms, to_ms=to_ms, records_per_range=most)


def records(kafka: EmbeddedKafka, ranges: Sequence[OffsetRange]) -> list[tuple[int, int, int]]:
    """Partition, offset and time of each record."""
    return [
        (wanted.partition, order, batch.stamp(row))
        for wanted in ranges
        for batch in read_range("here", cluster(kafka), wanted)
        for row, order in enumerate(batch.orders.tolist())
    ]


@pytest.mark.parametrize("share", [-1.0, 0.0, 0.25, 0.5, 0.9, 0.99, 1.0])
def test_no_record_of_a_time_is_skipped_where_the_time_index_is_unusable(
    cleaned_kafka: EmbeddedKafka, committed: Committed, share: float
) -> None:
    from_ms = committed.from_ms + round(share * (committed.to_ms - committed.from_ms))

    found = records(cleaned_kafka, planned(cleaned_kafka, from_ms, EVER_MS))

    # read afterwards: the cleaner goes on removing records, and it only removes
    everything = records(cleaned_kafka, planned(cleaned_kafka, 0, EVER_MS))
    assert 0 < len(everything) < COMMITS * PARTITIONS
    of_time = [record for record in everything if record[2] >= from_ms]
    # of the last hundredth the cleaner may have removed everything by now
    assert of_time or share >= 0.99
    assert not set(of_time) - set(found)


def test_sparse_offsets_are_one_range_and_the_records_after_them_are_shared_out(
    cleaned_kafka: EmbeddedKafka, committed: Committed
) -> None:
    # the two lookups are far enough apart for the precision of the border
    from_ms = committed.from_ms - 60 * MINUTE_MS

    ranges = planned(cleaned_kafka, from_ms, EVER_MS, most=500)

    assert ranges[0].start == 0
    assert ranges[-1].end == COMMITS * PARTITIONS
    assert all(before.end == after.start for before, after in pairwise(ranges))
    assert all(piece.end - piece.start <= 500 for piece in ranges[1:])


def test_an_end_in_the_unusable_time_is_the_end_of_the_log(
    cleaned_kafka: EmbeddedKafka, committed: Committed
) -> None:
    to_ms = committed.from_ms - 2 * MINUTE_MS

    ranges = planned(cleaned_kafka, committed.from_ms - 3 * MINUTE_MS, to_ms)

    assert ranges[-1].end == COMMITS * PARTITIONS


def no_longer_compacted(kafka: EmbeddedKafka, topic: str) -> None:
    admin = AdminClient(kafka.admin_config())
    policy = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[policy])
    (done,) = admin.incremental_alter_configs([wanted]).values()
    done.result(ANSWER_TIMEOUT_S)


def test_past_log_ends_of_a_compacted_topic_are_unknown(cleaned_kafka: EmbeddedKafka) -> None:
    """The broker names the next record that is left, which may be far behind the log end."""
    first_ms = SystemClock().now_ms() // MINUTE_MS * MINUTE_MS - 60 * MINUTE_MS
    times = [first_ms + number * 10_000 for number in range(280)]
    topic = write_until_thinned(cleaned_kafka, times, b"x" * 10_000)
    at_ms = np.arange(first_ms, first_ms + 55 * MINUTE_MS, MINUTE_MS)

    grid = log_ends_at("here", cluster(cleaned_kafka), [(topic, 0)], at_ms)

    answers = np.array([by_time(cleaned_kafka, topic, at) for at in at_ms.tolist()])
    true = np.searchsorted(times, at_ms)
    younger = at_ms > times[-1]
    assert (answers[~younger] > true[~younger]).any()
    assert grid.log_end[0].tolist() == np.where(younger, true, -1).tolist()
    assert grid.compacted[0].tolist() == (~younger).tolist()


def test_log_ends_are_unknown_where_the_index_is_unusable(cleaned_kafka: EmbeddedKafka) -> None:
    """The topic was compacted once, which its configuration does not say any more."""
    first_ms = SystemClock().now_ms() // MINUTE_MS * MINUTE_MS - 60 * MINUTE_MS
    times = [first_ms + number * 10_000 for number in range(280)]
    topic = write_until_cleaned(cleaned_kafka, times, b"x" * 10_000)
    no_longer_compacted(cleaned_kafka, topic)
    at_ms = np.arange(first_ms, first_ms + 55 * MINUTE_MS, MINUTE_MS)

    grid = log_ends_at("here", cluster(cleaned_kafka), [(topic, 0)], at_ms)

    answers = np.array([by_time(cleaned_kafka, topic, at) for at in at_ms.tolist()])
    younger = at_ms > times[-1]
    assert (answers[~younger] < 0).any()
    expected = np.where(younger, len(times), answers)
    assert grid.log_end[0].tolist() == expected.tolist()
    assert grid.after_newest[0].tolist() == younger.tolist()
    assert grid.compacted[0].tolist() == (expected < 0).tolist()


def test_a_leader_that_hangs_is_no_answer_and_is_reported(three_brokers: EmbeddedKafka) -> None:
    topic = create_topic(three_brokers, partitions=6, replicas=1)
    places = [(topic, partition) for partition in range(6)]
    for _, partition in places:
        produce(three_brokers, topic, 1, partition=partition)
    clients = KafkaClients("here", cluster(three_brokers), SystemClock())

    hung: list[int] = []

    async def ask() -> None:
        # makes the client know the leaders, which a slow machine may have shared out unevenly
        listed = await KafkaTopics(clients).list_topics()
        first = int(listed.partitions[: listed.names.index(topic)].sum())
        hung.append(three_brokers.pids[int(listed.leader[first]) - 1])
        os.kill(hung[0], signal.SIGSTOP)
        await KafkaOffsetsAt(clients, timeout_s=1.0).ask(places, np.zeros(6, np.int64))

    try:
        # the leader may also be the broker that is asked for the topics between two attempts
        with pytest.raises(SourceError, match=r"asking for offsets of \d partition|listing topics"):
            asyncio.run(ask())
    finally:
        os.kill(hung[0], signal.SIGCONT)
