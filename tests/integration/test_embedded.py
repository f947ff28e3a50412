"""The embedded broker is a real Kafka, survives faults, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from lagwatch.kafka.embedded import EmbeddedKafka, EmbeddedKafkaError
from lagwatch.kafka.embedded.ports import LOOPBACK, answers
from lagwatch.kafka.embedded.settings import ClientConfig
from tests.support.kafka import ANSWER_TIMEOUT_S, consume, create_topic, produce
from tests.support.waiting import eventually

OWNER = """
import os, signal, sys
from lagwatch.kafka.embedded import EmbeddedKafka
kafka = EmbeddedKafka()
kafka.start()
print(kafka.pids[0], kafka.data_dir, flush=True)
{ending}
"""


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_produced_can_be_consumed(kafka: EmbeddedKafka) -> None:
    topic = create_topic(kafka, partitions=2)

    produce(kafka, topic, 3, partition=1)

    assert consume(kafka, topic, 3, partition=1) == [b"0", b"1", b"2"]


def test_topics_are_not_created_by_asking_for_them(kafka: EmbeddedKafka) -> None:
    admin = AdminClient(kafka.admin_config())

    metadata = admin.list_topics("never-created", timeout=ANSWER_TIMEOUT_S)

    assert metadata.topics["never-created"].error is not None
    assert "never-created" not in admin.list_topics(timeout=ANSWER_TIMEOUT_S).topics


@pytest.mark.parametrize("end", [EmbeddedKafka.kill_broker, EmbeddedKafka.stop_broker])
def test_a_restarted_broker_keeps_its_ports_and_data(
    own_kafka: EmbeddedKafka, end: Callable[[EmbeddedKafka, int], None]
) -> None:
    topic = create_topic(own_kafka)
    produce(own_kafka, topic, 5)
    pid, bootstrap = own_kafka.pids[0], own_kafka.bootstrap_servers

    end(own_kafka, 0)
    gone = not alive(pid)
    own_kafka.start_broker(0)

    assert gone
    assert own_kafka.bootstrap_servers == bootstrap
    assert own_kafka.pids[0] != pid
    assert consume(own_kafka, topic, 5) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os._exit(3)", 3),
        ("sys.exit(4)", 4),
    ],
    ids=["killed", "aborted", "forgot to stop"],
)
def test_no_broker_outlives_its_owner(ending: str, status: int) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(ending=ending)], stdout=subprocess.PIPE, text=True
    )

    report, _ = owner.communicate(timeout=120)

    pid, data_dir = report.split()
    assert owner.returncode == status
    eventually(lambda: not alive(int(pid)), "the end of the broker")
    eventually(lambda: not Path(data_dir).exists(), "removal of its data")


def test_no_broker_outlives_its_owner_whose_forked_child_lives_on() -> None:
    ending = "print(os.getpid(), flush=True) if os.fork() == 0 else os.abort()\nsignal.pause()"
    with subprocess.Popen(
        [sys.executable, "-c", OWNER.format(ending=ending)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline().split()[0])
        child = int(owner.stdout.readline())

        owner.wait(timeout=30)

        try:
            eventually(lambda: not alive(pid), "the end of the broker")
            assert alive(child)
        finally:
            os.kill(child, signal.SIGKILL)


def test_no_broker_outlives_its_guard(own_kafka: EmbeddedKafka) -> None:
    pid = own_kafka.pids[0]
    guard = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[1])

    os.kill(guard, signal.SIGKILL)

    eventually(lambda: not alive(pid), "the end of the broker")
    own_kafka.start_broker(0)
    assert alive(own_kafka.pids[0])


def test_stopping_ends_every_process_and_removes_the_data() -> None:
    with EmbeddedKafka() as cluster:
        pids, data_dir = cluster.pids, cluster.data_dir
        port = int(cluster.bootstrap_servers.rsplit(":", 1)[1])
        assert all(alive(pid) for pid in pids)
        assert answers(port)

    assert not any(alive(pid) for pid in pids)
    assert not answers(port)
    assert not data_dir.exists()


def test_a_data_directory_of_ones_own_is_taken_up_again(tmp_path: Path) -> None:
    with EmbeddedKafka(data_dir=tmp_path) as before:
        topic = create_topic(before)
        produce(before, topic, 2)

    with EmbeddedKafka(data_dir=tmp_path) as after:
        values = consume(after, topic, 2)

    assert values == [b"0", b"1"]


def test_a_broker_that_does_not_start_says_why() -> None:
    cluster = EmbeddedKafka(properties={"num.io.threads": "none"})

    with pytest.raises(EmbeddedKafkaError, match=r"(?s)Broker 1 .*num\.io\.threads"):
        cluster.start()

    with pytest.raises(EmbeddedKafkaError, match=r"call start\(\) first"):
        cluster.bootstrap_servers  # noqa: B018 - reading it is the act


def test_a_broker_whose_port_is_taken_for_a_while_comes_up_when_it_is_free(
    own_kafka: EmbeddedKafka,
) -> None:
    port = int(own_kafka.bootstrap_servers.rsplit(":", 1)[1])
    log = own_kafka.data_dir / "broker-0" / "server.log"
    own_kafka.kill_broker(0)
    squatter = socket.create_server((LOOPBACK, port))

    def release_once_noticed() -> None:
        with squatter:
            eventually(lambda: "Address already in use" in log.read_text("utf-8"), "a clash")

    with ThreadPoolExecutor(1) as pool:
        released = pool.submit(release_once_noticed)
        own_kafka.start_broker(0)

    assert released.exception() is None
    assert AdminClient(own_kafka.admin_config()).list_topics(timeout=10).brokers.keys() == {1}


def test_two_of_three_brokers_carry_on_and_the_third_comes_back(
    three_brokers: EmbeddedKafka,
) -> None:
    topic = create_topic(three_brokers, partitions=3)

    three_brokers.kill_broker(0)
    for partition in range(3):
        produce(three_brokers, topic, 2, partition=partition)
    running_meanwhile = len(three_brokers.pids)
    three_brokers.start_broker(0)

    assert running_meanwhile == 2
    assert len(AdminClient(three_brokers.admin_config()).list_topics(timeout=10).brokers) == 3
    assert consume(three_brokers, topic, 2, partition=2) == [b"0", b"1"]


def test_a_user_without_acls_is_denied_and_with_one_is_let_in(secure_kafka: EmbeddedKafka) -> None:
    topic = create_topic(secure_kafka)
    denied = delivery_error(secure_kafka.client_config("alice"), topic)

    allow(secure_kafka, "alice", topic)

    assert denied == KafkaError.TOPIC_AUTHORIZATION_FAILED
    eventually(
        lambda: delivery_error(secure_kafka.client_config("alice"), topic) is None,
        "alice's record to be taken",
    )


def test_a_wrong_password_is_refused(secure_kafka: EmbeddedKafka) -> None:
    config: dict[str, Any] = secure_kafka.client_config("alice") | {"sasl.password": "guessed"}
    causes: list[int] = []
    config |= {"log_level": 0, "error_cb": lambda error: causes.append(error.code())}
    admin = AdminClient(config)

    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)

    eventually(lambda: admin.poll(0.1) >= 0 and bool(causes), "the cause")
    assert KafkaError._AUTHENTICATION in causes  # noqa: SLF001 - the client's name for it


def delivery_error(config: ClientConfig, topic: str) -> int | None:
    """Produce one record; return the error code of its delivery, `None` when it was taken."""
    codes: list[int | None] = []
    producer = Producer(config | {"log_level": 0})
    producer.produce(
        topic, b"x", on_delivery=lambda error, _: codes.append(error.code() if error else None)
    )
    assert producer.flush(ANSWER_TIMEOUT_S) == 0
    return codes[0]


def allow(kafka: EmbeddedKafka, user: str, topic: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient(kafka.admin_config())
    for created in admin.create_acls([binding]).values():
        created.result(ANSWER_TIMEOUT_S)
