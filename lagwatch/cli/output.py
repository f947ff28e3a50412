"""Where a command writes: one console for people, plain lines of JSON for programs."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:  # rich takes a while to import: only when something is drawn
    from rich.console import Console
    from rich.text import Text

_NO_TERMINAL_COLUMNS: Final = 10_000
"""Wide enough that nothing is cut off in a file or a pipe."""


def console() -> "Console":
    """Draws on stdout; without colours and cuts where that is no terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _NO_TERMINAL_COLUMNS
    return Console(width=width, highlight=False, emoji=False, soft_wrap=False)


def plain(text: str, style: str = "") -> "Text":
    """A text that is shown as it is, without markup and control characters."""
    from rich.text import Text

    return Text(printable(text), style=style)


def printable(text: str) -> str:
    """The text without characters that could move the cursor, end a line or turn its direction.

    Anyone who may commit to Kafka chooses the names of groups.
    """
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def print_json(answers: Sequence[object], *, single: bool) -> None:
    """One answer as an object, or an array with one answer a line."""
    lines = [json.dumps(answer, ensure_ascii=False, separators=(",", ":")) for answer in answers]
    if single:
        typer.echo(lines[0])
    elif lines:
        typer.echo("[\n" + ",\n".join(lines) + "\n]")
    else:
        typer.echo("[]")
