"""Any HTTP receiver. URL, headers and body are templates; the default body is documented JSON.

`Idempotency-Key` is the message's id, the same for every attempt. With a secret,
`X-Lagwatch-Signature: t=SECONDS,v1=HEX` signs `SECONDS.BODY` with HMAC-SHA256.
"""

import hashlib
import hmac
import json
from typing import Final
from urllib.parse import quote

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import WebhookSettings
from lagwatch.config.secret import Template
from lagwatch.errors import NotifyError, Refusal
from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.channels.http import HttpSender, answer
from lagwatch.notify.document import document
from lagwatch.notify.notice import Message
from lagwatch.notify.packing import Packing
from lagwatch.notify.render import Renderer, TemplateError, Templates

_OF_A_URL: Final = ":/?#[]@!$&'()*+,;=%~-._"
"""Characters with a meaning in URLs, and the sign of what is encoded already."""


class Webhook:
    """A `Channel`."""

    def __init__(self, name: str, settings: WebhookSettings, clock: Clock) -> None:
        templates = Templates()
        self.packing = Packing(most_bytes=settings.most_bytes)
        self._name = name
        self._clock = clock
        self._settings = settings
        self._secret = settings.secret.get_secret_value().encode() if settings.secret else None
        self._url = templates.compile(settings.url.get_secret_value())
        self._close_url = templates.compile((settings.close_url or settings.url).get_secret_value())
        self._body = _maybe(templates, settings.body)
        self._close_body = _maybe(templates, settings.close_body or settings.body)
        self._headers = {
            header: templates.compile(value) for header, value in settings.headers.items()
        }
        self._http = HttpSender(
            name, settings, cert_file=settings.cert_file, key_file=settings.key_file
        )

    async def send(self, message: Message) -> str:
        method, url, body, headers = self.request(message)
        return answer(await self._http.send(method, url, body=body, headers=headers))

    async def send_bulletin(self, bulletin: Bulletin) -> str:
        """Always the documented JSON: a template of the body is made for alerts."""
        given = {"message": bulletin.as_json(self._name), "subject": bulletin.subject}
        given["text"] = bulletin.text
        try:
            url = _encoded(self._url.render_with(given))
            own = {header: value.render_with(given) for header, value in self._headers.items()}
        except TemplateError as error:
            raise self._template_failed(error) from error
        body = json.dumps(given["message"]).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": bulletin.id, **own}
        headers |= self._signed(body)
        method = self._settings.method
        return answer(await self._http.send(method, url, body=body, headers=headers))

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
        except TemplateError as error:
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

    def _template_failed(self, error: TemplateError) -> NotifyError:
        return NotifyError(
            channel=self._name, message=f"the template failed: {error}", retryable=False
        )

    async def close(self) -> None:
        await self._http.close()


def _encoded(url: str) -> str:
    """Percent-encoded where a name put in what no URL may hold."""
    return quote(url.strip(), safe=_OF_A_URL, errors="replace")


def signature(secret: bytes, seconds: int, body: bytes) -> str:
    """The header's value: `t=1800000000,v1=…`."""
    mac = hmac.new(secret, f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={mac.hexdigest()}"


def _maybe(templates: Templates, source: Template) -> Renderer | None:
    return templates.compile(source.get_secret_value()) if source else None
