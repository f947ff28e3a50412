"""A broker goes, and with it the only replica of some partitions: who is told what."""

import contextlib
import threading
from typing import Final

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, reading
from tests.support.kafka import create_topic, produce, unique
from tests.support.traffic import producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, QUICK_RULES, Watched, watching

_PARTITIONS: Final = 6
_AWAY_S: Final = 30
"""More than twice what a group may be silent by these rules."""
_CLUSTER: Final = {"log_end_interval_s": 1, "group_interval_s": 2, "topic_interval_s": 2}


def _cause(watched: Watched, group: str) -> str:
    """The cause that is shown; "" for none."""
    name: str = ((watched.group(group) or {}).get("cause") or {}).get("name", "")
    return name


def _all_ok(watched: Watched, group: str) -> None:
    def ok() -> bool:
        partitions = (watched.group(group) or {}).get("partitions") or ()
        return [each["status"] for each in partitions] == ["OK"] * _PARTITIONS

    eventually(ok, f"{watched.mode}: all partitions are OK", timeout_s=90)


@pytest.mark.timeout(300)
def test_a_leader_that_is_away_is_named_as_the_cause_and_no_consumer_blamed(
    three_brokers: EmbeddedKafka,
) -> None:
    topic = create_topic(three_brokers, partitions=_PARTITIONS, replicas=1)
    for partition in range(_PARTITIONS):
        produce(three_brokers, topic, 10, partition=partition)
    group = unique("leaderless")
    with contextlib.ExitStack() as stack:
        watches = [
            stack.enter_context(watching(three_brokers, mode, sections=QUICK_RULES, **_CLUSTER))
            for mode in MODES
        ]
        traffic = producer_of(three_brokers, topic, rate=60, partitions=_PARTITIONS)
        stack.enter_context(
            running(traffic, reading(three_brokers, group, topic, properties=KINDS["eager"]))
        )
        for watched in watches:
            watched.served.wait_ready()
            _all_ok(watched, group)

        three_brokers.kill_broker(2)
        try:
            for watched in watches:
                eventually(
                    lambda watched=watched: _cause(watched, group) == "broker_away",  # type: ignore[misc]
                    f"{watched.mode}: it is named",
                    timeout_s=60,
                )
            threading.Event().wait(_AWAY_S)  # the case itself
        finally:
            three_brokers.start_broker(2)
        for watched in watches:
            eventually(
                lambda watched=watched: _cause(watched, group) == "",  # type: ignore[misc]
                f"{watched.mode}: it has come back",
                timeout_s=90,
            )
            _all_ok(watched, group)

    for watched in watches:
        assert watched.statuses(group) <= {"OK", "UNKNOWN"}, watched.shown[group]
        assert watched.notices == [], watched.mode
