"""What clients see when something goes wrong: Burrow's envelope, never a stack trace."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lagwatch.errors import AmbiguousError, NotFoundError
from lagwatch_api.answers import text_error
from lagwatch_api.routing import METHOD_NOT_ALLOWED, RouteTable
from lagwatch_api.v3.reply import Reply


def install(app: FastAPI, table: RouteTable, reply: Reply) -> None:
    """Give every way to fail its answer."""
    failures = _Failures(reply)
    app.add_exception_handler(HTTPException, failures.http)
    app.add_exception_handler(RequestValidationError, failures.invalid)
    app.add_exception_handler(NotFoundError, failures.not_found)
    app.add_exception_handler(AmbiguousError, failures.ambiguous)
    # Starlette answers with this one and raises the error again, so that the server logs it.
    app.add_exception_handler(Exception, failures.unexpected)
    app.router.default = _last_resort(table, app.router.default)


class _Failures:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    async def http(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return await self.unexpected(request, error)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return text_error(METHOD_NOT_ALLOWED, error.status_code, error.headers)
        response = self._reply.failed(request, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    async def invalid(self, request: Request, error: Exception) -> Response:
        faults = error.errors() if isinstance(error, RequestValidationError) else ()
        message = "; ".join(map(_fault, faults)) or "bad request"
        return self._reply.failed(request, 400, message)

    async def not_found(self, request: Request, error: Exception) -> Response:
        return self._reply.failed(request, 404, str(error))

    async def ambiguous(self, request: Request, error: Exception) -> Response:
        return self._reply.failed(request, 400, str(error))

    async def unexpected(self, request: Request, error: Exception) -> Response:
        del error  # the text may hold internals or secrets: it goes to the server's log only
        return self._reply.failed(request, 500, "internal error; the log of lagwatch says more")


def _fault(fault: Mapping[str, object]) -> str:
    """`query.limit: Input should be a valid integer`."""
    place = fault.get("loc", ())
    where = ".".join(map(str, place)) if isinstance(place, tuple | list) else str(place)
    return f"{where}: {fault.get('msg', 'not valid')}"


def _last_resort(table: RouteTable, otherwise: ASGIApp) -> ASGIApp:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await table.refuse(scope)(scope, receive, send)
        else:
            await otherwise(scope, receive, send)

    return refuse
