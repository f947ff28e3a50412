"""Receivers and brokers that are away while groups fail and heal, with a real broker."""

import os
import signal
import threading
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.receiver import Receiver, Reply, receiving
from tests.support.served import Served, serving
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.minutes, pytest.mark.timeout(420)]
_QUICK = '[evaluator]\nstop_after_s = 10\nstall_after_s = 10\n[history]\nstore = "none"\n'
_CLUSTER = {"commits": "offsets-topic", "log_end_interval_s": 1}


class Switched:
    """Groups that commit the log end each second; those in `failing` repeat their last commit."""

    def __init__(self, kafka: EmbeddedKafka, topic: str, groups: list[str]) -> None:
        self.failing: set[str] = set()
        self.actors = [self._actor(kafka, topic, group) for group in groups]

    def _actor(
        self, kafka: EmbeddedKafka, topic: str, group: str
    ) -> Callable[[threading.Event], None]:
        def act(stop: threading.Event) -> None:
            options = {"group.id": group, "enable.auto.commit": False, "log_level": 0}
            consumer = Consumer(kafka.admin_config() | options)
            place = TopicPartition(topic, 0)
            offset = 0
            while not stop.wait(1.0):
                with suppress(KafkaException):
                    if group not in self.failing:
                        _, offset = consumer.get_watermark_offsets(place, timeout=5)
                    at = TopicPartition(topic, 0, offset)
                    consumer.commit(offsets=[at], asynchronous=False)
            consumer.close()

        return act


def bad_by(receiver: Receiver) -> set[str]:
    """The groups of which the last that the receiver took is no end."""
    last = {notice["group"]: notice["event"] for notice in receiver.notices}
    return {group for group, event in last.items() if event != "close"}


def agrees(receiver: Receiver, switched: Switched) -> bool:
    """True if the receiver takes exactly those groups for bad that are."""
    return bad_by(receiver) == switched.failing


def test_after_a_minute_away_every_channel_ends_with_what_is_true(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = create_topic(kafka, "outages")
    groups = [unique(f"g{number}") for number in range(5)]
    chance = Random(15)  # noqa: S311 a test
    with receiving() as refuses, receiving() as cuts, receiving() as well:
        receivers = {"refuses": refuses, "cuts": cuts, "well": well}
        channels = "".join(
            f'[alerts.webhook.{name}]\nurl = "{receiver.url}"\nper_minute = 600\n'
            for name, receiver in receivers.items()
        )
        sections = (
            f'{_QUICK}[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\n'
            "group_wait_s = 0.2\ngroup_interval_s = 1\n"
            f'[alerts.policies.all]\ngroup = "^({"|".join(groups)})$"\n'
            f"close_for_s = 1\nreopen_s = 0\n{channels}"
        )
        switched = Switched(kafka, topic, groups)
        with (
            running(producer_of(kafka, topic, rate=50), *switched.actors),
            serving(kafka.bootstrap_servers, cluster=_CLUSTER, sections=sections) as served,
        ):
            served.wait_ready()
            switched.failing |= set(groups[:2])
            eventually(lambda: len(bad_by(well)) == 2, "the first two", timeout_s=90)
            refuses.replies = [Reply(status=503)] * 10_000
            cuts.replies = [Reply(hang_up=True)] * 10_000
            for _ in range(3):  # a minute and more: each waits until it is seen
                switched.failing = set(chance.sample(groups, k=3))
                eventually(
                    lambda: bad_by(well) == switched.failing,
                    "the change at the channel that is well",
                    timeout_s=90,
                )
            for receiver in (refuses, cuts):
                receiver.replies.clear()
            for name, receiver in receivers.items():
                eventually(
                    partial(agrees, receiver, switched),
                    f"what is true at {name}",
                    timeout_s=120,
                )
            eventually(
                lambda: (
                    not served.get("/api/v1/alerts/notices?state=waiting")["notices"]
                    and not served.get("/api/v1/alerts/notices?state=queued")["notices"]
                ),
                "nothing left to deliver",
            )
            listed = served.get("/api/v1/alerts/notices")["notices"]

    for receiver in receivers.values():
        assert bad_by(receiver) == switched.failing
    assert {notice["state"] for notice in listed} == {"delivered"}


def test_without_its_broker_lagwatch_says_so_and_its_heart_stands_still(
    own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = create_topic(own_kafka, "seen")
    produce(own_kafka, topic, 10)
    commit(own_kafka, unique("calm"), topic, 10)
    with receiving() as hook, receiving() as heart:
        sections = (
            f'{_QUICK}[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\ngroup_wait_s = 0.2\n'
            "cluster_unseen_s = 20\n"
            f'[alerts.heartbeat]\nurl = "{heart.url}/ping"\ninterval_s = 1\n'
            f'[alerts.webhook.hook]\nurl = "{hook.url}"\n'
        )
        with serving(own_kafka.bootstrap_servers, cluster=_CLUSTER, sections=sections) as served:
            served.wait_ready()
            eventually(lambda: len(heart.requests) >= 3, "beats")
            own_kafka.kill_broker(0)
            eventually(lambda: len(hook.notices) == 1, "the unseen cluster", timeout_s=120)
            silent = len(heart.requests)
            eventually(
                lambda: served.get("/api/v1/alerts/incidents")["incidents"] != [], "the incident"
            )
            eventually(lambda: served.health()["data_age_s"] > 35, "some more time")
            still = len(heart.requests)
            own_kafka.start_broker(0)
            eventually(lambda: len(hook.notices) == 2, "the cluster is seen again", timeout_s=120)
            eventually(lambda: len(heart.requests) > still, "beats again", timeout_s=60)

    opened, closed = hook.notices
    assert (opened["about"], opened["event"], closed["event"]) == ("cluster", "open", "close")
    assert "No fresh data of it" in opened["verdict"]["problem"]
    assert 20_000 <= opened["at_ms"] - opened["since_ms"] < 60_000
    assert still == silent


@pytest.mark.thorough  # its broker is frozen in test_healthy_groups
def test_a_lagwatch_that_was_frozen_says_so_and_pages_nobody(
    own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    topic, group = create_topic(own_kafka, "frozen"), unique("calm")
    switched = Switched(own_kafka, topic, [group])
    with receiving() as hook:
        sections = (
            "[evaluator]\ninterval_s = 0.5\nstop_after_s = 10\nstall_after_s = 10\n"
            "[history]\ninterval_s = 1\nflush_s = 1\n"
            f'[alerts]\nfile = "{tmp_path / "alerts.sqlite"}"\ngroup_wait_s = 0.2\n'
            "cluster_unseen_s = 20\n"
            '[alerts.policies.limit]\nthreshold = "warning"\nmax_time_lag_s = 20\nmax_lag = 900\n'
            f'[alerts.webhook.hook]\nurl = "{hook.url}"\n'
        )
        with (
            running(producer_of(own_kafka, topic, rate=50), *switched.actors),
            # seldom log ends: the commits made meanwhile come at once, and wait for the next ones
            serving(
                own_kafka.bootstrap_servers,
                cluster={"commits": "offsets-topic", "log_end_interval_s": 5},
                sections=sections,
            ) as served,
        ):
            served.wait_ready()
            eventually(lambda: served.status(group) is not None, "the group is known")
            threading.Event().wait(10)  # some history
            pids = [served.pid, *_children(served.pid)]
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            threading.Event().wait(40)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            eventually(lambda: served.health()["ready"], "fresh data again", timeout_s=60)
            problems = served.health()["problems"]
            eventually(lambda: len(_recordings(served)) == 2, "the gap in the history")
            gap = _recordings(served)
            with urllib.request.urlopen(f"{served.base}/metrics", timeout=30) as answer:  # noqa: S310
                shown = answer.read().decode()
            threading.Event().wait(20)  # whatever would be sent, is sent by now
            log = served.log.read_text()

    assert hook.notices == []
    assert "did_not_run" in log
    assert any(each.startswith("service: lagwatch did not run for 40") for each in problems)
    assert [word for word, _ in gap] == ["dropped", "resumed"]
    assert gap[0][1].startswith("lagwatch did not run for 40")
    (still,) = [line for line in shown.splitlines() if line.startswith("lagwatch_standstill")]
    assert 39 < float(still.split()[1]) < 50


def _children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def _recordings(served: Served) -> list[tuple[str, str]]:
    path = f"/api/v1/clusters/{served.cluster}/events?fields=event,after,detail"
    return [
        (event["after"], event["detail"] or "")
        for event in served.get(path)["points"]
        if event["event"] == "recording" and event["after"] in ("dropped", "resumed")
    ]
