"""Section `[log]`: level and format of the log."""

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
    """The log, written to stderr."""

    level: Annotated[Level, BeforeValidator(_plain)] = Field(
        default="info",
        description=(
            "minimum severity that is written; `POST /v3/admin/loglevel` changes it at run time"
        ),
    )
    format: Annotated[Format, BeforeValidator(_plain)] = Field(
        default="auto", description="`auto` writes JSON lines unless stderr is a terminal"
    )
