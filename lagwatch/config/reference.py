"""Every option with its kind, default and meaning, drawn from the models themselves."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from lagwatch.config.settings import Settings

ENV_PREFIX: Final = "LAGWATCH_"
NAME: Final = "NAME"
"""Stands for the name of a cluster in the keys of the reference."""

_KINDS: Final[Mapping[str, str]] = {
    # by format or, where there is none, by type of the schema
    "password": "text (secret)",
    "path": "path",
    "regex": "regular expression",
    "host:port": "host:port",
    "texts": "list of text",
    "secret texts": "list of text (secret)",
    "array": "list of host:port",
    "object": "table of text",
    "boolean": "`true` / `false`",
    "integer": "whole number",
    "number": "number",
    "string": "text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of the configuration."""

    key: str
    """Dotted, as in the file: `clusters.NAME.bootstrap`."""
    kind: str
    """What may be written: `number 0.1 to 86400`."""
    default: str
    """As TOML; "" when there is none, `required` when it must be given."""
    meaning: str

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))


@cache
def options() -> tuple[Option, ...]:
    """All options in the order of the file."""
    schema = Settings.model_json_schema()
    return tuple(_walk(schema, schema, ()))


def env_name(path: tuple[str, ...]) -> str:
    """The variable that sets an option: `LAGWATCH_SERVER__ADDRESS`."""
    return ENV_PREFIX + "__".join(part.upper().replace(".", "_") for part in path)


def markdown() -> str:
    """The reference as a Markdown table, one row per option."""
    head = ["| Option | Value | Default | Meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *map(_row, options())]) + "\n"


def _row(option: Option) -> str:
    default = f"`{option.default}`" if option.default not in {"", "required"} else option.default
    cells = (f"`{option.key}`", option.kind, default, option.meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# The schema is JSON: its values are of any type.
Schema = Mapping[str, Any]


def _walk(root: Schema, table: Schema, path: tuple[str, ...]) -> Iterator[Option]:
    required = table.get("required", ())
    for name, field in table["properties"].items():
        yield from _option(root, field, (*path, name), required=name in required)


def _option(
    root: Schema, field: Schema, path: tuple[str, ...], *, required: bool
) -> Iterator[Option]:
    shape = _resolve(root, field)
    if "properties" in shape:
        yield from _walk(root, shape, path)
    elif "$ref" in (named := shape.get("additionalProperties", {})):
        yield from _walk(root, _resolve(root, named), (*path, NAME))
    else:
        yield Option(
            key=".".join(path),
            kind=_kind(shape),
            default="required" if required else _default(field),
            meaning=field.get("description", ""),
        )


def _resolve(root: Schema, field: Schema) -> Schema:
    """Follow a reference; of `X or null` take X."""
    shape = next((one for one in field.get("anyOf", ()) if one.get("type") != "null"), field)
    if "$ref" not in shape:
        return {**field, **shape}
    definition: Schema = root["$defs"][shape["$ref"].rpartition("/")[2]]
    return definition


def _kind(shape: Schema) -> str:
    if "enum" in shape:
        return " / ".join(f"`{choice}`" for choice in shape["enum"])
    return _KINDS[shape.get("format", shape["type"])] + _range(shape)


def _range(shape: Schema) -> str:
    match shape:
        case {"minimum": lowest, "maximum": highest}:
            return f" {_plain(lowest)} to {_plain(highest)}"
        case {"minimum": lowest}:
            return f" from {_plain(lowest)}"
        case _:
            return ""


def _default(field: Schema) -> str:
    match field.get("default"):
        case None:
            return ""
        case bool(value):
            return str(value).lower()
        case str(value):
            return f'"{value}"'
        case dict():
            return "{}"
        case float(value):
            return _plain(value)
        case value:
            return str(value)


def _plain(value: float) -> str:
    return f"{value:.15g}"
