"""Sends a report to channels that can send more than alerts."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lagwatch.clock import Clock
from lagwatch.config.alerts import AlertsSettings
from lagwatch.errors import ConfigError, Fault, NotifyError
from lagwatch.notify.channels.base import Channel, TakesReports
from lagwatch.notify.channels.registry import kind_of
from lagwatch.notify.notice import ReportMessage

ATTEMPTS: Final = 3
_FIRST_PAUSE_S: Final = 2.0
_LONGEST_PAUSE_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Result of sending a report to a channel."""

    channel: str
    answer: str
    """Answer of the receiver, or why the report was not delivered."""
    delivered: bool


def check(names: Sequence[str], alerts: AlertsSettings, *, key: str) -> None:
    """Check that each name is that of a channel that can send a report.

    Raises:
        ConfigError: with every name that is not; `key` is the option that holds the names.
    """
    channels = dict(alerts.channels())
    known = [name for name, channel in channels.items() if kind_of(channel).takes_reports]
    faults = [
        Fault(
            key=key,
            value=name,
            problem="sends alerts only" if name in channels else "no channel has this name",
            remedy=f"Channels that take a report: {', '.join(known) or 'none'}.",
        )
        for name in names
        if name not in known
    ]
    if faults:
        raise ConfigError(faults)


async def deliver(
    channels: Mapping[str, Channel],
    report_message: ReportMessage,
    *,
    timeout_s: float,
    clock: Clock,
) -> list[Delivery]:
    """Send it to all channels at once, with a few retries; closes the channels."""
    return list(
        await asyncio.gather(
            *(
                _deliver(name, channel, report_message, timeout_s, clock)
                for name, channel in channels.items()
            )
        )
    )


async def _deliver(
    name: str, channel: Channel, report_message: ReportMessage, timeout_s: float, clock: Clock
) -> Delivery:
    attempts = 0
    try:
        while True:
            attempts += 1
            try:
                answer = await _sent(name, channel, report_message, timeout_s)
            except NotifyError as error:
                if not error.retryable or attempts == ATTEMPTS:
                    return Delivery(channel=name, answer=str(error), delivered=False)
                pause_s = error.retry_after_s or _FIRST_PAUSE_S * 2 ** (attempts - 1)
                await clock.sleep(min(pause_s, _LONGEST_PAUSE_S))
            else:
                return Delivery(channel=name, answer=answer, delivered=True)
    finally:
        await channel.close()


async def _sent(
    name: str, channel: Channel, report_message: ReportMessage, timeout_s: float
) -> str:
    if not isinstance(channel, TakesReports):
        raise NotifyError(channel=name, message="it sends alerts only", retryable=False)
    try:
        async with asyncio.timeout(timeout_s):
            return await channel.send_report_message(report_message)
    except TimeoutError as error:
        raise NotifyError(
            channel=name, message=f"no answer within {timeout_s:g} s", retryable=True
        ) from error
