"""Sections `[alerts.KIND.NAME]`: where notices go; NAME is the name of the channel."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lagwatch.config.secret import Headers, Properties, Secret, Template, Url
from lagwatch.config.section import OrFile, ReadableFile, Section, TextFile, fault

Level = Literal["warning", "error"]


def _texts(value: object) -> object:
    """A list of text, or text with commas; blank entries are dropped."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise fault("type", "is neither text nor a list", 'Write a list: ["one", "two"].')
    return tuple(
        part.strip() if isinstance(part, str) else part
        for part in parts
        if part != "" and part is not None
    )


def _lines(value: object) -> object:
    """A list, or text with one entry a line: URLs may hold commas."""
    return value.split() if isinstance(value, str) else value


def _http_url(url: Url) -> Url:
    if not url.get_secret_value().startswith(("http://", "https://")):
        raise fault("url", "is no http(s) URL", "Write https://host/path.")
    return url


Texts = Annotated[
    tuple[str, ...], BeforeValidator(_texts), Field(json_schema_extra={"format": "texts"})
]
HttpUrl = Annotated[Url, AfterValidator(_http_url)]
HttpUrls = Annotated[
    tuple[HttpUrl, ...],
    BeforeValidator(_texts),
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
        default=30, description="maximum messages per minute; notices that wait are sent together"
    )


class HttpChannelSettings(ChannelSettings):
    """What channels over HTTP have."""

    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    verify: bool = Field(default=True, description="check certificates and host names")
    allow_hosts: Texts = Field(
        default=(),
        description="hosts that may be connected to, such as `*.example.com`; none named = all",
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


class WebhookSettings(AuthenticatedSettings):
    """Any HTTP receiver. URL, headers and body are Jinja2 templates."""

    url: Url = Field(description="URL to send to; a template")
    close_url: Url = Field(
        default="", validate_default=True, description='URL for the end of incidents; "" = `url`'
    )
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = Field(
        default="POST", description="HTTP method"
    )
    close_method: Literal["", "POST", "PUT", "PATCH", "DELETE", "GET"] = Field(
        default="", description='HTTP method for the end of incidents; "" = `method`'
    )
    content_type: str = Field(default="application/json", description="content type of the body")
    body: Annotated[Template, OrFile(meaning="file that holds the template")] = Field(
        default="",
        validate_default=True,
        description='template of the body; "" = the JSON in docs/alerts.md',
    )
    close_body: Annotated[
        Template, OrFile(meaning="file that holds the template for the end of incidents")
    ] = Field(
        default="",
        validate_default=True,
        description='template of the body for the end of incidents; "" = `body`',
    )
    secret: Annotated[Secret | None, OrFile(meaning="file that holds the key")] = Field(
        default=None,
        description="key of the HMAC-SHA256 in `X-Lagwatch-Signature`; prefer `secret_file`",
    )
    most_bytes: Annotated[int, Field(ge=1024, le=104_857_600)] = Field(
        default=262_144, description="bytes of a body at most; more makes several messages"
    )
    cert_file: ReadableFile | None = Field(default=None, description="client certificate, PEM")
    key_file: ReadableFile | None = Field(
        default=None, description="key of the client certificate, PEM"
    )
    headers: Headers = Field(default=Headers(), description="additional headers; templates")


class EmailSettings(ChannelSettings):
    """E-mail as text and HTML, with the lag curve as a picture."""

    host: str = Field(min_length=1, description="SMTP server")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(
        default=587, description="port of the SMTP server"
    )
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="encryption: upgrade with STARTTLS, TLS from the first byte, or none",
    )
    ca_file: ReadableFile | None = Field(
        default=None, description="PEM file with the trusted CAs; unset: those of the system"
    )
    verify: bool = Field(default=True, description="check certificates and host names")
    username: str | None = Field(default=None, description="user name; unset: no authentication")
    password: Annotated[Secret | None, OrFile(meaning="file that holds the password")] = Field(
        default=None, description="password; prefer `password_file`"
    )
    sender: Annotated[str, Field(min_length=3)] = Field(description="address in `From`")
    to: Annotated[Texts, Field(min_length=1)] = Field(description="addresses it is sent to")
    subject: str = Field(default="", description='template of the subject; "" = ours')
    text_file: TextFile | None = Field(default=None, description="template of the text part")
    html_file: TextFile | None = Field(default=None, description="template of the HTML part")


class AlertmanagerSettings(AuthenticatedSettings):
    """Prometheus Alertmanager, API v2. Alerts are posted to all peers."""

    urls: HttpUrls = Field(description="all peers: `http://host:9093`, without `/api/v2`")
    keep_alive_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0,
        description="seconds between two posts of a firing alert; it ends after five times this",
    )
    labels: Properties = Field(
        default=Properties(), description="additional labels for every alert"
    )


class SlackSettings(HttpChannelSettings):
    """Slack, Mattermost, Rocket.Chat: an incoming webhook."""

    webhook_url: Annotated[
        HttpUrl | None, OrFile(meaning="file that holds the webhook URL", needed=True)
    ] = Field(default=None, description="URL of the incoming webhook; prefer `webhook_url_file`")


class TeamsSettings(HttpChannelSettings):
    """Microsoft Teams: a webhook of its Workflows."""

    webhook_url: Annotated[
        HttpUrl | None, OrFile(meaning="file that holds the webhook URL", needed=True)
    ] = Field(default=None, description="URL of the workflow's webhook; prefer `webhook_url_file`")


class PagerDutySettings(HttpChannelSettings):
    """PagerDuty Events v2."""

    routing_key: Annotated[
        Secret | None, OrFile(meaning="file that holds the key", needed=True)
    ] = Field(default=None, description="integration key; prefer `routing_key_file`")
    url: HttpUrl = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        validate_default=True,
        description="URL of the Events API",
    )


class AppriseSettings(ChannelSettings):
    """Every service that Apprise supports (`pip install 'lagwatch[apprise]'`)."""

    service_urls: Annotated[
        SecretUrls, OrFile(meaning="file that holds the URLs, one a line", needed=True)
    ] = Field(default=(), description="Apprise URLs; prefer `service_urls_file`")


AnyChannelSettings = (
    WebhookSettings
    | EmailSettings
    | AlertmanagerSettings
    | SlackSettings
    | PagerDutySettings
    | TeamsSettings
    | AppriseSettings
)
"""One of the channels there are."""
