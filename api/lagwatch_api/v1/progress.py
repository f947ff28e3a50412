"""`/api/v1/clusters/…/progress/…`: positions of jobs that keep their progress outside of Kafka."""

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from lagwatch.errors import NameTakenError, PositionError
from lagwatch.ports.progress import ProgressSink
from lagwatch_api.routing import SegmentRoute

TAG: Final = "Progress"
_MOST_TOPICS: Final = 1000
_MOST_PARTITIONS: Final = 100_000

Topic = Annotated[str, Field(min_length=1, max_length=249)]
PartitionKey = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,9})$")]
"""A partition's number: keys of JSON are text."""
Offset = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
"""A JSON number: `true` and `"120"` are more likely mistakes than offsets."""


class ProgressReport(BaseModel):
    """How far a job has come."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9][a-z0-9._-]{0,49}$",
            description="what keeps the progress: `flink`, `pinot`, …",
        ),
    ] = "reported"
    positions: Annotated[
        dict[Topic, Annotated[dict[PartitionKey, Offset], Field(max_length=_MOST_PARTITIONS)]],
        Field(
            min_length=1,
            max_length=_MOST_TOPICS,
            description="topic → partition → next offset to be read",
        ),
    ]
    at_ms: Annotated[
        int | None,
        Field(ge=0, lt=2**53, description="when it had come so far; null: now"),
    ] = None


class ProgressTaken(TypedDict):
    """What was taken in."""

    cluster: str
    group: Annotated[str, Field(description="the name of the group that the job is shown as")]
    kind: str
    at_ms: int
    late: Annotated[
        bool,
        Field(description="a report of a later instant came before; what it named stays as it is"),
    ]
    partitions: int
    topics_not_visible: Annotated[
        list[str],
        Field(
            description="topics named here that do not exist yet, or that lagwatch may not describe"
        ),
    ]


def router(progress: ProgressSink) -> APIRouter:
    """The route; include it in the application."""
    routes = APIRouter(tags=[TAG], route_class=SegmentRoute)

    @routes.post(
        "/api/v1/clusters/{cluster}/progress/{name}",
        summary="Positions of a job that keeps its progress outside of Kafka",
        responses={
            400: {"description": "Positions that cannot be right"},
            409: {"description": "Kafka itself has a group of this name"},
        },
    )
    async def report_progress(cluster: str, name: str, report: ProgressReport) -> ProgressTaken:
        positions = {
            topic: {int(partition): offset for partition, offset in offsets.items()}
            for topic, offsets in report.positions.items()
        }
        try:
            taken = progress.report(
                cluster, name, kind=report.kind, positions=positions, at_ms=report.at_ms
            )
        except NameTakenError as error:
            raise HTTPException(409, str(error)) from error
        except PositionError as error:
            raise HTTPException(400, str(error)) from error
        return {
            "cluster": cluster,
            "group": name,
            "kind": report.kind,
            "at_ms": taken.at_ms,
            "late": taken.late,
            "partitions": sum(map(len, report.positions.values())),
            "topics_not_visible": list(taken.not_visible),
        }

    return routes
