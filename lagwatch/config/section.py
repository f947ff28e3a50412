"""What all sections share: the frozen base and the kinds of values an option can hold."""

import re
import warnings
from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

REVEAL: Final = "reveal_secrets"
"""Key of the serialisation context under which secrets are written in clear."""


class Section(BaseModel):
    """A table of the configuration: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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


def _words(value: object) -> object:
    """Words for a library: `true` and numbers of the file become text."""
    if not isinstance(value, dict):
        return value
    return {name: _word(setting) for name, setting in value.items()}


def _word(setting: object) -> object:
    match setting:
        case bool():
            return str(setting).lower()
        case int() | float():
            return str(setting)
        case _:
            return setting


Properties = Annotated[dict[str, str], BeforeValidator(_words)]
"""Properties handed to a library, by name."""
Interval = Annotated[float, Field(ge=0.1, le=86_400, allow_inf_nan=False)]
"""Seconds between two rounds of work."""
Regex = Annotated[str, AfterValidator(_compiles), Field(json_schema_extra={"format": "regex"})]
"""Searched for anywhere in the name; "" means: no filter."""
Secret = SecretStr
