"""Clusters, topics and groups: the handlers under `/v3/kafka`.

Names that are not known raise `NotFoundError`; the route table says what is answered then.
"""

from starlette.requests import Request
from starlette.responses import Response

from lagwatch.errors import NotFoundError
from lagwatch.ports.queries import Partitions
from lagwatch_api.answers import to_json
from lagwatch_api.deps import Deps
from lagwatch_api.routing import raw_path
from lagwatch_api.v3 import schemas
from lagwatch_api.v3.reply import RenderedAnswers, Reply, asked


class KafkaHandlers:
    """Answers from the snapshots."""

    def __init__(self, deps: Deps, reply: Reply) -> None:
        self._queries = deps.queries
        self._commands = deps.commands
        self._reply = reply
        self._rendered = RenderedAnswers()

    async def cluster_list(self, request: Request) -> Response:
        clusters = self._queries.clusters()
        return self._reply.json(schemas.cluster_list(clusters, self._reply.about(request)))

    async def topic_list(self, request: Request) -> Response:
        topics = asked(self._queries.topics, request.path_params["cluster"])
        return self._reply.json(schemas.topic_list(topics, self._reply.about(request)))

    async def topic_detail(self, request: Request) -> Response:
        names = request.path_params
        log_ends = asked(self._queries.log_ends, names["cluster"], names["topic"])
        return self._reply.json(schemas.topic_detail(log_ends, self._reply.about(request)))

    async def topic_groups(self, request: Request) -> Response:
        names = request.path_params
        groups = asked(self._queries.groups_of_topic, names["cluster"], names["topic"])
        about = self._reply.about(request)
        return self._reply.json(schemas.group_list(groups, about, "consumers of topic returned"))

    async def group_list(self, request: Request) -> Response:
        groups = asked(self._queries.groups, request.path_params["cluster"])
        return self._reply.json(schemas.group_list(groups, self._reply.about(request)))

    async def group_detail(self, request: Request) -> Response:
        names = request.path_params
        detail = asked(self._queries.detail, names["cluster"], names["group"])
        return self._reply.json(schemas.windows_by_topic(detail, self._reply.about(request)))

    async def group_status(self, request: Request) -> Response:
        """The verdict, with the partitions that are worse than OK."""
        return self._verdict(request, Partitions.BAD)

    async def group_lag(self, request: Request) -> Response:
        """The verdict, with all partitions."""
        return self._verdict(request, Partitions.ALL)

    async def forget(self, request: Request) -> Response:
        """Forget a group, or one topic of it. Nothing changes in Kafka."""
        names = request.path_params
        await self._commands.forget(names["cluster"], names["group"], names.get("topic"))
        self._rendered.clear()
        return self._reply.json(schemas.done("consumer group removed", self._reply.about(request)))

    def _verdict(self, request: Request, partitions: Partitions) -> Response:
        cluster, group = request.path_params["cluster"], request.path_params["group"]
        path = raw_path(request.scope)
        try:
            number = asked(self._queries.snapshot, cluster).round
            body = self._rendered.get(cluster, number, path)
            if body is None:
                body = self._render(request, cluster, group, partitions)
                self._rendered.put(cluster, number, path, body)
        except NotFoundError:
            about = self._reply.about(request)
            return self._reply.json(schemas.unknown_group_answer(cluster, group, about), 404)
        return self._reply.rendered(body)

    def _render(self, request: Request, cluster: str, group: str, partitions: Partitions) -> bytes:
        verdict = asked(
            lambda cluster, group: self._queries.verdict(cluster, group, partitions),
            cluster,
            group,
        )
        return to_json(schemas.group_answer(verdict, self._reply.about(request)))
