"""Stop showing the lost messages of groups: of one by its name, of several by their names."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.core.words import LONGEST_GROUP, named
from lagwatch.ports.queries import Commands, Queries
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import Answer, Endpoint, SegmentRoute
from lagwatch_api.v1.fleet import NO_CACHE, TAG

_MOST_PATTERNS: Final = 100


class Acknowledged(TypedDict):
    """How many partitions of the group showed a loss."""

    partitions: int


def _few_patterns(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names.

    Raises:
        ValueError: too many hold a `*`: each is compared with every group.
    """
    if sum("*" in name for name in names) > _MOST_PATTERNS:
        raise ValueError(f"only {_MOST_PATTERNS} names may hold a *")
    return names


class LossOrder(BaseModel):
    """Groups whose lost messages are known; in names `*` is any characters."""

    model_config = ConfigDict(extra="forbid")

    cluster: Annotated[str, Field(description='"" = all')] = ""
    groups: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=LONGEST_GROUP)], ...],
        Field(min_length=1, max_length=10_000),
        AfterValidator(_few_patterns),
    ]


class GroupLoss(TypedDict):
    """A group that showed a loss."""

    cluster: str
    group: str
    partitions: int
    lost: Annotated[int, Field(description="messages")]
    lost_is: Annotated[str, Field(description="exact | upper_bound")]


class LossesAcknowledged(TypedDict):
    """What was acknowledged."""

    acknowledged: Sequence[GroupLoss]
    matching: Annotated[int, Field(description="known groups of these names, also without a loss")]
    unmatched: Annotated[Sequence[str], Field(description="names that no known group has")]


def endpoints(commands: Commands) -> Iterator[Endpoint]:
    """The route of one group."""

    async def acknowledge(request: Request) -> Response:
        cluster, group = request.path_params["cluster"], request.path_params["group"]
        found = (await commands.acknowledge_losses(cluster, (group,))).get(group)
        answer: Acknowledged = {"partitions": 0 if found is None else found.partitions}
        return json_answer(answer, headers=NO_CACHE)

    yield Endpoint(
        method="POST",
        path="/api/v1/clusters/{cluster}/groups/{group}/losses/acknowledge",
        handler=acknowledge,
        summary="Stop showing the lost messages of a group; they stay counted and recorded",
        tag=TAG,
        answers={200: Answer(description="partitions that showed a loss", model=Acknowledged)},
    )


def router(queries: Queries, commands: Commands) -> APIRouter:
    """The route of several groups; include it in the application."""
    routes = APIRouter(tags=[TAG], route_class=SegmentRoute)

    @routes.post(
        "/api/v1/losses/acknowledge",
        summary="Stop showing the lost messages of groups; in names `*` is any characters",
    )
    async def acknowledge(order: LossOrder) -> LossesAcknowledged:
        unmatched = set(order.groups)
        acknowledged: list[GroupLoss] = []
        matching = 0
        for cluster in filter(named(order.cluster).search, queries.clusters()):
            known = queries.groups(cluster)
            chosen = await asyncio.to_thread(_chosen, order.groups, known, unmatched)
            matching += len(chosen)
            if not chosen:
                continue
            found = await commands.acknowledge_losses(cluster, chosen)
            acknowledged += (
                {
                    "cluster": cluster,
                    "group": group,
                    "partitions": loss.partitions,
                    "lost": loss.messages,
                    "lost_is": "upper_bound" if loss.at_most else "exact",
                }
                for group, loss in found.items()
            )
        return {
            "acknowledged": acknowledged,
            "matching": matching,
            "unmatched": [name for name in dict.fromkeys(order.groups) if name in unmatched],
        }

    return routes


def _chosen(names: Sequence[str], known: Sequence[str], unmatched: set[str]) -> list[str]:
    """The known groups that have one of the names; takes names that fit from `unmatched`."""
    chosen: dict[str, None] = dict.fromkeys(set(names).intersection(known))
    unmatched.difference_update(chosen)
    for name in set(names):
        if "*" in name:
            fitting = list(filter(named(name).search, known))
            chosen |= dict.fromkeys(fitting)
            if fitting:
                unmatched.discard(name)
    return sorted(chosen)
