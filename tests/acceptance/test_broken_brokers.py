"""Brokers die and come back under live traffic: no false verdict, and no window lost."""

import contextlib
import itertools
import os
import signal
import time

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, unique
from tests.support.served import Served, serving
from tests.support.thorough import rounds
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

pytestmark = pytest.mark.minutes

QUICK = {"log_end_interval_s": 1, "group_interval_s": 2}
SOON = "[evaluator]\nstop_after_s = 10\nstall_after_s = 10\n"
"""Limits of the rules that let a test see a group stop or stall."""
_LONGER = "[evaluator]\nstop_after_s = 30\nstall_after_s = 50\n"
RESTARTS = rounds(20, quick=4)


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


@pytest.mark.thorough
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
        serving(kafka.bootstrap_servers, cluster=QUICK, sections=SOON) as served,
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
        still = served.known(stalled)["status"]

    assert seen == {"OK"}
    assert still == "ERR"


@pytest.mark.timeout(600)
def test_a_rolling_restart_of_three_brokers_makes_no_notice(three_brokers: EmbeddedKafka) -> None:
    kafka = three_brokers
    topic = create_topic(kafka, "rolling", partitions=6)
    # several groups: their coordinators move from broker to broker
    groups = [unique("healthy") for _ in range(4)]
    with (
        running(
            producer_of(kafka, topic, rate=60, partitions=6),
            *(keeping_up(kafka, group, topic) for group in groups),
        ),
        contextlib.ExitStack() as stack,
    ):
        watches = [
            stack.enter_context(watching(kafka, mode, sections=_LONGER, **QUICK)) for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
            eventually(
                lambda watched=watched: set(groups) <= watched.shown.keys(),  # type: ignore[misc]
                f"all groups ({watched.mode})",
            )
        before = _coordinators(watches[0], groups)
        moved = set()
        for broker in range(3):
            kafka.stop_broker(broker)
            kafka.start_broker(broker)
            back_s = time.monotonic()
            for watched in watches:
                eventually(
                    lambda watched=watched, back_s=back_s: _asked_since(watched.served, back_s),  # type: ignore[misc]
                    f"log ends after it ({watched.mode})",
                )
            moved |= _coordinators(watches[0], groups) - before
        for watched in watches:
            eventually(
                lambda watched=watched: watched.served.ready() and not _unseen(watched.served),  # type: ignore[misc]
                f"everything is seen again ({watched.mode})",
                timeout_s=120,
            )
            assert [each for each in watched.notices if each[0] in groups] == [], watched.mode
            for group in groups:
                shown = f"{group} ({watched.mode}): {watched.shown[group]}"
                assert not watched.statuses(group) & {"ERR", "WARN"}, shown
        # groups are asked for more seldom than log ends: the last moves may be shown by now only
        moved |= _coordinators(watches[0], groups) - before

    assert moved, "no coordinator moved"


def _coordinators(watched: Watched, groups: list[str]) -> set[tuple[str, int]]:
    """The broker that coordinates each group, as lagwatch shows it."""
    infos = {group: (watched.group(group) or {}).get("info") for group in groups}
    return {(group, info["coordinator"]) for group, info in infos.items() if info is not None}


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_a_broker_of_three_that_is_frozen_for_a_minute_makes_no_notice(
    three_brokers: EmbeddedKafka,
) -> None:
    kafka = three_brokers
    topic = create_topic(kafka, "frozen", partitions=6)
    # several groups: their coordinators are different brokers
    groups = [unique("healthy") for _ in range(4)]
    said: dict[str, set[str]] = {mode: set() for mode in MODES}
    with (
        running(
            producer_of(kafka, topic, rate=60, partitions=6),
            *(keeping_up(kafka, group, topic) for group in groups),
        ),
        contextlib.ExitStack() as stack,
    ):
        watches = [
            stack.enter_context(watching(kafka, mode, sections=_LONGER, **QUICK)) for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
            eventually(
                lambda watched=watched: set(groups) <= watched.shown.keys(),  # type: ignore[misc]
                f"all groups ({watched.mode})",
            )
        pid = kafka.pids[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            until_s = time.monotonic() + 60
            while time.monotonic() < until_s:
                for watched in watches:
                    said[watched.mode].update(_unseen(watched.served))
                time.sleep(0.5)  # noqa: TID251 samples what is shown over time
        finally:
            os.kill(pid, signal.SIGCONT)
        back_s = time.monotonic()
        for watched in watches:
            eventually(
                lambda watched=watched: _asked_since(watched.served, back_s),  # type: ignore[misc]
                f"log ends after it ({watched.mode})",
            )
            eventually(
                lambda watched=watched: watched.served.ready() and not _unseen(watched.served),  # type: ignore[misc]
                f"everything is seen again ({watched.mode})",
                timeout_s=120,
            )
        for watched in watches:
            # groups of other tests on these brokers may be in trouble
            assert [each for each in watched.notices if each[0] in groups] == [], watched.mode
            for group in groups:
                shown = f"{group} ({watched.mode}): {watched.shown[group]}"
                # of polled offsets too little is seen at first: that is no trouble
                assert not watched.statuses(group) & {"ERR", "WARN"}, shown

    assert all(said.values()), said


def _unseen(served: Served) -> list[str]:
    """What the cluster's part of /readyz says is wrong."""
    health = served.health()
    return [*health["problems"], *([health["reason"]] if health["reason"] else [])]


@pytest.mark.timeout(900)
@pytest.mark.thorough  # the rolling restart of three, and test_healthy_groups
def test_restarts_of_a_single_broker_leave_service_verdicts_and_windows_whole(
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
        serving(kafka.bootstrap_servers, cluster=QUICK, sections=SOON) as served,
    ):
        served.wait_ready()
        eventually(lambda: (served.status(group) or {}).get("complete") == 1, "full windows")
        for number in range(RESTARTS):
            (kafka.kill_broker if number % 2 else kafka.stop_broker)(0)
            # the service answers while Kafka is away, from what it knew
            assert served.known(group)["complete"] == 1
            kafka.start_broker(0)
            back_s = time.monotonic()
            eventually(
                lambda back_s=back_s: _asked_since(served, back_s),  # type: ignore[misc]
                f"log ends after restart {number + 1}",
            )
        eventually(lambda: served.known(stalled)["status"] == "ERR", "the stalled group still ERR")
        eventually(
            # its consumer has to find the broker again, and to read what was produced meanwhile
            lambda: served.known(group)["status"] == "OK",
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
