"""PagerDuty Events v2: one event per thread, so that what failed together pages once.

The deduplication key is that of the message that opened the incidents. It is resolved when the last
of them has closed. When one of them closes or becomes worse before, another trigger with the same
key names those that are still in trouble: the newest event says what the page is about now.

Source: PagerDuty, "Send an event" (Events API v2).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HttpChannelSettings, HttpUrl
from lagwatch.config.secret import HIDDEN, Secret
from lagwatch.config.section import OrFile
from lagwatch.core.words import counted, printable
from lagwatch.errors import Fault, Refusal
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits
from lagwatch.notify.channels.http import HttpSender, as_json, json_object
from lagwatch.notify.message_words import open_now, subject, worst
from lagwatch.notify.notice import About, Message, Notice, StillOpen
from lagwatch.notify.words import cut, details, headline, instant, link, named_part

_HOST: Final = re.compile(r"events(\.[a-z]+)?\.pagerduty\.com")
"""Of the Events API, also that of the European region."""
_PATH: Final = "/v2/enqueue"
_KEY_LENGTH: Final = 32
_LONGEST_SUMMARY: Final = 1024
_LONGEST_TEXT: Final = 8000
_LONGEST_NAME: Final = 255
_SHOWN_GROUPS: Final = 100
_LONGEST_SUBJECT: Final = 500
_NAMED_IN_SUMMARY: Final = 5
_NAME_OF_SEVERAL: Final = 40
_SEVERITIES: Final = {"warning": "warning", "error": "critical"}


class PagerDutySettings(HttpChannelSettings):
    """PagerDuty Events v2."""

    routing_key: Annotated[
        Secret | None, OrFile(meaning="file that holds the key", needed=True)
    ] = Field(default=None, description="integration key; prefer `routing_key_file`")
    url: HttpUrl = Field(
        default="https://events.pagerduty.com/v2/enqueue",
        validate_default=True,
        description="URL of the Events API",
    )


class PagerDuty:
    """A `Channel`."""

    limits = ChannelLimits(one_severity=True)

    def __init__(self, name: str, settings: PagerDutySettings, _: Clock) -> None:
        self._key = settings.routing_key.get_secret_value() if settings.routing_key else ""
        self._url = settings.url.get_secret_value()
        self._http = HttpSender(name, settings)

    async def send(self, message: Message) -> str:
        """One event per thread; an event that PagerDuty had before changes nothing there."""
        received = "nothing to send: other incidents of the page are not over"
        for event in events(message):
            body = as_json({"routing_key": self._key, **event})
            headers = {"Content-Type": "application/json"}
            received = await self._http.send(
                "POST", self._url, body=body, headers=headers, refused=_refused
            )
        return received

    async def close(self) -> None:
        await self._http.close()


def _refused(status: int, body: str) -> Refusal | None:
    """PagerDuty accepts with 202 and `{"status":"success"}`."""
    del status
    said = json_object(body).get("status")
    if said == "success":
        return None
    return Refusal.CONTENT if said == "invalid event" else Refusal.NOT_ACCEPTED


def events(message: Message) -> list[dict[str, Any]]:
    """The events of a message, without the routing key."""
    threads: dict[str, list[Notice]] = {}
    for notice in message.notices:
        threads.setdefault(notice.thread or message.id, []).append(notice)
    found = list(_ended(message, set() if message.closing else set(threads)))
    if not message.closing:
        found += [_trigger(message, thread, notices) for thread, notices in threads.items()]
    return found


def _ended(message: Message, triggered: set[str]) -> Iterator[dict[str, Any]]:
    """Threads of which an incident has ended: resolved with the last, else what is left of them."""
    open_by_thread = {
        earlier.thread: earlier.thread_open for n in message.notices for earlier in n.earlier
    }
    heard = {earlier.thread for n in message.notices for earlier in n.earlier if earlier.heard}
    if message.closing:
        open_by_thread |= {n.thread or message.id: n.thread_open for n in message.notices}
        heard |= {n.thread for n in message.notices if n.heard}
    for thread, still_open in open_by_thread.items():
        if not thread or thread in triggered:
            continue
        left = message.still_open.get(thread, ())
        if still_open == 0:
            yield {"dedup_key": f"lagwatch-{thread}", "event_action": "resolve"}
        elif left and thread in heard:  # of a page that PagerDuty does not know it would make one
            yield _what_is_left(message, thread, left)


def _what_is_left(message: Message, thread: str, left: Sequence[StillOpen]) -> dict[str, Any]:
    """A further trigger of a page, which names what is still in trouble and what is not."""
    ended = [n for n in message.notices if n.closing and (n.thread or message.id) == thread]
    worst_of = "error" if any(each.severity == "error" for each in left) else "warning"
    groups = all(each.about is About.GROUP for each in left)
    count = counted(len(left), "consumer group" if groups else "incident")
    summary = f"Still {worst_of.upper()}: {count} of this page: {_names(left)}"
    if ended:
        summary += f"; ended: {_names(ended)}"
    first = next((each for each in left if each.severity == worst_of), left[0])
    return {
        "dedup_key": f"lagwatch-{thread}",
        "event_action": "trigger",
        "client": "lagwatch",
        "payload": {
            "summary": cut(summary, _LONGEST_SUMMARY),
            "source": cut(first.cluster, _LONGEST_NAME) or "lagwatch",
            "severity": _SEVERITIES[worst_of],
            "timestamp": _timestamp(message.at_ms),
            "component": cut(printable(first.group), _LONGEST_NAME) if len(left) == 1 else count,
            "class": "still open",
            "custom_details": {
                **_left_details(left),
                "ended": [cut(headline(notice), 500) for notice in ended[:_SHOWN_GROUPS]],
                "ended_left_out": max(0, len(ended) - _SHOWN_GROUPS),
            },
        },
    }


def _names(parts: Sequence[Notice | StillOpen]) -> str:
    """The first of them, the errors before the others, and how many more."""
    parts = sorted(parts, key=lambda part: part.severity != "error")
    shown = [named_part(each, with_cluster=True, most=_NAME_OF_SEVERAL) for each in parts]
    more = len(shown) - _NAMED_IN_SUMMARY
    return ", ".join(shown[:_NAMED_IN_SUMMARY]) + (f" and {more:,} more" if more > 0 else "")


def _left_details(left: Sequence[StillOpen]) -> dict[str, Any]:
    lines = [
        f"{each.severity.upper()}: {named_part(each, with_cluster=True)}"
        for each in sorted(left, key=lambda each: each.severity != "error")
    ]
    return {
        "still_open": lines[:_SHOWN_GROUPS],
        "still_open_left_out": max(0, len(lines) - _SHOWN_GROUPS),
    }


def _timestamp(at_ms: int) -> str:
    return instant(at_ms).removesuffix(" UTC").replace(" ", "T") + "Z"


def _trigger(message: Message, thread: str, notices: list[Notice]) -> dict[str, Any]:
    first = worst(notices)[0]
    summary = cut(subject(replace(message, notices=tuple(notices))), _LONGEST_SUBJECT)
    about = {notice.incident for notice in notices}
    left = [each for each in message.still_open.get(thread, ()) if each.incident not in about]
    if left:  # the newest event of a page is to name all that is in trouble
        summary += f"; still open on this page: {_names(left)}"
    worse = message.severity == "error" or any(each.severity == "error" for each in left)
    event: dict[str, Any] = {
        "dedup_key": f"lagwatch-{thread}",
        "event_action": "trigger",
        "client": "lagwatch",
        "payload": {
            "summary": cut(summary, _LONGEST_SUMMARY),
            "source": cut(first.cluster, _LONGEST_NAME) or "lagwatch",
            "severity": _SEVERITIES["error" if worse else "warning"],
            "timestamp": _timestamp(first.opened_ms),
            "component": cut(printable(first.group), _LONGEST_NAME)
            if len(notices) == 1
            else f"{len(notices)} groups",
            "class": str(first.verdict.get("rule") or first.about.value),
            "custom_details": {
                "text": cut("\n".join(details(first)), _LONGEST_TEXT),
                "groups": [cut(headline(notice), 500) for notice in worst(notices)[:_SHOWN_GROUPS]],
                "groups_left_out": max(0, len(notices) - _SHOWN_GROUPS),
                **(_left_details(left) if left else {}),
                **({"open_now": lines} if (lines := open_now(message)) else {}),
            },
        },
    }
    if first.url:
        event["client_url"] = link(first)
    if first.runbook.startswith(("http://", "https://")):
        event["links"] = [{"href": first.runbook, "text": "Runbook"}]
    return event


def _doubts(settings: PagerDutySettings) -> Iterator[Fault]:
    key = settings.routing_key.get_secret_value() if settings.routing_key else ""
    url = urlsplit(settings.url.get_secret_value())
    if not _HOST.fullmatch(url.hostname or ""):
        return
    if len(key) != _KEY_LENGTH:
        yield Fault(
            key="routing_key",
            value=HIDDEN,
            problem=f"has {len(key)} characters, an integration key has {_KEY_LENGTH}",
            remedy="Copy it from the service's integration of type Events API v2.",
        )
    if url.path.rstrip("/") != _PATH:
        yield Fault(
            key="url",
            value=str(settings.url),
            problem="is not the address of the Events API v2, so PagerDuty refuses every event",
            remedy=f"Write https://{url.hostname}{_PATH}.",
        )


KIND: Final = ChannelKind(
    table="pagerduty",
    about="PagerDuty services",
    settings=PagerDutySettings,
    open=PagerDuty,
    doubts=_doubts,
    takes_reports=False,
    needs_ends=True,
)
