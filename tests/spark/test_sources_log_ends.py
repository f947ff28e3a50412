"""Log ends of the past of a real broker as a Spark table."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from lagwatch.config import ClusterSettings
from lagwatch.jobs.sources.options import cluster_options
from lagwatch.jobs.sources.registry import register
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_end_grid import visible_topics
from tests.support.kafka import ANSWER_TIMEOUT_S, create_topic, unique

START_MS = 1_790_000_040_000
MINUTE_MS = 60_000


@pytest.fixture(scope="module", autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def produce_at(kafka: EmbeddedKafka, topic: str, times: Sequence[int], partition: int = 0) -> None:
    """One record at each of these minutes."""
    producer = Producer(kafka.admin_config() | {"linger.ms": 5})
    for minute in times:
        at_ms = START_MS + minute * MINUTE_MS
        producer.produce(topic, b"x", partition=partition, timestamp=at_ms)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0


def table(
    spark: SparkSession,
    kafka: EmbeddedKafka,
    topics: Sequence[str],
    *,
    minutes: int,
    **options: Any,  # noqa: ANN401
) -> DataFrame:
    settings = ClusterSettings.model_validate({"bootstrap": kafka.bootstrap_servers})
    given = {
        **cluster_options("here", settings),
        "from_ms": str(START_MS),
        "to_ms": str(START_MS + minutes * MINUTE_MS),
        "step_ms": str(MINUTE_MS),
        "topics": json.dumps(topics),
        **{name: str(value) for name, value in options.items()},
    }
    return spark.read.format("lagwatch.logends").options(**given).load()


def ends(frame: DataFrame, partition: int = 0) -> list[tuple[int, int | None, str]]:
    """Minute, log end, method."""
    return sorted(
        ((row["at_ms"] - START_MS) // MINUTE_MS, row["log_end"], row["method"])
        for row in frame.collect()
        if row["partition"] == partition
    )


def test_a_log_end_is_the_offset_of_the_first_record_that_is_not_older(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = create_topic(kafka, partitions=2)
    # busy, idle for long, busy again; the other partition is empty
    times = [0, 1, 1, 2, 50, 50, 51]
    produce_at(kafka, topic, times)

    found = table(spark, kafka, [topic], minutes=60)

    assert ends(found) == [
        (
            minute,
            sum(1 for each in times if each < minute),
            "offsets_for_times" if minute <= 51 else "latest",
        )
        for minute in range(60)
    ]
    assert {(end, method) for _, end, method in ends(found, 1)} == {(0, "latest")}
    assert found.where("log_start <> 0 or cluster <> 'here'").count() == 0


def test_a_log_end_is_unknown_where_the_records_of_its_time_are_deleted(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic, emptied = create_topic(kafka), create_topic(kafka)
    for each in (topic, emptied):
        produce_at(kafka, each, range(10))
    admin = AdminClient(kafka.admin_config())
    cut = [TopicPartition(topic, 0, 4), TopicPartition(emptied, 0, 10)]
    for future in admin.delete_records(cut).values():
        future.result(ANSWER_TIMEOUT_S)

    found = table(spark, kafka, [topic, emptied], minutes=12)

    of_topic = ends(found.where(f"topic = '{topic}'"))
    # at the very minute of the first record left, all before it are known to be older
    assert [end for _, end, _ in of_topic] == [None] * 4 + [4, 5, 6, 7, 8, 9, 10, 10]
    assert {method for _, end, method in of_topic if end is None} == {"retention"}
    of_emptied = ends(found.where(f"topic = '{emptied}'"))
    assert {(end, method) for _, end, method in of_emptied} == {(None, "retention")}


def test_many_partitions_are_shared_out_among_tasks(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic = create_topic(kafka, partitions=5)
    for partition in range(5):
        produce_at(kafka, topic, range(partition, 30, partition + 1), partition)

    found = table(spark, kafka, [topic], minutes=30, cells_per_task=60)

    assert found.rdd.getNumPartitions() == 3
    for partition in range(5):
        expected = [
            len([number for number in range(partition, 30, partition + 1) if number < minute])
            for minute in range(30)
        ]
        assert [end for _, end, _ in ends(found, partition)] == expected


def test_topics_that_are_gone_have_no_rows_and_are_named(
    spark: SparkSession, kafka: EmbeddedKafka
) -> None:
    topic, deleted = create_topic(kafka), create_topic(kafka)
    admin = AdminClient(kafka.admin_config())
    admin.delete_topics([deleted])[deleted].result(ANSWER_TIMEOUT_S)

    found = table(spark, kafka, [topic, deleted], minutes=2)
    empty = table(spark, kafka, [deleted], minutes=2)
    no_time = table(spark, kafka, [topic], minutes=0)

    assert {row["topic"] for row in found.collect()} == {topic}
    assert empty.count() == no_time.count() == 0
    settings = ClusterSettings.model_validate({"bootstrap": kafka.bootstrap_servers})
    seen = visible_topics("here", settings, [topic, deleted])
    assert seen.partitions[topic] == 1
    assert seen.sentences() == [f"topic {deleted} does not exist any more"]


def test_a_topic_that_is_hidden_is_named_with_the_acl_that_would_show_it(
    secure_kafka: EmbeddedKafka,
) -> None:
    hidden = unique("hidden")
    settings = ClusterSettings.model_validate(
        {
            "bootstrap": secure_kafka.bootstrap_servers,
            "tls": {"enabled": True, "ca_file": str(secure_kafka.ca_file)},
            "sasl": {
                "mechanism": "SCRAM-SHA-512",
                "username": "alice",
                "password": "alice-secret",
            },
        }
    )

    seen = visible_topics("here", settings, [hidden])

    assert seen.sentences() == [
        f"topic {hidden} is not visible; grant: Allow DESCRIBE on TOPIC {hidden}"
    ]
