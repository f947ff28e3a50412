"""What an engineer would see: a real broker, real groups, the service, its answers."""

import time
from collections.abc import Sequence
from functools import partial

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, produce, unique
from tests.support.served import Served, serving
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually

QUICK = {"log_end_interval_s": 1, "group_interval_s": 2}
SOON = "[evaluator]\nstop_after_s = 10\nstall_after_s = 10\n"
"""Limits of the rules that let a test see a group stop or stall."""


def test_a_consumer_that_commits_ten_times_a_second_while_its_lag_grows_is_warned_of(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka, "fast"), unique("often")
    write = producer_of(kafka, topic, rate=200)
    # five messages a commit, ten commits a second: fifty read of two hundred written
    read = committing(kafka, group, topic, lambda number: 5 * number, every_s=0.1)

    with (
        serving(
            kafka.bootstrap_servers,
            cluster={"log_end_interval_s": 5},
            sections='[evaluator]\nrules = "burrow"\n',
        ) as served,
        running(write, read),
    ):
        served.wait_ready()
        verdicts = []

        def is_warned_of() -> bool:
            verdict = served.status(group) or {}
            # the lag of the newest commit is known a little later than the commit
            lagging = verdict.get("status") == "WARN"
            if lagging and verdict["partitions"][0]["evidence"]["end_lag"] is not None:
                verdicts.append(verdict)
            return bool(verdicts)

        eventually(is_warned_of, "the verdict WARN")

    [verdict] = verdicts
    assert verdict["rule"] == "lag_not_decreasing"
    evidence = verdict["partitions"][0]["evidence"]
    assert evidence["end_lag"] > evidence["start_lag"]


def test_commits_with_200_bytes_of_metadata_are_judged_by_their_real_time(
    kafka: EmbeddedKafka,
) -> None:
    from confluent_kafka import Consumer, TopicPartition  # noqa: PLC0415 one test needs it

    topic, group = create_topic(kafka, "meta"), unique("meta")
    produce(kafka, topic, 50)
    consumer = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    with serving(kafka.bootstrap_servers, cluster=QUICK, sections=SOON) as served:
        served.wait_ready()
        for offset in (10, 20, 30):
            place = TopicPartition(topic, 0, offset, metadata="m" * 200)
            consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()
        # a dead consumer: with a garbage time it would be OK for ever
        eventually(lambda: (served.status(group) or {}).get("status") == "ERR", "the verdict ERR")
        (partition,) = served.known(group)["partitions"]

    assert partition["status"] == "STOP"
    now_s = time.time()  # noqa: TID251 compared with what the broker wrote
    assert abs(partition["end"]["timestamp"] / 1000 - now_s) < 60
    assert partition["current_lag"] == 20


def test_topics_are_deleted_while_groups_appear_at_full_speed(kafka: EmbeddedKafka) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 one test needs it

    admin = AdminClient(kafka.admin_config())
    steady, group = create_topic(kafka, "steady"), unique("steady")
    with (
        serving(kafka.bootstrap_servers, cluster={**QUICK, "topic_interval_s": 1}) as served,
        running(
            producer_of(kafka, steady, rate=100),
            keeping_up(kafka, group, steady),
        ),
    ):
        served.wait_ready()
        for _ in range(12):
            topics = [create_topic(kafka, "doomed", partitions=3) for _ in range(4)]
            actors = [
                committing(kafka, unique("burst"), topic, int, every_s=0.02, partitions=3)
                for topic in topics
                for _ in range(3)
            ]
            with running(*actors):
                eventually(partial(_listed, served, topics), "the new topics")
                for future in admin.delete_topics(topics).values():
                    future.result(30)
        eventually(
            lambda: (
                not any("doomed" in name for name in served.get("/v3/kafka/here/topic")["topics"])
            ),
            "the deleted topics gone",
        )
        eventually(
            lambda: not [name for name in served.groups() if name.startswith("burst")],
            "the groups of deleted topics gone",
        )
        verdict = served.known(group)
        restarts = served.health()["restarts"]

    assert verdict["status"] == "OK"
    assert restarts == 0


def test_a_deleted_group_leaves_the_lists(kafka: EmbeddedKafka) -> None:
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 one test needs it

    topic, group = create_topic(kafka, "gone"), unique("gone")
    produce(kafka, topic, 5)
    with serving(kafka.bootstrap_servers, cluster=QUICK) as served:
        served.wait_ready()
        with running(committing(kafka, group, topic, lambda _: 3, every_s=0.1)):
            eventually(lambda: group in served.groups(), "the group")
        admin = AdminClient(kafka.admin_config())
        admin.delete_consumer_groups([group])[group].result(30)

        eventually(lambda: group not in served.groups(), "the group gone")
        assert served.status(group) is None


def test_one_cluster_that_is_down_leaves_the_other_fresh(kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(kafka, "fresh"), unique("fresh")
    down = '[clusters.down]\nbootstrap = "127.0.0.1:9"\n'
    with (
        serving(kafka.bootstrap_servers, cluster=QUICK, sections=down) as served,
        running(producer_of(kafka, topic, rate=50), keeping_up(kafka, group, topic)),
    ):
        eventually(lambda: served.health_of("here")["ready"], "the healthy cluster ready")
        eventually(lambda: served.status(group) is not None, "the group")
        eventually(lambda: bool(served.health_of("down")["problems"]), "the problem reported")
        eventually(lambda: served.health_of("here")["age_s"] < 5, "the healthy cluster fresh")
        down_health = served.health_of("down")

    assert not down_health["ready"]
    assert any("refused" in problem for problem in down_health["problems"])


def _listed(served: Served, topics: Sequence[str]) -> bool:
    return set(topics) <= set(served.get("/v3/kafka/here/topic")["topics"])
