"""A message that is no alert, such as the nightly report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulletin:
    """What is sent."""

    id: str
    """The same for every attempt: the idempotency key that the receiver is given."""
    at_ms: int
    subject: str
    """One line."""
    text: str
    """A few lines, without markup."""
    document: Mapping[str, Any] = field(default_factory=dict)
    """Goes into a webhook's body as `report`."""
    page: bytes | None = None
    """A page in HTML; goes with an e-mail as a file."""
    page_name: str = "report.html"

    def as_json(self, channel: str) -> dict[str, Any]:
        """The documented body of a webhook."""
        return {
            "version": 1,
            "id": self.id,
            "channel": channel,
            "event": "report",
            "at_ms": self.at_ms,
            "subject": self.subject,
            "text": self.text,
            "report": self.document,
        }
