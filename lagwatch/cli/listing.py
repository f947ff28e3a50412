"""Lists whose ids are copied into other commands: nothing is cut."""

from collections.abc import Collection, Sequence
from textwrap import wrap
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from lagwatch.cli.output import aligned, console, terminal_width
from lagwatch.core.words import printable

_INDENT: Final = "    "


def print_listing(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, first: Collection[str]
) -> None:
    """Print rows below their titles; `first`: as `listing`."""
    screen = console()
    for line in listing(titles, rows, first=first, width=terminal_width(screen)):
        screen.print(Text(line), soft_wrap=True)


def listing(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    first: Collection[str],
    width: int | None,
) -> list[str]:
    """Rows as columns; where these are wider than the terminal, each as a few lines.

    These begin with the columns `first`, which no line break divides. The other columns follow
    with their titles. `width` is None for a file or pipe, where every row is one line.
    """
    shown = [[printable(text) for text in row] for row in rows]
    table = aligned([titles, *shown], most=width)
    if width is None or max(map(cell_len, table)) <= width:
        return table
    return [line for row in shown for line in _stacked(titles, row, first, width)]


def _stacked(
    titles: Sequence[str], row: Sequence[str], first: Collection[str], width: int
) -> list[str]:
    cells = dict(zip(titles, row, strict=True))
    head = "  ".join(cells[title] for title in titles if title in first)
    rest = "; ".join(f"{title} {text}" for title, text in cells.items() if title not in first)
    following = wrap(
        rest,
        width,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [head, *following]
