"""The offsets topic of a real broker as a Spark table."""

import json
import time
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.jobs.faults import original_error
from lagwatch.jobs.sources.options import cluster_options
from lagwatch.jobs.sources.registry import register
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, produce, unique
from tests.support.wire import encode_group_key, encode_offset_key, encode_offset_value

Record = tuple[bytes | None, bytes | None, int]
"""Key, value, time."""


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def settings(kafka: EmbeddedKafka, **options: Any) -> ClusterSettings:  # noqa: ANN401
    return ClusterSettings.model_validate({"bootstrap": kafka.bootstrap_servers, **options})


def table(spark: SparkSession, chosen: ClusterSettings, **options: object) -> DataFrame:
    given = {**cluster_options("here", chosen), **{k: str(v) for k, v in options.items()}}
    return spark.read.format("lagwatch.offsets").options(**given).load()


def copy_of_offsets_topic(
    kafka: EmbeddedKafka, records: Sequence[Record], *, partitions: int = 1, **config: str
) -> str:
    """A topic with these records in its partition 0."""
    name = unique("offsets-copy")
    admin = AdminClient(kafka.admin_config())
    # the records are of 1970: the default retention would delete them while the test reads
    topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1", **config})
    made = admin.create_topics([topic])
    made[name].result(ANSWER_TIMEOUT_S)
    append(kafka, name, records)
    return name


def append(kafka: EmbeddedKafka, topic: str, records: Sequence[Record]) -> None:
    producer = Producer(kafka.admin_config() | {"linger.ms": 5})
    for key, value, at_ms in records:
        producer.produce(topic, value, key, partition=0, timestamp=at_ms)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0


def committed(number: int, at_ms: int, *, group: str = "billing") -> Record:
    return encode_offset_key(group, "orders", number % 3), encode_offset_value(number, at_ms), at_ms


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["order"])


def test_commits_of_a_consumer_are_read_from_the_real_offsets_topic(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic, group = create_topic(kafka, partitions=2), unique("group")
    produce(kafka, topic, 5)
    before_ms = time.time_ns() // 1_000_000
    for offset in (1, 3):
        commit(kafka, group, topic, offset)
    commit(kafka, group, topic, 7, partition=1)

    found = table(spark, settings(kafka, group_allow=f"^{group}$"), from_ms=before_ms)

    commits = rows(found.where("what = 'commit'"))
    assert [(row["partition"], row["offset"]) for row in commits] == [(0, 1), (0, 3), (1, 7)]
    assert {(row["cluster"], row["group"], row["topic"]) for row in commits} == {
        ("here", group, topic)
    }
    assert all(before_ms <= row["commit_ms"] <= before_ms + 60_000 for row in commits)
    assert len({row["offsets_partition"] for row in commits}) == 1


def test_a_partition_is_read_by_several_tasks_and_nothing_is_lost_between_them(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    name = copy_of_offsets_topic(kafka, [committed(number, 1000 + number) for number in range(25)])

    found = table(spark, settings(kafka, offsets_topic=name), records_per_task=10)

    assert found.rdd.getNumPartitions() == 3
    commits = rows(found.where("what = 'commit'"))
    assert (
        [row["offset"] for row in commits] == [row["order"] for row in commits] == list(range(25))
    )
    assert {row["missing_before"] for row in rows(found)} == {0}
    assert [row["order"] for row in rows(found.where("what = 'end'"))] == [8, 16, 25]


def test_the_range_of_time_is_looked_up_and_not_read_through(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    records = [committed(number, 1_000_000 + number * 1000) for number in range(100)]
    name = copy_of_offsets_topic(kafka, records)
    chosen = settings(kafka, offsets_topic=name)

    late = table(spark, chosen, from_ms=1_090_000)
    filtered = table(spark, chosen, pushdown="true").where(
        "commit_ms >= 1095000 and commit_ms < 1098000"
    )
    nothing = table(spark, chosen, from_ms=2_000_000)
    empty = table(spark, chosen, from_ms=5, to_ms=5)

    # the record before tells whether others just before the time are gone
    assert [row["order"] for row in rows(late.where("what = 'commit'"))] == list(range(89, 100))
    assert [row["order"] for row in rows(filtered)] == [95, 96, 97]
    assert [row["order"] for row in rows(nothing.where("what = 'commit'"))] == [99]
    assert rows(empty) == []


def test_tombstones_and_deleted_groups_are_reported_with_the_time_of_their_records(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    gone, changed = unique("gone"), unique("changed")
    name = copy_of_offsets_topic(
        kafka,
        [
            committed(5, 1000, group=gone),
            (encode_offset_key(gone, "orders", 2), None, 2000),
            (encode_group_key(gone), None, 3000),
            (encode_group_key(changed), None, 4000),
            # epoch 7 of the same group in the other protocol
            (b"\x00\x03" + encode_group_key(changed)[2:], bytes([0, 0, 0, 0, 0, 7, 0]), 4000),
        ],
    )

    found = rows(table(spark, settings(kafka, offsets_topic=name)))

    read = [(row["what"], row["group"], row["offset"], row["commit_ms"]) for row in found]
    assert read == [
        ("commit", gone, 5, 1000),
        ("removed", gone, None, 2000),
        ("gone", gone, None, 3000),
        ("end", None, None, None),
    ]


def test_records_that_cannot_be_decoded_are_counted_and_kept_with_their_bytes(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    key, value, _ = committed(1, 1000)
    bad = [(b"\x00\x01\x00", b"x", 1001), (key, b"\x00\x63", 1002), (None, b"no key", 1003)]
    name = copy_of_offsets_topic(kafka, [(key, value, 1000), *bad, committed(2, 1004)])
    chosen = settings(kafka, offsets_topic=name)

    found = rows(table(spark, chosen))
    kept = rows(table(spark, chosen, quarantine=True))

    assert [(row["what"], row["fault"]) for row in found] == [
        ("commit", None),
        ("malformed", "key_underflow"),
        ("malformed", "unsupported_value_version"),
        ("malformed", "key_missing"),
        ("commit", None),
        ("end", None),
    ]
    assert [(row["order"], row["fault"]) for row in kept] == [
        (row["order"], row["fault"]) for row in found if row["what"] == "malformed"
    ]
    assert [(row["key"], row["value"]) for row in kept] == [(k, v) for k, v, _ in bad]


def test_records_that_are_gone_are_counted_where_they_were(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    name = copy_of_offsets_topic(kafka, [committed(number, 1000) for number in range(10)])
    producer = Producer(kafka.admin_config() | {"transactional.id": unique("tx")})
    producer.init_transactions()
    for numbers in ((10, 11), (12,)):
        producer.begin_transaction()
        for number in numbers:
            key, value, _ = committed(number, 1000)
            producer.produce(name, value, key, partition=0)
        producer.commit_transaction()  # its mark takes an offset
    admin = AdminClient(kafka.admin_config())
    for future in admin.delete_records([TopicPartition(name, 0, 4)]).values():
        future.result(ANSWER_TIMEOUT_S)

    found = rows(table(spark, settings(kafka, offsets_topic=name)))

    missing = {(row["what"], row["order"]): row["missing_before"] for row in found}
    assert missing == {
        **{("commit", order): 0 for order in (*range(4, 12), 13)},
        ("commit", 13): 1,
        ("end", 15): 1,
    }


def test_no_offsets_topic_is_an_empty_table(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    found = table(spark, settings(kafka, offsets_topic=unique("nobody-committed")))

    assert found.count() == 0
    assert "commit_ms" in found.columns


def test_only_the_columns_asked_for_are_made(spark: SparkSession, kafka: EmbeddedKafka) -> None:
    name = copy_of_offsets_topic(kafka, [committed(3, 1000)])

    found = table(
        spark, settings(kafka, offsets_topic=name), columns=json.dumps(["order", "offset"])
    )

    assert found.columns == ["order", "offset"]
    assert [tuple(row) for row in found.collect()] == [(0, 3), (1, None)]


def test_a_missing_right_is_reported_with_its_acl_and_without_the_password(
    spark: SparkSession, secure_kafka: EmbeddedKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    name = unique("offsets-copy")
    admin = AdminClient(secure_kafka.admin_config())
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(ANSWER_TIMEOUT_S)
    chosen = settings(
        secure_kafka,
        offsets_topic=name,
        tls={"enabled": True, "ca_file": str(secure_kafka.ca_file)},
        sasl={"mechanism": "SCRAM-SHA-512", "username": "alice", "password": "alice-secret"},
    )
    binding = AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([binding]).values():
        future.result(ANSWER_TIMEOUT_S)
    frame = table(spark, chosen)

    with pytest.raises(PySparkException) as failed:
        frame.count()

    error = original_error(failed.value)
    assert isinstance(error, SourceError)
    assert str(error) == f"{name} may not be read; grant: Allow READ on TOPIC {name}"
    frame.explain(mode="extended")
    shown = capsys.readouterr().out
    assert "lagwatch.offsets" in shown
    assert "alice-secret" not in shown + str(failed.value)
