"""Everything else, through Apprise.

Each service is called by itself: one that accepted a notice does not get it again when another one
did not. What a service answered over HTTP decides what is tried next, as for the other channels.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings, SecretUrls
from lagwatch.config.secret import HIDDEN
from lagwatch.config.section import OrFile
from lagwatch.errors import ConfigError, Fault, NotifyError, Refusal
from lagwatch.notify.channels.accepted import Accepted
from lagwatch.notify.channels.answers import noted
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits
from lagwatch.notify.channels.http import RETRYABLE, printable_line, refusal, retry_after_s
from lagwatch.notify.channels.service_room import room_of
from lagwatch.notify.message_words import Tone, tone
from lagwatch.notify.notice import Message, ReportMessage

if TYPE_CHECKING:
    from lagwatch.notify.channels.answers import Answer

_SOONEST: Final = (
    *(Refusal.TOO_LARGE, Refusal.UNAVAILABLE, Refusal.CUT, Refusal.FAILED),
    *(Refusal.NOT_ACCEPTED, Refusal.CONTENT),
)
"""Of several services, the refusal that is answered first decides."""

_TYPES: Final = {
    Tone.GOOD: "success",
    Tone.NEUTRAL: "info",
    Tone.WARNING: "warning",
    Tone.ERROR: "failure",
}
"""Apprise's words for a tone."""
_INSTALL: Final = "Install it: pip install 'lagwatch[apprise]'."


class AppriseSettings(ChannelSettings):
    """Every service that Apprise supports (`pip install 'lagwatch[apprise]'`)."""

    service_urls: Annotated[
        SecretUrls, OrFile(meaning="file that holds the URLs, one a line", needed=True)
    ] = Field(default=(), description="Apprise URLs; prefer `service_urls_file`")


class AppriseChannel:
    """A `Channel`."""

    limits = ChannelLimits()

    def __init__(self, name: str, settings: AppriseSettings, _: Clock) -> None:
        """Read the URLs.

        Raises:
            ConfigError: Apprise is not installed, or does not know a URL.
        """
        key = f"alerts.apprise.{name}"
        try:
            import apprise
        except ModuleNotFoundError as error:
            fault = Fault(key=key, value="", problem=f"{error}", remedy=_INSTALL)
            raise ConfigError([fault]) from error
        self._name = name
        self._as_type = apprise.NotifyType
        found, faults = [], []
        for number, url in enumerate(settings.service_urls):
            services = apprise.Apprise()
            if services.add(url.get_secret_value()):
                found += list(services)
                continue
            faults.append(
                Fault(
                    key=f"{key}.service_urls[{number}]",
                    value=HIDDEN,
                    problem="Apprise does not know this URL",
                    remedy="See Apprise's list of services for how it is written.",
                )
            )
        if faults:
            raise ConfigError(faults)
        self._services = [
            _Service(service, f"{_shown(service)} ({number} of {len(found)})")
            if len(found) > 1
            else _Service(service, _shown(service))
            for number, service in enumerate(found, start=1)
        ]

    async def send(self, message: Message) -> str:
        orders = []
        for service in self._services:
            notices = tuple(each for each in message.notices if not service.accepted.has(each.key))
            if notices:
                left = replace(message, notices=notices)
                kind = self._as_type(_TYPES[tone(left)])
                text = _Text(*service.room.message(left), kind)
                orders.append((service, text, tuple(notice.key for notice in notices)))
        return await self._all(orders, [notice.key for notice in message.notices])

    async def send_report_message(self, report_message: ReportMessage) -> str:
        kind = self._as_type("info")
        keys = (report_message.id,)
        orders = [
            (service, _Text(*service.room.report(report_message), kind), keys)
            for service in self._services
            if not service.accepted.has(report_message.id)
        ]
        return await self._all(orders, keys)

    async def _all(self, orders: Sequence["_Order"], keys: Iterable[str]) -> str:
        """Wait for all services, so that a slow one delays no other.

        Raises:
            NotifyError: a service did not accept it, or none is configured.
        """
        if not self._services:
            raise NotifyError(
                channel=self._name,
                message="service_urls names no service",
                retryable=False,
                refusal=Refusal.NOT_ACCEPTED,
            )
        calls = (asyncio.to_thread(_called, *order) for order in orders)
        answers = await asyncio.gather(*calls)
        failures = [failure for failure in answers if failure is not None]
        if not failures:
            for service in self._services:
                service.accepted.forget(keys)
            return "accepted"
        refused = min((failure.refusal for failure in failures), key=_SOONEST.index)
        waits_s = [each.retry_after_s for each in failures if each.retry_after_s is not None]
        raise NotifyError(
            channel=self._name,
            message="; ".join(f"{failure.service}: {failure.reason}" for failure in failures),
            retryable=refused in RETRYABLE,
            retry_after_s=max(waits_s, default=None),
            refusal=refused,
        )

    async def close(self) -> None:
        """Apprise keeps no connections."""


@dataclass(frozen=True, slots=True)
class _Text:
    title: str
    body: str
    notify_type: Any
    """Apprise's."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a service did not accept a message."""

    service: str
    reason: str
    refusal: Refusal
    retry_after_s: float | None = None


class _Service:
    """One service of Apprise."""

    def __init__(self, service: Any, name: str) -> None:  # noqa: ANN401 a class of a plugin
        import apprise

        self.name = name
        """Scheme and host: the rest may be secret."""
        self.room = room_of(service)
        self.accepted = Accepted()
        """What it accepted while another service has not."""
        self._alone = apprise.Apprise()
        self._alone.add(service)

    def notify(self, text: _Text, keys: Sequence[str]) -> _Failure | None:
        """Send, in a thread. What is accepted after the caller has given up is noted as well."""
        with noted() as answers:
            taken = self._alone.notify(
                title=text.title, body=text.body, notify_type=text.notify_type
            )
        last = answers[-1] if answers else None
        if taken and not _redirected(last):
            self.accepted.add(keys)
            return None
        bad = next((each for each in reversed(answers) if not _is_good(each)), None)
        return _failure(self.name, bad)


_Order = tuple[_Service, _Text, tuple[str, ...]]
"""(service, text, keys of the notices in it)."""


def _called(service: _Service, text: _Text, keys: Sequence[str]) -> _Failure | None:
    try:
        return service.notify(text, keys)
    except Exception as error:  # noqa: BLE001 the library may raise anything
        return _Failure(service.name, type(error).__name__, Refusal.UNAVAILABLE)


def _failure(service: str, answer: "Answer | None") -> _Failure:
    import requests

    if answer is None:  # over another protocol, or an error in the body of a 2xx
        return _Failure(service, "did not accept it", Refusal.UNAVAILABLE)
    if isinstance(answer, requests.Response):
        reason = printable_line(f"{answer.status_code} {answer.reason or ''}")
        why = refusal(answer.status_code)
        return _Failure(service, reason, why, retry_after_s(answer.headers))
    if isinstance(answer, requests.Timeout):
        return _Failure(service, "no answer in time", Refusal.UNAVAILABLE)
    # the text of the error holds the URL: only what the system said is shown
    said = _system_error(answer)
    if isinstance(said, ConnectionRefusedError) or not _is_cut(answer):
        shown = said.strerror if said is not None else type(answer).__name__
        return _Failure(service, f"no answer: {shown}", Refusal.UNAVAILABLE)
    return _Failure(service, "the connection was cut", Refusal.CUT)


def _redirected(answer: "Answer | None") -> bool:
    import requests

    return isinstance(answer, requests.Response) and answer.is_redirect


def _is_good(answer: "Answer") -> bool:
    import requests

    return (
        isinstance(answer, requests.Response)
        and HTTPStatus.OK <= answer.status_code < HTTPStatus.MULTIPLE_CHOICES
    )


def _is_cut(error: BaseException) -> bool:
    """True if the connection ended after it was made."""
    from urllib3.exceptions import ProtocolError

    return any(isinstance(cause, ProtocolError) for cause in _causes(error))


def _system_error(error: BaseException) -> OSError | None:
    """The error of the system behind an error of the library."""
    return next(
        (each for each in _causes(error) if isinstance(each, OSError) and each.strerror), None
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and those that led to it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _shown(service: Any) -> str:  # noqa: ANN401 a class of a plugin
    """Scheme and host; the scheme alone where the host may be a key or the name of a topic."""
    private_url = service.url(privacy=True)
    scheme = private_url.partition("://")[0]
    host = getattr(service, "host", None) if "host" in service.template_tokens else None
    port = getattr(service, "port", None)
    if not isinstance(host, str) or not _is_host(host, port, private_url):
        return f"{scheme}://…"
    return printable_line(f"{scheme}://{host}" + (f":{port}" if port else ""))


def _is_host(host: str, port: object, private_url: str) -> bool:
    """True if it looks like a host, and Apprise shows it where it hides what is secret."""
    try:
        shown = urlsplit(private_url).hostname
    except ValueError:
        return False
    return shown == host.lower() and (port is not None or "." in host or host == "localhost")


KIND: Final = ChannelKind(
    table="apprise", about="Apprise services", settings=AppriseSettings, open=AppriseChannel
)
