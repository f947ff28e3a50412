"""Members of share groups (KIP-932): Kafka's own Java client, driven from Python.

No client library for Python can be one. A bare Java runtime brings no compiler, so the JVM runs
Py4J's gateway with Kafka's jars, and the calls are made through it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from py4j.java_gateway import GatewayParameters, JavaGateway, JVMView, find_jar_path

from lagwatch.java import find_java
from lagwatch.kafka.embedded import EmbeddedKafka
from lagwatch.kafka.embedded.jars import ensure_jars
from lagwatch.kafka.embedded.process import GuardedProcess
from tests.support.elasticsearch_launch import gateway_of
from tests.support.kafka import ANSWER_TIMEOUT_S
from tests.support.waiting import eventually

_OLDEST_JAVA: Final = 17
_STRINGS: Final = "org.apache.kafka.common.serialization.StringDeserializer"
_POLL_MS: Final = 250
Record = Any
"""A `ConsumerRecord` of the Java client."""


class ShareMember:
    """A member of a share group that acknowledges record by record."""

    def __init__(
        self, jvm: JVMView, kafka: EmbeddedKafka, group: str, *topics: str, client_id: str
    ) -> None:
        settings = _settings(
            jvm,
            kafka,
            {
                "group.id": group,
                "client.id": client_id,
                "key.deserializer": _STRINGS,
                "value.deserializer": _STRINGS,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": "1000",
            },
        )
        self._jvm = jvm
        self._consumer = jvm.org.apache.kafka.clients.consumer.KafkaShareConsumer(settings)
        names = jvm.java.util.ArrayList()
        for topic in topics:
            names.add(topic)
        self._consumer.subscribe(names)

    def take(self) -> Sequence[Record]:
        """Records acquired by a poll; each must be accepted, released or rejected before the next.

        The member joins with its first poll.
        """
        records = self._consumer.poll(self._jvm.java.time.Duration.ofMillis(_POLL_MS))
        return list(records.iterator())

    def take_some(self) -> Sequence[Record]:
        """Poll until there are records."""
        taken: list[Record] = []

        def poll() -> bool:
            taken.extend(self.take())
            return bool(taken)

        eventually(poll, "records are acquired")
        return taken

    def accept(self, *records: Record) -> None:
        self._acknowledge("ACCEPT", records)

    def release(self, *records: Record) -> None:
        """Let them be delivered again."""
        self._acknowledge("RELEASE", records)

    def reject(self, *records: Record) -> None:
        self._acknowledge("REJECT", records)

    def _acknowledge(self, how: str, records: Sequence[Record]) -> None:
        kind = getattr(self._jvm.org.apache.kafka.clients.consumer.AcknowledgeType, how)
        for record in records:
            self._consumer.acknowledge(record, kind)

    def commit(self) -> None:
        """Send what was acknowledged; returns when the broker has stored it."""
        failed = [each for each in self._consumer.commitSync().values() if each.isPresent()]
        assert not failed, f"not acknowledged: {failed[0].get()}"

    def close(self) -> None:
        self._consumer.close()


class ShareGroups:
    """Kafka's Java client for one cluster."""

    def __init__(self, gateway: JavaGateway, kafka: EmbeddedKafka) -> None:
        self._gateway = gateway
        self._jvm: Any = gateway.jvm
        self._kafka = kafka
        settings = _settings(gateway.jvm, kafka, {})
        self._admin = self._jvm.org.apache.kafka.clients.admin.Admin.create(settings)

    def member(self, group: str, *topics: str, client_id: str = "sharer") -> ShareMember:
        """A member that begins at the log start; it joins with its first poll."""
        admin = AdminClient(self._kafka.admin_config())
        begin = ConfigEntry(
            "share.auto.offset.reset",
            "earliest",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[begin])
        admin.incremental_alter_configs([resource])[resource].result(ANSWER_TIMEOUT_S)
        return ShareMember(self._jvm, self._kafka, group, *topics, client_id=client_id)

    def offsets(self, group: str) -> dict[tuple[str, int], tuple[int, int | None]]:
        """Start offset and lag of each partition, as Kafka's tool for share groups prints them."""
        specs = self._jvm.java.util.HashMap()
        specs.put(group, self._jvm.org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec())
        found = self._admin.listShareGroupOffsets(specs).partitionsToOffsetInfo(group).get()
        return {
            (place.topic(), place.partition()): (
                info.startOffset(),
                info.lag().get() if info.lag().isPresent() else None,
            )
            for place, info in dict(found).items()
            if info is not None
        }

    def close(self) -> None:
        self._admin.close()


@contextmanager
def share_groups(kafka: EmbeddedKafka) -> Iterator[ShareGroups]:
    """Start a JVM with Kafka's client; it ends with the block."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "client.log"
        process = GuardedProcess(_command(), log=log, doomed=None)
        try:
            eventually(
                lambda: gateway_of(_text(log)) is not None or not process.running,
                "the JVM's gateway",
                timeout_s=ANSWER_TIMEOUT_S,
            )
            opened = gateway_of(_text(log))
            assert opened is not None, f"the JVM ended: {_text(log)}"
            port, password = opened
            gateway = JavaGateway(
                gateway_parameters=GatewayParameters(
                    port=port,
                    auth_token=password,
                    # else each object talks to the JVM when it is collected, whatever runs then
                    enable_memory_management=False,
                )
            )
            try:
                groups = ShareGroups(gateway, kafka)
                yield groups
                groups.close()
            finally:
                gateway.close()
        finally:
            process.kill()


def _settings(jvm: JVMView, kafka: EmbeddedKafka, more: Mapping[str, str]) -> Any:  # noqa: ANN401
    """Settings of a Java client that may do everything, as a Java map."""
    ours = kafka.admin_config()
    properties = {"bootstrap.servers": str(ours["bootstrap.servers"]), **more}
    if "sasl.username" in ours:
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
        who = f'username="{ours["sasl.username"]}" password="{ours["sasl.password"]}"'
        properties |= {
            "security.protocol": str(ours["security.protocol"]),
            "sasl.mechanism": str(ours["sasl.mechanism"]),
            "sasl.jaas.config": f"{login} {who};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(ours["ssl.ca.location"]),
        }
    settings = jvm.java.util.HashMap()
    for name, value in properties.items():
        settings.put(name, value)
    return settings


def _command() -> list[str]:
    java = find_java(_OLDEST_JAVA, server="Kafka client")
    return [
        str(java),
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        f"{find_jar_path()}:{ensure_jars()}/*",
        "py4j.GatewayServer",
        "--enable-auth",
        "0",
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""
