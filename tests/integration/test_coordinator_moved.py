"""A group's coordinator moves to another broker, and the one that had it is there again."""

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.coordinator_asked import Asked
from tests.support.kafka import commit, create_topic, unique

_TRIES = 3
"""The client library may abort the child: the collector is started again then."""


@pytest.mark.timeout(600)
def test_groups_are_asked_at_their_new_coordinator(three_brokers: EmbeddedKafka) -> None:
    kafka = three_brokers
    topic = create_topic(kafka, "moved")
    for _ in range(_TRIES):
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
            continue
        finally:
            asked.end()
        assert after != before
        assert offset == 7
        return
    raise AssertionError("the client library aborted each time")
