"""A principal with few rights: what it can see is right, what it cannot see is said."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lagwatch.kafka.embedded import EmbeddedKafka
from tests.support.kafka import commit, create_topic, produce, unique
from tests.support.rights import Rights
from tests.support.served import serving
from tests.support.waiting import eventually

SECURITY = Path(__file__).parents[2] / "docs" / "security.md"


@pytest.fixture
def seen_topic(secure_kafka: EmbeddedKafka) -> str:
    """A topic that alice may describe, as she may the groups named `seen…`."""
    topic = create_topic(secure_kafka, "seen")
    admin = AdminClient(secure_kafka.admin_config())
    bindings = [
        _allow(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL),
        _allow(ResourceType.GROUP, "seen", ResourcePatternType.PREFIXED),
    ]
    for future in admin.create_acls(bindings).values():
        future.result(30)
    return topic


def _problems(health: dict[str, Any]) -> list[str]:
    """What is wrong, but for share groups that other tests have left on the same broker."""
    return [each for each in health["problems"] if not each.startswith("share_state: ")]


def _allow(kind: ResourceType, name: str, pattern: ResourcePatternType) -> AclBinding:
    return AclBinding(
        kind,
        name,
        pattern,
        "User:alice",
        "*",
        AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )


def _cluster(kafka: EmbeddedKafka, user: str, password: str) -> dict[str, object]:
    return {
        "tls.enabled": True,
        "tls.ca_file": str(kafka.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": password,
        "committed_interval_s": 1,
        "log_end_interval_s": 1,
        "group_interval_s": 2,
    }


def test_describe_rights_alone_give_verdicts_and_what_is_missing_is_named(
    secure_kafka: EmbeddedKafka, seen_topic: str
) -> None:
    hidden_topic = create_topic(secure_kafka, "hidden")
    seen, mixed, hidden = unique("seen"), unique("seen-mixed"), unique("other")
    produce(secure_kafka, seen_topic, 40)
    produce(secure_kafka, hidden_topic, 40)
    commit(secure_kafka, seen, seen_topic, 10)
    commit(secure_kafka, mixed, hidden_topic, 10)
    commit(secure_kafka, hidden, seen_topic, 10)

    cluster = _cluster(secure_kafka, "alice", "alice-secret")
    with serving(secure_kafka.bootstrap_servers, cluster=cluster) as served:
        served.wait_ready()
        eventually(lambda: served.status(seen) is not None, "the visible group")
        eventually(lambda: bool(served.health()["unseen"]), "what cannot be seen is reported")
        verdict, health, groups = served.known(seen), served.health(), served.groups()
        log = served.log.read_text()

    assert verdict["partitions"][0]["current_lag"] == 30
    assert hidden not in groups
    assert health["mode"] == "admin"
    unseen = " ".join(health["unseen"])
    assert "__consumer_offsets" in unseen
    assert "DESCRIBE" in unseen or "READ" in hidden
    assert "__consumer_offsets" in log
    assert "alice-secret" not in log


@pytest.fixture
def rights(secure_kafka: EmbeddedKafka) -> Iterator[Rights]:
    """Grants for alice, who has none before and after."""
    rights = Rights(secure_kafka)
    rights.revoke_all()
    yield rights
    rights.revoke_all()


DOCUMENTED = re.findall(
    r"--add --allow-principal User:lagwatch --operation (\w+)(?: \\\n)? +--(\w+)(?: '?([\w*]+))?",
    SECURITY.read_text("utf-8"),
)
"""Operation, kind and name of the ACLs that the manual says are enough."""
KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.BROKER,
}


def _grant(rights: Rights, acls: Iterable[tuple[str, str, str]]) -> None:
    for operation, kind, name in acls:
        rights.grant(AclOperation[operation.upper()], KINDS[kind], name or "kafka-cluster")


def test_the_rights_of_the_manual_are_enough_to_read_every_commit(
    secure_kafka: EmbeddedKafka, rights: Rights
) -> None:
    assert len(DOCUMENTED) == 4
    _grant(rights, DOCUMENTED)
    topic, group = create_topic(secure_kafka, "orders"), unique("billing")
    produce(secure_kafka, topic, 40)
    commit(secure_kafka, group, topic, 10)

    cluster = _cluster(secure_kafka, "alice", "alice-secret")
    with serving(secure_kafka.bootstrap_servers, cluster=cluster) as served:
        served.wait_ready()
        eventually(lambda: served.status(group) is not None, "the group")
        commit(secure_kafka, group, topic, 25)
        eventually(
            lambda: served.known(group)["partitions"][0]["current_lag"] == 15, "the new commit"
        )
        health = served.health()

    assert health["mode"] == "offsets-topic"
    assert _problems(health) == []
    # what is optional is named, and nothing else
    assert not [each for each in health["unseen"] if not _optional(each)]


def _watching(kafka: EmbeddedKafka, mode: str) -> dict[str, object]:
    """Configuration of a cluster whose commits are read in this mode."""
    cluster = _cluster(kafka, "alice", "alice-secret") | {"commits": mode}
    if mode == "offsets-topic":
        del cluster["committed_interval_s"]
    return cluster


@pytest.mark.parametrize("mode", ["offsets-topic", "admin"])
def test_a_topic_whose_right_is_taken_away_is_unknown_and_not_deleted(
    secure_kafka: EmbeddedKafka, rights: Rights, mode: str
) -> None:
    _grant(rights, DOCUMENTED)
    topic, group = create_topic(secure_kafka, "orders"), unique("billing")
    deleted, of_deleted = create_topic(secure_kafka, "deleted"), unique("mailer")
    produce(secure_kafka, topic, 40)
    commit(secure_kafka, group, topic, 10)
    commit(secure_kafka, of_deleted, deleted, 0)

    def lag() -> object:
        return served.known(group)["partitions"][0]["current_lag"]

    cluster = _watching(secure_kafka, mode)
    with serving(secure_kafka.bootstrap_servers, cluster=cluster) as served:
        served.wait_ready()
        eventually(lambda: served.status(group) is not None and lag() == 30, "the group")
        eventually(lambda: served.status(of_deleted) is not None, "the other group")
        rights.deny(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
        eventually(lambda: any(topic in each for each in served.health()["problems"]), "it is said")
        admin = AdminClient(secure_kafka.admin_config())
        admin.delete_topics([deleted])[deleted].result(30)
        eventually(lambda: served.status(of_deleted) is None, "a deleted topic is forgotten")
        eventually(lambda: lag() is None, "the lag is unknown")
        unknown = served.known(group)
        problems = " ".join(served.health()["problems"])
        rights.give_back(ResourceType.TOPIC, topic)
        eventually(lambda: lag() == 30, "the lag is known again")

    assert f"Allow DESCRIBE on TOPIC {topic}" in problems
    sums = [unknown[name] for name in ("totallag", "readable_lag", "time_lag_s", "maxlag")]
    assert (unknown["status"], sums) == ("UNKNOWN", [None] * 4)


@pytest.mark.parametrize("listed", [True, False])
def test_a_group_whose_right_is_taken_away_is_not_judged_by_its_last_commit(
    secure_kafka: EmbeddedKafka, rights: Rights, *, listed: bool
) -> None:
    topic, group, other = create_topic(secure_kafka, "orders"), unique("billing"), unique("mailer")
    _grant(rights, [each for each in DOCUMENTED if each[1] != "cluster"])
    if listed:  # who may describe the cluster sees the names of all groups
        rights.grant(AclOperation.DESCRIBE, ResourceType.BROKER, "kafka-cluster")
    produce(secure_kafka, topic, 40)
    commit(secure_kafka, group, topic, 10)
    commit(secure_kafka, other, topic, 10)

    with serving(
        secure_kafka.bootstrap_servers, cluster=_watching(secure_kafka, "admin")
    ) as served:
        served.wait_ready()
        eventually(lambda: served.status(group) is not None, "the group")
        rights.deny(AclOperation.DESCRIBE, ResourceType.GROUP, group)
        eventually(lambda: served.status(group) is None, "nothing is known of it")
        eventually(lambda: any(group in each for each in served.health()["problems"]), "it is said")
        health, of_other = served.health(), served.status(other)
        rights.give_back(ResourceType.GROUP, group)
        eventually(lambda: served.status(group) is not None, "the group again")
        eventually(lambda: not _problems(served.health()), "nothing is wrong any more")

    assert f"Allow DESCRIBE on GROUP {group}" in " ".join(health["problems"])
    assert health["ready"]
    assert of_other is not None


@pytest.mark.parametrize(
    "mode", [pytest.param("offsets-topic", marks=pytest.mark.thorough), "admin"]
)
def test_a_cluster_of_which_nothing_may_be_seen_any_more_is_not_ready(
    secure_kafka: EmbeddedKafka, rights: Rights, mode: str
) -> None:
    _grant(rights, DOCUMENTED)
    topic, group = create_topic(secure_kafka, "orders"), unique("billing")
    produce(secure_kafka, topic, 40)
    commit(secure_kafka, group, topic, 10)

    with serving(secure_kafka.bootstrap_servers, cluster=_watching(secure_kafka, mode)) as served:
        served.wait_ready()
        eventually(lambda: served.status(group) is not None, "the group")
        rights.revoke_all()
        eventually(lambda: not served.health()["ready"], "it is not ready")
        reason = served.health()["reason"]
        _grant(rights, DOCUMENTED)
        eventually(lambda: served.health()["ready"], "it is ready again")
        eventually(lambda: served.status(group) is not None, "the group again")

    assert "DESCRIBE" in reason or "READ" in reason


def _optional(unseen: str) -> bool:
    return any(words in unseen for words in ("DESCRIBE_CONFIGS", "__share_group_state"))


@pytest.mark.parametrize("left_out", DOCUMENTED)
def test_none_of_the_rights_of_the_manual_is_too_much(
    secure_kafka: EmbeddedKafka, rights: Rights, left_out: tuple[str, str, str]
) -> None:
    _grant(rights, [each for each in DOCUMENTED if each != left_out])
    topic, group = create_topic(secure_kafka, "orders"), unique("billing")
    commit(secure_kafka, group, topic, 10)

    cluster = _cluster(secure_kafka, "alice", "alice-secret") | {"commits": "offsets-topic"}
    del cluster["committed_interval_s"]
    with (
        _member(secure_kafka, group, topic),
        serving(secure_kafka.bootstrap_servers, cluster=cluster) as served,
    ):
        eventually(lambda: _names(served.health(), left_out), f"that {left_out} is missing")


@contextmanager
def _member(kafka: EmbeddedKafka, group: str, topic: str) -> Iterator[None]:
    """A member of the group: without one there is nothing to describe."""
    consumer = Consumer({**kafka.admin_config(), "group.id": group})
    consumer.subscribe([topic])
    try:
        consumer.poll(10)
        yield
    finally:
        consumer.close()


def _names(health: Mapping[str, Any], acl: tuple[str, str, str]) -> bool:
    operation, kind, name = acl
    said = " ".join((*health["problems"], *health["unseen"], health["reason"])).upper()
    named = name in {"*", ""} or name.upper() in said
    return named and operation.upper() in said and kind.upper() in said


def test_a_wrong_password_is_said_in_readyz(secure_kafka: EmbeddedKafka) -> None:
    cluster = _cluster(secure_kafka, "alice", "not-her-password")
    with serving(secure_kafka.bootstrap_servers, cluster=cluster) as served:
        eventually(
            lambda: any("password" in each.lower() for each in served.health()["problems"]),
            "the reason",
        )
        health = served.health()

    assert not health["ready"]
    assert "not-her-password" not in " ".join(health["problems"])
