"""The whole configuration."""

from typing import Annotated

from pydantic import AfterValidator, Field

from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.cluster import ClusterSettings
from lagwatch.config.evaluator import EvaluatorSettings
from lagwatch.config.history import HistorySettings
from lagwatch.config.jobs import JobsSettings
from lagwatch.config.log import LogSettings
from lagwatch.config.metrics import MetricsSettings
from lagwatch.config.section import Section, fault
from lagwatch.config.server import ServerSettings
from lagwatch.config.windows import WindowSettings


def _one_path_segment(name: str) -> str:
    """Cluster names stand in URLs: `/v3/kafka/NAME`."""
    if not name or name in {".", ".."} or any(_strange(character) for character in name):
        raise fault(
            "name",
            "the name cannot stand in a URL",
            "Use letters, digits, '.', '_' and '-'.",
        )
    return name


def _strange(character: str) -> bool:
    return not (character.isalnum() or character in "._-")


ClusterName = Annotated[str, AfterValidator(_one_path_segment)]


class Settings(Section):
    """Everything lagwatch can be told; see `lagwatch.config.load` for where it comes from."""

    server: ServerSettings = Field(default=ServerSettings(), description="the HTTP server")
    log: LogSettings = Field(default=LogSettings(), description="the log on stderr")
    evaluator: EvaluatorSettings = Field(
        default=EvaluatorSettings(), description="how windows are judged"
    )
    windows: WindowSettings = Field(
        default=WindowSettings(), description="the commits that are kept for judging"
    )
    metrics: MetricsSettings = Field(
        default=MetricsSettings(), description="what stands on /metrics"
    )
    history: HistorySettings = Field(
        default=HistorySettings(), description="what is kept of the past"
    )
    alerts: AlertsSettings = Field(
        default=AlertsSettings(), description="incidents and who is told of them"
    )
    jobs: JobsSettings = Field(default=JobsSettings(), description="the Spark jobs")
    clusters: Annotated[dict[ClusterName, ClusterSettings], Field(min_length=1)] = Field(
        description="the Kafka clusters, by name"
    )
