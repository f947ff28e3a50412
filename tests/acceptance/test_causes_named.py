"""Faults of real consumers and producers are named as the cause, and nothing wrong is certain.

The times of the rules are a fifteenth of the defaults. All cases run at the same time.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from lagwatch.cli import app as command
from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.consumers import KINDS, consumer_process, reading
from tests.support.kafka import Transactions, commit, create_topic, produce, unique
from tests.support.traffic import committing, producer_of, running
from tests.support.waiting import eventually
from tests.support.watched import Oracle, Watched, watching

_EVALUATOR: Final = "[evaluator]\nstop_after_s = 12\nstall_after_s = 20\n"
_CLUSTER: Final[Mapping[str, Any]] = {
    "log_end_interval_s": 1,
    "group_interval_s": 1,
    "topic_interval_s": 2,
    "read_committed_groups": "^open-",
}
_LATE_S: Final = 90
_RATE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One broker and the service that watches it."""

    kafka: EmbeddedKafka
    watched: Watched

    def cause(self, group: str) -> Mapping[str, Any]:
        """The cause that is shown now; {} while there is none."""
        return (self.watched.group(group) or {}).get("cause") or {}

    def notices(self, group: str) -> list[Mapping[str, Any]]:
        """Those that the webhook received about a group."""
        return [each for each in self.watched.receiver.notices if each["group"] == group]

    def named(self, group: str, name: str, certainty: str) -> Mapping[str, Any]:
        """Wait for this cause; until then no other one may be called certain."""
        seen: list[Mapping[str, Any]] = [{}]

        def shown() -> bool:
            seen.append(self.cause(group))
            return (seen[-1].get("name"), seen[-1].get("certainty")) == (name, certainty)

        with contextlib.suppress(AssertionError):
            eventually(shown, name, timeout_s=_LATE_S)
        told = {(each.get("name"), each.get("certainty")) for each in seen}
        assert (name, certainty) in told, f"{group}: not {name}, but {told}: {seen[-1]}"
        assert {each for each, sure in told if sure == "certain"} <= {name}, told
        return seen[-1]

    def has_members(self, group: str, number: int) -> None:
        def counted() -> bool:
            info = (self.watched.group(group) or {}).get("info") or {}
            return info.get("members") == number and info["state"] in {"Stable", "Empty"}

        eventually(counted, f"{number} members of {group}", timeout_s=_LATE_S)


def _killed(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "killed"), unique("killed")
    with running(producer_of(scene.kafka, topic, rate=_RATE)):
        with consumer_process(scene.kafka, group, topic) as process:
            scene.has_members(group, 1)
            eventually(lambda: scene.watched.commits(group, topic) >= 4, "commits")
            process.kill()
        cause = scene.named(group, "no_members", "certain")
        assert cause["evidence"]["state"] == "Empty"
        assert " on 127.0.0.1" in cause["evidence"]["last_member"]
        url = scene.watched.served.base
        told = CliRunner().invoke(command, ["explain", group, "--url", url])
        assert "cause (certain): no_members" in told.output


def _stuck(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "stuck"), unique("stuck")
    with running(
        producer_of(scene.kafka, topic, rate=_RATE),
        committing(scene.kafka, group, topic, lambda number: min(number, 5), every_s=1.0),
    ):
        cause = scene.named(group, "stuck_on_record", "likely")
        assert cause["evidence"]["offset"] == 5
        eventually(lambda: bool(scene.notices(group)), "the notice")
        (notice,) = scene.notices(group)
        assert notice["cause"]["sentence"] == cause["sentence"]
        assert cause["sentence"].startswith("Cause (likely): the consumer does not get past")


def _open_transaction(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "open"), unique("open")
    produce(scene.kafka, topic, 10)
    transactions = Transactions(scene.kafka)
    transactions.write(topic, 5)
    try:
        properties = {**KINDS["read-committed"], "auto.commit.interval.ms": 500}
        with running(reading(scene.kafka, group, topic, properties=properties)):
            cause = scene.named(group, "open_transaction", "certain")
            assert cause["evidence"]["last_stable_offset"] == 10
            assert cause["evidence"]["transactional_id"] == transactions.name
    finally:
        transactions.abort()


def _control_records(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "marks"), unique("marks")
    transactions = Transactions(scene.kafka)
    transactions.write(topic, 25)
    transactions.commit()
    commit(scene.kafka, group, topic, 25)
    assert scene.named(group, "control_records", "certain")["evidence"]["current_lag"] == 1


def _reset(scene: Scene) -> None:
    topic, group = create_topic(scene.kafka, "reset"), unique("reset")
    produce(scene.kafka, topic, 100)
    properties = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 500}
    with running(reading(scene.kafka, group, topic, properties=properties)):
        scene.has_members(group, 1)
        eventually(lambda: Oracle(scene.kafka).committed(group) == {(topic, 0): 100}, "read")
        eventually(lambda: scene.watched.commits(group, topic) >= 1, "seen")
    scene.has_members(group, 0)
    commit(scene.kafka, group, topic, 30)
    cause = scene.named(group, "offsets_reset", "certain")
    assert (cause["evidence"]["offset_before"], cause["evidence"]["offset_after"]) == (100, 30)


def _unsubscribed(scene: Scene) -> None:
    left, kept = create_topic(scene.kafka, "left"), create_topic(scene.kafka, "kept")
    group = unique("unsubscribed")
    properties = {"session.timeout.ms": 10_000, "auto.commit.interval.ms": 500}
    with running(
        producer_of(scene.kafka, left, rate=_RATE), producer_of(scene.kafka, kept, rate=_RATE)
    ):
        with running(reading(scene.kafka, group, left, kept, properties=properties)):
            eventually(lambda: scene.watched.commits(group, left) >= 3, "both are read")
        with running(reading(scene.kafka, group, kept, properties=properties)):
            assert scene.named(group, "unsubscribed_topic", "certain")["topic"] == left


_CASES: Final[Mapping[str, Callable[[Scene], None]]] = {
    "a killed consumer leaves a group without members": _killed,
    "a consumer that commits one offset again and again is stuck": _stuck,
    "a read_committed consumer waits for a named transaction": _open_transaction,
    "lag of marks of transactions is nothing wrong": _control_records,
    "an offset is set back while the group is empty": _reset,
    "a topic is subscribed to no more": _unsubscribed,
}


@pytest.fixture(scope="module")
def outcomes(own_kafka: EmbeddedKafka) -> Iterator[Mapping[str, "Future[None]"]]:
    """All cases under way."""
    commit(own_kafka, unique("first"), create_topic(own_kafka, "first"), 0)
    with (
        watching(own_kafka, "offsets-topic", sections=_EVALUATOR, **_CLUSTER) as watched,
        ThreadPoolExecutor(len(_CASES)) as pool,
    ):
        watched.served.wait_ready()
        scene = Scene(kafka=own_kafka, watched=watched)
        yield {name: pool.submit(case, scene) for name, case in _CASES.items()}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("case", _CASES)
def test_the_cause_is_named(outcomes: Mapping[str, "Future[None]"], case: str) -> None:
    outcomes[case].result()
