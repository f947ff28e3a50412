"""From the configuration to channels; broken templates are refused here."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lagwatch.clock import Clock, SystemClock
from lagwatch.config.alerts import KINDS, AlertsSettings
from lagwatch.config.alerts_channels import (
    AlertmanagerSettings,
    AnyChannelSettings,
    AppriseSettings,
    EmailSettings,
    PagerDutySettings,
    SlackSettings,
    TeamsSettings,
    WebhookSettings,
)
from lagwatch.errors import ConfigError, Fault
from lagwatch.notify.channels.base import Channel
from lagwatch.notify.render import all_faults

Check = tuple[str, str, bool]
"""(option, template, is HTML)."""
_INSTALL: Final = "Install it: pip install 'lagwatch[apprise]'."


def build(settings: AlertsSettings, clock: Clock) -> dict[str, Channel]:
    """All channels by name.

    Raises:
        ConfigError: with all faults of their templates, or a certificate that cannot be used.
    """
    faults = template_faults(settings)
    if faults:
        raise ConfigError(faults)
    return {name: build_one(name, channel, clock) for name, channel in settings.channels()}


def build_one(name: str, settings: AnyChannelSettings, clock: Clock) -> Channel:
    """One channel; its library is imported now.

    Raises:
        ConfigError: the library is not installed, or a certificate cannot be used.
    """
    match settings:
        case WebhookSettings():
            from lagwatch.notify.channels.webhook import Webhook

            return Webhook(name, settings, clock)
        case EmailSettings():
            from lagwatch.notify.channels.email import Email

            return Email(name, settings)
        case AlertmanagerSettings():
            from lagwatch.notify.channels.alertmanager import Alertmanager

            return Alertmanager(name, settings, clock)
        case PagerDutySettings():
            from lagwatch.notify.channels.pagerduty import PagerDuty

            return PagerDuty(name, settings)
        case SlackSettings() | TeamsSettings():
            return _chat(name, settings)
        case AppriseSettings():
            return _apprise(name, settings)


def _chat(name: str, settings: SlackSettings | TeamsSettings) -> Channel:
    from lagwatch.notify.channels import slack, teams
    from lagwatch.notify.channels.chat import ChatWebhook

    form = slack if isinstance(settings, SlackSettings) else teams
    return ChatWebhook(name, settings, form.payload, form.bulletin, form.PACKING)


def channel_faults(settings: AlertsSettings) -> list[Fault]:
    """What is wrong with certificates, libraries and URLs: found only by building the channels."""
    faults: list[Fault] = []
    for name, channel in settings.channels():
        try:
            build_one(name, channel, SystemClock())
        except ConfigError as error:
            faults += error.faults
    return faults


def template_faults(settings: AlertsSettings) -> list[Fault]:
    """What is wrong with the templates of all channels."""
    checks = [
        check
        for kind in KINDS
        for name, channel in getattr(settings, kind).items()
        for check in _checks(f"alerts.{kind}.{name}", channel)
    ]
    return all_faults(checks)


def _checks(prefix: str, settings: AnyChannelSettings) -> Iterator[Check]:
    if isinstance(settings, WebhookSettings):
        for option in ("url", "close_url", "body", "close_body"):
            shown = option
            if option in {"body", "close_body"} and getattr(settings, f"{option}_file"):
                shown = f"{option}_file"
            yield f"{prefix}.{shown}", getattr(settings, option).get_secret_value(), False
        for header, template in settings.headers.items():
            yield f"{prefix}.headers.{header}", template, False
    if isinstance(settings, EmailSettings):
        yield f"{prefix}.subject", settings.subject, False
        for option, html in (("text_file", False), ("html_file", True)):
            file: Path | None = getattr(settings, option)
            if file is not None:
                yield f"{prefix}.{option}", file.read_text(encoding="utf-8"), html


def _apprise(name: str, settings: AppriseSettings) -> Channel:
    try:
        from lagwatch.notify.channels.apprise import AppriseChannel
    except ModuleNotFoundError as error:
        fault = Fault(key=f"alerts.apprise.{name}", value="", problem=f"{error}", remedy=_INSTALL)
        raise ConfigError([fault]) from error
    return AppriseChannel(name, settings)
