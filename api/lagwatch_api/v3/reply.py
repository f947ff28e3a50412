"""Burrow's answers: the envelope, names in paths, and rendered bytes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from lagwatch.errors import NotFoundError
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


T = TypeVar("T")


def asked(question: Callable[..., T], *names: str) -> T:
    """The answer to `question(*names)`; names that are not known are decoded once more.

    Telegraf's `inputs.burrow` escapes names twice: `with space` arrives as `with%2520space`.

    Raises:
        NotFoundError: the names are not known either way.
    """
    try:
        return question(*names)
    except NotFoundError:
        if not any("%" in name for name in names):
            raise
        for reading in islice(product(*((name, unquote(name)) for name in names)), 1, None):
            try:
                return question(*reading)
            except NotFoundError:
                continue
        raise


_MAX_BYTES: Final = 4 * 1024 * 1024
"""Bytes per cluster; answers beyond that are rendered for every request."""


@dataclass(slots=True)
class _Round:
    number: int
    bodies: dict[bytes, bytes] = field(default_factory=dict)
    size_bytes: int = 0


class RenderedAnswers:
    """Bodies by cluster and path; those of a round go when the next one comes."""

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._rounds: dict[str, _Round] = {}

    def get(self, cluster: str, number: int, path: bytes) -> bytes | None:
        """What was answered to this path in round `number`."""
        current = self._rounds.get(cluster)
        if current is None or current.number != number:
            return None
        return current.bodies.get(path)

    def put(self, cluster: str, number: int, path: bytes, body: bytes) -> None:
        """Keep an answer, if there is room. `cluster` must exist: it is never forgotten."""
        current = self._rounds.get(cluster)
        if current is None or current.number != number:
            current = self._rounds[cluster] = _Round(number)
        size_bytes = len(path) + len(body)
        if current.size_bytes + size_bytes <= self._max_bytes:
            current.bodies[path] = body
            current.size_bytes += size_bytes

    def clear(self) -> None:
        """Forget all, because what was answered may not hold any more."""
        self._rounds.clear()
