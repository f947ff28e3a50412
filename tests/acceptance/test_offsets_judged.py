"""Offsets that mislead: transactions, deleted records, replaced topics. Compared with Kafka's own.

The times of the rules are a fifteenth of the defaults. All cases run at the same time, each with
groups of its own, and are judged by two services: one per way to read commits.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, consumer_of, reading
from tests.support.kafka import Transactions, commit, create_topic, produce, unique
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import QUICK_RULES, Scene, Watched, under_way, watching

_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1, "topic_interval_s": 2}


def _same_as_kafka(scene: Scene, group: str, topic: str) -> None:
    """Wait until the services show what Kafka itself says of the first partition."""
    for watched in scene.watches:
        eventually(
            lambda watched=watched: _as_kafka(scene, watched, group, topic),  # type: ignore[misc]
            f"{watched.mode} shows {group} as Kafka does",
        )


def _as_kafka(scene: Scene, watched: Watched, group: str, topic: str) -> bool:
    row, shown = watched.partition(group, topic), watched.log_end(topic)
    committed, log_end = scene.oracle.committed(group)[topic, 0], scene.oracle.log_end(topic)
    return row is not None and (row["end"]["offset"], row["current_lag"], shown) == (
        committed,
        max(log_end - committed, 0),
        log_end,
    )


def _aborted_commits(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "aborted"), unique("aborted")
    produce(scene.kafka, topic, 200)
    commit(scene.kafka, group, topic, 3)
    transactions = Transactions(scene.kafka)
    for number in range(12):
        transactions.begin(group, topic, 100 + number)
        transactions.abort()
    transactions.begin(group, topic, 150)
    try:
        _same_as_kafka(scene, group, topic)
        for watched in scene.watches:
            row = watched.partition(group, topic)
            assert row is not None
            assert (row["end"]["offset"], row["current_lag"]) == (3, 197)
            answer = watched.group(group)
            assert answer is not None
            shown = answer["partitions"][0]
            assert (shown["committed"], shown["lag"]) == (3, 197)
    finally:
        transactions.commit()
    eventually(lambda: scene.oracle.committed(group)[topic, 0] == 150, "committed")
    _same_as_kafka(scene, group, topic)


def _only_marks_left(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "marks"), unique("marks")
    transactions = Transactions(scene.kafka)
    transactions.write(topic, 25)
    transactions.commit()
    commit(scene.kafka, group, topic, 25)
    for row in scene.both(group, topic, "OK", "control_records_only"):
        assert row["current_lag"] == 1
    _same_as_kafka(scene, group, topic)
    scene.never_err(group)
    with watching(
        scene.kafka, "offsets-topic", sections=QUICK_RULES, group_allow=group, **_CLUSTER
    ) as restarted:
        restarted.wait(group, topic, "OK", "control_records_only")
        assert "ERR" not in restarted.statuses(group)


def _at_the_last_stable_offset(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "open"), unique("open")
    produce(scene.kafka, topic, 10)
    transactions = Transactions(scene.kafka)
    transactions.write(topic, 5)
    try:
        with running(
            reading(
                scene.kafka,
                group,
                topic,
                properties={**KINDS["read-committed"], "auto.commit.interval.ms": 500},
            )
        ):
            for row in scene.both(group, topic, "OK", "waits_for_transaction"):
                evidence = row["evidence"]
                assert evidence["last_stable_offset"] == scene.oracle.last_stable(topic) == 10
                assert evidence["transaction_age_ms"] >= 0
            for watched in scene.watches:
                # it is asked for when it has been open for two seconds
                eventually(
                    lambda watched=watched: transactions.name in _text(watched, group),  # type: ignore[misc]
                    f"the transaction is named ({watched.mode})",
                )
                named = (watched.partition(group, topic) or {})["evidence"]
                assert named["transactional_id"] == transactions.name
                assert isinstance(named["producer_id"], int)
                assert named["transaction_unnamed"] is None
            # the log goes on, longer than a silence may last
            with running(producer_of(scene.kafka, topic, rate=20)):
                for watched in scene.watches:
                    eventually(
                        lambda watched=watched: _age_ms(watched, group, topic) > 24_000,  # type: ignore[misc]
                        f"the transaction's age is shown ({watched.mode})",
                    )
    finally:
        transactions.abort()
    scene.never_err(group)


def _text(watched: Watched, group: str) -> str:
    """What is said of the group's only partition."""
    answer = watched.group(group) or {"partitions": [{"text": ""}]}
    return str(answer["partitions"][0]["text"])


def _age_ms(watched: Watched, group: str, topic: str) -> int:
    row = watched.partition(group, topic) or {}
    return int((row.get("evidence") or {}).get("transaction_age_ms") or 0)


def _all_deleted(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "deleted"), unique("deleted")
    produce(scene.kafka, topic, 5_000)
    commit(scene.kafka, group, topic, 100)
    _same_as_kafka(scene, group, topic)
    scene.oracle.delete_records(topic, -1)
    assert scene.oracle.log_start(topic) == scene.oracle.log_end(topic) == 5_000
    for row in scene.both(group, topic, "ERR", "records_lost"):
        assert (row["lost"], row["readable_lag"], row["current_lag"]) == (4_900, 0, 4_900)


def _jumps_over_deleted(scene: Scene) -> None:
    """A new member has fetched nothing when the records are deleted, and then reads on."""
    topic, group = create_topic(scene.kafka, "jump"), unique("jump")
    produce(scene.kafka, topic, 1_000)
    commit(scene.kafka, group, topic, 100)
    _same_as_kafka(scene, group, topic)
    produce(scene.kafka, topic, 1_000)
    properties = {"auto.commit.interval.ms": 500, "session.timeout.ms": 10_000}
    consumer = consumer_of(scene.kafka, group, properties)
    (read,) = (watched for watched in scene.watches if watched.mode == "offsets-topic")

    def shown(row: Mapping[str, Any] | None) -> bool:
        return row is not None and (row["readable_lag"], row["lost"]) == (500, 0)

    try:
        consumer.subscribe([topic], on_assign=_paused)
        _consume_until(consumer, lambda: bool(consumer.assignment()))
        _consume_until(consumer, lambda: bool((read.partition(group, topic) or {})["owner"]))
        scene.oracle.delete_records(topic, 1_500)
        # a commit within the round of the deletion would not show which of them came first
        _consume_until(consumer, lambda: shown(read.partition(group, topic)))
        consumer.resume(consumer.assignment())
        # polls of so young a group do not show whether it committed in between
        _consume_until(consumer, lambda: read.says(group, topic, "ERR", "records_lost"))
        row = read.partition(group, topic)
        assert row is not None
        assert row["lost"] == 1_400
        _same_as_kafka(scene, group, topic)
        assert scene.oracle.committed(group)[topic, 0] == 2_000
    finally:
        consumer.close()


def _paused(consumer: Consumer, assigned: list[TopicPartition]) -> None:
    """Hold partitions without reading them."""
    consumer.assign(assigned)
    consumer.pause(assigned)


def _hangs_until_deleted(scene: Scene) -> None:
    """Deleted and reset behind it within a moment: that may fall between two rounds."""
    topic, group = create_topic(scene.kafka, "hung"), unique("hung")
    properties = {"auto.commit.interval.ms": 500, "session.timeout.ms": 10_000}
    consumer = consumer_of(scene.kafka, group, properties)
    (read,) = (watched for watched in scene.watches if watched.mode == "offsets-topic")
    with running(producer_of(scene.kafka, topic, rate=50)):
        try:
            consumer.subscribe([topic])
            _consume_until(consumer, lambda: read.commits(group, topic) >= 8)
            consumer.pause(consumer.assignment())
            paused_s = time.monotonic()
            _consume_until(consumer, lambda: time.monotonic() > paused_s + 40)
            committed = scene.oracle.committed(group)[topic, 0]
            log_start = scene.oracle.log_end(topic) - 5
            scene.oracle.delete_records(topic, log_start)
            consumer.resume(consumer.assignment())
            _consume_until(consumer, lambda: read.says(group, topic, "ERR", "records_lost"))
        finally:
            consumer.close()
    row = read.partition(group, topic)
    assert row is not None
    assert row["lost"] == log_start - committed


def _retention_behind_a_reader(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "kept"), unique("kept")
    quick = {"auto.commit.interval.ms": 500, "session.timeout.ms": 10_000}
    with running(
        producer_of(scene.kafka, topic, rate=50),
        reading(scene.kafka, group, topic, properties=quick),
    ):
        _delete_behind(scene, group, topic, keep=100)
    _nothing_lost(scene, group, topic)


def _deletes_what_it_committed(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "purged"), unique("purged")
    quick = {"auto.commit.interval.ms": 100, "session.timeout.ms": 10_000}
    with running(
        producer_of(scene.kafka, topic, rate=200),
        reading(scene.kafka, group, topic, properties=quick),
    ):
        _delete_behind(scene, group, topic, keep=0)
    _nothing_lost(scene, group, topic)


def _delete_behind(scene: Scene, group: str, topic: str, *, keep: int) -> None:
    """Delete up to the committed offset, less `keep`, again and again."""
    deleted = 0

    def often() -> bool:
        nonlocal deleted
        committed = scene.oracle.committed(group).get((topic, 0), 0)
        if committed - keep > scene.oracle.log_start(topic):
            scene.oracle.delete_records(topic, committed - keep)
            deleted += 1
        threading.Event().wait(0.2)  # as often as Streams would
        return deleted >= 50

    eventually(often, "fifty deletions", timeout_s=90)


def _nothing_lost(scene: Scene, group: str, topic: str) -> None:
    for watched in scene.watches:
        row = watched.partition(group, topic)
        assert row is not None
        assert row["lost"] == 0, f"{watched.mode}: {row}"
    scene.never_err(group)


def _ahead(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "ahead"), unique("ahead")
    produce(scene.kafka, topic, 100)
    commit(scene.kafka, group, topic, 500)
    for row in scene.both(group, topic, "ERR", "ahead_of_log_end"):
        assert row["current_lag"] is None


def _left_topic(scene: Scene) -> None:
    kept, left = create_topic(scene.kafka, "held"), create_topic(scene.kafka, "left")
    group = unique("leaver")
    quick = {"auto.commit.interval.ms": 500, "session.timeout.ms": 10_000}
    consumer = consumer_of(scene.kafka, group, quick)
    with running(producer_of(scene.kafka, kept, rate=20), producer_of(scene.kafka, left, rate=20)):
        try:
            consumer.subscribe([kept, left])
            _consume_until(consumer, lambda: len(scene.oracle.committed(group)) == 2)
            consumer.subscribe([kept])
            _consume_until(
                consumer,
                lambda: all(
                    watched.says(group, left, "OK", "not_subscribed")
                    and (watched.served.status(group) or {})["status"] == "OK"
                    for watched in scene.watches
                ),
            )
        finally:
            consumer.close()
    scene.never_err(group)


def _consume_until(consumer: Consumer, condition: Callable[[], bool]) -> None:
    def met() -> bool:
        consumer.consume(1_000, 0.2)
        return condition()

    eventually(met, "consumed until it is so", timeout_s=90)


def _recreated(after_s: float) -> Callable[[Scene], None]:
    """A topic is deleted and made again; a commit comes so many seconds after that."""

    def case(scene: Scene) -> None:
        topic, group = create_topic(scene.kafka, "again"), unique("again")
        produce(scene.kafka, topic, 100)
        commit(scene.kafka, group, topic, 80)
        _same_as_kafka(scene, group, topic)
        scene.oracle.admin.delete_topics([topic])[topic].result(30)
        _create_again(scene, topic)
        produce(scene.kafka, topic, 30)
        if after_s:
            threading.Event().wait(after_s)  # the case itself
        commit(scene.kafka, group, topic, 10)
        _same_as_kafka(scene, group, topic)

    return case


def _create_again(scene: Scene, topic: str) -> None:
    def created() -> bool:
        asked = scene.oracle.admin.create_topics([NewTopic(topic, 1, 1)])
        return asked[topic].exception(30) is None

    eventually(created, "the topic is made again")


def _at_rest(scene: Scene) -> None:
    """Many groups with several partitions; after their traffic all numbers are Kafka's."""
    topic = create_topic(scene.kafka, "rest", partitions=3)
    groups = [unique("rest") for _ in range(5)]
    with running(
        producer_of(scene.kafka, topic, rate=60, partitions=3),
        *(reading(scene.kafka, group, topic) for group in groups),
    ):
        eventually(
            lambda: all(len(scene.oracle.committed(each)) == 3 for each in groups),
            "all groups have committed",
        )
    produce(scene.kafka, topic, 7, partition=1)
    ends = {each: scene.oracle.log_end(topic, each) for each in range(3)}
    for group in groups:
        committed = scene.oracle.committed(group)
        wanted = {
            partition: (offset, max(ends[partition] - offset, 0))
            for (_, partition), offset in committed.items()
        }
        for watched in scene.watches:
            eventually(
                lambda group=group, watched=watched, wanted=wanted: (  # type: ignore[misc]
                    _shown(watched, group) == wanted
                ),
                f"{watched.mode} shows of {group}: {wanted}",
            )


def _shown(watched: Watched, group: str) -> dict[int, tuple[int, int]]:
    status = watched.served.status(group) or {"partitions": ()}
    return {
        row["partition"]: (row["end"]["offset"], row["current_lag"]) for row in status["partitions"]
    }


def _lag_of_polls(scene: Scene) -> None:
    """Polled offsets are compared with the log end at their poll, not with a later one."""
    topic, group = create_topic(scene.kafka, "polled"), unique("polled")
    rate = 200
    quick = {"auto.commit.interval.ms": 100, "session.timeout.ms": 10_000}
    (polled,) = (watched for watched in scene.watches if watched.mode == "admin")
    with running(
        producer_of(scene.kafka, topic, rate=rate),
        reading(scene.kafka, group, topic, properties=quick),
    ):
        polled.wait(group, topic, "OK")
        lags, truths = list[int](), list[int]()

        def sampled() -> bool:
            row = polled.partition(group, topic)
            assert row is not None
            lags.append(row["current_lag"])
            committed = scene.oracle.committed(group)[topic, 0]
            truths.append(scene.oracle.log_end(topic) - committed)
            return len(lags) >= 100

        eventually(sampled, "a hundred samples")
    # within what is produced in a quarter of a second
    assert sorted(lags)[90] <= max(truths) + rate / 4, (
        f"shown {sorted(lags)}, true {sorted(truths)}"
    )
    assert sorted(lags)[50] >= min(truths) - rate / 4


_CASES: Final[Mapping[str, Callable[[Scene], None]]] = {
    "commits of aborted and open transactions do not count": _aborted_commits,
    "a finished reader of an idle transactional topic is ok": _only_marks_left,
    "a reader at the last stable offset waits for the transaction": _at_the_last_stable_offset,
    "records deleted before they were read are lost": _all_deleted,
    "a consumer that jumps over deleted records loses them": _jumps_over_deleted,
    "a consumer that hangs until its messages are deleted loses them": _hangs_until_deleted,
    "deletions behind a reader lose nothing": _retention_behind_a_reader,
    "a consumer that deletes what it committed loses nothing": _deletes_what_it_committed,
    "an offset beyond the log end is an error": _ahead,
    "a topic that was left is no trouble": _left_topic,
    "a topic made again with a commit at once has the lag of the new one": _recreated(0),
    "a topic made again with a commit later has the lag of the new one": _recreated(5),
    "at rest all numbers are those of Kafka": _at_rest,
    "polled offsets have the lag of the instant of their poll": _lag_of_polls,
}


@pytest.fixture(scope="module")
def outcomes(own_kafka: EmbeddedKafka) -> Iterator[Mapping[str, "Future[None]"]]:
    """All cases under way."""
    with under_way(own_kafka, _CASES, _CLUSTER) as outcomes:
        yield outcomes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", _CASES)
def test_default_rules(outcomes: Mapping[str, "Future[None]"], case: str) -> None:
    outcomes[case].result()
