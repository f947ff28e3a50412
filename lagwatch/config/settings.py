"""The whole configuration."""

from typing import Annotated

from pydantic import AfterValidator, Field

from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import CheckpointSettings, EvaluatorSettings, WindowSettings
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.config.log import LogSettings
from lagwatch.config.metrics import MetricsSettings
from lagwatch.config.section import Section, fault
from lagwatch.config.server import ServerSettings


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
