"""Every option is in the shipped file with its default, and the file has no other."""

import json
import tomllib
from pathlib import Path

import pytest

from lagwatch.config.load import load
from lagwatch.config.reference import options
from lagwatch.config.walk import NAME
from lagwatch.errors import ConfigError

_ROOT = Path(__file__).parents[2]
_FILE = _ROOT / "deploy" / "lagwatch.toml"
_TABLES = {"clusters.local.client", "jobs.spark"}
"""Options that hold properties of a library, by name."""


def test_the_shipped_file_is_valid_as_it_stands() -> None:
    settings = load(_FILE, {})

    assert list(settings.clusters) == ["local"]


def test_the_shipped_file_shows_every_option() -> None:
    shown = {_unnamed(key) for key in _keys(tomllib.loads(_everything_on(_FILE)), "")}

    expected = {option.key.replace(NAME, "local") for option in options()}
    for table in _TABLES:
        properties = {key for key in shown if key.startswith(f"{table}.")}
        assert properties, f"a property of {table} is shown"
        shown -= properties
    assert shown == expected - _TABLES


def test_the_shipped_file_shows_the_defaults() -> None:
    written = tomllib.loads(_FILE.read_text())
    cluster = written["clusters"]["local"]
    values = {**written, "clusters": {NAME: cluster}}

    for option in options():
        value = _at(values, option.path)
        if value is not None and option.default != "required":
            assert _as_written(value) == option.default, option.key


def test_the_shipped_file_names_no_option_that_does_not_exist(tmp_path: Path) -> None:
    path = tmp_path / "all.toml"
    path.write_text(_everything_on(_FILE))

    with pytest.raises(ConfigError) as raised:  # both ways to give each password are shown
        load(path, {})

    assert "unknown" not in str(raised.value)
    assert "twice" in str(raised.value)


def _everything_on(path: Path) -> str:
    """The file with the options that are commented out switched on."""
    lines = []
    for line in path.read_text().splitlines():
        bare = line.removeprefix("# ")
        is_option = bare.startswith("[") or (
            " = " in bare
            and bare.split(" = ")[0].strip('"').replace("_", "").replace(".", "").isalpha()
        )
        lines.append(bare if is_option else line)
    return "\n".join(lines)


def _keys(table: dict[str, object], above: str) -> list[str]:
    keys = []
    for name, value in table.items():
        keys += _keys(value, f"{above}{name}.") if isinstance(value, dict) else [above + name]
    return keys


def _unnamed(key: str) -> str:
    """`alerts.webhook.hook.headers.Team` → `alerts.webhook.local.headers`."""
    parts = key.split(".")
    if parts[0] == "clusters" and parts[2] == "progress":
        return ".".join([*parts[:3], "local", *parts[4:]])
    if parts[0] != "alerts" or len(parts) <= 3:
        return key
    return ".".join([*parts[:2], "local", parts[3]])


def _at(table: object, path: tuple[str, ...]) -> object:
    for name in path:
        table = table.get(name) if isinstance(table, dict) else None
    return table


def _as_written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.15g}"
        case str() | list():
            return json.dumps(value)
        case _:
            return str(value)
