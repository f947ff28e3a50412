"""The log: structlog events, as JSON lines or for a terminal; its level may change at run time.

Records of libraries that use the standard library's logging come out in the same form.
"""

import logging
import sys
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any, Final, TextIO

import orjson
import structlog

from lagwatch.errors import NotFoundError
from lagwatch.hiding import hide, remember

TRACE: Final = 5
_LEVELS: Final[Mapping[str, int]] = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}
_ALIASES: Final[Mapping[str, str]] = {"warn": "warning", "critical": "fatal"}

_OURS: Final = ("lagwatch", "lagwatch_api")
"""First parts of the names of loggers whose records are written at every level."""
AUDIT: Final = "lagwatch.audit"
"""The logger of who changed what: its events are written at every level."""

# Typing of structlog: an event holds values of any type.
_Event = MutableMapping[str, Any]


def configure(
    *,
    level: str = "info",
    form: str = "auto",
    stream: TextIO | None = None,
    secrets: Iterable[str] = (),
) -> None:
    """Set the log up, once per process; a second call replaces the first.

    `form` is `json`, `console` or `auto` (JSON unless the stream is a terminal); the stream is
    stderr. Before any call structlog writes with its own defaults. `secrets` are hidden wherever
    they occur in a line, as in all texts that `lagwatch.hiding` looks at.

    Raises:
        NotFoundError: no such level.
    """
    target = stream if stream is not None else sys.stderr
    colours = target.isatty()
    console = form == "console" or (form == "auto" and colours)
    handler = logging.StreamHandler(target)
    form_of = _console(colours=colours) if console else _json()
    known = {*secrets}
    # in a JSON line quotes, backslashes and line feeds are escaped
    remember(known | {orjson.dumps(text).decode()[1:-1] for text in known})
    handler.setFormatter(_WithoutSecrets(form_of))
    handler.addFilter(_is_written)
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)
    logging.getLogger(AUDIT).setLevel(logging.INFO)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_common(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,  # a later `configure` must reach existing loggers
    )


def set_level(level: str) -> None:
    """Write from this level on: trace, debug, info, warning or warn, error, fatal, in any case.

    Raises:
        NotFoundError: no such level.
    """
    logging.getLogger().setLevel(_LEVELS[_word(level)])


def get_level() -> str:
    """The level that is in force: one of the words of `set_level`, `warning` for `warn`."""
    number = logging.getLogger().level
    return next((word for word, least in _LEVELS.items() if number <= least), "fatal")


def _is_written(record: logging.LogRecord) -> bool:
    """All events of lagwatch; of libraries only warnings.

    Below that they write what they send: URLs with their tokens, headers with their keys.
    """
    ours = isinstance(record.msg, dict) or record.name.partition(".")[0] in _OURS
    return ours or record.levelno >= logging.WARNING


class _WithoutSecrets(logging.Formatter):
    """Another formatter's line with secrets replaced."""

    def __init__(self, form: logging.Formatter) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        return hide(self._form.format(record))


def _word(level: str) -> str:
    word = level.strip().lower()
    word = _ALIASES.get(word, word)
    if word not in _LEVELS:
        raise NotFoundError(kind="log level", name=level)
    return word


def _common() -> list[structlog.typing.Processor]:
    """The processors of every event, lagwatch's and the libraries'."""
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
        structlog.stdlib.ExtraAdder(),
        _drop_colours,
        structlog.stdlib.PositionalArgumentsFormatter(),
    ]


def _json() -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_common(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            _in_order,
            structlog.processors.JSONRenderer(serializer=_dumps),
        ],
    )


def _console(*, colours: bool) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_common(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.dev.ConsoleRenderer(
                colors=colours,
                timestamp_key="at",
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
    )


def _in_order(_logger: object, _method: str, event: _Event) -> _Event:
    """Time, level and event first: lines are read by people too."""
    first = {key: event.pop(key) for key in ("at", "level", "event") if key in event}
    return {**first, **event}


def _drop_colours(_logger: object, _method: str, event: _Event) -> _Event:
    """Uvicorn sends every message twice, once with the codes of a terminal in it."""
    event.pop("color_message", None)
    return event


def _dumps(event: object, **options: object) -> str:
    default = options.get("default", str)
    return orjson.dumps(
        event,
        default=default if callable(default) else str,
        option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY,
    ).decode()
