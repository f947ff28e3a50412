"""Every option with its kind, default and meaning, drawn from the models themselves."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from lagwatch.config.alerts import KINDS
from lagwatch.config.settings import Settings
from lagwatch.config.walk import NAME

ENV_PREFIX: Final = "LAGWATCH_"
_FIRST_CHANNEL: Final = f"alerts.{KINDS[0]}.{NAME}"
_SHARED: Final = f"`[alerts.KIND.{NAME}]`"
"""Heading of the options that kinds of channels share."""
_HEAD: Final = ("| Option | Value | Default | Meaning |", "|---|---|---|---|")

_KINDS: Final[Mapping[str, str]] = {
    # by format or, without a format, by type of the schema
    "password": "text (secret)",
    "url": "URL (its path is hidden)",
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
    about: str
    """What its section is for, in a sentence."""

    @property
    def section(self) -> str:
        """The table it is in: `clusters.NAME.tls`."""
        return ".".join(self.path[:-1])

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
    """The reference in Markdown: one table per section, options that channels share only once."""
    return "\n".join("\n".join(part) for part in _parts()) + "\n"


def _parts() -> Iterator[Sequence[str]]:
    """A heading, a sentence and a table per section."""
    shared = _shared_by_channels()
    for section in dict.fromkeys(option.section for option in options()):
        if section == _FIRST_CHANNEL:
            yield from _shared_parts(shared)
        found = [option for option in options() if option.section == section]
        own = [
            option for option in found if not (_is_of_channel(option) and _shape(option) in shared)
        ]
        also = f" See also {_SHARED}." if len(own) < len(found) else ""
        about = found[0].about + also
        yield (f"### `[{section}]`", "", about, "", *_HEAD, *map(_row, own), "")


def _shared_parts(shared: Mapping["_Shape", Sequence[str]]) -> Iterator[Sequence[str]]:
    everywhere = [shape for shape, kinds in shared.items() if len(kinds) == len(KINDS)]
    yield (
        f"### {_SHARED}",
        "",
        f"Options of every channel; NAME is its name, KIND one of {', '.join(KINDS)}.",
        "",
        *_HEAD,
        *(_cells(*shape) for shape in everywhere),
        "",
        "Options that several kinds share:",
        "",
        "| Option | Value | Default | Meaning | Kinds |",
        "|---|---|---|---|---|",
        *(
            f"{_cells(*shape)} {', '.join(kinds)} |"
            for shape, kinds in shared.items()
            if shape not in everywhere
        ),
        "",
    )


def _shared_by_channels() -> Mapping["_Shape", Sequence[str]]:
    """Rows of options that at least two kinds of channels have in common, with these kinds."""
    kinds: dict[_Shape, list[str]] = {}
    for option in filter(_is_of_channel, options()):
        kinds.setdefault(_shape(option), []).append(option.path[1])
    return {shape: found for shape, found in kinds.items() if len(found) > 1}


def _is_of_channel(option: Option) -> bool:
    return option.path[0] == "alerts" and option.path[1] in KINDS


_Shape = tuple[str, str, str, str]
"""Name, kind, default and meaning: what a row shows."""


def _shape(option: Option) -> _Shape:
    return option.path[-1], option.kind, option.default, option.meaning


def _row(option: Option) -> str:
    return _cells(*_shape(option))


def _cells(name: str, kind: str, default: str, meaning: str) -> str:
    shown = f"`{default}`" if default not in {"", "required"} else default
    cells = (f"`{name}`", kind, shown, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


# The schema is JSON: its values are of any type.
Schema = Mapping[str, Any]


def _walk(root: Schema, table: Schema, path: tuple[str, ...]) -> Iterator[Option]:
    required = table.get("required", ())
    for name, field in table["properties"].items():
        about = table.get("description", "").partition("\n")[0]
        yield from _option(root, field, (*path, name), about, required=name in required)


def _option(
    root: Schema, field: Schema, path: tuple[str, ...], about: str, *, required: bool
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
            about=about,
        )


def _resolve(root: Schema, field: Schema) -> Schema:
    """Follow a reference; of `X or null` take X."""
    shape = next((each for each in field.get("anyOf", ()) if each.get("type") != "null"), field)
    if "$ref" not in shape:
        return {**field, **shape}
    definition: Schema = root["$defs"][shape["$ref"].rpartition("/")[2]]
    return definition


def _kind(shape: Schema) -> str:
    if "const" in shape:
        return f"`{shape['const']}`"
    if "enum" in shape:
        return " / ".join(f"`{choice}`" if choice else '`""`' for choice in shape["enum"])
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
        case dict() | list() as several:
            return json.dumps(several)
        case float(value):
            return _plain(value)
        case value:
            return str(value)


def _plain(value: float) -> str:
    return f"{value:.15g}"
