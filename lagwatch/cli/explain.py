"""`lagwatch explain`: judge windows given as JSON."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from lagwatch.cli import words
from lagwatch.cli.documents import Fields, read
from lagwatch.cli.output import console, print_json
from lagwatch.cli.reporting import reported
from lagwatch.core.model import UNKNOWN, RuleSet

if TYPE_CHECKING:  # numpy and rich take a while to import
    from rich.console import Console
    from rich.text import Text

    from lagwatch.core.explain import Explained, WindowInput

Rules = Annotated[RuleSet, typer.Option("--rules", help="Whose rules judge.")]
_CELLS_AT_ONCE: Final = 2_000_000
"""Windows are judged together in columns as long as the longest of them."""

EPILOG = """
**Examples**

`lagwatch explain window.json`

`lagwatch explain window.json --rules lagwatch`

`curl -s http://host/windows | lagwatch explain - --json`
"""


@reported()
def explain(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="JSON; `-` is the standard input.")],
    *,
    rules: Rules = RuleSet.BURROW,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge windows of commits: verdict, rule and the numbers it saw.

    FILE holds one object, an array, or one object per line, with **offsets** (each `offset`,
    `timestamp` in ms, `lag` or null), **broker_offsets**, **current_lag**, **time_now** in seconds
    and **allowed_lag** in messages (0 when absent).
    """
    document = read(file)
    windows = [window(item, index) for index, item in enumerate(document.items)]
    verdicts = list(_judge(windows, rules))
    if as_json:
        print_json([answer(verdict) for verdict in verdicts], single=document.single)
    else:
        _draw(verdicts, numbered=not document.single)


def window(item: object, index: int) -> "WindowInput":
    """One item of the document; empty slots (null) of its window are left out.

    Raises:
        InputError: an item or field is not usable.
    """
    from lagwatch.core.explain import WindowInput

    fields = Fields.of(item, index=index)
    entries = [entry for entry in fields.objects("offsets") if entry is not None]
    current_lag = fields.whole_or_none("current_lag")
    if "current_lag" not in fields.values:
        raise fields.wrong("current_lag", "is missing; null means: not known")
    return WindowInput(
        offset=[entry.whole("offset", lowest=0) for entry in entries],
        commit_ms=[entry.instant_ms("timestamp") for entry in entries],
        lag=[entry.whole_or_none("lag") for entry in entries],
        broker_offsets=fields.numbers("broker_offsets"),
        current_lag=UNKNOWN if current_lag is None else current_lag,
        now_ms=fields.instant_s("time_now"),
        allowed_lag=fields.whole("allowed_lag", default=0, lowest=0),
    )


def _judge(windows: Sequence["WindowInput"], rules: RuleSet) -> Iterator["Explained"]:
    from lagwatch.core.explain import explain as judge

    longest = max((len(each.offset) for each in windows), default=0)
    step = max(1, _CELLS_AT_ONCE // max(1, longest))
    for start in range(0, len(windows), step):
        yield from judge(windows[start : start + step], rules=rules)


def answer(verdict: "Explained") -> dict[str, object]:
    """A verdict as JSON."""
    return {
        "status": verdict.status.name,
        "rule": verdict.rule.word,
        "evidence": dict(verdict.evidence),
        "sentence": verdict.sentence,
    }


def _draw(verdicts: Sequence["Explained"], *, numbered: bool) -> None:
    from rich.text import Text

    screen = console()
    for index, verdict in enumerate(verdicts):
        draw(screen, verdict, head=Text(f"{index}: " if numbered else ""))


def draw(screen: "Console", verdict: "Explained", *, head: "Text") -> None:
    """Print a verdict behind `head`."""
    from rich.text import Text

    status = verdict.status.name
    head.append(status, style=words.COLOURS.get(status, "dim"))
    head.append(f"  {verdict.rule.word}")
    screen.print(head)
    screen.print(Text(f"  {verdict.sentence}"))
    for name, value in verdict.evidence.items():
        screen.print(Text(f"  {name:<18} {words.quantity(name, value)}", style="dim"))
