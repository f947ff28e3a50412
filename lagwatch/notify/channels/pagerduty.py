"""PagerDuty Events v2: one event per thread, so that what failed together pages once.

The deduplication key is that of the message that opened the incidents. It is resolved when the last
of them has closed. When one of them closes or becomes worse before, another trigger with the same
key names those that are still in trouble: the newest event says what the page is about now.

Events of a message that PagerDuty accepted are not sent again when others of it failed: however
many pages a message is about, each attempt goes on where the one before has ended.

Source: PagerDuty, "Send an event" (Events API v2).
"""

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import HttpChannelSettings, HttpUrl
from lagwatch.config.secret import HIDDEN, Secret
from lagwatch.config.section import OrFile
from lagwatch.core.words import counted, printable
from lagwatch.errors import Fault, NotifyError, Refusal
from lagwatch.notify.channels.accepted import Accepted
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits
from lagwatch.notify.channels.http import HttpSender, as_json, json_object
from lagwatch.notify.message_words import open_now, subject, worst
from lagwatch.notify.notice import About, Message, Notice, StillOpen
from lagwatch.notify.words import (
    cut,
    cut_name,
    details,
    headline,
    instant,
    is_link,
    link,
    named_part,
)

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
_AT_ONCE: Final = 4
"""Events of a message that are sent at the same time: PagerDuty may take long for each."""
_OF_THE_EVENT: Final = (Refusal.CONTENT, Refusal.TOO_LARGE)
"""Refusals that say nothing about the other events of a message."""
_RESOLVE: Final = "resolve"
_MOST_RESOLVED: Final = 20_000
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
        self._accepted = Accepted()
        self._resolved: dict[str, set[str]] = {}
        """Pages that were resolved and not triggered again, oldest first: notices that said so."""

    async def send(self, message: Message) -> str:
        """One event per thread; an event that PagerDuty had before changes nothing there."""
        waiting = deque(self._lacking(message))
        requests = [self._post_each(waiting) for _ in range(min(_AT_ONCE, len(waiting)))]
        answers = await asyncio.gather(*requests, return_exceptions=True)
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        if errors:
            raise min(errors, key=_urgency)
        self._accepted.forget(notice.key for notice in message.notices)
        received = [answer for answer in answers if isinstance(answer, str) and answer]
        return received[-1] if received else "nothing new to send"

    def _lacking(self, message: Message) -> Iterator["_Order"]:
        """What PagerDuty has not accepted at an earlier attempt."""
        threads = _keys_by_thread(message)
        for event in events(message):
            request = event["dedup_key"], event["event_action"]
            keys = threads[event["dedup_key"]]
            by = self._resolved.get(event["dedup_key"])
            if event["event_action"] == _RESOLVE and by and by.isdisjoint(keys):
                by.update(keys)  # another part of the same message has resolved it
                continue
            if not all(self._accepted.has(key, request) for key in keys):
                yield event, request, keys

    async def _post_each(self, waiting: deque["_Order"]) -> str:
        """Send what waits, until nothing does or PagerDuty is in trouble; returns the last answer.

        Raises:
            NotifyError: an event was refused.
        """
        received, refused = "", None
        while waiting:
            event, request, keys = waiting.popleft()
            self._resolved.pop(event["dedup_key"], None)
            try:
                received = await self._post(event)
            except NotifyError as error:
                if error.refusal not in _OF_THE_EVENT:
                    waiting.clear()  # the others end after the event that they are sending
                    raise
                refused = error
            else:
                self._accepted.add(keys, request)
                self._note_resolved(event, keys)
        if refused is not None:
            raise refused
        return received

    def _note_resolved(self, event: dict[str, Any], keys: Iterable[str]) -> None:
        if event["event_action"] == _RESOLVE:
            self._resolved[event["dedup_key"]] = set(keys)
        while len(self._resolved) > _MOST_RESOLVED:
            del self._resolved[next(iter(self._resolved))]

    async def _post(self, event: dict[str, Any]) -> str:
        body = as_json({"routing_key": self._key, **event})
        headers = {"Content-Type": "application/json"}
        return await self._http.send(
            "POST", self._url, body=body, headers=headers, refused=_refused
        )

    async def close(self) -> None:
        await self._http.close()


_Order = tuple[dict[str, Any], tuple[str, str], Sequence[str]]
"""(event, its key and action, keys of the notices that it is about)."""


def _urgency(error: BaseException) -> tuple[bool, bool, float]:
    """Of several errors the lowest decides: unforeseen ones, then the longest wait asked for."""
    if not isinstance(error, NotifyError):
        return False, False, 0.0
    return True, error.refusal in _OF_THE_EVENT, -(error.retry_after_s or 0.0)


def _keys_by_thread(message: Message) -> dict[str, list[str]]:
    """Of each deduplication key the keys of the notices that are about it."""
    found: dict[str, list[str]] = {}
    for notice in message.notices:
        threads = {notice.thread or message.id, *(earlier.thread for earlier in notice.earlier)}
        for thread in threads:
            found.setdefault(_dedup_key(thread), []).append(notice.key)
    return found


def _dedup_key(thread: str) -> str:
    return f"lagwatch-{thread}"


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
            yield {"dedup_key": _dedup_key(thread), "event_action": _RESOLVE}
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
        "dedup_key": _dedup_key(thread),
        "event_action": "trigger",
        "client": "lagwatch",
        "payload": {
            "summary": cut(summary, _LONGEST_SUMMARY),
            "source": cut(first.cluster, _LONGEST_NAME) or "lagwatch",
            "severity": _SEVERITIES[worst_of],
            "timestamp": _timestamp(message.at_ms),
            "component": cut_name(printable(first.group), _LONGEST_NAME)
            if len(left) == 1
            else count,
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
    errors = [each for each in left if each.severity == "error"]
    worse = message.severity == "error" or bool(errors)
    others = left
    if errors and message.severity != "error":  # so that it reads as severe as the page is
        summary = f"Still ERROR on this page: {_names(errors)}; {summary}"
        others = [each for each in left if each not in errors]
    if others:  # the newest event of a page is to name all that is in trouble
        summary += f"; still open on this page: {_names(others)}"
    event: dict[str, Any] = {
        "dedup_key": _dedup_key(thread),
        "event_action": "trigger",
        "client": "lagwatch",
        "payload": {
            "summary": cut(summary, _LONGEST_SUMMARY),
            "source": cut(first.cluster, _LONGEST_NAME) or "lagwatch",
            "severity": _SEVERITIES["error" if worse else "warning"],
            "timestamp": _timestamp(first.opened_ms),
            "component": cut_name(printable(first.group), _LONGEST_NAME)
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
    if is_link(first.runbook):
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
