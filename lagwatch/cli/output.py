"""How a command writes: one console for people, lines of JSON for programs, instants."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import typer

from lagwatch.core.words import LAST_MS, printable

if TYPE_CHECKING:  # rich takes a while to import: only when something is drawn
    from rich.console import Console
    from rich.text import Text

_NO_TERMINAL_COLUMNS: Final = 10_000
"""Width of output to a file or pipe: wide enough to cut nothing off."""
_LONGEST_NAME: Final = 300
"""Characters of a name; `--json` has it whole."""
_PADDED: Final = 40
"""In a file or pipe a longer cell does not make its column wider."""


def console() -> "Console":
    """Draws on stdout; without colours and cuts if that is not a terminal."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else _NO_TERMINAL_COLUMNS
    return Console(width=width, highlight=False, emoji=False, soft_wrap=False)


def terminal_width(screen: "Console") -> int | None:
    """Characters of a line of the terminal; None for a file or pipe."""
    return None if screen.width >= _NO_TERMINAL_COLUMNS else screen.width


def aligned(
    rows: Sequence[Sequence[str]], *, right: Collection[int] = (), most: int | None = None
) -> list[str]:
    """Rows as lines with columns; a cell longer than `most` shifts its own line alone.

    Without `most`, for files and pipes, names of usual length are aligned. `right`: columns whose
    texts end below each other.
    """
    from rich.cells import cell_len

    longest = _PADDED if most is None else most
    widths = [
        max((size for size in map(cell_len, column) if size <= longest), default=0)
        for column in zip(*rows, strict=True)
    ]
    lines = []
    for row in rows:
        blanks = [" " * (size - cell_len(cell)) for cell, size in zip(row, widths, strict=True)]
        cells = [
            blank + cell if at in right else cell + blank
            for at, (cell, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def short_name(name: str) -> str:
    """A name for a table or line: a very long one is cut, because it would fill the screen."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST_NAME else f"{shown[: _LONGEST_NAME - 1]}…"


def in_columns(
    cells: Sequence["Text"], widths: Sequence[int], *, right: Collection[int] = (), style: str = ""
) -> "Text":
    """One line with cells of these widths; `right`: those whose texts end below each other."""
    from rich.text import Text

    drawn = []
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        blank = " " * (width - cell.cell_len)
        begin, end = (blank, "") if at in right else ("", blank)
        # a cell keeps its style to its own characters
        drawn.append(Text(begin, style=style).append_text(cell).append(end))
    line = Text("  ", style=style).join(drawn)
    line.rstrip()
    return line


def plain(text: str, style: str = "") -> "Text":
    """A text that is shown as it is, without markup and control characters."""
    from rich.text import Text

    return Text(printable(text), style=style)


def print_json(answers: Sequence[object], *, single: bool) -> None:
    """One answer as an object, or an array with one answer a line."""
    lines = [json.dumps(answer, ensure_ascii=False, separators=(",", ":")) for answer in answers]
    if single:
        typer.echo(lines[0])
    elif lines:
        typer.echo("[\n" + ",\n".join(lines) + "\n]")
    else:
        typer.echo("[]")


def zone_of(answer: Mapping[str, Any]) -> ZoneInfo:
    """The server's `alerts.time_zone`; UTC from servers that do not send it or if unknown here."""
    try:
        return ZoneInfo(answer.get("time_zone") or "UTC")
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")


def local_time(at_ms: int | None, zone: ZoneInfo) -> str:
    """`2027-01-31 23:00:00 CET`; `-` for no instant, the number for one beyond all calendars."""
    if at_ms is None:
        return "-"
    if not 0 <= at_ms <= LAST_MS:
        return f"{at_ms} ms"
    return f"{datetime.fromtimestamp(at_ms / 1000, zone):%Y-%m-%d %H:%M:%S %Z}"
