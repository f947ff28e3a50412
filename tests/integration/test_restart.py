"""A restart of the service is not seen: no verdict changes, and no notice is sent."""

import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.kafka_tools import consumer_groups
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served, serving
from tests.support.traffic import running
from tests.support.waiting import eventually
from tests.support.wire import encode_offset_key, encode_offset_value

pytestmark = pytest.mark.minutes

_OLD = 300
"""Commits of the stopped group, from an hour ago to ten minutes ago."""


class Scene:
    """Groups whose commits are written into a topic of our own: so they can be of any time."""

    def __init__(self, kafka: EmbeddedKafka, folder: Path, receiver: Receiver) -> None:
        self.kafka = kafka
        self.offsets, self.topic = create_topic(kafka, "offsets"), create_topic(kafka, "orders")
        self.up, self.behind, self.stopped = unique("up"), unique("behind"), unique("stopped")
        self.file = folder / "state" / "here.checkpoint"
        self._sections = (
            "[evaluator]\nstop_after_s = 30\nstall_after_s = 45\n"
            f'[checkpoint]\npath = "{self.file.parent}"\ninterval_s = 1\n'
            '[history]\nstore = "none"\n'
            f'[alerts]\nfile = "{folder / "alerts.sqlite"}"\ngroup_wait_s = 0.1\n'
            '[alerts.policies.all]\nthreshold = "warning"\nclose_for_s = 0\nreopen_s = 0\n'
            f'[alerts.webhook.hook]\nurl = "{receiver.url}"\nper_minute = 6000\n'
        )
        self._producer = Producer(kafka.admin_config() | {"linger.ms": 5})

    def serving(self):
        return serving(
            self.kafka.bootstrap_servers,
            cluster={
                "offsets_topic": self.offsets,
                "commits": "offsets-topic",
                "log_end_interval_s": 1,
                "topic_allow": f"^{self.topic}$",
            },
            sections=self._sections,
        )

    def commit(self, group: str, offset: int, at_ms: int) -> None:
        self._producer.produce(
            self.offsets,
            key=encode_offset_key(group, self.topic, 0),
            value=encode_offset_value(offset, at_ms),
        )

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def replace_offsets_topic(self) -> None:
        """Delete it and make another one of the same name."""
        admin = AdminClient(self.kafka.admin_config())
        admin.delete_topics([self.offsets])[self.offsets].result(30)
        eventually(lambda: self.offsets not in admin.list_topics(timeout=30).topics, "deleted")
        topic = NewTopic(self.offsets, num_partitions=1, replication_factor=1)
        admin.create_topics([topic])[self.offsets].result(30)
        self._producer = Producer(self.kafka.admin_config() | {"linger.ms": 5})

    def write_the_past(self) -> None:
        produce(self.kafka, self.topic, 500)
        now_ms = time.time_ns() // 1_000_000
        for number in range(_OLD):
            self.commit(self.stopped, number, now_ms - 3_600_000 + number * 10_000)
        self._producer.flush(30)

    def writes(self) -> Callable[[threading.Event], None]:
        """Twenty messages a second; one group reads them all, the other every fourth."""

        def act(stop: threading.Event) -> None:
            end, read = 500, 0
            while not stop.wait(1.0):
                for _ in range(20):
                    self._producer.produce(self.topic, b"x")
                self._producer.flush(10)
                end, read = end + 20, read + 5
                now_ms = time.time_ns() // 1_000_000
                self.commit(self.up, end, now_ms)
                self.commit(self.behind, read, now_ms)
                self._producer.flush(10)

        return act

    def verdicts(self, served: Served) -> dict[str, tuple[Any, ...]]:
        """Status and rule, by group."""
        found = {}
        for group in (self.up, self.behind, self.stopped):
            status = served.status(group) or {"partitions": [{}]}
            (partition,) = status["partitions"]
            # a group that reads all there is may be a second behind
            well = group == self.up and partition.get("status") == "OK"
            found[group] = (partition.get("status"), "" if well else partition.get("rule"))
        return found

    def since(self, served: Served, group: str) -> int:
        """When the group's trouble began."""
        status = served.status(group)
        assert status is not None
        return int(status["since_ms"])

    def expected(self) -> dict[str, tuple[str, str]]:
        return {
            self.up: ("OK", ""),
            self.behind: ("WARN", "falling_behind"),
            self.stopped: ("STOP", "stopped"),
        }

    def _saved_after(self, at_ns: int) -> bool:
        return self.file.exists() and self.file.stat().st_mtime_ns > at_ns

    def saved(self) -> None:
        """Wait for a checkpoint that begins after now."""
        now_ns = time.time_ns()
        for _ in range(2):
            eventually(partial(self._saved_after, now_ns), "a checkpoint")
            now_ns = self.file.stat().st_mtime_ns


@pytest.mark.timeout(600)
def test_verdicts_survive_a_kill_a_stop_and_the_death_of_a_collector(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with receiving() as receiver:
        scene = Scene(kafka, tmp_path, receiver)
        scene.write_the_past()
        with running(scene.writes()):
            with scene.serving() as first:
                first.wait_ready()
                read_at_first = first.health()["backlog"]["total"]
                eventually(
                    lambda: scene.verdicts(first) == scene.expected(), "verdicts", timeout_s=400
                )
                eventually(lambda: len(receiver.notices) == 2, "a notice for each")
                since = scene.since(first, scene.stopped)
                behind_since = scene.since(first, scene.behind)
                scene.saved()
                os.kill(first.pid, signal.SIGKILL)
                first.process.wait()
                killed_log = first.log.read_text()

            for _ in ("after the kill", "after a clean stop"):
                with scene.serving() as served:
                    served.wait_ready()
                    log = served.log.read_text()
                    assert _seen_for(scene, served, 10) == [scene.expected()]
                    assert scene.since(served, scene.stopped) == since
                    # whole minutes: those of the restart are not counted
                    assert abs(scene.since(served, scene.behind) - behind_since) < 120_000
                    assert served.health()["backlog"]["total"] < read_at_first / 4
                    for group in scene.expected():
                        assert _window(served, group, scene.topic) == 10
                    assert "checkpoint_restored" in log

                    (collector,) = psutil.Process(served.pid).children()
                    collector.kill()
                    eventually(partial(_restarted_once, served), "a new collector")
                    assert _seen_for(scene, served, 5) == [scene.expected()]
                    scene.saved()

            assert len(receiver.notices) == 2
            assert "checkpoint_not_used" in killed_log  # the first one had none


@pytest.mark.timeout(300)
def test_an_offsets_topic_that_was_replaced_meanwhile_is_read_from_its_start(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    with receiving() as receiver:
        scene = Scene(kafka, tmp_path, receiver)
        produce(kafka, scene.topic, 500)
        for offset in range(20):
            scene.commit(scene.stopped, offset, _now_ms() - 60_000 + offset * 1000)
        scene.flush()
        with scene.serving() as first:
            first.wait_ready()
            eventually(lambda: first.groups() == [scene.stopped], "the first topic's group")
            scene.saved()

        scene.replace_offsets_topic()
        # as many records as the positions of the checkpoint say were read, and more
        scene.commit(scene.up, 500, _now_ms())
        for offset in range(40):
            scene.commit(scene.behind, offset, _now_ms() - 60_000 + offset * 1000)
        scene.flush()
        with scene.serving() as second:
            second.wait_ready()
            eventually(lambda: len(second.groups()) >= 2, "the second topic's groups")
            groups, log = second.groups(), second.log.read_text()
            scene.saved()
        with scene.serving() as third:
            third.wait_ready()
            again, third_log = third.groups(), third.log.read_text()

    assert groups == again == sorted([scene.up, scene.behind])
    assert "checkpoint_forgotten" in log
    assert f"{scene.offsets} was replaced, or this is another cluster" in log
    assert "checkpoint_forgotten" not in third_log


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _seen_for(scene: Scene, served: Served, seconds: int) -> list[dict[str, tuple[Any, ...]]]:
    """All different verdicts, until those of so many seconds later are there."""
    seen: list[dict[str, tuple[Any, ...]]] = []
    first_ms = _judged_ms(scene, served)

    def later() -> bool:
        verdicts = scene.verdicts(served)
        if verdicts not in seen:
            seen.append(verdicts)
        return _judged_ms(scene, served) >= first_ms + seconds * 1000

    eventually(later, "later verdicts")
    return seen


def _judged_ms(scene: Scene, served: Served) -> int:
    status = served.status(scene.stopped)
    assert status is not None
    return int(status["at_ms"])


def _window(served: Served, group: str, topic: str) -> int:
    """Commits in the window of the group's only partition."""
    answer = served.get(f"/v3/kafka/here/consumer/{group}")
    (partition,) = answer["topics"][topic]
    return sum(each is not None for each in partition["offsets"])


def _restarted_once(served: Served) -> bool:
    return served.health()["restarts"] == 1


@pytest.mark.thorough  # deletions that are seen: test_groups_departed
def test_what_was_deleted_while_polled_groups_were_not_watched_is_gone(
    own_kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    kept, left = create_topic(own_kafka, "kept"), create_topic(own_kafka, "left")
    group, gone = unique("group"), unique("gone")
    for topic in (kept, left):
        produce(own_kafka, topic, 50)
        commit(own_kafka, group, topic, 10)
    commit(own_kafka, gone, kept, 10)
    cluster = {"commits": "admin", "committed_interval_s": 1, "log_end_interval_s": 1}
    sections = f'[checkpoint]\npath = "{tmp_path}/state"\n[history]\nstore = "none"\n'

    def topics(served: Served, name: str) -> set[str]:
        committed = served.known(name)["partitions"]
        return {each["topic"] for each in committed if each["end"]}

    with serving(own_kafka.bootstrap_servers, cluster=cluster, sections=sections) as served:
        served.wait_ready()
        eventually(lambda: served.status(gone) is not None, "the groups")
        eventually(lambda: topics(served, group) == {kept, left}, "both topics")
    deleted = ("--delete-offsets", "--group", group, "--topic", left)
    consumer_groups(own_kafka.bootstrap_servers, *deleted)
    consumer_groups(own_kafka.bootstrap_servers, "--delete", "--group", gone)

    with serving(own_kafka.bootstrap_servers, cluster=cluster, sections=sections) as served:
        served.wait_ready()
        eventually(lambda: topics(served, group) == {kept}, "its offsets of one topic are gone")
        eventually(lambda: served.status(gone) is None, "the group is gone", timeout_s=180)
