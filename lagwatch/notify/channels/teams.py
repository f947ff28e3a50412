"""Microsoft Teams: an adaptive card to a webhook of Workflows.

Texts are runs of a `RichTextBlock`, in which names such as `a_b_c` are no markup.

Source: Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams"; the schema of
Adaptive Cards 1.4.
"""

from typing import Annotated, Any, Final

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HttpChannelSettings, HttpUrl
from lagwatch.config.section import OrFile
from lagwatch.notify.channels.base import Kind
from lagwatch.notify.channels.http import ChatWebhook
from lagwatch.notify.notice import Bulletin, Message
from lagwatch.notify.words import body, cut, overview, subject

_COLOURS: Final = {"close": "Good", "warning": "Warning", "error": "Attention"}
_LONGEST_TEXT: Final = 6000
"""Teams refuses cards of more than 28 KB; a character may take four bytes."""
_LONGEST_SUMMARY: Final = 500


class TeamsSettings(HttpChannelSettings):
    """Microsoft Teams: a webhook of its Workflows."""

    webhook_url: Annotated[
        HttpUrl | None, OrFile(meaning="file that holds the webhook URL", needed=True)
    ] = Field(default=None, description="URL of the workflow's webhook; prefer `webhook_url_file`")


class Teams(ChatWebhook):
    """A `Channel`."""

    def __init__(self, name: str, settings: TeamsSettings, _: Clock) -> None:
        url = settings.webhook_url.get_secret_value() if settings.webhook_url else ""
        super().__init__(name, url, settings)

    def payload(self, message: Message) -> dict[str, Any]:
        colour = _COLOURS["close" if message.closing else message.severity]
        title = cut(subject(message), _LONGEST_SUMMARY)
        lines = body(message, _LONGEST_TEXT, linked=False).splitlines()
        blocks = [_text(title, weight="Bolder", size="Medium", color=colour), *map(_text, lines)]
        return _carried(_card(blocks, overview(message)))

    def bulletin(self, bulletin: Bulletin) -> dict[str, Any]:
        text = cut(bulletin.text.removeprefix(bulletin.subject).strip(), _LONGEST_TEXT)
        blocks = [
            _text(bulletin.subject, weight="Bolder", size="Medium"),
            *map(_text, text.splitlines()),
        ]
        return _carried(_card(blocks, ""))


def _card(blocks: list[dict[str, Any]], url: str) -> dict[str, Any]:
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "msteams": {"width": "Full"},
    }
    if url:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open in lagwatch", "url": url}]
    return card


def _carried(card: dict[str, Any]) -> dict[str, Any]:
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text(text: str, **looks: str) -> dict[str, Any]:
    run = {"type": "TextRun", "text": text or " ", **looks}
    return {"type": "RichTextBlock", "inlines": [run], "spacing": "Small"}


KIND: Final = Kind(
    table="teams", about="Microsoft Teams webhooks", settings=TeamsSettings, open=Teams
)
