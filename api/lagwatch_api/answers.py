"""Answers as bytes: compact JSON the way Go writes it, and plain text."""

from collections.abc import Mapping
from typing import Final

import orjson
from starlette.responses import Response

JSON: Final = "application/json"

_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}


def json_answer(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """One compact line of JSON, without a newline at its end."""
    return rendered(to_json(content), status, headers)


def rendered(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """JSON that `to_json` made earlier."""
    return Response(body, status, headers, JSON)


def text_answer(text: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Plain text, exactly as given."""
    return Response(text, status, headers, "text/plain")


def text_error(text: str, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """Plain text that browsers must not take for anything else, as Go's `http.Error` sends it."""
    return text_answer(text, status, {**_NOSNIFF, **(headers or {})})


def to_json(content: object) -> bytes:
    """Compact JSON; in text that is not Unicode, what cannot be shown becomes U+FFFD.

    Raises:
        TypeError: there is something in it that JSON cannot express.
    """
    try:
        return orjson.dumps(content, default=_plain, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        # Names come from other people's bytes: one odd name must not take its whole list away.
        return orjson.dumps(_as_unicode(content), default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    message = f"{type(value).__name__} has no JSON form"
    raise TypeError(message)


def _as_unicode(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_as_unicode(key): _as_unicode(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_unicode(item) for item in value]
    return value
