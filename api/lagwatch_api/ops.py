"""Health: is the process alive, and are its data fresh?"""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from lagwatch.errors import NotFoundError
from lagwatch.ports.access import Scope as Right
from lagwatch.ports.queries import ClusterHealth
from lagwatch_api.answers import json_answer, text_answer
from lagwatch_api.deps import Deps
from lagwatch_api.gate import may
from lagwatch_api.routing import Answer, Endpoint, Handler
from lagwatch_api.v3 import schemas

TAG: Final = "Health"


class Health(TypedDict):
    """The process is alive."""

    status: str
    version: str


class BacklogProgress(TypedDict):
    """Records of the offsets topic at the start, and how many of them have been read."""

    read: int
    total: int


class ClusterReadiness(TypedDict):
    """State of one cluster."""

    ready: Annotated[
        bool, Field(description="its first complete round is judged, and its data are fresh")
    ]
    stale: Annotated[bool, Field(description="log ends or commits are too old to be trusted")]
    data_age_s: Annotated[
        float,
        Field(
            description="age of the log ends or commits, whichever are older; s since the start "
            "while there are none"
        ),
    ]
    reason: Annotated[str, Field(description="why it is not ready: what is missing or late")]
    age_s: Annotated[
        float | None,
        Field(description="seconds since the last good round of log ends; null = none yet"),
    ]
    backlog: BacklogProgress
    mode: Annotated[str, Field(description="where commits are read: offsets-topic | admin")]
    problems: Annotated[list[str], Field(description="what is wrong now, and what to do")]
    unseen: Annotated[
        list[str], Field(description="what may not be seen, and the ACL that would show it")
    ]
    restarts: Annotated[int, Field(description="of the cluster's collector process")]
    clock_skew_s: Annotated[
        float | None,
        Field(description="how far lagwatch's clock is ahead of Kafka's; null = not known"),
    ]


class Readiness(TypedDict):
    """Ready when at least one cluster is."""

    ready: bool
    clusters: Annotated[
        dict[str, ClusterReadiness], Field(description="empty for callers without the scope `read`")
    ]


def endpoints(deps: Deps) -> Iterator[Endpoint]:
    """Our own probes, and Burrow's."""
    ops = _Ops(deps)
    alive = Answer(description="yes", model=Health)
    yield _probe("/healthz", ops.healthz, "Is the process alive?", {200: alive})
    yield Endpoint(
        method="GET",
        path="/readyz",
        handler=ops.readyz,
        summary="Is at least one cluster read and fresh? `?cluster=NAME`: is this one?",
        tag=TAG,
        answers={
            200: Answer(description="yes", model=Readiness),
            404: Answer(description="the cluster is not known", model=schemas.Envelope),
            503: Answer(description="no", model=Readiness),
        },
        query={"cluster": "only this one; ignored for callers without the scope `read`"},
    )
    yield _probe("/burrow/admin", ops.admin, "GOOD", {200: Answer(description="GOOD")})
    yield _probe(
        "/burrow/admin/ready",
        ops.admin_ready,
        "READY, when at least one cluster is",
        {200: Answer(description="READY"), 503: Answer(description="STARTING")},
    )


class _Ops:
    def __init__(self, deps: Deps) -> None:
        self._queries = deps.queries
        self._version = deps.version

    async def healthz(self, _: Request) -> Response:
        health: Health = {"status": "ok", "version": self._version}
        return json_answer(health)

    async def readyz(self, request: Request) -> Response:
        """One cluster out of reach must not take the others' answers out of service."""
        readable = may(request, Right.READ)
        # strangers learn no names: neither which are known, nor which of them are ready
        asked = request.query_params.get("cluster") if readable else None
        clusters = {
            health.cluster: _readiness(health)
            for health in self._queries.health()
            if asked in (None, health.cluster)
        }
        if asked is not None and not clusters:
            raise NotFoundError(kind="cluster", name=asked)
        ready = any(cluster["ready"] for cluster in clusters.values())
        readiness: Readiness = {"ready": ready, "clusters": clusters if readable else {}}
        return json_answer(readiness, 200 if ready else 503)

    async def admin(self, _: Request) -> Response:
        return text_answer("GOOD")

    async def admin_ready(self, _: Request) -> Response:
        if any(health.ready for health in self._queries.health()):
            return text_answer("READY")
        return text_answer("STARTING", 503)


def _readiness(health: ClusterHealth) -> ClusterReadiness:
    return {
        "ready": health.ready,
        "stale": health.stale,
        "data_age_s": health.data_age_s,
        "reason": health.reason,
        "age_s": health.age_s,
        "backlog": {"read": health.backlog_read, "total": health.backlog_total},
        "mode": health.commits_mode,
        "problems": list(health.problems),
        "unseen": list(health.unseen),
        "restarts": health.collector_restarts,
        "clock_skew_s": health.clock_skew_s,
    }


def _probe(path: str, handler: Handler, summary: str, answers: dict[int, Answer]) -> Endpoint:
    return Endpoint(
        method="GET", path=path, handler=handler, summary=summary, tag=TAG, answers=answers
    )
