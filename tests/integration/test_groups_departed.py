"""A group that is deleted, and one whose offsets a real broker expires, end by different words."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import ANSWER_TIMEOUT_S, commit, create_topic, produce, unique
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served, serving
from tests.support.waiting import eventually
from tests.support.watched import QUICK_RULES

pytestmark = pytest.mark.minutes

_EXPIRES = {"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "500"}


@contextlib.contextmanager
def _watched(kafka: EmbeddedKafka) -> Iterator[tuple[Served, Receiver]]:
    with receiving() as receiver:
        policy = "[alerts.policies.all]\nclose_for_s = 0\n"
        hook = f'[alerts.webhook.hook]\nurl = "{receiver.url}"\n'
        timing = {"log_end_interval_s": 0.5, "group_interval_s": 1.0}
        sections = f"{QUICK_RULES}{policy}{hook}"
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
    eventually(lambda: len(_notices(receiver, group)) > 1, "the end", timeout_s=200)
    ends = [each.json for each in receiver.taken if each.json["event"] == "close"]
    (end,) = [each for each in ends if each["notices"][0]["group"] == group]
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
def test_a_group_whose_offsets_expire_ends_so() -> None:
    with EmbeddedKafka(properties=_EXPIRES) as kafka, _watched(kafka) as (served, receiver):
        group = _stops(kafka, served, receiver)

        subject, notice = _end(receiver, group)

    assert subject.startswith(f"EXPIRED: {group}")
    assert notice["verdict"]["gone"] == "expired"
    assert notice["verdict"]["offsets_retention_s"] == 120
