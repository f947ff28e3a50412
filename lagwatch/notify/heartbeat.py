"""A request every so often while all is well: the receiver alarms when it does not come.

It goes to a URL (healthchecks.io, Dead Man's Snitch) and, as an alert that fires all the time, to
Alertmanagers that are to carry it.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import httpx
import structlog

from lagwatch import __version__
from lagwatch.clock import Clock
from lagwatch.config.alerts import HeartbeatSettings
from lagwatch.errors import NotifyError
from lagwatch.notify.channels.base import Beats, Channel

_TIMEOUT_S: Final = 10.0
_LIVES: Final = 5
"""Intervals that an alert outlives."""

_log = structlog.get_logger()


class Heartbeat:
    """Sends until cancelled; `problem` returns why lagwatch does not work, or ""."""

    def __init__(
        self,
        settings: HeartbeatSettings,
        clock: Clock,
        problem: Callable[[], str],
        channels: Callable[[], Iterable[Channel]],
    ) -> None:
        self.settings = settings
        """Replaced when the configuration is reloaded."""
        self._clock = clock
        self._problem = problem
        self._channels = channels
        self._said = ""

    async def run(self) -> None:
        headers = {"User-Agent": f"lagwatch/{__version__}"}
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers=headers) as client:
            while True:
                carriers = [
                    channel
                    for channel in self._channels()
                    if isinstance(channel, Beats) and channel.watchdog
                ]
                if carriers or self.settings.url.get_secret_value():
                    self._say(self._problem() or await self._beat(client, carriers))
                await self._clock.sleep(self.settings.interval_s)

    async def _beat(self, client: httpx.AsyncClient, carriers: Iterable[Beats]) -> str:
        """Send it to the URL and the channels; returns why that failed, or ""."""
        failed = [await self._request(client), *[await self._alert(each) for each in carriers]]
        return "; ".join(filter(None, failed))

    async def _alert(self, channel: Beats) -> str:
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await channel.beat(_LIVES * self.settings.interval_s)
        except (NotifyError, TimeoutError) as error:
            return str(error) or "no answer in time"
        return ""

    async def _request(self, client: httpx.AsyncClient) -> str:
        url = self.settings.url.get_secret_value()
        if not url:
            return ""
        try:
            # the status is the answer: a body without end is not waited for
            async with client.stream(self.settings.method, url) as response:
                return "" if response.is_success else f"answered {response.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"no answer: {str(error) or type(error).__name__}"

    def _say(self, reason: str) -> None:
        """Log the reason when it changes."""
        if reason and reason != self._said:
            _log.warning("heartbeat_not_sent", reason=reason)
        elif self._said and not reason:
            _log.info("heartbeat_sent_again")
        self._said = reason
