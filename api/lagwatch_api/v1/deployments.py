"""`/api/v1`: taking note of deployments."""

from typing import Annotated, Final

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from lagwatch.errors import HistoryError
from lagwatch.ports.history import Deployment, Deployments
from lagwatch_api.routing import SegmentRoute

TAG: Final = "History"
_GROUP: Final = "/api/v1/clusters/{cluster}/groups/{group}"


class DeploymentOrder(BaseModel):
    """A version that went live."""

    model_config = ConfigDict(extra="forbid")

    version: Annotated[str, Field(min_length=1, max_length=200)]
    note: Annotated[str, Field(max_length=1000)] = ""


def router(deployments: Deployments) -> APIRouter:
    """The route; include it in the application."""
    routes = APIRouter(tags=[TAG], route_class=SegmentRoute)

    @routes.post(
        _GROUP + "/deployments",
        summary="A version of the group's consumers went live: remember when, and the offsets",
        status_code=201,
        responses={503: {"description": "it could not be written down; try again"}},
    )
    async def deployed(cluster: str, group: str, order: DeploymentOrder) -> Deployment:
        try:
            return await deployments.deployed(
                cluster, group, version=order.version, note=order.note
            )
        except HistoryError as error:
            raise HTTPException(503, str(error)) from error

    return routes
