"""Slack, and what takes the same webhooks: Mattermost, Rocket.Chat."""

from typing import Any, Final

from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.notice import Message
from lagwatch.notify.render import plain_text

_COLOURS: Final = {"close": "#1a7f37", "warning": "#bf8700", "error": "#c0392b"}
_LONGEST_TEXT: Final = 2900
"""Slack refuses a text block of more than 3,000 characters."""


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


def bulletin(told: Bulletin) -> dict[str, Any]:
    """The webhook's body of a bulletin."""
    text = _escaped(told.text.removeprefix(told.subject).strip())[:_LONGEST_TEXT]
    blocks = [_section(f"*{_escaped(told.subject)}*")]
    if text:
        blocks.append(_section(f"```{text}```"))
    return {"text": _escaped(told.subject), "blocks": blocks}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")
