"""Burrow's routes: the handler of each, and its message for an unknown name."""

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from lagwatch.errors import NotFoundError
from lagwatch_api.deps import Deps
from lagwatch_api.routing import Answer, Endpoint, Handler
from lagwatch_api.v3 import schemas
from lagwatch_api.v3.admin import AdminHandlers
from lagwatch_api.v3.config import ConfigHandlers
from lagwatch_api.v3.kafka import KafkaHandlers
from lagwatch_api.v3.reply import Reply

TAG: Final = "Burrow v3"

_COORDINATORS: Final = ("storage", "evaluator", "cluster", "consumer", "notifier")

_CLUSTER: Final = "/v3/kafka/{cluster}"
_TOPIC: Final = _CLUSTER + "/topic/{topic}"
_GROUP: Final = _CLUSTER + "/consumer/{group}"
_NO_CLUSTER: Final = "cluster not found"


def endpoints(deps: Deps, reply: Reply) -> tuple[Endpoint, ...]:
    """All endpoints of `/v3`."""
    routes = _Routes(reply)
    return (
        *_kafka(routes, KafkaHandlers(deps, reply), ConfigHandlers(deps, reply)),
        *_config(routes, ConfigHandlers(deps, reply)),
        *_admin(AdminHandlers(deps, reply)),
    )


class _Routes:
    """Makes GET endpoints that answer 404 in Burrow's words."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def get(
        self, path: str, handler: Handler, summary: str, model: type[object], *, missing: str = ""
    ) -> Endpoint:
        """An endpoint; `missing` is its message when `handler` raises `NotFoundError`."""
        answers = {200: Answer(description="as asked", model=model)}
        if missing:
            handler = self._or_404(handler, missing)
            answers[404] = Answer(description=missing, model=schemas.Envelope)
        return Endpoint(
            method="GET", path=path, handler=handler, summary=summary, tag=TAG, answers=answers
        )

    def _or_404(self, handler: Handler, message: str) -> Handler:
        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except NotFoundError:
                return self._reply.failed(request, 404, message)

        return guarded


def _kafka(routes: _Routes, kafka: KafkaHandlers, config: ConfigHandlers) -> Iterator[Endpoint]:
    yield routes.get("/v3/kafka", kafka.cluster_list, "The clusters", schemas.ClusterList)
    yield routes.get(
        _CLUSTER,
        config.module("cluster"),
        "The configuration of a cluster",
        schemas.ModuleDetail,
        missing="cluster module not found",
    )
    yield from _topics(routes, kafka)
    yield from _groups(routes, kafka)
    yield _forgetting(_GROUP, kafka, "Forget a group until its next commit; Kafka is not touched")
    yield _forgetting(_GROUP + "/topic/{topic}", kafka, "Forget one topic of a group")


def _topics(routes: _Routes, kafka: KafkaHandlers) -> Iterator[Endpoint]:
    yield routes.get(
        _CLUSTER + "/topic",
        kafka.topic_list,
        "The topics of a cluster",
        schemas.TopicList,
        missing=_NO_CLUSTER,
    )
    yield routes.get(
        _TOPIC,
        kafka.topic_detail,
        "The log end offsets of a topic",
        schemas.TopicDetail,
        missing="cluster or topic not found",
    )
    yield routes.get(
        _TOPIC + "/consumers",
        kafka.topic_groups,
        "The groups that committed to a topic",
        schemas.GroupList,
        missing=_NO_CLUSTER,
    )


def _groups(routes: _Routes, kafka: KafkaHandlers) -> Iterator[Endpoint]:
    yield routes.get(
        _CLUSTER + "/consumer",
        kafka.group_list,
        "The groups of a cluster",
        schemas.GroupList,
        missing=_NO_CLUSTER,
    )
    yield routes.get(
        _GROUP,
        kafka.group_detail,
        "The windows of a group",
        schemas.WindowsByTopic,
        missing="cluster or consumer not found",
    )
    yield _judging(
        _GROUP + "/status",
        kafka.group_status,
        "The verdict on a group, with the partitions worse than OK",
    )
    yield _judging(_GROUP + "/lag", kafka.group_lag, "The verdict on a group, with all partitions")


def _judging(path: str, handler: Handler, summary: str) -> Endpoint:
    answers = {
        200: Answer(description="the verdict", model=schemas.GroupAnswer),
        404: Answer(
            description='unknown cluster or group: status "NOTFOUND", error false',
            model=schemas.GroupAnswer,
        ),
    }
    return Endpoint(
        method="GET", path=path, handler=handler, summary=summary, tag=TAG, answers=answers
    )


def _forgetting(path: str, kafka: KafkaHandlers, summary: str) -> Endpoint:
    done = Answer(description="consumer group removed, or never known", model=schemas.Envelope)
    return Endpoint(
        method="DELETE",
        path=path,
        handler=kafka.forget,
        summary=summary,
        tag=TAG,
        answers={200: done},
    )


def _config(routes: _Routes, config: ConfigHandlers) -> Iterator[Endpoint]:
    yield routes.get(
        "/v3/config", config.main, "The configuration of the process", schemas.MainConfig
    )
    for coordinator in _COORDINATORS:
        path = f"/v3/config/{coordinator}"
        yield routes.get(
            path, config.modules(coordinator), f"The {coordinator} modules", schemas.ModuleList
        )
        yield routes.get(
            path + ("/{cluster}" if coordinator == "cluster" else "/{name}"),
            config.module(coordinator),
            f"The configuration of one {coordinator} module",
            schemas.ModuleDetail,
            missing=f"{coordinator} module not found",
        )


def _admin(admin: AdminHandlers) -> Iterator[Endpoint]:
    path = "/v3/admin/loglevel"
    yield Endpoint(
        method="GET",
        path=path,
        handler=admin.log_level,
        summary="The log level",
        tag=TAG,
        answers={200: Answer(description="as asked", model=schemas.LogLevel)},
    )
    yield Endpoint(
        method="POST",
        path=path,
        handler=admin.set_log_level,
        summary="Set the log level",
        tag=TAG,
        answers={
            200: Answer(description="set log level", model=schemas.Envelope),
            400: Answer(description="could not decode message body", model=schemas.Envelope),
            404: Answer(description="unknown log level", model=schemas.Envelope),
        },
        body=schemas.LogLevelOrder,
    )
