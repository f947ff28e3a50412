"""Ranges of an offsets topic and log ends of the past, on a real broker, without Spark."""

from collections.abc import Sequence

import numpy as np
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from lagwatch.config import ClusterSettings
from lagwatch.errors import SourceError
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_end_grid import log_ends_at
from lagwatch.kafka.ranges import OffsetRange, plan_ranges, read_range
from lagwatch.ports.history import EVER_MS
from tests.support.kafka import ANSWER_TIMEOUT_S, create_topic
from tests.support.waiting import eventually

_FIRST_MS = 1_790_000_040_000


def cluster(kafka: EmbeddedKafka, topic: str) -> ClusterSettings:
    return ClusterSettings(bootstrap=(kafka.bootstrap_servers,), offsets_topic=topic)


def append(kafka: EmbeddedKafka, topic: str, times_ms: Sequence[int], partition: int = 0) -> None:
    producer = Producer(kafka.admin_config() | {"linger.ms": 5})
    for at_ms in times_ms:
        producer.produce(topic, b"v", b"k", partition=partition, timestamp=at_ms)
    assert producer.flush(ANSWER_TIMEOUT_S) == 0


def delete_before(kafka: EmbeddedKafka, topic: str, offset: int) -> None:
    admin = AdminClient(kafka.admin_config())
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(ANSWER_TIMEOUT_S)


def ranges(kafka: EmbeddedKafka, topic: str, *, from_ms: int = 0) -> list[OffsetRange]:
    return plan_ranges(
        "here", cluster(kafka, topic), from_ms=from_ms, to_ms=EVER_MS, records_per_range=1000
    )


def test_a_range_ends_with_its_last_record_and_stamps_are_those_of_the_log(
    kafka: EmbeddedKafka,
) -> None:
    topic = create_topic(kafka)
    append(kafka, topic, [_FIRST_MS + number for number in range(50)])
    wanted = OffsetRange(partition=0, start=10, end=30)

    batches = list(read_range("here", cluster(kafka, topic), wanted))

    assert np.concatenate([batch.orders for batch in batches]).tolist() == list(range(10, 30))
    assert next(batch.stamp(0) for batch in batches) == _FIRST_MS + 10
    assert {key for batch in batches for key in batch.keys} == {b"k"}


def test_records_that_are_deleted_before_they_are_read_end_the_reading_with_an_error(
    kafka: EmbeddedKafka,
) -> None:
    topic = create_topic(kafka)
    append(kafka, topic, [_FIRST_MS] * 20)
    (wanted,) = ranges(kafka, topic)
    delete_before(kafka, topic, 5)

    with pytest.raises(SourceError, match="were there and are gone"):
        list(read_range("here", cluster(kafka, topic), wanted))

    (again,) = ranges(kafka, topic)
    assert (again.start, again.end) == (5, 20)


def test_a_topic_that_is_deleted_before_it_is_read_ends_the_reading_with_an_error(
    kafka: EmbeddedKafka,
) -> None:
    topic = create_topic(kafka)
    append(kafka, topic, [_FIRST_MS] * 20)
    (wanted,) = ranges(kafka, topic)
    admin = AdminClient(kafka.admin_config())
    admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT_S)
    # a slow broker goes on answering for a moment
    eventually(lambda: ranges(kafka, topic) == [], "the topic to be gone")

    with pytest.raises(SourceError, match="were there and are gone"):
        list(read_range("here", cluster(kafka, topic), wanted))


def test_a_time_behind_which_all_records_are_deleted_is_read_from_what_is_left(
    kafka: EmbeddedKafka,
) -> None:
    topic = create_topic(kafka)
    # the youngest record is not the last one
    append(kafka, topic, [_FIRST_MS + 1000, _FIRST_MS, _FIRST_MS + 10])
    delete_before(kafka, topic, 1)

    (wanted,) = ranges(kafka, topic, from_ms=_FIRST_MS + 5)
    nothing_younger = ranges(kafka, topic, from_ms=_FIRST_MS + 500)

    assert (wanted.start, wanted.end) == (1, 3)
    # the broker names the deleted record as the newest: no answer rules out younger ones then
    assert [(piece.start, piece.end) for piece in nothing_younger] == [(1, 3)]


@tried(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    minutes=st.lists(st.integers(0, 40), max_size=30),
    grid=st.lists(st.integers(-5, 45), min_size=1, max_size=30, unique=True),
)
def test_a_grid_filled_by_halving_is_what_every_single_question_answers(
    kafka: EmbeddedKafka, minutes: list[int], grid: list[int]
) -> None:
    topic = create_topic(kafka)
    append(kafka, topic, [_FIRST_MS + minute * 60_000 for minute in minutes])
    at_ms = np.array(sorted(grid), np.int64) * 60_000 + _FIRST_MS

    filled = log_ends_at("here", cluster(kafka, topic), [(topic, 0)], at_ms)

    expected = [
        next((place for place, each in enumerate(minutes) if each >= minute), len(minutes))
        for minute in sorted(grid)
    ]
    assert filled.log_end[0].tolist() == expected
    youngest = max(minutes, default=-100)
    assert filled.after_newest[0].tolist() == [minute > youngest for minute in sorted(grid)]
