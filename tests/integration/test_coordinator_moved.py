"""A group's coordinator moves to another broker, and the one that had it is there again."""

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.coordinator_asked import Asked
from tests.support.kafka import commit, create_topic, unique

_ROUNDS = 3


@pytest.mark.timeout(600)
def test_groups_are_asked_at_their_new_coordinator(three_brokers: EmbeddedKafka) -> None:
    topic = create_topic(three_brokers, "moved")
    ended = sum(_ended_by_a_restart(three_brokers, topic) for _ in range(_ROUNDS))

    # the client library ends the process where the coordinator moves just while it is asked
    assert ended <= 1


def _ended_by_a_restart(kafka: EmbeddedKafka, topic: str) -> bool:
    """Restart the coordinator's broker; did the process that asks end by it?"""
    group = unique("group")
    commit(kafka, group, topic, 7)
    asked = Asked(kafka, group)
    try:
        before, _ = asked.known()
        # nothing is asked meanwhile
        kafka.stop_broker(before - 1)
        kafka.start_broker(before - 1)
        after, offset = asked.known()
    except ChildProcessError:
        return True
    finally:
        asked.end()
    assert after != before
    assert offset == 7
    return False
