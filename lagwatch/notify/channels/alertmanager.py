"""Prometheus Alertmanager, API v2: alerts to all peers, kept alive, resolved.

An alert is its labels: alertname, cluster, group, severity. When the severity changes, the alert of
the severity that was posted before is resolved; no other is, since people would read of the end of
something that never was. An alert that fires ends by itself some keep-alives later, so it does not
outlive lagwatch.

Source: Alertmanager, api/v2/openapi.yaml, postAlerts.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import structlog
from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import AuthenticatedSettings, HttpUrls
from lagwatch.config.secret import Properties
from lagwatch.core.words import printable
from lagwatch.errors import Fault, NotifyError
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits
from lagwatch.notify.channels.http import HttpSender, as_json
from lagwatch.notify.notice import About, Level, Message, Notice
from lagwatch.notify.words import cut, details, headline, owner

_NAMES: Final[Mapping[About, str]] = {
    About.GROUP: "KafkaConsumerGroupLag",
    About.CLUSTER: "LagwatchClusterUnseen",
    About.CHANNEL: "LagwatchAlertsUndelivered",
    About.HISTORY: "LagwatchHistoryNotRecorded",
}
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Source: Prometheus, "Data model", label names."""
_LIVES: Final = 5
"""An alert ends by itself after so many keep-alive intervals."""
_MOST_ALERTS: Final = 500
_MOST_BYTES: Final = 262_144
"""Of one post: Alertmanager takes any number, but a proxy before it often no more than 1 MB."""
_LONGEST_TEXT: Final = 8000
_SEVERITIES: Final[tuple[Level, ...]] = ("warning", "error")

_log = structlog.get_logger()


class AlertmanagerSettings(AuthenticatedSettings):
    """Prometheus Alertmanager, API v2. Alerts are posted to all peers."""

    urls: HttpUrls = Field(description="all peers: `http://host:9093`, without `/api/v2`")
    keep_alive_s: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] = Field(
        default=60.0,
        description="seconds between two posts of a firing alert; it ends after five times this",
    )
    watchdog: bool = Field(
        default=False,
        description="keep an alert `LagwatchWatchdog` firing while all is well; see the heartbeat",
    )
    labels: Properties = Field(
        default=Properties(), description="additional labels for every alert"
    )


class Alertmanager:
    """A `Channel` that `KeepsAlive` and `Beats`."""

    limits = ChannelLimits()

    def __init__(self, name: str, settings: AlertmanagerSettings, clock: Clock) -> None:
        self._name = name
        self._settings = settings
        self._clock = clock
        self._http = HttpSender(name, settings)
        self._urls = tuple(
            f"{url.get_secret_value().rstrip('/')}/api/v2/alerts" for url in settings.urls
        )

    @property
    def watchdog(self) -> bool:
        return self._settings.watchdog

    async def beat(self, lives_s: float) -> None:
        now_ms = self._clock.now_ms()
        watchdog = {
            "labels": {
                **self._settings.labels,
                "alertname": "LagwatchWatchdog",
                "severity": "none",
            },
            "annotations": {"summary": "lagwatch works. It does not when this alert ends."},
            "startsAt": _time(now_ms),
            "endsAt": _time(now_ms + round(lives_s * 1000)),
        }
        await self._post([watchdog])

    @property
    def keep_alive_s(self) -> float:
        return self._settings.keep_alive_s

    async def send(self, message: Message) -> str:
        return await self._post(self.alerts(message))

    def alerts(self, message: Message) -> list[dict[str, Any]]:
        """The alerts that a message sets or ends."""
        return [alert for notice in message.notices for alert in self._alerts(notice)]

    async def keep_alive(self, standing: Sequence[Notice]) -> None:
        alerts = list(self._standing(standing))
        if alerts:
            await self._post(alerts)

    async def close(self) -> None:
        await self._http.close()

    def _standing(self, notices: Iterable[Notice]) -> Iterator[dict[str, Any]]:
        """The alerts of open incidents; what cannot be written of one ends no other."""
        for notice in notices:
            try:
                yield self._alert(notice, notice.severity)
            except Exception as error:  # noqa: BLE001 what is stored may be odd in any way
                _log.warning(
                    "notice_not_written",
                    channel=self._name,
                    incident=notice.incident,
                    cluster=notice.cluster,
                    group=notice.group,
                    reason=f"{type(error).__name__}: {error}",
                )

    async def _post(self, alerts: Sequence[dict[str, Any]]) -> str:
        """Post to all peers; one that accepts is enough: peers exchange alerts.

        Raises:
            NotifyError: no peer accepted it.
        """
        posts = list(bodies(alerts))
        answers = await asyncio.gather(
            *(self._post_to(url, posts) for url in self._urls), return_exceptions=True
        )
        errors = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in errors:
            if not isinstance(error, NotifyError):
                raise error
        if len(errors) < len(answers):
            return f"accepted by {len(answers) - len(errors)} of {len(answers)} peers"
        refusals = [error for error in errors if isinstance(error, NotifyError)]
        raise NotifyError(
            channel=self._name,
            message="; ".join(dict.fromkeys(map(str, refusals))),
            retryable=any(refusal.retryable for refusal in refusals),
            retry_after_s=refusals[0].retry_after_s,
            refusal=refusals[0].refusal,
        )

    async def _post_to(self, url: str, posts: Sequence[bytes]) -> None:
        headers = {"Content-Type": "application/json"}
        for body in posts:
            await self._http.send("POST", url, body=body, headers=headers)

    def _alerts(self, notice: Notice) -> Iterator[dict[str, Any]]:
        """The alert that fires, and the ends of those that were posted before."""
        posted = {notice.heard_as, *(earlier.heard_as for earlier in notice.earlier)} - {None}
        fires = None if notice.closing else notice.severity
        if fires is not None or not posted:
            yield self._alert(notice, notice.severity)
        for severity in _SEVERITIES:
            if severity in posted and severity != fires:
                yield self._alert(notice, severity) | {"endsAt": _time(notice.at_ms)}

    def _alert(self, notice: Notice, severity: Level) -> dict[str, Any]:
        lives_ms = round(self._settings.keep_alive_s * _LIVES * 1000)
        ends_ms = notice.at_ms if notice.closing else self._clock.now_ms() + lives_ms
        alert = {
            "labels": {
                **self._settings.labels,
                "alertname": _NAMES[notice.about],
                **_subject(notice),
                "severity": severity,
            },
            "annotations": dict(_annotations(notice)),
            "startsAt": _time(min(notice.opened_ms, ends_ms)),
            "endsAt": _time(ends_ms),
        }
        return alert | {"generatorURL": notice.url} if notice.url else alert


def bodies(alerts: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """The alerts in their order as JSON lists, none of them much larger than `_MOST_BYTES`."""
    part: list[bytes] = []
    size = 0
    for text in map(as_json, alerts):
        if part and (len(part) == _MOST_ALERTS or size + len(text) > _MOST_BYTES):
            yield b"[" + b",".join(part) + b"]"
            part, size = [], 0
        part.append(text)
        size += len(text)
    if part:
        yield b"[" + b",".join(part) + b"]"


def _subject(notice: Notice) -> dict[str, str]:
    """The labels of the group, cluster or channel."""
    name = "channel" if notice.about is About.CHANNEL else "group"
    labels = {"cluster": notice.cluster, name: notice.group}
    return {label: value for label, value in labels.items() if value}


def _annotations(notice: Notice) -> Iterable[tuple[str, str]]:
    verdict = notice.verdict
    yield "summary", headline(notice)
    yield "description", cut("\n".join(details(notice)), _LONGEST_TEXT)
    if notice.runbook:
        yield "runbook_url", notice.runbook
    if notice.team:
        yield "team", notice.team
    yield "incident", notice.incident
    yield "policy", notice.policy
    yield "rule", str(verdict.get("rule") or "")
    yield "since", _time(notice.since_ms)
    partitions = verdict.get("partitions", ())
    yield (
        "owners",
        cut(
            printable("; ".join(dict.fromkeys(filter(None, map(owner, partitions))))), _LONGEST_TEXT
        ),
    )
    names = ", ".join(f"{each['topic']}/{each['partition']}" for each in partitions)
    yield "partitions", cut(printable(names), _LONGEST_TEXT)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


_PROMETHEUS: Final = 9090
_OWN_LABELS: Final = frozenset({"alertname", "cluster", "group", "channel", "severity"})


def _doubts(settings: AlertmanagerSettings) -> Iterator[Fault]:
    for name in settings.labels:
        if name in _OWN_LABELS:
            yield Fault(
                key="labels",
                value=f'"{name}"',
                problem="is set by lagwatch itself, so this value is not used, or misleads",
                remedy="Choose another name for the label.",
            )
        if not _LABEL.fullmatch(name):
            yield Fault(
                key="labels",
                value=f'"{name}"',
                problem="is no name of a label, so Alertmanager refuses every alert",
                remedy="Use letters, digits and _, and no digit at the beginning.",
            )
    for number, url in enumerate(settings.urls):
        if f"{url}".rstrip("/").endswith(f":{_PROMETHEUS}"):
            yield Fault(
                key=f"urls[{number}]",
                value=str(url),
                problem="is the port of Prometheus, which takes no alerts",
                remedy="Name Alertmanager: http://host:9093.",
            )
        path = urlsplit(url.get_secret_value()).path.rstrip("/")
        if path.endswith(("/api/v2", "/api/v2/alerts", "/api/v1", "/api/v1/alerts")):
            yield Fault(
                key=f"urls[{number}]",
                value=str(url),
                problem="ends with the path of the API, which lagwatch adds itself",
                remedy="Write http://host:9093.",
            )


KIND: Final = ChannelKind(
    table="alertmanager",
    about="Prometheus Alertmanagers",
    settings=AlertmanagerSettings,
    open=Alertmanager,
    doubts=_doubts,
    takes_reports=False,
)
