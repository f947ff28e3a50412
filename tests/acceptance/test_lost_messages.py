"""Messages deleted before a group read them: shown, counted through restarts, acknowledged."""

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, produce, unique
from tests.support.served import Served, serving
from tests.support.traffic import committing, keeping_up, running
from tests.support.waiting import eventually
from tests.support.watched import Oracle


class Scene:
    """A consumer that goes on committing offset 100 of a topic of 1,000 messages."""

    def __init__(
        self, kafka: EmbeddedKafka, mode: str, folder: Path, *, checkpoint_s: int = 1
    ) -> None:
        self.kafka = kafka
        self.topic, self.group = create_topic(kafka, "lost"), unique("loser")
        self._mode = mode
        self._sections = (
            "[evaluator]\ninterval_s = 0.5\n"
            f'[checkpoint]\npath = "{folder / "state"}"\ninterval_s = {checkpoint_s}\n'
            f'[history]\nurl = "{folder / "history"}"\nspool = "{folder / "spool"}"\n'
            "interval_s = 1\nflush_s = 1\n"
        )

    def serving(self):
        return serving(
            self.kafka.bootstrap_servers,
            cluster={
                "commits": self._mode,
                "log_end_interval_s": 1,
                **({"committed_interval_s": 1} if self._mode == "admin" else {}),
                "topic_allow": f"^{self.topic}$",
            },
            sections=self._sections,
        )

    def partition(self, served: Served) -> dict[str, Any]:
        status = served.status(self.group) or {"partitions": [{}]}
        (partition,) = status["partitions"]
        return dict(partition)

    def counts(self, served: Served) -> tuple[Any, ...]:
        """Rule, messages lost, messages to read, lag."""
        partition = self.partition(served)
        names = ("rule", "lost", "readable_lag", "current_lag")
        return tuple(partition.get(name) for name in names)

    def lose(self, served: Served, oracle: Oracle) -> None:
        """Delete 300 of the 900 messages that the group, which is at offset 100, has not read."""
        served.wait_ready()
        eventually(lambda: self.counts(served)[1:] == (0, 900, 900), "nothing is lost")
        oracle.delete_records(self.topic, 400)
        self.wait(served, "records_lost", 300, 600, 900)

    def wait(self, served: Served, *counts: object) -> None:
        eventually(
            lambda: self.counts(served) == counts,
            f"{counts}, not {self.counts(served)}",
            timeout_s=120,
        )

    def sentence(self, served: Served) -> str:
        answer = served.get(f"/api/v1/clusters/here/groups/{self.group}")
        return str(answer["worst"]["text"])

    def events(self, served: Served) -> list[tuple[int, int, int]]:
        """Messages, first offset and end of each loss in the history."""
        path = f"/api/v1/clusters/here/groups/{self.group}/events?fields=event,count,detail"
        details = [
            (event["count"], json.loads(event["detail"]))
            for event in served.get(path)["points"]
            if event["event"] == "records_lost"
        ]
        return [(count, detail["first"], detail["end"]) for count, detail in details]

    def pass_time(self, served: Served, seconds: int) -> None:
        """Wait until verdicts are so much younger."""
        before_ms = served.known(self.group)["at_ms"]
        eventually(
            lambda: served.known(self.group)["at_ms"] >= before_ms + 1_000 * seconds,
            f"verdicts {seconds} s later",
        )

    def state(self, served: Served) -> str:
        """That of the group, as Kafka describes it."""
        answer = served.get(f"/api/v1/clusters/here/groups/{self.group}")
        return str(answer["info"]["state"])

    def acknowledge(self, served: Served) -> int:
        path = f"{served.base}/api/v1/clusters/here/groups/{self.group}/losses/acknowledge"
        request = urllib.request.Request(path, method="POST")  # noqa: S310 loopback
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 loopback
            return int(json.load(answer)["partitions"])

    def acknowledge_all(self, served: Served) -> dict[str, Any]:
        """Every group whose name begins as this one's."""
        request = urllib.request.Request(  # noqa: S310 loopback
            f"{served.base}/api/v1/losses/acknowledge",
            json.dumps({"groups": [f"{self.group[:-1]}*"]}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 loopback
            found: dict[str, Any] = json.load(answer)
        return found

    def saved(self, folder: Path) -> None:
        """Wait for a checkpoint that begins after now."""
        file = folder / "state" / "here.checkpoint"
        for _ in range(2):
            before = file.stat().st_mtime_ns if file.exists() else 0
            eventually(
                lambda before=before: file.exists() and file.stat().st_mtime_ns > before,  # type: ignore[misc]
                "a checkpoint",
            )


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mode", ["offsets-topic", pytest.param("admin", marks=pytest.mark.thorough)]
)
def test_a_loss_is_counted_through_restarts_until_it_is_acknowledged(
    kafka: EmbeddedKafka, mode: str, tmp_path: Path
) -> None:
    scene, oracle = Scene(kafka, mode, tmp_path), Oracle(kafka)
    produce(kafka, scene.topic, 1_000)
    with running(committing(kafka, scene.group, scene.topic, lambda _: 100, every_s=1.0)):
        with scene.serving() as first:
            scene.lose(first, oracle)
            sentence = scene.sentence(first)
            eventually(lambda: scene.events(first) == [(300, 100, 400)], "the event")
            scene.saved(tmp_path)

        with scene.serving() as second:
            second.wait_ready()
            scene.wait(second, "records_lost", 300, 600, 900)
            acknowledged = scene.acknowledge(second), scene.acknowledge(second)
            hidden = scene.counts(second)
            scene.saved(tmp_path)

        with scene.serving() as third:
            third.wait_ready()
            eventually(lambda: scene.counts(third)[1:] == (300, 600, 900), "still counted")
            still_hidden = scene.counts(third)[0]
            oracle.delete_records(scene.topic, -1)  # all there is
            scene.wait(third, "records_lost", 900, 0, 900)
            rest = scene.sentence(third)
            eventually(lambda: len(scene.events(third)) == 2, "another event")
            events = scene.events(third)

    assert oracle.log_start(scene.topic) == oracle.log_end(scene.topic) == 1_000
    assert "300 messages deleted before the group read them" in sentence
    assert acknowledged == (1, 0)
    assert hidden[0] != "records_lost"
    assert hidden[1:] == (300, 600, 900)
    assert still_hidden != "records_lost"
    assert "600 messages deleted before the group read them (and 300 before that" in rest
    assert sorted(events) == [(300, 100, 400), (600, 400, 1_000)]


@pytest.mark.timeout(600)
def test_an_acknowledgement_is_kept_although_the_process_is_killed_right_after_it(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    scene, oracle = Scene(kafka, "offsets-topic", tmp_path, checkpoint_s=3600), Oracle(kafka)
    produce(kafka, scene.topic, 1_000)
    with running(committing(kafka, scene.group, scene.topic, lambda _: 100, every_s=1.0)):
        with scene.serving() as first:
            scene.lose(first, oracle)
            eventually((tmp_path / "state" / "here.checkpoint").exists, "the loss is kept")
            acknowledged = scene.acknowledge_all(first)
            os.kill(first.pid, signal.SIGKILL)
            first.process.wait()

        with scene.serving() as second:
            second.wait_ready()
            eventually(lambda: scene.counts(second)[1:] == (300, 600, 900), "the loss is known")
            rule = scene.counts(second)[0]
            restored = second.log.read_text()

    assert acknowledged == {
        "acknowledged": [
            {
                "cluster": "here",
                "group": scene.group,
                "partitions": 1,
                "lost": 300,
                "lost_is": "exact",
            }
        ],
        "matching": 1,
        "unmatched": [],
    }
    assert "checkpoint_restored" in restored
    assert rule not in (None, "records_lost")


@pytest.mark.timeout(600)
def test_what_is_deleted_while_a_fast_consumer_is_started_anew_is_lost(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    scene, oracle = Scene(kafka, "offsets-topic", tmp_path), Oracle(kafka)
    place = (scene.topic, 0)
    with scene.serving() as served:
        served.wait_ready()
        with running(keeping_up(kafka, scene.group, scene.topic, every_s=0.5)):
            for end in range(1_000, 7_000, 1_000):
                produce(kafka, scene.topic, 1_000)
                eventually(
                    lambda end=end: oracle.committed(scene.group).get(place) == end,  # type: ignore[misc]
                    f"{end} are read",
                )
        produce(kafka, scene.topic, 400)
        eventually(lambda: scene.counts(served)[1:] == (0, 400, 400), "the group waits")
        eventually(lambda: scene.state(served) == "Empty", "it has no members")
        scene.pass_time(served, 3)  # a round finds all of it
        oracle.delete_records(scene.topic, 6_333)
        scene.pass_time(served, 10)
        with running(keeping_up(kafka, scene.group, scene.topic, every_s=0.5)):
            eventually(lambda: scene.counts(served)[2:] == (0, 0), "it is back at the log end")
            scene.pass_time(served, 5)
            counts = scene.counts(served)
        eventually(lambda: len(scene.events(served)) == 1 or counts[1] == 0, "the event")
        events = scene.events(served)

    assert counts == ("records_lost", 333, 0, 0)
    assert events == [(333, 6_000, 6_333)]
