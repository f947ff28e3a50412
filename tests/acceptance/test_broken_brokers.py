"""Brokers die and come back under live traffic: no false verdict, and no window lost."""

import itertools
import time

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, unique
from tests.support.served import Served, serving
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually

QUICK = {"log_end_interval_s": 1, "group_interval_s": 2}
RESTARTS = 20


def _watch(served: Served, group: str, seen: set[str], until_s: float) -> None:
    """Note every status shown until then."""
    while time.monotonic() < until_s:
        verdict = served.status(group)
        assert verdict is not None, "the group was forgotten"
        seen.add(verdict["status"])
        time.sleep(0.2)  # noqa: TID251 samples what is shown over time


def _asked_since(served: Served, at_s: float) -> bool:
    """Are log ends known that were asked for after this time of the monotonic clock?"""
    age_s = served.health()["age_s"]
    return age_s is not None and age_s < time.monotonic() - at_s


def test_a_broker_of_three_that_dies_makes_no_false_verdict(three_brokers: EmbeddedKafka) -> None:
    kafka = three_brokers
    topic, group = create_topic(kafka, "replicated", partitions=6), unique("healthy")
    stalled = unique("stalled")
    with (
        running(
            producer_of(kafka, topic, rate=120, partitions=6),
            keeping_up(kafka, group, topic),
            committing(kafka, stalled, topic, lambda _: 1, every_s=1.0, partitions=6),
        ),
        serving(kafka.bootstrap_servers, cluster=QUICK) as served,
    ):
        served.wait_ready()
        eventually(
            lambda: (served.status(stalled) or {}).get("status") == "ERR", "the stalled group"
        )
        eventually(lambda: (served.status(group) or {}).get("complete") == 1, "full windows")
        seen: set[str] = set()
        kafka.kill_broker(1)
        _watch(served, group, seen, time.monotonic() + 12)
        kafka.start_broker(1)
        back_s = time.monotonic()
        _watch(served, group, seen, back_s + 6)
        eventually(lambda: _asked_since(served, back_s), "log ends after the recovery")
        still = served.status(stalled)["status"]

    assert seen == {"OK"}
    assert still == "ERR"


@pytest.mark.timeout(900)
def test_twenty_restarts_of_a_single_broker_leave_service_verdicts_and_windows_whole(
    own_kafka: EmbeddedKafka,
) -> None:
    kafka = own_kafka
    topic, group, stalled = create_topic(kafka, "single"), unique("healthy"), unique("stalled")
    with (
        running(
            producer_of(kafka, topic, rate=60),
            keeping_up(kafka, group, topic),
            committing(kafka, stalled, topic, lambda _: 1, every_s=1.0),
        ),
        serving(kafka.bootstrap_servers, cluster=QUICK) as served,
    ):
        served.wait_ready()
        eventually(lambda: (served.status(group) or {}).get("complete") == 1, "full windows")
        for number in range(RESTARTS):
            (kafka.kill_broker if number % 2 else kafka.stop_broker)(0)
            # the service answers while Kafka is away, from what it knew
            assert served.status(group)["complete"] == 1
            kafka.start_broker(0)
            back_s = time.monotonic()
            eventually(
                lambda back_s=back_s: _asked_since(served, back_s),  # type: ignore[misc]
                f"log ends after restart {number + 1}",
            )
        eventually(lambda: served.status(stalled)["status"] == "ERR", "the stalled group still ERR")
        eventually(
            # its consumer has to find the broker again, and to read what was produced meanwhile
            lambda: served.status(group)["status"] == "OK",
            "the healthy group OK",
            timeout_s=120,
        )
        (partition,) = served.get(f"/v3/kafka/here/consumer/{group}")["topics"][topic]
        process_alive = served.process.poll() is None

    assert process_alive
    orders = [entry["timestamp"] for entry in partition["offsets"]]
    assert None not in partition["offsets"]
    assert orders == sorted(orders)
    offsets = [entry["offset"] for entry in partition["offsets"]]
    assert all(later >= earlier for earlier, later in itertools.pairwise(offsets))
