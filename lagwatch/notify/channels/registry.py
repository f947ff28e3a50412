"""The kinds of channels by table: every file of this folder that declares a `KIND`."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Final

from lagwatch.clock import Clock
from lagwatch.config.alerts_channels import ChannelSettings
from lagwatch.notify import channels
from lagwatch.notify.channels.base import Channel, ChannelKind


def _found() -> Iterator[ChannelKind[Any]]:  # the settings of each kind are of a type of their own
    for file in iter_modules(channels.__path__):
        if file.name != "registry":
            kind = getattr(import_module(f"{channels.__name__}.{file.name}"), "KIND", None)
            if kind is not None:
                yield kind


KINDS: Final[Mapping[str, ChannelKind[Any]]] = {kind.table: kind for kind in _found()}


def kind_of(settings: ChannelSettings) -> ChannelKind[Any]:
    """The kind that these settings belong to."""
    return next(kind for kind in KINDS.values() if isinstance(settings, kind.settings))


def open_channel(name: str, settings: ChannelSettings, clock: Clock) -> Channel:
    """A channel; its library is imported now.

    Raises:
        ConfigError: the library is not installed, or an option cannot be used.
    """
    return kind_of(settings).open(name, settings, clock)
