"""A cluster of embedded brokers: start it, kill parts of it, bring them back, stop it."""

import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import MappingProxyType
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from lagwatch.java import find_java
from lagwatch.kafka.embedded.broker import Broker, Launcher, PortTakenError, random_uuid
from lagwatch.kafka.embedded.jars import ensure_jars
from lagwatch.kafka.embedded.ports import LOOPBACK, answers, free_ports
from lagwatch.kafka.embedded.settings import (
    ClientConfig,
    EmbeddedKafkaError,
    Node,
    ScramOverTls,
    server_properties,
)

_OLDEST_JAVA = 17
"""Kafka 4 brokers need Java 17.

Source: KIP-1013.
"""
_PORTS_PER_NODE = 3
_PORT_ATTEMPTS = 5
_NOTHING: Mapping[str, str] = MappingProxyType({})
_CHECKPOINTS: dict[tuple[tuple[str, str], ...], bytes] = {}
"""What storage begins with, by the users and properties it was made for: Kafka's tool is a JVM."""


class EmbeddedKafka:
    """Real Apache Kafka on loopback, KRaft, every node broker and controller.

    Use it as a context manager, or call `start` and `stop`. It ends with the process that started
    it, even when that is killed. Not for several threads at once.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        heap_mb: int | None = None,
        offsets_partitions: int = 4,
        security: ScramOverTls | None = None,
        data_dir: Path | None = None,
        listeners: Mapping[str, str] = _NOTHING,
        advertised: Mapping[str, Sequence[int]] = MappingProxyType({}),
        properties: Mapping[str, str] = _NOTHING,
        start_timeout_s: float = 90.0,
    ) -> None:
        """Describe the cluster; nothing is started yet.

        Args:
            brokers: how many nodes, each a JVM.
            heap_mb: bound of each JVM's heap; by default 512 for one broker, 320 for more.
            offsets_partitions: number of partitions of `__consumer_offsets`.
            security: who may come; by default everybody, in plaintext.
            data_dir: where to keep logs and data, also after `stop`; by default a temporary
                directory, removed at the end. One that was used before is taken up again, and
                must be given the same number of brokers.
            listeners: further listeners for clients: name to security protocol, as `SASL_SSL`;
                `properties` has their settings.
            advertised: ports that clients of such a listener are sent to instead, one per broker:
                of proxies.
            properties: further lines of `server.properties`, which override the defaults.
            start_timeout_s: how long `start` and `start_broker` wait for readiness.
        """
        self._count = brokers
        self._offsets_partitions = offsets_partitions
        self._security = security
        self._keep = data_dir
        self._listeners = dict(listeners)
        self._advertised = dict(advertised)
        self._properties = dict(properties)
        self._start_timeout_s = start_timeout_s
        self._heap_mb = heap_mb or (512 if brokers == 1 else 320)
        self._directory: Path | None = None
        self._brokers: tuple[Broker, ...] = ()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, running or not, separated by commas."""
        return ",".join(broker.node.bootstrap for broker in self._started())

    def bootstrap_of(self, listener: str) -> str:
        """`host:port` of every broker for one of the further listeners."""
        return ",".join(f"{LOOPBACK}:{port}" for port in self.ports_of(listener))

    def ports_of(self, listener: str) -> tuple[int, ...]:
        """Ports on which the brokers listen for one of the further listeners."""
        return tuple(broker.node.further_ports[listener] for broker in self._started())

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the JVMs that run."""
        return tuple(broker.pid for broker in self._brokers if broker.pid is not None)

    @property
    def data_dir(self) -> Path:
        """The cluster's directory: `broker-N/server.log`, `broker-N/data` and the certificates."""
        if self._directory is None:
            raise EmbeddedKafkaError("The embedded Kafka is not started: call start() first")
        return self._directory

    @property
    def ca_file(self) -> Path:
        """PEM file of the authority that clients must trust; only with `security`."""
        return self._certificates / "ca.pem"

    def client_config(self, user: str | None = None) -> ClientConfig:
        """Return the settings of a confluent-kafka client, for `user` when there is security."""
        config: ClientConfig = {"bootstrap.servers": self.bootstrap_servers}
        if self._security is None:
            return config
        if user is None:
            raise EmbeddedKafkaError("This cluster has security: say which user the client is")
        return config | {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": self._security.users[user],
            "ssl.ca.location": str(self.ca_file),
        }

    def admin_config(self) -> ClientConfig:
        """Return the settings of a client that may do everything."""
        return self.client_config(self._security.super_users[0] if self._security else None)

    def start(self) -> None:
        """Start every broker and wait until all of them are ready.

        Raises:
            MissingPartError: no Java, or no jars.
            EmbeddedKafkaError: a broker does not come up; the text ends with what its log
                complains about.
        """
        if self._brokers:
            raise EmbeddedKafkaError("The embedded Kafka is started already: call stop() first")
        java = find_java(_OLDEST_JAVA, server="embedded Kafka")
        launcher = Launcher(java=java, jars=ensure_jars(), heap_mb=self._heap_mb)
        for attempt in range(1, _PORT_ATTEMPTS + 1):
            try:
                self._start_on_fresh_ports(launcher)
            except PortTakenError:
                self.stop()
                if attempt == _PORT_ATTEMPTS:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def stop(self) -> None:
        """Stop every broker; a temporary directory is removed. Does nothing when not started."""
        if self._keep is not None:
            self._end_gently()
        for broker in self._brokers:
            broker.kill()
        self._brokers = ()
        if self._keep is None and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None

    def kill_broker(self, index: int) -> None:
        """End one broker at once (SIGKILL); `index` counts from 0."""
        self._started()[index].kill()

    def stop_broker(self, index: int) -> None:
        """Shut one broker down in good order (SIGTERM); it hands its leaderships over."""
        self._started()[index].stop()

    def start_broker(self, index: int) -> None:
        """Start a killed or stopped broker again, same ports and data, and wait until ready."""
        deadline_s = time.monotonic() + self._start_timeout_s
        broker = self._started()[index]
        while True:
            broker.start()
            try:
                return self._wait_ready([broker], deadline_s)
            except PortTakenError:
                broker.kill()
                if time.monotonic() > deadline_s:
                    raise

    def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until every running broker answers, and knows all the others that run.

        When all brokers run, every partition has a leader as well.

        Raises:
            EmbeddedKafkaError: not so within `timeout_s`, or a broker died meanwhile.
        """
        timeout_s = self._start_timeout_s if timeout_s is None else timeout_s
        running = [broker for broker in self._started() if broker.pid is not None]
        self._wait_ready(running, time.monotonic() + timeout_s)

    @property
    def _certificates(self) -> Path:
        return self.data_dir / "certificates"

    def _started(self) -> tuple[Broker, ...]:
        if not self._brokers:
            raise EmbeddedKafkaError("The embedded Kafka is not started: call start() first")
        return self._brokers

    def _start_on_fresh_ports(self, launcher: Launcher) -> None:
        deadline_s = time.monotonic() + self._start_timeout_s
        self._directory = self._keep or Path(tempfile.mkdtemp(prefix="lagwatch-kafka-"))
        if self._security is not None:
            from lagwatch.kafka.embedded.tls import write_certificates  # noqa: PLC0415 - dev only

            write_certificates(self._certificates)
        nodes = self._nodes(self._directory)
        self._brokers = tuple(
            Broker(node, launcher, temporary=self._keep is None) for node in nodes
        )
        for broker in self._brokers:
            broker.configure(self._properties_of(broker.node, nodes))
        self._format()
        for broker in self._brokers:
            broker.start()
        self._wait_ready(self._brokers, deadline_s)

    def _format(self) -> None:
        """Make the brokers' storage where it is not made yet."""
        raw = [broker for broker in self._brokers if not broker.has_storage]
        if not raw:
            return
        users = self._security.users if self._security else _NOTHING
        cluster_id = random_uuid()
        alike = (*sorted(users.items()), *sorted(self._properties.items()))
        if alike not in _CHECKPOINTS:
            first = raw.pop(0)
            if not first.format(cluster_id, users):
                raise EmbeddedKafkaError(first.account("could not make its storage"))
            _CHECKPOINTS[alike] = first.checkpoint
        for broker in raw:
            broker.format_as(cluster_id, _CHECKPOINTS[alike])

    def _nodes(self, directory: Path) -> tuple[Node, ...]:
        ports = free_ports(self._count * (_PORTS_PER_NODE + len(self._listeners)))
        return tuple(
            Node(
                index=index,
                directory=directory / f"broker-{index}",
                port=ports.pop(),
                controller_port=ports.pop(),
                internal_port=ports.pop(),
                further_ports={name: ports.pop() for name in self._listeners},
                advertised_ports={name: each[index] for name, each in self._advertised.items()},
            )
            for index in range(self._count)
        )

    def _properties_of(self, node: Node, nodes: tuple[Node, ...]) -> str:
        return server_properties(
            node,
            nodes=nodes,
            offsets_partitions=self._offsets_partitions,
            security=self._security,
            certificates=self._certificates,
            listeners=self._listeners,
            overrides=self._properties,
        )

    def _wait_ready(self, brokers: Iterable[Broker], deadline_s: float) -> None:
        running = {each.node.node_id for each in self._brokers if each.pid is not None}
        for broker in brokers:
            config = self.admin_config() | {"bootstrap.servers": broker.node.bootstrap}
            while (reason := _unready(config, broker.node.port, running, self._count)) != "":
                broker.pause(0.05)
                if time.monotonic() > deadline_s:
                    raise EmbeddedKafkaError(broker.account(f"is not ready: {reason}"))

    def _end_gently(self) -> None:
        """Ask all brokers at once to end: one after another, the last would miss its quorum."""
        for broker in self._brokers:
            broker.terminate()
        for broker in self._brokers:
            broker.wait_end()


_ANSWER_TIMEOUT_S = 5.0


def _unready(config: ClientConfig, port: int, running: AbstractSet[int], count: int) -> str:
    """Return why the broker at `port` is not ready; "" when it is.

    Ready is a broker that answers clients and knows all `running` node ids; and, when all of the
    cluster's `count` brokers run, a leader of every partition.
    """
    if not answers(port):  # asked first: the client library would wait and complain
        return f"nothing listens on port {port}"
    try:
        metadata = AdminClient({**config, "log_level": 0}).list_topics(timeout=_ANSWER_TIMEOUT_S)
    except KafkaException as error:
        return f"it does not answer clients: {error}"
    if unknown := running - metadata.brokers.keys():
        return f"it does not know brokers {sorted(unknown)} yet"
    if len(running) == count and (orphans := _leaderless(metadata, running)):
        return f"no leader yet for {', '.join(orphans[:3])}"
    return ""


def _leaderless(metadata: ClusterMetadata, running: AbstractSet[int]) -> list[str]:
    return [
        f"{topic.topic}-{partition.id}"
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
        if partition.leader not in running
    ]
