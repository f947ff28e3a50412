"""`/api/v1/session`: a browser logs in with a token, which a cookie keeps from then on."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.ports.access import COOKIE, EVERYBODY, NOBODY, Access, Caller
from lagwatch_api.gate import SESSION, caller_of

TAG: Final = "Session"


class Session(TypedDict):
    """Who asks, and what they may do."""

    name: Annotated[str, Field(description='of the token or user; "" = not known')]
    scope: Annotated[str, Field(description="none | read | operate | admin")]
    takes_tokens: Annotated[bool, Field(description="true: one can log in with a token")]


class LogIn(BaseModel):
    """A token of the server."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, Field(min_length=1, max_length=200)]


def router(access: Access) -> APIRouter:
    """The routes; include them in the application."""
    routes = APIRouter(tags=[TAG])

    def session_of(caller: Caller) -> Session:
        takes = access.takes_tokens
        return {"name": caller.name, "scope": caller.scope.word, "takes_tokens": takes}

    @routes.get(SESSION, summary="Who asks, and what they may do")
    async def session(request: Request) -> Session:
        return session_of(caller_of(request) or EVERYBODY)

    @routes.post(
        SESSION,
        summary="Log a browser in with a token; the answer sets a cookie",
        responses={401: {"description": "the token is not known"}},
    )
    async def log_in(order: LogIn, request: Request, response: Response) -> Session:
        caller = access.holder(order.token)
        if caller is NOBODY:
            raise HTTPException(401, "the token is not known")
        response.set_cookie(COOKIE, order.token, **_guarded(request))
        return session_of(caller)

    @routes.delete(SESSION, summary="Log a browser out", status_code=204)
    async def log_out(request: Request) -> Response:
        response = Response(status_code=204)
        response.delete_cookie(COOKIE, **_guarded(request))
        return response

    return routes


class _Cookie(TypedDict):
    secure: bool
    httponly: bool
    samesite: Literal["strict"]


def _guarded(request: Request) -> _Cookie:
    """Attributes that keep the cookie from scripts and other sites."""
    return {"secure": request.url.scheme == "https", "httponly": True, "samesite": "strict"}
