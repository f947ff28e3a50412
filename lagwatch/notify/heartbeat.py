"""A request every so often while all is well: the receiver alarms when it does not come.

Services that wait for such requests: healthchecks.io, Dead Man's Snitch, Alertmanager's Watchdog.
"""

from collections.abc import Callable
from typing import Final

import httpx
import structlog

from lagwatch import __version__
from lagwatch.clock import Clock
from lagwatch.config.alerts import HeartbeatSettings

_TIMEOUT_S: Final = 10.0

_log = structlog.get_logger()


class Heartbeat:
    """Beats until cancelled; `problem` says what is not well, and "" when all is."""

    def __init__(
        self, settings: HeartbeatSettings, clock: Clock, problem: Callable[[], str]
    ) -> None:
        self.settings = settings
        """May be replaced at any time."""
        self._clock = clock
        self._problem = problem
        self._said = ""

    async def run(self) -> None:
        headers = {"User-Agent": f"lagwatch/{__version__}"}
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers=headers) as client:
            while True:
                if url := self.settings.url.get_secret_value():
                    self._say(self._problem() or await self._beat(client, url))
                await self._clock.sleep(self.settings.interval_s)

    async def _beat(self, client: httpx.AsyncClient, url: str) -> str:
        """Send one; returns why it failed, or ""."""
        try:
            response = await client.request(self.settings.method, url)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return f"no answer: {str(error) or type(error).__name__}"
        return "" if response.is_success else f"answered {response.status_code}"

    def _say(self, reason: str) -> None:
        """Only what is new."""
        if reason and reason != self._said:
            _log.warning("heartbeat_not_sent", reason=reason)
        elif self._said and not reason:
            _log.info("heartbeat_sent_again")
        self._said = reason
