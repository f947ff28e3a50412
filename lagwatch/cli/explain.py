"""`lagwatch explain`: why a group has its verdict; or judge windows given as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from lagwatch.cli import words
from lagwatch.cli.ask import Cluster, ask, cluster_of
from lagwatch.cli.documents import Fields, read
from lagwatch.cli.observed import WAIT_S, Wait, Watch, observed
from lagwatch.cli.options import Bootstrap, ConfigFile
from lagwatch.cli.output import console, print_json
from lagwatch.cli.reporting import Exit, complain, reported
from lagwatch.core.model import UNKNOWN, RuleSet
from lagwatch.core.words import duration, printable
from lagwatch.errors import NotFoundError

if TYPE_CHECKING:  # numpy and rich take a while to import
    from rich.console import Console
    from rich.text import Text

    from lagwatch.core.explain import Explained, WindowInput
    from lagwatch.service import ShortLook

Rules = Annotated[RuleSet, typer.Option("--rules", help="Whose rules judge.")]
Answer = Mapping[str, Any]
"""As `/api/v1/clusters/{cluster}/groups/{group}` gives it."""
_NOT_SEEN: Final[Answer] = {
    "name": None,
    "certainty": "unknown",
    "refuted_by": "",
    "evidence": {},
    "topic": None,
    "partition": None,
}
_CELLS_AT_ONCE: Final = 2_000_000
"""Windows are judged together in columns as long as the longest of them."""

EPILOG = """
With `--url` it asks a running lagwatch for the cause of a group's verdict: **certain**, **likely**
or not known, its evidence, and what would refute it. With `--bootstrap` or `--config` it watches
the cluster itself for a short time: some causes show only after minutes, so a running lagwatch
knows more.

**Examples**

`lagwatch explain billing --url http://lagwatch:8000`

`lagwatch explain billing --bootstrap kafka-1:9092 --for 2m`

`lagwatch explain window.json`

`lagwatch explain window.json --rules lagwatch`

`curl -s http://host/windows | lagwatch explain - --json`
"""


@reported()
def explain(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-|GROUP",
            help="JSON, `-` is the standard input; with --url, --bootstrap or --config the "
            "group's exact name.",
        ),
    ],
    *,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Root of a running lagwatch: explain a group.")
    ] = "",
    bootstrap: Bootstrap = None,
    config: ConfigFile = None,
    cluster: Cluster = "",
    wait: Wait = WAIT_S,
    watch: Watch = "30s",
    rules: Rules = RuleSet.BURROW,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Why a group has its verdict; or judge windows of commits.

    FILE holds one object, an array, or one object per line, with **offsets** (each `offset`,
    `timestamp` in ms, `lag` or null), **broker_offsets**, **current_lag**, **time_now** in seconds
    and **allowed_lag** in messages (0 when absent).
    """
    if url and bootstrap:
        raise typer.BadParameter("either --url or --bootstrap", param_hint="--url")
    if url:
        found = _asked(url, cluster or cluster_of(url, file), file)
        _show(found, as_json=as_json)
        if found.get("stale"):
            complain(f"the data of {file} are {duration(found['data_age_s'])} old")
            raise typer.Exit(Exit.UNKNOWN)  # as of `status`
        return
    if (bootstrap or config) and file != "-" and not Path(file).is_file():
        seen = observed(config, bootstrap, cluster or None, wait_s=wait, watch=watch)
        for of_cluster in _seen(seen, file):
            _show(of_cluster, as_json=as_json)
        return
    document = read(file)
    windows = [window(item, index) for index, item in enumerate(document.items)]
    verdicts = list(_judge(windows, rules))
    if as_json:
        print_json([answer(verdict) for verdict in verdicts], single=document.single)
    else:
        _draw(verdicts, numbered=not document.single)


def _asked(url: str, cluster: str, group: str) -> "Answer":
    path = f"/api/v1/clusters/{quote(cluster, safe='')}/groups/{quote(group, safe='')}"
    answer: Answer = ask(url, "GET", path, missing=("group", f"{group} on {cluster}"))
    return answer


def _seen(seen: "ShortLook", group: str) -> Iterator["Answer"]:
    """Findings of a short look at the group, for each cluster that has it."""
    from lagwatch.cli.local import LocalSource
    from lagwatch_api.v1.fleet import group_answer

    source, found, ready = LocalSource(seen.queries, seen.first), False, True
    for cluster in source.clusters():
        readiness = source.readiness(cluster)
        ready &= readiness.ready
        for problem in readiness.problems:
            complain(f"cluster {cluster!r}: {problem}")
        if group not in seen.queries.groups(cluster):
            if group in source.groups(cluster):
                complain(f"{group} on {cluster}: members hold messages, and no commit is known")
                ready = False
            continue
        found = True
        view = source.group(cluster, group, show_all=False)
        answer = {**group_answer(seen.queries, cluster, group, None), "status": view.status}
        if view.note and answer["cause"] is None:
            # a short look that saw no fault does not prove that the group is well
            answer["cause"] = {**_NOT_SEEN, "text": f"not known: {view.note}; watch longer (--for)"}
        yield answer
    if not found:
        if ready:
            raise NotFoundError(kind="group", name=group)
        complain(f"group {group!r} is not known so far")
        raise typer.Exit(Exit.UNKNOWN)


def _show(answer: "Answer", *, as_json: bool) -> None:
    if as_json:
        names = ("cluster", "group", "at_ms", "stale", "data_age_s", "status", "rule", "cause")
        print_json([{name: answer.get(name) for name in names}], single=True)
        return
    _draw_group(answer)


def _draw_group(explained: Mapping[str, Any]) -> None:
    from rich.text import Text

    screen, cause, worst = console(), explained.get("cause"), explained["worst"]
    head = Text(printable(f"{explained['group']}  {'was ' if explained.get('stale') else ''}"))
    head.append(explained["status"], style=words.COLOURS.get(explained["status"], "dim"))
    screen.print(head.append(f"  {explained['rule'] or ''}"))
    if worst is not None:
        place = f"{worst['topic']}/{worst['partition']}"
        screen.print(Text(printable(f"  {place}: {worst['text']}")))
    if cause is None:
        screen.print(Text("  cause: none, nothing is wrong"))
        return
    named = f" ({cause['certainty']}): {cause['name']}" if cause["name"] else ""
    screen.print(Text(f"  cause{named}", style="bold"))
    screen.print(Text(printable(f"  {cause['text']}")))
    if cause["refuted_by"]:
        screen.print(Text(f"  refuted if: {cause['refuted_by']}"))
    for step in cause.get("to_do", ()):  # older servers send none
        screen.print(Text(f"  to do: {step}"))
    for name, value in cause["evidence"].items():
        screen.print(Text(printable(f"  {name:<26} {words.quantity(name, value)}"), style="dim"))


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
