"""A notice as the file keeps it: compressed, shared by the channels that are to send it."""

import zlib
from collections.abc import Mapping
from typing import Final

import orjson

from lagwatch.core.incident import Tell
from lagwatch.errors import InputError
from lagwatch.notify.notice import About, Level, Notice

_LEVELS: Final[Mapping[str, Level]] = {"ok": "ok", "warning": "warning", "error": "error"}


def pack(notice: Notice) -> tuple[int, bytes]:
    """(size in bytes as JSON, what is kept)."""
    curve = {"curve": notice.curve, "curve_of": notice.curve_of}
    document = notice.as_json() | curve | {"zone": notice.zone}
    text = orjson.dumps(document)
    return len(text), zlib.compress(text, 1)


def unpack(body: bytes) -> Notice:
    """The notice that `pack` was given; what other versions wrote besides is ignored.

    Raises:
        InputError: it is not a notice, or lacks a field.
    """
    try:
        document = orjson.loads(zlib.decompress(body))
        return Notice(
            key="",
            incident=str(document["incident"]),
            event=Tell(document["event"]),
            about=About(document.get("about", "group")),
            runbook=str(document.get("runbook", "")),
            team=str(document.get("team", "")),
            zone=str(document.get("zone", "UTC")),
            cluster=str(document["cluster"]),
            group=str(document["group"]),
            severity=_LEVELS[document["severity"]],
            reason=str(document["reason"]),
            policy=str(document["policy"]),
            since_ms=int(document["since_ms"]),
            opened_ms=int(document["opened_ms"]),
            at_ms=int(document["at_ms"]),
            url=str(document["url"]),
            verdict=dict(document["verdict"]),
            curve=tuple((int(at_ms), int(lag)) for at_ms, lag in document.get("curve", ())),
            curve_of=str(document.get("curve_of", "")),
        )
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        problem = f"is not readable: {type(error).__name__}: {error}"
        raise InputError(index=0, field="payload", problem=problem) from error
