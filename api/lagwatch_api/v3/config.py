"""The configuration in Burrow's words: the handlers under `/v3/config`."""

from starlette.requests import Request
from starlette.responses import Response

from lagwatch.errors import NotFoundError
from lagwatch_api.deps import Deps
from lagwatch_api.routing import Handler
from lagwatch_api.v3 import schemas
from lagwatch_api.v3.reply import Reply, asked


class ConfigHandlers:
    """Answers from the configuration."""

    def __init__(self, deps: Deps, reply: Reply) -> None:
        self._burrow = deps.burrow
        self._reply = reply

    async def main(self, request: Request) -> Response:
        main = self._burrow.main()
        return self._reply.json(schemas.main_config(main, self._reply.about(request)))

    def modules(self, coordinator: str) -> Handler:
        """The handler that lists the modules of one kind."""

        async def list_modules(request: Request) -> Response:
            names, about = self._burrow.modules(coordinator), self._reply.about(request)
            return self._reply.json(schemas.module_list(coordinator, names, about))

        return list_modules

    def module(self, coordinator: str) -> Handler:
        """The handler that shows one module of a kind; raises `NotFoundError`."""

        def known(name: str) -> schemas.Module:
            module = self._burrow.module(coordinator, name)
            if module is None:
                raise NotFoundError(kind=coordinator, name=name)
            return module

        async def show_module(request: Request) -> Response:
            (name,) = request.path_params.values()
            module, about = asked(known, name), self._reply.about(request)
            return self._reply.json(schemas.module_detail(coordinator, module, about))

        return show_module
