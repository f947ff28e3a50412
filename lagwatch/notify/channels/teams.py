"""Microsoft Teams: an adaptive card to a webhook of Workflows.

Texts are runs of a `RichTextBlock`, in which names such as `a_b_c` are no markup.

Source: Microsoft, "Create incoming webhooks with Workflows for Microsoft Teams"; the schema of
Adaptive Cards 1.4.
"""

import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HttpChannelSettings, HttpUrl
from lagwatch.config.section import OrFile
from lagwatch.errors import Fault, Refusal
from lagwatch.notify.channels.base import ChannelKind
from lagwatch.notify.channels.http import ChatWebhook, refusal
from lagwatch.notify.message_words import Tone, body, overview, runbook, subject, tone
from lagwatch.notify.notice import Message, ReportMessage
from lagwatch.notify.words import cut

_COLOURS: Final = {
    Tone.GOOD: "Good",
    Tone.NEUTRAL: "Default",
    Tone.WARNING: "Warning",
    Tone.ERROR: "Attention",
}
_LONGEST_TEXT: Final = 6000
"""Teams refuses cards of more than 28 KB; a character may take four bytes."""
_LONGEST_SUMMARY: Final = 500
_NAMED_STATUS: Final = re.compile(r"HTTP error ([45]\d\d)")
"""In the body of a 200: what an old connector got from Teams."""
_RETIRED: Final = re.compile(r"outlook\.office\.com|.+\.webhook\.office\.com")
"""Hosts of connectors."""


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
        colour = _COLOURS[tone(message)]
        title = cut(subject(message), _LONGEST_SUMMARY)
        lines = _lines(body(message, _LONGEST_TEXT, linked=False))
        blocks = [_text(title, weight="Bolder", size="Medium", color=colour), *lines]
        links = {"Open in lagwatch": overview(message), "Runbook": runbook(message)}
        return _carried(_card(blocks, links))

    def report_message(self, report_message: ReportMessage) -> dict[str, Any]:
        text = cut(report_message.text.removeprefix(report_message.subject).strip(), _LONGEST_TEXT)
        blocks = [
            _text(report_message.subject, weight="Bolder", size="Medium"),
            *_lines(text),
        ]
        return _carried(_card(blocks, {}))

    def refused(self, status: int, body: str) -> Refusal | None:
        """Workflows answer 202, old connectors 200 with `1`; 200 with a text is an error."""
        if found := _NAMED_STATUS.search(body):
            return refusal(int(found[1]))
        if status != HTTPStatus.OK or body in {"", "1"}:
            return None
        return Refusal.NOT_ACCEPTED


def _card(blocks: list[dict[str, Any]], links: Mapping[str, str]) -> dict[str, Any]:
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
        "msteams": {"width": "Full"},
    }
    actions = [
        {"type": "Action.OpenUrl", "title": title, "url": url}
        for title, url in links.items()
        if url
    ]
    return card | {"actions": actions} if actions else card


def _carried(card: dict[str, Any]) -> dict[str, Any]:
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """A block of each line; more space in place of an empty line, which takes none in a card."""
    spacing = "Small"
    for line in text.splitlines():
        if line.strip():
            yield _text(line) | {"spacing": spacing}
        spacing = "Small" if line.strip() else "Medium"


def _text(text: str, **looks: str) -> dict[str, Any]:
    run = {"type": "TextRun", "text": text, **looks}
    return {"type": "RichTextBlock", "inlines": [run], "spacing": "Small"}


def _doubts(settings: TeamsSettings) -> Iterator[Fault]:
    url = settings.webhook_url
    parts = urlsplit(url.get_secret_value() if url else "")
    if _RETIRED.fullmatch(parts.hostname or "") and parts.path.startswith("/webhook"):
        yield Fault(
            key="webhook_url",
            value=str(url),
            problem="is of a connector, which Teams has retired",
            remedy="Make a workflow that posts when a webhook is called, and write its URL.",
        )


KIND: Final = ChannelKind(
    table="teams",
    about="Microsoft Teams webhooks",
    settings=TeamsSettings,
    open=Teams,
    doubts=_doubts,
)
