"""What does not fit together in `[alerts]`, and the secrets that its files hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast

from lagwatch.config.alerts import KINDS
from lagwatch.config.given import Tree
from lagwatch.errors import Fault

_FROM_FILES: Final = (
    *("password", "token", "secret", "routing_key", "webhook_url", "service_urls"),
    *("body", "close_body"),
)
"""Options that can stand in a file of their own, `<option>_file`."""
_MUST_BE_READABLE: Final = ("ca_file", "cert_file", "key_file", "text_file", "html_file")
_NEEDED: Final = {
    "slack": "webhook_url",
    "teams": "webhook_url",
    "pagerduty": "routing_key",
    "apprise": "service_urls",
}


def alerts_faults(tree: Tree) -> Iterator[Fault]:
    """Put what the `*_file` options name into the tree; yield what is wrong."""
    alerts = _table(tree, "alerts")
    kind_of: dict[str, str] = {}
    for kind in KINDS:
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
            yield from _channel(prefix, kind, channel)
    for name, policy in _tables(alerts, "policies"):
        yield from _unknown_channels(f"alerts.policies.{name}", policy, tuple(kind_of))


def _unknown_channels(prefix: str, policy: Tree, known: tuple[str, ...]) -> Iterator[Fault]:
    channels = policy.get("channels", ())
    given = channels.split(",") if isinstance(channels, str) else channels
    for channel in given if isinstance(given, list | tuple) else ():
        if isinstance(channel, str) and channel.strip() and channel.strip() not in known:
            yield Fault(
                key=f"{prefix}.channels",
                value=f'"{channel}"',
                problem="no channel has this name",
                remedy=f"Known: {', '.join(known)}."
                if known
                else "Add one, for example [alerts.webhook.NAME].",
            )


def _channel(prefix: str, kind: str, channel: Tree) -> Iterator[Fault]:
    for option in _FROM_FILES:
        yield from _from_file(prefix, option, channel)
    needed = _NEEDED.get(kind)
    if needed is not None and not channel.get(needed) and f"{needed}_file" not in channel:
        yield Fault(
            key=f"{prefix}.{needed}",
            value="",
            problem="is missing",
            remedy=f"Set {prefix}.{needed}_file.",
        )
    if channel.get("token") and channel.get("username"):
        yield Fault(
            key=f"{prefix}.token",
            value="***",
            problem="is given beside username",
            remedy="Keep one way to authenticate.",
        )
    for option in _MUST_BE_READABLE:
        file = channel.get(option)
        if isinstance(file, str):
            yield from _read(f"{prefix}.{option}", file)[1]


def _from_file(prefix: str, option: str, channel: Tree) -> Iterator[Fault]:
    file = channel.get(f"{option}_file")
    if not isinstance(file, str):
        return
    if option in channel:
        yield Fault(
            key=f"{prefix}.{option}",
            value="***",
            problem=f"is given twice: {option} and {option}_file",
            remedy=f"Keep {prefix}.{option}_file only.",
        )
        return
    text, faults = _read(f"{prefix}.{option}_file", file)
    yield from faults
    if text is not None:
        is_template = option in {"body", "close_body"}
        channel[option] = text if is_template else text.removesuffix("\n").removesuffix("\r")


def _read(key: str, file: str) -> tuple[str | None, list[Fault]]:
    try:
        return Path(file).read_text(encoding="utf-8"), []
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        remedy = f"Check the path (it means {Path(file).absolute()}) and its permissions."
        return None, [
            Fault(key=key, value=file, problem=f"cannot be read: {reason}", remedy=remedy)
        ]


def _tables(table: Tree, name: str) -> Iterator[tuple[str, Tree]]:
    for key, value in _table(table, name).items():
        if isinstance(value, dict):
            yield key, value


def _table(table: Tree, name: str) -> Tree:
    value = table.get(name)
    return cast("Tree", value) if isinstance(value, dict) else {}
