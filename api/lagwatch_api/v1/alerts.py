"""`/api/v1/alerts`: incidents, notices, mutes and the policies in effect."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

from fastapi import APIRouter, HTTPException, Query, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.requests import Request
from typing_extensions import TypedDict

from lagwatch.core.words import LONGEST_GROUP
from lagwatch.errors import InputError
from lagwatch.ports.access import EVERYBODY
from lagwatch.ports.alerts import (
    AlertsView,
    IncidentAsk,
    IncidentRecord,
    MessageState,
    Mute,
    NoticeAsk,
    NoticeRecord,
    PolicyRecord,
)
from lagwatch_api.gate import caller_of
from lagwatch_api.routing import SegmentRoute

PREFIX: Final = "/api/v1/alerts"
TAG: Final = "Alerts"
_LONGEST_MUTE_S: Final = 366 * 86_400
_SAID: Final = "kept as a claim where the server knows who asks, by token, user or proxy"
_NAMES_NOTHING: Final = (
    'body.group: name a group or a cluster; to mute all groups of all clusters, write "group": "*"'
)
_MOST_MUTES: Final = 1000
"""Each is compared with every group of a notice."""
_LAST_MS: Final = 253_402_300_799_999 - _LONGEST_MUTE_S * 1000
"""So that every mute ends before the year 10000."""


def _whole(text: str) -> str:
    """Refuse half of a character: JSON can carry it as an escape, nothing can store or send it.

    Raises:
        ValueError: there is one.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "holds half of a character (a lone surrogate); send both halves"
        ) from error
    return text


Text = Annotated[str, AfterValidator(_whole)]
Limit = Annotated[int, Query(ge=1, le=1000, description="entries of a page")]
To = Annotated[str, Query(description="another channel to send them to")]
Cursor = Annotated[str, Query(description="`next` of the page before")]


class IncidentPage(TypedDict):
    """Incidents, newest first."""

    incidents: Sequence[IncidentRecord]
    next: Annotated[str, Field(description='cursor of the next page; "" after the last')]
    time_zone: Annotated[str, Field(description="`alerts.time_zone`, for texts")]


class IncidentAnswer(TypedDict):
    """One incident with all that happened to it and the newest of its notices."""

    incident: IncidentRecord
    notices: Sequence[NoticeRecord]


class NoticePage(TypedDict):
    """Notices, newest first."""

    notices: Sequence[NoticeRecord]
    next: Annotated[str, Field(description='cursor of the next page; "" after the last')]
    time_zone: Annotated[str, Field(description="`alerts.time_zone`, for texts")]


class MuteList(TypedDict):
    """Mutes that are open or still to come."""

    mutes: Sequence[Mute]
    time_zone: Annotated[str, Field(description="`alerts.time_zone`, for texts")]


class PolicyList(TypedDict):
    """Policies in the order in which they are asked."""

    policies: Sequence[PolicyRecord]


class PolicyAnswer(TypedDict):
    """The policy that applies to a group."""

    cluster: str
    group: str
    topics: Annotated[
        dict[str, str], Field(description='topic → policy, "" = none; without topics the key is ""')
    ]


class ChannelRetried(TypedDict):
    """Dead messages of a channel that are sent again."""

    channel: str
    notices: int


class Retried(TypedDict):
    """A dead message that is sent again."""

    message: str
    notices: int


class Acknowledgement(BaseModel):
    """Who works on an incident."""

    model_config = ConfigDict(extra="forbid")

    author: Annotated[Text, Field(max_length=200, description=_SAID)] = ""


class MuteOrder(BaseModel):
    """A mute that is asked for; in names `*` is any characters.

    `group` or `cluster` must be named; the other one may be "" for all. A `group` `*` mutes all.
    """

    model_config = ConfigDict(extra="forbid")

    cluster: Annotated[Text, Field(max_length=LONGEST_GROUP)] = ""
    group: Annotated[Text, Field(max_length=LONGEST_GROUP)] = ""
    reason: Annotated[Text, Field(min_length=1, max_length=1000)]
    author: Annotated[Text, Field(max_length=200, description=_SAID)] = ""
    starts_ms: Annotated[int | None, Field(ge=0, le=_LAST_MS, description="null = now")] = None
    duration_s: Annotated[float, Field(gt=0, le=_LONGEST_MUTE_S)]


def router(alerts: AlertsView) -> APIRouter:
    """The routes; include them in the application."""
    routes = APIRouter(prefix=PREFIX, tags=[TAG], route_class=SegmentRoute)
    _incidents(routes, alerts)
    _notices(routes, alerts)
    _mutes(routes, alerts)
    _policies(routes, alerts)
    return routes


def _incidents(routes: APIRouter, alerts: AlertsView) -> None:
    @routes.get("/incidents", summary="Incidents, open and past")
    async def incidents(
        state: Literal["", "open", "closed"] = "",
        cluster: str = "",
        group: str = "",
        limit: Limit = 100,
        cursor: Cursor = "",
    ) -> IncidentPage:
        ask = IncidentAsk(state=state, cluster=cluster, group=group, limit=limit, cursor=cursor)
        try:
            found, following = alerts.incidents(ask)
        except InputError as error:
            raise HTTPException(400, str(error)) from error
        return {"incidents": found, "next": following, "time_zone": alerts.time_zone}

    @routes.get("/incidents/{incident}", summary="One incident with its transitions and notices")
    async def one_incident(incident: str) -> IncidentAnswer:
        found = alerts.incident(incident)
        notices, _ = alerts.notices(NoticeAsk(incident=found.id, limit=1000))
        return {"incident": found, "notices": notices}

    @routes.post(
        "/incidents/{incident}/acknowledge", summary="Send no more reminders of an open incident"
    )
    async def acknowledge(
        incident: str, order: Acknowledgement, request: Request
    ) -> IncidentRecord:
        return alerts.acknowledge(incident, author=_author(request, order.author))


def _notices(routes: APIRouter, alerts: AlertsView) -> None:
    @routes.get("/notices", summary="Notices with their state; `state=dead` lists dead letters")
    async def notices(
        *,
        state: MessageState | None = None,
        channel: str = "",
        incident: str = "",
        cluster: str = "",
        group: str = "",
        limit: Limit = 100,
        cursor: Cursor = "",
    ) -> NoticePage:
        ask = NoticeAsk(
            state=state.value if state is not None else "",
            channel=channel,
            incident=incident,
            cluster=cluster,
            group=group,
            limit=limit,
            cursor=cursor,
        )
        try:
            found, following = alerts.notices(ask)
        except InputError as error:
            raise HTTPException(400, str(error)) from error
        return {"notices": found, "next": following, "time_zone": alerts.time_zone}

    @routes.post("/messages/{message}/retry", summary="Send the notices of a dead message again")
    async def retry(message: str, to: To = "") -> Retried:
        return {"message": message, "notices": alerts.retry(message, to=to)}

    @routes.post("/channels/{channel}/retry", summary="Send again what a channel has given up")
    async def retry_channel(channel: str, to: To = "") -> ChannelRetried:
        return {"channel": channel, "notices": alerts.retry_channel(channel, to=to)}


def _mutes(routes: APIRouter, alerts: AlertsView) -> None:
    @routes.get("/mutes", summary="Mutes that are open or still to come")
    async def mutes() -> MuteList:
        return {"mutes": alerts.mutes(), "time_zone": alerts.time_zone}

    @routes.post(
        "/mutes",
        summary="Mute a group, a cluster or all",
        status_code=201,
        responses={409: {"description": f"there are {_MOST_MUTES} mutes"}},
    )
    async def mute(order: MuteOrder, request: Request) -> Mute:
        if not order.group and not order.cluster:
            raise HTTPException(400, _NAMES_NOTHING)
        if len(alerts.mutes()) >= _MOST_MUTES:
            raise HTTPException(409, f"there are {_MOST_MUTES} mutes; end some of them first")
        now_ms = alerts.now_ms()
        starts_ms = now_ms if order.starts_ms is None else order.starts_ms
        ends_ms = starts_ms + round(order.duration_s * 1000)
        if ends_ms <= now_ms:
            raise HTTPException(400, "the mute would be over already; check starts_ms, duration_s")
        return alerts.mute(
            cluster=order.cluster,
            group=order.group,
            reason=order.reason,
            author=_author(request, order.author),
            starts_ms=starts_ms,
            ends_ms=ends_ms,
        )

    @routes.delete(
        "/mutes/{mute}", summary="End a mute now", status_code=204, response_class=Response
    )
    async def unmute(mute: str) -> None:
        alerts.unmute(mute)


def _policies(routes: APIRouter, alerts: AlertsView) -> None:
    @routes.get("/policies", summary="The policies in effect, in their order")
    async def policies() -> PolicyList:
        return {"policies": alerts.policies()}

    @routes.get("/policy", summary="Which policy a group gets")
    async def policy(
        cluster: str, group: str, topic: Annotated[list[str] | None, Query()] = None
    ) -> PolicyAnswer:
        found = alerts.policy_of(cluster, group, topic or ())
        return {"cluster": cluster, "group": group, "topics": dict(found)}


def _author(request: Request, said: str) -> str:
    """Who sends the request. What the body says of it counts alone only where nothing is known."""
    caller = caller_of(request)
    if caller is None or caller is EVERYBODY or not caller.name:
        return said
    return f"{caller.name} (said to be {said})" if said not in {"", caller.name} else caller.name
