"""What stands in the dashboards and rules, as they are committed."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
GRAFANA = ROOT / "grafana"
RULES = GRAFANA / "rules" / "lagwatch.rules.yaml"

_VARIABLE = re.compile(r'=~?"\$\w+"')
_METRIC = re.compile(r"\b((?:lagwatch|process|python)_[a-z0-9_]+)")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


class Expression(NamedTuple):
    """One query and where it stands."""

    place: str
    text: str


def boards() -> Mapping[str, Any]:
    """File name → dashboard."""
    files = sorted((GRAFANA / "dashboards").glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def panels(board: Any) -> Iterator[Any]:  # noqa: ANN401 - is JSON
    """All panels; those in rows, too."""
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", ())


def panels_of_type(kind: str) -> list[Any]:
    """All panels of a type (`table`, `stat`, …), of all dashboards."""
    return [
        panel for board in boards().values() for panel in panels(board) if panel["type"] == kind
    ]


def expressions() -> list[Expression]:
    """Every Prometheus expression of the dashboards, variables and annotations included."""
    found = []
    for name, board in boards().items():
        for panel in panels(board):
            found += [
                Expression(f"{name}: {panel['title']} {target.get('refId', '')}", target["expr"])
                for target in panel.get("targets", ())
                if "expr" in target
            ]
        for annotation in board["annotations"].get("list", ()):
            if "expr" in annotation:
                found.append(Expression(f"{name}: {annotation['name']}", annotation["expr"]))
        for variable in board["templating"].get("list", ()):
            query = _LABEL_VALUES.fullmatch(str(variable.get("query", "")))
            if query:
                text = f"count by ({query[2]}) ({query[1]})"
                found.append(Expression(f"{name}: ${variable['name']}", text))
    return found


def for_all(expression: str) -> str:
    """The expression with every choice open, as Prometheus can run it."""
    return _with_times(_VARIABLE.sub('=~".+"', expression))


def chosen(expression: str, choices: Mapping[str, str]) -> str:
    """The expression with these values of variables (name → value), as Prometheus can run it."""
    for name, value in choices.items():
        expression = expression.replace(f'"${name}"', json.dumps(value))
    return _with_times(expression)


def _with_times(expression: str) -> str:
    for name in ("$__rate_interval", "$__interval", "$__range"):
        expression = expression.replace(name, "1m")
    return expression


def metrics_in(expression: str) -> set[str]:
    """Names of the metrics that are asked for; not those of recording rules."""
    return set(_METRIC.findall(re.sub(r"\w+:[\w:]+", "", expression)))


def rule_groups() -> list[Mapping[str, Any]]:
    groups: list[Mapping[str, Any]] = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return groups


def rules() -> list[Mapping[str, Any]]:
    return [rule for group in rule_groups() for rule in group["rules"]]
