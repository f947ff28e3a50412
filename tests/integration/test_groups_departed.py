"""A group that is deleted, and one whose offsets a real broker expires, end by different words."""

import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, produce, unique
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served, serving
from tests.support.waiting import eventually
from tests.support.watched import QUICK_RULES

pytestmark = pytest.mark.minutes

_EXPIRES = {"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "500"}


@contextlib.contextmanager
def _watched(
    kafka: EmbeddedKafka,
    *,
    folder: Path | None = None,
    receiver: Receiver | None = None,
    max_lag: int = 0,
) -> Iterator[tuple[Served, Receiver]]:
    """`folder`: what is kept there outlives the service."""
    with contextlib.ExitStack() as stack:
        receiver = receiver or stack.enter_context(receiving())
        policy = f"[alerts.policies.all]\nclose_for_s = 0\nmax_lag = {max_lag}\n"
        hook = f'[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        timing = {"log_end_interval_s": 0.5, "group_interval_s": 1.0}
        sections = f"{QUICK_RULES}{policy}{hook}"
        if folder is not None:
            kept = f'[alerts]\nfile = "{folder}/a.sqlite"\n[checkpoint]\npath = "{folder}"\n'
            sections = f"{kept}{sections}"
        with serving(kafka.bootstrap_servers, cluster=timing, sections=sections) as served:
            served.wait_ready()
            yield served, receiver


def _stops(kafka: EmbeddedKafka, served: Served, receiver: Receiver) -> str:
    """A group that read a little and has stopped; its incident is open."""
    topic, group = create_topic(kafka), unique("departs")
    produce(kafka, topic, 100)
    for offset in range(1, 6):
        commit(kafka, group, topic, offset)
    eventually(lambda: group in served.groups(), "the group is known", timeout_s=60)
    eventually(lambda: bool(_notices(receiver, group)), "it has stopped", timeout_s=90)
    return group


def _notices(receiver: Receiver, group: str) -> list[dict[str, Any]]:
    return [notice for notice in receiver.notices if notice["group"] == group]


def _end(receiver: Receiver, group: str) -> tuple[str, dict[str, Any]]:
    """The subject and the notice of the end of its incident."""
    ends: list[dict[str, Any]] = []

    def ended() -> bool:
        # a notice that was delivered when the process was killed comes once more
        bodies = (each.json for each in receiver.taken)
        ends[:] = [
            body
            for body in bodies
            if body["event"] == "close" and body["notices"][0]["group"] == group
        ]
        return bool(ends)

    eventually(ended, "the end", timeout_s=200)
    (end,) = ends
    return end["subject"], end["notices"][0]


@pytest.mark.timeout(280)
def test_a_group_that_is_deleted_ends_so(kafka: EmbeddedKafka) -> None:
    admin = AdminClient(kafka.admin_config())
    with _watched(kafka) as (served, receiver):
        group = _stops(kafka, served, receiver)
        (answer,) = admin.delete_consumer_groups([group]).values()
        answer.result(ANSWER_TIMEOUT_S)

        subject, notice = _end(receiver, group)

    assert subject.startswith(f"DELETED: {group}")
    assert notice["verdict"]["gone"] == "deleted"
    assert notice["verdict"]["offsets_retention_s"] == 7 * 86_400, "the default of the broker"


@pytest.mark.timeout(280)
def test_a_topic_that_is_made_anew_while_lagwatch_is_down_has_not_caught_up(
    kafka: EmbeddedKafka, tmp_path: Path
) -> None:
    admin, topic, group = AdminClient(kafka.admin_config()), create_topic(kafka), unique("anew")
    produce(kafka, topic, 100)
    for offset in (10, 20):
        commit(kafka, group, topic, offset)
        produce(kafka, topic, 1)
    with receiving() as receiver:
        watched = partial(_watched, kafka, folder=tmp_path, receiver=receiver, max_lag=10)
        with watched() as (served, _):
            eventually(lambda: bool(_notices(receiver, group)), "it is behind", timeout_s=60)
            served.process.kill()
        admin.delete_topics([topic])[topic].result(ANSWER_TIMEOUT_S)
        eventually(lambda: topic not in admin.list_topics().topics, "the topic is gone")
        admin.create_topics([NewTopic(topic, num_partitions=1)])[topic].result(ANSWER_TIMEOUT_S)
        produce(kafka, topic, 3)
        commit(kafka, group, topic, 3)
        with watched():
            subject, notice = _end(receiver, group)

    assert subject.startswith(f"Incident ended: {group}")
    assert notice["verdict"]["begun_anew"]


@pytest.mark.timeout(280)
@pytest.mark.thorough  # a deletion, below, leaves the same tombstones
def test_a_group_whose_offsets_expire_ends_so() -> None:
    with EmbeddedKafka(properties=_EXPIRES) as kafka, _watched(kafka) as (served, receiver):
        group = _stops(kafka, served, receiver)

        subject, notice = _end(receiver, group)

    assert subject.startswith(f"EXPIRED: {group}")
    assert notice["verdict"]["gone"] == "expired"
    assert notice["verdict"]["offsets_retention_s"] == 120
