"""Section `[clusters.NAME]` with `.tls`, `.sasl` and `.progress`: a Kafka cluster, what is read."""

from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field

from lagwatch.config.secret import REVEAL, Properties, Secret, ShownUrl
from lagwatch.config.section import (
    Interval,
    OrFile,
    ReadableFile,
    Regex,
    Section,
    fault,
    split_address,
)
from lagwatch.core.progress_kinds import PROGRESS_KINDS

if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[tuple(PROGRESS_KINDS)]


class TlsSettings(Section):
    """TLS towards the brokers of one cluster."""

    enabled: bool = Field(default=False, description="connect to the brokers with TLS")
    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    cert_file: ReadableFile | None = Field(
        default=None, description="PEM file with the client certificate"
    )
    key_file: ReadableFile | None = Field(
        default=None, description="PEM file with the key of the client certificate"
    )
    key_password: Annotated[
        Secret | None, OrFile(meaning="file that holds the password of `key_file`")
    ] = Field(default=None, description="password of `key_file`")
    verify: bool = Field(default=True, description="check the brokers' certificates and host names")


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM"]
WITH_PASSWORD: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
"""Mechanisms that need `username` and a password."""
AWS_MSK_IAM: Final = "AWS_MSK_IAM"


def _upper_case(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


class SaslSettings(Section):
    """Authentication towards the brokers of one cluster."""

    mechanism: Annotated[Mechanism, BeforeValidator(_upper_case)] = Field(
        description=(
            "SASL mechanism; for `OAUTHBEARER` set `sasl.oauthbearer.*` under `client`; "
            "`AWS_MSK_IAM` needs `region` and the extra `msk`"
        )
    )
    username: str | None = Field(default=None, description="user name")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )
    region: str = Field(default="", description="AWS region of the cluster; for `AWS_MSK_IAM`")
    role: str = Field(default="", description="ARN of an IAM role to assume; for `AWS_MSK_IAM`")
    profile: str = Field(
        default="", description="AWS profile whose credentials are used; for `AWS_MSK_IAM`"
    )


class ProgressSettings(Section):
    """A job that keeps its progress outside of Kafka. NAME is the group that it is shown as."""

    kind: Kind = Field(
        description="what keeps the progress: "
        + "; ".join(kind.about for kind in PROGRESS_KINDS.values())
    )
    path: Annotated[ShownUrl, Field(min_length=1)] = Field(
        description=(
            "folder of the checkpoint (`checkpointLocation`), or a URL that pyarrow or fsspec opens"
        )
    )


GroupName = Annotated[str, Field(min_length=1, max_length=249)]

CommitsMode = Literal["auto", "offsets-topic", "admin"]
Start = Literal["earliest", "latest"]

STALE_AT_LEAST_S = 15.0
STALE_ROUNDS = 3
"""Rounds of reading that may be missed before data count as stale."""

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
    host, _ = split_address(value, lowest_port=1, example=_EXAMPLE)
    if not host:
        raise fault("address", "has no host", f"Write host:port, for example {_EXAMPLE!r}.")
    return value


class ClusterSettings(Section):
    """One Kafka cluster. NAME appears in URLs and in the label `cluster`."""

    bootstrap: Annotated[
        tuple[Annotated[str, BeforeValidator(_broker)], ...],
        BeforeValidator(_brokers),
        Field(min_length=1),
    ] = Field(description="brokers to connect to first, as a list or separated by commas")
    commits: CommitsMode = Field(
        default="auto",
        description=(
            "how commits are read: `offsets-topic` reads every commit, `admin` polls the Admin API "
            "(needs DESCRIBE only), `auto` falls back from the first to the second"
        ),
    )
    start: Start = Field(
        default="earliest", description="where reading the offsets topic starts; not with `admin`"
    )
    offsets_topic: Annotated[str, Field(min_length=1)] = Field(
        default="__consumer_offsets", description="name of the offsets topic; not with `admin`"
    )
    client_id: Annotated[str, Field(min_length=1)] = Field(
        default="lagwatch", description="client id that brokers see (quotas, logs)"
    )
    group_allow: Regex = Field(default="", description="watch only groups whose name matches")
    group_deny: Regex = Field(default="", description="do not watch groups whose name matches")
    topic_allow: Regex = Field(default="", description="watch only topics whose name matches")
    topic_deny: Regex = Field(default="", description="do not watch topics whose name matches")
    log_end_interval_s: Interval = Field(
        default=5.0, description="seconds between two requests of log end offsets"
    )
    topic_interval_s: Interval = Field(
        default=60.0, description="seconds between two requests of topics, partitions and leaders"
    )
    group_interval_s: Interval = Field(
        default=30.0, description="seconds between two requests of groups and members"
    )
    committed_interval_s: Interval = Field(
        default=5.0,
        description=(
            "seconds between two polls of committed offsets, with `admin`; a poll that takes "
            "longer is followed by the next at once"
        ),
    )
    progress_interval_s: Interval = Field(
        default=5.0,
        description=(
            "seconds between two reads of the progress of the jobs in `progress`; three times this "
            "is the least age at which data of this cluster count as stale"
        ),
    )
    read_committed_groups: Regex = Field(
        default="",
        description=(
            "groups that read with `read_committed`; records behind an open transaction are not "
            "counted as their lag"
        ),
    )
    mirrored_groups: Regex = Field(
        default="",
        description=(
            "groups whose offsets are copied from another cluster; they are never STOP here"
        ),
    )
    tls: TlsSettings = Field(default=TlsSettings(), description="encryption")
    sasl: SaslSettings | None = Field(default=None, description="authentication")
    progress: dict[GroupName, ProgressSettings] = Field(
        default={}, description="jobs that keep their progress outside of Kafka, by name"
    )
    client: Properties = Field(
        default=Properties(),
        description='properties for librdkafka: `"socket.timeout.ms" = 30000`',
    )

    @property
    def stale_after_s(self) -> float:
        """Age from which on log ends, and commits that are not polled, count as stale."""
        looks_s = self.progress_interval_s if self.progress else 0.0
        return max(STALE_AT_LEAST_S, STALE_ROUNDS * max(self.log_end_interval_s, looks_s))

    @property
    def polled_stale_after_s(self) -> float:
        """Age from which on polled commits count as stale."""
        return max(self.stale_after_s, STALE_ROUNDS * self.committed_interval_s)

    def to_child(self) -> str:
        """JSON with the secrets in clear, for the collector, over a pipe; never log it."""
        return self.model_dump_json(context={REVEAL: True})

    @classmethod
    def from_child(cls, text: str | bytes) -> Self:
        """What `to_child` wrote."""
        return cls.model_validate_json(text)
