"""Sections `[alerts.KIND.NAME]`: where notices go; NAME is the name of the channel."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from lagwatch.config.section import Secret, Section, fault

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


def _http_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise fault("url", "is no http(s) URL", "Write https://host/path.")
    return url


def _secret_http_url(url: Secret) -> Secret:
    _http_url(url.get_secret_value())
    return url


Texts = Annotated[
    tuple[str, ...], BeforeValidator(_texts), Field(json_schema_extra={"format": "texts"})
]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
HttpUrls = Annotated[
    tuple[HttpUrl, ...],
    BeforeValidator(_texts),
    Field(min_length=1, json_schema_extra={"format": "texts"}),
]
SecretUrl = Annotated[Secret, AfterValidator(_secret_http_url)]
SecretUrls = Annotated[
    tuple[Secret, ...],
    BeforeValidator(_lines),
    Field(json_schema_extra={"format": "secret texts"}),
]
Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]


class ChannelSettings(Section):
    """What all channels have."""

    threshold: Level = Field(default="warning", description="the mildest severity it is told of")
    batch: bool = Field(
        default=True,
        description="notices that come together make one message; `false`: one message each",
    )
    timeout_s: Annotated[float, Field(ge=0.1, le=300, allow_inf_nan=False)] = Field(
        default=10.0, description="seconds one attempt may take"
    )
    give_up_after_s: Seconds = Field(
        default=86_400.0, description="seconds a message is retried before it is a dead letter"
    )
    per_minute: Annotated[int, Field(ge=1, le=6000)] = Field(
        default=30, description="messages a minute at most; what waits goes out together"
    )


class HttpChannelSettings(ChannelSettings):
    """What channels over HTTP have."""

    ca_file: Path | None = Field(
        default=None, description="CAs to trust, PEM; the system's if unset"
    )
    verify: bool = Field(default=True, description="check certificates and host names")


class AuthenticatedSettings(HttpChannelSettings):
    """Basic or bearer authentication."""

    username: str | None = Field(default=None, description="user name, for basic authentication")
    password: Secret | None = Field(default=None, description="password; prefer `password_file`")
    password_file: Path | None = Field(default=None, description="file that holds the password")
    token: Secret | None = Field(default=None, description="bearer token; prefer `token_file`")
    token_file: Path | None = Field(default=None, description="file that holds the bearer token")


class WebhookSettings(AuthenticatedSettings):
    """Any HTTP receiver; URL, headers and body are Jinja2 templates."""

    url: str = Field(description="where to send to; a template")
    close_url: str = Field(default="", description='where to send the end to; "" = `url`')
    method: Literal["POST", "PUT", "PATCH", "DELETE", "GET"] = Field(
        default="POST", description="HTTP method"
    )
    close_method: Literal["", "POST", "PUT", "PATCH", "DELETE", "GET"] = Field(
        default="", description='HTTP method for the end; "" = `method`'
    )
    content_type: str = Field(default="application/json", description="of the body")
    body: str = Field(default="", description='template of the body; "" = the documented JSON')
    body_file: Path | None = Field(default=None, description="file that holds the template")
    close_body: str = Field(default="", description='template for the end; "" = `body`')
    close_body_file: Path | None = Field(
        default=None, description="file that holds the template for the end"
    )
    secret: Secret | None = Field(
        default=None,
        description="key of the HMAC-SHA256 in `X-Lagwatch-Signature`; prefer `secret_file`",
    )
    secret_file: Path | None = Field(default=None, description="file that holds the key")
    cert_file: Path | None = Field(default=None, description="client certificate, PEM")
    key_file: Path | None = Field(default=None, description="key of the client certificate, PEM")
    headers: dict[str, str] = Field(default={}, description="more headers; templates")


class EmailSettings(ChannelSettings):
    """E-mail as text and HTML, with the lag curve as a picture."""

    host: str = Field(min_length=1, description="SMTP server")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=587, description="its port")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="encryption: upgraded, from the first byte, or none"
    )
    ca_file: Path | None = Field(
        default=None, description="CAs to trust, PEM; the system's if unset"
    )
    verify: bool = Field(default=True, description="check certificates and host names")
    username: str | None = Field(default=None, description="user name; none = no authentication")
    password: Secret | None = Field(default=None, description="password; prefer `password_file`")
    password_file: Path | None = Field(default=None, description="file that holds the password")
    sender: Annotated[str, Field(min_length=3)] = Field(description="address in `From`")
    to: Annotated[Texts, Field(min_length=1)] = Field(description="addresses it is sent to")
    subject: str = Field(default="", description='template of the subject; "" = ours')
    text_file: Path | None = Field(default=None, description="template of the text part")
    html_file: Path | None = Field(default=None, description="template of the HTML part")


class AlertmanagerSettings(AuthenticatedSettings):
    """Prometheus Alertmanager, API v2; alerts are posted to all of its peers."""

    urls: HttpUrls = Field(description="the peers: `http://host:9093`, without `/api/v2`")
    keep_alive_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0, description="seconds between two posts of an alert that fires"
    )
    labels: dict[str, str] = Field(default={}, description="more labels for every alert")


class SlackSettings(HttpChannelSettings):
    """Slack, Mattermost, Rocket.Chat: an incoming webhook."""

    webhook_url: SecretUrl | None = Field(
        default=None, description="the incoming webhook; prefer `webhook_url_file`"
    )
    webhook_url_file: Path | None = Field(default=None, description="file that holds the webhook")


class TeamsSettings(HttpChannelSettings):
    """Microsoft Teams: a webhook of its Workflows."""

    webhook_url: SecretUrl | None = Field(
        default=None, description="the workflow's webhook; prefer `webhook_url_file`"
    )
    webhook_url_file: Path | None = Field(default=None, description="file that holds the webhook")


class PagerDutySettings(HttpChannelSettings):
    """PagerDuty Events v2."""

    routing_key: Secret | None = Field(
        default=None, description="integration key; prefer `routing_key_file`"
    )
    routing_key_file: Path | None = Field(default=None, description="file that holds the key")
    url: HttpUrl = Field(
        default="https://events.pagerduty.com/v2/enqueue", description="the Events API"
    )


class AppriseSettings(ChannelSettings):
    """Everything else, through Apprise."""

    service_urls: SecretUrls = Field(
        default=(), description="Apprise URLs; prefer `service_urls_file`"
    )
    service_urls_file: Path | None = Field(
        default=None, description="file that holds the URLs, one a line"
    )


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
