"""A broker that was frozen comes back and does not know yet that it is no coordinator any more."""

import os
import signal

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.coordinator_asked import Asked
from tests.support.kafka import commit, create_topic, unique


def test_offsets_are_asked_for_some_seconds_after_a_frozen_coordinator_answers_again() -> None:
    """The client library aborts the process where the broker turns out to be no coordinator."""
    with EmbeddedKafka() as kafka:
        group = unique("group")
        commit(kafka, group, create_topic(kafka, "frozen"), 7)
        asked = Asked(kafka, group)
        try:
            assert asked.known()[1] == 7
            (pid,) = kafka.pids
            os.kill(pid, signal.SIGSTOP)
            frozen = asked.ask()
            os.kill(pid, signal.SIGCONT)
            coordinator, offset = asked.ask()
            while coordinator is None:
                coordinator, offset = asked.ask()
            again = asked.known()
        finally:
            asked.end()

    assert frozen == [None, None]
    assert offset is None, "the broker answers, and nothing was asked of it yet"
    assert again[1] == 7
