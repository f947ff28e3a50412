"""A principal with few rights: what it can see is right, what it cannot see is said."""

import pytest
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
from tests.support.served import serving
from tests.support.waiting import eventually


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
