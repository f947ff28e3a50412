"""`/api/v1/session`: a browser logs in with a token, which a cookie keeps from then on."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.ports.access import COOKIE, EVERYBODY, NOBODY, Access, Caller
from lagwatch_api.gate import SESSION, caller_of

TAG: Final = "Session"
_YEARS: Final = range(2010, 2050)
"""Of the instants that are shown."""


class Session(TypedDict):
    """Who asks, and what they may do."""

    name: Annotated[str, Field(description='of the token or user; "" = not known')]
    scope: Annotated[str, Field(description="none | read | operate | admin")]
    takes_tokens: Annotated[bool, Field(description="true: one can log in with a token")]
    time_zone: Annotated[str, Field(description="`alerts.time_zone`, for texts")]
    time_zone_names: Annotated[
        Mapping[str, str],
        Field(description="its abbreviations by minutes from UTC: browsers know few of them"),
    ]


class LogIn(BaseModel):
    """A token of the server."""

    model_config = ConfigDict(extra="forbid")

    token: Annotated[str, Field(min_length=1, max_length=200)]


def router(access: Access, time_zone: Callable[[], str]) -> APIRouter:
    """The routes; include them in the application. `time_zone`: its name now."""
    routes = APIRouter(tags=[TAG])

    def session_of(caller: Caller) -> Session:
        zone = time_zone()
        return {
            "name": caller.name,
            "scope": caller.scope.word,
            "takes_tokens": access.takes_tokens,
            "time_zone": zone,
            "time_zone_names": _abbreviations(zone),
        }

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


@lru_cache(maxsize=8)
def _abbreviations(zone: str) -> Mapping[str, str]:
    """`{"60": "CET", "120": "CEST"}`; of two that share an offset the later one."""
    months = (datetime(year, month, 1, tzinfo=UTC) for year in _YEARS for month in range(1, 13))
    found = {}
    for month in months:
        local = month.astimezone(ZoneInfo(zone))
        offset = local.utcoffset()
        if offset is not None:
            found[f"{offset.total_seconds() / 60:.0f}"] = local.strftime("%Z")
    return found


class _Cookie(TypedDict):
    secure: bool
    httponly: bool
    samesite: Literal["strict"]


def _guarded(request: Request) -> _Cookie:
    """Attributes that keep the cookie from scripts and other sites."""
    return {"secure": request.url.scheme == "https", "httponly": True, "samesite": "strict"}
