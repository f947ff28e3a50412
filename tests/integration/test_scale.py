"""`…/scale` for a real group on a real broker that falls behind and is then out of sight."""

import contextlib
import urllib.error
import urllib.request
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import create_topic, produce, unique
from tests.support.served import Served, serving
from tests.support.waiting import eventually

_QUICK = '[evaluator]\ninterval_s = 0.5\n[history]\nstore = "none"\n'
_PARTITIONS = 4


def test_a_group_is_advised_more_consumers_and_keeps_them_while_it_is_not_seen(
    kafka: EmbeddedKafka,
) -> None:
    topic, group = create_topic(kafka, "scaled", partitions=_PARTITIONS), unique("scaled")
    options: dict[str, object] = {"log_end_interval_s": 0.5, "group_interval_s": 0.5}
    member = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    path = f"/api/v1/clusters/here/groups/{group}/scale?target=5s"
    offsets = count(1)

    def falls_behind(lagwatch: Served) -> bool:
        """Produces 20 messages to each partition, of which one is read; is there new advice?"""
        _read_on(kafka, member, topic, next(offsets))
        answer = lagwatch.get(path)
        return not answer["held"] and answer["desired_consumers"] > 1

    try:
        member.subscribe([topic])
        eventually(lambda: _holds(member) == _PARTITIONS, "the member to hold all partitions")
        _read_on(kafka, member, topic, 0)
        with serving(kafka.bootstrap_servers, cluster=options, sections=_QUICK) as lagwatch:
            lagwatch.wait_ready()
            eventually(lambda: group in lagwatch.groups(), "the group")
            eventually(lambda: lagwatch.get(path)["consumers"] == 1, "its member")
            first = lagwatch.get(path)
            eventually(lambda: falls_behind(lagwatch), "advice from rates", timeout_s=120)
            advised = lagwatch.get(path)
            eventually(lambda: _is_held(lagwatch, group, path), "the number to be held")
            held = lagwatch.get(path)
    finally:
        member.close()

    assert (first["desired_consumers"], first["partitions"]) == (1, _PARTITIONS)
    assert advised["produced_per_s"] > advised["consumed_per_s"] > 0
    assert 1 < advised["desired_consumers"] <= _PARTITIONS
    assert held["desired_consumers"] >= advised["desired_consumers"]
    assert held["reason"] == "the group is not known now"


def test_the_number_is_held_through_a_restart(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    topic, group = create_topic(kafka, "scaled", partitions=_PARTITIONS), unique("scaled")
    options: dict[str, object] = {"log_end_interval_s": 0.5, "group_interval_s": 0.5}
    sections = f'{_QUICK}[checkpoint]\npath = "{tmp_path / "state"}"\n'
    member = Consumer(kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    path = f"/api/v1/clusters/here/groups/{group}/scale?target=5s"
    offsets = count(1)
    try:
        member.subscribe([topic])
        eventually(lambda: _holds(member) == _PARTITIONS, "the member to hold all partitions")
        _read_on(kafka, member, topic, 0)
        with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as lagwatch:
            lagwatch.wait_ready()
            eventually(lambda: group in lagwatch.groups(), "the group")

            def advised() -> bool:
                _read_on(kafka, member, topic, next(offsets))
                answer = lagwatch.get(path)
                return not answer["held"] and answer["desired_consumers"] > 1

            eventually(advised, "advice from rates", timeout_s=120)
            before = lagwatch.get(path)
        with serving(kafka.bootstrap_servers, cluster=options, sections=sections) as lagwatch:
            lagwatch.wait_ready()
            after = lagwatch.get(path)
    finally:
        member.close()

    assert after["held"], after
    assert after["desired_consumers"] >= before["desired_consumers"] > 1
    assert after["at_ms"] >= before["at_ms"]


def _holds(member: Consumer) -> int:
    member.poll(0.1)
    return len(member.assignment())


def _read_on(kafka: EmbeddedKafka, member: Consumer, topic: str, offset: int) -> None:
    for partition in range(_PARTITIONS):
        produce(kafka, topic, 20, partition=partition)
    places = [TopicPartition(topic, partition, offset) for partition in range(_PARTITIONS)]
    member.commit(offsets=places, asynchronous=False)


def _is_held(lagwatch: Served, group: str, path: str) -> bool:
    """Forget the group: its last commit may still be on its way, and bring it back."""
    with contextlib.suppress(urllib.error.HTTPError):  # it is forgotten already
        _forget(lagwatch, group)
    return bool(lagwatch.get(path)["held"])


def _forget(lagwatch: Served, group: str) -> None:
    url = f"{lagwatch.base}/v3/kafka/here/consumer/{group}"
    with urllib.request.urlopen(  # noqa: S310 loopback
        urllib.request.Request(url, method="DELETE"),  # noqa: S310
        timeout=30,
    ):
        pass
