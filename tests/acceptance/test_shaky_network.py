"""Three brokers behind a network that fails in every way: no false verdict, no crash, recovery.

Only lagwatch goes through the network; producers and consumers are well all the time.
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest

from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.embedded.ports import free_ports
from tests.support.kafka import create_topic, unique
from tests.support.shaky import Fault, ShakyLink, shaky_links
from tests.support.thorough import THOROUGH
from tests.support.traffic import committing, keeping_up, producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import MODES, Watched, watching

pytestmark = pytest.mark.minutes

_BROKERS = 3
_SECTIONS = "[evaluator]\nstop_after_s = 30\nstall_after_s = 30\n"
_QUICK = {"log_end_interval_s": 1, "group_interval_s": 2}
_FAULT_S = 20
_UNSEEN_S = 55
"""`cluster_unseen_s` is 60 by default; the data were some seconds old when the fault began."""
_FURTHER = (
    [(Fault.RESETS, "one"), (Fault.BLACK_HOLE, "all"), (Fault.HALF_OPEN, "one")] if THOROUGH else []
)
_WHERE = {"one": slice(1, 2), "all": slice(0, _BROKERS)}


@dataclass(frozen=True)
class Scene:
    """Brokers, links to them, who watches them, a group that is well and one that stalls."""

    kafka: EmbeddedKafka
    links: Sequence[ShakyLink]
    watches: Sequence[Watched]
    topic: str
    well: str
    stalled: str


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    ports = free_ports(_BROKERS)
    with contextlib.ExitStack() as stack:
        links = stack.enter_context(shaky_links(ports))
        kafka = stack.enter_context(
            EmbeddedKafka(
                brokers=_BROKERS, listeners={"SHAKY": "PLAINTEXT"}, advertised={"SHAKY": ports}
            )
        )
        for link, port in zip(links, kafka.ports_of("SHAKY"), strict=True):
            link.upstream_port = port
        topic = create_topic(kafka, "orders", partitions=6)
        well, stalled = unique("well"), unique("stalled")
        stack.enter_context(
            running(
                producer_of(kafka, topic, rate=60, partitions=6),
                keeping_up(kafka, well, topic),
                committing(kafka, stalled, topic, lambda _: 1, every_s=1.0, partitions=6),
            )
        )
        through = ",".join(f"127.0.0.1:{port}" for port in ports)
        watches = [
            stack.enter_context(
                watching(kafka, mode, sections=_SECTIONS, bootstrap=through, **_QUICK)
            )
            for mode in MODES
        ]
        for watched in watches:
            watched.served.wait_ready()
            eventually(
                lambda watched=watched: well in watched.shown,  # type: ignore[misc]
                f"the group that is well ({watched.mode})",
            )
        # polls do not show that it commits the same offset again: there it may only rest
        eventually(
            lambda: "ERR" in watches[0].statuses(stalled), "the stalled group", timeout_s=120
        )
        yield Scene(
            kafka=kafka, links=links, watches=watches, topic=topic, well=well, stalled=stalled
        )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "where"),
    [
        pytest.param(Fault.LATENCY, "all", marks=pytest.mark.thorough),
        (Fault.RESETS, "all"),
        (Fault.BLACK_HOLE, "one"),
        (Fault.HALF_OPEN, "all"),
        *_FURTHER,
    ],
)
def test_a_network_that_fails_makes_no_false_verdict(
    scene: Scene, fault: Fault, where: str
) -> None:
    for watched in scene.watches:
        watched.shown.clear()
    notices = [len(watched.notices) for watched in scene.watches]
    restarts = [_restarts(watched) for watched in scene.watches]
    for link in scene.links[_WHERE[where]]:
        link.fault = fault
    time.sleep(_FAULT_S)  # noqa: TID251 how long the fault lasts
    for link in scene.links:
        link.fault = Fault.NONE
    recovered = [_recovered_s(watched) for watched in scene.watches]

    for watched, before, lives, took_s in zip(
        scene.watches, notices, restarts, recovered, strict=True
    ):
        print(  # noqa: T201 figures, for who runs it by hand
            f"{fault} of {where} for {_FAULT_S} s, {watched.mode}: recovered in {took_s:.1f} s, "
            f"{_restarts(watched) - lives} restarts of the collector",
            file=sys.stderr,
        )
        assert watched.served.process.poll() is None
        assert watched.statuses(scene.well) <= {"OK"}, watched.shown[scene.well]
        if watched.mode == "offsets-topic":
            assert watched.statuses(scene.stalled) <= {"ERR"}, watched.shown[scene.stalled]
        # a cluster of which no fresh data came for a minute is reported, and rightly
        unseen = _FAULT_S + took_s > _UNSEEN_S and where == "all"
        right = {scene.stalled, *([""] if unseen else [])}
        assert [each for each in watched.notices[before:] if each[0] not in right] == []


def _restarts(watched: Watched) -> int:
    return int(watched.served.health()["restarts"])


def _recovered_s(watched: Watched) -> float:
    """Seconds until log ends and commits that came after now are known, and nothing is wrong."""
    began_s = time.monotonic()

    def well() -> bool:
        health = watched.served.health()
        passed_s = time.monotonic() - began_s
        return (
            watched.served.ready()
            and not health["problems"]
            and health["age_s"] is not None
            and health["age_s"] < passed_s
            and health["data_age_s"] < passed_s
        )

    eventually(
        well,
        f"recovery ({watched.mode})",
        timeout_s=90,
        why_not=lambda: str(watched.served.health()),
    )
    return time.monotonic() - began_s
