"""The arguments of every handler: the ports, and the name of this server."""

from dataclasses import dataclass

from starlette.requests import Request

from lagwatch.ports.queries import BurrowSettings, Commands, Queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Deps:
    """The ports behind the HTTP layer, and the name and version it answers with."""

    queries: Queries
    commands: Commands
    burrow: BurrowSettings
    hostname: str
    version: str


def deps_of(request: Request) -> Deps:
    """The ports of the application that received the request; for FastAPI's `Depends`."""
    deps = request.app.state.deps
    if not isinstance(deps, Deps):
        message = "the application was not made by create_app()"
        raise TypeError(message)
    return deps
