"""Everything else, through Apprise.

Apprise says only that a service did not take the message, not why: so it is tried again.
"""

import asyncio
from typing import Final

import apprise

from lagwatch.config.alerts_channels import AppriseSettings
from lagwatch.errors import ConfigError, Fault, NotifyError
from lagwatch.notify.bulletin import Bulletin
from lagwatch.notify.notice import Message
from lagwatch.notify.packing import Packing
from lagwatch.notify.words import body, subject

_LONGEST_TEXT: Final = 4000

_TYPES: Final = {
    "close": apprise.NotifyType.SUCCESS,
    "warning": apprise.NotifyType.WARNING,
    "error": apprise.NotifyType.FAILURE,
}


class AppriseChannel:
    """A `Channel`."""

    def __init__(self, name: str, settings: AppriseSettings) -> None:
        """Read the URLs.

        Raises:
            ConfigError: Apprise does not know one of them.
        """
        self.packing = Packing()
        self._name = name
        self._services = apprise.Apprise()
        for number, url in enumerate(settings.service_urls):
            if not self._services.add(url.get_secret_value()):
                raise ConfigError(
                    [
                        Fault(
                            key=f"alerts.apprise.{name}.service_urls[{number}]",
                            value="***",
                            problem="Apprise does not know this URL",
                            remedy="See Apprise's list of services for how it is written.",
                        )
                    ]
                )

    async def send(self, message: Message) -> str:
        kind = _TYPES["close" if message.closing else message.severity]
        return await self._notify(subject(message), body(message, _LONGEST_TEXT), kind)

    async def send_bulletin(self, bulletin: Bulletin) -> str:
        return await self._notify(bulletin.subject, bulletin.text, apprise.NotifyType.INFO)

    async def _notify(self, title: str, body: str, kind: apprise.NotifyType) -> str:
        taken = await asyncio.to_thread(
            self._services.notify, title=title, body=body, notify_type=kind
        )
        if not taken:
            raise NotifyError(
                channel=self._name, message="a service did not take it", retryable=True
            )
        return "taken"

    async def close(self) -> None:
        """Apprise keeps no connections."""
