"""Finds URLs of channels that can never be reached: by their port, or as the channel may not."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import SplitResult, urlsplit

from lagwatch.config.alerts import AlertsSettings
from lagwatch.config.alerts_channels import (
    HTTP,
    AuthenticatedSettings,
    ChannelSettings,
    HttpChannelSettings,
)
from lagwatch.config.secret import HIDDEN, Url
from lagwatch.errors import Fault
from lagwatch.notify.channels.registry import kind_of
from lagwatch.notify.public_address import is_public

_MARKS: Final = ("{{", "{%")
"""Begin what a template puts in."""
_INSIDE: Final = (".local", ".internal", ".svc", ".lan", ".home.arpa")
"""Ends of names that are not public."""


def address_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """All URLs of channels, of the heartbeat and of the page."""
    for option in ("page_url", "heartbeat.url"):
        place = alerts.page_url if option == "page_url" else alerts.heartbeat.url
        yield from _host_and_port(f"alerts.{option}", place.get_secret_value())
    yield from _sent_twice(alerts)
    for name, settings in alerts.channels():
        prefix = f"alerts.{kind_of(settings).table}.{name}"
        for option, url in _urls(settings).items():
            yield from _host_and_port(f"{prefix}.{option}", url)
            if isinstance(settings, HttpChannelSettings):
                yield from _allowed(prefix, url, settings)
            if isinstance(settings, AuthenticatedSettings):
                yield from _unencrypted(prefix, url, settings)
        if isinstance(settings, AuthenticatedSettings):
            yield from _half(prefix, settings)


def _sent_twice(alerts: AlertsSettings) -> Iterator[Fault]:
    """Channels of one policy with the same address: the receiver gets everything twice."""
    urls = {
        name: sorted(_urls(settings).values())
        for name, settings in alerts.channels()
        if isinstance(settings, HttpChannelSettings)
    }
    for policy, settings in alerts.policies.items():
        seen: dict[str, str] = {}
        for channel in dict.fromkeys((*(settings.channels or urls), *alerts.also_to)):
            for url in urls.get(channel, ()):
                other = seen.setdefault(url, channel)
                if other != channel:
                    yield Fault(
                        key=f"alerts.policies.{policy}.channels",
                        value=f'"{channel}"',
                        problem=f"has the address of {other}: its receiver gets each notice twice",
                        remedy="Name one of the two.",
                    )


def _half(prefix: str, settings: AuthenticatedSettings) -> Iterator[Fault]:
    if settings.password and not settings.username:
        yield Fault(
            key=f"{prefix}.password",
            value=HIDDEN,
            problem="is not sent without username",
            remedy="Set username, too.",
        )


def _urls(settings: ChannelSettings) -> Mapping[str, str]:
    """The URLs of a channel by option."""
    found = {}
    for option in type(settings).model_fields:
        value = getattr(settings, option)
        urls = value if isinstance(value, tuple) else (value,)
        for number, url in enumerate(urls):
            if isinstance(url, Url) and url.get_secret_value():
                place = f"{option}[{number}]" if isinstance(value, tuple) else option
                found[place] = url.get_secret_value()
    return found


def _parts(url: str) -> SplitResult | None:
    """The parts of a URL; None if its host is not known before a template is filled in.

    Without a host if it cannot be parsed.
    """
    beginning, mark, _ = url.partition("://")
    host = url[len(beginning) + len(mark) :].partition("/")[0]
    if not mark or any(sign in host for sign in _MARKS):
        return None
    try:
        return urlsplit(f"{beginning}://{host}")
    except ValueError:  # half of a pair of brackets
        return SplitResult(beginning, "", "", "", "")


def _host_and_port(key: str, url: str) -> Iterator[Fault]:
    parts = _parts(url)
    if parts is None:
        return
    if url.startswith(HTTP) and not parts.hostname:
        problem, remedy = "names no host", "Write https://host/path."
        yield Fault(key=key, value=Url.shown(url), problem=problem, remedy=remedy)
        return
    try:
        wrong = parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        problem, remedy = "its port is not a number from 1 to 65535", "Correct the port."
        yield Fault(key=key, value=Url.shown(url), problem=problem, remedy=remedy)


def _allowed(prefix: str, url: str, settings: HttpChannelSettings) -> Iterator[Fault]:
    parts = _parts(url)
    host = (parts.hostname or "") if parts is not None else ""
    if not host:
        return
    allowed = tuple(name.lower() for name in settings.allow_hosts)
    if allowed and not any(fnmatchcase(host, name) for name in allowed):
        yield Fault(
            key=f"{prefix}.allow_hosts",
            value=", ".join(allowed),
            problem=f"leaves out the channel's own host {host}: nothing is sent",
            remedy=f"Add {host}.",
        )
    if not settings.private_networks and _is_private(host):
        yield Fault(
            key=f"{prefix}.private_networks",
            value="false",
            problem=f"refuses the channel's own host {host}: nothing is sent",
            remedy="Set it to true, or name a public host.",
        )


def _unencrypted(prefix: str, url: str, settings: AuthenticatedSettings) -> Iterator[Fault]:
    parts = _parts(url)
    host = (parts.hostname or "") if parts is not None else ""
    inside = _is_private(host) or "." not in host or host.endswith(_INSIDE)
    if parts is None or parts.scheme != "http" or inside:
        return
    for option in ("token", "password"):
        if getattr(settings, option):
            yield Fault(
                key=f"{prefix}.{option}",
                value=HIDDEN,
                problem=f"is sent to {host} without encryption",
                remedy="Use https.",
            )


def _is_private(host: str) -> bool:
    """True of an address that is not public; other names are looked up when they are used."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not is_public(host)
    except ValueError:
        return False
