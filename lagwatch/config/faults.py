"""Translates pydantic's errors into faults: key, value, problem, remedy."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pydantic_core import ErrorDetails

from lagwatch.config.reference import Option, env_name, options
from lagwatch.config.secret import HIDDEN, Secret, Table, without_user
from lagwatch.config.walk import NAME, Path, Tree, holds, option_at
from lagwatch.errors import Fault

_SHOWN_CHARACTERS: Final = 80
_TABLES: Final = frozenset({"model_type", "model_attributes_type", "dict_type"})
_ADD_A_CLUSTER: Final = (
    "Add [clusters.NAME] with bootstrap, set LAGWATCH_CLUSTERS__NAME__BOOTSTRAP, "
    "or use --bootstrap host:port."
)
Location = tuple[str | int, ...]


def translate(error: ErrorDetails, tree: Tree, origins: Mapping[Path, str]) -> Fault:
    """One fault of the tree; `origins` says which values did not come from the file."""
    location = tuple(part for part in error["loc"] if part != "[key]")
    names = tuple(part for part in location if isinstance(part, str))
    problem, remedy = _explain(error, names, origins)
    origin = origins.get(names)
    return Fault(
        key=_key(location),
        value=_shown(error, _at(tree, location, error["input"]), location),
        problem=f"{problem} (from {origin})" if origin else problem,
        remedy=remedy,
    )


def _explain(error: ErrorDetails, names: Path, origins: Mapping[Path, str]) -> tuple[str, str]:
    context = error.get("ctx", {})
    match error["type"]:
        case "lagwatch":
            return str(context["problem"]), str(context["remedy"])
        case "missing" | "too_short" | "string_too_short" as kind:
            return _absent(names, "is missing" if kind == "missing" else "is empty")
        case "extra_forbidden":
            return "unknown option", _did_you_mean(names, origins)
        case "literal_error":
            return "not one of the known words", _write(names)
        case kind if kind in _TABLES:
            return "is not a table", f"Write it as [{_key(names)}] with options below it."
        case _:
            return error["msg"].removeprefix("Input "), _write(names)


def _absent(names: Path, problem: str) -> tuple[str, str]:
    if names == ("clusters",):
        return "no cluster is configured", _ADD_A_CLUSTER
    option = _option(names)
    return problem, f"Set it ({option.kind}): {option.meaning}." if option else "Set it."


def _write(names: Path) -> str:
    option = _option(names)
    return (
        f"Write {option.kind.replace('`', '')}." if option else "See `lagwatch config reference`."
    )


def _option(names: Path) -> Option | None:
    generic, _ = option_at(names)
    return next((option for option in options() if option.path == generic), None)


def _did_you_mean(names: Path, origins: Mapping[Path, str]) -> str:
    origin = origins.get(names, "")
    if origin.upper().startswith("LAGWATCH_"):
        variables = [env_name(_named(option.path, names)) for option in options()]
        near = get_close_matches(origin.upper(), variables, n=1, cutoff=0.7)
        return f"Did you mean {near[0]}?" if near else "See `lagwatch config reference`."
    siblings = _siblings(names)
    near = get_close_matches(names[-1].replace("-", "_"), siblings, n=1)
    if near:
        return f"Did you mean {_key((*names[:-1], near[0]))!r}?"
    everywhere = {option.path[-1]: _named(option.path, names) for option in options()}
    near = get_close_matches(names[-1], everywhere, n=1, cutoff=0.8)
    if near:
        return f"Did you mean {_key(everywhere[near[0]])!r}?"
    return f"Known here: {', '.join(siblings)}."


def _siblings(names: Path) -> list[str]:
    parent = option_at((*names[:-1], ""))[0][:-1]
    depth = len(parent)
    below = [option.path for option in options() if option.path[:depth] == parent]
    return list(dict.fromkeys(path[depth] for path in below if len(path) > depth))


def _named(path: Path, names: Path) -> Path:
    """The path of an option with the name that the user chose for the table."""
    at = path.index(NAME) if NAME in path else len(names)
    same = at < len(names) and path[:at] == names[:at]
    return (*names[: at + 1], *path[at + 1 :]) if same else path


def _key(location: Location) -> str:
    key = ""
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
        else:
            word = f'"{part}"' if "." in part else part
            key += f".{word}" if key else word
    return key


def _at(tree: Tree, location: Location, otherwise: object) -> object:
    """The value as the user wrote it, before any conversion."""
    value: object = tree
    for part in location:
        match value, part:
            case dict(), str() if part in value:
                value = value[part]
            case list(), int() if part < len(value):
                value = value[part]
            case _:
                return otherwise
    return value


def _shown(error: ErrorDetails, value: object, location: Location) -> str:
    """The value, unless it is a table, unknown (it may be a mistyped secret) or secret."""
    unseen = error["type"] in {"missing", "extra_forbidden", *_TABLES}
    if unseen or isinstance(value, dict) or value in ([], ()):
        return ""
    text = _printable(value, location)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _printable(value: object, location: Location) -> str:
    """The value as JSON, without what the type of its option hides."""
    names = tuple(part for part in location if isinstance(part, str))
    path, option = option_at(names)
    hides = holds(option) if option is not None else None
    if hides is not None and not isinstance(value, str):
        return HIDDEN
    if hides is not None and issubclass(hides, Table):
        value = hides.shown_value(names[-1], str(value)) if len(names) > len(path) else HIDDEN
    elif hides is not None and issubclass(hides, Secret):
        value = hides.shown(str(value))
    if value == HIDDEN:
        return HIDDEN
    return without_user(json.dumps(value, ensure_ascii=False, default=str))
