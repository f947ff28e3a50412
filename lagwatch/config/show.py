"""The effective configuration as text that can be read back, secrets hidden."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lagwatch.config.given import Path, Tree
from lagwatch.config.load import Loaded
from lagwatch.config.secrets import HIDDEN, is_secret


def as_tree(loaded: Loaded) -> Tree:
    """Tables of plain values; options and tables that are not set are left out."""
    return _hide(loaded.settings.model_dump(mode="json", exclude_none=True), ())


def as_toml(loaded: Loaded) -> str:
    """TOML, each option with a remark on who set it."""
    return "\n".join(_table(as_tree(loaded), (), loaded.origins)) + "\n"


def _hide(table: Mapping[str, Any], above: Path) -> Tree:
    return {name: _hidden(value, (*above, name)) for name, value in table.items() if value != {}}


def _hidden(value: object, path: Path) -> object:
    if isinstance(value, dict):
        return _hide(value, path)
    return HIDDEN if is_secret(path) else value


def _table(table: Tree, path: Path, origins: Mapping[Path, str]) -> Iterator[str]:
    options = {name: value for name, value in table.items() if not isinstance(value, dict)}
    if options:
        yield f"[{'.'.join(map(_name, path))}]"
        for name, value in options.items():
            origin = origins.get((*path, name), "default")
            yield f"{_name(name)} = {json.dumps(value, ensure_ascii=False)}  # {origin}"
        yield ""
    for name, below in table.items():
        if isinstance(below, dict):
            yield from _table(below, (*path, name), origins)


def _name(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else json.dumps(name, ensure_ascii=False)
