"""Finds policies and mutes whose options cannot have the effect that they name."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lagwatch.clock import SystemClock
from lagwatch.config.alerts import AlertsSettings, MuteSettings, PolicySettings
from lagwatch.config.alerts_channels import HTTP
from lagwatch.errors import Fault

_LIMITS: Final = ("max_time_lag_s", "max_lag", "catch_up_within_s", "lost_records")
_ANCHORS: Final = re.compile(r"\\[AZ]|[\^$()]|\?:")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*:(?!\s)", re.IGNORECASE)
_HOST: Final = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?", re.IGNORECASE)


def policy_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """Options of policies that contradict each other or have no effect."""
    for name, policy in alerts.policies.items():
        key = f"alerts.policies.{name}"
        yield from _never_sent(key, policy)
        yield from _floors(key, policy)
        yield from _names(key, policy)
        yield from _runbook(key, policy)
        known = {*policy.channels, *alerts.also_to}
        for channel in policy.escalate_to:
            if channel in known:
                problem = "gets the notices of the policy already, so nothing escalates"
                remedy = "Name another channel, or remove it from channels and alerts.also_to."
                yield _fault(f"{key}.escalate_to", channel, problem, remedy)


def mute_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """Mutes that match nothing, or are over."""
    now_ms = SystemClock().now_ms()
    for name, mute in alerts.mutes.items():
        key = f"alerts.mutes.{name}"
        yield from _names(key, mute)
        if mute.ends and mute.ends_at.timestamp() * 1000 <= now_ms:
            yield _fault(f"{key}.ends", mute.ends, "is past: it mutes nothing", "Remove the mute.")


def file_doubts(alerts: AlertsSettings) -> Iterator[Fault]:
    """A file that cannot be made: its missing folders are, where that is possible."""
    folder = alerts.file.absolute().parent
    found = next((path for path in (folder, *folder.parents) if path.exists()), Path("/"))
    if not found.is_dir() or not os.access(found, os.W_OK | os.X_OK):
        problem = "cannot be written here" if found.is_dir() else "is no folder"
        remedy = "Name a file in a folder that lagwatch may write to."
        yield _fault("alerts.file", str(alerts.file), f"{found} {problem}", remedy)


def _never_sent(key: str, policy: PolicySettings) -> Iterator[Fault]:
    limits = [option for option in _LIMITS if getattr(policy, option)]
    if policy.objective_share and not limits:
        problem, remedy = "has no limit to keep to", f"Set one of {', '.join(_LIMITS)}."
        yield _fault(f"{key}.objective_share", policy.objective_share, problem, remedy)
    if not limits:
        return
    shown = ", ".join(limits)
    if policy.threshold == "never":
        problem = f"opens no incident, so {shown} has no effect"
        remedy = 'Set threshold = "error", or remove the limits.'
        yield _fault(f"{key}.threshold", "never", problem, remedy)
    if policy.threshold == "error" and policy.objective_severity == "warning":
        problem = f'is below threshold = "error", so a missed limit ({shown}) is never sent'
        remedy = 'Set objective_severity = "error", or threshold = "warning".'
        yield _fault(f"{key}.objective_severity", "warning", problem, remedy)


def _floors(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """Below its floor a group counts as OK, also if it misses a limit."""
    for floor, limit in (("minimum_lag", "max_lag"), ("minimum_time_lag_s", "max_time_lag_s")):
        least, most = getattr(policy, floor), getattr(policy, limit)
        if 0 < most < least:
            problem = f"is above {limit} ({most:g}): between the two nothing is sent"
            yield _fault(f"{key}.{floor}", f"{least:g}", problem, f"Set it to {most:g} or less.")


def _names(key: str, entry: PolicySettings | MuteSettings) -> Iterator[Fault]:
    for option in ("cluster", "group", "topic"):
        pattern = getattr(entry, option, "")
        if pattern and not _ANCHORS.sub("", pattern) and not re.search(pattern, "a"):
            problem, remedy = "matches no name", 'Write "" for all names, or a part of a name.'
            yield _fault(f"{key}.{option}", pattern, problem, remedy)


def _runbook(key: str, policy: PolicySettings) -> Iterator[Fault]:
    """It may be a text; what looks like an address must be one that can be opened."""
    text = policy.runbook
    if text.startswith(HTTP) or not (_SCHEME.match(text) or _HOST.fullmatch(text)):
        return
    problem, remedy = "is no http(s) URL, so it is no link", "Write https://host/path, or a text."
    yield _fault(f"{key}.runbook", text, problem, remedy)


def _fault(key: str, value: object, problem: str, remedy: str) -> Fault:
    shown = f'"{value}"' if isinstance(value, str) and not value.isdigit() else str(value)
    return Fault(key=key, value=shown, problem=problem, remedy=remedy)
