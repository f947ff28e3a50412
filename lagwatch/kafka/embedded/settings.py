"""The brokers' configuration: who listens where, and settings that suit one small machine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from lagwatch.errors import LagwatchError
from lagwatch.kafka.embedded.ports import LOOPBACK

ClientConfig = dict[str, str | int | float | bool]
"""Settings of a confluent-kafka client."""

SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")

_MOST_REPLICAS = 3
_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_SMALL_AND_QUICK: Mapping[str, str] = MappingProxyType({
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "8388608",
    # a controller without work writes no record every half second to show that it is there
    "metadata.max.idle.interval.ms": "0",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
})  # fmt: skip
# A dead broker is noticed in 4 s instead of 9 s: room enough for a busy machine of two cores. Where
# there is no other to notice it, a heartbeat every two seconds will do.
_NOTICE_DEATH_SOON: Mapping[str, str] = MappingProxyType({
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramOverTls:
    """Clients connect over TLS with a name and a password, and may do what ACLs allow.

    Without an ACL everything is denied, except to super users.
    """

    users: Mapping[str, str] = field(repr=False)
    """User name to password, for SCRAM-SHA-256 and SCRAM-SHA-512."""
    super_users: tuple[str, ...] = ("admin",)
    """Super users; `admin_config()` uses the first."""

    def __post_init__(self) -> None:
        missing = [name for name in self.super_users if name not in self.users]
        if missing or not self.super_users:
            raise ValueError(f"super_users must name at least one of users; unknown: {missing}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker, which is its own controller as well, and where it lives."""

    index: int
    """0-based; Kafka's node id is one more."""
    directory: Path
    port: int
    """Of the clients' listener."""
    controller_port: int
    internal_port: int
    """Of the listener the brokers use among themselves; only when clients use another protocol."""
    further_ports: Mapping[str, int] = field(default_factory=dict)
    """Of further listeners for clients, by name."""
    advertised_ports: Mapping[str, int] = field(default_factory=dict)
    """Where clients are sent instead of to a listener's own port, by its name."""

    @property
    def node_id(self) -> int:
        return self.index + 1

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def log_file(self) -> Path:
        return self.directory / "server.log"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"


def server_properties(
    node: Node,
    *,
    nodes: tuple[Node, ...],
    offsets_partitions: int,
    security: ScramOverTls | None,
    certificates: Path,
    listeners: Mapping[str, str],
    overrides: Mapping[str, str],
) -> str:
    """Return the text of a node's `server.properties`; `overrides` win over everything.

    `listeners` are the further ones, with the security protocol of each.
    """
    replicas = str(min(len(nodes), _MOST_REPLICAS))
    return _text({
        **_SMALL_AND_QUICK,
        **(_NOTICE_DEATH_SOON if len(nodes) > 1 else {}),
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        "controller.quorum.voters": ",".join(
            f"{each.node_id}@{LOOPBACK}:{each.controller_port}" for each in nodes
        ),
        "log.dirs": str(node.directory / "data"),
        "default.replication.factor": replicas,
        "offsets.topic.num.partitions": str(offsets_partitions),
        "offsets.topic.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        **(
            _plaintext(node, listeners)
            if security is None
            else _scram(node, security, certificates, listeners)
        ),
        **overrides,
    })  # fmt: skip


def _plaintext(node: Node, listeners: Mapping[str, str]) -> dict[str, str]:
    return _listeners(
        {"PLAINTEXT": node.port, **node.further_ports},
        node,
        protocols={"PLAINTEXT": "PLAINTEXT", **listeners},
    )


def _scram(
    node: Node, security: ScramOverTls, certificates: Path, listeners: Mapping[str, str]
) -> dict[str, str]:
    """Clients over TLS with SCRAM; brokers among themselves in the clear, as super users."""
    names = ("ANONYMOUS", *security.super_users)
    return {
        **_listeners(
            {"INTERNAL": node.internal_port, "SASL_SSL": node.port, **node.further_ports},
            node,
            protocols={"INTERNAL": "PLAINTEXT", "SASL_SSL": "SASL_SSL", **listeners},
        ),
        "authorizer.class.name": _AUTHORIZER,
        "super.users": ";".join(f"User:{name}" for name in names),
        "sasl.enabled.mechanisms": ",".join(SCRAM_MECHANISMS),
        **{
            f"listener.name.sasl_ssl.{mechanism.lower()}.sasl.jaas.config": _JAAS
            for mechanism in SCRAM_MECHANISMS
        },
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates / "ca.pem"),
    }


def _listeners(
    ports: Mapping[str, int], node: Node, *, protocols: Mapping[str, str]
) -> dict[str, str]:
    """Return the listeners of `ports` (name to port), the first one being the brokers' own."""
    heard = [f"{name}://{LOOPBACK}:{port}" for name, port in ports.items()]
    shown = {**ports, **node.advertised_ports}
    advertised = [f"{name}://{LOOPBACK}:{port}" for name, port in shown.items()]
    controller = f"CONTROLLER://{LOOPBACK}:{node.controller_port}"
    every = {**protocols, "CONTROLLER": "PLAINTEXT"}
    return {
        "listeners": ",".join([*heard, controller]),
        "advertised.listeners": ",".join(advertised),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": next(iter(ports)),
        "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in every.items()),
    }


def _text(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))


class EmbeddedKafkaError(LagwatchError):
    """The embedded Kafka cannot be had, started or reached; the text names the remedy."""
