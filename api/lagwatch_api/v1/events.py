"""What happened to a group: its story, from memory."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

from lagwatch.core.record import Kind
from lagwatch.ports.queries import EventQueries, GroupEvent, Queries
from lagwatch_api.answers import json_answer
from lagwatch_api.routing import Answer, Endpoint
from lagwatch_api.v1.fleet import NO_CACHE, TAG
from lagwatch_api.v1.known import Known
from lagwatch_api.v1.pages import Points

PATH = "/api/v1/clusters/{cluster}/groups/{group}/events"


def endpoints(events: EventQueries, queries: Queries) -> Iterator[Endpoint]:
    """The route of a server that keeps no history; with one, `history` has it."""
    known = Known(queries, None)

    async def of_group(request: Request) -> Response:
        names = request.path_params
        return await from_memory(events, known, names["cluster"], names["group"])

    yield Endpoint(
        method="GET",
        path=PATH,
        handler=of_group,
        summary="What happened to a group since lagwatch started: its newest events",
        tag=TAG,
        answers={200: Answer(description="oldest first", model=Points)},
    )


async def from_memory(events: EventQueries, known: Known, cluster: str, group: str) -> Response:
    """The newest events of a group, in the shape of a page of the history.

    Raises:
        NotFoundError: the cluster or the group is not known.
    """
    found = events.events(cluster, group)
    if not found:
        await known.check_group(cluster, group)
    page: Points = {
        "about": {"cluster": cluster, "group": group, "source": "memory"},
        "kind": Kind.EVENTS.value,
        "step_ms": 0,
        "next": None,
        "points": [_point(cluster, event) for event in found],
    }
    return json_answer(page, headers=NO_CACHE)


def _point(cluster: str, event: GroupEvent) -> dict[str, str | int | None]:
    return {
        "at_ms": event.at_ms,
        "cluster": cluster,
        "group": event.group,
        "topic": event.topic,
        "partition": event.partition,
        "event": event.event,
        "before": event.before,
        "after": event.after,
        "rule": event.rule,
        "lag": event.lag,
        "count": event.count,
        "detail": event.detail,
    }
