"""Section `[jobs]`: the Spark jobs `backfill`, `rollup` and `report`."""

from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from lagwatch.config.section import Properties, Section, fault


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
        default=Path("lagwatch-reports"), description="where reports are written, a day each"
    )
    time_zone: Annotated[str, AfterValidator(_known_zone)] = Field(
        default="UTC", description="zone whose days the report speaks of: `Europe/Berlin`"
    )
    objective_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=60.0, description="a group is in time while its time lag is at most this"
    )
    objective_share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        default=0.99, description="share of the time (0..1) in which a group shall be in time"
    )
    headroom: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = Field(
        default=0.7,
        description="share (0..1) of what a consumer can do that it shall be used to at peak",
    )
    channels: tuple[str, ...] = Field(
        default=(),
        json_schema_extra={"format": "texts"},
        description="alert channels that get the short text, by name",
    )


class JobsSettings(Section):
    """Where Spark runs and what it may take."""

    master: Annotated[str, Field(min_length=1)] = Field(
        default="local[*]",
        description="`local[2]`, `spark://…`, `yarn`, `k8s://…`, or `sc://…` for Spark Connect",
    )
    driver_memory_mb: Annotated[int, Field(ge=512, le=1_000_000)] = Field(
        default=1536, description="megabytes of heap of a Spark that lagwatch starts itself"
    )
    spark: Properties = Field(
        default={},
        repr=False,
        description='properties handed to Spark: `"spark.executor.memory" = "2g"`',
    )
    textfile: Path | None = Field(
        default=None,
        description="folder of node_exporter's textfile collector: metrics of the last run",
    )
    report: ReportSettings = Field(default=ReportSettings(), description="the nightly report")
