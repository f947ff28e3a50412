"""PagerDuty Events v2: one event per thread, so that what failed together pages once.

The deduplication key is the message that told of the incidents first; it is resolved when the last
of them is closed, and updated when some are.

Source: PagerDuty, "Send an event" (Events API v2).
"""

import json
from typing import Any, Final

from lagwatch.config.alerts_channels import PagerDutySettings
from lagwatch.notify.channels.http import HttpSender, answer
from lagwatch.notify.notice import Message, Notice, headline, instant

_LONGEST_SUMMARY: Final = 1024
_TOLD_GROUPS: Final = 100
_SEVERITIES: Final = {"warning": "warning", "error": "critical"}


class PagerDuty:
    """A `Channel`."""

    def __init__(self, name: str, settings: PagerDutySettings) -> None:
        self._key = settings.routing_key.get_secret_value() if settings.routing_key else ""
        self._url = settings.url
        self._http = HttpSender(name, settings)

    async def send(self, message: Message) -> str:
        """One event per thread; an event that PagerDuty had before changes nothing there."""
        told = ""
        for event in events(message):
            body = json.dumps({"routing_key": self._key, **event}).encode()
            headers = {"Content-Type": "application/json"}
            told = answer(await self._http.send("POST", self._url, body=body, headers=headers))
        return told

    async def close(self) -> None:
        await self._http.close()


def events(message: Message) -> list[dict[str, Any]]:
    """The events of a message, without the routing key."""
    threads: dict[str, list[Notice]] = {}
    for notice in message.notices:
        threads.setdefault(notice.thread or message.id, []).append(notice)
    return [_event(message, thread, notices) for thread, notices in threads.items()]


def _event(message: Message, thread: str, notices: list[Notice]) -> dict[str, Any]:
    first = notices[0]
    head = {"dedup_key": f"lagwatch-{thread}", "client": "lagwatch"}
    if first.url:
        head["client_url"] = first.url
    if message.closing and first.thread_open == 0:
        return head | {"event_action": "resolve"}
    summary = headline(first) if len(notices) == 1 else message.subject
    if message.closing:
        summary = f"{first.thread_open} consumer groups still in trouble; {summary}"
    return head | {
        "event_action": "trigger",
        "payload": {
            "summary": summary[:_LONGEST_SUMMARY],
            "source": first.cluster,
            "severity": _SEVERITIES[message.severity],
            "timestamp": instant(first.opened_ms).replace(" ", "T"),
            "component": first.group if len(notices) == 1 else f"{len(notices)} groups",
            "class": str(first.verdict.get("rule") or ""),
            "custom_details": {
                "groups": [headline(one) for one in notices[:_TOLD_GROUPS]],
                "verdict": first.verdict,
            },
        },
    }
