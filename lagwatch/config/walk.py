"""The tree of options, read from the models: which table is where, and what each option holds."""

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Final, TypeVar, cast, get_args, get_origin
from urllib.parse import quote, unquote

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from lagwatch.config.secret import Secret, Table
from lagwatch.config.section import OrFile, Section
from lagwatch.config.settings import Settings

NAME: Final = "NAME"
"""Placeholder for a name that the user chooses: of a cluster, a channel, a policy."""

Path = tuple[str, ...]
Tree = dict[str, object]
"""The tables as read, before they are checked."""
T = TypeVar("T")


def tables(tree: Tree) -> Iterator[tuple[Path, type[Section], Tree]]:
    """Every table of the tree that is a section, with its path and its model."""
    yield from _tables((), Settings, tree)


def mark(field: FieldInfo, kind: type[T]) -> T | None:
    """The mark of this kind on an option, such as `OrFile`."""
    parts = (*field.metadata, *_parts(field.annotation))
    return next((part for part in parts if isinstance(part, kind)), None)


def holds(field: FieldInfo) -> type[Secret] | type[Table] | None:
    """The type that hides the values of an option; None if they may be printed."""
    for part in _parts(field.annotation):
        if isinstance(part, type) and issubclass(part, Secret | Table):
            return part
    return None


def option_at(names: Path) -> tuple[Path, FieldInfo | None]:
    """The option that the path leads to, or leads into, and its path with NAME for names.

    The option is None where the path ends early or is not known.
    """
    model: type[Section] = Settings
    generic: Path = ()
    rest = list(names)
    while rest:
        name = rest.pop(0)
        generic = (*generic, name)
        field = model.model_fields.get(name)
        if field is None:
            return (*generic, *rest), None
        below = section(field)
        if below is None:
            return generic, field
        if rest and is_named(field):
            generic = (*generic, NAME)
            rest.pop(0)
        model = below
    return generic, None


@cache
def alternatives() -> dict[str, str]:
    """`X` → `X_file` and `X_file` → `X`, for every option that may be in a file."""
    pairs = [
        (name, f"{name}_file")
        for model in _models(Settings)
        for name, field in model.model_fields.items()
        if mark(field, OrFile)
    ]
    return dict(pairs) | {file: name for name, file in pairs}


_KEPT_IN_URLS: Final = "!#$%&'()*+,/:;=?@[]~"
"""What a client leaves as it is in a URL that it was given whole."""


def hidden_texts(settings: Section) -> Iterator[str]:
    """Every text of the settings that must not be printed, as written and as in a URL."""
    for part in (part for value in _values(settings) for part in value.hidden_parts()):
        yield part
        yield quote(part)
        yield quote(part, safe=_KEPT_IN_URLS)
        yield unquote(part)  # as a server quotes it that has read the URL


def section(field: FieldInfo) -> type[Section] | None:
    """The model of the table, or of the tables by name, that the field holds."""
    for part in _parts(field.annotation):
        if isinstance(part, type) and issubclass(part, Section):
            return part
    return None


def is_named(field: FieldInfo) -> bool:
    """True if the field holds tables by name."""
    return get_origin(field.annotation) is dict


def _tables(
    path: Path, model: type[Section], table: Tree
) -> Iterator[tuple[Path, type[Section], Tree]]:
    yield path, model, table
    for name, field in model.model_fields.items():
        below, value = section(field), table.get(name)
        if below is None or not isinstance(value, dict):
            continue
        named = cast("Tree", value) if is_named(field) else {"": value}
        for key, value in named.items():
            if isinstance(value, dict):
                yield from _tables((*path, name, key) if key else (*path, name), below, value)


def _models(model: type[Section]) -> Iterator[type[Section]]:
    yield model
    for field in model.model_fields.values():
        below = section(field)
        if below is not None:
            yield from _models(below)


def _parts(annotation: object) -> Iterator[object]:
    """Every type and mark within an annotation."""
    if get_origin(annotation) is None:
        yield annotation
        return
    kind, *rest = get_args(annotation)
    yield from _parts(kind)
    for part in rest:
        yield from (part,) if get_origin(annotation) is Annotated else _parts(part)


def _values(value: object) -> Iterator[Secret | Table]:
    match value:
        case Secret() | Table():
            yield value
        case BaseModel():
            for _, below in value:
                yield from _values(below)
        case dict():
            for below in value.values():
                yield from _values(below)
        case tuple():
            for below in value:
                yield from _values(below)
