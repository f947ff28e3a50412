"""`/api/v1/clusters/…/groups/…/scale`: how many consumers a group should have, for autoscalers."""

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query
from pydantic import Field
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.scale import Goal
from lagwatch.ports.scaling import Scaling
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import SegmentRoute
from lagwatch_api.v1.wording import duration_ms

TAG: Final = "Fleet"
_SHORTEST_MS: Final = 1000
_LONGEST_MS: Final = 86_400_000

_PerS = float | None
Target = Annotated[str, Query(description="time lag that the group may have: `30s`, `5m`")]
Least = Annotated[int, Query(ge=0, le=100_000, alias="min", description="fewest consumers")]
Most = Annotated[
    int | None,
    Query(
        ge=1,
        le=100_000,
        alias="max",
        description="most consumers; above the partitions only for share groups",
    ),
]


class Scale(TypedDict):
    """How many consumers a group should have; what is not known is null."""

    cluster: str
    group: str
    desired_consumers: Annotated[
        int | None, Field(description="null only while the members were never known")
    ]
    held: Annotated[bool, Field(description="data are missing: this is the last good number")]
    reason: Annotated[str, Field(description="why it is held")]
    at_ms: Annotated[int | None, Field(description="when it was computed from complete data")]
    target_time_lag_s: float
    consumers: Annotated[
        int | None, Field(description="members that hold partitions; all members of a share group")
    ]
    partitions: int | None
    lag: Annotated[int | None, Field(description="messages")]
    produced_per_s: _PerS
    consumed_per_s: _PerS
    per_consumer_per_s: Annotated[
        _PerS, Field(description="what one consumer does while messages wait; null: not yet seen")
    ]


def router(scaling: Scaling) -> APIRouter:
    """The route; include it in the application."""
    routes = APIRouter(tags=[TAG], route_class=SegmentRoute)

    @routes.get(
        "/api/v1/clusters/{cluster}/groups/{group}/scale",
        summary="How many consumers the group should have, for autoscalers",
        responses={200: {"model": Scale}},
    )
    async def scale(
        cluster: str, group: str, *, target: Target = "60s", least: Least = 1, most: Most = None
    ) -> Response:
        if most is not None and least > most:
            raise HTTPException(400, f"min={least} is above max={most}")
        goal = Goal(time_lag_s=_seconds(target), least=least, most=most)
        return json_answer(_answer(scaling, cluster, group, goal))

    return routes


def _seconds(text: str) -> float:
    try:
        target_ms = duration_ms(text)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
    if not _SHORTEST_MS <= target_ms <= _LONGEST_MS:
        raise HTTPException(400, f"target={text} is not between 1s and 1d")
    return target_ms / 1000


def _answer(scaling: Scaling, cluster: str, group: str, goal: Goal) -> Scale:
    advice = scaling.advice(cluster, group, goal)
    return {
        "cluster": cluster,
        "group": group,
        "desired_consumers": advice.desired,
        "held": bool(advice.held),
        "reason": advice.held,
        "at_ms": None if advice.at_ms < 0 else advice.at_ms,
        "target_time_lag_s": goal.time_lag_s,
        "consumers": advice.consumers,
        "partitions": advice.partitions,
        "lag": advice.lag,
        "produced_per_s": advice.produced_per_s,
        "consumed_per_s": advice.consumed_per_s,
        "per_consumer_per_s": advice.per_consumer_per_s,
    }
