"""What the sections `[alerts.KIND.NAME]` share; NAME is the name of the channel.

Each kind declares its own options in its file in `lagwatch/notify/channels`.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lagwatch.config.secret import Secret, Url
from lagwatch.config.section import OrFile, ReadableFile, Section, Texts, fault, texts

HTTP: Final = ("http://", "https://")
Level = Literal["warning", "error"]


def _lines(value: object) -> object:
    """A list, or text with one entry a line: URLs may hold commas."""
    return value.split() if isinstance(value, str) else value


def _http_url(url: Url) -> Url:
    if not url.get_secret_value().startswith(HTTP):
        raise fault("url", "is no http(s) URL", "Write https://host/path.")
    return url


HttpUrl = Annotated[Url, AfterValidator(_http_url)]
HttpUrls = Annotated[
    tuple[HttpUrl, ...],
    BeforeValidator(texts),
    Field(min_length=1, json_schema_extra={"format": "texts"}),
]
SecretUrls = Annotated[
    tuple[Secret, ...],
    BeforeValidator(_lines),
    Field(json_schema_extra={"format": "secret texts"}),
]
Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]


class ChannelSettings(Section):
    """What all channels have."""

    threshold: Level = Field(default="warning", description="minimum severity sent to this channel")
    batch: bool = Field(
        default=True,
        description=(
            "put notices of the same moment into one message; `false`: one message per notice"
        ),
    )
    timeout_s: Annotated[float, Field(ge=0.1, le=300, allow_inf_nan=False)] = Field(
        default=10.0, description="seconds an attempt may take"
    )
    give_up_after_s: Seconds = Field(
        default=86_400.0, description="seconds a message is tried before it is a dead letter"
    )
    per_minute: Annotated[int, Field(ge=1, le=6000)] = Field(
        default=30,
        description="messages that may go at once, and from then on per minute, so up to twice as "
        "many in the first minute; notices that wait are sent together",
    )


class HttpChannelSettings(ChannelSettings):
    """What channels over HTTP have."""

    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    verify: bool = Field(default=True, description="check certificates and host names")
    allow_hosts: Texts = Field(
        default=(),
        description="hosts that may be connected to, such as `*.example.com`; empty = all",
    )
    private_networks: bool = Field(
        default=True,
        description="`false`: refuse hosts with an address of a private network or this machine",
    )


class AuthenticatedSettings(HttpChannelSettings):
    """Basic or bearer authentication."""

    username: str | None = Field(default=None, description="user name, for basic authentication")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )
    token: Annotated[Secret | None, OrFile(meaning="file that holds the bearer token")] = Field(
        default=None, description="bearer token; prefer `token_file`"
    )
