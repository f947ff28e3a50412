"""Backfill from a real broker: transactions that were aborted, groups deleted, topics made anew."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, BackfillResult, From
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.compacted import create
from tests.support.copies import monitor_settings
from tests.support.history import Row, held
from tests.support.kafka import ANSWER_TIMEOUT_S, Transactions, commit, create_topic
from tests.support.waiting import eventually

SECOND_MS = 1000
GROUPS = ("pays", "leaves", "reads")


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


def produce(kafka: EmbeddedKafka, topic: str, number: int) -> None:
    producer = Producer(kafka.admin_config())
    for _ in range(number):
        producer.produce(topic, b"v")
    assert producer.flush(ANSWER_TIMEOUT_S) == 0


def tick() -> int:
    """The next second has begun."""
    next_ms = (SystemClock().now_ms() // SECOND_MS + 1) * SECOND_MS
    eventually(lambda: SystemClock().now_ms() > next_ms, "the next second")
    return next_ms


def filled(
    spark: SparkSession, kafka: EmbeddedKafka, folder: Path, from_ms: int, until_ms: int
) -> tuple[list[Row], list[Row]]:
    """Samples and events."""
    _, samples, events = backfilled(spark, kafka, folder, from_ms, until_ms)
    return samples, events


def backfilled(
    spark: SparkSession, kafka: EmbeddedKafka, folder: Path, from_ms: int, until_ms: int
) -> tuple[BackfillResult, list[Row], list[Row]]:
    """What the job says, samples and events."""
    eventually(lambda: SystemClock().now_ms() > until_ms, "the time to be filled", timeout_s=30)
    ref = StoreRef(settings=HistorySettings(url=str(folder)))
    request = BackfillRequest(
        source=From.KAFKA,
        clusters={"here": ClusterSettings(bootstrap=(kafka.bootstrap_servers,))},
        since_ms=from_ms,
        until_ms=until_ms,
        replay=ReplaySettings(monitor=monitor_settings(), interval_ms=SECOND_MS, full_every=1),
        shards=2,
    )
    run = JobRun("backfill", open_state(ref.settings))
    done = run_backfill(spark, ref, request, run, now_ms=SystemClock().now_ms())
    store = ref.open()
    found = held(store, Kind.SAMPLES), held(store, Kind.EVENTS)
    store.close()
    return done, *found


@pytest.mark.timeout(300)
def test_aborted_commits_deleted_groups_and_topics_made_anew_are_reported_as_they_were(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    admin = AdminClient(kafka.admin_config())
    topic, anew = create_topic(kafka), create_topic(kafka)
    produce(kafka, topic, 10)
    produce(kafka, anew, 8)
    # marks of transactions look like records that compaction took: commits count as complete from
    # the first that repeats one
    commit(kafka, "pays", topic, 1)
    commit(kafka, "pays", topic, 2)
    from_ms = tick()
    transactions = Transactions(kafka)
    commit(kafka, "pays", topic, 3)
    commit(kafka, "leaves", topic, 5)
    commit(kafka, "reads", anew, 6)
    tick()
    transactions.begin("pays", topic, 9)
    transactions.abort()
    tick()
    transactions.begin("pays", topic, 4)
    transactions.commit()
    deleted_ms = tick()
    admin.delete_consumer_groups(["leaves"])["leaves"].result(ANSWER_TIMEOUT_S)
    admin.delete_topics([anew])[anew].result(ANSWER_TIMEOUT_S)
    tick()
    create(kafka, anew, {})
    produce(kafka, anew, 2)
    commit(kafka, "reads", anew, 1)
    made_ms = tick()
    until_ms = made_ms + 3 * SECOND_MS

    samples, events = filled(spark, kafka, tmp_path, from_ms, until_ms)

    by_group = {name: [row for row in samples if row["group"] == name] for name in GROUPS}
    offsets = [row["committed_offset"] for row in by_group["pays"]]
    assert {3, 4} <= set(offsets) <= {2, 3, 4}  # 9 was aborted
    assert offsets == sorted(offsets)
    assert {row["lag"] for row in by_group["pays"] if row["at_ms"] >= deleted_ms} == {6}
    assert max(row["at_ms"] for row in by_group["leaves"]) <= deleted_ms + SECOND_MS
    assert ("group_status", "leaves", "NOTFOUND") in {
        (row["event"], row["group"], row["after"]) for row in events
    }
    # of the topic that is gone Kafka says nothing any more: no lag of it is made up
    assert {row["lag"] for row in by_group["reads"] if row["committed_offset"] == 6} <= {None, 0}
    assert {row["lag"] for row in by_group["reads"] if row["at_ms"] >= made_ms} == {1}


@pytest.mark.timeout(300)
def test_what_an_open_transaction_hides_is_filled_when_it_has_ended(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = create_topic(kafka)
    produce(kafka, topic, 10)
    for offset in (1, 2):
        commit(kafka, "neighbour", topic, offset)
    from_ms = tick()
    commit(kafka, "neighbour", topic, 3)
    tick()
    transactions = Transactions(kafka)
    # the group's commits are in the partition of the offsets topic that all its commits are in
    transactions.begin("neighbour", topic, 9)
    opened_ms = tick()
    commit(kafka, "neighbour", topic, 7)
    until_ms = tick() + 2 * SECOND_MS

    done, hidden, _ = backfilled(spark, kafka, tmp_path, from_ms, until_ms)
    transactions.abort()
    _, whole, _ = backfilled(spark, kafka, tmp_path, from_ms, until_ms)

    assert hidden
    assert max(row["at_ms"] for row in hidden) <= opened_ms
    assert {row["committed_offset"] for row in hidden if row["group"] == "neighbour"} <= {2, 3}
    assert any("a transaction has been open since then" in line for line in done.lines())
    last = max((row for row in whole if row["group"] == "neighbour"), key=lambda row: row["at_ms"])
    assert (last["at_ms"], last["committed_offset"]) == (until_ms - SECOND_MS, 7)


@pytest.mark.timeout(300)
def test_messages_that_were_deleted_since_were_there_to_be_read(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = create_topic(kafka)
    from_ms = until_ms = tick()
    for offset in range(1, 6):
        produce(kafka, topic, 1)
        commit(kafka, "fresh", topic, offset)
        until_ms = tick()
    admin = AdminClient(kafka.admin_config())
    deleted = TopicPartition(topic, 0, 4)
    admin.delete_records([deleted])[deleted].result(ANSWER_TIMEOUT_S)

    samples, events = filled(spark, kafka, tmp_path, from_ms, until_ms)

    fresh = [row for row in samples if row["group"] == "fresh"]
    assert fresh
    assert {row["log_start_offset"] for row in fresh} == {None}
    assert "ERR" not in {row["status"] for row in fresh}
    assert not [row for row in events if row["event"] == "lost"]
