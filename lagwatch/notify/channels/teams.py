"""Microsoft Teams: an adaptive card to a webhook of Workflows.

Source: Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams".
"""

import json
from typing import Any, Final

from lagwatch.config.alerts_channels import TeamsSettings
from lagwatch.notify.channels.http import HttpSender, answer
from lagwatch.notify.notice import Message
from lagwatch.notify.render import plain_text

_COLOURS: Final = {"close": "Good", "warning": "Warning", "error": "Attention"}
_LONGEST_TEXT: Final = 15_000
"""Teams refuses cards of more than 28 KB."""


class Teams:
    """A `Channel`."""

    def __init__(self, name: str, settings: TeamsSettings) -> None:
        self._url = settings.webhook_url.get_secret_value() if settings.webhook_url else ""
        self._http = HttpSender(name, settings)

    async def send(self, message: Message) -> str:
        headers = {"Content-Type": "application/json", "Idempotency-Key": message.id}
        body = json.dumps(payload(message)).encode()
        return answer(await self._http.send("POST", self._url, body=body, headers=headers))

    async def close(self) -> None:
        await self._http.close()


def payload(message: Message) -> dict[str, Any]:
    """The webhook's body."""
    colour = _COLOURS["close" if message.closing else message.severity]
    body = [
        _text(message.subject, weight="Bolder", size="Medium", color=colour),
        # a line break of its own for each line: Markdown would join them
        _text(plain_text(message)[:_LONGEST_TEXT].replace("\n", "\n\n"), fontType="Monospace"),
    ]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": {"width": "Full"},
    }
    url = message.notices[0].url
    if url:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": url}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text(text: str, **looks: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": text, "wrap": True, **looks}
