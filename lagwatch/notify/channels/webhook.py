"""Any HTTP receiver. URL, headers and body are templates; the default body is documented JSON.

`Idempotency-Key` is the message's id, the same for every attempt. With a secret,
`X-Lagwatch-Signature: t=SECONDS,v1=HEX` signs `SECONDS.BODY` with HMAC-SHA256.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HTTP, AuthenticatedSettings
from lagwatch.config.secret import Headers, Secret, Template, Url
from lagwatch.config.section import OrFile, ReadableFile
from lagwatch.errors import ConfigError, Fault, NotifyError, Refusal
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits, TemplateText
from lagwatch.notify.channels.http import HttpSender
from lagwatch.notify.notice import Message, ReportMessage
from lagwatch.notify.render import Renderer, RenderError, Templates, document

_OF_A_URL: Final = ":/?#[]@!$&'()*+,;=%~-._"
"""Characters with a meaning in URLs, and the sign of what is encoded already."""
_CHATS: Final = {
    "Slack": re.compile(r"hooks\.slack\.com"),
    "PagerDuty": re.compile(r"events(\.[a-z]+)?\.pagerduty\.com"),
    "Teams": re.compile(r".+\.webhook\.office\.com"),
}
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Source: RFC 9110, section 5.6.2, token."""
_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "connection", "upgrade", "te"})
"""Headers that say how a request is sent: a value of one's own breaks it."""
_OF_A_QUOTE: Final = "a group whose name holds a quote"
_NO_JSON_REMEDY: Final = (
    "Write {{ notice.group | json }}, without quotes of your own; see `lagwatch alert render`. "
    "Or set content_type."
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


class Webhook:
    """A `Channel`."""

    def __init__(self, name: str, settings: WebhookSettings, clock: Clock) -> None:
        templates, secrets, urls = Templates(), Templates(secret=True), Templates(url=True)
        self.limits = ChannelLimits(most_bytes=settings.most_bytes)
        self._name = name
        self._clock = clock
        self._settings = settings
        self._secret = settings.secret.get_secret_value().encode() if settings.secret else None
        self._url = urls.compile(settings.url.get_secret_value())
        self._close_url = urls.compile((settings.close_url or settings.url).get_secret_value())
        self._body = _maybe(templates, settings.body)
        self._close_body = _maybe(templates, settings.close_body or settings.body)
        self._headers = {
            header: secrets.compile(value)
            for header, value in settings.headers.items()
            if header.lower() not in _FRAMING
        }
        self._http = HttpSender(
            name, settings, cert_file=settings.cert_file, key_file=settings.key_file
        )

    async def send(self, message: Message) -> str:
        method, url, body, headers = self.request(message)
        return await self._http.send(method, url, body=body, headers=headers)

    async def send_report_message(self, report_message: ReportMessage) -> str:
        """Always the documented JSON: a template of the body is made for alerts."""
        given = {"message": report_message.as_json(self._name), "subject": report_message.subject}
        given["text"] = report_message.text
        try:
            url = _encoded(self._url.render_with(given))
            own = {header: value.render_with(given) for header, value in self._headers.items()}
        except RenderError as error:
            raise self._template_failed(error) from error
        body = json.dumps(given["message"]).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": report_message.id, **own}
        headers |= self._signed(body)
        method = self._settings.method
        return await self._http.send(method, url, body=body, headers=headers)

    def request(self, message: Message) -> tuple[str, str, bytes, dict[str, str]]:
        """(method, URL, body, headers) for a message.

        Raises:
            NotifyError: a template fails on it.
        """
        closing = message.closing
        try:
            url = (self._close_url if closing else self._url).render(message)
            template = self._close_body if closing else self._body
            text = json.dumps(document(message)) if template is None else template.render(message)
            own = {header: value.render(message) for header, value in self._headers.items()}
        except RenderError as error:
            raise self._template_failed(error) from error
        body = text.encode(errors="replace")
        if len(body) > self._settings.most_bytes:
            raise NotifyError(
                channel=self._name,
                message=f"{len(body):,} bytes are more than most_bytes",
                retryable=False,
                refusal=Refusal.TOO_LARGE,
            )
        headers = {
            "Content-Type": self._settings.content_type,
            "Idempotency-Key": message.id,
            **own,
            **self._signed(body),
        }
        method = self._settings.close_method if closing else ""
        return method or self._settings.method, _encoded(url), body, headers

    def _signed(self, body: bytes) -> dict[str, str]:
        if self._secret is None:
            return {}
        seconds = self._clock.now_ms() // 1000
        return {"X-Lagwatch-Signature": signature(self._secret, seconds, body)}

    def _template_failed(self, error: RenderError) -> NotifyError:
        return NotifyError(
            channel=self._name, message=f"the template failed: {error}", retryable=False
        )

    async def close(self) -> None:
        await self._http.close()


def _encoded(url: str) -> str:
    """Percent-encoded where the template itself holds what no URL may."""
    return quote(url.strip(), safe=_OF_A_URL, errors="replace")


def signature(secret: bytes, seconds: int, body: bytes) -> str:
    """The header's value: `t=1800000000,v1=…`."""
    mac = hmac.new(secret, f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={mac.hexdigest()}"


def _maybe(templates: Templates, source: Template) -> Renderer | None:
    return templates.compile(source.get_secret_value()) if source else None


def _templates(settings: WebhookSettings) -> Iterator[TemplateText]:
    for option in ("url", "close_url", "body", "close_body"):
        shown = f"{option}_file" if getattr(settings, f"{option}_file", None) else option
        source = getattr(settings, option).get_secret_value()
        yield TemplateText(option=shown, source=source, url=option.endswith("url"))
    for header, template in settings.headers.items():
        yield TemplateText(option=f"headers.{header}", source=template, secret=True)


def _doubts(settings: WebhookSettings) -> Iterator[Fault]:
    for option in ("url", "close_url"):
        url = getattr(settings, option).get_secret_value()
        if url and not _is_http(url):
            problem, remedy = "is no http(s) URL", "Write https://host/path."
            yield Fault(key=option, value="", problem=problem, remedy=remedy)
        host = "" if settings.body else url.partition("://")[2].partition("/")[0]
        service = next((name for name, known in _CHATS.items() if known.fullmatch(host)), "")
        if service:
            yield Fault(
                key=option,
                value=Url.shown(url),
                problem=f"is an address of {service}, which takes no such body",
                remedy=f"Use [alerts.{service.lower()}.NAME], or set body.",
            )
    yield from _header_doubts(settings)
    if "json" in settings.content_type.lower():
        from lagwatch.notify.sample import trial_messages

        samples = trial_messages()
        opening = [message for message in samples if not message.closing]
        closing = [message for message in samples if message.closing]
        yield from _not_json("body", settings.body, opening)
        yield from _not_json("close_body", settings.close_body or settings.body, closing)


def _is_http(url: str) -> bool:
    """True if it begins as a URL; of a template that begins with a variable, for the sample."""
    if not url.startswith(("{{", "{%")):
        return url.startswith(HTTP)
    from lagwatch.notify.sample import sample_messages

    try:
        return Templates(url=True).compile(url).render(sample_messages()[0]).startswith(HTTP)
    except (ConfigError, RenderError):  # a broken template is another fault
        return True


def _not_json(option: str, template: Template, messages: Iterable[Message]) -> Iterator[Fault]:
    """The first of the samples of which the template makes no JSON."""
    if not template:
        return
    renderer = Templates().compile(template.get_secret_value())
    for message in messages:
        for sample, what in ((message, "the sample"), (_quoted(message), _OF_A_QUOTE)):
            try:
                json.loads(renderer.render(sample))
            except ValueError as error:
                yield Fault(
                    key=option,
                    value="",
                    problem=f"makes no JSON of {what}: {error}",
                    remedy=_NO_JSON_REMEDY,
                )
                return


def _quoted(message: Message) -> Message:
    """With names that Kafka allows and JSON has to escape."""
    odd = 'a "b" \\ c'
    notices = (
        replace(notice, group=odd, verdict={**notice.verdict, "group": odd, "owners": [odd]})
        for notice in message.notices
    )
    return replace(message, notices=tuple(notices))


def _header_doubts(settings: WebhookSettings) -> Iterator[Fault]:
    for name, value in settings.headers.items():
        if not _HEADER.fullmatch(name):
            yield Fault(
                key=f"headers.{name}",
                value="",
                problem="is no name of a header, so nothing is sent",
                remedy="Use letters, digits and -.",
            )
        if name.lower() in _FRAMING:
            yield Fault(
                key=f"headers.{name}",
                value="",
                problem="is not sent, because the request itself determines it",
                remedy="Remove it.",
            )
        if "\n" in value or "\r" in value:
            yield Fault(
                key=f"headers.{name}",
                value="",
                problem="holds a line break, which is sent as a space",
                remedy="Write it on one line.",
            )


KIND: Final = ChannelKind(
    table="webhook",
    about="webhooks",
    settings=WebhookSettings,
    open=Webhook,
    templates=_templates,
    doubts=_doubts,
)
