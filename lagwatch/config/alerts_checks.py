"""Finds options of `[alerts]` that contradict each other."""

from collections.abc import Iterator
from typing import cast

from lagwatch.config.alerts import KINDS
from lagwatch.config.secret import HIDDEN
from lagwatch.config.walk import Tree
from lagwatch.errors import Fault


def alerts_faults(tree: Tree, *, names_channels: bool = True) -> Iterator[Fault]:
    """Options that contradict each other, as they were written.

    `names_channels`: a name of a channel that is none is a fault.
    """
    alerts = _table(tree, "alerts")
    kind_of: dict[str, str] = {}
    for kind in filter(KINDS.__contains__, alerts):
        for name, channel in _tables(alerts, kind):
            prefix = f"alerts.{kind}.{name}"
            if name in kind_of:
                yield Fault(
                    key=prefix,
                    value="",
                    problem=f"there is a channel of this name already: {kind_of[name]}",
                    remedy="Give each channel a name of its own.",
                )
            kind_of[name] = prefix
            yield from _channel(prefix, channel)
    if not names_channels:
        return
    for option in ("fallback", "also_to"):
        yield from _unknown_channels(f"alerts.{option}", alerts.get(option, ()), tuple(kind_of))
    for name, policy in _tables(alerts, "policies"):
        for option in ("channels", "escalate_to"):
            key = f"alerts.policies.{name}.{option}"
            yield from _unknown_channels(key, policy.get(option, ()), tuple(kind_of))


def _unknown_channels(key: str, channels: object, known: tuple[str, ...]) -> Iterator[Fault]:
    given = channels.split(",") if isinstance(channels, str) else channels
    for channel in given if isinstance(given, list | tuple) else ():
        if isinstance(channel, str) and channel.strip() and channel.strip() not in known:
            yield Fault(
                key=key,
                value=f'"{channel}"',
                problem="no channel has this name",
                remedy=f"Known: {', '.join(known)}."
                if known
                else "Add one, for example [alerts.webhook.NAME].",
            )


def _channel(prefix: str, channel: Tree) -> Iterator[Fault]:
    if channel.get("token") and channel.get("username"):
        yield Fault(
            key=f"{prefix}.token",
            value=HIDDEN,
            problem="is given beside username",
            remedy="Keep one way to authenticate.",
        )


def _tables(table: Tree, name: str) -> Iterator[tuple[str, Tree]]:
    for key, value in _table(table, name).items():
        if isinstance(value, dict):
            yield key, value


def _table(table: Tree, name: str) -> Tree:
    value = table.get(name)
    return cast("Tree", value) if isinstance(value, dict) else {}
