"""`/api/v1`: deployments: note one, list them, compare two, plan to roll back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.rollback import RollbackPartition, RollbackPlan
from lagwatch.errors import HistoryError, RollbackError
from lagwatch.ports.deployments import (
    LONGEST_MS,
    SHORTEST_MS,
    Deployment,
    DeploymentDiff,
    Deployments,
)
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import SegmentRoute
from lagwatch_api.v1.known import Known
from lagwatch_api.v1.pages import CSV, JSON, Form, wanted_form
from lagwatch_api.v1.wording import duration_ms

TAG: Final = "History"
_GROUP: Final = "/api/v1/clusters/{cluster}/groups/{group}"
_ONE: Final = _GROUP + "/deployments/{deployment}"
_UNREADABLE: Final[dict[int | str, dict[str, object]]] = {
    503: {"description": "the history cannot be read now"}
}

Last = Annotated[
    str, Query(description="how much of the end of each run is measured: `10m`, `1h`, at most 6 h")
]


Format = Annotated[
    Literal[Form.JSON, Form.CSV] | None,
    Query(alias="format", description=f"instead of `Accept`: {JSON}, {CSV}"),
]


class DeploymentOrder(BaseModel):
    """A version that went live."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[str, Field(min_length=1, max_length=200)]
    note: Annotated[str, Field(max_length=1000)] = ""


class Plan(TypedDict):
    """Offsets that bring a group back to a deployment; nothing is reset."""

    cluster: str
    group: str
    deployed_ms: Annotated[int, Field(description="ID of the deployment")]
    version: str
    at_ms: Annotated[int, Field(description="as of when")]
    members: Annotated[int | None, Field(description="Kafka resets only groups without members")]
    read_again: Annotated[int, Field(description="messages, where known")]
    read_again_unknown: Annotated[int, Field(description="partitions where it is not known")]
    skipped: Annotated[int, Field(description="messages that would never be read")]
    deleted: Annotated[int, Field(description="offsets that no longer exist")]
    partitions: tuple[RollbackPartition, ...]


def router(deployments: Deployments, known: Known | None = None) -> APIRouter:
    """The routes; include them in the application. Without `known` every group has a list."""
    routes = APIRouter(tags=[TAG], route_class=SegmentRoute)
    _noting(routes, deployments, known)
    _comparing(routes, deployments)
    _planning(routes, deployments)
    return routes


def _noting(routes: APIRouter, deployments: Deployments, known: Known | None) -> None:
    @routes.post(
        _GROUP + "/deployments",
        summary="A version of the group's consumers went live: remember when, and the offsets",
        status_code=201,
        responses={503: {"description": "it could not be written down; try again"}},
    )
    async def deployed(cluster: str, group: str, order: DeploymentOrder) -> Deployment:
        with _readable():
            return await deployments.deployed(
                cluster, group, version=order.version, note=order.note
            )

    @routes.get(
        _GROUP + "/deployments",
        summary="Deployments of a group, oldest first",
        responses=_UNREADABLE,
    )
    async def noted(cluster: str, group: str) -> tuple[Deployment, ...]:
        with _readable():
            found = await deployments.noted(cluster, group)
            if not found and known is not None:
                await known.check_group(cluster, group)
            return found


def _comparing(routes: APIRouter, deployments: Deployments) -> None:
    @routes.get(
        _ONE + "/diff/{other}",
        summary="Lag, rates and verdicts under two versions; each is an ID or a version",
        responses=_UNREADABLE,
    )
    async def diff(
        cluster: str, group: str, deployment: str, other: str, *, last: Last = "1h"
    ) -> DeploymentDiff:
        try:
            last_ms = duration_ms(last)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        if not SHORTEST_MS <= last_ms <= LONGEST_MS:
            raise HTTPException(400, f"last={last} is not between 1m and 6h")
        with _readable():
            return await deployments.diff(cluster, group, deployment, other, last_ms=last_ms)


def _planning(routes: APIRouter, deployments: Deployments) -> None:
    @routes.get(
        _ONE + "/rollback-plan",
        summary="Offsets that bring the group back to a deployment; as CSV for Kafka's own tool",
        responses={
            200: {"model": Plan, "content": {CSV: {"schema": {"type": "string"}}}},
            409: {"description": "offsets cannot set a group of this kind back"},
            **_UNREADABLE,
        },
    )
    async def rollback_plan(
        request: Request, cluster: str, group: str, deployment: str, *, form: Format = None
    ) -> Response:
        with _readable():
            try:
                plan = await deployments.rollback_plan(cluster, group, deployment)
            except RollbackError as error:
                raise HTTPException(409, str(error)) from error
        if wanted_form(request, form) is Form.CSV:
            return Response(plan.csv(), media_type=CSV)
        return json_answer(plan_answer(plan))


def plan_answer(plan: RollbackPlan) -> Plan:
    """The plan with its totals."""
    return {
        "cluster": plan.cluster,
        "group": plan.group,
        "deployed_ms": plan.deployed_ms,
        "version": plan.version,
        "at_ms": plan.at_ms,
        "members": plan.members,
        "read_again": plan.read_again,
        "read_again_unknown": plan.read_again_unknown,
        "skipped": plan.skipped,
        "deleted": plan.deleted,
        "partitions": plan.partitions,
    }


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except HistoryError as error:
        raise HTTPException(503, str(error)) from error
