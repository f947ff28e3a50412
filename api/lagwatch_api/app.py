"""The application: all routes, all failures, one router."""

from collections.abc import Callable, Iterator
from typing import Final

from fastapi import FastAPI

from lagwatch.ports.access import Access
from lagwatch.ports.alerts import AlertsView
from lagwatch.ports.deployments import Deployments
from lagwatch.ports.history import HistoryQueries
from lagwatch.ports.metrics import Metrics
from lagwatch.ports.progress import ProgressSink
from lagwatch.ports.queries import BurrowSettings, Commands, EventQueries, Queries
from lagwatch.ports.scaling import Scaling
from lagwatch_api import docs, errors, ops, ui
from lagwatch_api import metrics as metrics_route
from lagwatch_api.deps import Deps
from lagwatch_api.gate import Gate
from lagwatch_api.measure import Measured
from lagwatch_api.openapi import DocumentedApp
from lagwatch_api.routing import Answer, Endpoint, RouteTable
from lagwatch_api.shape import Shape
from lagwatch_api.v1 import alerts as alert_routes
from lagwatch_api.v1 import deployments as deployment_routes
from lagwatch_api.v1 import events as events_route
from lagwatch_api.v1 import fleet, losses, scale, stream, trends
from lagwatch_api.v1 import history as history_routes
from lagwatch_api.v1 import progress as progress_routes
from lagwatch_api.v1 import session as session_routes
from lagwatch_api.v1.known import Known
from lagwatch_api.v1.trends import Trails
from lagwatch_api.v3 import routes as v3
from lagwatch_api.v3.reply import Reply

_DESCRIPTION: Final = (
    "Is every Kafka consumer group keeping up, and if not, since when and why. "
    "Under /v3 a client of Burrow finds all it knows; lagwatch adds keys at the end of documents."
)


def create_app(
    queries: Queries,
    commands: Commands,
    burrow: BurrowSettings,
    metrics: Metrics | None = None,
    *,
    alerts: AlertsView | None = None,
    history: HistoryQueries | None = None,
    deployments: Deployments | None = None,
    events: EventQueries | None = None,
    scaling: Scaling | None = None,
    trails: Trails | None = None,
    progress: ProgressSink | None = None,
    access: Access | None = None,
    time_zone: Callable[[], str] = lambda: "UTC",
    hostname: str,
    version: str,
) -> FastAPI:
    """The ASGI application; a part that is None has no routes.

    Without `access` nothing is refused: for tests and documentation only. `time_zone`: that in
    which the page shows instants, as notices do. FastAPI routes may be
    added to the application; a request that no route takes is answered as Burrow answers it.
    """
    deps = Deps(
        queries=queries, commands=commands, burrow=burrow, hostname=hostname, version=version
    )
    reply = Reply.of(deps)
    scraped = () if metrics is None else metrics_route.endpoints(metrics)
    table = RouteTable(
        (
            *v3.endpoints(deps, reply),
            *ops.endpoints(deps),
            *fleet.endpoints(queries, alerts),
            *losses.endpoints(commands),
            *stream.endpoints(queries, version),
            *trends.endpoints(queries, trails or {}, alerts),
            *scraped,
            *(
                events_route.endpoints(events, queries)
                if events is not None and history is None
                else ()
            ),
            *_documentation(),
        )
    )
    app = DocumentedApp(
        table.endpoints,
        title="lagwatch",
        version=version,
        description=_DESCRIPTION,
        redirect_slashes=False,
        routes=[table],
    )
    app.state.deps = deps
    app.include_router(ui.router())
    app.include_router(losses.router(queries, commands))
    if alerts is not None:
        app.include_router(alert_routes.router(alerts))
    if history is not None:
        app.include_router(history_routes.router(history, queries, events=events))
    if deployments is not None:
        known = None if history is None else Known(queries, history)
        app.include_router(deployment_routes.router(deployments, known))
    if scaling is not None:
        app.include_router(scale.router(scaling))
    if progress is not None:
        app.include_router(progress_routes.router(progress))
    errors.install(app, table, reply)
    if access is not None:
        app.include_router(session_routes.router(access, time_zone))
        app.add_middleware(Gate, access=access, reply=reply)
    if metrics is not None:
        app.add_middleware(Measured, metrics=metrics)  # inside `Shape`, which copies the scope
    app.add_middleware(Shape)
    return app


def _documentation() -> Iterator[Endpoint]:
    tag = "Documentation"
    yield Endpoint(
        method="GET",
        path="/openapi.json",
        handler=docs.serve_document,
        summary="The API as an OpenAPI document",
        tag=tag,
        answers={200: Answer(description="an OpenAPI document", model=dict[str, object])},
    )
    yield Endpoint(
        method="GET",
        path="/docs",
        handler=docs.serve_page,
        summary="The API as a page, which needs nothing from the internet",
        tag=tag,
        answers={200: Answer(description="HTML", media_type="text/html")},
    )
