"""Answers in Burrow's envelope."""

from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from lagwatch_api.answers import json_answer, rendered
from lagwatch_api.deps import Deps
from lagwatch_api.v3 import schemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Makes answers that name the request and the host."""

    host: str
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every JSON answer."""

    @classmethod
    def of(cls, deps: Deps) -> "Reply":
        """With the host's name, and the header for foreign pages where one is configured."""
        origin = schemas.allowed_origin(deps.burrow.main())
        headers = {"Access-Control-Allow-Origin": origin} if origin else {}
        return cls(host=deps.hostname, headers=headers)

    def about(self, request: Request) -> schemas.RequestInfo:
        """The `request` part of an answer."""
        return {"url": request.scope["path"], "host": self.host}

    def json(self, content: object, status: int = 200) -> Response:
        return json_answer(content, status, self.headers)

    def rendered(self, body: bytes) -> Response:
        """An answer that was rendered earlier."""
        return rendered(body, 200, self.headers)

    def failed(self, request: Request, status: int, message: str) -> Response:
        return self.json(schemas.failed(message, self.about(request)), status)
