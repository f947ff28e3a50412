"""Microsoft Teams: an adaptive card to a webhook of Workflows.

Source: Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams".
"""

from typing import Any, Final

from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.notice import Message
from lagwatch.notify.render import plain_text

_COLOURS: Final = {"close": "Good", "warning": "Warning", "error": "Attention"}
_LONGEST_TEXT: Final = 15_000
"""Teams refuses cards of more than 28 KB."""


def payload(message: Message) -> dict[str, Any]:
    """The webhook's body."""
    colour = _COLOURS["close" if message.closing else message.severity]
    body = [
        _text(message.subject, weight="Bolder", size="Medium", color=colour),
        # a line break of its own for each line: Markdown would join them
        _text(plain_text(message)[:_LONGEST_TEXT].replace("\n", "\n\n"), fontType="Monospace"),
    ]
    return _carried(_card(body, message.notices[0].url))


def bulletin(told: Bulletin) -> dict[str, Any]:
    """The webhook's body of a bulletin."""
    text = told.text.removeprefix(told.subject).strip()[:_LONGEST_TEXT]
    body = [
        _text(told.subject, weight="Bolder", size="Medium"),
        _text(text.replace("\n", "\n\n"), fontType="Monospace"),
    ]
    return _carried(_card(body, ""))


def _card(body: list[dict[str, Any]], url: str) -> dict[str, Any]:
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
        "msteams": {"width": "Full"},
    }
    if url:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": url}]
    return card


def _carried(card: dict[str, Any]) -> dict[str, Any]:
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text(text: str, **looks: str) -> dict[str, Any]:
    return {"type": "TextBlock", "text": text, "wrap": True, **looks}
