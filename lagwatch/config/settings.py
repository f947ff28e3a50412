"""All sections together; `[log]` and `[metrics]`, the small ones, are here."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import CheckpointSettings, EvaluatorSettings, WindowSettings
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.config.section import Section, fault
from lagwatch.config.server import ServerSettings


class MetricsSettings(Section):
    """What /metrics exports: always our own metrics, and on request those of other exporters."""

    partition_budget: Annotated[int, Field(ge=0, le=100_000_000)] = Field(
        default=0,
        description=(
            "maximum number of partitions, per cluster, that get series of their own: first "
            "those that are not OK, then those with the greatest lag; the rest is summed by "
            "group; 0 = all"
        ),
    )
    group_budget: Annotated[int, Field(ge=0, le=100_000_000)] = Field(
        default=0,
        description=(
            "maximum number of groups, per cluster, that get all series of a group: first those "
            "that are not OK, then those with the greatest lag; the rest get what alerts need: "
            "status, partitions that are not OK, lag, time lag, rebalances, lost messages and "
            "retention; 0 = all"
        ),
    )
    burrow: bool = Field(default=False, description="add Burrow's own names")
    kafka_exporter: bool = Field(default=False, description="add the names of kafka_exporter")
    kafka_lag_exporter: bool = Field(
        default=False, description="add the names of kafka-lag-exporter and klag-exporter"
    )
    kminion: bool = Field(default=False, description="add the names of KMinion")

    @property
    def profiles(self) -> tuple[str, ...]:
        """The exporters whose names are added."""
        switches = {
            "burrow": self.burrow,
            "kafka_exporter": self.kafka_exporter,
            "kafka_lag_exporter": self.kafka_lag_exporter,
            "kminion": self.kminion,
        }
        return tuple(name for name, on in switches.items() if on)


Level = Literal["trace", "debug", "info", "warning", "error", "fatal"]
Format = Literal["auto", "json", "console"]


def _plain(value: object) -> object:
    """Lower case, and `warning` for `warn`."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    return "warning" if word == "warn" else word


class LogSettings(Section):
    """The log, written to stderr."""

    level: Annotated[Level, BeforeValidator(_plain)] = Field(
        default="info",
        description=(
            "minimum severity that is written; `POST /v3/admin/loglevel` changes it at run time"
        ),
    )
    format: Annotated[Format, BeforeValidator(_plain)] = Field(
        default="auto", description="`auto` writes JSON lines unless stderr is a terminal"
    )


def _one_path_segment(name: str) -> str:
    """Cluster names are part of URLs: `/v3/kafka/NAME`."""
    if not name or name in {".", ".."} or any(_strange(character) for character in name):
        raise fault(
            "name",
            "the name cannot be part of a URL",
            "Use letters, digits, '.', '_' and '-'.",
        )
    return name


def _strange(character: str) -> bool:
    return not (character.isalnum() or character in "._-")


ClusterName = Annotated[str, AfterValidator(_one_path_segment)]


class Settings(Section):
    """The whole configuration; `lagwatch.config.load` reads it."""

    server: ServerSettings = Field(default=ServerSettings(), description="the HTTP server")
    log: LogSettings = Field(default=LogSettings(), description="the log on stderr")
    evaluator: EvaluatorSettings = Field(
        default=EvaluatorSettings(), description="how groups are judged"
    )
    windows: WindowSettings = Field(
        default=WindowSettings(), description="how many commits are kept for judging"
    )
    checkpoint: CheckpointSettings = Field(
        default=CheckpointSettings(),
        description="state on disk, so that a restart continues where it stopped",
    )
    metrics: MetricsSettings = Field(default=MetricsSettings(), description="what /metrics exports")
    history: HistorySettings = Field(
        default=HistorySettings(), description="what is recorded, and where"
    )
    alerts: AlertsSettings = Field(default=AlertsSettings(), description="incidents and notices")
    jobs: JobsSettings = Field(default=JobsSettings(), description="the Spark jobs")
    clusters: Annotated[dict[ClusterName, ClusterSettings], Field(min_length=1)] = Field(
        description="the Kafka clusters, by name"
    )
