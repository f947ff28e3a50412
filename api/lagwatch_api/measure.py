"""How long answers take, by route, for the metrics."""

from asyncio import get_running_loop
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lagwatch.ports.metrics import Metrics

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = "other"
"""A client chooses path and method: without a route or a known method they are not written."""


class Measured:
    """Counts each answer under its route; the time runs until the answer begins.

    So a stream, which does not end while its client listens, takes as long as its first byte.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        clock = get_running_loop().time
        began_s = clock()

        async def timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.answered(
                    method=scope["method"] if scope["method"] in _METHODS else _OTHER,
                    route=_route(scope),
                    status=message["status"],
                    took_s=clock() - began_s,
                )
            await send(message)

        return await self._app(scope, receive, timed)


def _route(scope: Scope) -> str:
    """The path of the route with the names of its parts in braces; the router writes it."""
    path: str = getattr(scope.get("route"), "path", _OTHER)
    return path
