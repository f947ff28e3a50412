"""What goes wrong with Kafka: each fault has its own message, and nothing stops for ever."""

import asyncio
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from lagwatch.clock import SystemClock
from lagwatch.collector.supervisor import CollectorSupervisor
from lagwatch.config import ClusterSettings
from lagwatch.kafka.admin import KafkaTopics
from lagwatch.kafka.client import KafkaClients
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.log_ends import KafkaLogEnds
from lagwatch.kafka.offsets_topic import KafkaOffsetsTopic
from lagwatch.ports.reports import CollectorStarted, LogEnds, SourceHealth, SourceKind
from tests.support.collecting import Seen, collecting, settings
from tests.support.kafka import commit, create_topic, unique
from tests.support.waiting import eventually


def trouble(seen: Seen, kind: str) -> SourceHealth | None:
    """The first bad news of this kind about the connection or the topics."""
    wanted = {SourceKind.CONNECTION, SourceKind.TOPICS}
    bad = [each for each in seen.of(SourceHealth) if not each.ok and each.source in wanted]
    return next((each for each in bad if each.error_kind == kind), None)


def message(options: ClusterSettings, kind: str) -> str:
    """What is reported of a cluster that cannot be reached like this."""
    with collecting(options) as seen:
        eventually(lambda: trouble(seen, kind) is not None, f"a {kind} fault")
        first = trouble(seen, kind)
    assert first is not None
    return first.message


def test_a_closed_port_is_reported() -> None:
    options = ClusterSettings(bootstrap="127.0.0.1:1")

    text = message(options, "connection")

    assert "nothing listens at 127.0.0.1:1" in text
    assert "clusters.test.bootstrap" in text


def test_an_unknown_host_is_reported() -> None:
    options = ClusterSettings(bootstrap="no-such-host.invalid:9092")

    text = message(options, "connection")

    assert "host name of a broker cannot be resolved" in text


def test_a_wrong_password_is_reported_without_showing_it(secure_kafka: EmbeddedKafka) -> None:
    good = settings(secure_kafka, "alice")
    options = good.model_copy(update={"sasl": with_password(good, "nonsense")})

    text = message(options, "authentication")

    assert "refused user 'alice' with SCRAM-SHA-512" in text
    assert "clusters.test.sasl" in text
    assert "nonsense" not in text


def test_an_untrusted_authority_is_reported(secure_kafka: EmbeddedKafka) -> None:
    good = settings(secure_kafka, "alice")
    tls = good.tls.model_copy(update={"ca_file": None})
    options = good.model_copy(update={"tls": tls})

    text = message(options, "tls")

    assert "not signed by a CA we trust" in text
    assert "clusters.test.tls.ca_file" in text


def test_an_authority_file_that_is_not_there_is_reported(secure_kafka: EmbeddedKafka) -> None:
    good = settings(secure_kafka, "alice")
    tls = good.tls.model_copy(update={"ca_file": "/no/such/ca.pem"})
    options = good.model_copy(update={"tls": tls})

    text = message(options, "tls")

    assert "ssl.ca.location" in text
    assert "clusters.test.tls" in text


def test_plaintext_to_a_tls_port_is_reported(secure_kafka: EmbeddedKafka) -> None:
    options = ClusterSettings(bootstrap=secure_kafka.bootstrap_servers)

    text = message(options, "connection")

    assert "it may expect TLS or SASL" in text


def test_tls_without_a_user_where_one_is_asked_for_is_reported(secure_kafka: EmbeddedKafka) -> None:
    options = settings(secure_kafka, "alice").model_copy(update={"sasl": None})

    text = message(options, "connection")

    assert "or clusters.test.sasl" in text


def test_a_missing_client_certificate_is_reported(secure_kafka: EmbeddedKafka) -> None:
    good = settings(secure_kafka, "alice")
    with asks_for_certificates(secure_kafka) as address:
        text = message(good.model_copy(update={"bootstrap": (address,)}), "tls")

    assert "asks for a client certificate" in text
    assert "clusters.test.tls.cert_file" in text


def test_tls_to_a_plaintext_port_is_reported(kafka: EmbeddedKafka) -> None:
    options = ClusterSettings.model_validate(
        {"bootstrap": kafka.bootstrap_servers, "tls": {"enabled": True}}
    )

    text = message(options, "tls")

    assert "does not speak TLS" in text


def test_an_unknown_property_is_reported(kafka: EmbeddedKafka) -> None:
    options = ClusterSettings(bootstrap=kafka.bootstrap_servers, client={"bogus": "1"})

    text = message(options, "protocol")

    assert 'No such configuration property: "bogus"' in text


@contextmanager
def asks_for_certificates(kafka: EmbeddedKafka) -> Iterator[str]:
    """A TLS port that shuts the door on clients without a certificate; its address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kafka.data_dir / "certificates" / "server.pem")
    context.load_verify_locations(kafka.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_refuse, args=(server, context))
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def _refuse(server: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:  # shut down
            return
        with client, suppress(OSError), context.wrap_socket(client, server_side=True):
            pass


def with_password(options: ClusterSettings, password: str) -> object:
    assert options.sasl is not None
    return options.sasl.model_validate({**options.sasl.model_dump(), "password": password})


@pytest.mark.parametrize(
    "commits", [pytest.param("offsets-topic", marks=pytest.mark.thorough), "admin"]
)
def test_a_single_broker_that_restarts_under_polling_costs_no_commit(
    own_kafka: EmbeddedKafka, commits: str
) -> None:
    """The client library aborts the collector at times: that costs a restart, no more."""
    topic, group = create_topic(own_kafka), unique("group")
    member = Consumer(own_kafka.admin_config() | {"group.id": group, "enable.auto.commit": False})
    member.subscribe([topic])
    with collecting(settings(own_kafka, commits=commits, group_interval_s=0.2)) as seen:
        seen.wait_ready()
        eventually(lambda: assigned(member), "the member is assigned")
        for turn in (1, 2):
            own_kafka.kill_broker(0)
            own_kafka.start_broker(0)
            eventually(lambda: commits_as_member(member, topic, turn), "the member commits")  # noqa: B023

            eventually(
                lambda: newest(seen, group, topic) == turn,  # noqa: B023
                "the commit after the restart arrives",
            )
        started_ms = time.time_ns() // 1_000_000
        # a collector that was replaced just now has reported none yet
        eventually(
            lambda: any(ends.started_ms > started_ms for ends in seen.of(LogEnds)[-1:]),
            "log ends are fresh",
        )
    member.close()


def test_a_collector_waits_for_a_cluster_that_is_down_at_first(own_kafka: EmbeddedKafka) -> None:
    topic, group = create_topic(own_kafka), unique("group")
    commit(own_kafka, group, topic, 1)
    own_kafka.stop_broker(0)
    with collecting(settings(own_kafka, topic_interval_s=1)) as seen:
        eventually(lambda: trouble(seen, "connection") is not None, "the fault is reported")

        own_kafka.start_broker(0)

        eventually(lambda: seen.offsets(group, topic) == [1], "the commit arrives")
        started_ms = time.time_ns() // 1_000_000
        eventually(
            lambda: seen.healthy_since(
                started_ms, SourceKind.TOPICS, SourceKind.LOG_ENDS, SourceKind.CONNECTION
            ),
            "all is well again",
        )


def test_while_the_broker_is_down_its_sources_are_never_well_for_a_moment(
    own_kafka: EmbeddedKafka,
) -> None:
    asked = (SourceKind.CONNECTION, SourceKind.LOG_ENDS, SourceKind.GROUPS)
    topic = create_topic(own_kafka)
    with collecting(settings(own_kafka)) as seen:
        eventually(lambda: seen.log_end(topic) is not None, "its log end is reported")
        own_kafka.kill_broker(0)
        eventually(
            lambda: not any((last := seen.health(each)) is None or last.ok for each in asked),
            "all three faults are reported",
        )
        before = len(seen.of(SourceHealth))
        eventually(
            lambda: (
                sum(each.source is SourceKind.GROUPS for each in seen.of(SourceHealth)[before:]) > 2
            ),
            "three more rounds of the slowest",
        )
        later = [each for each in seen.of(SourceHealth)[before:] if each.source in asked]
        own_kafka.start_broker(0)

    assert [each for each in later if each.ok] == []


def test_after_four_rounds_of_silence_another_client_asks(own_kafka: EmbeddedKafka) -> None:
    create_topic(own_kafka)
    clients = KafkaClients("here", settings(own_kafka), SystemClock())
    source = KafkaLogEnds(clients)
    first = clients.admin

    with asyncio.Runner() as runner:
        listing = runner.run(KafkaTopics(clients).list_topics())

        def knows() -> bool:
            """Is anything known after one more round?"""
            answer = runner.run(source.log_ends(listing, with_log_start=False))
            return bool((answer.log_end >= 0).any())

        eventually(knows, "log ends are known")
        own_kafka.kill_broker(0)
        assert [knows() for _ in range(4)] == [False] * 4
        another = clients.admin
        own_kafka.start_broker(0)
        eventually(knows, "log ends are known again")

    assert another is not first


def test_a_new_client_goes_on_reading_the_offsets_topic_where_the_old_one_was(
    own_kafka: EmbeddedKafka,
) -> None:
    group, topic = unique("g"), create_topic(own_kafka)
    commit(own_kafka, group, topic, 1)
    reader = KafkaOffsetsTopic(KafkaClients("here", settings(own_kafka), SystemClock()))
    values: list[bytes | None] = []

    with asyncio.Runner() as runner:
        spans = runner.run(reader.spans())
        runner.run(reader.assign({each: span.start for each, span in spans.items()}))

        def read(number: int) -> bool:
            records = runner.run(reader.read())
            ours = zip(records.keys, records.values, strict=True)
            values.extend(value for key, value in ours if topic.encode() in (key or b""))
            return len(values) >= number

        eventually(lambda: read(1), "its commit is read")
        runner.run(reader.renew())
        commit(own_kafka, group, topic, 2)
        eventually(lambda: read(2), "the next commit is read")
        assert not read(3), "and none twice"


def test_a_collector_ends_when_the_serving_process_is_killed(kafka: EmbeddedKafka) -> None:
    script = (
        "import sys\n"
        "from tests.support.collecting import collecting, settings\n"
        "from lagwatch.config import ClusterSettings\n"
        "from tests.support.waiting import eventually\n"
        "with collecting(ClusterSettings(bootstrap=sys.argv[1])) as seen:\n"
        "    seen.wait_ready()\n"
        "    print(seen.supervisor.pid, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, kafka.bootstrap_servers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        line = next(each for each in parent.stdout if each.strip().isdigit())
        child = psutil.Process(int(line))

        parent.send_signal(signal.SIGKILL)

        eventually(lambda: not alive(child), "the collector ends too")


def test_a_supervisor_stops_its_collector_soon(kafka: EmbeddedKafka) -> None:
    with collecting(settings(kafka)) as seen:
        seen.wait_ready()
        pid = seen.supervisor.pid
        assert pid is not None
        child = psutil.Process(pid)
        began_s = time.monotonic()

    assert time.monotonic() - began_s < 10
    assert not alive(child)


def test_a_collector_that_dies_at_once_again_and_again_is_not_restarted_in_a_rush(
    kafka: EmbeddedKafka,
) -> None:
    with collecting(settings(kafka)) as seen:
        deaths = 4
        for life in range(1, deaths + 1):
            eventually(
                lambda life=life: len(seen.of(CollectorStarted)) == life,  # type: ignore[misc]
                "the next life begins",
            )
            eventually(lambda: seen.supervisor.pid is not None, "it runs")
            pid = seen.supervisor.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        began_s = time.monotonic()
        eventually(lambda: seen.supervisor.restarts == deaths, "it is restarted still")
        waited_s = time.monotonic() - began_s

    assert 0.5 < waited_s < 30
    died = [each for each in seen.of(SourceHealth) if each.error_kind == "died"]
    assert len(died) == deaths
    assert "SIGKILL" in died[0].message


def test_a_supervisor_that_is_stopped_while_it_starts_a_collector_leaves_nothing_open() -> None:
    async def opened() -> int:
        options = ClusterSettings(bootstrap="127.0.0.1:1")
        supervisor = CollectorSupervisor(cluster="test", settings=options, clock=SystemClock())
        here = psutil.Process()
        before = here.num_fds()
        task = asyncio.create_task(supervisor.run())
        await anext(supervisor.reports())  # it is about to start
        assert supervisor.pid is None
        task.cancel()
        await asyncio.wait({task})
        return here.num_fds() - before

    assert asyncio.run(opened()) == 0


def test_the_serving_side_never_loads_the_client_library() -> None:
    script = "import lagwatch.collector.supervisor, sys; print('confluent_kafka' in sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )

    assert answer.stdout.strip() == "False"


def newest(seen: Seen, group: str, topic: str) -> int | None:
    """The offset of the last commit, as a window would have it."""
    rows = seen.of_partition(group, topic)
    return max(rows, key=lambda row: row.order).offset if rows else None


def assigned(member: Consumer) -> bool:
    member.poll(0.05)
    return bool(member.assignment())


def commits_as_member(member: Consumer, topic: str, offset: int) -> bool:
    member.poll(0.05)
    try:
        member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    except KafkaException:
        return False
    return True


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
