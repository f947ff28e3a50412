"""Logs can be searched: an event is a constant word, what varies is key=value."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "lagwatch").rglob("*.py"), *(ROOT / "api").rglob("*.py")])

LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
LOGGERS = {"log", "_log", "logger", "_logger"}
EVENT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def bad_events(source: str) -> Iterator[int]:
    """Yield the lines of log calls whose event is no constant in snake_case."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(value=logger, attr=level), args=arguments) if (
                level in LEVELS and name_of(logger) in LOGGERS
            ):
                match arguments:
                    case [ast.Constant(value=str(event))] if EVENT.fullmatch(event):
                        pass
                    case _:
                        yield node.lineno


def name_of(expression: ast.expr) -> str:
    """Return `c` of `a.b.c` and of `c`; "" of anything else."""
    match expression:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_log_events_are_constants_in_snake_case() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in SOURCES
        if (lines := list(bad_events(path.read_text(encoding="utf-8"))))
    }

    assert found == {}


def test_the_search_finds_what_it_is_there_to_find() -> None:
    source = 'log.info(f"x {y}")\nself._log.error("Poll failed")\nlog.info("poll_failed", a=1)'

    assert list(bad_events(source)) == [1, 2]
