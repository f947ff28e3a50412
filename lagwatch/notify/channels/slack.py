"""Slack, and what takes the same webhooks: Mattermost, Rocket.Chat.

All texts are plain: in Slack's own markup a name such as `a_b_c` would be set in italics.

Source: Slack, "Sending messages using incoming webhooks", "Reference: blocks".
"""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HttpChannelSettings, HttpUrl
from lagwatch.config.section import OrFile
from lagwatch.errors import Fault, Refusal
from lagwatch.notify.channels.base import ChannelKind
from lagwatch.notify.channels.http import ChatWebhook, json_object
from lagwatch.notify.message_words import Tone, body, overview, runbook, subject, tone
from lagwatch.notify.notice import Message, ReportMessage
from lagwatch.notify.words import cut

_COLOURS: Final = {
    Tone.GOOD: "#1a7f37",
    Tone.NEUTRAL: "#57606a",
    Tone.WARNING: "#bf8700",
    Tone.ERROR: "#c0392b",
}
_SLACK, _HOOKS, _INCOMING = "slack.com", "hooks.slack.com", "/services/"
_KEYS: Final = re.compile(rf"{_INCOMING}[^/]+/[^/]+/[^/]+")
"""The path of a webhook: workspace, app and key."""
_LONGEST_TEXT: Final = 2900
"""Slack refuses a text block of more than 3,000 characters."""
_LIMITS: Final = (2900, 2000, 1000, 500)
"""Tried in turn: escaped, a character may be five."""
_LONGEST_SUMMARY: Final = 500
_OF_THE_MESSAGE: Final = frozenset(
    {"invalid_payload", "invalid_blocks", "invalid_attachments", "no_text", "msg_too_long"}
)
_TEMPORARY: Final = frozenset({"rate_limited", "ratelimited", "rollup_error"})


class SlackSettings(HttpChannelSettings):
    """Slack, Mattermost, Rocket.Chat: an incoming webhook."""

    webhook_url: Annotated[
        HttpUrl | None, OrFile(meaning="file that holds the webhook URL", needed=True)
    ] = Field(default=None, description="URL of the incoming webhook; prefer `webhook_url_file`")


class Slack(ChatWebhook):
    """A `Channel`."""

    def __init__(self, name: str, settings: SlackSettings, _: Clock) -> None:
        url = settings.webhook_url.get_secret_value() if settings.webhook_url else ""
        super().__init__(name, url, settings)

    def payload(self, message: Message) -> dict[str, Any]:
        summary = cut(subject(message), _LONGEST_SUMMARY)
        texts = (_escaped(body(message, limit, linked=False)) for limit in _LIMITS)
        text = next(short for short in texts if len(short) <= _LONGEST_TEXT)
        attachment = {
            "color": _COLOURS[tone(message)],
            "fallback": _escaped(summary),
            "blocks": [*_sections(text), *_buttons(message)],
        }
        return _framed(summary) | {"attachments": [attachment]}

    def report_message(self, report_message: ReportMessage) -> dict[str, Any]:
        rest = report_message.text.removeprefix(report_message.subject).strip()
        texts = (_escaped(cut(rest, limit)) for limit in _LIMITS)
        text = next(short for short in texts if len(short) <= _LONGEST_TEXT)
        return _framed(report_message.subject) | {
            "blocks": [*_sections(_escaped(report_message.subject)), *_sections(text)]
        }

    def refused(self, status: int, body: str) -> Refusal | None:
        """Slack, Mattermost say `ok`, Rocket.Chat `{"success":true}`; all else is an error text."""
        del status
        answer = json_object(body)
        if body.lower() == "ok" or answer.get("ok") is True or answer.get("success") is True:
            return None
        if body in _OF_THE_MESSAGE:
            return Refusal.CONTENT
        return Refusal.UNAVAILABLE if body in _TEMPORARY else Refusal.NOT_ACCEPTED


def _framed(summary: str) -> dict[str, Any]:
    return {"text": _escaped(summary), "mrkdwn": False}


def _escaped(text: str) -> str:
    """These three are control characters in every text of Slack's, also without markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _sections(text: str) -> list[dict[str, Any]]:
    if not text:
        return []
    return [{"type": "section", "text": {"type": "plain_text", "text": text, "emoji": False}}]


def _buttons(message: Message) -> list[dict[str, Any]]:
    wanted = (("Open in lagwatch", overview(message)), ("Runbook", runbook(message)))
    buttons = [
        {"type": "button", "text": {"type": "plain_text", "text": label}, "url": url}
        for label, url in wanted
        if url
    ]
    return [{"type": "actions", "elements": buttons}] if buttons else []


def _doubts(settings: SlackSettings) -> Iterator[Fault]:
    url = settings.webhook_url
    parts = urlsplit(url.get_secret_value() if url else "")
    of_slack = f".{parts.hostname}".endswith(f".{_SLACK}")
    if of_slack and not (parts.hostname == _HOOKS and _KEYS.fullmatch(parts.path)):
        yield Fault(
            key="webhook_url",
            value=str(url),
            problem="is not the URL of an incoming webhook, so Slack refuses every message",
            remedy=f"Copy it from the app's page Incoming Webhooks: https://{_HOOKS}{_INCOMING}….",
        )


KIND: Final = ChannelKind(
    table="slack",
    about="Slack-compatible webhooks",
    settings=SlackSettings,
    open=Slack,
    doubts=_doubts,
)
