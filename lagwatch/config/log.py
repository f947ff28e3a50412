"""Section `[log]`: how much is told, and in which form."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from lagwatch.config.section import Section

Level = Literal["trace", "debug", "info", "warning", "error", "fatal"]
Format = Literal["auto", "json", "console"]


def _plain(value: object) -> object:
    """Lower case, and `warning` for `warn`."""
    if not isinstance(value, str):
        return value
    word = value.strip().lower()
    return "warning" if word == "warn" else word


class LogSettings(Section):
    """The log on stderr."""

    level: Annotated[Level, BeforeValidator(_plain)] = Field(
        default="info", description="least severity that is written; may be changed at run time"
    )
    format: Annotated[Format, BeforeValidator(_plain)] = Field(
        default="auto", description="`auto` writes JSON lines unless stderr is a terminal"
    )
