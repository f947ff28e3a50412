"""The generated parts of the manual, each from the source that is true, as Markdown."""

import ast
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer.main
import yaml

from docs.board_pictures import BOARDS
from lagwatch.cli import app as command
from lagwatch.config import reference
from lagwatch.core import causes as cause_table
from lagwatch.core import rule_table
from lagwatch.core.record import Kind
from lagwatch.core.record.columns import schema
from lagwatch.metrics import table as metric_table
from lagwatch_api import create_app
from tests.support.api_doubles import GivenQueries, GivenSettings, RecordingCommands
from tests.support.dashboards import boards, panels

_ROOT: Final = Path(__file__).parents[1]
_BENCH: Final = _ROOT / "tests" / "bench"
_ALERTS: Final = _ROOT / "grafana" / "rules" / "lagwatch.rules.yaml"


def options() -> str:
    """Every option of the configuration."""
    return reference.markdown().rstrip()


def rules() -> str:
    """Both rule sets, in their order."""
    return rule_table.markdown()


def causes() -> str:
    """Every cause of a verdict, in order."""
    return cause_table.markdown()


def metrics() -> str:
    """Every metric of our own."""
    return metric_table.markdown().rstrip()


def commands() -> str:
    """Every command with what it does."""
    rows = ((f"`{usage}`", meaning) for usage, meaning in _commands("lagwatch", root_command()))
    return _table(("Command", "What it does"), rows)


def root_command() -> Any:  # noqa: ANN401 typer brings a click of its own, without a public name
    """The command `lagwatch`, with its groups and subcommands."""
    return typer.main.get_command(command)


def _commands(name: str, found: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401
    if hasattr(found, "commands"):
        for below, each in found.commands.items():
            yield from _commands(f"{name} {below}", each)
        return
    pieces = found.collect_usage_pieces(found.context_class(found))
    # an argument is written NAME, {NAME} or {NAME}...; where it may be left out, [NAME] or [[NAME]]
    arguments = [
        re.sub(r"([\[\]])\1", r"\1", piece.replace("{", "").replace("}", "")).upper()
        for piece in pieces
        if piece != "[OPTIONS]"
    ]
    meaning = " ".join((found.help or "").partition("\n\n")[0].split())
    yield " ".join([name, *arguments]), meaning


def routes() -> str:
    """Every route, by what it is about."""
    document = documented_app().openapi()
    found = [
        (details["tags"][0], method.upper(), path, details["summary"])
        for path, methods in document["paths"].items()
        for method, details in methods.items()
        if method != "head"
    ]
    tags = list(dict.fromkeys(tag for tag, *_ in found))
    return "\n\n".join(
        f"### {tag}\n\n"
        + _table(
            ("Route", "Answer"),
            (
                (f"`{method} {path}`", summary)
                for listed, method, path, summary in found
                if listed == tag
            ),
        )
        for tag in tags
    )


def documented_app() -> Any:  # noqa: ANN401 FastAPI's own type is of no use here
    """The HTTP application with all of its routes; it knows no cluster."""
    absent: Any = object()
    return create_app(
        GivenQueries({}),
        RecordingCommands(),
        GivenSettings(),
        absent,
        alerts=absent,
        history=absent,
        deployments=absent,
        scaling=absent,
        progress=absent,
        access=absent,
        hostname="",
        version="",
    )


def layers() -> str:
    """Which package may import which, the lowest floor first."""
    return "\n\n".join(_floors(contract) for contract in _contracts("layers"))


def _floors(contract: Mapping[str, Any]) -> str:
    rows = [
        (str(floor), _names([name.strip() for name in names.split("|")]))
        for floor, names in enumerate(reversed(contract["layers"]))
    ]
    rule = "a package may import those of lower floors, and none of its own floor or above."
    return f"In `{contract['containers'][0]}` {rule}\n\n{_table(('Floor', 'Packages'), rows)}"


def forbidden() -> str:
    """Imports that a contract forbids or reserves."""
    rows = [
        (
            contract["name"],
            _names(contract["source_modules"]),
            _names(contract["forbidden_modules"]),
        )
        for contract in _contracts("forbidden")
    ]
    rows += [
        (contract["name"], f"all but {_names(contract['allowed_importers'])}", _names(modules))
        for contract in _contracts("protected")
        if (modules := contract["protected_modules"])
    ]
    return _table(("Contract", "These packages", "must not import"), rows)


def _contracts(kind: str) -> list[dict[str, Any]]:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts: list[dict[str, Any]] = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == kind]


def _names(modules: Sequence[str]) -> str:
    return ", ".join(f"`{module}`" for module in modules)


def figures() -> str:
    """Every figure of `make bench` with a target of its own, by benchmark."""
    return "\n\n".join(filter(None, map(_benchmark, sorted(_BENCH.glob("bench_*.py")))))


def _benchmark(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    name = path.stem.removeprefix("bench_")
    rows = sorted(_figures(tree, name))
    about = (ast.get_docstring(tree) or "").partition("\n")[0]
    head = f"`make bench ONLY={name}`: {about}"
    return f"{head}\n\n{_table(('Figure', 'Target'), rows)}" if rows else ""


def _figures(tree: ast.Module, benchmark: str) -> Iterator[tuple[str, str]]:
    """Names and targets; computed targets, and figures without a target, are left out."""
    constants = {
        target.id: statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Figure")):
                given = {word.arg: word.value for word in node.keywords}
                name = _figure_name(given["name"]) or f"{benchmark}_*"
                target = given["target"]
                if isinstance(target, ast.Name):
                    target = constants.get(target.id, target)
                match target, given["unit"]:
                    case ast.Constant(value=int() | float() as limit), ast.Constant(
                        value=str(unit)
                    ):
                        if limit or "bound" not in given:
                            bound = "at least" if "bound" in given else "at most"
                            yield f"`{name}`", f"{bound} {limit:,} {unit}"


def _figure_name(node: ast.expr) -> str:
    """The name of a figure, with a star for each part that varies; "" when all of it does."""
    match node:
        case ast.Constant(value=str(name)):
            return name
        case ast.JoinedStr(values=values):
            return "".join(_figure_name(value) or "*" for value in values)
        case _:
            return ""


def runbook() -> str:
    """What to do for each alerting rule."""
    groups = yaml.safe_load(_ALERTS.read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    held = {
        rule["labels"]["alertname"]: rule["expr"]
        for rule in rules
        if "alertname" in rule.get("labels", ())
    }
    return "\n\n".join(_alert(rule, held) for rule in rules if "alert" in rule)


def _alert(rule: Mapping[str, Any], held: Mapping[str, str]) -> str:
    """One alert; `held` has the conditions of those that also fire while theirs is not known."""
    notes = rule["annotations"]
    condition = " ".join(held.get(rule["alert"], rule["expr"]).split())
    unknown = ", or so when last known" if rule["alert"] in held else ""
    lasting = f", after {rule['for']}" if "for" in rule else ""
    kept = f", kept for {rule['keep_firing_for']}" if "keep_firing_for" in rule else ""
    return (
        f"### {rule['alert']}\n\n"
        f"{rule['labels']['severity']}{lasting}{kept}: `{condition}`{unknown}\n\n"
        f"{notes['runbook'].rstrip()}"
    )


def columns() -> str:
    """The columns of every kind of history rows."""
    kinds = [kind for kind in Kind if kind not in {Kind.ROLLUP_1H, Kind.ROLLUP_1D}]
    return "\n\n".join(
        f"### {'Roll-ups' if kind is Kind.ROLLUP_5M else f'`{kind}`'}\n\n"
        + _table(
            ("Column", "Type", "Unit", "May be null", "Meaning"),
            (
                (
                    f"`{column.name}`",
                    str(column.type),
                    column.unit,
                    "yes" if column.nullable else "",
                    column.meaning,
                )
                for column in schema(kind).values()
            ),
        )
        for kind in kinds
    )


def _table(head: Sequence[str], rows: Iterator[Sequence[str]] | Sequence[Sequence[str]]) -> str:
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)
    ]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def dashboards() -> str:
    """Every dashboard with its picture and its panels."""
    return "\n\n".join(_dashboard(board) for board in boards().values())


def _dashboard(board: Mapping[str, Any]) -> str:
    name = str(board["uid"]).removeprefix("lagwatch-")
    shown = f"![{board['title']}, drawn from the demo](pictures/board-{name}.svg)\n\n"
    every = [(panel["title"], panel["description"]) for panel in panels(board)]
    return (
        f"## {name.capitalize()}\n\n{board['description']}\n\n"
        f"{shown if name in BOARDS else ''}{_table(('Panel', 'What it shows'), every)}"
    )


PARTS: Final[Mapping[str, Callable[[], str]]] = {
    part.__name__: part
    for part in (
        options, rules, causes, metrics, commands, routes, layers, forbidden, figures, runbook,
        columns, dashboards,
    )
}  # fmt: skip
"""What a page may ask for, by name."""
