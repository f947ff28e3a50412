"""Microsoft Teams: an adaptive card to a webhook of Workflows.

Texts are runs of a `RichTextBlock`, in which names such as `a_b_c` are no markup.

Source: Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams"; the schema of
Adaptive Cards 1.4.
"""

from typing import Any, Final

from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.notice import Message
from lagwatch.notify.packing import Packing
from lagwatch.notify.words import body, cut, overview, subject

PACKING: Final = Packing()
_COLOURS: Final = {"close": "Good", "warning": "Warning", "error": "Attention"}
_LONGEST_TEXT: Final = 6000
"""Teams refuses cards of more than 28 KB; a character may take four bytes."""
_LONGEST_SUMMARY: Final = 500


def payload(message: Message) -> dict[str, Any]:
    """The webhook's body."""
    colour = _COLOURS["close" if message.closing else message.severity]
    title = cut(subject(message), _LONGEST_SUMMARY)
    lines = body(message, _LONGEST_TEXT, link=False).splitlines()
    blocks = [_text(title, weight="Bolder", size="Medium", color=colour), *map(_text, lines)]
    return _carried(_card(blocks, overview(message)))


def bulletin(sent: Bulletin) -> dict[str, Any]:
    """The webhook's body of a bulletin."""
    text = cut(sent.text.removeprefix(sent.subject).strip(), _LONGEST_TEXT)
    blocks = [_text(sent.subject, weight="Bolder", size="Medium"), *map(_text, text.splitlines())]
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
