"""Runs the commands that the manual shows, and gives what they print.

Commands run in `docs/examples`. `http://lagwatch:8000` answers for the cluster of `docs.example`.
"""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from typer.testing import CliRunner

from docs import example
from lagwatch.cli import app
from lagwatch_api import create_app
from tests.support.api_doubles import GivenSettings, RecordingCommands
from tests.support.serving import Served, served

URL: Final = "http://lagwatch:8000"
_EXAMPLES: Final = Path(__file__).parent / "examples"
_PROMPT: Final = "$ "
_COLORS: Final = ("CLICOLOR_FORCE", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS", "TTY_COMPATIBLE")


def shown(block: str) -> str:
    """A block of commands, each with what it prints now.

    A line `[exit code N]` follows a command that does not end with 0.
    """
    commands = [line for line in block.splitlines() if line.startswith(_PROMPT)]
    with _started(commands) as server:
        return "".join(f"{line}\n{_printed(line[len(_PROMPT) :], server)}" for line in commands)


@contextlib.contextmanager
def _started(commands: list[str]) -> Iterator[Served | None]:
    """A lagwatch that answers at `URL`, if a command asks it."""
    if not any(URL in command for command in commands):
        yield None
        return
    application = create_app(
        example.queries(), RecordingCommands(), GivenSettings(), hostname="lagwatch", version="1"
    )
    with served(application) as server:
        yield server


def _printed(command: str, server: Served | None) -> str:
    words = shlex.split(command, comments=True)
    match words:
        case ["lagwatch", *arguments]:
            return _said(arguments, server)
        case ["cat", name]:
            return (_EXAMPLES / name).read_text(encoding="utf-8")
        case ["curl", "-s", url, "|", "jq", path] if server is not None:
            answer = _at(server.ask(url.removeprefix(URL)).json, path)
            return json.dumps(answer, indent=2, ensure_ascii=False) + "\n"
        case _:
            raise ValueError(f"the manual cannot run {command!r}")


def _at(value: Any, path: str) -> Any:  # noqa: ANN401 is JSON
    """The part of a JSON value at a path of jq: `.status.partitions[0]`."""
    for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        value = value[name] if name else value[int(number)]
    return value


def _said(arguments: list[str], server: Served | None) -> str:
    """What the command prints, with what it says on stderr; without spaces at the ends of lines."""
    if server is not None:
        arguments = [word.replace(URL, f"http://127.0.0.1:{server.port}") for word in arguments]
    with contextlib.chdir(_EXAMPLES), _plain_environment():
        result = CliRunner().invoke(app, arguments, prog_name="lagwatch")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    text = re.sub(r" +$", "", result.output, flags=re.MULTILINE).strip("\n") + "\n"
    return text + (f"[exit code {result.exit_code}]\n" if result.exit_code else "")


@contextlib.contextmanager
def _plain_environment() -> Iterator[None]:
    """No configuration and no colors from the environment, and help as wide as a page."""
    kept = dict(os.environ)
    for name in [name for name in kept if name.startswith("LAGWATCH_") or name in _COLORS]:
        del os.environ[name]
    os.environ.update(COLUMNS="100", NO_COLOR="1", TERM="dumb")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
