"""`lagwatch replay`: run operations through the windows and show what they hold then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from lagwatch.cli import words
from lagwatch.cli.documents import Fields, read
from lagwatch.cli.explain import Rules, answer, draw
from lagwatch.cli.output import console, print_json
from lagwatch.cli.reporting import reported
from lagwatch.core.model import RuleSet

if TYPE_CHECKING:  # numpy takes a while to import
    from lagwatch.core.explain import Operation, Replayed, ReplayedCommit

_MOST_INTERVALS: Final = 100
_LONGEST_DISTANCE_S: Final = 86_400
_KINDS: Final[Mapping[str, Literal["broker", "commit"]]] = {"broker": "broker", "commit": "commit"}

EPILOG = """
**Examples**

`lagwatch replay operations.json`

`lagwatch replay operations.jsonl --json`
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One sequence of operations."""

    intervals: int
    min_distance_ms: int
    operations: tuple["Operation", ...]


@reported()
def replay(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON; `-` is the standard input.")],
    *,
    rules: Rules = RuleSet.BURROW,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run operations on one partition and show the resulting window, and its verdict.

    It is judged as of the newest instant of the operations.

    FILE holds one object, an array, or one object per line, with **intervals**,
    **min_distance_s** and **ops**: each `op` is `broker` (a log end `offset` was read) or `commit`
    (`offset`, `order`, `ts_ms_after_base`). Numbers of an operation that are absent are 0.
    """
    from lagwatch.core.explain import replay as run

    document = read(file)
    scripts = [script(item, index) for index, item in enumerate(document.items)]
    results = [
        run(
            intervals=each.intervals,
            min_distance_ms=each.min_distance_ms,
            operations=each.operations,
            rules=rules,
        )
        for each in scripts
    ]
    if as_json:
        print_json([_answer(result) for result in results], single=document.single)
    else:
        _draw(results, numbered=not document.single)


def script(item: object, index: int) -> Script:
    """One item of the document.

    Raises:
        InputError: an item or field is not usable.
    """
    fields = Fields.of(item, index=index)
    return Script(
        intervals=fields.whole("intervals", lowest=1, highest=_MOST_INTERVALS),
        min_distance_ms=fields.duration_ms("min_distance_s", highest_s=_LONGEST_DISTANCE_S),
        operations=tuple(
            _operation(step, fields, position)
            for position, step in enumerate(fields.objects("ops"))
        ),
    )


def _operation(step: Fields | None, fields: Fields, position: int) -> "Operation":
    from lagwatch.core.explain import Operation

    if step is None:
        raise fields.wrong(f"ops[{position}]", "must be an object, not null")
    kind = _KINDS[step.word("op", tuple(_KINDS))]
    return Operation(
        op=kind,
        offset=step.whole("offset", default=0, lowest=0 if kind == "broker" else -(2**62)),
        order=step.whole("order", default=0),
        at_ms=step.instant_ms("ts_ms_after_base", default=0),
    )


def _answer(result: "Replayed") -> dict[str, object]:
    return {
        "group_found": result.group_found,
        "window": None if result.window is None else [_entry(entry) for entry in result.window],
        "broker_offsets": None if result.broker_offsets is None else list(result.broker_offsets),
        "current_lag": result.current_lag,
        "last_commit_ms_after_base": result.last_commit_ms,
        "verdict": None if result.verdict is None else answer(result.verdict),
    }


def _entry(entry: "ReplayedCommit | None") -> dict[str, int | None] | None:
    if entry is None:
        return None
    return {
        "offset": entry.offset,
        "order": entry.order,
        "ts_ms_after_base": entry.at_ms,
        "lag": entry.lag,
    }


def _draw(results: Sequence["Replayed"], *, numbered: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    for index, result in enumerate(results):
        head = f"{index}: " if numbered else ""
        if result.window is None:
            screen.print(Text(f"{head}no group: no commit was accepted"))
            continue
        ends = ", ".join(words.number(offset) for offset in result.broker_offsets or ())
        screen.print(Text(f"{head}current lag {words.number(result.current_lag)}"))
        screen.print(Text(f"  last commit {words.number(result.last_commit_ms)} ms after base"))
        screen.print(Text(f"  log end offsets {ends}"))
        table = Table(box=None, padding=(0, 2), header_style="dim")
        for title in ("slot", "offset", "order", "ms after base", "lag"):
            table.add_column(title, justify="right", no_wrap=True)
        for slot, entry in enumerate(result.window):
            table.add_row(str(slot), *_cells(entry))
        screen.print(table)
        if result.verdict is not None:
            draw(screen, result.verdict, head=Text("  verdict "))


def _cells(entry: "ReplayedCommit | None") -> tuple[str, ...]:
    if entry is None:
        return ("-", "", "", "")
    return tuple(
        words.number(value) for value in (entry.offset, entry.order, entry.at_ms, entry.lag)
    )
