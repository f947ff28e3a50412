"""Backfill from an offsets topic of which the broker itself has compacted the older half.

The group that commits once keeps a record in the only segment that the cleaner makes of the older
half: no segment is left empty, and lookups by time go on to work. `test_backfill_emptied_segment`
has one where they do not.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from lagwatch.clock import SystemClock
from lagwatch.config import ClusterSettings
from lagwatch.config.history import HistorySettings
from lagwatch.core.record import Kind
from lagwatch.jobs.backfill.replay import ReplaySettings
from lagwatch.jobs.backfill.request import BackfillRequest, ClusterBackfill, From
from lagwatch.jobs.backfill.run import run_backfill
from lagwatch.jobs.run import JobRun
from lagwatch.jobs.stores.registry import open_state
from lagwatch.jobs.tables import StoreRef
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.ranges import plan_ranges, read_range
from lagwatch.ports.history import EVER_MS
from tests.support.copies import INTERVAL_MS, monitor_settings
from tests.support.history import held
from tests.support.kafka import ANSWER_TIMEOUT_S, unique
from tests.support.waiting import eventually
from tests.support.wire import encode_offset_key, encode_offset_value

HOUR_MS = 3_600_000
STEP_MS = 10_000
FROM_MS = (SystemClock().now_ms() // HOUR_MS - 2) * HOUR_MS
"""Brokers take no records from the future."""
LEAD_MS = 120_000
"""Groups commit before the time that is filled."""
GROUPS = {"steady": 0, "behind": 7}
"""Group → messages that it is behind."""
ONCE = "once"
"""A group that never commits again."""
_COMPACTED: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.ms": str(2 * HOUR_MS // 3),
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
}
Rows = Sequence[Mapping[str, Any]]


def make_topic(kafka: EmbeddedKafka, prefix: str, config: Mapping[str, str]) -> str:
    name = unique(prefix)
    admin = AdminClient(kafka.admin_config())
    topic = NewTopic(name, num_partitions=1, replication_factor=1, config=dict(config))
    admin.create_topics([topic], operation_timeout=ANSWER_TIMEOUT_S)[name].result(ANSWER_TIMEOUT_S)
    return name


def hurry_cleaner(kafka: EmbeddedKafka) -> None:
    """It looks for work every 15 s otherwise."""
    entry = ConfigEntry(
        "log.cleaner.backoff.ms", "250", incremental_operation=AlterConfigOpType.SET
    )
    admin = AdminClient(kafka.admin_config())
    brokers = [
        ConfigResource(ConfigResource.Type.BROKER, str(number), incremental_configs=[entry])
        for number in admin.list_topics(timeout=ANSWER_TIMEOUT_S).brokers
    ]
    for altered in admin.incremental_alter_configs(brokers).values():
        altered.result(ANSWER_TIMEOUT_S)


def write_hour(kafka: EmbeddedKafka, orders: str, offsets: Sequence[str]) -> int:
    """A message every ten seconds, and after each a commit of every group; one commits once only.

    Returns the number of commits.
    """
    producer = Producer(kafka.admin_config() | {"linger.ms": 5})
    written = 0

    def commit(group: str, offset: int, at_ms: int) -> None:
        for topic in offsets:
            key, value = encode_offset_key(group, orders, 0), encode_offset_value(offset, at_ms)
            producer.produce(topic, value, key, timestamp=at_ms)

    for number in range((HOUR_MS + LEAD_MS) // STEP_MS):
        at_ms = FROM_MS - LEAD_MS + number * STEP_MS
        producer.produce(orders, b"v", timestamp=at_ms)
        groups = GROUPS if number else {**GROUPS, ONCE: 0}
        for group, behind in groups.items():
            commit(group, max(0, number + 1 - behind), at_ms + 1000)
        written += len(groups)
        if number % 10 == 0:  # segments are rolled between batches
            producer.flush(ANSWER_TIMEOUT_S)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0
    return written


def settings(kafka: EmbeddedKafka, topic: str) -> ClusterSettings:
    return ClusterSettings(bootstrap=(kafka.bootstrap_servers,), offsets_topic=topic)


def records_left(kafka: EmbeddedKafka, topic: str) -> int:
    there = settings(kafka, topic)
    ranges = plan_ranges("here", there, from_ms=0, to_ms=EVER_MS, records_per_range=1_000_000)
    return sum(batch.orders.size for span in ranges for batch in read_range("here", there, span))


def filled(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    topic: str,
    folder: Path,
    *,
    until_ms: int = FROM_MS + HOUR_MS,
) -> tuple[ClusterBackfill, Rows]:
    """What is reported of a backfill of the hour, and its samples."""
    ref = StoreRef(settings=HistorySettings(url=str(folder / topic)))
    request = BackfillRequest(
        source=From.KAFKA,
        clusters={"here": settings(kafka, topic)},
        since_ms=FROM_MS,
        until_ms=until_ms,
        replay=ReplaySettings(monitor=monitor_settings(), interval_ms=INTERVAL_MS, full_every=1),
        shards=2,
    )
    run = JobRun("backfill", open_state(ref.settings))
    done = run_backfill(spark, ref, request, run, now_ms=SystemClock().now_ms())
    store = ref.open()
    rows = held(store, Kind.SAMPLES)
    store.close()
    return done.clusters[0], rows


@pytest.mark.timeout(300)
def test_rows_begin_where_the_broker_has_left_every_commit_and_are_those_of_a_whole_topic(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    hurry_cleaner(kafka)
    orders = make_topic(kafka, "orders", {})
    compacted = make_topic(kafka, "compacted", _COMPACTED)
    whole = make_topic(kafka, "whole", {})
    sent = write_hour(kafka, orders, [compacted, whole])
    eventually(lambda: records_left(kafka, compacted) < sent, "the log cleaner", timeout_s=60)

    result, rows = filled(spark, kafka, compacted, tmp_path)
    of_whole, rows_of_whole = filled(spark, kafka, whole, tmp_path)
    half_ms = FROM_MS + HOUR_MS // 2
    of_half, rows_of_half = filled(spark, kafka, compacted, tmp_path / "half", until_ms=half_ms)

    (complete_from,) = result.complete_from.values()
    assert FROM_MS + HOUR_MS // 2 < complete_from < FROM_MS + 2 * HOUR_MS // 3
    assert of_whole.complete_from == {}
    assert {row["group"] for row in rows_of_whole} == {*GROUPS, ONCE}
    assert len(rows_of_whole) == (len(GROUPS) + 1) * HOUR_MS // INTERVAL_MS
    assert {row["group"] for row in rows} == {*GROUPS, ONCE}
    left_out = sum(row["at_ms"] < complete_from for row in rows_of_whole if row["group"] == ONCE)
    assert result.count("incomplete") == left_out > 0
    assert any(
        "1 partition of the offsets topic lacks records" in line for line in result.not_covered()
    )
    covers = {partial.group: partial for partial in result.partly}
    assert {partial.from_ms for partial in covers.values()} == {complete_from}
    assert [covers[name].single for name in (*GROUPS, ONCE)] == [False, False, True]
    lines = "\n".join(result.lines(dry_run=False))
    assert f"{ONCE}: only its last commit is there, of " in lines
    assert "steady: all commits are there from " in lines
    assert of_whole.partly == ()
    assert of_whole.swallowed == result.swallowed == ()
    # of the time before, compaction has left nothing of those that committed again
    assert {row["group"] for row in rows_of_half} <= {ONCE}
    assert of_half.swallowed == tuple(sorted(GROUPS))
    assert of_half.coverage()["groups_without_commits"] == sorted(GROUPS)
    assert of_half.coverage()["groups_with_missing_commits"] == len(GROUPS) + 1
    assert any("behind, steady" in line for line in of_half.lines(dry_run=False))
    offsets = ("group", "at_ms", "committed_offset", "log_end_offset", "lag", "time_lag_s")
    first_ms = -(-complete_from // INTERVAL_MS) * INTERVAL_MS
    assert seen(rows, 0, offsets) == seen(rows_of_whole, first_ms, offsets)
    # and the verdicts once windows of ten commits are full again
    full_ms = first_ms + 11 * STEP_MS
    assert seen(rows, full_ms) == seen(rows_of_whole, full_ms)


def seen(rows: Rows, from_ms: int, names: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    """These columns, or all, of the rows from an instant on."""
    return [tuple(row[name] for name in names or row) for row in rows if row["at_ms"] >= from_ms]
