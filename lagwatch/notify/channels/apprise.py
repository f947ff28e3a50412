"""Everything else, through Apprise.

Apprise reports only that a service did not accept the message, not why: so it is retried.
"""

import asyncio
from typing import Annotated, Final

from pydantic import Field

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings, SecretUrls
from lagwatch.config.secret import HIDDEN
from lagwatch.config.section import OrFile
from lagwatch.errors import ConfigError, Fault, NotifyError
from lagwatch.notify.channels.base import ChannelKind, ChannelLimits
from lagwatch.notify.message_words import Tone, body, subject, tone
from lagwatch.notify.notice import Message, ReportMessage

_LONGEST_TEXT: Final = 4000

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
        self._services = apprise.Apprise()
        self._as_type = apprise.NotifyType
        faults = [
            Fault(
                key=f"{key}.service_urls[{number}]",
                value=HIDDEN,
                problem="Apprise does not know this URL",
                remedy="See Apprise's list of services for how it is written.",
            )
            for number, url in enumerate(settings.service_urls)
            if not self._services.add(url.get_secret_value())
        ]
        if faults:
            raise ConfigError(faults)

    async def send(self, message: Message) -> str:
        kind = _TYPES[tone(message)]
        return await self._notify(subject(message), body(message, _LONGEST_TEXT), kind)

    async def send_report_message(self, report_message: ReportMessage) -> str:
        return await self._notify(report_message.subject, report_message.text, "info")

    async def _notify(self, title: str, body: str, kind: str) -> str:
        notify_type = self._as_type(kind)
        try:
            taken = await asyncio.to_thread(
                self._services.notify, title=title, body=body, notify_type=notify_type
            )
        except Exception as error:  # the library may raise anything
            text = f"{type(error).__name__}: {error}"
            raise NotifyError(channel=self._name, message=text, retryable=True) from error
        if not taken:
            raise NotifyError(
                channel=self._name, message="a service did not accept it", retryable=True
            )
        return "accepted"

    async def close(self) -> None:
        """Apprise keeps no connections."""


KIND: Final = ChannelKind(
    table="apprise", about="Apprise services", settings=AppriseSettings, open=AppriseChannel
)
