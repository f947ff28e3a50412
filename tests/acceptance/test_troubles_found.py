"""Real troubles of real consumers are found by the default rules, and their end is, too.

The times of the rules are a fifteenth of the defaults. All cases run at the same time, each with
groups of its own, and are judged by two services: one per way to read commits.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import consumer_process, limited, reading
from tests.support.kafka import create_topic, produce, unique
from tests.support.traffic import committing, producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import Scene, under_way

_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 1}
_RATE: Final = 50
_LATE_S: Final = 70
"""A silence is a stop after 20 s here, a member is gone after 6 s; machines may be slow."""
_NO_SHORT_JOB: Final = 10
"""Commits after which a first run is longer than that of a short job, which is 7 s here."""


def _killed(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "killed"), unique("killed")
    with running(producer_of(scene.kafka, topic, rate=_RATE)):
        with consumer_process(scene.kafka, group, topic) as process:
            scene.both(group, topic, "OK", timeout_s=_LATE_S)
            _wait_commits(scene, group, topic, count=_NO_SHORT_JOB)
            process.kill()
        scene.both(group, topic, "STOP", "stopped", timeout_s=_LATE_S)
        with consumer_process(scene.kafka, group, topic):
            scene.both(group, topic, "OK", timeout_s=_LATE_S)


def _closed(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "closed"), unique("closed")
    quick = {"auto.commit.interval.ms": 500}
    with running(producer_of(scene.kafka, topic, rate=_RATE)):
        with running(reading(scene.kafka, group, topic, properties=quick)):
            scene.both(group, topic, "OK", timeout_s=_LATE_S)
            _wait_commits(scene, group, topic, count=_NO_SHORT_JOB)
        scene.both(group, topic, "STOP", "stopped", timeout_s=_LATE_S)
        with running(reading(scene.kafka, group, topic, properties=quick)):
            scene.both(group, topic, "OK", timeout_s=_LATE_S)


def _hanging(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "hanging"), unique("hanging")
    with (
        running(producer_of(scene.kafka, topic, rate=_RATE)),
        consumer_process(scene.kafka, group, topic) as process,
    ):
        scene.both(group, topic, "OK", timeout_s=_LATE_S)
        _wait_commits(scene, group, topic, count=_NO_SHORT_JOB)
        process.send_signal(signal.SIGSTOP)
        scene.both(group, topic, "STOP", "stopped", timeout_s=_LATE_S)
        process.send_signal(signal.SIGCONT)
        scene.both(group, topic, "OK", timeout_s=_LATE_S)


def _without_progress(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "stuck"), unique("stuck")
    free = threading.Event()

    def offset(number: int) -> int:
        # where commits are polled, a shorter run is that of a job
        return scene.oracle.log_end(topic) if free.is_set() else min(number, _NO_SHORT_JOB)

    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        committing(scene.kafka, group, topic, offset, every_s=1.0),
    ):
        for watched in scene.watches:
            # polls see no commit of the same offset
            status, rule = ("STALL", "stalled") if watched.mode != "admin" else ("STOP", "stopped")
            row = watched.wait(group, topic, status, rule, timeout_s=_LATE_S)
            polled = watched.mode == "admin"
            assert row["evidence"]["commits_are"] == ("polled" if polled else "read")
            text = watched.group(group)["worst"]["text"]  # type: ignore[index]
            assert ("no progress seen" in text) is polled, text
            assert ("commits of the same offset cannot be seen" in text) is polled, text
        free.set()
        scene.both(group, topic, "OK", timeout_s=_LATE_S)


def _too_slow(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "slow"), unique("slow")
    rate = [_RATE / 5]
    properties = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 500}
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        limited(scene.kafka, group, topic, rate=lambda: rate[0], properties=properties),
    ):
        scene.both(group, topic, "WARN", "falling_behind", timeout_s=_LATE_S)
        rate[0] = 40 * _RATE
        scene.both(group, topic, "OK", timeout_s=_LATE_S)
    scene.never_err(group)


def _never_committing(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "silent"), unique("silent")
    properties = {"enable.auto.commit": False, "session.timeout.ms": 10_000}
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        reading(scene.kafka, group, topic, properties=properties),
    ):
        scene.both(group, topic, "WARN", "never_commits", timeout_s=_LATE_S)
        assert all(group in watched.served.groups() for watched in scene.watches)
    with running(producer_of(scene.kafka, topic, rate=_RATE), reading(scene.kafka, group, topic)):
        scene.both(group, topic, "OK", timeout_s=_LATE_S)
    scene.never_err(group)


def _new_on_a_backlog(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "backlog"), unique("backlog")
    produce(scene.kafka, topic, 3_000)
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        # commits every five seconds, as clients do by default
        limited(scene.kafka, group, topic, rate=lambda: 3 * _RATE),
    ):
        _read_to_the_end(scene, group, topic)
    scene.never_err(group)


def _new_partition(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "grown"), unique("grown")
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        limited(
            scene.kafka,
            group,
            topic,
            rate=lambda: 40 * _RATE,
            properties={"session.timeout.ms": 10_000, "topic.metadata.refresh.interval.ms": 1_000},
        ),
    ):
        scene.both(group, topic, "OK", timeout_s=_LATE_S)
        admin = AdminClient(scene.kafka.admin_config())
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
        produce(scene.kafka, topic, 2_000, partition=1)
        with running(_slowly_to(scene.kafka, topic, partition=1)):
            for watched in scene.watches:
                watched.wait(group, topic, "OK", partition=1)
            _wait_commits(scene, group, topic, partition=1, count=2)
    scene.never_err(group)


def _seldom_committing(scene: Scene) -> None:
    """A group that commits every 150 s by the default times."""
    topic, group = create_topic(scene.kafka, "seldom"), unique("seldom")
    properties = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 10_000}
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        reading(scene.kafka, group, topic, properties=properties),
    ):
        _wait_commits(scene, group, topic, count=3)
    scene.never_err(group)


_CASES: Final[Mapping[str, Callable[[Scene], None]]] = {
    "a consumer that is killed stops": _killed,
    "a consumer that is closed stops": _closed,
    "a member that hangs stops": _hanging,
    "a consumer that commits without progress stalls": _without_progress,
    "a consumer slower than its producer falls behind": _too_slow,
    "a group that never commits is named": _never_committing,
    "a new consumer on a backlog is never an error": _new_on_a_backlog,
    "the first commit of a new partition is never an error": _new_partition,
    "a consumer that commits seldom is never an error": _seldom_committing,
}


def _slowly_to(
    kafka: EmbeddedKafka, topic: str, *, partition: int
) -> Callable[[threading.Event], None]:
    def act(stop: threading.Event) -> None:
        while not stop.wait(0.5):
            produce(kafka, topic, 10, partition=partition)

    return act


def _wait_commits(
    scene: Scene, group: str, topic: str, *, partition: int = 0, count: int = 4
) -> None:
    """Until a group's pace is known: several movements were seen by all services."""
    for watched in scene.watches:
        eventually(
            lambda watched=watched: (  # type: ignore[misc]
                watched.commits(group, topic, partition) >= count
            ),
            f"{count} commits of {group} ({watched.mode})",
        )


def _read_to_the_end(scene: Scene, group: str, topic: str) -> None:
    for watched in scene.watches:
        eventually(
            lambda watched=watched: (  # type: ignore[misc]
                (watched.partition(group, topic) or {}).get("current_lag", 1 << 60) < 8 * _RATE
            ),
            f"{group} has caught up",
        )


@pytest.fixture(scope="module")
def outcomes(own_kafka: EmbeddedKafka) -> Iterator[Mapping[str, "Future[None]"]]:
    """All cases under way."""
    with under_way(own_kafka, _CASES, _CLUSTER) as outcomes:
        yield outcomes


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", _CASES)
def test_default_rules(outcomes: Mapping[str, "Future[None]"], case: str) -> None:
    outcomes[case].result()
