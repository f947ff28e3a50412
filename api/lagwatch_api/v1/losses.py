"""`/api/v1/clusters/…/groups/…/losses/acknowledge`: stop showing the lost messages of a group."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.ports.queries import Commands
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import Answer, Endpoint
from lagwatch_api.v1.fleet import NO_CACHE, TAG


class Acknowledged(TypedDict):
    """How many partitions of the group showed a loss."""

    partitions: int


def endpoints(commands: Commands) -> Iterator[Endpoint]:
    """The route."""

    async def acknowledge(request: Request) -> Response:
        names = request.path_params
        number = await commands.acknowledge_losses(names["cluster"], names["group"])
        answer: Acknowledged = {"partitions": number}
        return json_answer(answer, headers=NO_CACHE)

    yield Endpoint(
        method="POST",
        path="/api/v1/clusters/{cluster}/groups/{group}/losses/acknowledge",
        handler=acknowledge,
        summary="Stop showing the lost messages of a group; they stay counted and recorded",
        tag=TAG,
        answers={200: Answer(description="partitions that showed a loss", model=Acknowledged)},
    )
