"""Writes a collector's log into the log of the serving process."""

import asyncio
import logging
from typing import Final

import orjson
import structlog

_OURS: Final = frozenset({"at", "level", "event", "logger"})
"""Keys of a line that our own log writes itself."""

_log = structlog.get_logger("lagwatch.collector")


async def relay_log(lines: asyncio.StreamReader, *, cluster: str) -> None:
    """Log every line of the collector's stderr, until its end.

    Other lines come from the client library when it aborts, or are a traceback.
    """
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # longer than the reader's buffer: dropped by it
            continue
        if not line:
            return
        _relay(line.decode("utf-8", errors="replace").rstrip(), cluster)


def _relay(line: str, cluster: str) -> None:
    try:
        event = orjson.loads(line)
        name, level = event["event"], logging.getLevelName(event["level"].upper())
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        if line:
            _log.warning("collector_stderr", cluster=cluster, line=line)
        return
    fields = {key: value for key, value in event.items() if key not in _OURS}
    _log.log(
        level if isinstance(level, int) else logging.INFO, name, **{"cluster": cluster, **fields}
    )
