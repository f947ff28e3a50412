"""What all sections share: the frozen base, the kinds of values of an option, addresses."""

import re
import warnings
from dataclasses import dataclass
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, Final, Unpack

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError


@dataclass(frozen=True, slots=True, kw_only=True)
class OrFile:
    """Marks an option `X` that may be in a file: the section gets the option `X_file` as well."""

    meaning: str
    """Description of `X_file`."""
    needed: bool = False
    """One of the two must be given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readable:
    """Marks a path of a file that must be readable when the configuration is loaded."""

    text: bool = False
    """The file must be UTF-8."""


class Section(BaseModel):
    """A table of the configuration: immutable, unknown keys refused."""

    # the text of a ValidationError would quote the input, which may be a secret
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        """Declare `X_file` after each `X` that is marked with `OrFile`; pydantic reads both."""
        super().__init_subclass__(**options)
        declared: dict[str, object] = {}
        for name, kind in get_annotations(cls).items():
            declared[name] = kind
            for mark in getattr(kind, "__metadata__", ()):  # of Annotated
                if isinstance(mark, OrFile):
                    declared[f"{name}_file"] = Path | None
                    setattr(cls, f"{name}_file", Field(default=None, description=mark.meaning))
        cls.__annotations__ = declared

    @field_validator("*", mode="before")
    @classmethod
    def _a_boolean_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and kind in (int, float):
            raise fault("type", "is a boolean", "Write a number.")
        return value


def fault(kind: str, problem: str, remedy: str) -> PydanticCustomError:
    """An error of a value; `remedy` says in one sentence what to write instead."""
    return PydanticCustomError("lagwatch", "{problem}", _context(kind, problem, remedy))


def _context(kind: str, problem: str, remedy: str) -> dict[str, object]:
    return {"kind": kind, "problem": problem, "remedy": remedy}


def _compiles(pattern: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except re.error as error:
        where = f" at position {error.pos}" if error.pos is not None else ""
        raise fault(
            "regex",
            f"not a valid regular expression{where}: {error.msg}",
            "Write a Python regular expression; it is searched for anywhere in the name.",
        ) from error
    return pattern


def texts(value: object) -> object:
    """A list of text, or text with commas; blank entries are dropped."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise fault("type", "is neither text nor a list", 'Write a list: ["one", "two"].')
    return tuple(
        part.strip() if isinstance(part, str) else part
        for part in parts
        if part != "" and part is not None
    )


Interval = Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False)]
"""Seconds between two rounds of work."""
Regex = Annotated[str, AfterValidator(_compiles), Field(json_schema_extra={"format": "regex"})]
"""Searched for anywhere in the name; "" means: no filter."""
Texts = Annotated[
    tuple[str, ...], BeforeValidator(texts), Field(json_schema_extra={"format": "texts"})
]
ReadableFile = Annotated[Path, Readable()]
"""A certificate or key."""
TextFile = Annotated[Path, Readable(text=True)]
"""A template."""


MAX_PORT: Final = 65_535


def split_address(address: str, *, lowest_port: int, example: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[IPv6]:port`; the host may be empty.

    Raises:
        PydanticCustomError: the text is not an address; carries the remedy.
    """
    remedy = f"Write host:port, for example {example!r}."
    if "://" in address:
        raise fault("address", "has a protocol in front", remedy)
    host, colon, port = address.rpartition(":")
    if not colon or host.endswith(":"):
        raise fault("address", "has no port", remedy)
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise fault("address", "an IPv6 address needs brackets", "Write [address]:port.")
    if not (port.isascii() and port.isdigit() and lowest_port <= int(port) <= MAX_PORT):
        raise fault("address", f"the port is not a number from {lowest_port} to {MAX_PORT}", remedy)
    if any(character.isspace() or character == "/" for character in host):
        raise fault("address", "the host holds a character that no host has", remedy)
    return host.removeprefix("[").removesuffix("]"), int(port)
