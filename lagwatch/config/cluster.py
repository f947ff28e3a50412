"""Section `[clusters.NAME]`: one Kafka cluster, how to reach it and what to read of it."""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field

from lagwatch.config.address import split
from lagwatch.config.sasl import SaslSettings
from lagwatch.config.section import REVEAL, Interval, Properties, Regex, Section, fault
from lagwatch.config.tls import TlsSettings

CommitsMode = Literal["auto", "offsets-topic", "admin"]
Start = Literal["earliest", "latest"]

_EXAMPLE = "kafka-1:9092"


def _brokers(value: object) -> object:
    """A list, or text with commas, of `host:port`; blank entries are dropped."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise fault("type", "is neither text nor a list", f"Write [{_EXAMPLE!r}].")
    brokers = [part.strip() if isinstance(part, str) else part for part in parts]
    return tuple(broker for broker in brokers if broker != "")


def _broker(value: object) -> object:
    if not isinstance(value, str):
        raise fault("type", "is not text", f"Write host:port, for example {_EXAMPLE!r}.")
    host, _ = split(value, lowest_port=1, example=_EXAMPLE)
    if not host:
        raise fault("address", "has no host", f"Write host:port, for example {_EXAMPLE!r}.")
    return value


class ClusterSettings(Section):
    """One Kafka cluster; its name is the key in `Settings.clusters`."""

    bootstrap: Annotated[
        tuple[Annotated[str, BeforeValidator(_broker)], ...],
        BeforeValidator(_brokers),
        Field(min_length=1),
    ] = Field(description="brokers to ask first, as a list or separated by commas")
    commits: CommitsMode = Field(
        default="auto",
        description=(
            "where commits are read: every one from the offsets topic, or polled through the "
            "Admin API (needs DESCRIBE only); `auto` falls back to `admin` and says so"
        ),
    )
    start: Start = Field(
        default="earliest", description="where reading of the offsets topic begins"
    )
    offsets_topic: Annotated[str, Field(min_length=1)] = Field(
        default="__consumer_offsets", description="name of the offsets topic"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        default="lagwatch", description="client id shown to the brokers (quotas, logs)"
    )
    group_allow: Regex = Field(default="", description="only groups whose name it is found in")
    group_deny: Regex = Field(default="", description="no groups whose name it is found in")
    topic_allow: Regex = Field(default="", description="only topics whose name it is found in")
    topic_deny: Regex = Field(default="", description="no topics whose name it is found in")
    log_end_interval_s: Interval = Field(
        default=5.0, description="seconds between two rounds of log end offsets"
    )
    topic_interval_s: Interval = Field(
        default=60.0, description="seconds between two readings of topics, partitions, leaders"
    )
    group_interval_s: Interval = Field(
        default=30.0, description="seconds between two readings of groups and members"
    )
    committed_interval_s: Interval = Field(
        default=10.0, description="seconds between two polls of committed offsets (`admin` only)"
    )
    tls: TlsSettings = Field(default=TlsSettings(), description="encryption")
    sasl: SaslSettings | None = Field(default=None, description="authentication")
    client: Properties = Field(
        default={},
        repr=False,
        description='properties handed to librdkafka: `"socket.timeout.ms" = 30000`',
    )

    def to_child(self) -> str:
        """JSON with the secrets in clear, for a process of ours over a pipe; never log it."""
        return self.model_dump_json(context={REVEAL: True})

    @classmethod
    def from_child(cls, text: str | bytes) -> Self:
        """What `to_child` wrote."""
        return cls.model_validate_json(text)
