"""The effective configuration as text that can be read back, secrets hidden."""

import json
from collections.abc import Iterator, Mapping

from lagwatch.config.load import Loaded
from lagwatch.config.walk import Path, Tree


def as_tree(loaded: Loaded) -> Tree:
    """Tables of plain values; options and tables that are not set are left out."""
    return _filled(loaded.settings.model_dump(mode="json", exclude_none=True))


def as_toml(loaded: Loaded) -> str:
    """TOML, each option with a remark on who set it."""
    return "\n".join(_table(as_tree(loaded), (), loaded.origins)) + "\n"


def _filled(table: Mapping[str, object]) -> Tree:
    return {
        name: _filled(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value != {}
    }


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
