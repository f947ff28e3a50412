"""The log level: the handlers of `/v3/admin/loglevel`."""

from typing import Final

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from lagwatch_api.deps import Deps
from lagwatch_api.v3 import schemas
from lagwatch_api.v3.reply import Reply

LEVELS: Final = {
    "trace": "trace",
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "warn": "warning",
    "error": "error",
    "fatal": "fatal",
}
"""Burrow's words, in lower case, and ours for them."""

_IN_BURROWS_WORDS: Final = {"trace": "debug", "warning": "warn"}
"""Our words that Burrow never answers with."""

_MAX_BODY_BYTES: Final = 16 * 1024


class AdminHandlers:
    """Shows and sets the log level."""

    def __init__(self, deps: Deps, reply: Reply) -> None:
        self._commands = deps.commands
        self._reply = reply

    async def log_level(self, request: Request) -> Response:
        level = self._commands.log_level()
        shown = _IN_BURROWS_WORDS.get(level, level)
        return self._reply.json(schemas.log_level(shown, self._reply.about(request)))

    async def set_log_level(self, request: Request) -> Response:
        wanted = _level_in(await _body(request))
        if wanted is None:
            return self._reply.failed(request, 400, "could not decode message body")
        level = LEVELS.get(wanted.lower())
        if level is None:
            return self._reply.failed(request, 404, "unknown log level")
        self._commands.set_log_level(level)
        return self._reply.json(schemas.done("set log level", self._reply.about(request)))


async def _body(request: Request) -> bytes:
    """The body; "" when it breaks off, or there is more of it than any log level needs."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY_BYTES:
                return b""
    except ClientDisconnect:
        return b""
    return body


def _level_in(body: bytes) -> str | None:
    """The requested level; "" when the document names no level, None when the body is not one.

    Keys are matched in any case, as Go does it.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    named = [value for key, value in document.items() if key.lower() == "level"]
    level = named[-1] if named else ""
    return level if isinstance(level, str) else None
