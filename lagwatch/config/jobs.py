"""Section `[jobs]`: the Spark jobs `backfill`, `rollup` and `report`."""

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from lagwatch.config.secret import Properties, ShownUrl
from lagwatch.config.section import Section, Texts, fault


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise fault(
            "time_zone", "no such time zone", "Write a name such as Europe/Berlin or UTC."
        ) from error
    return name


class ReportSettings(Section):
    """The nightly report."""

    folder: Path = Field(
        default=Path("lagwatch-reports"),
        description="folder the reports are written to, a set of files per day",
    )
    time_zone: Annotated[str, AfterValidator(_known_zone)] = Field(
        default="UTC", description="time zone of the report's days: `Europe/Berlin`"
    )
    objective_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=60.0, description="seconds of time lag up to which a group is in time"
    )
    objective_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        default=0.99, description="share of the time (0 to 1) in which a group must be in time"
    )
    headroom: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.7,
        description="share (0 to 1) of a consumer's capacity to plan with at peak",
    )
    channels: Texts = Field(
        default=(),
        description="names of the alert channels that get the report",
    )


class JobsSettings(Section):
    """The Spark jobs `backfill`, `rollup` and `report`."""

    master: Annotated[ShownUrl, Field(min_length=1)] = Field(
        default="local[*]",
        validate_default=True,
        description=(
            "where Spark runs: `local[2]`, `spark://…`, `yarn`, `k8s://…`, or `sc://…` "
            "(Spark Connect)"
        ),
    )
    driver_memory_mb: Annotated[int, Field(ge=512, le=1_000_000)] = Field(
        default=1536, description="heap in megabytes of a Spark that lagwatch starts itself"
    )
    spark: Properties = Field(
        default=Properties(),
        description='properties for Spark: `"spark.executor.memory" = "2g"`',
    )
    textfile: Path | None = Field(
        default=None,
        description="folder of node_exporter's textfile collector, for metrics of the last run",
    )
    report: ReportSettings = Field(default=ReportSettings(), description="the nightly report")
