"""Slack, and what takes the same webhooks: Mattermost, Rocket.Chat."""

import json
from typing import Any, Final

from lagwatch.config.alerts_channels import SlackSettings
from lagwatch.notify.channels.http import HttpSender, answer
from lagwatch.notify.notice import Message
from lagwatch.notify.render import plain_text

_COLOURS: Final = {"close": "#1a7f37", "warning": "#bf8700", "error": "#c0392b"}
_LONGEST_TEXT: Final = 2900
"""Slack refuses a text block of more than 3,000 characters."""


class Slack:
    """A `Channel`."""

    def __init__(self, name: str, settings: SlackSettings) -> None:
        self._url = settings.webhook_url.get_secret_value() if settings.webhook_url else ""
        self._http = HttpSender(name, settings)

    async def send(self, message: Message) -> str:
        headers = {"Content-Type": "application/json", "Idempotency-Key": message.id}
        body = json.dumps(payload(message)).encode()
        return answer(await self._http.send("POST", self._url, body=body, headers=headers))

    async def close(self) -> None:
        await self._http.close()


def payload(message: Message) -> dict[str, Any]:
    """The webhook's body.

    Source: Slack, "Sending messages using incoming webhooks", "Secondary message attachments".
    """
    subject, _, rest = plain_text(message).partition("\n")
    if len(message.notices) > 1:
        subject, rest = message.subject, plain_text(message)
    text = _escaped(rest)[:_LONGEST_TEXT]
    blocks = [_section(f"*{_escaped(subject)}*")]
    if text:
        blocks.append(_section(f"```{text}```"))
    colour = _COLOURS["close" if message.closing else message.severity]
    return {
        "text": _escaped(message.subject),
        "attachments": [{"color": colour, "fallback": message.subject, "blocks": blocks}],
    }


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
