"""A group's coordinator moves to another broker, and the one that had it is there again."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support import coordinator_child
from tests.support.kafka import create_topic, unique

_EVERY_S = 0.5
_TIMES = 120
_TRIES = 3
"""The client library may abort the child: the collector is started again then."""


def commit(kafka: EmbeddedKafka, topic: str, offset: int) -> str:
    group = unique("group")
    consumer = Consumer(kafka.admin_config() | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    return group


class Asked:
    """A group that one process asks about, again and again."""

    def __init__(self, kafka: EmbeddedKafka, group: str) -> None:
        command = [sys.executable, str(Path(coordinator_child.__file__))]
        self.process = subprocess.Popen(
            [*command, kafka.bootstrap_servers, group],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def known(self) -> tuple[int, int]:
        """Its coordinator and committed offset, once there are both.

        Raises:
            ChildProcessError: the process was aborted.
        """
        for _ in range(_TIMES):
            coordinator, offset = self.ask()
            if coordinator is not None and offset is not None:
                return coordinator, offset
            time.sleep(_EVERY_S)  # noqa: TID251 asks a process of its own
        raise TimeoutError

    def ask(self) -> list[int | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ChildProcessError from None
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError
        answer: list[int | None] = json.loads(line)
        return answer

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.timeout(600)
def test_groups_are_asked_at_their_new_coordinator(three_brokers: EmbeddedKafka) -> None:
    kafka = three_brokers
    topic = create_topic(kafka, "moved")
    for _ in range(_TRIES):
        asked = Asked(kafka, commit(kafka, topic, 7))
        try:
            before, _ = asked.known()
            # nothing is asked meanwhile
            kafka.stop_broker(before - 1)
            kafka.start_broker(before - 1)
            after, offset = asked.known()
        except ChildProcessError:
            continue
        finally:
            asked.end()
        assert after != before
        assert offset == 7
        return
    raise AssertionError("the client library aborted each time")
