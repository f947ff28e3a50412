"""The application: all routes, all failures, one router."""

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI

from lagwatch.ports import BurrowSettings, Commands, Queries
from lagwatch_api import docs, errors, ops
from lagwatch_api.deps import Deps
from lagwatch_api.openapi import DocumentedApp
from lagwatch_api.routing import Answer, Endpoint, RouteTable
from lagwatch_api.v3 import routes as v3
from lagwatch_api.v3.reply import Reply

_DESCRIPTION: Final = (
    "Is every Kafka consumer group keeping up, and if not, since when and why. "
    "Under /v3 a client of Burrow finds all it knows; what we add stands beside it."
)


def create_app(
    queries: Queries, commands: Commands, burrow: BurrowSettings, *, hostname: str, version: str
) -> FastAPI:
    """The ASGI application.

    FastAPI routes may be added to it afterwards; a request that no route takes is answered as
    Burrow answers it.
    """
    deps = Deps(
        queries=queries, commands=commands, burrow=burrow, hostname=hostname, version=version
    )
    reply = Reply.of(deps)
    table = RouteTable((*v3.endpoints(deps, reply), *ops.endpoints(deps), *_documentation()))
    app = DocumentedApp(
        table.endpoints,
        title="lagwatch",
        version=version,
        description=_DESCRIPTION,
        redirect_slashes=False,
        routes=[table],
    )
    app.state.deps = deps
    errors.install(app, table, reply)
    return app


def _documentation() -> Iterator[Endpoint]:
    tag = "Documentation"
    yield Endpoint(
        method="GET",
        path="/openapi.json",
        handler=docs.serve_document,
        summary="This documentation for machines",
        tag=tag,
        answers={200: Answer(description="an OpenAPI document", model=dict[str, object])},
    )
    yield Endpoint(
        method="GET",
        path="/docs",
        handler=docs.serve_page,
        summary="This page",
        tag=tag,
        answers={200: Answer(description="HTML", media_type="text/html")},
    )
