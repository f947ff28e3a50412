"""The documented JSON of a message: the body of a webhook, and what templates see."""

from typing import Any

from lagwatch.notify.notice import Message, brief
from lagwatch.notify.words import subject


def document(message: Message) -> dict[str, Any]:
    """Plain JSON; the notices of a brief message come without their partitions."""
    notices = [one.as_json() for one in message.notices]
    return {
        "version": 1,
        "id": message.id,
        "channel": message.channel,
        "event": "close" if message.closing else "open",
        "severity": message.severity,
        "at_ms": message.at_ms,
        "subject": subject(message),
        "notices": [brief(one) for one in notices] if message.brief else notices,
    }
