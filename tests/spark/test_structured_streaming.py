"""A real Structured Streaming query, whose progress lagwatch reads from its checkpoint.

The query reads the broker through a data source in Python, whose offsets have the form of those of
Spark's own Kafka source, `{"topic": {"partition": offset}}`.
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, produce, unique
from tests.support.kafka_source import register
from tests.support.served import Served, serving
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually

_QUICK = """
[evaluator]
interval_s = 0.5
stop_after_s = 12
stall_after_s = 20
[windows]
min_distance_s = 0.2
[history]
interval_s = 1
flush_s = 0.2
"""
_PARTITIONS = 2


class Streaming:
    """One query, started and stopped."""

    def __init__(self, spark: SparkSession, kafka: EmbeddedKafka, topic: str, folder: Path) -> None:
        self._format = register(spark)
        self._spark, self._kafka, self.topic = spark, kafka, topic
        self.folder = folder
        self.read: set[tuple[int, int]] = set()
        """Partition and offset of all records of all batches."""

    def start(self, most: int) -> StreamingQuery:
        rows = (
            self._spark.readStream.format(self._format)
            .option("servers", self._kafka.bootstrap_servers)
            .option("topic", self.topic)
            .option("partitions", _PARTITIONS)
            .option("most", most)
            .load()
        )
        return (
            rows.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(self.folder))
            .trigger(processingTime="1 second")
            .start()
        )

    def _take(self, batch: DataFrame, number: int) -> None:
        del number
        self.read.update((row.partition, row.offset) for row in batch.collect())


@pytest.fixture
def streaming(spark: SparkSession, kafka: EmbeddedKafka, tmp_path: Path) -> Streaming:
    topic = create_topic(kafka, "streamed", partitions=_PARTITIONS)
    return Streaming(spark, kafka, topic, tmp_path / "checkpoint")


def _watched(job: str, folder: Path, broken: Path) -> str:
    return _QUICK + "".join(
        f'[clusters.here.progress.{name}]\nkind = "spark-checkpoint"\npath = "{path}"\n'
        for name, path in ((job, folder), ("broken", broken))
    )


@pytest.mark.timeout(600)
@pytest.mark.thorough  # its commits are plain ones of a group
def test_a_query_is_followed_while_it_reads_falls_behind_stops_and_starts_again(
    kafka: EmbeddedKafka, streaming: Streaming, tmp_path: Path
) -> None:
    topic, job = streaming.topic, unique("query")
    for partition in range(_PARTITIONS):
        produce(kafka, topic, 100, partition=partition)
    sections = _watched(job, streaming.folder, tmp_path / "nowhere")
    cluster = {"log_end_interval_s": 0.5, "topic_interval_s": 1, "progress_interval_s": 0.5}

    with serving(kafka.bootstrap_servers, cluster=cluster, sections=sections) as lagwatch:
        lagwatch.wait_ready()
        _says(lagwatch, "no such folder", "broken", job)
        assert job not in lagwatch.groups()

        query = streaming.start(most=1_000_000)
        try:
            _has(lagwatch, job, lag=0)
            shown = lagwatch.get(f"/api/v1/clusters/here/groups/{job}")
            assert (shown["info"]["type"], shown["info"]["members"]) == ("spark-checkpoint", None)
            assert [row["committed"] for row in shown["partitions"]] == [100, 100]
            assert streaming.read == {(part, at) for part in range(2) for at in range(100)}
            _says(lagwatch, "no such folder", "broken")
            with running(producer_of(kafka, topic, rate=60, partitions=_PARTITIONS)):
                eventually(lambda: _committed(lagwatch, job) > 300, "it reads on", timeout_s=60)
                eventually(lambda: lagwatch.known(job)["status"] == "OK", "all is well")
                query.stop()
                query = streaming.start(most=5)
                _becomes(lagwatch, job, "falling_behind", "lag_not_decreasing")
                query.stop()
                _becomes(lagwatch, job, "stopped")
                behind = lagwatch.get(f"/api/v1/clusters/here/groups/{job}")
                assert behind["status"] == "ERR"
                assert behind["time_lag_s"] > 10
                assert lagwatch.known(job)["totallag"] > 200
                query = streaming.start(most=1_000_000)
                eventually(
                    lambda: lagwatch.known(job)["status"] == "OK", "it is well again", timeout_s=90
                )
            _has(lagwatch, job, lag=0)
        finally:
            query.stop()
        history = lagwatch.get(f"/api/v1/clusters/here/groups/{job}/history?step=raw")
        assert max(each["total_lag"] for each in history["points"]) > 200


def _committed(lagwatch: Served, job: str) -> int:
    return sum(each["end"]["offset"] for each in lagwatch.known(job)["partitions"] if each["end"])


def _has(lagwatch: Served, job: str, *, lag: int) -> None:
    def shown() -> bool:
        status = lagwatch.status(job)
        return status is not None and status["totallag"] == lag

    eventually(shown, f"lag {lag} of {job}", timeout_s=90)


def _becomes(lagwatch: Served, job: str, *rules: str) -> None:
    def judged() -> bool:
        shown: dict[str, Any] = lagwatch.get(f"/api/v1/clusters/here/groups/{job}")
        return shown["rule"] in rules

    eventually(judged, f"{job} is judged by {rules}", timeout_s=120)


def _says(lagwatch: Served, reason: str, *jobs: str) -> None:
    def said() -> bool:
        problems = [each for each in lagwatch.health()["problems"] if each.startswith("progress")]
        return all(
            f"{job}: " in problem and reason in problem for job in jobs for problem in problems
        ) and bool(problems)

    eventually(said, f"{jobs}: {reason}")
    assert lagwatch.health()["ready"]
